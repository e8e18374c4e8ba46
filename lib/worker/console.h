// SPDX-License-Identifier: Apache-2.0
// Standard output and standard error of a process that must not wait for their readers. A thread
// per stream writes in order. Without a reader a bounded amount is kept; writers check the room,
// and the rest waits in their own files. The descriptors keep their flags, since other processes
// share them.
//
//     console_open(&e); // log lines use the console from now on, too
//     if (console_room(1) >= len) console_put(1, p, len);
//     console_close(); // writes the queue while the reader makes progress
#ifndef WORKER_CONSOLE_H
#define WORKER_CONSOLE_H

#include "base/err.h"

#include <stddef.h>

enum {
    CONSOLE_KEPT_BYTES_MAX = 1 << 20,  // limit of each stream
    CONSOLE_LAST_BYTES_MAX = 64 << 20, // limit including output at the end of a round
    CONSOLE_STALL_MS_MAX = 2000,       // at the end: limit without progress
};

int console_open(struct err *e);
void console_close(void);
size_t console_room(int fd); // 1 or 2
// Accepts more than the room, up to CONSOLE_LAST_BYTES_MAX; drops the rest.
void console_put(int fd, const char *p, size_t len);
void console_leave(void); // after a fork: no threads, log lines are written at once

#endif
