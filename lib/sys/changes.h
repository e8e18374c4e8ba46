// SPDX-License-Identifier: Apache-2.0
// Reports changes of files through one descriptor, which becomes readable when files may have
// changed. Uses inotify. When the kernel's limits are used up (fs.inotify.max_user_instances, often
// 128, and max_user_watches), a timer makes the caller check the files every CHANGES_LOOK_MS
// instead.
//
//     changes_open(&c, e); changes_add(&c, path, IN_MODIFY);
//     poll for c.fd; then until it is empty: changes_read(); and if (changes_ticked()) look at all
#ifndef SYS_CHANGES_H
#define SYS_CHANGES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/inotify.h>
#include <sys/types.h>

enum { CHANGES_LOOK_MS = 200 };

struct changes {
    int fd;                   // to wait for; it contains the others
    int inotify_fd, timer_fd; // -1: not in use
};

#define CHANGES_CLOSED ((struct changes){-1, -1, -1})

int changes_open(struct changes *c, struct err *e);
void changes_close(struct changes *c); // no-op when closed
// Like inotify_add_watch: returns the watch's number, from 1, or -1 and errno. 0: the path exists,
// but the caller must check it at each tick.
int changes_add(struct changes *c, const char *path, unsigned mask);
void changes_remove(struct changes *c, int watch); // one that changes_add gave
// Whole struct inotify_events; 0: no more. buf is aligned for them.
size_t changes_read(struct changes *c, void *buf, size_t bytes);
bool changes_ticked(struct changes *c); // true once per tick
void changes_drain(struct changes *c);  // reads both, for callers that check all files anyway

#endif
