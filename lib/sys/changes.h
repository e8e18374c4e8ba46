// SPDX-License-Identifier: Apache-2.0
// Changes of files: one descriptor that becomes readable when something may have changed. inotify
// says what; where a user's programs together have used up what the kernel gives them
// (fs.inotify.max_user_instances, often 128, and max_user_watches), a timer has the caller look by
// itself every CHANGES_LOOK_MS, and nothing fails.
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
    int fd;                   // to wait for; the others are inside it
    int inotify_fd, timer_fd; // -1: not in use
};

#define CHANGES_CLOSED ((struct changes){-1, -1, -1})

int changes_open(struct changes *c, struct err *e);
void changes_close(struct changes *c); // no-op when closed
// As inotify_add_watch: the watch's number, from 1; -1 and errno. 0: path is there, and the caller
// has to look by itself.
int changes_add(struct changes *c, const char *path, unsigned mask);
void changes_remove(struct changes *c, int watch); // one that changes_add gave
// Whole struct inotify_events; 0: no more. buf is aligned for them.
size_t changes_read(struct changes *c, void *buf, size_t bytes);
bool changes_ticked(struct changes *c); // once for each time to look
void changes_drain(struct changes *c);  // both, for a caller that looks at all of it anyway

#endif
