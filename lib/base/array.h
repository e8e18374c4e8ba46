// SPDX-License-Identifier: Apache-2.0
// Arrays that grow, in the heap or in an arena, and a queue in one. Growing never fails: without
// memory, or with a size that no memory has, the program ends as in arena.h.
//
//     struct item *items = NULL;
//     size_t count = 0, room = 0;
//     array_grow(items, &room, count + 1);
//     items[count++] = item;
//     free(items);
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

// Makes room for at least `count` elements, and some more. Existing elements may move; new ones are
// zero. room: pointer to the capacity, a size_t. Elements that no call asked for are out of bounds,
// as AddressSanitizer knows, although there is room: a call with count = *room asks for all.
#define array_grow(array, room, count)                                                             \
    ((array) = array_grow_heap((array), (room), (count), sizeof *(array)))
// The same in an arena; the old array stays there, unused.
#define array_grow_in(arena, array, room, count)                                                   \
    ((array) = array_grow_arena((arena), (array), (room), (count), sizeof *(array)))

void *array_grow_heap(void *array, size_t *room, size_t count, size_t size);
void *array_grow_arena(struct arena *a, void *array, size_t *room, size_t count, size_t size);

// First in, first out. A zeroed queue is empty. Every call of one queue has the same size, that of
// its elements.
struct array_queue {
    void *items;
    size_t first, len, room; // elements first … len are in the queue
};

void *array_queue_push(struct array_queue *q, size_t size); // zeroed; valid until the next push
bool array_queue_take(struct array_queue *q, void *out, size_t size); // false: it is empty
void array_queue_fini(struct array_queue *q);

#endif
