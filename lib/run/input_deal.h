// SPDX-License-Identifier: Apache-2.0
// Deals the items of a sharded input to nodes. Pure: the same items and rule give the same deal on
// every machine.
//
// An item is a file, or a sample of a tar archive. By size: largest first, always to the node with
// the fewest bytes. By key: contiguous runs in the order of names. By count: item i to node
// i mod nodes. Counts by key and by count differ by at most one.
#ifndef RUN_INPUT_DEAL_H
#define RUN_INPUT_DEAL_H

#include "base/arena.h"
#include "base/err.h"
#include "conf/config.h"

#include <stddef.h>
#include <stdint.h>

struct input_deal_item {
    const char *key; // unique
    uint64_t bytes;
};

struct input_deal_rule {
    const char *what; // "files", for errors
    int shard;        // enum config_shard
    int uneven;       // enum config_uneven
    bool shuffled;    // the order of items before dealing: by key, or shuffled with this seed
    uint64_t seed;
};

struct input_deal_share {
    size_t *items; // indices of items, in the order in which they were dealt
    size_t count;
};

// shares has one element for each node; memory is from the arena. With CONFIG_UNEVEN_PAD one item
// may belong to several nodes, with CONFIG_UNEVEN_DROP to none. ERR_CONFIG when a node would have
// nothing, or with CONFIG_UNEVEN_REFUSE when counts differ; the text has the numbers.
int input_deal(struct arena *a, const struct input_deal_item *items, size_t count,
               const struct input_deal_rule *rule, struct input_deal_share *shares, size_t nodes,
               struct err *e);

#endif
