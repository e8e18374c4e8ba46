// SPDX-License-Identifier: Apache-2.0
// Internals of the store: the map, waits, and the tables of requests. Private to store*.c.
#ifndef TCPSTORE_STORE_IMPL_H
#define TCPSTORE_STORE_IMPL_H

#include "base/bytes.h"
#include "tcpstore/store.h"
#include "tcpstore/store_protocol.h"

struct store_slice {
    const char *p;
    size_t len;
};

struct store_item { // one value in a queue
    struct store_item *next;
    size_t len;
    char bytes[];
};

// A client waiting for one key. In the key's list (fifo) and in its wait's list.
struct store_wait_node {
    struct store_wait_node *prev, *next; // in the key's list
    struct store_wait_node *sibling;     // same wait
    struct store_wait *wait;
    struct store_entry *entry; // NULL after the key was set
    bool barrier, watch;
};

// One WAIT or BARRIER (several keys), or one WATCH (endless).
struct store_wait {
    struct store_session *session;
    struct store_wait *prev, *next; // of the session
    struct store_wait *done_next;   // list of ended waits while replies are written
    struct store_wait_node *nodes;
    size_t missing;
    size_t bytes;
};

struct store_entry {
    struct store_entry *next; // in the bucket
    uint64_t hash;
    char *value;
    size_t value_len;
    bool present; // has a value (a queue alone does not count)
    struct store_wait_node *first, *last;
    struct store_item *queue, *queue_last;
    int64_t queue_count;
    size_t key_len;
    char key[];
};

struct store {
    struct store_limits limits;
    struct store_entry **buckets;
    size_t bucket_count, entry_count, present_count;
    uint64_t seed[2];
    struct store_session *ready, *ready_last;
    size_t bytes; // counted against total_bytes_max
    size_t session_count, wait_count;
    size_t silent_count; // sessions without any byte so far
    bool watch_seen;
    uint64_t requests;
};

// store_map.c
struct store_entry *store_map_find(struct store *s, struct store_slice key);
struct store_entry *store_map_add(struct store *s, struct store_slice key); // finds or creates
void store_map_release(struct store *s, struct store_entry *n); // frees the entry when it is unused
int store_map_put(struct store *s, struct store_entry *n, struct store_slice value, struct err *e);
int store_map_append(struct store *s, struct store_entry *n, struct store_slice value,
                     struct err *e);
bool store_map_delete(struct store *s, struct store_slice key); // true: the key existed
int store_map_push(struct store *s, struct store_entry *n, struct store_slice value, struct err *e);
struct store_item *store_map_pop(struct store *s, struct store_entry *n); // caller frees
int store_map_charge(struct store *s, size_t bytes, struct err *e);
void store_map_fini(struct store *s);
static inline bool store_map_exists(const struct store_entry *n) {
    return n && (n->present || n->queue_count > 0);
}

// store_wait.c
struct store_wait *store_wait_open(struct store_session *c);
int store_wait_add(struct store_wait *w, struct store_slice key, bool barrier, bool watch,
                   struct err *e);
void store_wait_close(struct store_wait *w);
void store_wait_cancel(struct store_session *c); // all except watches
void store_wait_cancel_all(struct store_session *c);
void store_wake(struct store *s, struct store_entry *n);     // the key was set
void store_wake_one(struct store *s, struct store_entry *n); // for one item of a queue
void store_wake_barrier(struct store *s, struct store_entry *n);
// Old-dialect watchers of a key: event is 0 updated, 1 created, 2 deleted.
void store_wake_watchers(struct store *s, struct store_entry *n, int event,
                         struct store_slice before, struct store_slice after);

// store.c
void store_mark_ready(struct store_session *c);
int store_reply(struct store_session *c, const void *p, size_t len, struct err *e);
int store_reply_uint(struct store_session *c, uint64_t v, size_t width, struct err *e);
int store_reply_bytes(struct store_session *c, struct store_slice v, struct err *e);

// store_requests.c: the fields of a request in wire order. k key, v value, i i64, u u32, n count of
// the following fields.
struct store_op_row {
    const char *name;
    const char *shape;
    int (*run)(struct store_session *c, struct bytes_reader *r, struct err *e);
};
struct store_dialect {
    const char *name;
    const struct store_op_row *const *ops;
    size_t op_count;
};
extern const struct store_dialect store_dialect_modern, store_dialect_2_1, store_dialect_2_0;
// The dialect of a session whose first byte is `first`; a later opcode may change it.
const struct store_dialect *store_dialect_choose(const struct store_session *c, unsigned first);

#endif
