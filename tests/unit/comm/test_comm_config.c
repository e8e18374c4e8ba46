// SPDX-License-Identifier: Apache-2.0
// Configurations of ranks, which are sound and which are not, and a rank by itself.
#include "comm/comm.h"
#include "tests/tap.h"

static void test_config(void) {
    struct err e;
    struct comm *c;
    struct comm_config good = {.rank = 0, .world = 1, .cpu = -1};
    err_clear(&e);
    is_int(comm_open(&c, NULL, &good, &e), 0, "a single rank opens without a peer");
    is_str(comm_backend_name(c), "self", "a single rank uses the backend 'self'");
    float x[2] = {1, 2};
    uint64_t ticket;
    is_int(comm_all_reduce_start(c, x, 2, COMM_MEAN, &ticket, &e), 0,
           "one rank starts an all-reduce");
    ok(comm_wait(c, ticket, &e) == 0 && x[1] == 2.0F, "one rank is done at once");
    comm_close(c);
    is_int(comm_open(&c, "nccl2", &good, &e), -1, "an unknown backend is refused");
    has_str(e.text, "nccl2", "the error names the unknown backend");
    struct comm_config bad = {.rank = 3, .world = 2, .cpu = -1};
    is_int(comm_open(&c, NULL, &bad, &e), -1, "rank 3 of 2 is refused");
    struct comm_config odd = {
        .rank = 0, .world = 4, .local_rank = 0, .local_world = 4, .nodes = 2, .cpu = -1};
    is_int(comm_open(&c, NULL, &odd, &e), -1, "4 ranks of 4 on the first of 2 nodes are refused");
    is_int(e.code, ERR_CONFIG, "the error is one of configuration");
}

// A configuration that is sound gets as far as the store.
static int no_store_set(void *ctx, const char *key, const void *value, size_t len, struct err *e) {
    (void)ctx, (void)value, (void)len;
    return err_set(e, ERR_BUSY, "no store for %s", key);
}

static int no_store_get(void *ctx, const char *key, void *value, size_t cap, size_t *len,
                        int timeout_ms, struct err *e) {
    (void)value, (void)cap, (void)len, (void)timeout_ms;
    return no_store_set(ctx, key, NULL, 0, e);
}

// rank, world; local rank, local world; node, nodes; sockets; error, or NULL: sound
static const struct {
    int n[7];
    const char *error;
} placements[] = {
    {{0, 0, 0, 0, 0, 0, 0}, "rank 0 of 0 is not possible (at most 65536 ranks)"},
    {{-1, 2, 0, 2, 0, 1, 0}, "rank -1 of 2 is not possible"},
    {{2, 2, 0, 2, 0, 1, 0}, "rank 2 of 2 is not possible"},
    {{1, 2, 1, 2, 0, 1, 0}, NULL},
    {{0, 65537, 0, 1, 0, 65537, 0}, "rank 0 of 65537 is not possible"},
    {{1, 65536, 0, 1, 1, 65536, 0}, NULL},
    {{0, 2, 0, 0, 0, 2, 0}, "rank 0: local rank 0 of 0 is not possible (at most 256 on a node)"},
    {{0, 2, -1, 2, 0, 1, 0}, "rank 0: local rank -1 of 2 is not possible"},
    {{0, 2, 2, 2, 0, 1, 0}, "rank 0: local rank 2 of 2 is not possible"},
    {{0, 257, 0, 257, 0, 1, 0}, "rank 0: local rank 0 of 257 is not possible"},
    {{1, 256, 1, 256, 0, 1, 0}, NULL},
    {{0, 2, 0, 3, 0, 1, 0}, "rank 0: local rank 0 of 3 is not possible"},
    {{0, 2, 0, 1, 0, 0, 0}, "rank 0: node 0 of 0 with 1 of 2 ranks is not possible"},
    {{0, 2, 0, 1, 0, 3, 0}, "rank 0: node 0 of 3 with 1 of 2 ranks is not possible"},
    {{0, 2, 0, 1, -1, 2, 0}, "rank 0: node -1 of 2 with 1 of 2 ranks is not possible"},
    {{0, 2, 0, 1, 2, 2, 0}, "rank 0: node 2 of 2 with 1 of 2 ranks is not possible"},
    {{0, 2, 0, 1, 0, 1, 0}, "rank 0: node 0 of 1 with 1 of 2 ranks is not possible"},
    {{1, 2, 0, 1, 1, 2, 0}, NULL},
    {{1, 2, 0, 1, 1, 2, -1}, "-1 sockets per neighbour are not in 1 to 16"},
    {{1, 2, 0, 1, 1, 2, 17}, "17 sockets per neighbour are not in 1 to 16"},
    {{1, 2, 0, 1, 1, 2, 16}, NULL},
};

static void test_placements(void) {
    struct err e;
    struct comm *c;
    char prefix[258];
    memset(prefix, 'p', sizeof prefix);
    for (size_t i = 0; i < sizeof placements / sizeof placements[0]; i++) {
        const int *n = placements[i].n;
        const char *want = placements[i].error;
        const struct comm_config config = {.rank = n[0],
                                           .world = n[1],
                                           .local_rank = n[2],
                                           .local_world = n[3],
                                           .node = n[4],
                                           .nodes = n[5],
                                           .sockets = n[6],
                                           .kv = {no_store_set, no_store_get, NULL},
                                           .address = "127.0.0.2",
                                           .keep_nodes = true,
                                           .cpu = -1};
        is_int(comm_open(&c, NULL, &config, &e), -1, "placement %zu is opened", i);
        has_str(e.text, want ? want : "no store for comm/", "placement %zu has its verdict", i);
        is_int(e.code, want ? ERR_CONFIG : ERR_BUSY, "placement %zu has its code", i);
    }
    struct comm_config two = {.rank = 1,
                              .world = 2,
                              .local_world = 1,
                              .node = 1,
                              .nodes = 2,
                              .kv = {no_store_set, no_store_get, NULL},
                              .cpu = -1};
    is_int(comm_open(&c, NULL, &two, &e), -1, "two nodes need addresses");
    has_str(e.text, "rank 1: more than one node, and no address of this one",
            "the error names the rank without an address");
    for (size_t length = 255; length <= 256; length++) {
        struct comm_config long_prefix = two;
        long_prefix.address = "127.0.0.2";
        long_prefix.prefix = prefix + 257 - length;
        prefix[257] = 0;
        comm_open(&c, NULL, &long_prefix, &e);
        is_int(e.code, length == 255 ? ERR_BUSY : ERR_LIMIT, "a prefix has %zu bytes", length);
    }
    two.address = "127.0.0.2";
    two.kv.get = NULL;
    is_int(comm_open(&c, NULL, &two, &e), -1, "a store must be readable");
    has_str(e.text, "ranks need a store", "the error asks for a store");
    two.kv = (struct comm_kv){NULL, no_store_get, NULL};
    is_int(comm_open(&c, NULL, &two, &e), -1, "a store must be writable");
    has_str(e.text, "ranks need a store", "the error asks for a store that can be written");
}

// Parts are multiples of 64 elements.
static void test_parts(void) {
    static const size_t cases[][2] = {{0, 0}, {1, 64}, {63, 64}, {64, 64}, {65, 128}, {128, 128}};
    struct comm_config one = {.world = 1, .cpu = -1};
    struct comm *c;
    struct comm_stats stats;
    struct err e;
    if (comm_open(&c, NULL, &one, &e) < 0)
        bail_out("%s", e.text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        is_uint(comm_each(c, cases[i][0]), cases[i][1], "%zu elements are one part", cases[i][0]);
    float x[4] = {1, 2, 3, 4};
    is_int(comm_all_reduce(c, x, 4, COMM_MEAN, &e), 0, "one rank has a mean");
    is_int(comm_all_reduce(c, x, 0, COMM_MEAN, &e), 0, "one rank has a mean of nothing");
    comm_stats(c, &stats);
    ok(stats.operations == 2 && stats.bytes == 16 && stats.busy_ns >= 0,
       "operations are counted, with their bytes");
    err_set(&e, ERR_BUSY, "first");
    comm_fail(c, &e);
    err_set(&e, ERR_LIMIT, "second");
    comm_fail(c, &e);
    is_int(comm_check(c, &e), -1, "a comm that failed is of no use");
    is_str(e.text, "first", "the first reason is kept");
    is_int(comm_all_reduce(c, x, 4, COMM_SUM, &e), -1, "a comm that failed refuses to work");
    is_int(e.code, ERR_BUSY, "the refusal has the first code");
    comm_close(c);
}

int main(void) {
    test_config();
    test_placements();
    test_parts();
    return done_testing();
}
