// SPDX-License-Identifier: Apache-2.0
// late FILE: measures how long this machine keeps a process waiting that wants to run. Sleeps and
// computes in turns, and adds to FILE a line "END_MS LATE_MS" (the wall clock at the end of a turn;
// milliseconds) for each turn that ends late. Ends with its parent.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>

// A turn: PAUSE_MS asleep, then BUSY_MS of a processor.
enum { PAUSE_MS = 60, BUSY_MS = 2, LATE_MS_MIN = 3 };

static int64_t now_us(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int main(int argc, char **argv) {
    FILE *file = argc == 2 ? fopen(argv[1], "a") : NULL;
    if (!file || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return 2;
    setvbuf(file, NULL, _IOLBF, 0);
    for (;;) {
        int64_t begin = now_us(CLOCK_MONOTONIC), busy = now_us(CLOCK_PROCESS_CPUTIME_ID);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
        while (now_us(CLOCK_PROCESS_CPUTIME_ID) - busy < BUSY_MS * 1000)
            ;
        int64_t late_ms = (now_us(CLOCK_MONOTONIC) - begin) / 1000 - PAUSE_MS - BUSY_MS;
        if (late_ms >= LATE_MS_MIN)
            fprintf(file, "%lld %lld\n", (long long)(now_us(CLOCK_REALTIME) / 1000),
                    (long long)late_ms);
    }
}
