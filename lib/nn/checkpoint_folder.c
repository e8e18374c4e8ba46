// SPDX-License-Identifier: Apache-2.0
// The folder of checkpoints. A checkpoint is completed as `.checkpoint.new` and gets its name by
// one rename; a removed one is renamed to `.checkpoint.old` first. A folder with the name of a
// checkpoint is therefore always complete, even if the writer is killed.
#include "nn/checkpoint.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "nn/safetensors.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void checkpoint_path(const char *dir, int64_t step, char *out, size_t out_bytes) {
    snprintf(out, out_bytes, "%s/checkpoint-%010lld", dir, (long long)step);
}

// Puts a step into the list, newest first, of which the `max` newest are kept.
static int keep_newest(int64_t *steps, int count, int max, int64_t step) {
    int at = count;
    while (at > 0 && steps[at - 1] < step)
        at--;
    if (at == max)
        return count;
    count = count < max ? count + 1 : max;
    memmove(steps + at + 1, steps + at, (size_t)(count - at - 1) * sizeof *steps);
    steps[at] = step;
    return count;
}

int checkpoint_list(const char *dir, int64_t *steps, int max, struct err *e) {
    static const char prefix[] = "checkpoint-";
    struct file_entries in = file_entries_open(dir);
    int count = 0;
    while (file_entries_next(&in)) {
        struct err ignored;
        int64_t step;
        if (str_starts(in.name, prefix) &&
            str_parse_i64(in.name + sizeof prefix - 1, 0, INT64_MAX, &step, &ignored) == 0)
            count = keep_newest(steps, count, max, step);
    }
    return file_entries_close(&in, 0, e) < 0 ? -1 : count;
}

static int move(const char *from, const char *to, struct err *e) {
    return rename(from, to) < 0 ? err_errno(e, ERR_SYS, "cannot rename '%s' to '%s'", from, to) : 0;
}

// A removal takes many calls, so it happens under a name that no reader uses.
static int discard(const char *dir, const char *path, struct err *e) {
    struct arena a = {0};
    const char *old = file_join(&a, dir, ".checkpoint.old");
    int r = file_remove_tree(old, e) < 0 || move(path, old, e) < 0 ? -1 : file_remove_tree(old, e);
    arena_fini(&a);
    return r;
}

void checkpoint_remove_above(const char *dir, int64_t step) {
    int64_t newest;
    struct err why = {0};
    while (checkpoint_list(dir, &newest, 1, NULL) > 0 && newest > step) {
        char path[FILE_PATH_BYTES_MAX];
        checkpoint_path(dir, newest, path, sizeof path);
        if (discard(dir, path, &why) < 0) {
            log_warn("an outdated checkpoint stays", "reason=\"%s\"", why.text);
            return;
        }
    }
}

void checkpoint_remove_old(const char *dir, int64_t step, int keep_last) {
    enum { LIST_MAX = 4096 };
    int64_t *steps = heap_alloc(LIST_MAX * sizeof *steps);
    int count = keep_last > 0 ? checkpoint_list(dir, steps, LIST_MAX, NULL) : 0;
    for (int i = keep_last; i < count; i++) {
        char path[FILE_PATH_BYTES_MAX];
        struct err ignored = {0};
        checkpoint_path(dir, steps[i], path, sizeof path);
        if (steps[i] != step)
            (void)discard(dir, path, &ignored); // a leftover does no harm
    }
    free(steps);
}

// Where a file system cannot exchange two names (NFS). Killed between the renames, the finished one
// is adopted at the next start; so its own name must be on the disk before the first of them.
static int place_in_two(const char *dir, const char *finished, const char *path, struct err *e) {
    struct arena a = {0};
    struct err ignored = {0};
    const char *old = file_join(&a, dir, ".checkpoint.old");
    int r = -1;
    if (file_sync_dir(dir, e) < 0 || file_remove_tree(old, e) < 0 || move(path, old, e) < 0)
        goto out;
    r = move(finished, path, e);
    if (r < 0)
        (void)move(old, path, &ignored);
out:
    arena_fini(&a);
    return r;
}

int checkpoint_place(const char *dir, const char *finished, int64_t step, struct err *e) {
    char path[FILE_PATH_BYTES_MAX];
    struct arena a = {0};
    struct err ignored = {0};
    checkpoint_path(dir, step, path, sizeof path);
    int r = 0;
    if (file_is_absent(path))
        r = move(finished, path, e);
    // Both names exist all the time (Linux 3.15).
    else if (syscall(SYS_renameat2, AT_FDCWD, finished, AT_FDCWD, path, RENAME_EXCHANGE) < 0)
        r = place_in_two(dir, finished, path, e);
    if (r == 0)
        r = file_sync_dir(dir, e);
    if (r == 0) { // what the new one replaced
        (void)file_remove_tree(finished, &ignored);
        (void)file_remove_tree(file_join(&a, dir, ".checkpoint.old"), &ignored);
    }
    arena_fini(&a);
    return r;
}

void checkpoint_adopt(const char *dir) {
    struct arena a = {0};
    struct safetensors_file model;
    struct train_position at;
    struct err why;
    char path[FILE_PATH_BYTES_MAX];
    const char *finished = file_join(&a, dir, ".checkpoint.new");
    if (checkpoint_peek(finished, &at, &why) < 0 ||
        safetensors_open(&model, &a, file_join(&a, finished, "model.safetensors"), &why) < 0)
        goto out;
    safetensors_close(&model);
    checkpoint_path(dir, at.step, path, sizeof path);
    if (file_exists(path))
        goto out;
    if (move(finished, path, &why) < 0 || file_sync_dir(dir, &why) < 0)
        log_warn("a finished checkpoint cannot get its name", "reason=\"%s\"", why.text);
    else
        log_info("a checkpoint whose writer was killed at the end is used", "path=%s", path);
out:
    arena_fini(&a);
}
