// SPDX-License-Identifier: Apache-2.0
// stuck SECONDS: is in uninterruptible sleep (state D) for so long, as the parent of a child that
// borrows its memory (vfork) always is before that ends. A signal that ends it leaves the child.
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int child(void *rest) {
    setsid(); // out of the worker's group: it is not signalled with that
    return nanosleep(rest, NULL);
}

int main(int argc, char **argv) {
    static _Alignas(16) char stack[16 << 10];
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0;
    struct timespec rest = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    return clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &rest) < 0;
}
