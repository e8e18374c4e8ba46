// SPDX-License-Identifier: Apache-2.0
// Locks the node for one run with a listening socket. The holder never accepts connections: they
// wait in the backlog and break when the holder ends.
#include "launch/node_lock.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"
#include "sys/listener.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { RETRY_MS = 20 };

// Hashed, so that names of any length fit.
static socklen_t address_of(const char *name, struct sockaddr_un *out) {
    unsigned char hash[HASH_BYTES];
    char hex[2 * HASH_BYTES + 1];
    hash_of(hash, name, strlen(name));
    str_hex(hex, hash, sizeof hash);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "dtrun/%ld/%.40s", (long)getuid(),
                     hex);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int node_lock_hold(const char *name, struct err *e) {
    struct sockaddr_un address;
    socklen_t len = address_of(name, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot make a socket");
    if (bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, LOCAL_TASK_WAITERS_MAX) == 0)
        return fd;
    err_errno(e, ERR_BUSY, "another agent of this step runs on this node ('%s')", name);
    close(fd);
    return -1;
}

void node_lock_release(int fd, int waiters, int late_ms_max) {
    int64_t until = clock_mono_ms() + late_ms_max;
    while (waiters > 0) {
        struct net_address from;
        struct err ignored;
        int one = listener_wait(fd, until, &from, &ignored);
        if (one < 0)
            break;
        close(one); // its closing wakes the waiting task
        waiters--;
    }
    close(fd);
}

// The connection to a holder of this user, or -1.
static int find_holder(const char *name) {
    struct sockaddr_un address;
    struct ucred peer;
    socklen_t len = address_of(name, &address), peer_len = sizeof peer;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, len) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_len) == 0 && peer.uid == getuid())
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void leave_signals_to_holder(void) {
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &ignore, NULL);
}

int node_lock_wait(const char *name, int come_ms_max, struct err *e) {
    int64_t until = clock_mono_ms() + come_ms_max;
    int fd;
    while ((fd = find_holder(name)) < 0) {
        if (clock_mono_ms() >= until)
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000L}, NULL);
    }
    leave_signals_to_holder();
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n;
    do // nothing is ever sent: the first event is the end
        n = poll(&p, 1, -1);
    while (err_interrupted(n));
    close(fd);
    return n < 0 ? err_errno(e, ERR_SYS, "cannot wait for this node's agent") : 0;
}
