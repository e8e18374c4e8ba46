// SPDX-License-Identifier: Apache-2.0
// The store without sockets: every request of the modern protocol byte by byte, splits at every
// offset, waits, cancellation, limits, hostile input, and the two older dialects.
#include "base/bytes.h"
#include "tcpstore/store.h"
#include "tcpstore/store_protocol.h"
#include "tests/tap.h"

static struct strbuf req;
static struct err e;

static void num(uint64_t v, size_t width) {
    unsigned char b[8];
    bytes_store(b, v, 8);
    strbuf_add(&req, b, width);
}

static void str(const char *s) {
    num(strlen(s), 8);
    strbuf_adds(&req, s);
}

static void op(int code) {
    strbuf_addc(&req, (char)code);
}

// Sends what was built; 0 or -1.
static int send_all(struct store_session *c) {
    int rc = store_feed(c, req.data, req.len, &e);
    strbuf_clear(&req);
    return rc;
}

static struct store_session *modern(struct store *s) {
    struct store_session *c = store_session_open(s, NULL, &e);
    op(STORE_OP_VALIDATE);
    num(STORE_WIRE_MAGIC, 4);
    if (send_all(c) < 0)
        bail_out("greeting refused: %s", e.text);
    return c;
}

static bool reply_is(struct store_session *c, const void *want, size_t len) {
    bool same = c->out.len == len && (len == 0 || memcmp(c->out.data, want, len) == 0);
    if (!same)
        tap_bytes("reply", c->out.data, c->out.len);
    strbuf_clear(&c->out);
    return same;
}

static bool reply_num(struct store_session *c, uint64_t v, size_t width) {
    unsigned char b[8];
    bytes_store(b, v, 8);
    return reply_is(c, b, width);
}

static bool reply_str(struct store_session *c, const char *s) {
    struct strbuf b = {0};
    unsigned char len[8];
    bytes_store(len, strlen(s), 8);
    strbuf_add(&b, len, 8);
    strbuf_adds(&b, s);
    bool same = reply_is(c, b.data, b.len);
    strbuf_fini(&b);
    return same;
}

static void set(struct store_session *c, const char *k, const char *v) {
    op(STORE_OP_SET), str(k), str(v);
    if (send_all(c) < 0)
        bail_out("set failed: %s", e.text);
}

static void get(struct store_session *c, const char *k) {
    op(STORE_OP_GET), str(k), send_all(c);
}

static void test_basics(void) {
    struct store *s = store_open(NULL);
    struct store_session *c = modern(s);
    op(STORE_OP_PING), num(0xdeadbeef, 4), send_all(c);
    ok(reply_num(c, 0xdeadbeef, 4), "ping is echoed");
    set(c, "/a", "one");
    ok(reply_is(c, NULL, 0), "set has no reply");
    get(c, "/a");
    ok(reply_str(c, "one"), "get gives what was set");
    get(c, "/none");
    ok(reply_str(c, ""), "get of an absent key is empty");
    op(STORE_OP_ADD), str("/n"), num(5, 8), send_all(c);
    ok(reply_num(c, 5, 8), "add starts at 0");
    op(STORE_OP_ADD), str("/n"), num((uint64_t)-7, 8), send_all(c);
    ok(reply_num(c, (uint64_t)-2, 8), "add of a negative");
    get(c, "/n");
    ok(reply_str(c, "-2"), "numbers are kept as decimal text");
    op(STORE_OP_APPEND), str("/a"), str("+two"), send_all(c);
    get(c, "/a");
    ok(reply_str(c, "one+two"), "the appended value is returned");
    op(STORE_OP_CHECK), num(2, 8), str("/a"), str("/n"), send_all(c);
    ok(reply_num(c, STORE_WIRE_READY, 1), "a check of two keys that are there succeeds");
    op(STORE_OP_CHECK), num(2, 8), str("/a"), str("/x"), send_all(c);
    ok(reply_num(c, STORE_WIRE_NOT_READY, 1), "a check for a missing key fails");
    op(STORE_OP_GETNUMKEYS), send_all(c);
    ok(reply_num(c, 2, 8), "keys are counted");
    op(STORE_OP_DELETE_KEY), str("/n"), send_all(c);
    ok(reply_num(c, 1, 8), "delete removes one");
    op(STORE_OP_DELETE_KEY), str("/n"), send_all(c);
    ok(reply_num(c, 0, 8), "a second delete removes nothing");
    op(STORE_OP_MULTI_SET), num(2, 8), str("/p"), str("P"), str("/q"), str("Q"), send_all(c);
    op(STORE_OP_MULTI_GET), num(3, 8), str("/p"), str("/none"), str("/q"), send_all(c);
    ok(reply_is(c, "\1\0\0\0\0\0\0\0P\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0Q", 26), "multi set and get");
    op(STORE_OP_MULTI_GET), num(0, 8), op(STORE_OP_PING), num(9, 4), send_all(c);
    ok(reply_num(c, 9, 4), "multi get of nothing leaves the stream in step");
    store_session_close(c);
    store_close(s);
}

// A value that is not this store's own number: what its text begins with counts, as in stoll.
static void test_number_texts(void) {
    static const struct {
        const char *text;
        int64_t sum; // with 1 added; 0: refused
    } rows[] = {
        {"12 and 40 more bytes that do not belong to it", 13},
        {"7777x", 7778},
        {" \t +0000000000000000000000000000000000000041", 42},
        {"-0000000000000000000000000000000000000009,", -8},
        {"-9223372036854775808", INT64_MIN + 1},
        {"9223372036854775808", 0},
        {"-9223372036854775809", 0},
        {"99999999999999999999999999999999999999999", 0},
        {"", 0},
        {"-", 0},
        {"x1", 0},
        {"+-1", 0},
    };
    struct store *s = store_open(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct store_session *c = modern(s);
        set(c, "/n", rows[i].text);
        op(STORE_OP_ADD), str("/n"), num(1, 8);
        int rc = send_all(c);
        ok(rows[i].sum ? rc == 0 && reply_num(c, (uint64_t)rows[i].sum, 8) : rc < 0, "add to '%s'",
           rows[i].text);
        store_session_close(c);
    }
    store_close(s);
}

// A value may grow beyond what one request may bring, up to the store's limit, and is read whole.
static void test_long_append(void) {
    struct store_limits limits = {
        .value_bytes_max = 64, .total_bytes_max = 4096, .reply_bytes_max = 600};
    static const char piece[] = "fifty bytes of a value, which is grown piece by piece";
    struct store *s = store_open(&limits);
    struct store_session *c = modern(s);
    for (int i = 0; i < 20; i++)
        op(STORE_OP_APPEND), str("/a"), num(50, 8), strbuf_add(&req, piece, 50);
    is_int(send_all(c), 0, "%d bytes are appended in all", 20 * 50);
    get(c, "/a");
    is_uint(c->out.len, 8 + 20 * 50, "long values are sent in one reply");
    op(STORE_OP_GET), str("/a");
    is_int(send_all(c), -1, "a client that does not read gets no second one");
    store_session_close(c);
    c = modern(s);
    int rc = 0;
    for (int i = 0; i < 100 && rc == 0; i++)
        op(STORE_OP_APPEND), str("/a"), num(50, 8), strbuf_add(&req, piece, 50), rc = send_all(c);
    is_int(rc, -1, "the store's limit holds");
    has_str(e.text, "the store is full", "the error says that the store is full");
    ok(store_figures(s).bytes <= 4096, "the store stays within its limit");
    store_session_close(c);
    c = modern(s);
    op(STORE_OP_GET), str("/a");
    is_int(send_all(c), -1, "a reply for which the store has no room ends its client");
    store_session_close(c);
    store_close(s);
}

// Numbers at the ends of their range, as text.
static void test_numbers(void) {
    static const struct {
        int64_t amount;
        const char *text;
    } steps[] = {
        {INT64_MAX, "9223372036854775807"}, // 0 + …
        {1, "-9223372036854775808"},        // wraps, as it does in the clients' own server
        {9, "-9223372036854775799"},        {INT64_MAX, "8"}, {-8, "0"}, {1000000, "1000000"},
    };
    struct store *s = store_open(NULL);
    struct store_session *c = modern(s);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        op(STORE_OP_ADD), str("/n"), num((uint64_t)steps[i].amount, 8), send_all(c);
        strbuf_clear(&c->out);
        get(c, "/n");
        ok(reply_str(c, steps[i].text), "%s", steps[i].text);
    }
    store_session_close(c);
    store_close(s);
}

// Keys of every length up to three words that differ in one byte, or only in length.
static void test_keys(void) {
    enum { LEN_MAX = 24 };
    struct store *s = store_open(NULL);
    struct store_session *c = modern(s);
    char key[LEN_MAX + 1], value[8];
    int keys = 0, wrong = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int len = 1; len <= LEN_MAX; len++)
            for (int at = -1; at < len; at++) {
                memset(key, 'k', sizeof key);
                if (at >= 0)
                    key[at] = 'K';
                key[len] = '\0';
                snprintf(value, sizeof value, "%d.%d", len, at);
                if (pass == 0) {
                    set(c, key, value);
                    keys++;
                } else {
                    get(c, key);
                    wrong += !reply_str(c, value);
                }
            }
    is_int(wrong, 0, "each of %d keys has its own value", keys);
    is_int((int)store_figures(s).keys, keys, "all keys are counted");
    store_session_close(c);
    store_close(s);
}

static void test_compare_set(void) {
    struct store *s = store_open(NULL);
    struct store_session *c = modern(s);
    op(STORE_OP_COMPARE_SET), str("k"), str("old"), str("new"), send_all(c);
    ok(reply_str(c, "old"), "compare and set of an absent key returns the expectation");
    op(STORE_OP_CHECK), num(1, 8), str("k"), send_all(c);
    ok(reply_num(c, STORE_WIRE_NOT_READY, 1), "a failed compare and set stores nothing");
    op(STORE_OP_COMPARE_SET), str("k"), str(""), str("v1"), send_all(c);
    ok(reply_str(c, "v1"), "a value is stored where none is and none is expected");
    op(STORE_OP_COMPARE_SET), str("k"), str("bad"), str("v2"), send_all(c);
    ok(reply_str(c, "v1"), "compare and set of another value returns that value");
    op(STORE_OP_COMPARE_SET), str("k"), str("v1"), str("v2"), send_all(c);
    ok(reply_str(c, "v2"), "equal: exchanged");
    store_session_close(c);
    store_close(s);
}

static void test_wait(void) {
    struct store *s = store_open(NULL);
    struct store_session *a = modern(s), *b = modern(s);
    op(STORE_OP_WAIT), num(2, 8), str("x"), str("y"), send_all(a);
    ok(reply_is(a, NULL, 0), "a wait for absent keys is not answered");
    is_uint(store_figures(s).waits, 1, "a waiting client is counted");
    set(b, "x", "1");
    ok(reply_is(a, NULL, 0), "a wait is not answered while one key is absent");
    set(b, "y", "1");
    ok(reply_num(a, STORE_WIRE_STOP_WAITING, 1), "a wait is answered with its last key");
    ok(store_ready(s) == a, "the answered client is on the ready list");
    while (store_ready(s))
        ;
    op(STORE_OP_WAIT), num(1, 8), str("x"), send_all(a);
    ok(reply_num(a, STORE_WIRE_STOP_WAITING, 1), "a wait for a present key is answered at once");
    op(STORE_OP_WAIT), num(3, 8), str("z"), str("z"), str("z"), send_all(a);
    set(b, "z", "");
    ok(reply_num(a, STORE_WIRE_STOP_WAITING, 1), "one key named three times is one answer");
    op(STORE_OP_WAIT), num(1, 8), str("later"), send_all(a);
    op(STORE_OP_CANCEL_WAIT), send_all(a);
    ok(reply_num(a, STORE_WIRE_WAIT_CANCELED, 1), "cancel answers");
    set(b, "later", "1");
    ok(reply_is(a, NULL, 0), "a cancelled wait is never answered");
    op(STORE_OP_CANCEL_WAIT), send_all(a);
    ok(reply_num(a, STORE_WIRE_WAIT_CANCELED, 1), "cancel answers also when nothing waits");
    op(STORE_OP_WAIT), num(1, 8), str("gone"), send_all(a);
    store_session_close(a);
    set(b, "gone", "1");
    is_uint(store_figures(s).waits, 0, "a closed client waits no more");
    store_session_close(b);
    store_close(s);
}

static void test_queue_and_barrier(void) {
    struct store *s = store_open(NULL);
    struct store_session *a = modern(s), *b = modern(s), *c = modern(s);
    op(STORE_OP_QUEUE_POP), str("q"), send_all(a);
    ok(reply_num(a, 0, 8), "pop of an empty queue says 0 and no more");
    op(STORE_OP_WAIT), num(1, 8), str("q"), send_all(a);
    op(STORE_OP_WAIT), num(1, 8), str("q"), send_all(b);
    op(STORE_OP_QUEUE_PUSH), str("q"), str("first"), send_all(c);
    ok(reply_num(a, STORE_WIRE_STOP_WAITING, 1), "a push wakes the oldest waiter");
    ok(reply_is(b, NULL, 0), "a push wakes one waiter");
    op(STORE_OP_QUEUE_PUSH), str("q"), str("second"), send_all(c);
    ok(reply_num(b, STORE_WIRE_STOP_WAITING, 1), "the next push wakes the next");
    op(STORE_OP_QUEUE_LEN), str("q"), send_all(a);
    ok(reply_num(a, 2, 8), "the length is returned");
    op(STORE_OP_GETNUMKEYS), send_all(a);
    ok(reply_num(a, 0, 8), "queues are not counted as keys");
    op(STORE_OP_QUEUE_POP), str("q"), send_all(a);
    ok(reply_is(a, "\2\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0first", 21),
       "a pop returns the size before and the value");
    op(STORE_OP_QUEUE_POP), str("q"), send_all(a);
    ok(reply_is(a, "\1\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0second", 22),
       "the first value is popped first");
    op(STORE_OP_CHECK), num(1, 8), str("q"), send_all(a);
    ok(reply_num(a, STORE_WIRE_NOT_READY, 1), "an empty queue does not exist");
    set(c, "key", "v");
    op(STORE_OP_LIST_KEYS), send_all(a);
    ok(reply_is(a, "\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0key", 19), "the keys are listed");
    op(STORE_OP_BARRIER), str("b"), num(3, 8), send_all(a);
    op(STORE_OP_BARRIER), str("b"), num(3, 8), send_all(b);
    ok(reply_is(a, NULL, 0) && reply_is(b, NULL, 0), "a barrier holds two of three");
    op(STORE_OP_BARRIER), str("b"), num(3, 8), send_all(c);
    ok(reply_num(a, 0, 1) && reply_num(b, 0, 1) && reply_num(c, 0, 1), "the third releases all");
    store_session_close(a), store_session_close(b), store_session_close(c);
    store_close(s);
}

// One conversation, cut in two at every byte, and once fed byte by byte.
static void test_splits(void) {
    struct strbuf talk = {0};
    op(STORE_OP_VALIDATE), num(STORE_WIRE_MAGIC, 4), op(STORE_OP_PING), num(7, 4);
    op(STORE_OP_SET), str("/k"), str("value");
    op(STORE_OP_MULTI_SET), num(2, 8), str("/m"), str("1"), str("/n"), str("");
    op(STORE_OP_GET), str("/k"), op(STORE_OP_ADD), str("/c"), num(3, 8);
    op(STORE_OP_WAIT), num(2, 8), str("/m"), str("/n");
    op(STORE_OP_MULTI_GET), num(2, 8), str("/m"), str("/k");
    strbuf_add(&talk, req.data, req.len);
    strbuf_clear(&req);
    struct strbuf whole = {0};
    int differ = 0;
    for (size_t cut = 0; cut <= talk.len + 1; cut++) {
        struct store *s = store_open(NULL);
        struct store_session *c = store_session_open(s, NULL, &e);
        int rc = 0;
        if (cut > talk.len)
            for (size_t i = 0; i < talk.len; i++)
                rc |= store_feed(c, talk.data + i, 1, &e);
        else
            rc = store_feed(c, talk.data, cut, &e) |
                 store_feed(c, talk.data + cut, talk.len - cut, &e);
        if (cut == 0)
            strbuf_add(&whole, c->out.data, c->out.len);
        differ +=
            rc != 0 || c->out.len != whole.len || memcmp(c->out.data, whole.data, whole.len) != 0;
        store_session_close(c);
        is_uint(store_figures(s).sessions, 0, "cut %zu: the session is gone", cut);
        store_close(s);
    }
    is_int(differ, 0, "the same %zu bytes of replies for every cut of the stream", whole.len);
    strbuf_fini(&talk), strbuf_fini(&whole);
}

static void test_hostile(void) {
    struct store_limits limits = {.key_bytes_max = 64,
                                  .value_bytes_max = 256,
                                  .request_keys_max = 4,
                                  .total_bytes_max = 4096,
                                  .sessions_max = 3,
                                  .reply_bytes_max = 600};
    struct store *s = store_open(&limits);
    struct store_session *good = modern(s), *bad = modern(s), *third = modern(s);
    ok(!store_session_open(s, NULL, &e) && e.code == ERR_LIMIT,
       "no session is opened beyond the limit");
    store_session_close(third);
    op(STORE_OP_SET), num(UINT64_MAX, 8);
    is_int(send_all(bad), -1, "a key of 2^64 bytes is refused");
    has_str(e.text, "longer than 64", "the limit is named");
    store_session_close(bad), bad = modern(s);
    op(STORE_OP_MULTI_GET), num(5, 8);
    is_int(send_all(bad), -1, "too many keys are refused");
    store_session_close(bad), bad = modern(s);
    op(77);
    is_int(send_all(bad), -1, "an unknown opcode is refused");
    store_session_close(bad), bad = modern(s);
    op(STORE_OP_VALIDATE), num(STORE_WIRE_MAGIC, 4);
    is_int(send_all(bad), -1, "a second greeting is refused");
    store_session_close(bad), bad = modern(s);
    set(good, "text", "not a number");
    op(STORE_OP_ADD), str("text"), num(1, 8);
    is_int(send_all(bad), -1, "add to text");
    store_session_close(bad), bad = modern(s);
    char big[201];
    memset(big, 'x', 200), big[200] = 0;
    set(good, "big", big);
    op(STORE_OP_MULTI_GET), num(4, 8), str("big"), str("big"), str("big"), str("big");
    is_int(send_all(bad), -1, "a client with too many unread replies is refused");
    store_session_close(bad), bad = modern(s);
    int rc = 0;
    for (int i = 0; i < 40 && rc == 0; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        op(STORE_OP_SET), str(key), str(big);
        rc = send_all(bad);
    }
    ok(rc == -1 && e.code == ERR_LIMIT, "a full store refuses: %s", e.text);
    store_session_close(bad);
    get(good, "text");
    ok(reply_str(good, "not a number"), "the well-behaved client is not affected");
    bad = store_session_open(s, NULL, &e);
    is_int(store_feed(bad, "GET / HTTP/1.1\r\n\r\n", 18, &e), -1, "a web browser is refused");
    store_session_close(bad);
    store_session_close(good);
    store_close(s);
}

// PyTorch 2.1: numbers start at SET = 0, one connection, no greeting.
static void test_dialect_2_1(void) {
    struct store *s = store_open(NULL);
    struct store_session *c = store_session_open(s, NULL, &e);
    op(3), str("init/"), num(1, 8), send_all(c);
    ok(reply_num(c, 1, 8), "2.1: add");
    op(0), str("/k"), str("v"), op(2), str("/k"), send_all(c);
    ok(reply_str(c, "v"), "2.1: set and get");
    op(8), str("/k"), str("w"), op(2), str("/k"), send_all(c);
    ok(reply_str(c, "vw"), "2.1: 8 is append");
    op(7), str("/k"), send_all(c);
    ok(reply_num(c, 1, 8), "2.1: 7 is delete");
    op(5), num(1, 8), str("/late"), send_all(c);
    op(11), send_all(c);
    ok(reply_num(c, STORE_WIRE_WAIT_CANCELED, 1), "2.1: 11 is cancel");
    store_session_close(c);
    store_close(s);
}

// PyTorch <= 2.0: a second connection that is silent until it watches a key.
static void test_dialect_2_0(void) {
    struct store *s = store_open(NULL);
    struct store_session *c = store_session_open(s, NULL, &e);
    struct store_session *w = store_session_open(s, NULL, &e);
    op(3), str("init/"), num(1, 8), send_all(c);
    ok(reply_num(c, 1, 8), "2.0: add");
    op(0), str("/k"), str("v"), send_all(c);
    op(8), str("/k"), send_all(c);
    ok(reply_num(c, 1, 8), "2.0: 8 is delete");
    op(7), str("/k"), send_all(w);
    ok(reply_num(w, 3, 1), "2.0: a watch is registered");
    op(0), str("/k"), str("v"), send_all(c);
    ok(reply_is(w, "\1\2\0\0\0\0\0\0\0/k\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0v", 28),
       "2.0: a new key is reported with its name, no old value and its new value");
    op(0), str("/k"), str("x"), send_all(c);
    ok(reply_is(w, "\0\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0v\1\0\0\0\0\0\0\0x", 29),
       "2.0: a change is reported with the old and the new value");
    op(8), str("/k"), send_all(c);
    ok(reply_is(w, "\2\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0x\0\0\0\0\0\0\0\0", 28),
       "2.0: a deletion is reported with the old value");
    store_session_close(c), store_session_close(w);
    store_close(s);
}

int main(void) {
    test_basics();
    test_numbers();
    test_number_texts();
    test_long_append();
    test_keys();
    test_compare_set();
    test_wait();
    test_queue_and_barrier();
    test_splits();
    test_hostile();
    test_dialect_2_1();
    test_dialect_2_0();
    strbuf_fini(&req);
    return done_testing();
}
