// SPDX-License-Identifier: Apache-2.0
// One node of a ring between neighbours that are this test: which segments go around in which
// order, how they are cut for connections and in pieces, and the bytes on each connection.
#include "tests/unit/comm/ring_table.h"

// ---- the order of segments ---------------------------------------------------------------------

static void test_all_gather(void) {
    struct table *t = seated(1, 3, 1);
    struct err e;
    float x[6] = {0, 0, 3, 4, 5, 0};
    const float all[6] = {1, 2, 3, 4, 5, 6};
    come(t->left[0], 0, 0, all, 8);
    come(t->left[0], 1, 0, all + 5, 4);
    is_int(ring_all_gather(&t->r, &element_f32, x, thirds, &e), 0, "an all-gather goes around");
    is_mem(x, sizeof x, all, sizeof all, "a node gets the segments of the others");
    ok(went(t->right[0], 0, 0, all + 2, 12), "a node sends its own segment first");
    ok(went(t->right[0], 1, 0, all, 8), "a node passes the bytes of its left neighbour on");
    ok(silent(t->right[0]), "no segment goes to the node that it came from");
    ok(t->r.sent == 2 && t->r.received == 2, "an all-gather of 3 nodes takes 2 steps");
    cleared(t);
}

static void test_reduce_scatter(void) {
    struct table *t = seated(1, 3, 1);
    struct err e;
    float x[6] = {1, 2, 3, 4, 5, 6};
    const float came[] = {10, 30, 40, 50}, sum[] = {16.5F, 22, 27.5F};
    come(t->left[0], 0, 0, came, 4);
    come(t->left[0], 1, 0, came + 1, 12);
    recv_bytes_max = 3; // elements come in pieces
    is_int(ring_reduce_scatter(&t->r, &element_f32, x, thirds, 0.5, &e), 0,
           "a reduce-scatter goes around");
    recv_bytes_max = 0;
    is_mem(x + 2, 12, sum, 12, "a node has the sum of its own segment times the factor");
    const float own[] = {1, 2}, both = 16;
    ok(went(t->right[0], 0, 0, own, 8), "the segment of the left node goes first");
    ok(went(t->right[0], 1, 0, &both, 4), "the sum of two nodes goes next");
    ok(silent(t->right[0]), "the own segment stays");
    cleared(t);
}

static void test_all_reduce(void) {
    struct table *t = seated(1, 3, 1);
    struct err e;
    float x[7] = {1, 2, 3, 4, 5, 6, 7};
    const float came[] = {10, 20, 30, 40, 50}, end[] = {-1, -2, -3, -4};
    const float result[] = {-3, -4, -1, -2, 70, 92, 114};
    come(t->left[0], 0, 0, came, 8);      // segment 0
    come(t->left[0], 1, 0, came + 2, 12); // segment 2
    come(t->left[0], 2, 0, end, 8);       // segment 1, whole
    come(t->left[0], 3, 0, end + 2, 8);   // segment 0, whole
    is_int(ring_all_reduce(&t->r, &element_f32, x, 7, 2, &e), 0, "an all-reduce goes around");
    is_mem(x, sizeof x, result, sizeof result, "a node adds on the first way and stores after");
    const float first[] = {3, 4}, second[] = {11, 22};
    ok(went(t->right[0], 0, 0, first, 8), "an all-reduce starts with the own segment");
    ok(went(t->right[0], 1, 0, second, 8), "an all-reduce sends on a sum");
    ok(went(t->right[0], 2, 0, result + 4, 12), "an all-reduce sends the scaled sum");
    ok(went(t->right[0], 3, 0, result + 2, 8), "an all-reduce sends on the sum of another");
    ok(silent(t->right[0]) && t->r.sent == 4 && t->r.received == 4,
       "an all-reduce of 3 nodes takes 4 steps");
    cleared(t);
}

// Up to RING_EXCHANGE_BYTES_MAX two nodes swap all they have.
static void test_swap(void) {
    enum { FEW = RING_EXCHANGE_BYTES_MAX / 4 };
    static float x[FEW + 1], other[FEW + 1], mine[FEW + 1], want[FEW + 1];
    struct err e;
    for (size_t count = FEW; count <= FEW + 1; count++) {
        struct table *t = seated(1, 2, 1);
        for (size_t i = 0; i < count; i++) {
            mine[i] = x[i] = (float)i;
            other[i] = 2;
            want[i] = ((float)i + 2) * 0.5F;
        }
        size_t half = count / 2, rest = count - half;
        if (count == FEW) {
            come(t->left[0], 0, 0, other, count * 4);
        } else {
            come(t->left[0], 0, 0, other, half * 4);
            come(t->left[0], 1, 0, want + half, rest * 4);
        }
        is_int(ring_all_reduce(&t->r, &element_f32, x, count, 0.5, &e), 0,
               "two nodes reduce %zu floats", count);
        is_mem(x, count * 4, want, count * 4, "two nodes have the mean of %zu floats", count);
        if (count == FEW)
            ok(went(t->right[0], 0, 0, mine, count * 4), "32 KiB go at once");
        else
            ok(went(t->right[0], 0, 0, mine + half, rest * 4) &&
                   went(t->right[0], 1, 0, want, half * 4),
               "more than 32 KiB go in halves");
        ok(silent(t->right[0]), "no more goes for %zu floats", count);
        cleared(t);
    }
}

// ---- connections beside each other -------------------------------------------------------------

// 64 KiB are the least for one connection.
static void test_stripes(void) {
    enum { LEAST = RING_STRIPE_BYTES_MIN };
    static const struct {
        size_t bytes, first; // on the first connection
    } cases[] = {{2 * LEAST - 1, 2 * LEAST - 1}, {2 * LEAST, LEAST},
                 {2 * LEAST + 100, LEAST},       {2 * LEAST + 128, LEAST + 64},
                 {3 * LEAST, LEAST / 2 * 3},     {0, 0}};
    static char x[6 * LEAST], want[3 * LEAST];
    struct err e;
    for (size_t i = 0; i < sizeof want; i++)
        want[i] = (char)(i * 7 + i / 256);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct table *t = seated(1, 2, 2);
        size_t bytes = cases[k].bytes, first = cases[k].first;
        const struct ring_segment halves[] = {{0, bytes}, {bytes, bytes}};
        memset(x, 0, sizeof x);
        memcpy(x + bytes, want, bytes);
        come(t->left[0], 0, 0, want, first);
        if (first < bytes)
            come(t->left[1], 0, 1, want + first, bytes - first);
        is_int(ring_all_gather(&t->r, &element_byte, x, halves, &e), 0,
               "%zu bytes go over 2 connections", bytes);
        is_mem(x, bytes, want, bytes, "%zu bytes come over 2 connections", bytes);
        ok(went(t->right[0], 0, 0, want, first) &&
               (first == bytes || went(t->right[1], 0, 1, want + first, bytes - first)) &&
               silent(t->right[0]) && silent(t->right[1]),
           "of %zu bytes %zu go over the first connection", bytes, first);
        cleared(t);
    }
}

// ---- broadcast ---------------------------------------------------------------------------------

static char message[RING_PIECE_BYTES + 5];
static unsigned char passed[RING_PART_BYTES + RING_PIECE_BYTES];
static unsigned char arriving[RING_PART_BYTES + RING_PIECE_BYTES];
static size_t passed_bytes, arrived_bytes;

// The second piece comes when the first one has left in full.
static void second_comes(struct table *t) {
    fcntl(t->right[0], F_SETFL, O_NONBLOCK);
    for (ssize_t n = 1; n > 0 && passed_bytes<sizeof passed; passed_bytes += n> 0 ? (size_t)n : 0)
        n = read(t->right[0], passed + passed_bytes, sizeof passed - passed_bytes);
    if (passed_bytes == sizeof passed)
        come(t->left[0], 1, 0, message + RING_PIECE_BYTES, 5);
    else
        while_idle = second_comes;
}

// A piece may be more than a socket holds.
static void first_comes(struct table *t) {
    fcntl(t->left[0], F_SETFL, O_NONBLOCK);
    ssize_t n = write(t->left[0], arriving + arrived_bytes, sizeof arriving - arrived_bytes);
    arrived_bytes += n > 0 ? (size_t)n : 0;
    fcntl(t->left[0], F_SETFL, 0);
    while_idle = arrived_bytes == sizeof arriving ? second_comes : first_comes;
}

static void test_broadcast(void) {
    enum { SMALL = 100 };
    struct err e;
    static char x[sizeof message];
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (char)(i * 5 + i / 1000);
    static const struct {
        int node, root;
        bool receives, sends;
    } cases[] = {{1, 1, false, true}, {1, 0, true, true}, {1, 2, true, false}, {2, 1, true, true}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct table *t = seated(cases[k].node, 3, 1);
        memcpy(x, message, SMALL);
        if (cases[k].receives) {
            memset(x, 0, sizeof x);
            come(t->left[0], 0, 0, message, SMALL);
        }
        is_int(ring_broadcast(&t->r, x, SMALL, cases[k].root, &e), 0,
               "node %d is in the broadcast of node %d", cases[k].node, cases[k].root);
        is_mem(x, SMALL, message, SMALL, "node %d has the bytes of node %d", cases[k].node,
               cases[k].root);
        ok(!cases[k].sends || went(t->right[0], 0, 0, message, SMALL),
           "node %d sends on the bytes of node %d", cases[k].node, cases[k].root);
        ok(silent(t->right[0]) && t->r.sent == cases[k].sends && t->r.received == cases[k].receives,
           "node %d takes one step for 100 bytes of node %d", cases[k].node, cases[k].root);
        cleared(t);
    }
}

// The second piece comes after the first one has gone on.
static void test_pieces(void) {
    struct err e;
    static char x[sizeof message];
    struct table *t = seated(1, 3, 1);
    bytes_store(arriving, 0, 8);
    bytes_store(arriving + 8, RING_PIECE_BYTES, 8);
    memcpy(arriving + RING_PART_BYTES, message, RING_PIECE_BYTES);
    while_idle = first_comes;
    is_int(ring_broadcast(&t->r, x, sizeof x, 0, &e), 0, "256 KiB and 5 bytes are broadcast");
    is_mem(x, sizeof x, message, sizeof message, "both pieces come in order");
    ok(bytes_load(passed, 4) == 0 && bytes_load(passed + 8, 8) == RING_PIECE_BYTES &&
           memcmp(passed + RING_PART_BYTES, message, RING_PIECE_BYTES) == 0,
       "the first piece goes on before the second one has come");
    ok(went(t->right[0], 1, 0, message + RING_PIECE_BYTES, 5) && silent(t->right[0]),
       "5 bytes are the second and last piece");
    cleared(t);
}

int main(void) {
    test_all_gather();
    test_reduce_scatter();
    test_all_reduce();
    test_swap();
    test_stripes();
    test_broadcast();
    test_pieces();
    return done_testing();
}
