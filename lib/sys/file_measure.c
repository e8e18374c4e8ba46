// SPDX-License-Identifier: Apache-2.0
// Measures a tree with nftw, which takes no context.
#include "sys/file_measure.h"

#include <ftw.h>
#include <stddef.h>
#include <sys/stat.h>

static _Thread_local struct file_measure *current;

static int add(const char *path, const struct stat *st, int type, struct FTW *f) {
    (void)path;
    (void)f;
    if (type != FTW_F || !S_ISREG(st->st_mode))
        return 0;
    int64_t ms = (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
    current->files++;
    current->bytes += (uint64_t)st->st_size;
    if (ms > current->changed_ms)
        current->changed_ms = ms;
    return 0;
}

void file_measure(const char *path, struct file_measure *out) {
    enum { OPEN_FOLDERS_MAX = 32 };
    *out = (struct file_measure){0};
    current = out;
    nftw(path, add, OPEN_FOLDERS_MAX, FTW_PHYS);
    current = NULL;
}
