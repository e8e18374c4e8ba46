// SPDX-License-Identifier: Apache-2.0
// The requests of the TCPStore protocol, and the tables of their three dialects.
//
// Quirks that clients rely on: numbers are stored as decimal text; COMPARE_SET of an absent key
// with a non-empty expectation returns the expectation; CANCEL_WAIT is always answered, even
// without a wait.
#include "tcpstore/store_impl.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBER_TEXT_BYTES_MAX = 32 };
enum { WATCH_UPDATED, WATCH_CREATED, WATCH_DELETED, WATCH_REGISTERED };

static struct store_slice take(struct bytes_reader *r) {
    size_t len = (size_t)bytes_u64(r);
    return (struct store_slice){bytes_get(r, len), len};
}

static struct store_slice value_of(const struct store_entry *n) {
    return n && n->present ? (struct store_slice){n->value, n->value_len}
                           : (struct store_slice){NULL, 0};
}

static bool same(struct store_slice a, struct store_slice b) {
    return a.len == b.len && (a.len == 0 || (a.p && b.p && memcmp(a.p, b.p, a.len) == 0));
}

// Stores a value and wakes all clients that wait for or watch the key.
static int put_and_wake(struct store *s, struct store_entry *n, struct store_slice value,
                        struct err *e) {
    bool created = !n->present;
    struct store_slice old = value_of(n);
    if (s->watch_seen)
        store_wake_watchers(s, n, created ? WATCH_CREATED : WATCH_UPDATED, old, value);
    int rc = store_map_put(s, n, value, e);
    if (rc < 0) {
        store_map_release(s, n);
        return -1;
    }
    store_wake(s, n);
    return 0;
}

static int run_validate(struct store_session *c, struct bytes_reader *r, struct err *e) {
    if (c->validated || bytes_u32(r) != STORE_WIRE_MAGIC)
        return err_set(e, ERR_FORMAT, "wrong magic number, or a second greeting");
    c->validated = true;
    return 0;
}

static int run_ping(struct store_session *c, struct bytes_reader *r, struct err *e) {
    return store_reply_uint(c, bytes_u32(r), 4, e);
}

static int run_set(struct store_session *c, struct bytes_reader *r, struct err *e) {
    struct store_slice key = take(r), value = take(r);
    return put_and_wake(c->store, store_map_add(c->store, key), value, e);
}

static int run_compare_set(struct store_session *c, struct bytes_reader *r, struct err *e) {
    struct store_slice key = take(r), expected = take(r), desired = take(r);
    struct store_entry *n = store_map_find(c->store, key);
    struct store_slice now = value_of(n);
    if (!n || !n->present) {
        if (expected.len > 0) {
            return store_reply_bytes(c, expected, e);
        }
        if (put_and_wake(c->store, store_map_add(c->store, key), desired, e) < 0)
            return -1;
        return store_reply_bytes(c, desired, e);
    }
    if (same(now, expected)) {
        if (put_and_wake(c->store, n, desired, e) < 0)
            return -1;
        now = desired;
    }
    return store_reply_bytes(c, now, e);
}

static int run_get(struct store_session *c, struct bytes_reader *r, struct err *e) {
    return store_reply_bytes(c, value_of(store_map_find(c->store, take(r))), e);
}

// Parses the number at the beginning of a text, as stoll does; any text may follow. False: no
// number, or out of range.
static bool number_in(struct store_slice v, int64_t *out) {
    if (v.len == 0)
        return false;
    const char *p = v.p, *end = p + v.len;
    while (p < end && (*p == ' ' || (*p >= '\t' && *p <= '\r')))
        p++;
    bool negative = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    uint64_t most = (uint64_t)INT64_MAX + negative, n = 0;
    const char *first = p;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        unsigned digit = (unsigned)(*p - '0');
        if (n > (most - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *out = (int64_t)(negative ? -n : n);
    return p > first;
}

// The number in an entry; 0 when absent.
static int number_of(const struct store_entry *n, int64_t *out, struct err *e) {
    *out = 0;
    if (n && n->present && !number_in(value_of(n), out))
        return err_set(e, ERR_FORMAT, "the value at the key is not a number");
    return 0;
}

// Formats v as decimal text that ends at `end`; printf would dominate the cost of an ADD.
static struct store_slice decimal_text(int64_t v, char *end) {
    uint64_t left = v < 0 ? -(uint64_t)v : (uint64_t)v;
    char *p = end;
    do
        *--p = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (v < 0)
        *--p = '-';
    return (struct store_slice){p, (size_t)(end - p)};
}

static int add_number(struct store *s, struct store_slice key, int64_t amount, int64_t *sum,
                      struct err *e) {
    struct store_entry *n = store_map_find(s, key);
    int64_t old;
    if (number_of(n, &old, e) < 0)
        return -1;
    *sum = (int64_t)((uint64_t)old + (uint64_t)amount);
    char text[NUMBER_TEXT_BYTES_MAX];
    struct store_slice value = decimal_text(*sum, text + sizeof text);
    return put_and_wake(s, n ? n : store_map_add(s, key), value, e);
}

static int run_add(struct store_session *c, struct bytes_reader *r, struct err *e) {
    struct store_slice key = take(r);
    int64_t sum;
    if (add_number(c->store, key, (int64_t)bytes_u64(r), &sum, e) < 0)
        return -1;
    return store_reply_uint(c, (uint64_t)sum, 8, e);
}

static int run_check(struct store_session *c, struct bytes_reader *r, struct err *e) {
    uint64_t count = bytes_u64(r);
    unsigned answer = STORE_WIRE_READY;
    for (uint64_t i = 0; i < count; i++)
        if (!store_map_exists(store_map_find(c->store, take(r))))
            answer = STORE_WIRE_NOT_READY;
    return store_reply_uint(c, answer, 1, e);
}

static int run_wait(struct store_session *c, struct bytes_reader *r, struct err *e) {
    uint64_t count = bytes_u64(r);
    struct store_wait *w = NULL;
    for (uint64_t i = 0; i < count; i++) {
        struct store_slice key = take(r);
        if (store_map_exists(store_map_find(c->store, key)))
            continue;
        if (!w)
            w = store_wait_open(c);
        if (store_wait_add(w, key, false, false, e) < 0)
            return -1;
    }
    return w ? 0 : store_reply_uint(c, STORE_WIRE_STOP_WAITING, 1, e);
}

static int run_cancel_wait(struct store_session *c, struct bytes_reader *r, struct err *e) {
    (void)r;
    store_wait_cancel(c);
    return store_reply_uint(c, STORE_WIRE_WAIT_CANCELED, 1, e);
}

static int run_getnumkeys(struct store_session *c, struct bytes_reader *r, struct err *e) {
    (void)r;
    return store_reply_uint(c, c->store->present_count, 8, e);
}

static int run_delete_key(struct store_session *c, struct bytes_reader *r, struct err *e) {
    struct store_slice key = take(r);
    struct store_entry *n = store_map_find(c->store, key);
    if (c->store->watch_seen && n && n->present)
        store_wake_watchers(c->store, n, WATCH_DELETED, value_of(n), (struct store_slice){0});
    return store_reply_uint(c, store_map_delete(c->store, key), 8, e);
}

static int run_append(struct store_session *c, struct bytes_reader *r, struct err *e) {
    struct store_slice key = take(r), value = take(r);
    struct store_entry *n = store_map_add(c->store, key);
    if (store_map_append(c->store, n, value, e) < 0) {
        store_map_release(c->store, n);
        return -1;
    }
    store_wake(c->store, n);
    return 0;
}

static int run_multi_get(struct store_session *c, struct bytes_reader *r, struct err *e) {
    uint64_t count = bytes_u64(r);
    for (uint64_t i = 0; i < count; i++)
        if (store_reply_bytes(c, value_of(store_map_find(c->store, take(r))), e) < 0)
            return -1;
    return 0;
}

static int run_multi_set(struct store_session *c, struct bytes_reader *r, struct err *e) {
    uint64_t count = bytes_u64(r);
    for (uint64_t i = 0; i < count; i++) {
        struct store_slice key = take(r), value = take(r);
        if (put_and_wake(c->store, store_map_add(c->store, key), value, e) < 0)
            return -1;
    }
    return 0;
}

static int run_queue_push(struct store_session *c, struct bytes_reader *r, struct err *e) {
    struct store_slice key = take(r), value = take(r);
    struct store_entry *n = store_map_add(c->store, key);
    if (store_map_push(c->store, n, value, e) < 0) {
        store_map_release(c->store, n);
        return -1;
    }
    store_wake_one(c->store, n);
    return 0;
}

static int run_queue_pop(struct store_session *c, struct bytes_reader *r, struct err *e) {
    struct store_entry *n = store_map_find(c->store, take(r));
    int64_t before = n ? n->queue_count : 0;
    if (store_reply_uint(c, (uint64_t)before, 8, e) < 0)
        return -1;
    if (before == 0)
        return 0;
    struct store_item *item = store_map_pop(c->store, n);
    store_map_release(c->store, n);
    int rc = store_reply_bytes(c, (struct store_slice){item->bytes, item->len}, e);
    free(item);
    return rc;
}

static int run_queue_len(struct store_session *c, struct bytes_reader *r, struct err *e) {
    struct store_entry *n = store_map_find(c->store, take(r));
    return store_reply_uint(c, n ? (uint64_t)n->queue_count : 0, 8, e);
}

static int run_list_keys(struct store_session *c, struct bytes_reader *r, struct err *e) {
    (void)r;
    struct store *s = c->store;
    if (store_reply_uint(c, s->present_count, 8, e) < 0)
        return -1;
    for (size_t i = 0; i < s->bucket_count; i++)
        for (struct store_entry *n = s->buckets[i]; n; n = n->next)
            if (n->present && store_reply_bytes(c, (struct store_slice){n->key, n->key_len}, e) < 0)
                return -1;
    return 0;
}

// Counts the arrivals in the key itself; the last one of the group releases all.
static int run_barrier(struct store_session *c, struct bytes_reader *r, struct err *e) {
    struct store_slice key = take(r);
    int64_t world = (int64_t)bytes_u64(r), sum;
    if (add_number(c->store, key, 1, &sum, e) < 0)
        return -1;
    if (sum < world)
        return store_wait_add(store_wait_open(c), key, true, false, e);
    store_wake_barrier(c->store, store_map_find(c->store, key));
    return store_reply_uint(c, STORE_WIRE_STOP_WAITING, 1, e);
}

static int run_watch_key(struct store_session *c, struct bytes_reader *r, struct err *e) {
    c->store->watch_seen = true;
    if (store_wait_add(store_wait_open(c), take(r), false, true, e) < 0)
        return -1;
    return store_reply_uint(c, WATCH_REGISTERED, 1, e);
}

#define ROW(name, shape) static const struct store_op_row op_##name = {#name, shape, run_##name}
ROW(validate, "u");
ROW(set, "kv");
ROW(compare_set, "kvv");
ROW(get, "k");
ROW(add, "ki");
ROW(check, "nk");
ROW(wait, "nk");
ROW(getnumkeys, "");
ROW(delete_key, "k");
ROW(append, "kv");
ROW(multi_get, "nk");
ROW(multi_set, "nkv");
ROW(cancel_wait, "");
ROW(ping, "u");
ROW(queue_push, "kv");
ROW(queue_pop, "k");
ROW(queue_len, "k");
ROW(list_keys, "");
ROW(barrier, "ki");
ROW(watch_key, "k");

static const struct store_op_row *const ops_modern[STORE_OP_COUNT] = {
    &op_validate,  &op_set,       &op_compare_set, &op_get,        &op_add,
    &op_check,     &op_wait,      &op_getnumkeys,  &op_delete_key, &op_append,
    &op_multi_get, &op_multi_set, &op_cancel_wait, &op_ping,       &op_queue_push,
    &op_queue_pop, &op_queue_len, &op_list_keys,   &op_barrier,
};
static const struct store_op_row *const ops_2_1[] = {
    &op_set,        &op_compare_set, &op_get,    &op_add,       &op_check,     &op_wait,
    &op_getnumkeys, &op_delete_key,  &op_append, &op_multi_get, &op_multi_set, &op_cancel_wait,
};
static const struct store_op_row *const ops_2_0[] = {
    &op_set,  &op_compare_set, &op_get,       &op_add,        &op_check,
    &op_wait, &op_getnumkeys,  &op_watch_key, &op_delete_key,
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
const struct store_dialect store_dialect_modern = {">= 2.2", ops_modern, COUNT(ops_modern)};
const struct store_dialect store_dialect_2_1 = {"2.1", ops_2_1, COUNT(ops_2_1)};
const struct store_dialect store_dialect_2_0 = {"<= 2.0", ops_2_0, COUNT(ops_2_0)};

// Without the magic number it is an old client. 2.1 and <= 2.0 differ from opcode 7 up, and <= 2.0
// opens a second connection that is silent until it sends WATCH_KEY (7). Thus 7 as the first byte
// identifies that second connection, and a silent or watching connection in the store identifies <=
// 2.0. All workers of a run use one PyTorch.
const struct store_dialect *store_dialect_choose(const struct store_session *c, unsigned first) {
    enum { OP_WATCH = 7 };
    if (c->dialect == &store_dialect_modern)
        return c->dialect;
    if (!c->dialect && first == OP_WATCH)
        return &store_dialect_2_0;
    if (c->dialect == &store_dialect_2_0)
        return c->dialect;
    bool old = c->store->watch_seen || c->store->silent_count > 0;
    if (first >= OP_WATCH)
        return old ? &store_dialect_2_0 : &store_dialect_2_1;
    return c->dialect ? c->dialect : &store_dialect_2_1;
}
