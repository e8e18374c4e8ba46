// SPDX-License-Identifier: Apache-2.0
// Real processes as the ranks of a training run: forked, with a key-value store and their results
// in memory that they share.
#ifndef TESTS_UNIT_TRAINER_RANKS_H
#define TESTS_UNIT_TRAINER_RANKS_H

#include "nn/checkpoint.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "trainer/trainer.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 8, STEPS_MAX = 64, KEYS_MAX = 512, VALUE_MAX = 4096, RANK_SECONDS_MAX = 400 };

// State shared by the ranks of one run: a key-value store and their results.
struct arena_shared {
    pthread_mutex_t lock;
    int keys;
    struct {
        char key[128], value[VALUE_MAX];
        size_t len;
    } entry[KEYS_MAX];
    double loss[RANKS_MAX][STEPS_MAX + 1]; // by step, from 1
    int64_t steps[RANKS_MAX];
    struct trainer_result result[RANKS_MAX];
    char why[RANKS_MAX][ERR_TEXT_BYTES_MAX]; // of ranks that failed
};
static struct arena_shared *shared;
static char dir[] = "/tmp/test_nn_ranks.XXXXXX";

static int kv_set(void *ctx, const char *key, const void *value, size_t len, struct err *e) {
    (void)ctx;
    if (len > VALUE_MAX || strlen(key) >= sizeof shared->entry[0].key)
        return err_set(e, ERR_LIMIT, "key or value too long");
    pthread_mutex_lock(&shared->lock);
    int i = shared->keys < KEYS_MAX ? shared->keys : -1;
    if (i >= 0) {
        snprintf(shared->entry[i].key, sizeof shared->entry[i].key, "%s", key);
        memcpy(shared->entry[i].value, value, len);
        shared->entry[i].len = len;
        shared->keys++;
    }
    pthread_mutex_unlock(&shared->lock);
    return i < 0 ? err_set(e, ERR_LIMIT, "too many keys") : 0;
}

static int kv_try(const char *key, void *value, size_t cap, size_t *len) {
    int found = -1;
    pthread_mutex_lock(&shared->lock);
    for (int i = 0; i < shared->keys && found < 0; i++)
        if (strcmp(shared->entry[i].key, key) == 0 && shared->entry[i].len <= cap)
            found = i;
    if (found >= 0) {
        *len = shared->entry[found].len;
        memcpy(value, shared->entry[found].value, *len);
    }
    pthread_mutex_unlock(&shared->lock);
    return found < 0 ? -1 : 0;
}

static int kv_get(void *ctx, const char *key, void *value, size_t cap, size_t *len, int timeout_ms,
                  struct err *e) {
    (void)ctx;
    for (int ms = 0; ms < timeout_ms; ms++) {
        if (kv_try(key, value, cap, len) == 0)
            return 0;
        usleep(1000);
    }
    return err_set(e, ERR_TIMEOUT, "no key '%s'", key);
}

// Runs on each rank, and after each step of a rank; a test may set others.
static int (*rank_main)(const struct trainer_config *c, struct trainer_result *result,
                        struct err *e) = trainer_run;
static void (*rank_step)(int rank, int64_t step);

struct run {
    int world, nodes, shards;
    int stop_rank;     // this rank asks to stop …
    int64_t stop_step; // … after this step; 0: never
    int64_t kill_step; // the last rank is killed after this step; 0: never
    bool apart;        // nodes have folders of their own
    const char *name;  // of the folder for its files
    const char *(*data)(struct arena *a, int node); // every node has a share of its own; or NULL
    const char *set[24];                            // train.key=value
};

struct rank_run {
    const struct run *run;
    int rank;
    volatile sig_atomic_t stop;
};

static void on_step(void *ctx, int64_t step, double loss) {
    struct rank_run *r = ctx;
    if (step <= STEPS_MAX)
        shared->loss[r->rank][step] = loss;
    shared->steps[r->rank] = step;
    if (rank_step)
        rank_step(r->rank, step);
    if (r->run->stop_step == step && r->run->stop_rank == r->rank)
        r->stop = 1;
    if (r->run->kill_step == step && r->rank == r->run->world - 1)
        raise(SIGKILL);
}

static const char *node_folder(struct arena *a, const struct run *run, int node) {
    return run->apart ? arena_printf(a, "%s/%s-%d", dir, run->name, node)
                      : file_join(a, dir, run->name);
}

static int run_rank(const struct run *run, int rank) {
    struct arena a = {0};
    struct train_config options;
    struct train_flags flags;
    struct option_set set;
    struct err e;
    const char *argv[64];
    struct rank_run r = {.run = run, .rank = rank};
    int argc = 0, local = run->world / run->nodes;
    static const char *const common[] = {
        "train.dataset=shapes", "train.train_size=256", "train.test_size=130",
        "train.batch=32",       "train.threads=1",      "train.hidden=32,16",
        "train.model=mlp",      "train.optimizer=sgd",  "train.lr=0.05",
        "train.epochs=2",       "train.eval_batch=50",  "train.bucket_bytes=4096"};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        argv[argc++] = "--set";
        argv[argc++] = common[i];
    }
    for (int i = 0; run->set[i]; i++) {
        argv[argc++] = "--set";
        argv[argc++] = run->set[i];
    }
    if (train_config_load(&options, &flags, &set, &a, argc, argv, NULL, &e) < 0) {
        diag("%s", e.text);
        return 1;
    }
    const char *folder = node_folder(&a, run, rank / local);
    struct trainer_config c = {.options = &options,
                               .comm = {.rank = rank,
                                        .world = run->world,
                                        .local_rank = rank % local,
                                        .local_world = local,
                                        .node = rank / local,
                                        .nodes = run->nodes,
                                        .kv = {kv_set, kv_get, NULL},
                                        .prefix = run->name,
                                        .address = "127.0.0.1"},
                               .data = run->data ? run->data(&a, rank / local) : NULL,
                               .data_shared_out = run->data,
                               .output_dir = folder,
                               .model_dir = folder,
                               .state_dir = file_join(&a, folder, "state"),
                               .stop = &r.stop,
                               .on_step = on_step,
                               .on_step_ctx = &r,
                               .shards = run->shards};
    if (rank_main(&c, &shared->result[rank], &e) < 0) {
        snprintf(shared->why[rank], sizeof shared->why[rank], "%s", e.text);
        diag("rank %d: %s", rank, e.text);
        return 1;
    }
    arena_fini(&a);
    return 0;
}

// Forks the ranks and waits; how many did not end well.
static int run_ranks(const struct run *run) {
    pid_t pid[RANKS_MAX];
    int failed = 0;
    memset(shared->loss, 0, sizeof shared->loss);
    memset(shared->why, 0, sizeof shared->why);
    memset(shared->steps, 0, sizeof shared->steps);
    shared->keys = 0;
    fflush(stdout);
    for (int rank = 0; rank < run->world; rank++) {
        pid[rank] = fork();
        if (pid[rank] == 0) {
            alarm(RANK_SECONDS_MAX);
            int status = run_rank(run, rank);
            fflush(stdout);
            _exit(status);
        }
    }
    for (int rank = 0; rank < run->world; rank++) {
        int status;
        waitpid(pid[rank], &status, 0);
        failed += status != 0;
    }
    return failed;
}

static inline bool run_all(const struct run *run) {
    return ok(run_ranks(run) == 0, "%s: %d rank%s on %d node%s succeed", run->name, run->world,
              run->world == 1 ? "" : "s", run->nodes, run->nodes == 1 ? "" : "s");
}

static void ranks_begin(void) {
    pthread_mutexattr_t attr;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !mkdtemp(dir))
        bail_out("no shared memory or temporary folder");
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->lock, &attr);
}

#endif
