// SPDX-License-Identifier: Apache-2.0
// Standard output and standard error of a process that must not wait for whoever reads them: what
// is written goes through a thread for each, in order. While nobody reads, so much is kept; who
// writes looks how much room there is, and the rest waits in its own files. The descriptors stay as
// they are, since other processes share them.
//
//     console_open(&e);                        // from here on log lines go this way, too
//     if (console_room(1) >= len) console_put(1, p, len);
//     console_close();                         // writes what is left, while it moves
#ifndef WORKER_CONSOLE_H
#define WORKER_CONSOLE_H

#include "base/err.h"

#include <stddef.h>

enum {
    CONSOLE_KEPT_BYTES_MAX = 1 << 20,  // of each stream, and then there is no room
    CONSOLE_LAST_BYTES_MAX = 64 << 20, // with what comes at the end of a round
    CONSOLE_STALL_MS_MAX = 2000,       // without a byte written, at the end
};

int console_open(struct err *e);
void console_close(void);
size_t console_room(int fd); // 1 or 2
// More than there is room for is taken up to CONSOLE_LAST_BYTES_MAX; beyond that it is dropped.
void console_put(int fd, const char *p, size_t len);
void console_leave(void); // in a fork: there are no threads, log lines are written at once

#endif
