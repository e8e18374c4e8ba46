// SPDX-License-Identifier: Apache-2.0
// state.every: while a run is followed, whole generations of the state of its nodes come to this
// side (publish.h), where they replace those of nodes that are lost.
//
// runs/<run>/published/<node>/<number>/state/ is a generation, complete since its rename; the two
// newest are kept.
#ifndef RUN_STATE_PUBLISHED_H
#define RUN_STATE_PUBLISHED_H

#include "run/results/publish.h"

// Nothing without state.every. publish_close ends it.
void state_published_open(struct publish *p, struct follow *f);

// The folder of the newest generation, whose content is `state`; NULL: there is none.
const char *state_published_newest(struct context *s, const struct run *run, const char *node);
// Removes the generations of a node; NULL: of all nodes.
int state_published_remove(struct context *s, const struct run *run, const char *node,
                           struct err *e);

#endif
