// SPDX-License-Identifier: Apache-2.0
// An agent of a run for tests of verb_process.h: a process with the run's control socket.
//
//     pid_t pid = agent_start("r1", serve, &answer); … agent_end(pid);
#ifndef DTCTL_TESTS_UNIT_NODE_AGENT_PROCESS_H
#define DTCTL_TESTS_UNIT_NODE_AGENT_PROCESS_H

#include "agent/control_socket.h"
#include "tests/unit/node/verb_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

// The next client of the socket.
static int agent_accept(int door) {
    struct pollfd p = {.fd = door, .events = POLLIN};
    while (poll(&p, 1, -1) != 1)
        ;
    return accept(door, NULL, NULL);
}

// Clients can come when this returns. The process ends when serve returns, or by agent_end.
static pid_t agent_start(const char *run, void (*serve)(int door, const void *arg),
                         const void *arg) {
    const char *dir = in(arena_printf(&a, "runs/%s", run));
    int ready[2];
    char byte = 0;
    if (pipe(ready) < 0)
        bail_out("no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        int door = control_listen(dir, &error);
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        serve(door, arg);
        _exit(0);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        bail_out("no agent");
    close(ready[0]);
    return pid;
}

static void agent_end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

#endif
