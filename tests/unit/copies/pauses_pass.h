// SPDX-License-Identifier: Apache-2.0
// The publisher's pauses pass at once on the turned clock, and in_pause runs in each.
#ifndef DTCTL_TESTS_UNIT_COPIES_PAUSES_PASS_H
#define DTCTL_TESTS_UNIT_COPIES_PAUSES_PASS_H

#include "tests/unit/turned_clock.h"

#include <poll.h>

static void (*in_pause)(void); // a program that writes beside the publisher

int turned_poll(struct pollfd *fds, nfds_t count, int timeout) __asm__("poll");

int turned_poll(struct pollfd *fds, nfds_t count, int timeout) {
    struct timespec wait = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000L};
    if (count == 0 && timeout > 0) {
        clock_ahead_ms += timeout;
        if (in_pause)
            in_pause();
        return 0;
    }
    return ppoll(fds, count, timeout < 0 ? NULL : &wait, NULL);
}

#endif
