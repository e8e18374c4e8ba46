// SPDX-License-Identifier: Apache-2.0
// --watch: commands that show a state once, or again and again.
#ifndef DTCTL_WATCH_H
#define DTCTL_WATCH_H

#include "conf/cli.h"
#include "ui/context.h"

struct watch_flags {
    bool all, watch;
    int64_t every_ms;
};

#define WATCH_ROWS(verb)                                                                           \
    {.flag = "watch",                                                                              \
     .verbs = verb,                                                                                \
     .type = OPTION_BOOL,                                                                          \
     .text = "false",                                                                              \
     .offset = offsetof(struct watch_flags, watch),                                                \
     .marks = OPTION_NO_ENV,                                                                       \
     .help = "Repeat until Ctrl-C; a terminal shows only the newest output."},                     \
    {                                                                                              \
        .flag = "every", .verbs = verb, .type = OPTION_DURATION, .text = "2s", .min = 100,         \
        .max = 86400000, .offset = offsetof(struct watch_flags, every_ms), .marks = OPTION_NO_ENV, \
        .arg = "TIME", .help = "With --watch: time between two outputs."                           \
    }

// fn returns 0, -1, or WATCH_OVER when there is nothing left to look at.
enum { WATCH_OVER = 1 };
typedef int watch_fn(struct context *s, const struct cli_rest *rest, const struct watch_flags *f,
                     struct err *e);

// To be called by fn before it prints: on a terminal a look replaces the last one; elsewhere an
// empty line parts them.
void watch_begin(struct context *s, const struct watch_flags *f);
// Calls fn once, or with --watch until a signal or WATCH_OVER. A node that does not answer ends
// nothing then.
int watch_again(struct context *s, watch_fn *fn, const struct cli_rest *rest,
                const struct watch_flags *f, struct err *e);

#endif
