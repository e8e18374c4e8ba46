// SPDX-License-Identifier: Apache-2.0
// Arrays double when they are full, so that n pushes copy at most 2n elements.
#include "base/array.h"

#include "base/bounds_impl.h"
#include "base/err.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_MIN = 16 };

static size_t room_for(size_t room, size_t count, size_t size) {
    size_t more = room < ROOM_MIN / 2 ? ROOM_MIN : 2 * room;
    if (more < count)
        more = count;
    if (count > PTRDIFF_MAX / size)
        err_out_of_memory(PTRDIFF_MAX);
    return more > PTRDIFF_MAX / size ? count : more;
}

// Elements that no call has asked for yet are out of bounds. Opens those that this call asks for,
// as far as there is room, and says whether there is enough of it.
static bool has_room(void *array, size_t room, size_t count, size_t size) {
    size_t last = count < room ? count : room, first = last;
    while (first > 0 && BOUNDS_CLOSED((char *)array + first * size - 1))
        first--;
    if (first < last)
        BOUNDS_OPEN((char *)array + first * size, (last - first) * size);
    return count <= room;
}

static void *asked_for(void *array, size_t room, size_t count, size_t size) {
    BOUNDS_CLOSE((char *)array + count * size, (room - count) * size);
    return array;
}

void *array_grow_heap(void *array, size_t *room, size_t count, size_t size) {
    if (has_room(array, *room, count, size))
        return array;
    size_t more = room_for(*room, count, size);
    char *items = heap_realloc(array, more * size);
    memset(items + *room * size, 0, (more - *room) * size);
    *room = more;
    return asked_for(items, more, count, size);
}

void *array_grow_arena(struct arena *a, void *array, size_t *room, size_t count, size_t size) {
    if (has_room(array, *room, count, size))
        return array;
    size_t more = room_for(*room, count, size);
    void *items = arena_alloc(a, size, alignof(max_align_t), more);
    if (*room)
        memcpy(items, array, *room * size);
    *room = more;
    return asked_for(items, more, count, size);
}

void *array_queue_push(struct array_queue *q, size_t size) {
    q->items = array_grow_heap(q->items, &q->room, q->len + 1, size);
    return memset((char *)q->items + q->len++ * size, 0, size);
}

bool array_queue_take(struct array_queue *q, void *out, size_t size) {
    if (q->first == q->len)
        return false;
    memcpy(out, (char *)q->items + q->first++ * size, size);
    if (q->first == q->len) // starts over
        q->first = q->len = 0;
    return true;
}

void array_queue_fini(struct array_queue *q) {
    free(q->items);
    *q = (struct array_queue){0};
}
