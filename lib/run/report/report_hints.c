// SPDX-License-Identifier: Apache-2.0
// Next steps that figures of the run support. A hint is a row of the table: a function that adds
// its words, or nothing.
#include "run/report/html.h"
#include "run/report/report.h"

#include <stdlib.h>
#include <string.h>

// Shares above which a hint is given.
static const double DATA_SHARE = 0.1, COMM_SHARE = 0.3, BEFORE_SHARE = 0.3, REPEATED_SHARE = 0.05;
enum { SLOW_VALUES_MIN = 8, BEFORE_MS_MIN = 10000 };
static const double SLOW_FACTOR = 1.1;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Milliseconds from a value to the next; -1: there are too few.
static double interval_of(const struct curve *c) {
    uint64_t n = c->count + c->not_finite;
    return n < SLOW_VALUES_MIN ? -1 : (double)(c->last_place - c->first_place) / (double)(n - 1);
}

// Values have the time at which they came to this computer. They say how long the ranks took only
// where they came during the run.
static bool came_during_run(const struct report_page *p, const struct curve *c) {
    return 2 * (c->last_place - c->first_place) >= report_running_ms(&p->runs[0]);
}

void report_find_slow(struct report_page *p) {
    struct report_slow *out = &p->slow;
    for (size_t i = 0; p->count == 1 && i < p->series[0].count; i++) {
        const struct plot *x = &p->series[0].plots[i];
        if (x->axis != PLOT_TIME || x->count < 2)
            continue;
        double *all = heap_alloc(x->count * sizeof *all);
        struct report_slow slow = {.metric = x->name};
        bool during = false;
        for (size_t k = 0; k < x->count; k++) {
            all[k] = interval_of(x->curves[k].curve);
            if (all[k] > slow.ms) {
                slow.ms = all[k];
                slow.rank = x->curves[k].place;
                during = came_during_run(p, x->curves[k].curve);
            }
        }
        qsort(all, x->count, sizeof *all, by_value);
        slow.median_ms = (all[(x->count - 1) / 2] + all[x->count / 2]) / 2;
        bool comparable = all[0] >= 0 && during; // every rank has enough values
        free(all);
        if (comparable && slow.ms >= slow.median_ms * SLOW_FACTOR &&
            slow.ms * out->median_ms >= out->ms * slow.median_ms)
            *out = slow;
    }
}

// Of the time of the steps.
static double step_share(const struct report_run *r, int part) {
    double all = report_steps_ms(&r->steps, -1);
    return all > 0 ? report_steps_ms(&r->steps, part) / all : 0;
}

static void hint_data(const struct report_page *p, const struct report_run *r, struct strbuf *out) {
    double share = step_share(r, REPORT_STEP_DATA);
    (void)p;
    if (share > DATA_SHARE)
        strbuf_addf(out,
                    "The ranks waited for data in %.0f %% of the time of the steps "
                    "(train.data_ms). Try more train.decode_threads, or data that is decoded or "
                    "packed before (dtctl data pack).",
                    share * 100);
}

static void hint_comm(const struct report_page *p, const struct report_run *r, struct strbuf *out) {
    double share = step_share(r, REPORT_STEP_COMM);
    (void)p;
    if (share > COMM_SHARE)
        strbuf_addf(out,
                    "The ranks waited for collectives in %.0f %% of the time of the steps "
                    "(train.comm_exposed_ms). Try a greater train.batch, train.local_steps, or "
                    "dtctl bench to measure the network.",
                    share * 100);
}

static void hint_slow(const struct report_page *p, const struct report_run *r, struct strbuf *out) {
    const struct report_slow *slow = &p->slow;
    (void)r;
    if (!slow->metric)
        return;
    strbuf_addf(out, "Rank %lld takes %.3g s from one value of ", (long long)slow->rank,
                slow->ms / 1000);
    html_cut(out, slow->metric, 100);
    strbuf_addf(out,
                " to the next, the median of the ranks is %.3g s. Try dtctl doctor, and compare "
                "the node of that rank and its share of the data with the others.",
                slow->median_ms / 1000);
}

static void hint_repeated(const struct report_page *p, const struct report_run *r,
                          struct strbuf *out) {
    char age[STR_HUMAN_BYTES_MAX];
    double all = report_steps_ms(&r->steps, -1) + r->steps.repeated_ms;
    (void)p;
    if (all > 0 && r->steps.repeated_ms > all * REPEATED_SHARE)
        strbuf_addf(out,
                    "Steps that took %s were repeated after a restart. Try a smaller "
                    "train.checkpoint_every_steps.",
                    str_human_ms(age, (int64_t)r->steps.repeated_ms));
}

static void hint_before(const struct report_page *p, const struct report_run *r,
                        struct strbuf *out) {
    int64_t whole = report_whole_ms(r), first = r->times.rounds[0].started_ms;
    int64_t made = r->times.made_ms ? r->times.made_ms : r->run->run.created_ms;
    (void)p;
    if (first - made > BEFORE_MS_MIN && (double)(first - made) > (double)whole * BEFORE_SHARE)
        strbuf_addf(out,
                    "Push, setup and start took %.0f %% of the time. Try deliver = \"stream\" for "
                    "inputs; a second run on the same nodes sends only what has changed.",
                    (double)(first - made) / (double)whole * 100);
}

static void (*const HINTS[])(const struct report_page *, const struct report_run *,
                             struct strbuf *) = {
    hint_data, hint_comm, hint_slow, hint_repeated, hint_before,
};

void report_hints(const struct report_page *p, const struct report_run *r, struct strbuf *out) {
    struct strbuf all = {0};
    for (size_t i = 0; i < sizeof HINTS / sizeof *HINTS; i++) {
        struct strbuf one = {0};
        HINTS[i](p, r, &one);
        if (one.len)
            strbuf_addf(&all, "<li>%s</li>\n", strbuf_cstr(&one));
        strbuf_fini(&one);
    }
    if (all.len)
        strbuf_addf(out, "<h2>What to do</h2>\n<ul>\n%s</ul>\n", strbuf_cstr(&all));
    strbuf_fini(&all);
}
