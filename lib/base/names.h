// SPDX-License-Identifier: Apache-2.0
// A table from names to things: found in constant time, whatever foreign names there are.
//
//     struct names t = {0};
//     names_put(&t, file->path, file);      // a name that is not in it yet
//     struct file *f = names_find(&t, path);
//     names_fini(&t);
//
// The names and the things are the caller's and stay where they are.
#ifndef BASE_NAMES_H
#define BASE_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct names_entry {
    const char *name; // NULL: free
    void *thing;
};

struct names {
    struct names_entry *entries; // 2^n places, less than 3/4 of them in use
    size_t room, count;
    uint64_t seed; // random, so that collisions cannot be chosen
};

void *names_find(const struct names *t, const char *name); // NULL: it is not there
void names_put(struct names *t, const char *name, void *thing);
void names_fini(struct names *t);

#endif
