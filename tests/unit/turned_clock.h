// SPDX-License-Identifier: Apache-2.0
// The monotonic clock of a test, which the test turns: timers are due without anyone waiting. The
// time of day runs on unless clock_day_ms is set; then it is that, and later by each turn.
//
//     clock_stop();                  // it stands from now on
//     clock_turn(loop, 15000);       // 15 s pass, and what is due in the loop happens, in order
//     clock_ahead_ms += 15000;       // they pass at once
#ifndef DTCTL_TESTS_UNIT_TURNED_CLOCK_H
#define DTCTL_TESTS_UNIT_TURNED_CLOCK_H

#include "sys/loop.h"
#include "tests/tap.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t clock_ahead_ms, clock_day_ms;
static struct timespec clock_stands; // zero: it runs

int turned_clock(clockid_t id, struct timespec *now) __asm__("clock_gettime");

int turned_clock(clockid_t id, struct timespec *now) {
    if (id == CLOCK_REALTIME && clock_day_ms) {
        int64_t ms = clock_day_ms + clock_ahead_ms;
        *now = (struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = ms % 1000 * 1000000};
        return 0;
    }
    if (id != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, id, now);
    if (clock_stands.tv_sec)
        *now = clock_stands;
    else if (syscall(SYS_clock_gettime, id, now) < 0)
        return -1;
    int64_t ns = now->tv_nsec + clock_ahead_ms % 1000 * 1000000;
    now->tv_sec += (time_t)(clock_ahead_ms / 1000 + ns / 1000000000);
    now->tv_nsec = (long)(ns % 1000000000);
    return 0;
}

// From now on it stands at a whole second, so that no turn is a fraction short.
TAP_UNUSED static void clock_stop(void) {
    if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &clock_stands) < 0)
        bail_out("no clock");
    clock_stands.tv_sec += 1000; // a computer may have started just now
    clock_stands.tv_nsec = 0;
}

enum { CLOCK_STEP_MS = 100 };

TAP_UNUSED static void clock_turn(struct loop *loop, int64_t ms) {
    for (loop_once(loop, 0); ms > 0; ms -= CLOCK_STEP_MS) {
        clock_ahead_ms += ms < CLOCK_STEP_MS ? ms : CLOCK_STEP_MS;
        loop_once(loop, 0);
    }
}

#endif
