// SPDX-License-Identifier: Apache-2.0
// What people see while a run goes on: worker lines with their rank, remarks about events, and a
// live line with the run's age and newest figures.
#ifndef JOB_ATTEND_VIEW_H
#define JOB_ATTEND_VIEW_H

#include "job/attend.h"
#include "job/follow.h"
#include "job/rescue.h"

enum {
    VIEW_FIGURES_MAX = 8,
    VIEW_NAME_BYTES_MAX = 24,
    VIEW_LABEL_BYTES_MAX = 320,
    VIEW_DRAW_MS = 250
};

struct attend_view {
    struct follow *follow;
    const struct attend_options *options;
    struct {
        char name[VIEW_NAME_BYTES_MAX];
        double value;
    } figures[VIEW_FIGURES_MAX]; // newest value of each metric
    size_t figure_count;
    int64_t drawn_ms;
    struct rescue rescue;
    bool muted; // somebody is leaving: what comes is kept, and not shown
};

void attend_view_init(struct attend_view *v, struct follow *f, const struct attend_options *o);
// Shows the lines that are on this side already.
void attend_view_replay(struct attend_view *v);
// When the last agent said that the run was over (wall clock), or now.
int64_t attend_view_ended_ms(const struct follow *f);

extern const struct follow_view attend_view; // its context is a struct attend_view

#endif
