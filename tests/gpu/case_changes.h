// SPDX-License-Identifier: Apache-2.0
// For case_interpreter.h: CASE_CHANGES=N makes one in N of the changes of kernels (ptx_changes),
// and every one of barriers and waits. A copy of the process makes a change before a launch to
// which it makes a difference, and ends with the case. The change is found when a result of the
// case is wrong there, a kernel faults, or does not end. At the end a line for each change says:
// found, missed, unreached, or left out. CASE_CHANGES_SEED chooses the ones that are left out.
#ifndef TESTS_GPU_CASE_CHANGES_H
#define TESTS_GPU_CASE_CHANGES_H
#include "tests/gpu/case_buffers.h"
#include "tests/gpu/emu/ptx.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CHANGES_MAX = 1 << 14, // of a module
    CHANGES_SEEDS = 3,     // orders in which a change may show
    CHANGES_LONGER = 20,   // times the instructions of the whole launch
    CHANGES_SECONDS = 5,   // of a copy
};
enum { CHANGE_UNREACHED, CHANGE_MISSED, CHANGE_FOUND, CHANGE_LEFT };

static struct case_changes {
    unsigned each, seed; // each: 0 where no changes are made
    bool copy;           // with a change
    uint8_t state[CUDA_SOURCE_COUNT][CHANGES_MAX];
    struct changes_seen {
        uint8_t change[CHANGES_MAX];
        uint64_t insns;
    } * seen;
} changes;

static void changes_open(void) {
    const char *each = getenv("CASE_CHANGES"), *seed = getenv("CASE_CHANGES_SEED");
    changes.each = each ? (unsigned)strtoul(each, NULL, 10) : 0;
    changes.seed = seed ? (unsigned)strtoul(seed, NULL, 10) : 0;
    if (!changes.each)
        return;
    changes.seen =
        mmap(NULL, sizeof *changes.seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (changes.seen == MAP_FAILED)
        bail_out("no memory to note changes");
}

// True in the copy.
static bool changes_fork(void) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        bail_out("cannot fork");
    if (pid)
        return false;
    struct itimerval limit = {.it_value = {.tv_sec = CHANGES_SECONDS}};
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    setitimer(ITIMER_PROF, &limit, NULL);
    return changes.copy = true;
}
static bool changes_failed(void) {
    int status;
    while (wait(&status) < 0)
        ;
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

// The end of a copy, where a case begins or the program ends.
static void changes_end_case(void) {
    if (changes.copy)
        _exit(tap_failed != 0);
}

static void changes_look(struct ptx_kernel *k, const struct ptx_launch *l) {
    char why[PTX_TEXT_MAX];
    memset(changes.seen, 0, sizeof *changes.seen);
    if (changes_fork()) {
        ptx_take_counts();
        ptx_change_watch(k, changes.seen->change);
        int rc = ptx_run(k, l, why);
        changes.seen->insns = ptx_take_counts().warp_insns;
        _exit(rc != 0);
    }
    if (changes_failed())
        bail_out("a launch fails without a change");
}

static bool changes_left(const struct ptx_module *m, unsigned c) {
    const unsigned spread = 2654435761u; // neighbours are left out or not by themselves
    return !ptx_change_waits(m, c) &&
           (c * spread >> 16) % changes.each != changes.seed % changes.each;
}

// Whether a change of this kernel has not been found yet.
static bool changes_sought(enum cuda_source source, const struct ptx_module *m,
                           const struct ptx_kernel *k, unsigned n) {
    for (unsigned c = 0; c < n; c++)
        if (changes.state[source][c] != CHANGE_FOUND && ptx_change_is_in(k, c) &&
            !changes_left(m, c))
            return true;
    return false;
}

// Before a launch. A copy returns with its change made, and may have another seed.
static void changes_try(enum cuda_source source, struct ptx_module *m, struct ptx_kernel *k,
                        struct ptx_launch *l) {
    unsigned n = changes.each ? ptx_changes(m) : 0;
    if (!changes.each || changes.copy)
        return;
    if (n > CHANGES_MAX)
        bail_out("%u changes, more than %d", n, CHANGES_MAX);
    if (tap_failed)
        bail_out("the kernels fail without a change");
    if (!changes_sought(source, m, k, n))
        return;
    changes_look(k, l);
    for (unsigned c = 0; c < n; c++) {
        uint8_t *state = &changes.state[source][c];
        if (changes_left(m, c))
            continue;
        int seeds = ptx_change_waits(m, c) ? CHANGES_SEEDS : 1;
        for (int s = 0; s < seeds && changes.seen->change[c] && *state != CHANGE_FOUND; s++) {
            if (changes_fork()) {
                ptx_change(m, c);
                l->seed += (uint64_t)s;
                l->insns_max = CHANGES_LONGER * changes.seen->insns + 1000;
                return;
            }
            *state = changes_failed() ? CHANGE_FOUND : CHANGE_MISSED;
        }
    }
}

static void changes_close(enum cuda_source source, struct ptx_module *m) {
    static const char *const word[] = {"unreached", "missed", "found", "left"};
    char text[PTX_TEXT_MAX];
    for (unsigned c = 0; changes.each && c < ptx_changes(m); c++) {
        ptx_change_name(m, c, text);
        if (*text)
            printf("change %s %s\n",
                   word[changes_left(m, c) ? CHANGE_LEFT : changes.state[source][c]], text);
    }
}

#endif
