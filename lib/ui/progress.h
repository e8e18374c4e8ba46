// SPDX-License-Identifier: Apache-2.0
// Progress of one operation on many nodes: a row per node with amount, rate and time left.
//
//     progress_init(&p, &arena, &screen, "push", names, count);
//     progress_set(&p, i, done, total); // at any rate
//     progress_state(&p, i, "connecting"); // text instead of figures
//     progress_end(&p, i, ok, "1.2 GB in 3.4 s");
//     progress_show(&p, now_ms); // draws at most 10 times a second
//     progress_fini(&p, now_ms);
//
// On a terminal the rows are a live block. Otherwise one line per node is printed at its end, and
// others at intervals; in JSON style events {"event":"progress","operation":…,"node":…}. Time is an
// argument (monotonic). All memory is in the arena.
#ifndef UI_PROGRESS_H
#define UI_PROGRESS_H

#include "base/arena.h"
#include "ui/screen.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROGRESS_DRAW_MS = 100,        // between two drawings on a terminal
    PROGRESS_PLAIN_MS = 5000,      // between two lines about one row without a terminal
    PROGRESS_RATE_SAMPLES = 16,    // number of samples for the rate
    PROGRESS_RATE_SAMPLE_MS = 250, // least distance of two samples
};

struct progress_row {
    const char *name, *state;
    uint64_t done, total; // bytes; total 0: unknown
    bool ended, failed, reported;
    int64_t reported_ms;
    struct {
        int64_t at_ms;
        uint64_t done;
    } sample[PROGRESS_RATE_SAMPLES];
    size_t sample_count;
};

struct progress {
    struct arena *arena;
    struct screen *screen;
    const char *operation;
    struct progress_row *rows;
    size_t count;
    int64_t started_ms, drawn_ms;
};

void progress_init(struct progress *p, struct arena *a, struct screen *s, const char *operation,
                   const char *const *names, size_t count, int64_t now_ms);
void progress_set(struct progress *p, size_t row, uint64_t done, uint64_t total);
void progress_state(struct progress *p, size_t row, const char *state); // state is copied
void progress_end(struct progress *p, size_t row, bool ok, const char *state);
void progress_show(struct progress *p, int64_t now_ms);
// Keeps the last drawing, unless no data was moved and no row failed.
void progress_fini(struct progress *p, int64_t now_ms);

// Formats one row without newline, at most columns wide; for tests and plain lines.
void progress_format(const struct progress *p, const struct progress_row *row, int columns,
                     struct strbuf *out);
// Bytes per second over the last samples; 0: unknown.
double progress_rate(const struct progress_row *row);

#endif
