// SPDX-License-Identifier: Apache-2.0
// A table from names to things: open addressing with linear probing; nothing is ever removed.
#include "base/name_map.h"

#include "base/arena.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_MIN = 16 };

static size_t place_of(const struct name_map *t, const char *name) {
    uint64_t h = t->seed;
    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * 0x9E3779B97F4A7C15U;
    size_t at = (size_t)(h ^ h >> 32) & (t->room - 1);
    while (t->entries[at].name && strcmp(t->entries[at].name, name) != 0)
        at = (at + 1) & (t->room - 1);
    return at;
}

static void grow(struct name_map *t) {
    struct name_map old = *t;
    if (!t->room)
        hash_random(&t->seed, sizeof t->seed);
    t->room = t->room ? t->room * 2 : ROOM_MIN;
    t->entries = heap_alloc(t->room * sizeof *t->entries);
    for (size_t i = 0; i < old.room; i++)
        if (old.entries[i].name)
            t->entries[place_of(t, old.entries[i].name)] = old.entries[i];
    free(old.entries);
}

void *name_map_find(const struct name_map *t, const char *name) {
    return t->room ? t->entries[place_of(t, name)].thing : NULL;
}

void name_map_put(struct name_map *t, const char *name, void *thing) {
    if ((t->count + 1) * 4 >= t->room * 3)
        grow(t);
    t->entries[place_of(t, name)] = (struct name_map_entry){name, thing};
    t->count++;
}

void name_map_fini(struct name_map *t) {
    free(t->entries);
    *t = (struct name_map){0};
}
