// SPDX-License-Identifier: Apache-2.0
// Reports changes of files through one descriptor, which becomes readable when files may have
// changed. Uses inotify. When the kernel's limits are used up (fs.inotify.max_user_instances, often
// 128, and max_user_watches), a timer makes the caller check the files every CHANGES_LOOK_MS
// instead.
//
//     file_changes_open(&c, e); file_changes_add(&c, path, IN_MODIFY);
//     poll for c.fd; then until it is empty: file_changes_read(); and if (file_changes_ticked())
//     look at all
#ifndef SYS_FILE_CHANGES_H
#define SYS_FILE_CHANGES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/inotify.h>
#include <sys/types.h>

enum { CHANGES_LOOK_MS = 200 };

struct file_changes {
    int fd;                   // to wait for; it contains the others
    int inotify_fd, timer_fd; // -1: not in use
};

#define CHANGES_CLOSED ((struct file_changes){-1, -1, -1})

int file_changes_open(struct file_changes *c, struct err *e);
void file_changes_close(struct file_changes *c); // no-op when closed
// Like inotify_add_watch: returns the watch's number, from 1, or -1 and errno. 0: the path exists,
// but the caller must check it at each tick.
int file_changes_add(struct file_changes *c, const char *path, unsigned mask);
void file_changes_remove(struct file_changes *c, int watch); // one that file_changes_add gave
// Whole struct inotify_events; 0: no more. buf is aligned for them.
size_t file_changes_read(struct file_changes *c, void *buf, size_t bytes);
bool file_changes_ticked(struct file_changes *c); // true once per tick
void file_changes_drain(
    struct file_changes *c); // reads both, for callers that check all files anyway

#endif
