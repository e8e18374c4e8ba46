// SPDX-License-Identifier: Apache-2.0
// A page of one run or of several, as one file of HTML: no network, no script, at most
// REPORT_BYTES_MAX, whatever the number of values. All of it comes from files on this side.
//
//     report_init(&p, context, count);
//     for (…) report_load(&p, &run, e);
//     report_write(&p, version, &settings, &figures, &html);
#ifndef RUN_REPORT_H
#define RUN_REPORT_H

#include "run/compare/compare.h"
#include "run/report/plot.h"
#include "ui/side_by_side.h"

enum {
    REPORT_BYTES_MAX = 1000000,
    REPORT_EVENTS_HEAD = 100, // events that are shown: the first ones,
    REPORT_EVENTS_TAIL = 100, // and the last ones
    REPORT_EVENT_BYTES_MAX = 240,
    REPORT_ROUNDS_MAX = 256,  // rounds with a place in the time line
    REPORT_STEPS_MAX = 65536, // marks of a training; they get coarser
    REPORT_SOURCES_MAX = 4,
};

#define REPORT_BEGIN "<!DOCTYPE html>\n" // of each page

struct report_event {
    int64_t time_ms;
    char node[72], kind[40], text[REPORT_EVENT_BYTES_MAX];
};

// When the parts of a run were; wall clock, 0: not known.
struct report_round {
    int64_t started_ms;    // all ranks ran
    int64_t broke_ms;      // the first failure or stop
    int64_t first_exit_ms; // the first rank ended
    int64_t exited_ms;     // the last rank ended
};

struct report_times {
    int64_t made_ms, pushed_ms, prepared_ms, fetched_ms, first_ms, last_ms;
    struct report_round rounds[REPORT_ROUNDS_MAX];
    size_t round_count;
};

// The time of the steps that the result of a native training is made of: steps that were repeated
// after a restart count once.
enum { REPORT_STEP_DATA, REPORT_STEP_COMPUTE, REPORT_STEP_COMM, REPORT_STEP_PARTS };
struct report_step_mark {
    int64_t step;
    double ms[REPORT_STEP_PARTS]; // up to here
};
struct report_steps {
    struct report_step_mark *marks; // in the order of their steps; NULL: no step has a time
    size_t count, room;
    double repeated_ms;
};

struct report_run {
    struct compare_run *run;
    struct run_history history;
    struct report_times times;
    struct report_steps steps;
    struct report_event *events; // head, then the ring of the tail
    uint64_t event_count;
    const struct json *trainer; // NULL: none
    int64_t cost_mils;          // -1: not known
};

// The rank of one run that is slower than the others, by the time between its values.
struct report_slow {
    const char *metric; // NULL: none is
    int64_t rank;
    double ms, median_ms;
};
struct report_page {
    struct context *context;
    struct compare_run *compared; // one for each run
    struct report_run *runs;
    size_t count, wanted; // runs that are loaded; all
    struct plot_set series[REPORT_SOURCES_MAX];
    size_t series_count;
    struct report_slow slow;
};

void report_init(struct report_page *p, struct context *s, size_t runs);
// ERR_NOT_FOUND: nothing but the record of the run is on this side.
int report_load(struct report_page *p, const struct run *r, struct err *e);
void report_end(struct report_page *p);
// The page. settings and figures: of several runs side by side; unused for one.
void report_write(struct report_page *p, const char *version, const struct side_table *settings,
                  const struct side_table *figures, struct strbuf *out);

// ---- parts ----

void report_take_event(void *ctx, const struct json *event); // ctx: struct report_run
int64_t report_whole_ms(const struct report_run *r);         // from making the run to its end
// The time in which all ranks of a round ran.
int64_t report_running_ms(const struct report_run *r);
// The end of a round; now for one that is active.
int64_t report_round_end(const struct report_run *r, size_t round);
void report_time_line(const struct report_run *r, struct strbuf *out);

// A part of the time of a step; parts of a line come in the order of the enum.
void report_steps_take(struct report_steps *s, struct arena *a, int part, int64_t step, double ms);
double report_steps_ms(const struct report_steps *s, int part); // part -1: of all parts
// The share of the whole time that was productive, 0 to 1; negative: not known. *exact: of counted
// steps; else it is the share in which all ranks ran.
double report_productive(const struct report_run *r, bool *exact);

// Reads all series of a run into the sets of the report.
void report_series_init(struct report_page *p);
void report_series_load(struct report_page *p, size_t run);

// Sets p->slow.
void report_find_slow(struct report_page *p);
void report_hints(const struct report_page *p, const struct report_run *r, struct strbuf *out);

#endif
