// SPDX-License-Identifier: Apache-2.0
// The output while a run is followed: worker lines with their rank, remarks about events, and a
// live line with the run's age and newest figures.
#ifndef RUN_MONITOR_VIEW_H
#define RUN_MONITOR_VIEW_H

#include "follow/follow.h"
#include "follow/log_tail.h"
#include "run/inputs/input_renew.h"
#include "run/inputs/input_resend.h"
#include "run/monitor.h"
#include "run/results/results_drain.h"

enum {
    VIEW_FIGURES_MAX = 8,
    VIEW_NAME_BYTES_MAX = 24,
    VIEW_LABEL_BYTES_MAX = 320,
    VIEW_DRAW_MS = 250,
    VIEW_BAR_BYTES_MAX = 512,
    VIEW_BAR_STALE_MS = 5000,      // then another rank's bar takes its place
    VIEW_LEFT_MS_MAX = 1000000000, // a longer remaining time is not shown
    VIEW_BAR_PLAIN_MS = 10000,     // between two states where lines cannot be redrawn
};

// The newest state of a progress bar. One bar is shown, that of the lowest rank that draws one.
struct view_bar {
    struct follow_line line; // node NULL: none
    struct follow_file file; // and text: of line
    char text[VIEW_BAR_BYTES_MAX];
    int64_t at_ms, shown_ms;
};

// The native trainer's progress, from its newest record.
struct view_training {
    bool known;
    int64_t epoch, epochs;
    double done, first_done; // share of all epochs, now and in the first record
    int64_t first_ms;
    double loss, top1, images_per_s;
};

struct monitor_view {
    struct follow *follow;
    const struct monitor_options *options;
    struct {
        char name[VIEW_NAME_BYTES_MAX];
        double value;
    } figures[VIEW_FIGURES_MAX]; // newest value of each metric
    size_t figure_count;
    struct view_bar bar;
    struct view_training training;
    int64_t drawn_ms;
    struct results_drain drain;
    struct input_resend resend;
    struct input_renew renew;
    struct tail tail;
    const char *coordinator; // the newest one that was shown; NULL: none
    bool shown_tree;         // that /opt/ml is not mounted
    bool muted;              // the user is detaching: output is kept but not shown
};

void monitor_view_init(struct monitor_view *v, struct follow *f, const struct monitor_options *o);
// Shows the lines that are on this side already.
void monitor_view_replay(struct monitor_view *v);
// Shows the lines that were held back because of options->tail.
void monitor_view_tail(struct monitor_view *v);
void monitor_view_close(struct monitor_view *v);
// When the last agent said that the run was over (wall clock), or now.
int64_t monitor_view_ended_ms(const struct follow *f);

extern const struct follow_view monitor_view; // its context is a struct monitor_view

#endif
