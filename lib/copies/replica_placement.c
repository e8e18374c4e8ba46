// SPDX-License-Identifier: Apache-2.0
// The ring of holders, and who takes over which state.
#include "copies/replica_placement.h"

#include "base/arena.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int replica_placement_ring(int count, int self, int *ring, int most) {
    most = count - 1 < most ? count - 1 : most;
    for (int i = 0; i < most; i++)
        ring[i] = (self + 1 + i) % count;
    return most > 0 ? most : 0;
}

static int compare(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static const char **sorted(struct arena *a, const char *const *names, int count) {
    const char **copy = arena_new(a, const char *, (size_t)count + 1);
    for (int i = 0; i < count; i++)
        copy[i] = names[i];
    if (count > 0)
        qsort(copy, (size_t)count, sizeof *copy, compare);
    return copy;
}

static bool has(const char *const *names, int count, const char *name) {
    return count > 0 && bsearch(&name, names, (size_t)count, sizeof *names, compare);
}

void replica_placement_heirs(const char *const *last, int last_count, const char *const *now,
                             int now_count, const char **out) {
    struct arena a = {0};
    const char **before = sorted(&a, last, last_count), **present = sorted(&a, now, now_count);
    int gone = 0;
    for (int i = 0; i < now_count; i++) {
        out[i] = NULL;
        if (has(before, last_count, now[i]))
            continue;
        while (gone < last_count && has(present, now_count, last[gone]))
            gone++;
        if (gone < last_count)
            out[i] = last[gone++];
    }
    arena_fini(&a);
}
