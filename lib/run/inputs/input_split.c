// SPDX-License-Identifier: Apache-2.0
// Largest first, to the reader with the fewest bytes.
#include "run/inputs/input_split.h"

#include "base/arena.h"
#include "base/err.h"

#include <stdlib.h>

struct item {
    uint64_t size;
    size_t index;
};

static int largest_first(const void *x, const void *y) {
    const struct item *a = x, *b = y;
    return a->size != b->size ? (a->size < b->size) - (a->size > b->size)
                              : (a->index > b->index) - (a->index < b->index);
}

void input_split(const uint64_t *sizes, size_t count, const bool *readers, size_t nodes,
                 size_t *owners) {
    struct arena a = {0};
    struct item *items = arena_new(&a, struct item, count + 1);
    uint64_t *bytes = arena_new(&a, uint64_t, nodes);
    for (size_t i = 0; i < count; i++)
        items[i] = (struct item){sizes[i], i};
    qsort(items, count, sizeof *items, largest_first);
    for (size_t i = 0; i < count; i++) {
        size_t best = nodes;
        for (size_t n = 0; n < nodes; n++)
            if (readers[n] && (best == nodes || bytes[n] < bytes[best]))
                best = n;
        must(best < nodes);
        owners[items[i].index] = best;
        bytes[best] += items[i].size + INPUT_SPLIT_OBJECT_BYTES;
    }
    arena_fini(&a);
}
