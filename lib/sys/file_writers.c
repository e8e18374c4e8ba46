// SPDX-License-Identifier: Apache-2.0
// Writers of a file: a lease says whether there are any, /proc says how they have opened it.
#include "sys/file_writers.h"

#include "sys/file.h"
#include "sys/file_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FDINFO_BYTES = 256 }; // "flags:" is in its second line

struct writers {
    const char *name;
    struct stat st;
    int append, other;
};

// The kernel grants a lease for reading only while no process can write. Where it has no leases for
// this file, nothing is known.
static bool is_written(const char *path) {
    auto_close int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
        return errno == EAGAIN;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
}

static bool is_number(const char *name) {
    return *name && strspn(name, "0123456789") == strlen(name);
}

// The flags that a process has opened a descriptor with; -1: it has gone.
static long flags_of(int proc, const char *pid, const char *fd) {
    char path[64], text[FDINFO_BYTES];
    snprintf(path, sizeof path, "%.20s/fdinfo/%.20s", pid, fd);
    auto_close int info = openat(proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = info < 0 ? -1 : read(info, text, sizeof text - 1);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    const char *flags = strstr(text, "flags:");
    return flags ? strtol(flags + strlen("flags:"), NULL, 8) : -1;
}

// Only a file with the same name is looked at: others may be on a server that does not answer. A
// writer that knows the file by another name is one of FILE_WRITERS_ANY.
static bool is_file(const struct writers *w, int dir, const char *fd) {
    char path[FILE_PATH_BYTES_MAX];
    struct stat st;
    ssize_t n = readlinkat(dir, fd, path, sizeof path - 1);
    if (n <= 0)
        return false;
    path[n] = '\0';
    return strcmp(file_base(path), w->name) == 0 && fstatat(dir, fd, &st, 0) == 0 &&
           st.st_ino == w->st.st_ino && st.st_dev == w->st.st_dev;
}

static void look_at(struct writers *w, int proc, const char *pid) {
    char path[64];
    snprintf(path, sizeof path, "%.20s/fd", pid);
    struct file_entries in =
        file_entries_at(openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path);
    while (file_entries_next(&in)) {
        long flags;
        if (!is_number(in.name) || !is_file(w, in.fd, in.name) ||
            (flags = flags_of(proc, pid, in.name)) < 0 || (flags & O_ACCMODE) == O_RDONLY)
            continue;
        if (flags & O_APPEND)
            w->append++;
        else
            w->other++;
    }
    file_entries_close(&in, 0, NULL); // a process that has gone, or of another user
}

enum file_writers file_writers(const char *path) {
    struct writers w = {.name = file_base(path)};
    if (!is_written(path))
        return FILE_WRITERS_NONE;
    if (lstat(path, &w.st) < 0)
        return FILE_WRITERS_ANY;
    struct file_entries in = file_entries_open("/proc");
    while (file_entries_next(&in))
        if (is_number(in.name))
            look_at(&w, in.fd, in.name);
    if (file_entries_close(&in, 0, NULL) < 0)
        return FILE_WRITERS_ANY;
    // A writer without a descriptor has the file in memory (mmap), and writes anywhere.
    return w.append && !w.other ? FILE_WRITERS_APPEND : FILE_WRITERS_ANY;
}
