// SPDX-License-Identifier: Apache-2.0
// All-reduce between ranks of this machine, next to its floor: copying the buffer once in every
// rank at the same time. bench_allreduce.py sets the same figures against gloo.
//
//   bench_allreduce [--kind K] [--ranks N] [--nodes N] [--sockets N] [--bytes B]…
//
// kind: all-reduce (without the option), reduce-scatter, all-gather or broadcast, of the same
// buffer. nodes > 1 puts the ranks on so many "nodes" that talk over loopback TCP. JSON lines: us
// (median), us_best, cpu_us (of one rank, user and system), gbytes (of buffer per second), copy_us,
// copy_ratio (copy_us / us).
#include "benchmarks/median.h"
#include "comm/comm.h"

#include "base/arena.h"
#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 16, SIZES_MAX = 16, RUNS_MAX = 400, KEYS_MAX = 64, VALUE_BYTES_MAX = 256 };
static const double seconds_per_size = 0.6;

static struct options {
    int ranks, nodes, sockets, sizes, kind;
    size_t bytes[SIZES_MAX];
} o = {.ranks = 2, .nodes = 1};

static const char *const kinds[] = {[COMM_ALL_REDUCE] = "all-reduce",
                                    [COMM_REDUCE_SCATTER] = "reduce-scatter",
                                    [COMM_ALL_GATHER] = "all-gather",
                                    [COMM_BROADCAST] = "broadcast"};

// The store that ranks meet in: a table in memory that fork shares.
struct table {
    struct entry {
        _Atomic int ready;
        char key[64];
        unsigned char value[VALUE_BYTES_MAX];
        size_t len;
    } entry[KEYS_MAX];
    _Atomic int used;
};

static int table_set(void *ctx, const char *key, const void *value, size_t len, struct err *e) {
    struct table *t = ctx;
    int i = atomic_fetch_add(&t->used, 1);
    if (i >= KEYS_MAX || len > VALUE_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "the table is full");
    snprintf(t->entry[i].key, sizeof t->entry[i].key, "%s", key);
    memcpy(t->entry[i].value, value, len);
    t->entry[i].len = len;
    atomic_store(&t->entry[i].ready, 1);
    return 0;
}

static int table_get(void *ctx, const char *key, void *value, size_t cap, size_t *len,
                     int timeout_ms, struct err *e) {
    struct table *t = ctx;
    for (int64_t end = clock_mono_ms() + timeout_ms; clock_mono_ms() < end; usleep(500))
        for (int i = 0; i < KEYS_MAX; i++)
            if (atomic_load(&t->entry[i].ready) && strcmp(t->entry[i].key, key) == 0) {
                *len = t->entry[i].len < cap ? t->entry[i].len : cap;
                memcpy(value, t->entry[i].value, *len);
                return 0;
            }
    return err_set(e, ERR_TIMEOUT, "no key '%s'", key);
}

static void die(const struct err *e) {
    fprintf(stderr, "bench_allreduce: %s\n", e->text);
    exit(1);
}

// Runs as often as the first runs suggest; every rank must agree on the number, so rank 0 says it.
static int runs_for(struct comm *c, double first_us) {
    struct err e;
    double runs = seconds_per_size * 1e6 / (first_us + 1);
    int32_t n = runs > RUNS_MAX ? RUNS_MAX : runs < 5 ? 5 : (int32_t)runs;
    if (comm_broadcast(c, &n, sizeof n, 0, &e) < 0)
        die(&e);
    return n;
}

static double cpu_us(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

// Median; us has all times, sorted, *cpu the mean of what this rank computed.
static double timed(struct comm *c, float *x, float *y, size_t count, bool copy, double *us,
                    double *cpu) {
    struct err e;
    double first = 0;
    int runs = 3;
    const struct comm_call call = {.kind = (enum comm_kind)o.kind,
                                   .type = COMM_F32,
                                   .op = COMM_MEAN,
                                   .buf = x,
                                   .count = count};
    for (int pass = 0; pass < 2; pass++) {
        double before = cpu_us();
        for (int i = 0; i < runs; i++) {
            if (comm_barrier(c, &e) < 0)
                die(&e);
            int64_t start = clock_mono_ns();
            if (copy)
                memcpy(y, x, count * sizeof *x);
            else if (comm_do(c, &call, &e) < 0)
                die(&e);
            us[i] = (double)(clock_mono_ns() - start) / 1e3;
        }
        *cpu = (cpu_us() - before) / runs;
        qsort(us, (size_t)runs, sizeof *us, by_value);
        first = us[runs / 2];
        if (pass == 0)
            runs = runs_for(c, first);
    }
    return first;
}

static void rank_main(struct table *t, int rank) {
    struct err e = {0};
    struct comm *c;
    char address[32];
    int each = o.ranks / o.nodes;
    snprintf(address, sizeof address, "127.0.0.%d", 2 + rank / each);
    struct comm_config config = {.rank = rank,
                                 .world = o.ranks,
                                 .local_rank = rank % each,
                                 .local_world = each,
                                 .node = rank / each,
                                 .nodes = o.nodes,
                                 .kv = {table_set, table_get, t},
                                 .address = address,
                                 .keep_nodes = true,
                                 .sockets = o.sockets,
                                 .cpu = -1};
    if (comm_open(&c, NULL, &config, &e) < 0)
        die(&e);
    double *us = heap_alloc(RUNS_MAX * sizeof *us);
    for (int s = 0; s < o.sizes; s++) {
        size_t count = o.bytes[s] / sizeof(float);
        float *x = heap_alloc(o.bytes[s]), *y = heap_alloc(o.bytes[s]);
        for (size_t i = 0; i < count; i++)
            x[i] = y[i] = (float)i * 1e-6F;
        double cpu, copy = timed(c, x, y, count, true, us, &cpu);
        double median = timed(c, x, y, count, false, us, &cpu);
        if (rank == 0)
            printf(
                "{\"bench\":\"allreduce\",\"kind\":\"%s\",\"ranks\":%d,\"nodes\":%d,\"sockets\":%d,"
                "\"bytes\":%zu,\"us\":%.2f,\"us_best\":%.2f,\"cpu_us\":%.2f,\"gbytes\":%.3f,"
                "\"copy_us\":%.2f,"
                "\"copy_ratio\":%.3f}\n",
                kinds[o.kind], o.ranks, o.nodes, o.sockets > 0 ? o.sockets : COMM_SOCKETS,
                o.bytes[s], median, us[0], cpu, (double)o.bytes[s] / median / 1e3, copy,
                copy / median);
        free(x);
        free(y);
    }
    fflush(stdout);
    free(us);
    if (comm_barrier(c, &e) < 0)
        die(&e);
    comm_close(c);
}

static int kind_of(const char *name) {
    for (int i = 0; i <= COMM_BROADCAST; i++)
        if (strcmp(kinds[i], name) == 0)
            return i;
    return -1;
}

static void parse(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        long v = strtol(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--kind") == 0 && kind_of(argv[i + 1]) >= 0)
            o.kind = kind_of(argv[i + 1]);
        else if (strcmp(argv[i], "--ranks") == 0 && v >= 1 && v <= RANKS_MAX)
            o.ranks = (int)v;
        else if (strcmp(argv[i], "--nodes") == 0 && v >= 1 && v <= RANKS_MAX)
            o.nodes = (int)v;
        else if (strcmp(argv[i], "--sockets") == 0 && v >= 1 && v <= COMM_SOCKETS_MAX)
            o.sockets = (int)v;
        else if (strcmp(argv[i], "--bytes") == 0 && v >= 4 && o.sizes < SIZES_MAX)
            o.bytes[o.sizes++] = (size_t)v / 4 * 4;
        else {
            fprintf(stderr, "bench_allreduce: %s %s is not understood\n", argv[i], argv[i + 1]);
            exit(2);
        }
    }
    if (argc % 2 == 0 || o.ranks % o.nodes != 0) {
        fprintf(stderr, "usage: bench_allreduce [--kind K] [--ranks N] [--nodes N] [--sockets N] "
                        "[--bytes B]\n");
        exit(2);
    }
    // The last one: the gradients of ResNet-18 with 10 classes.
    static const size_t usual[] = {4, 1024, 16384, 262144, 1048576, 26214400, 44726568};
    if (o.sizes > 0)
        return;
    o.sizes = sizeof usual / sizeof usual[0];
    memcpy(o.bytes, usual, sizeof usual);
}

int main(int argc, char **argv) {
    parse(argc, argv);
    struct table *t =
        mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid[RANKS_MAX];
    int bad = 0;
    for (int i = 0; i < o.ranks; i++)
        if ((pid[i] = fork()) == 0) {
            rank_main(t, i);
            return 0;
        }
    for (int i = 0; i < o.ranks; i++) {
        int status;
        bad |= waitpid(pid[i], &status, 0) < 0 || status != 0;
    }
    return bad;
}
