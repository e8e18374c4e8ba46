// SPDX-License-Identifier: Apache-2.0
// The parallel plan of the trainer: micro-batches, schedules, and settings that exclude each other.
#include "conf/train_config.h"
#include "tests/tap.h"

static struct train_config plain(void) {
    return (struct train_config){
        .pipeline = 1, .pipeline_schedule = "1f1b", .batch = 32, .accumulate = 1};
}

static void test_micros(void) {
    static const struct {
        int64_t pipeline, microbatches, batch;
        int micros; // 0: refused
    } rows[] = {{1, 0, 32, 1}, {1, 4, 32, 4}, {2, 0, 32, 4}, {4, 0, 32, 8},  {4, 2, 32, 2},
                {3, 0, 32, 8}, {4, 0, 6, 6},  {2, 0, 4, 4},  {2, 0, 3, 3},   {2, 5, 32, 0},
                {1, 3, 32, 0}, {3, 0, 7, 7},  {2, 0, 9, 9},  {2, 32, 32, 32}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct train_config o = plain();
        struct train_parallel p;
        struct err e = {0};
        o.pipeline = rows[i].pipeline, o.microbatches = rows[i].microbatches;
        o.batch = rows[i].batch;
        int rc = train_parallel(&o, 0, &p, &e);
        is_int(rc < 0 ? 0 : p.micros, rows[i].micros,
               "a batch of %d on %d ranks has its micro-batches", (int)o.batch, (int)o.pipeline);
        if (rc < 0)
            has_str(e.text, "train.microbatches", "the error names the key");
    }
}

static void test_schedules(void) {
    static const struct {
        const char *text;
        int64_t pipeline, microbatches;
        int order, chunks; // 0: refused
    } rows[] = {{"gpipe", 2, 0, TRAIN_PIPE_GPIPE, 1},
                {"1f1b", 2, 0, TRAIN_PIPE_1F1B, 1},
                {"simple", 2, 0, TRAIN_PIPE_GPIPE, 1},
                {"interleaved", 2, 0, TRAIN_PIPE_1F1B, 1},
                {"interleaved:2", 2, 0, TRAIN_PIPE_INTERLEAVED, 2},
                {"interleaved:16", 2, 0, TRAIN_PIPE_INTERLEAVED, 16},
                {"interleaved:17", 2, 0, 0, 0},
                {"interleaved:1", 2, 0, 0, 0},
                {"interleaved:", 2, 0, 0, 0},
                {"interleaved:2", 1, 0, 0, 0},
                {"interleaved:2", 4, 2, 0, 0},
                {"interleaved:2", 4, 4, TRAIN_PIPE_INTERLEAVED, 2},
                {"", 2, 0, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct train_config o = plain();
        struct train_parallel p;
        struct err e = {0};
        o.pipeline = rows[i].pipeline, o.microbatches = rows[i].microbatches;
        o.pipeline_schedule = rows[i].text;
        int rc = train_parallel(&o, 0, &p, &e);
        is_int(rc, rows[i].chunks ? 0 : -1, "the schedule '%s' is %s", rows[i].text,
               rows[i].chunks ? "accepted" : "refused");
        ok(rc < 0 || (p.order == (enum train_pipe)rows[i].order && p.chunks == rows[i].chunks),
           "the plan has order and stages");
    }
}

static void test_ranks_and_cuts(void) {
    static const struct {
        int64_t pipeline;
        int world, result;
        size_t cuts;
        const char *schedule, *why;
    } rows[] = {{2, 4, 0, 0, "1f1b", ""},
                {2, 3, -1, 0, "1f1b", "(try: 4 ranks"},
                {4, 1, -1, 0, "1f1b", "(try: 4 ranks"},
                {2, 2, 0, 1, "1f1b", ""},
                {2, 2, -1, 2, "1f1b", "names 2 layers; 2 stages begin with 1"},
                {4, 4, -1, 1, "1f1b", "names 1 layer; 4 stages begin with 3"},
                {2, 2, 0, 3, "interleaved:2", ""},
                {2, 2, -1, 1, "interleaved:2", "4 stages begin with 3"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct train_config o = plain();
        struct train_parallel p;
        struct err e = {0};
        o.pipeline = rows[i].pipeline, o.pipeline_schedule = rows[i].schedule;
        o.cuts.count = rows[i].cuts;
        is_int(train_parallel(&o, rows[i].world, &p, &e), rows[i].result,
               "%d ranks and %zu cuts are checked", rows[i].world, rows[i].cuts);
        has_str(e.text, rows[i].why, "the error has the next step");
    }
}

// Each pair of settings.
static void test_excluded(void) {
    static const struct {
        int64_t pipeline, local_steps;
        bool zero;
        double ema, lookahead;
        const char *why; // "": accepted
    } rows[] = {{1, 2, false, 0, 0, ""},
                {2, 1, true, 0, 0, ""},
                {1, 1, false, 0.5, 5, ""},
                {1, 0, true, 0.5, 0, "train.ema does not go with train.zero"},
                {1, 0, true, 0, 5, "train.lookahead does not go with train.zero"},
                {2, 2, false, 0, 0, "train.pipeline does not go with train.local_steps"},
                {1, 2, true, 0, 0, "train.zero does not go with train.local_steps"},
                {1, 2, false, 0.5, 0, "train.ema does not go with train.local_steps"},
                {1, 2, false, 0, 5, "train.lookahead does not go with train.local_steps"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct train_config o = plain();
        struct train_parallel p;
        struct err e = {0};
        o.pipeline = rows[i].pipeline, o.local_steps = rows[i].local_steps;
        o.zero = rows[i].zero ? TRAIN_ZERO_ON : TRAIN_ZERO_AUTO, o.ema = rows[i].ema;
        o.lookahead = (__typeof__(o.lookahead))rows[i].lookahead;
        is_int(train_parallel(&o, 0, &p, &e), rows[i].why[0] ? -1 : 0,
               "the settings of row %zu are judged", i);
        has_str(e.text, rows[i].why, "the error names both keys");
    }
}

int main(void) {
    test_micros();
    test_schedules();
    test_ranks_and_cuts();
    test_excluded();
    return done_testing();
}
