// SPDX-License-Identifier: Apache-2.0
// Data parallelism against the single process: real ranks are forked and meet through the real
// collectives. Equal losses for W = 1, 2, 4 with the same global batch; with batch norm, equal to
// one process that normalises shard by shard; the same bits when repeated; exact evaluation on any
// world size; stop in mid-epoch and resume on another world size; every node keeps the checkpoint,
// and any one of them is enough to continue.
#include "tests/unit/trainer/trainer_ranks.h"

static double losses[STEPS_MAX + 1]; // of the run that others are compared with
static int64_t steps;

static void keep_losses(void) {
    memcpy(losses, shared->loss[0], sizeof losses);
    steps = shared->steps[0];
}

// Largest difference of rank 0's losses from those kept, over the steps that this run made.
static double difference(int64_t from) {
    double most = 0;
    for (int64_t s = from; s <= shared->steps[0]; s++) {
        double d = fabs(shared->loss[0][s] - losses[s]);
        most = d > most || d != d ? d : most;
    }
    return most;
}

static bool ranks_agree(int world) {
    for (int rank = 1; rank < world; rank++)
        for (int64_t s = 1; s <= steps; s++)
            if (shared->loss[rank][s] != shared->loss[0][s])
                return false;
    return true;
}

static void test_plain(void) {
    struct run one = {.world = 1, .nodes = 1, .name = "one"};
    struct run two = {.world = 2, .nodes = 1, .name = "two", .set = {"train.batch=16"}};
    struct run again = {.world = 2, .nodes = 1, .name = "again", .set = {"train.batch=16"}};
    struct run four = {.world = 4, .nodes = 2, .name = "four", .set = {"train.batch=8"}};
    double top1;
    run_all(&one);
    keep_losses();
    top1 = shared->result[0].final_top1;
    is_int(steps, 16, "two epochs have eight steps each");
    ok(losses[16] < losses[1], "the loss falls from %g to %g", losses[1], losses[16]);
    run_all(&two);
    is_int(shared->steps[0], steps, "two ranks make as many steps");
    near(difference(1), 0, 2e-6, "two ranks have the losses of one, to rounding");
    ok(ranks_agree(2), "two ranks see the same mean loss");
    near(shared->result[1].final_top1, top1, 1e-9, "two ranks have the exact accuracy of one");
    double bits[STEPS_MAX + 1];
    memcpy(bits, shared->loss[0], sizeof bits);
    run_all(&again);
    is_mem(shared->loss[0], sizeof bits, bits, sizeof bits, "a repeated run has the same bits");
    run_all(&four);
    is_int(shared->steps[0], steps, "four ranks on two nodes make as many steps");
    near(difference(1), 0, 2e-6, "four ranks on two nodes have the losses of one, to rounding");
    near(shared->result[3].final_top1, top1, 1e-9, "four ranks have the exact accuracy of one");
    near(shared->result[3].final_loss, shared->result[0].final_loss, 0,
         "every rank knows the loss");
}

// Adding up the gradients of several batches is one step on a batch as large, also for what is left
// at the end of an epoch: 300 images are 9 steps of 32 and one of 12.
static void test_accumulate(void) {
    struct run whole = {.world = 1,
                        .nodes = 1,
                        .name = "accumulate-1",
                        .set = {"train.train_size=300", "train.momentum=0.9",
                                "train.schedule=cosine", "train.warmup_epochs=0.5",
                                "train.clip_norm=1.5", "train.weight_decay=0.1",
                                "train.decay=weights"}};
    struct run parts = whole, ranks, resumed;
    parts.name = "accumulate-4";
    parts.set[7] = "train.batch=8";
    parts.set[8] = "train.accumulate=4";
    ranks = parts;
    ranks.name = "accumulate-ranks";
    ranks.world = 2;
    ranks.set[8] = "train.accumulate=2";
    resumed = parts;
    resumed.name = "accumulate-resumed";
    resumed.stop_step = 12;
    run_all(&whole);
    keep_losses();
    double loss = shared->result[0].final_loss;
    is_int(steps, 20, "two epochs have ten steps each");
    run_all(&parts);
    is_int(shared->steps[0], steps, "four batches in each step make as many");
    near(difference(1), 0, 5e-6, "four batches in each step have the losses of one large batch");
    near(shared->result[0].final_loss, loss, 5e-6,
         "four batches in each step have the evaluation loss of one large batch");
    keep_losses();
    run_all(&ranks);
    is_int(shared->steps[0], steps, "two batches on two ranks make as many steps");
    near(difference(1), 0, 5e-6, "two batches on two ranks have the losses of one large batch");
    run_all(&resumed);
    resumed.stop_step = 0;
    run_all(&resumed);
    is_int(shared->steps[0], steps, "a run that was stopped in mid-epoch resumes");
    near(difference(14), 0, 0, "a resumed run has the same bits");
}

static void test_norm(void) {
    static const char *const batch[] = {[2] = "train.batch=4", [4] = "train.batch=2"};
    for (int world = 2; world <= 4; world += 2) {
        struct run shards = {.world = 1, .nodes = 1, .shards = world, .name = "shards"};
        struct run ranks = {.world = world, .nodes = 1, .name = "ranks"};
        const char *set[] = {"train.model=resnet18(width=16)",
                             "train.train_size=16",
                             "train.test_size=10",
                             "train.epochs=1",
                             "train.lr=0.0003",
                             batch[world],
                             "train.resume=never",
                             "train.crop_pad=4",
                             "train.stem=cifar",
                             NULL};
        memcpy(shards.set, set, sizeof set);
        memcpy(ranks.set, set, sizeof set);
        run_all(&shards);
        keep_losses();
        double top1 = shared->result[0].final_top1, loss = shared->result[0].final_loss;
        is_int(steps, 2, "a run has two steps");
        run_all(&ranks);
        near(difference(1), 0, 1e-4,
             "batch norm on %d ranks gives the losses of one process that normalises per shard",
             world);
        near(shared->loss[0][1], losses[1], 1e-5, "the first loss is the same to the last digits");
        near(shared->result[0].final_loss / loss, 1, 1e-3, "the evaluation loss is the same");
        near(shared->result[0].final_top1, top1, 100.0 / 10 + 1e-6, "the accuracy is the same");
    }
}

static void test_resume(void) {
    static const char *const modes[] = {"train.optimizer=sgd", "train.optimizer=adam"};
    for (int i = 0; i < 2; i++) {
        const char *lr = i ? "train.lr=0.002" : "train.lr=0.05";
        struct run whole = {.world = 2,
                            .nodes = 1,
                            .name = i ? "whole-adam" : "whole",
                            .set = {"train.batch=16", modes[i], lr, "train.schedule=cosine",
                                    "train.warmup_epochs=0.5"}};
        struct run part = whole, rest = whole;
        part.name = rest.name = i ? "part-adam" : "part";
        part.stop_rank = 1;
        part.stop_step = 10;
        rest.world = 4;
        rest.set[0] = "train.batch=8";
        run_all(&whole);
        keep_losses();
        double loss = shared->result[0].final_loss;
        run_all(&part);
        is_int(shared->steps[0], 11, "a stop asked for by rank 1 after step 10 stops rank 0 too");
        is_int(shared->steps[1], 11, "both ranks stop after the same step");
        ok(shared->result[0].stopped && shared->result[1].stopped,
           "both ranks report that they stopped");
        near(difference(1), 0, 0, "a stopped run has the bits of a whole run so far");
        run_all(&rest);
        is_int(shared->steps[0], steps, "resumed in mid-epoch on four ranks, it makes the rest");
        ok(shared->loss[0][11] == 0 && shared->loss[0][12] != 0,
           "the run begins with the next step");
        near(difference(12), 0, 5e-6, "a resumed run has the losses of a whole run");
        near(shared->result[0].final_loss, loss, 5e-6,
             "a resumed run has the evaluation loss of a whole run");
        is_int(shared->result[0].epochs, 2, "both epochs are recorded");
    }
}

// ---- a copy on every node ----

static const char *checkpoint_file(struct arena *a, const struct run *run, int node, int64_t step,
                                   const char *name) {
    char path[FILE_PATH_BYTES_MAX];
    checkpoint_path(file_join(a, node_folder(a, run, node), "state"), step, path, sizeof path);
    return file_join(a, path, name);
}

static void same_file(struct arena *a, const struct run *run, int64_t step, const char *name) {
    char *data[2] = {NULL, NULL};
    size_t len[2] = {0};
    for (int node = 0; node < 2; node++) {
        struct err e = {0};
        const char *path = checkpoint_file(a, run, node, step, name);
        if (file_read(a, path, 1 << 24, &data[node], &len[node], &e) < 0)
            diag("%s", e.text);
    }
    ok(len[0] > 0 && len[0] == len[1] && memcmp(data[0], data[1], len[0]) == 0,
       "both nodes have the same %s of step %d", name, (int)step);
}

static void cut_file(const char *path) {
    if (truncate(path, 100) < 0)
        diag("cannot cut %s", path);
}

// The rest of a run after its first part, which ended behind step 11 with a copy on two nodes.
static void goes_on(const struct run *part, int64_t from, double loss) {
    struct arena a = {0};
    struct run rest = *part;
    rest.stop_step = 0;
    run_all(&rest);
    is_int(shared->steps[0], steps, "a restarted run makes the remaining steps");
    ok(shared->loss[0][from] == 0 && shared->loss[0][from + 1] != 0,
       "the run continues behind step %d", (int)from);
    near(difference(from + 1), 0, 5e-6, "a restarted run has the losses of a whole run");
    near(shared->result[1].final_loss, loss, 5e-6,
         "a restarted run has the evaluation loss of a whole run");
    same_file(&a, part, steps, "model.safetensors");
    arena_fini(&a);
}

static void test_copies(void) {
    static const char *const names[] = {"lost0", "lost1", "cut"};
    struct arena a = {0};
    struct err e;
    struct run whole = {.world = 2,
                        .nodes = 2,
                        .name = "whole-apart",
                        .apart = true,
                        .set = {"train.batch=16", "train.checkpoint_every_steps=3"}};
    run_all(&whole);
    keep_losses();
    double loss = shared->result[0].final_loss;
    for (int i = 0; i < 3; i++) {
        struct run part = whole;
        part.name = names[i];
        part.stop_step = 10;
        run_all(&part);
        same_file(&a, &part, 11, "model.safetensors");
        same_file(&a, &part, 11, "state.safetensors");
        same_file(&a, &part, 9, "state.safetensors");
        if (i < 2) { // a node comes back empty, be it that of rank 0
            is_int(file_remove_tree(node_folder(&a, &part, i), &e), 0, "node %d loses all", i);
            goes_on(&part, 11, loss);
        } else { // the newest is damaged everywhere, the one before on one node
            cut_file(checkpoint_file(&a, &part, 0, 11, "model.safetensors"));
            cut_file(checkpoint_file(&a, &part, 1, 11, "state.safetensors"));
            cut_file(checkpoint_file(&a, &part, 0, 9, "state.safetensors"));
            goes_on(&part, 9, loss);
        }
    }
    arena_fini(&a);
}

// More steps are not further on: a group of fewer ranks takes more of them for the same images.
static void test_furthest(void) {
    struct arena a = {0};
    struct run wide = {.world = 2,
                       .nodes = 2,
                       .name = "wide",
                       .apart = true,
                       .stop_step = 10,
                       .set = {"train.batch=16"}};
    struct run narrow = {
        .world = 1, .nodes = 1, .name = "narrow", .stop_step = 14, .set = {"train.batch=8"}};
    struct run rest = wide;
    rest.stop_step = 0;
    run_all(&wide);
    run_all(&narrow); // 15 steps of 8 images, less than half of the first epoch
    const char *from = file_join(&a, node_folder(&a, &narrow, 0), "state/checkpoint-0000000015");
    const char *to = file_join(&a, node_folder(&a, &wide, 1), "state/checkpoint-0000000015");
    is_int(rename(from, to), 0, "node 1 has one with more steps and fewer images");
    run_all(&rest);
    ok(shared->loss[0][11] == 0 && shared->loss[0][12] != 0, "the one with more images is taken");
    ok(!file_exists(to), "the other one is removed");
    arena_fini(&a);
}

int main(void) {
    struct err e;
    ranks_begin();
    test_plain();
    test_accumulate();
    if (!TAP_SANITIZED)
        test_norm();
    test_resume();
    test_copies();
    test_furthest();
    file_remove_tree(dir, &e);
    return done_testing();
}
