// SPDX-License-Identifier: Apache-2.0
// The map of the store: chained hashing with a secret seed, so that clients cannot target one
// bucket. All held bytes count against one limit.
#include "base/arena.h"
#include "base/hash.h"
#include "base/siphash.h"
#include "tcpstore/store_impl.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS_MIN = 256 };

int store_map_charge(struct store *s, size_t bytes, struct err *e) {
    if (bytes > s->limits.total_bytes_max || s->bytes > s->limits.total_bytes_max - bytes)
        return err_set(e, ERR_LIMIT, "the store is full: total_bytes_max is %zu",
                       s->limits.total_bytes_max);
    s->bytes += bytes;
    return 0;
}

// memcmp that compares short keys word by word.
static bool same_bytes(const char *a, const char *b, size_t len) {
    for (; len >= 8; len -= 8, a += 8, b += 8)
        if (bytes_load(a, 8) != bytes_load(b, 8))
            return false;
    while (len > 0 && *a == *b)
        a++, b++, len--;
    return len == 0;
}

static struct store_entry **slot_of(struct store *s, uint64_t hash, struct store_slice key) {
    struct store_entry **at = &s->buckets[hash & (s->bucket_count - 1)];
    while (*at && !((*at)->hash == hash && (*at)->key_len == key.len &&
                    same_bytes((*at)->key, key.p, key.len)))
        at = &(*at)->next;
    return at;
}

struct store_entry *store_map_find(struct store *s, struct store_slice key) {
    if (s->bucket_count == 0)
        return NULL;
    return *slot_of(s, siphash13(s->seed, key.p, key.len), key);
}

static void map_grow(struct store *s) {
    if (s->bucket_count == 0)
        hash_random(s->seed, sizeof s->seed);
    size_t count = s->bucket_count ? s->bucket_count * 2 : BUCKETS_MIN;
    struct store_entry **fresh = heap_alloc(count * sizeof *fresh);
    for (size_t i = 0; i < s->bucket_count; i++) {
        for (struct store_entry *n = s->buckets[i], *next; n; n = next) {
            next = n->next;
            n->next = fresh[n->hash & (count - 1)];
            fresh[n->hash & (count - 1)] = n;
        }
    }
    free(s->buckets);
    s->buckets = fresh;
    s->bucket_count = count;
}

struct store_entry *store_map_add(struct store *s, struct store_slice key) {
    if (s->entry_count >= s->bucket_count)
        map_grow(s);
    uint64_t hash = siphash13(s->seed, key.p, key.len);
    struct store_entry **at = slot_of(s, hash, key);
    if (*at)
        return *at;
    struct store_entry *n = heap_alloc(sizeof *n + key.len + 1);
    n->hash = hash;
    n->key_len = key.len;
    memcpy(n->key, key.p, key.len);
    *at = n;
    s->entry_count++;
    s->bytes += sizeof *n + key.len; // the limit is checked where a value or a wait is charged
    return n;
}

void store_map_release(struct store *s, struct store_entry *n) {
    if (n->present || n->first || n->queue)
        return;
    struct store_slice key = {n->key, n->key_len};
    struct store_entry **at = slot_of(s, n->hash, key);
    *at = n->next;
    s->entry_count--;
    s->bytes -= sizeof *n + n->key_len;
    free(n->value);
    free(n);
}

int store_map_put(struct store *s, struct store_entry *n, struct store_slice value, struct err *e) {
    if (value.len > n->value_len && store_map_charge(s, value.len - n->value_len, e) < 0)
        return -1;
    if (value.len < n->value_len)
        s->bytes -= n->value_len - value.len;
    if (value.len != n->value_len) {
        free(n->value);
        n->value = value.len ? heap_alloc(value.len) : NULL;
    }
    if (value.len)
        memcpy(n->value, value.p, value.len);
    n->value_len = value.len;
    s->present_count += !n->present;
    n->present = true;
    return 0;
}

int store_map_append(struct store *s, struct store_entry *n, struct store_slice value,
                     struct err *e) {
    if (store_map_charge(s, value.len, e) < 0)
        return -1;
    if (value.len) {
        n->value = heap_realloc(n->value, n->value_len + value.len);
        memcpy(n->value + n->value_len, value.p, value.len);
    }
    n->value_len += value.len;
    s->present_count += !n->present;
    n->present = true;
    return 0;
}

bool store_map_delete(struct store *s, struct store_slice key) {
    struct store_entry *n = store_map_find(s, key);
    if (!n || !n->present)
        return false;
    s->bytes -= n->value_len;
    s->present_count--;
    free(n->value);
    n->value = NULL;
    n->value_len = 0;
    n->present = false;
    store_map_release(s, n);
    return true;
}

int store_map_push(struct store *s, struct store_entry *n, struct store_slice value,
                   struct err *e) {
    if (store_map_charge(s, sizeof(struct store_item) + value.len, e) < 0)
        return -1;
    struct store_item *item = heap_alloc(sizeof *item + value.len);
    item->len = value.len;
    if (value.len)
        memcpy(item->bytes, value.p, value.len);
    if (n->queue_last)
        n->queue_last->next = item;
    else
        n->queue = item;
    n->queue_last = item;
    n->queue_count++;
    return 0;
}

struct store_item *store_map_pop(struct store *s, struct store_entry *n) {
    struct store_item *item = n->queue;
    if (!item)
        return NULL;
    n->queue = item->next;
    if (!n->queue)
        n->queue_last = NULL;
    n->queue_count--;
    s->bytes -= sizeof *item + item->len;
    return item;
}

void store_map_fini(struct store *s) {
    for (size_t i = 0; i < s->bucket_count; i++) {
        for (struct store_entry *n = s->buckets[i], *next; n; n = next) {
            next = n->next;
            while (n->queue)
                free(store_map_pop(s, n));
            free(n->value);
            free(n);
        }
    }
    free(s->buckets);
    s->buckets = NULL;
}
