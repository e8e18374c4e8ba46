// SPDX-License-Identifier: Apache-2.0
// Waits of poll() that pass at once on the turned clock, for verbs that wait long for nothing.
//
//     waits_pass = true; … verb(…) …  // a process that begins now waits for a millisecond
#ifndef DTCTL_TESTS_UNIT_NODE_WAITS_PASS_H
#define DTCTL_TESTS_UNIT_NODE_WAITS_PASS_H

#include "tests/unit/turned_clock.h"

#include <poll.h>
#include <stdbool.h>

static bool waits_pass;

int turned_poll(struct pollfd *fds, nfds_t count, int timeout) __asm__("poll");

int turned_poll(struct pollfd *fds, nfds_t count, int timeout) {
    struct timespec wait = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000L};
    if (waits_pass && timeout > 0)
        wait = (struct timespec){.tv_nsec = 1000000};
    int n = ppoll(fds, count, timeout < 0 ? NULL : &wait, NULL);
    if (waits_pass && n == 0 && timeout > 0)
        clock_ahead_ms += timeout;
    return n;
}

#endif
