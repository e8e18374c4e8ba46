// SPDX-License-Identifier: Apache-2.0
// Verbs of dtrun that users call beside the agent: their flags, their help, and how errors end
// them.
#ifndef DTRUN_VERB_H
#define DTRUN_VERB_H

#include "conf/render.h"

struct verb {
    const char *name;
    const struct render_program *program;
    const struct option_table *table; // with OPTION_ROW_HELP
    void *flags;                      // that the table describes
    // words: the arguments that are no flags. Returns the exit status. With an error in *e it is
    // printed.
    int (*run)(const char *const *words, size_t count, struct err *e);
};

extern const struct verb verb_shard_range; // this node's part of a range of rows
extern const struct verb verb_wait;        // until other processes have written files of this node

// argv without the program's name and the verb. Returns the exit status.
int verb_main(const struct verb *v, int argc, const char *const *argv, char *const *env);

#endif
