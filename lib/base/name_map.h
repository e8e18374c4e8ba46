// SPDX-License-Identifier: Apache-2.0
// A table from names to things: found in constant time, whatever foreign names there are.
//
//     struct name_map t = {0};
//     name_map_put(&t, file->path, file);      // a name that is not in it yet
//     struct file *f = name_map_find(&t, path);
//     name_map_fini(&t);
//
// The names and the things are the caller's and stay where they are.
#ifndef BASE_NAME_MAP_H
#define BASE_NAME_MAP_H

#include <stddef.h>
#include <stdint.h>

struct name_map_entry {
    const char *name; // NULL: free
    void *thing;
};

struct name_map {
    struct name_map_entry *entries; // 2^n places, less than 3/4 of them in use
    size_t room, count;
    uint64_t seed; // random, so that collisions cannot be chosen
};

void *name_map_find(const struct name_map *t, const char *name); // NULL: it is not there
void name_map_put(struct name_map *t, const char *name, void *thing);
void name_map_fini(struct name_map *t);

#endif
