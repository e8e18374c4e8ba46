// SPDX-License-Identifier: Apache-2.0
// Folders of parts that cannot outlive their process for long.
#include "run/inputs/input_parts.h"

#include "base/str.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <string.h>
#include <unistd.h>

#define LOCK ".lock"

static void remove_folder(struct arena *a, const char *dir) {
    struct err ignored = {0};
    file_remove_tree(dir, &ignored);
    unlink(arena_printf(a, "%s" LOCK, dir));
}

// Removes the folders below base whose lock is free. The caller holds base's own lock.
static void remove_abandoned(struct arena *a, const char *base) {
    struct file_entries in = file_entries_open(base);
    while (file_entries_next(&in)) {
        struct err ignored = {0};
        int fd;
        size_t len = strlen(in.name);
        if (len <= strlen(LOCK) || !str_ends(in.name, LOCK) ||
            file_lock(file_join(a, base, in.name), "removing it", 0, &fd, &ignored) < 0)
            continue;
        remove_folder(a, file_join(a, base, arena_strndup(a, in.name, len - strlen(LOCK))));
        close(fd);
    }
    (void)file_entries_close(&in, 0, NULL);
}

int input_parts_open(struct input_parts *p, const struct cluster *c, const char *run,
                     struct err *e) {
    const char *base = file_join(c->arena, c->dir, "parts");
    const char *dir = file_join(c->arena, base, run);
    auto_close int all = -1;
    if (p->dir)
        return 0;
    if (file_make_dirs(base, 0700, e) < 0 ||
        file_lock(file_join(c->arena, base, LOCK), "parts of inputs", INPUT_PARTS_WAIT_MS_MAX, &all,
                  e) < 0)
        return -1;
    remove_abandoned(c->arena, base);
    if (file_lock(arena_printf(c->arena, "%s" LOCK, dir), "parts of inputs", 0, &p->lock_fd, e) < 0)
        return -1;
    p->dir = dir;
    return file_make_dirs(dir, 0700, e);
}

void input_parts_close(struct input_parts *p) {
    struct arena a = {0};
    if (!p->dir)
        return;
    remove_folder(&a, p->dir);
    close(p->lock_fd);
    arena_fini(&a);
    *p = (struct input_parts){0};
}
