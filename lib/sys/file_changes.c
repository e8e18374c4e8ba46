// SPDX-License-Identifier: Apache-2.0
// Watches files with inotify, or with a timer where inotify is used up.
#include "sys/file_changes.h"

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int hold(struct file_changes *c, int fd) {
    struct epoll_event ev = {.events = EPOLLIN};
    return epoll_ctl(c->fd, EPOLL_CTL_ADD, fd, &ev);
}

static int look_from_now_on(struct file_changes *c) {
    struct timespec every = {.tv_nsec = CHANGES_LOOK_MS * 1000000L};
    struct itimerspec when = {.it_interval = every, .it_value = every};
    if (c->timer_fd >= 0)
        return 0;
    c->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return c->timer_fd < 0 || timerfd_settime(c->timer_fd, 0, &when, NULL) < 0 ||
                   hold(c, c->timer_fd) < 0
               ? -1
               : 0;
}

int file_changes_open(struct file_changes *c, struct err *e) {
    *c = CHANGES_CLOSED;
    c->fd = epoll_create1(EPOLL_CLOEXEC);
    if (c->fd >= 0)
        c->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (c->fd < 0 || (c->inotify_fd < 0 ? look_from_now_on(c) : hold(c, c->inotify_fd)) < 0) {
        (void)err_errno(e, ERR_SYS, "cannot watch files");
        file_changes_close(c);
        return -1;
    }
    return 0;
}

void file_changes_close(struct file_changes *c) {
    int fds[] = {c->timer_fd, c->inotify_fd, c->fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    *c = CHANGES_CLOSED;
}

int file_changes_add(struct file_changes *c, const char *path, unsigned mask) {
    struct stat st;
    if (c->inotify_fd >= 0) {
        int watch = inotify_add_watch(c->inotify_fd, path, mask);
        if (watch >= 0 || errno != ENOSPC)
            return watch;
    }
    if (look_from_now_on(c) < 0 || stat(path, &st) < 0)
        return -1;
    if ((mask & IN_ONLYDIR) && !S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return -1;
    }
    return 0;
}

void file_changes_remove(struct file_changes *c, int watch) {
    if (watch > 0)
        (void)inotify_rm_watch(c->inotify_fd, watch);
}

size_t file_changes_read(struct file_changes *c, void *buf, size_t bytes) {
    ssize_t n = c->inotify_fd < 0 ? 0 : read(c->inotify_fd, buf, bytes);
    return n > 0 ? (size_t)n : 0;
}

bool file_changes_ticked(struct file_changes *c) {
    uint64_t times;
    return c->timer_fd >= 0 && read(c->timer_fd, &times, sizeof times) == sizeof times;
}

void file_changes_drain(struct file_changes *c) {
    char buf[4096] __attribute__((aligned(8)));
    while (file_changes_read(c, buf, sizeof buf) > 0)
        ;
    (void)file_changes_ticked(c);
}
