// SPDX-License-Identifier: Apache-2.0
// Waits of clients for keys. A wait holds one node per absent key; each node is also in its key's
// list, so that setting a key touches only its waiters.
#include "base/arena.h"
#include "tcpstore/store_impl.h"

#include <stdlib.h>

struct store_wait *store_wait_open(struct store_session *c) {
    struct store_wait *w = heap_alloc(sizeof *w);
    w->session = c;
    w->next = c->waits;
    if (w->next)
        w->next->prev = w;
    c->waits = w;
    w->bytes = sizeof *w;
    c->store->bytes += w->bytes;
    c->store->wait_count++;
    return w;
}

static void node_unlink(struct store *s, struct store_wait_node *n) {
    struct store_entry *k = n->entry;
    if (!k)
        return;
    *(n->prev ? &n->prev->next : &k->first) = n->next;
    *(n->next ? &n->next->prev : &k->last) = n->prev;
    n->entry = NULL;
    store_map_release(s, k);
}

int store_wait_add(struct store_wait *w, struct store_slice key, bool barrier, bool watch,
                   struct err *e) {
    struct store *s = w->session->store;
    if (store_map_charge(s, sizeof(struct store_wait_node), e) < 0)
        return -1;
    w->bytes += sizeof(struct store_wait_node);
    struct store_entry *k = store_map_add(s, key);
    struct store_wait_node *n = heap_alloc(sizeof *n);
    n->wait = w;
    n->entry = k;
    n->barrier = barrier;
    n->watch = watch;
    n->prev = k->last;
    *(k->last ? &k->last->next : &k->first) = n;
    k->last = n;
    n->sibling = w->nodes;
    w->nodes = n;
    w->missing++;
    return 0;
}

void store_wait_close(struct store_wait *w) {
    struct store *s = w->session->store;
    for (struct store_wait_node *n = w->nodes, *next; n; n = next) {
        next = n->sibling;
        node_unlink(s, n);
        free(n);
    }
    *(w->prev ? &w->prev->next : &w->session->waits) = w->next;
    if (w->next)
        w->next->prev = w->prev;
    s->bytes -= w->bytes;
    s->wait_count--;
    free(w);
}

void store_wait_cancel(struct store_session *c) {
    for (struct store_wait *w = c->waits, *next; w; w = next) {
        next = w->next;
        if (!w->nodes || !w->nodes->watch)
            store_wait_close(w);
    }
}

void store_wait_cancel_all(struct store_session *c) {
    while (c->waits)
        store_wait_close(c->waits);
}

// Ends the waits of up to `most` nodes of one kind, oldest first. The value or queue keeps the
// key's entry alive meanwhile. Waits are closed after the loop, since one wait may have several
// nodes here.
static void wake_nodes(struct store *s, struct store_entry *k, bool barrier, size_t most) {
    struct store_wait *done = NULL;
    for (struct store_wait_node *n = k->first, *next; n && most > 0; n = next) {
        next = n->next;
        if (n->watch || n->barrier != barrier)
            continue;
        node_unlink(s, n);
        most--;
        if (--n->wait->missing == 0) {
            n->wait->done_next = done;
            done = n->wait;
        }
    }
    while (done) {
        struct store_wait *w = done;
        done = w->done_next;
        unsigned char stop = STORE_WIRE_STOP_WAITING;
        strbuf_add(&w->session->out, &stop, 1); // not charged: a client has few waits
        store_mark_ready(w->session);
        store_wait_close(w);
    }
}

void store_wake(struct store *s, struct store_entry *n) {
    wake_nodes(s, n, false, SIZE_MAX);
}

void store_wake_one(struct store *s, struct store_entry *n) {
    wake_nodes(s, n, false, 1);
}

void store_wake_barrier(struct store *s, struct store_entry *n) {
    wake_nodes(s, n, true, SIZE_MAX);
}

void store_wake_watchers(struct store *s, struct store_entry *n, int event,
                         struct store_slice before, struct store_slice after) {
    (void)s;
    for (struct store_wait_node *w = n->first; w; w = w->next) {
        struct store_session *c = w->wait->session;
        struct err e;
        if (!w->watch || c->out.len > c->store->limits.reply_bytes_max)
            continue;
        if (store_reply_uint(c, (uint64_t)event, 1, &e) < 0 ||
            store_reply_bytes(c, (struct store_slice){n->key, n->key_len}, &e) < 0 ||
            store_reply_bytes(c, before, &e) < 0)
            continue;
        store_reply_bytes(c, after, &e);
    }
}
