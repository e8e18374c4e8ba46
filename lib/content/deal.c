// SPDX-License-Identifier: Apache-2.0
// Deals files or samples to nodes: by size, by key, by count.
#include "content/deal.h"

#include "base/philox.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct deal {
    struct arena *arena;
    const struct deal_item *items;
    size_t count, nodes;
    size_t *order; // of the items
    size_t *owner; // by place in the order
    struct deal_share *shares;
};

// ---- order --------------------------------------------------------------------------------------

struct sortable {
    uint64_t bytes; // of the item, which may lie anywhere in memory
    const struct deal_item *item;
};

static int by_key(const void *x, const void *y) {
    return strcmp(((const struct sortable *)x)->item->key, ((const struct sortable *)y)->item->key);
}

static int by_size(const void *x, const void *y) {
    uint64_t a = ((const struct sortable *)x)->bytes, b = ((const struct sortable *)y)->bytes;
    return a != b ? (a < b ? 1 : -1) : by_key(x, y);
}

static void sort(struct deal *d, bool sizes) {
    struct sortable *all = arena_new(d->arena, struct sortable, d->count + 1);
    for (size_t i = 0; i < d->count; i++)
        all[i] = (struct sortable){d->items[i].bytes, &d->items[i]};
    qsort(all, d->count, sizeof *all, sizes ? by_size : by_key);
    for (size_t i = 0; i < d->count; i++)
        d->order[i] = (size_t)(all[i].item - d->items);
}

static void shuffle(struct deal *d, uint64_t seed) {
    for (size_t i = d->count; i > 1; i--) {
        size_t k = philox_below(philox(seed, 0, i).word[0], (uint32_t)i);
        size_t swap = d->order[k];
        d->order[k] = d->order[i - 1];
        d->order[i - 1] = swap;
    }
}

// ---- by size ------------------------------------------------------------------------------------

struct load {
    uint64_t bytes;
    size_t node;
};

static bool is_lighter(const struct load *a, const struct load *b) {
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->node < b->node;
}

// Restores the heap after its lightest element became heavier.
static void sink(struct load *heap, size_t count) {
    for (size_t i = 0, child = 1; child < count; i = child, child = 2 * i + 1) {
        if (child + 1 < count && is_lighter(&heap[child + 1], &heap[child]))
            child++;
        if (!is_lighter(&heap[child], &heap[i]))
            return;
        struct load swap = heap[i];
        heap[i] = heap[child];
        heap[child] = swap;
    }
}

static void deal_sizes(struct deal *d) {
    struct load *heap = arena_new(d->arena, struct load, d->nodes);
    for (size_t n = 0; n < d->nodes; n++)
        heap[n].node = n;
    for (size_t i = 0; i < d->count; i++) {
        d->owner[i] = heap->node;
        heap->bytes += d->items[d->order[i]].bytes + 1; // an empty file still costs an open
        sink(heap, d->nodes);
    }
}

// ---- shares -------------------------------------------------------------------------------------

static void fill_shares(struct deal *d) {
    for (size_t i = 0; i < d->count; i++)
        d->shares[d->owner[i]].count++;
    for (size_t n = 0; n < d->nodes; n++) {
        d->shares[n].items = arena_new(d->arena, size_t, d->shares[n].count);
        d->shares[n].count = 0;
    }
    for (size_t i = 0; i < d->count; i++) {
        struct deal_share *share = &d->shares[d->owner[i]];
        share->items[share->count++] = d->order[i];
    }
}

// Repeats the first items of the order that the node does not have yet.
static void pad(struct deal *d, size_t node, size_t most) {
    struct deal_share *share = &d->shares[node];
    size_t *items = arena_new(d->arena, size_t, most);
    if (share->count)
        memcpy(items, share->items, share->count * sizeof *items);
    share->items = items;
    for (size_t i = 0; share->count < most && i < d->count; i++)
        if (d->owner[i] != node)
            items[share->count++] = d->order[i];
}

static int even_out(struct deal *d, const char *what, int uneven, struct err *e) {
    size_t least = SIZE_MAX, most = 0;
    for (size_t n = 0; n < d->nodes; n++) {
        least = d->shares[n].count < least ? d->shares[n].count : least;
        most = d->shares[n].count > most ? d->shares[n].count : most;
    }
    if (least == most)
        return 0;
    if (uneven == DEAL_UNEVEN_REFUSE)
        return err_set(e, ERR_CONFIG,
                       "%zu %s make %zu to %zu for each of %zu nodes, and uneven = refuse (try: "
                       "uneven = pad, or drop)",
                       d->count, what, least, most, d->nodes);
    for (size_t n = 0; n < d->nodes; n++)
        if (uneven == DEAL_UNEVEN_PAD)
            pad(d, n, most);
        else if (uneven == DEAL_UNEVEN_DROP)
            d->shares[n].count = least;
    return 0;
}

size_t deal_items(struct arena *a, const struct manifest *m,
                  bool (*is_left_out)(const struct manifest_entry *entry), struct deal_item **items,
                  size_t **entries) {
    size_t count = 0;
    *items = arena_new(a, struct deal_item, m->count + 1);
    *entries = arena_new(a, size_t, m->count);
    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *n = &m->entries[i];
        if (n->kind == MANIFEST_FOLDER || (is_left_out && is_left_out(n)))
            continue;
        (*entries)[count] = i;
        (*items)[count++] = (struct deal_item){n->path, n->size};
    }
    return count;
}

int deal_out(struct arena *a, const struct deal_item *items, size_t count,
             const struct deal_rule *rule, struct deal_share *shares, size_t nodes, struct err *e) {
    struct deal d = {.arena = a, .items = items, .count = count, .nodes = nodes, .shares = shares};
    must(nodes > 0);
    if (count == 0 || (count < nodes && rule->uneven != DEAL_UNEVEN_PAD))
        return err_set(e, ERR_CONFIG, "%zu %s are too few for %zu nodes%s", count, rule->what,
                       nodes, count ? " (try: uneven = pad)" : "");
    d.order = arena_new(a, size_t, count);
    d.owner = arena_new(a, size_t, count);
    memset(shares, 0, nodes * sizeof *shares);
    sort(&d, rule->shard == DEAL_SIZE);
    if (rule->shuffled)
        shuffle(&d, rule->seed);
    if (rule->shard == DEAL_SIZE)
        deal_sizes(&d);
    for (size_t i = 0; rule->shard != DEAL_SIZE && i < count; i++)
        d.owner[i] = i % nodes;
    for (size_t n = 0; rule->shard == DEAL_KEY && n < nodes; n++)
        for (size_t i = n * count / nodes; i < (n + 1) * count / nodes; i++)
            d.owner[i] = n;
    fill_shares(&d);
    return even_out(&d, rule->what, rule->uneven, e);
}
