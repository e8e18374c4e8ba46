// SPDX-License-Identifier: Apache-2.0
// One command of dtctl: its name, its arguments and flags, its function.
//
// Each cmd_<verb>.c defines one `const struct command`; COMMANDS is the list of them.
// Help, manual, completions and the check of arguments come from these and from the option tables.
#ifndef DTCTL_COMMAND_H
#define DTCTL_COMMAND_H

#include "conf/render.h"
#include "fleet/embedded_files.h"
#include "ui/context.h"

#include <stddef.h>

enum {
    COMMAND_ANY_CONFIG = 1, // runs even when the configuration is wrong
    COMMAND_REST = 2,       // takes a command after "--" (or from the first argument on)
    COMMAND_FOR_SHELL = 4,  // its output is for a shell: nothing is remarked
    COMMAND_FILE = 8,       // its first argument, if there is one, is the configuration file
};

// A run function returns 0, -1 with e set, or a process exit status of its own.
struct command {
    struct render_verb verb;
    const struct option_table *rows; // own flags; NULL: none
    size_t flags_bytes;              // size of the struct that rows fill
    unsigned marks;
    size_t args_min, args_max;
    int (*run)(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e);
};

// Every command, in the order of help. cmd_<name> is in cmd_<name>.c.
// clang-format off
#define COMMANDS(X)                                                                                \
    X(init) X(import) X(plan) X(up) X(status) X(train) X(run) X(exec) X(ssh) X(push) X(fetch)      \
    X(path) X(compare) X(report) X(logs) X(ps) X(top) X(stop) X(extend) X(adopt) X(down) X(gc) \
    X(data) X(state) X(bench) X(doctor) X(config) X(completion) X(version)
// clang-format on
#define COMMAND_EXTERN(name) extern const struct command cmd_##name;
COMMANDS(COMMAND_EXTERN)
#undef COMMAND_EXTERN

extern const struct command *const commands[]; // NULL-terminated
extern const struct render_program command_program;

enum { COMMAND_TOPICS_MAX = 64 };
// Fills command_program.topics with the documents of docs/ that dtctl carries.
void command_topics_find(struct arena *a);
const struct embed_file *command_topic(struct arena *a, const char *name); // NULL: there is none

const struct command *command_find(const char *name);
const char *const *command_names(void); // NULL-terminated
// " (did you mean 'x'?)" for a word that is no command, or "".
const char *command_meant(struct arena *a, const char *word);
// The arguments after "--" (without it, all of them) as a line for a node's shell. One word is that
// line; several words are quoted, so that each arrives as it is. "": there are none.
const char *command_line(struct arena *a, const struct cli_rest *rest);
// All option tables, with the flags of every command: for the manual and completions.
void command_all_options(struct option_set *set, struct arena *a);

#endif
