// SPDX-License-Identifier: Apache-2.0
// Deals the items of a sharded input to nodes. Pure: the same items and rule give the same deal on
// every machine: the one that starts a run, and every node of a later round.
//
// An item is a file, or a sample of a tar archive. By size: largest first, always to the node with
// the fewest bytes. By key: contiguous runs in the order of names. By count: item i to node
// i mod nodes. Counts by key and by count differ by at most one.
#ifndef CONTENT_DEAL_H
#define CONTENT_DEAL_H

#include "base/arena.h"
#include "base/err.h"
#include "content/manifest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum deal_shard { DEAL_SIZE, DEAL_KEY, DEAL_COUNT };
// When nodes get different counts: they do; the first items of the order are repeated; the last
// ones are left out; an error.
enum deal_uneven { DEAL_UNEVEN_ALLOW, DEAL_UNEVEN_PAD, DEAL_UNEVEN_DROP, DEAL_UNEVEN_REFUSE };

struct deal_item {
    const char *key; // unique
    uint64_t bytes;
};

struct deal_rule {
    const char *what; // "files", for errors
    enum deal_shard shard;
    enum deal_uneven uneven;
    bool shuffled; // the order of items before dealing: by key, or shuffled with this seed
    uint64_t seed;
};

struct deal_share {
    size_t *items; // indices of items, in the order in which they were dealt
    size_t count;
};

// The files and links of a manifest as items, but those that the caller leaves out (NULL: none).
// entries[k] is the manifest's entry of item k. Returns how many there are; memory is from the
// arena.
size_t deal_items(struct arena *a, const struct manifest *m,
                  bool (*is_left_out)(const struct manifest_entry *entry), struct deal_item **items,
                  size_t **entries);
// shares has one element for each node; memory is from the arena. With DEAL_UNEVEN_PAD one item
// may belong to several nodes, with DEAL_UNEVEN_DROP to none. ERR_CONFIG when a node would have
// nothing, or with DEAL_UNEVEN_REFUSE when counts differ; the text has the numbers.
int deal_out(struct arena *a, const struct deal_item *items, size_t count,
             const struct deal_rule *rule, struct deal_share *shares, size_t nodes, struct err *e);

#endif
