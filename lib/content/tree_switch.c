// SPDX-License-Identifier: Apache-2.0
// Replaces a whole folder: checks for changes, then exchanges the folders.
#include "base/str.h"
#include "content/tree_writer.h"
#include "sys/file_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// True when the path is listed, or is a parent of a listed path.
static bool is_listed(const struct manifest *m, const char *path) {
    size_t i = manifest_lower_bound(m, path), len = strlen(path);
    return i < m->count && strncmp(m->entries[i].path, path, len) == 0 &&
           (m->entries[i].path[len] == '\0' || m->entries[i].path[len] == '/');
}

// Checks a folder; closes fd.
static bool folder_listed(const struct manifest *m, int fd, const char *below, int depth) {
    struct arena a = {0};
    bool good = depth <= MANIFEST_DEPTH_MAX + 1;
    struct file_entries in = file_entries_at(fd, below);
    while (good && file_entries_next(&in)) {
        const char *path =
            *below ? arena_printf(&a, "%s/%s", below, in.name) : arena_strdup(&a, in.name);
        good = is_listed(m, path);
        if (!good || (in.type != DT_DIR && in.type != DT_UNKNOWN))
            continue;
        int next = openat(fd, in.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        good = next >= 0 ? folder_listed(m, next, path, depth + 1)
                         : errno == ENOTDIR || errno == ELOOP || errno == ENOENT;
    }
    good = file_entries_close(&in, 0, NULL) == 0 && good;
    arena_fini(&a);
    return good;
}

bool tree_names_equal(struct place *p, const struct manifest *m) {
    int fd = p->dest_fd < 0 ? -1 : openat(p->dest_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && folder_listed(m, fd, "", 0);
}

// Recognises a folder that a killed receiver left. -1: another folder, 1: old, 0: recent.
static int is_left(int dir, const char *name, const char *base) {
    size_t len = strlen(base);
    struct stat st;
    if (strncmp(name, base, len) != 0)
        return -1;
    bool old = str_starts(name + len, PLACE_OLD);
    if ((!old && !str_starts(name + len, PLACE_NEW)) ||
        fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        st.st_mtim.tv_sec > time(NULL) - PLACE_STALE_S)
        return -1;
    pid_t pid = (pid_t)strtol(name + len + sizeof PLACE_NEW - 1, NULL, 10);
    return pid > 0 && kill(pid, 0) < 0 && errno == ESRCH ? old : -1;
}

void tree_tidy(struct place *p) {
    const char *parent = file_dir(&p->arena, p->dest);
    struct file_entries in = file_entries_open(parent);
    while (file_entries_next(&in)) {
        struct err ignored;
        int left = is_left(in.fd, in.name, file_base(p->dest));
        if (left < 0)
            continue;
        const char *path = file_join(&p->arena, parent, in.name);
        if (left == 1 && rename(path, p->dest) == 0) // fails if dest exists
            p->dest_fd = open(p->dest, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        else
            (void)file_remove_tree(path, &ignored);
    }
    (void)file_entries_close(&in, 0, NULL);
}

// For file systems that cannot exchange two names: the folder is missing for a moment.
static int exchange_by_hand(struct place *p, struct err *e) {
    const char *old = arena_printf(&p->arena, "%s" PLACE_OLD "%ld", p->dest, (long)getpid());
    if (rename(p->dest, old) < 0)
        return err_errno(e, ERR_SYS, "cannot rename '%s' to '%s'", p->dest, old);
    if (rename(p->staging, p->dest) < 0) {
        (void)err_errno(e, ERR_SYS, "cannot rename '%s' to '%s'", p->staging, p->dest);
        (void)rename(old, p->dest);
        return -1;
    }
    p->staging = old;
    return 0;
}

int tree_switch(struct place *p, struct err *e) {
    struct err ignored;
    if (!p->ready && p->dest_fd < 0)
        return file_make_dirs(p->dest, 0755, e); // an empty list
    if (!p->replace || !p->ready)
        return 0;
    if (p->dest_fd < 0) {
        if (rename(p->staging, p->dest) < 0)
            return err_errno(e, ERR_SYS, "cannot rename '%s' to '%s'", p->staging, p->dest);
        p->ready = false;
    } else if (syscall(SYS_renameat2, AT_FDCWD, p->staging, AT_FDCWD, p->dest, RENAME_EXCHANGE) <
                   0 && // both names always exist
               exchange_by_hand(p, e) < 0) {
        return -1;
    }
    if (file_sync_dir(file_dir(&p->arena, p->dest), e) < 0)
        return -1;
    if (p->ready)
        (void)file_remove_tree(p->staging, &ignored); // tree_close tries again
    return 0;
}
