// SPDX-License-Identifier: Apache-2.0
// Collectives measured between real processes: every kind between one to four ranks, on one node
// and on two.
#include "tests/unit/trainer/trainer_ranks.h"
#include "trainer/bench.h"

enum { SIZES = 4 }; // 64 bytes to 32 KiB, each eight times the one before

static struct train_bench_options measured;
static bool as_json;

struct lines {
    int rows, right, heads; // of measurements, of those without a wrong number, and others
};

static void on_line(void *ctx, const char *line) {
    struct lines *l = ctx;
    bool row = as_json ? strncmp(line, "{\"event\":\"bench\",", 17) == 0 : line[0] == ' ';
    size_t len = strlen(line);
    l->rows += row;
    l->heads += !row;
    l->right += row && (as_json ? strstr(line, "\"wrong\":0}") != NULL
                                : len > 7 && strcmp(line + len - 7, "      0") == 0);
}

static int run_bench(const struct trainer_config *c, struct trainer_result *result, struct err *e) {
    struct trainer_config with = *c;
    struct lines lines = {0};
    (void)result;
    with.say = on_line;
    with.say_ctx = &lines;
    if (bench_run(&with, &measured, as_json, e) < 0)
        return -1;
    int rows = c->comm.rank == 0 ? SIZES : 0;
    bool heads = c->comm.rank == 0 && !as_json;
    if (lines.rows != rows || lines.right != rows || (lines.heads > 0) != heads)
        return err_set(e, ERR_FAILED, "%d rows, %d right, %d other lines", lines.rows, lines.right,
                       lines.heads);
    return 0;
}

static void measure(enum train_bench kind, int world, int nodes, bool json) {
    char name[64];
    snprintf(name, sizeof name, "%s-%d-%d-%d", train_bench_words[kind], world, nodes, json);
    struct run run = {.world = world, .nodes = nodes, .name = name};
    measured = (struct train_bench_options){.kind = kind,
                                            .bytes_min = 64,
                                            .bytes_max = 32768,
                                            .factor = 8,
                                            .iterations = 2,
                                            .warmup = 1,
                                            .check = true};
    as_json = json;
    if (world > 1 || kind != TRAIN_BENCH_SENDRECV) {
        run_all(&run);
        return;
    }
    is_int(run_ranks(&run), 1, "%s: one rank has no other to send to", name);
    has_str(shared->why[0], "needs two ranks or more", "%s: the error says so", name);
}

int main(void) {
    struct err e;
    ranks_begin();
    rank_main = run_bench;
    for (int kind = TRAIN_BENCH_NONE + 1; kind < TRAIN_BENCHES; kind++)
        for (int world = 1; world <= 4; world++)
            measure((enum train_bench)kind, world, 1, world % 2);
    measure(TRAIN_BENCH_SENDRECV, 4, 2, true);
    measure(TRAIN_BENCH_ALL_REDUCE, 4, 2, false);
    is_int(file_remove_tree(dir, &e), 0, "cleaned up");
    return done_testing();
}
