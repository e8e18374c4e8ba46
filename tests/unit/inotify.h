// SPDX-License-Identifier: Apache-2.0
// A machine whose inotify is used up, for the program that asks.
#ifndef DTCTL_TESTS_UNIT_INOTIFY_H
#define DTCTL_TESTS_UNIT_INOTIFY_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

// limit: max_inotify_instances or max_inotify_watches. From now on no more than n, in a user
// namespace of this program's own (which it enters once). False: this machine does not let it.
static inline bool inotify_limit(const char *limit, int n) {
    static bool inside;
    inside = inside || unshare(CLONE_NEWUSER) == 0;
    char path[64], text[16];
    snprintf(path, sizeof path, "/proc/sys/user/%s", limit);
    int fd = inside ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    int len = snprintf(text, sizeof text, "%d\n", n);
    bool done = fd >= 0 && write(fd, text, (size_t)len) == len;
    if (fd >= 0)
        close(fd);
    return done;
}

#endif
