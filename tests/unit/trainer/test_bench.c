// SPDX-License-Identifier: Apache-2.0
// Sizes, factors and known numbers of measured collectives, and a way that spoils a number.
#include "tests/tap.h"
#include "trainer/bench.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, BYTES = 4096 };

// The collective as a loop over the buffers of all ranks.
static void collective(const struct bench_size *s, float *all[RANKS]) {
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < s->count; i++) {
            int from = (int)(i / s->each);
            if (s->kind == TRAIN_BENCH_ALL_GATHER && from != r)
                all[r][i] = all[from][i];
            if (s->kind == TRAIN_BENCH_SENDRECV)
                all[(r + 1) % RANKS][s->count + i] = all[r][i];
        }
    for (size_t i = 0; i < s->count; i++) {
        float sum = 0;
        for (int r = 0; r < RANKS; r++)
            sum += all[r][i];
        for (int r = 0; r < RANKS; r++)
            if (s->kind == TRAIN_BENCH_ALL_REDUCE ||
                (s->kind == TRAIN_BENCH_REDUCE_SCATTER && (int)(i / s->each) == r))
                all[r][i] = sum;
    }
}

static void test_kind(enum train_bench kind) {
    const char *word = train_bench_words[kind];
    struct bench_size s = bench_size_of(kind, BYTES, RANKS);
    float *all[RANKS];
    size_t before = 0, after = 0;
    for (int r = 0; r < RANKS; r++) {
        all[r] = calloc(s.buffer, sizeof *all[r]);
        bench_fill(&s, r, all[r]);
        before += bench_wrong(&s, r, RANKS, all[r]) > 0;
    }
    collective(&s, all);
    for (int r = 0; r < RANKS; r++)
        after += bench_wrong(&s, r, RANKS, all[r]);
    ok(before == RANKS, "%s: the first content is wrong on every rank", word);
    ok(after == 0, "%s: the results are right", word);
    size_t first = kind == TRAIN_BENCH_SENDRECV         ? s.count
                   : kind == TRAIN_BENCH_REDUCE_SCATTER ? s.each
                                                        : 0;
    all[1][first] += 1;
    ok(bench_wrong(&s, 1, RANKS, all[1]) == 1, "%s: a spoiled number is counted", word);
    for (int r = 0; r < RANKS; r++)
        free(all[r]);
}

static void test_sizes(void) {
    struct bench_size s = bench_size_of(TRAIN_BENCH_ALL_GATHER, 1000, 3);
    ok(s.each == 80 && s.count == 240, "parts are cut at 16 bytes");
    s = bench_size_of(TRAIN_BENCH_REDUCE_SCATTER, 4, 3);
    ok(s.each == 4 && s.count == 12, "parts have 16 bytes at least");
    s = bench_size_of(TRAIN_BENCH_SENDRECV, 8, 3);
    ok(s.count == 2 && s.buffer == 4, "sendrecv has two buffers");
    ok(bench_bus_factor(TRAIN_BENCH_ALL_REDUCE, 4) == 1.5, "the factor of allreduce is 2(n-1)/n");
    ok(bench_bus_factor(TRAIN_BENCH_ALL_GATHER, 4) == 0.75, "the factor of all-gather is (n-1)/n");
    ok(bench_bus_factor(TRAIN_BENCH_REDUCE_SCATTER, 4) == 0.75,
       "the factor of reduce-scatter is (n-1)/n");
    ok(bench_bus_factor(TRAIN_BENCH_SENDRECV, 4) == 1, "the factor of sendrecv is 1");
}

// ---- a whole measurement of one rank -----------------------------------------------------------

static struct {
    float numbers[BYTES];
    int64_t calls;
    bool spoils;
} lone;

static int lone_write(void *ctx, const float *from, size_t count, struct err *e) {
    (void)ctx;
    (void)e;
    memcpy(lone.numbers, from, count * sizeof *from);
    return 0;
}

static int lone_move(void *ctx, const struct bench_size *size, int64_t times, struct err *e) {
    (void)ctx;
    (void)size;
    (void)e;
    lone.calls += times;
    lone.numbers[5] += lone.spoils ? 1 : 0;
    return 0;
}

static int lone_read(void *ctx, float *to, size_t count, struct err *e) {
    (void)ctx;
    (void)e;
    memcpy(to, lone.numbers, count * sizeof *to);
    return 0;
}

static void test_measure(void) {
    struct train_bench_options options = {
        .kind = TRAIN_BENCH_ALL_REDUCE, .iterations = 7, .warmup = 3, .check = true};
    const struct bench_way way = {.write = lone_write, .move = lone_move, .read = lone_read};
    const struct comm_config alone = {.world = 1, .local_world = 1, .nodes = 1, .cpu = -1};
    static float numbers[BYTES];
    struct bench_row row;
    struct comm *comm;
    struct err e;
    if (!ok(comm_open(&comm, NULL, &alone, &e) == 0, "one rank opens its group"))
        return;
    ok(bench_measure(&options, BYTES, comm, &way, numbers, &row, &e) == 0 && row.wrong == 0,
       "a measurement has no wrong numbers");
    ok(lone.calls == 11, "3 calls, 7 that are measured, and one that is checked");
    ok(row.bytes == BYTES && row.count == BYTES / sizeof(float) && row.us > 0,
       "a measurement has size and time");
    lone.spoils = true;
    ok(bench_measure(&options, BYTES, comm, &way, numbers, &row, &e) == 0 && row.wrong == 1,
       "a planted wrong sum is counted");
    options.check = false;
    ok(bench_measure(&options, BYTES, comm, &way, numbers, &row, &e) == 0 && row.wrong < 0,
       "without a check no number of wrong ones is given");
    comm_close(comm);
}

// Of an all-gather a rank gives its own part; all other numbers are -1.
static void test_fill(void) {
    enum { COUNT = 12, EACH = 4, BUFFER = 14 };
    const struct bench_size gather = {TRAIN_BENCH_ALL_GATHER, COUNT, EACH, BUFFER};
    const struct bench_size reduce = {TRAIN_BENCH_ALL_REDUCE, COUNT, COUNT, BUFFER};
    for (int rank = 0; rank < 3; rank++) {
        float part[BUFFER], whole[BUFFER];
        int wrong = 0;
        bench_fill(&gather, rank, part);
        bench_fill(&reduce, rank, whole);
        for (int i = 0; i < BUFFER; i++) {
            bool own = i < COUNT && i / EACH == rank;
            wrong += fabsf(part[i] - (own ? whole[i] : -1)) > 0;
            wrong += i < COUNT ? whole[i] < 0 : whole[i] > -1;
        }
        is_int(wrong, 0, "rank %d gives its part of an all-gather", rank);
    }
}

int main(void) {
    test_sizes();
    test_fill();
    for (int kind = TRAIN_BENCH_NONE + 1; kind < TRAIN_BENCHES; kind++)
        test_kind(kind);
    test_measure();
    return done_testing();
}
