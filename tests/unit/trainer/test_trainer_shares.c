// SPDX-License-Identifier: Apache-2.0
// Nodes with a share of the data of their own: steps are the same on all ranks, whatever the shares
// have, a run that was stopped in mid-epoch continues with the same losses, and a node without test
// images takes part in evaluations.
#include "tests/unit/trainer/trainer_ranks.h"

#define SETTINGS                                                                                   \
    "train.dataset=cifar10", "train.batch=24", "train.hidden=16", "train.eval_batch=16",           \
        "train.lr=0.01", "train.checkpoint_every_epochs=1"

enum { RECORD = 3073, FILES = 5, CLASSES = 10 };

static const struct node_data {
    int files, test; // images of each of five files, and of the test file
} nodes[] = {{19, 31}, {24, 0}};
enum { NODES = 2, LARGEST = FILES * 24, SMALLEST = FILES * 19 };

static void write_records(const char *path, int count, uint64_t seed) {
    FILE *f = fopen(path, "we");
    for (int i = 0; i < count; i++) {
        unsigned char record[RECORD];
        record[0] = (unsigned char)((seed + (uint64_t)i) % CLASSES);
        for (int k = 1; k < RECORD; k++) // images of one class are alike
            record[k] = (unsigned char)(record[0] * 20 + (k * 7 + i * 13 + (int)seed) % 40);
        fwrite(record, 1, sizeof record, f);
    }
    fclose(f);
}

static const char *data_of(struct arena *a, int node) {
    return arena_printf(a, "%s/data-%d", dir, node);
}

static void write_data(void) {
    struct arena a = {0};
    struct err e = {0};
    for (int n = 0; n < NODES; n++) {
        if (file_make_dirs(data_of(&a, n), 0755, &e) < 0)
            bail_out("%s", e.text);
        for (int i = 0; i < FILES; i++)
            write_records(arena_printf(&a, "%s/data_batch_%d.bin", data_of(&a, n), i + 1),
                          nodes[n].files, (uint64_t)n * FILES + (uint64_t)i);
        if (nodes[n].test)
            write_records(arena_printf(&a, "%s/test_batch.bin", data_of(&a, n)), nodes[n].test, 77);
    }
    arena_fini(&a);
}

static int64_t steps_of(int images, int ranks) {
    int each = (images + ranks - 1) / ranks;
    return (each + 23) / 24;
}

static void test_steps(void) {
    struct run run = {2, 2, .name = "largest", .data = data_of, .set = {SETTINGS}};
    run_all(&run);
    is_int(shared->steps[0], 2 * steps_of(LARGEST, 1), "an epoch has the steps of the most");
    is_int(shared->steps[1], shared->steps[0], "on both ranks");
    ok(isfinite(shared->result[0].final_loss) &&
           shared->result[0].final_loss == shared->result[1].final_loss,
       "the evaluation of one node's test images is that of both");
    struct run fewest = {2, 2, .name = "fewest", .data = data_of,
                         .set = {SETTINGS, "train.drop_last=true"}};
    run_all(&fewest);
    is_int(shared->steps[1], 2 * steps_of(SMALLEST, 1), "drop_last: those of the fewest");
    struct run four = {4, 2, .name = "four", .data = data_of, .set = {SETTINGS}};
    run_all(&four);
    is_int(shared->steps[3], 2 * steps_of(LARGEST, 2), "ranks of a node share out what it has");
    struct run rounds = {2, 2, .name = "rounds", .data = data_of,
                         .set = {SETTINGS, "train.local_steps=2"}};
    run_all(&rounds);
    is_int(shared->steps[1], 2 * steps_of(LARGEST, 1), "local steps are as many");
    struct run zero = {2, 2, .name = "zero", .data = data_of, .set = {SETTINGS, "train.zero=true"}};
    run_all(&zero);
    is_int(shared->steps[1], 2 * steps_of(LARGEST, 1), "sharded updates are as many");
}

static void test_resume(void) {
    enum { STOP = 7, STEPS = 10 };
    double whole[STEPS + 1];
    struct run run = {2, 2, .name = "whole", .data = data_of, .set = {SETTINGS}};
    run_all(&run);
    memcpy(whole, shared->loss[0], sizeof whole);
    struct run part = {
        2, 2, .stop_step = STOP - 1, .name = "part", .data = data_of, .set = {SETTINGS}};
    run_all(&part);
    is_int(shared->steps[0], STOP, "a run is stopped in the middle of its second epoch");
    part.stop_step = 0;
    run_all(&part);
    is_int(shared->steps[0], STEPS, "the rest of it runs");
    double worst = 0;
    for (int i = STOP + 1; i <= STEPS; i++)
        worst = fmax(worst, fabs(shared->loss[0][i] / whole[i] - 1));
    ok(worst < 1e-6, "with the losses of a run without a break: they differ by %.1e", worst);

    struct run other = {
        2, 2, .stop_step = STOP - 1, .name = "other", .data = data_of, .set = {SETTINGS}};
    run_all(&other);
    other.stop_step = 0;
    other.world = 4;
    run_all(&other);
    is_int(shared->result[3].epochs, 2, "twice as many ranks finish a stopped run");
}

static void test_refused(void) {
    struct run pipe = {2, 2, .name = "pipe", .data = data_of,
                       .set = {SETTINGS, "train.pipeline=2"}};
    is_int(run_ranks(&pipe), 2, "a pipeline over shares is refused");
    ok(strstr(shared->why[1], "stages of a pipeline"), "the error says why: %s", shared->why[1]);
}

int main(void) {
    struct err e = {0};
    ranks_begin();
    write_data();
    test_steps();
    test_resume();
    test_refused();
    file_remove_tree(dir, &e);
    return done_testing();
}
