// SPDX-License-Identifier: Apache-2.0
// outputs.every: while a run is followed, the finished files of its output and model come to this
// side (publish.h, content/finished_files.h).
//
// runs/<run>/live/<node>/{output,model}/ mirrors the files that the node has finished: what it has
// changed comes anew, what it has removed goes. When the run is over, results.h fetches the rest to
// them. They replace the results of a node that is lost. Every file there is whole.
//
// live/<node>/disk names the disk that the files are from (finished_files_disk). Files of a node
// whose disk was replaced meanwhile stay whatever the new disk has.
#ifndef RUN_OUTPUT_PUBLISHED_H
#define RUN_OUTPUT_PUBLISHED_H

#include "run/results/publish.h"

// Nothing without run->output_every_ms. One of several followers of a run does it.
void output_published_open(struct publish *p, struct follow *f);

// runs/<run>/live, or <node> in it.
const char *output_published_path(struct context *s, const struct run *run, const char *node);
bool output_published_has(struct context *s, const struct run *run, const char *node);
// Moves what has come of these kinds to the node's part `to`, which does not exist yet or lacks it.
int output_published_move(struct context *s, const struct run *run, const char *node,
                          unsigned kinds, const char *to, struct err *e);
// Removes from the part what the node had removed, when the run ended, of what came before. The
// part has the node's newest list.
int output_published_settle(struct context *s, const struct run *run, const char *node,
                            const char *part, struct err *e);
int output_published_remove(struct context *s, const struct run *run, struct err *e);
// Waits until no other dtctl does it; *lock holds it off. ERR_BUSY: in vain.
int output_published_stop(struct context *s, const struct run *run, int *lock, struct err *e);

#endif
