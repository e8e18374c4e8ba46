// SPDX-License-Identifier: Apache-2.0
// The judge of histories (tests/tools/linear.h) judges rightly: it finds each fault that a store
// may have, also where the real store is made to have it, and it accepts what the real store does.
#include "base/bytes.h"
#include "tcpstore/store.h"
#include "tcpstore/store_protocol.h"
#include "tests/tap.h"
#include "tests/tools/linear.h"

#define CHECK(...)                                                                                 \
    check((struct linear_op[]){__VA_ARGS__},                                                       \
          sizeof((struct linear_op[]){__VA_ARGS__}) / sizeof(struct linear_op))

static bool check(const struct linear_op *ops, size_t count) {
    struct linear_verdict v;
    return linear_check(ops, count, &v);
}

// KIND from CALL to BACK: a, b, result.
#define OP(k, from, to, x, y, r)                                                                   \
    { .kind = LINEAR_##k, .a = x, .b = y, .result = r, .call = from, .back = to }
#define SET(from, to, x)       OP(SET, from, to, x, "", NULL)
#define GET(from, to, r)       OP(GET, from, to, "", "", r)
#define ADD(from, to, x, r)    OP(ADD, from, to, x, "", r)
#define CAS(from, to, x, y, r) OP(CAS, from, to, x, y, r)
#define APPEND(from, to, x)    OP(APPEND, from, to, x, "", NULL)
#define DELETE(from, to, r)    OP(DELETE, from, to, "", "", r)
#define LOOK(from, to, r)      OP(CHECK, from, to, "", "", r)
#define WAITED(from, to)       OP(PRESENT, from, to, "", "", NULL)

static void test_one_by_one(void) {
    ok(CHECK(GET(1, 2, ""), SET(3, 4, "x"), GET(5, 6, "x"), GET(7, 8, "x")),
       "a written value is read");
    ok(!CHECK(GET(1, 2, "x")), "a value that was never written is found");
    ok(!CHECK(SET(1, 2, "x"), GET(3, 4, "")), "a value that is lost is found");
    ok(!CHECK(SET(1, 2, "x"), SET(3, 4, "y"), GET(5, 6, "x")), "a stale read is found");
    ok(!CHECK(SET(1, 2, "x"), SET(3, 9, "y"), GET(4, 5, "y"), GET(6, 7, "x")),
       "a stale read after a fresh one during a write is found");
    ok(CHECK(ADD(1, 2, "1", "1"), ADD(3, 4, "10", "11"), GET(5, 6, "11")), "sums");
    ok(!CHECK(ADD(1, 2, "1", "1"), ADD(3, 4, "1", "1")), "a lost add");
    ok(!CHECK(ADD(1, 2, "1", "1"), ADD(3, 4, "1", "3")), "a doubled add");
    ok(CHECK(CAS(1, 2, "", "a", "a"), CAS(3, 4, "a", "b", "b"), CAS(5, 6, "a", "c", "b")),
       "a history of compare-and-set is accepted");
    ok(CHECK(CAS(1, 2, "a", "b", "a"), GET(3, 4, "")),
       "compare and set of an absent value returns the expectation");
    ok(!CHECK(SET(1, 2, "x"), CAS(3, 4, "a", "b", "b")),
       "a compare and set in spite of another value is found");
    ok(!CHECK(CAS(1, 2, "", "a", "a"), CAS(3, 4, "a", "b", "b"), GET(5, 6, "a")),
       "a compare and set that is undone is found");
    ok(CHECK(APPEND(1, 2, "a"), APPEND(3, 4, "b"), GET(5, 6, "ab")),
       "a history of appends is accepted");
    ok(!CHECK(APPEND(1, 2, "a"), APPEND(3, 4, "b"), GET(5, 6, "ba")),
       "an append in the wrong order is found");
    ok(!CHECK(APPEND(1, 2, "a"), GET(3, 4, "aa")), "a doubled append is found");
    ok(CHECK(DELETE(1, 2, "0"), SET(3, 4, "x"), DELETE(5, 6, "1"), GET(7, 8, "")),
       "a history of deletions is accepted");
    ok(!CHECK(SET(1, 2, "x"), DELETE(3, 4, "1"), DELETE(5, 6, "1")),
       "a key that was deleted twice is found");
    ok(!CHECK(SET(1, 2, "x"), DELETE(3, 4, "1"), GET(5, 6, "x")),
       "a value that came back after its deletion is found");
    ok(CHECK(LOOK(1, 2, "0"), SET(3, 4, "x"), LOOK(5, 6, "1"), WAITED(7, 8)),
       "a history of check and wait is accepted");
    ok(!CHECK(SET(1, 2, "x"), LOOK(3, 4, "0")), "a check that is wrong is found");
    ok(!CHECK(SET(1, 2, "x"), DELETE(3, 4, "1"), WAITED(5, 6)),
       "a wait that ends for nothing is found");
    ok(!CHECK(WAITED(1, 2), SET(3, 4, "x")), "a wait that ends too early is found");
}

static void test_at_once(void) {
    ok(CHECK(SET(1, 9, "x"), GET(2, 3, ""), GET(4, 5, "x")),
       "a write may be visible before its answer");
    ok(CHECK(SET(1, 9, "x"), SET(2, 8, "y"), GET(10, 11, "x")), "two writes in either order");
    ok(CHECK(SET(1, 9, "x"), SET(2, 8, "y"), GET(10, 11, "y")),
       "two writes may take effect in the other order");
    ok(!CHECK(SET(1, 9, "x"), SET(2, 8, "y"), GET(10, 11, "x"), GET(12, 13, "y")),
       "two reads that see different orders are found");
    ok(CHECK(ADD(1, 9, "1", "2"), ADD(2, 8, "1", "1")), "two sums in the order of their answers");
    ok(!CHECK(ADD(1, 9, "1", "1"), ADD(2, 8, "1", "1")), "equal answers to two sums are found");
    ok(CHECK(WAITED(1, 9), SET(5, 6, "x"), DELETE(7, 8, "1")),
       "a wait may have seen the key in between");
    // Lost answers: it took effect, it did not, or it does so later.
    ok(CHECK(ADD(1, 0, "1", NULL), ADD(2, 3, "1", "2")), "an add without an answer counts");
    ok(CHECK(ADD(1, 0, "1", NULL), ADD(2, 3, "1", "1")), "an add without an answer may not count");
    ok(CHECK(ADD(1, 0, "1", NULL), ADD(2, 3, "1", "1"), ADD(4, 5, "1", "3")),
       "an add without an answer may count later");
    ok(!CHECK(ADD(1, 0, "1", NULL), ADD(2, 3, "1", "1"), ADD(4, 5, "1", "4")),
       "an add without an answer that counts twice is found");
    ok(!CHECK(ADD(2, 3, "1", "2"), ADD(4, 0, "1", NULL)),
       "an add that counts before its request is found");
    ok(CHECK(CAS(1, 0, "", "a", NULL), GET(2, 3, ""), GET(4, 5, "a")),
       "a compare and set without an answer may count later");
}

// ---- the real store -----------------------------------------------------------------------------
// Clients whose requests reach the store, and whose answers reach them, in an order by chance.
enum { CLIENTS = 5, STEPS = 600, SEEDS = 60 };
enum fault {
    NONE,
    DOUBLED, // a request is carried out twice, as if it were sent again after a break
    SPLIT,   // or by another store
    EARLY,   // or after it was answered
    FAULTS
};

struct client {
    struct store_session *sessions[2]; // of the store, and of another one
    int op, at;                        // its operation, and in which of the sessions that is
    enum { IDLE, CALLED, SERVED } state;
};

static uint32_t chance;
static struct linear_op ops[STEPS];
static int op_count, now;

static uint32_t draw(uint32_t n) { // xorshift (Marsaglia, 2003)
    chance ^= chance << 13;
    chance ^= chance >> 17;
    chance ^= chance << 5;
    return chance % n;
}

static void add_text(struct strbuf *b, const char *s) {
    unsigned char len[8];
    bytes_store(len, strlen(s), 8);
    strbuf_add(b, len, 8);
    strbuf_adds(b, s);
}

// A key is a number or a text for a whole play.
static void call(struct arena *a, struct client *c, bool number) {
    static const enum linear_kind numbers[] = {LINEAR_ADD, LINEAR_ADD, LINEAR_GET, LINEAR_DELETE};
    static const enum linear_kind texts[] = {LINEAR_SET, LINEAR_GET,    LINEAR_GET,
                                             LINEAR_CAS, LINEAR_APPEND, LINEAR_DELETE};
    static const char *last;
    struct linear_op *o = &ops[op_count];
    last = op_count == 0 ? "" : last;
    *o = (struct linear_op){.kind = number ? numbers[draw(4)] : texts[draw(6)], .call = ++now};
    const char *text = arena_printf(a, "v%d,", op_count);
    o->a = number ? "1" : o->kind == LINEAR_CAS ? last : text;
    o->b = text;
    last = o->kind == LINEAR_SET || o->kind == LINEAR_CAS ? text : last;
    c->op = op_count++;
    c->state = CALLED;
}

static bool has_answer(const struct linear_op *o) {
    return o->kind != LINEAR_SET && o->kind != LINEAR_APPEND;
}

static void feed(struct store_session *s, const struct linear_op *o) {
    static const unsigned char codes[] = {
        [LINEAR_SET] = STORE_OP_SET,       [LINEAR_GET] = STORE_OP_GET,
        [LINEAR_ADD] = STORE_OP_ADD,       [LINEAR_CAS] = STORE_OP_COMPARE_SET,
        [LINEAR_APPEND] = STORE_OP_APPEND, [LINEAR_DELETE] = STORE_OP_DELETE_KEY};
    static const unsigned char one[8] = {1};
    struct strbuf b = {0};
    struct err e;
    strbuf_addc(&b, (char)codes[o->kind]);
    add_text(&b, "key");
    if (o->kind == LINEAR_ADD)
        strbuf_add(&b, one, sizeof one);
    if (o->kind == LINEAR_SET || o->kind == LINEAR_CAS || o->kind == LINEAR_APPEND)
        add_text(&b, o->a);
    if (o->kind == LINEAR_CAS)
        add_text(&b, o->b);
    strbuf_clear(&s->out); // of the first time, where it is asked twice
    must(store_feed(s, b.data, b.len, &e) == 0);
    strbuf_fini(&b);
}

static void answer(struct arena *a, struct client *c) {
    struct linear_op *o = &ops[c->op];
    struct strbuf *out = &c->sessions[c->at]->out;
    uint64_t n = out->len >= 8 ? bytes_load(out->data, 8) : 0;
    if (o->kind == LINEAR_GET || o->kind == LINEAR_CAS)
        o->result = arena_strndup(a, out->data + 8, n);
    else if (has_answer(o))
        o->result = arena_printf(a, "%d", (int)n);
    o->back = o->back ? o->back : ++now;
    strbuf_clear(out);
    c->state = IDLE;
}

// Judges one play; *made: number of faults made.
static bool play(uint32_t seed, enum fault fault, int *made) {
    struct arena a = {0};
    struct store *stores[2] = {store_open(NULL), store_open(NULL)};
    struct client clients[CLIENTS] = {0};
    static const unsigned char hello[] = {STORE_OP_VALIDATE, 0xce, 0xf7, 0x85, 0x3c};
    struct err e;
    chance = seed * 2654435761u | 1;
    op_count = now = *made = 0;
    for (int i = 0; i < 2 * CLIENTS; i++) {
        struct store_session *s = store_session_open(stores[i % 2], NULL, &e);
        must(store_feed(s, hello, sizeof hello, &e) == 0);
        clients[i / 2].sessions[i % 2] = s;
    }
    while (op_count < STEPS) {
        struct client *c = &clients[draw(CLIENTS)];
        if (c->state == IDLE) {
            call(&a, c, seed % 2);
        } else if (c->state == SERVED) {
            answer(&a, c);
        } else {
            struct linear_op *o = &ops[c->op];
            bool wrong = o->back == 0 && fault && draw(10) == 0;
            c->at = wrong && fault == SPLIT;
            if (wrong && fault == EARLY && !has_answer(o)) {
                o->back = ++now; // and is carried out at its next turn
                *made += 1;
                continue;
            }
            feed(c->sessions[c->at], o);
            if (wrong && fault == DOUBLED)
                feed(c->sessions[c->at], o);
            *made += wrong && fault != EARLY;
            c->state = SERVED;
        }
    }
    bool good = check(ops, (size_t)op_count);
    for (int i = 0; i < 2 * CLIENTS; i++)
        store_session_close(clients[i / 2].sessions[i % 2]);
    store_close(stores[0]);
    store_close(stores[1]);
    arena_fini(&a);
    return good;
}

static void test_store(void) {
    static const char *const names[FAULTS] = {"as it is", "carries out requests twice",
                                              "answers from another store", "answers too early"};
    for (enum fault fault = NONE; fault < FAULTS; fault++) {
        int good = 0, made, all = 0;
        for (uint32_t seed = 1; seed <= SEEDS; seed++) {
            good += play(seed, fault, &made);
            all += made;
        }
        if (fault == NONE)
            is_int(good, SEEDS, "the real store, %s: every history is right", names[fault]);
        else
            ok(good <= SEEDS / 2 && all > SEEDS,
               "a store that %s: %d of %d histories are found (%d faults)", names[fault],
               SEEDS - good, SEEDS, all);
    }
}

int main(void) {
    test_one_by_one();
    test_at_once();
    test_store();
    return done_testing();
}
