// SPDX-License-Identifier: Apache-2.0
// Real processes as the ranks of a test of collectives, and a store of files between them.
#ifndef TESTS_UNIT_COMM_RANKS_H
#define TESTS_UNIT_COMM_RANKS_H

#include "base/clock.h"
#include "comm/comm.h"
#include "sys/file.h"
#include "sys/net.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 8, RUN_SECONDS_MAX = 240 };

// ---- a store of files, as every rank of a test sees it -----------------------------------------

static char store_dir[64];

static void store_path(char *out, size_t room, const char *key) {
    snprintf(out, room, "%s/%s", store_dir, key);
    for (char *p = out + strlen(store_dir) + 1; *p; p++)
        if (*p == '/')
            *p = '%';
}

static int store_set(void *ctx, const char *key, const void *value, size_t len, struct err *e) {
    char path[512], temporary[600];
    (void)ctx;
    store_path(path, sizeof path, key);
    snprintf(temporary, sizeof temporary, "%s.%d", path, getpid());
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, value, len) != (ssize_t)len || close(fd) < 0 ||
        rename(temporary, path) < 0)
        return err_errno(e, ERR_SYS, "store '%s'", path);
    return 0;
}

static const char *forged; // what the store says of node 1, or NULL: the truth

static int store_get(void *ctx, const char *key, void *value, size_t cap, size_t *len,
                     int timeout_ms, struct err *e) {
    char path[512];
    (void)ctx;
    if (forged && strstr(key, "/node/1")) {
        *len = strlen(forged);
        memcpy(value, forged, *len);
        return 0;
    }
    store_path(path, sizeof path, key);
    for (int64_t end = clock_mono_ms() + timeout_ms; clock_mono_ms() < end; usleep(1000)) {
        int fd = open(path, O_RDONLY);
        if (fd < 0)
            continue;
        ssize_t n = read(fd, value, cap);
        close(fd);
        *len = n > 0 ? (size_t)n : 0;
        return 0;
    }
    return err_set(e, ERR_TIMEOUT, "no key '%s' within %d ms", key, timeout_ms);
}

// ---- running ranks -----------------------------------------------------------------------------

struct topology {
    int nodes, per_node[4];
};

struct shared { // what ranks report, in memory that fork shares
    char text[RANKS_MAX][512];
    uint64_t digest[RANKS_MAX];
    int64_t ms[RANKS_MAX];
    int code[RANKS_MAX];
};
static struct shared *shared;
static int run_number;
static bool merge; // let nodes with loopback addresses share memory

struct rank {
    int rank, world;
    struct comm *comm;
    int sockets;
};

typedef int rank_fn(struct rank *r, struct err *e);

static void place(const struct topology *t, int rank, struct comm_config *c) {
    int world = 0;
    for (int n = 0; n < t->nodes; n++) {
        if (rank >= world && rank < world + t->per_node[n]) {
            c->node = n;
            c->local_rank = rank - world;
            c->local_world = t->per_node[n];
        }
        world += t->per_node[n];
    }
    c->rank = rank;
    c->world = world;
    c->nodes = t->nodes;
}

static int world_of(const struct topology *t) {
    int world = 0;
    for (int n = 0; n < t->nodes; n++)
        world += t->per_node[n];
    return world;
}

// Before rank 1 joins: others find the port of rank 0 and knock.
static bool strangers;
static int absent = -1, connect_ms = 20000; // a rank that never comes; how long others wait

static int liar = -1, liar_local = -1; // says it is the rank before, or the local rank before

static void knock(const char *prefix, int sockets) {
    char key[64], text[128] = "", address[64], junk[80];
    struct net_address to;
    struct err e;
    size_t len;
    int rank, port, fd[3];
    snprintf(key, sizeof key, "%s/node/0", prefix);
    if (store_get(NULL, key, text, sizeof text - 1, &len, 10000, &e) < 0 ||
        sscanf(text, "%d %d %63s", &rank, &port, address) != 3 ||
        net_resolve(address, port, &to, &e) < 0)
        return;
    for (int i = 0; i < 3; i++)
        fd[i] = net_connect(&to, 5000, &e);
    memset(junk, 'x', sizeof junk);
    (void)!send(fd[0], junk, sizeof junk, MSG_NOSIGNAL);
    // A hello in the right form, from "node 1", with a proof of nothing.
    const uint32_t hello[4] = {0x676e6972, 1, 0, (uint32_t)sockets + 1};
    memcpy(junk, hello, sizeof hello);
    (void)!send(fd[1], junk, sizeof junk, MSG_NOSIGNAL);
    close(fd[0]); // and the third one stays, silent
}

static void child(const struct topology *t, int rank, int sockets, rank_fn *fn) {
    struct comm_config c = {.kv = {store_set, store_get, NULL},
                            .sockets = sockets,
                            .keep_nodes = !merge,
                            .cpu = -1,
                            .connect_timeout_ms_max = connect_ms,
                            .stall_timeout_ms_max = 5000};
    char address[32], prefix[32];
    struct err e;
    err_clear(&e);
    alarm(RUN_SECONDS_MAX);
    place(t, rank, &c);
    c.rank -= rank == liar;
    c.local_rank -= rank == liar_local;
    snprintf(address, sizeof address, "127.0.0.%d", 2 + c.node);
    snprintf(prefix, sizeof prefix, "run%d", run_number);
    c.address = address;
    c.prefix = prefix;
    struct rank r = {.rank = rank, .world = c.world, .sockets = sockets};
    if (rank == absent)
        _exit(0);
    if (strangers && rank == 1)
        knock(prefix, sockets);
    int bad = comm_open(&r.comm, NULL, &c, &e);
    if (bad == 0)
        bad = fn(&r, &e);
    snprintf(shared->text[rank], sizeof shared->text[rank], "%.500s", bad ? e.text : "");
    shared->code[rank] = bad ? (int)e.code : 0;
    comm_close(r.comm);
    _exit(bad ? 1 : 0);
}

// Runs fn in every rank; the number of ranks that did not exit with 0. A rank may die on purpose.
static int run(const struct topology *t, int sockets, rank_fn *fn) {
    int world = world_of(t), failed = 0;
    pid_t pid[RANKS_MAX];
    memset(shared, 0, sizeof *shared);
    run_number++;
    fflush(stdout);
    for (int i = 0; i < world; i++) {
        pid[i] = fork();
        if (pid[i] == 0)
            child(t, i, sockets, fn);
    }
    for (int i = 0; i < world; i++) {
        int status;
        if (waitpid(pid[i], &status, 0) < 0 || status != 0)
            failed++;
        if (shared->text[i][0])
            diag("rank %d: %s", i, shared->text[i]);
    }
    return failed;
}

// ---- what they report --------------------------------------------------------------------------

// FNV over words of four bytes, then bytes.
static uint64_t digest(const void *p, size_t len, uint64_t h) {
    const unsigned char *c = p;
    uint32_t word;
    for (; len >= sizeof word; c += sizeof word, len -= sizeof word) {
        memcpy(&word, c, sizeof word);
        h = (h ^ word) * UINT64_C(1099511628211);
    }
    for (; len > 0; c++, len--)
        h = (h ^ *c) * UINT64_C(1099511628211);
    return h;
}

static bool same_digests(int world) {
    for (int i = 1; i < world; i++)
        if (shared->digest[i] != shared->digest[0])
            return false;
    return true;
}

#endif
