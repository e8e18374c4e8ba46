// SPDX-License-Identifier: Apache-2.0
// One node of a ring whose neighbours are the test: its connections, the parts on
// them, and the calls of the ring, which a test can disturb.
#ifndef TESTS_UNIT_COMM_RING_TABLE_H
#define TESTS_UNIT_COMM_RING_TABLE_H

#include "comm/ring_tcp.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LANES = 2 };

// A ring and the neighbours' ends of its connections.
struct table {
    struct ring r;
    struct comm_watch watch;
    int left[LANES], right[LANES], control_left, control_right;
};

// ---- the calls of the ring, which a test can disturb -------------------------------------------

static int refusals, refusal_errno;        // the next calls to sendmsg fail
static size_t recv_bytes_max;              // 0: no limit
static void (*while_idle)(struct table *); // runs once in the next poll
static struct table *idle_table;

ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
    if (refusals > 0) {
        refusals--;
        errno = refusal_errno;
        return -1;
    }
    return syscall(SYS_sendmsg, fd, m, flags);
}

ssize_t recv(int fd, void *buf, size_t len, int flags) {
    size_t most = recv_bytes_max > 0 && len > recv_bytes_max ? recv_bytes_max : len;
    return syscall(SYS_recvfrom, fd, buf, most, flags, NULL, NULL);
}

int poll(struct pollfd *fds, nfds_t nfds, int timeout) {
    void (*action)(struct table *) = while_idle;
    while_idle = NULL;
    if (action)
        action(idle_table);
    return (int)syscall(SYS_poll, fds, nfds, timeout);
}

// ---- a node and its neighbours -----------------------------------------------------------------

static int joined(int *peer) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        bail_out("no pair of sockets");
    *peer = pair[1];
    return pair[0];
}

static struct table *seated(int node, int nodes, int sockets) {
    static struct table t;
    t = (struct table){.watch = {.stall_timeout_ms_max = 5000}};
    t.r = (struct ring){.node = node, .nodes = nodes, .sockets = sockets, .rank = 4};
    t.r.segment = calloc((size_t)nodes, sizeof *t.r.segment);
    t.r.left = (struct ring_peer){.node = 0, .rank = 2, .address = "left.example"};
    t.r.right = (struct ring_peer){.node = 2, .rank = 7, .address = "right.example"};
    t.r.watch = &t.watch;
    for (int i = 0; i < COMM_SOCKETS_MAX; i++)
        t.r.send[i].fd = t.r.recv[i].fd = -1;
    for (int i = 0; i < LANES; i++)
        t.left[i] = t.right[i] = -1;
    for (int i = 0; i < sockets; i++) {
        t.r.send[i].fd = joined(&t.right[i]);
        t.r.recv[i].fd = joined(&t.left[i]);
        t.r.recv[i].stage = malloc(RING_STAGE_BYTES);
    }
    t.r.control_left = joined(&t.control_left);
    t.r.control_right = joined(&t.control_right);
    idle_table = &t;
    return &t;
}

static void leave(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void cleared(struct table *t) {
    for (int i = 0; i < LANES; i++) {
        leave(&t->left[i]);
        leave(&t->right[i]);
    }
    leave(&t->control_left);
    leave(&t->control_right);
    ring_close(&t->r);
}

static void come(int fd, unsigned step, unsigned stripe, const void *data, size_t bytes) {
    unsigned char head[RING_PART_BYTES];
    bytes_store(head, step, 4);
    bytes_store(head + 4, stripe, 4);
    bytes_store(head + 8, bytes, 8);
    if (write(fd, head, sizeof head) != (ssize_t)sizeof head ||
        (bytes && write(fd, data, bytes) != (ssize_t)bytes))
        bail_out("a neighbour cannot write %zu bytes", bytes);
}

// Whether the next part on a connection is this one.
TAP_UNUSED static bool went(int fd, unsigned step, unsigned stripe, const void *data,
                            size_t bytes) {
    static unsigned char got[RING_PART_BYTES + (512 << 10)];
    size_t want = RING_PART_BYTES + bytes, have = 0;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (ssize_t n = 1; have < want && n > 0; have += n > 0 ? (size_t)n : 0)
        n = read(fd, got + have, want - have);
    fcntl(fd, F_SETFL, 0);
    return have == want && bytes_load(got, 4) == step && bytes_load(got + 4, 4) == stripe &&
           bytes_load(got + 8, 8) == bytes && memcmp(got + RING_PART_BYTES, data, bytes) == 0;
}

static bool silent(int fd) {
    char byte;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return read(fd, &byte, 1) < 0 && errno == EAGAIN;
}

static const struct ring_segment thirds[] = {{0, 2}, {2, 3}, {5, 1}}; // of three nodes

#endif
