// SPDX-License-Identifier: Apache-2.0
// Sends and receives the chunks of an operation around the ring of nodes.
#include "comm/ring_tcp.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { RING_FAULT_MAGIC = 0x746c6661, RING_FAULT_BYTES = 8 + RING_FAULT_TEXT_BYTES };

// One exchange sends `out` to the right while it receives `in` from the left. NULL: no transfer on
// that side, and no step is counted.
struct exchange {
    const char *out;
    size_t out_bytes;
    char *in;
    size_t in_bytes;
    const struct element *add; // NULL: store received data; else add it to existing data
};

// ---- faults ------------------------------------------------------------------------------------

void ring_fault(struct ring *r, const struct err *e) {
    unsigned char m[RING_FAULT_BYTES] = {0};
    if (r->faulted || r->nodes < 2)
        return;
    r->faulted = true;
    bytes_store(m, RING_FAULT_MAGIC, 4);
    bytes_store(m + 4, e->code, 4);
    snprintf((char *)m + 8, RING_FAULT_TEXT_BYTES, "%.*s", RING_FAULT_TEXT_BYTES - 1, e->text);
    const int fds[2] = {r->control_right, r->control_left};
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            (void)!send(fds[i], m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Reads a fault that a neighbour reported. 1 with e, 0 nothing yet, -1 the connection is closed.
static int ring_fault_read(int fd, struct err *e) {
    unsigned char m[RING_FAULT_BYTES];
    ssize_t n = recv(fd, m, sizeof m, MSG_DONTWAIT);
    if (err_not_yet(n))
        return 0;
    if (n != (ssize_t)sizeof m || bytes_load(m, 4) != RING_FAULT_MAGIC)
        return -1;
    uint64_t code = bytes_load(m + 4, 4);
    m[sizeof m - 1] = 0;
    err_set(e, code > ERR_NONE && code <= ERR_NO_STATUS ? (enum err_code)code : ERR_NET, "%s",
            (char *)m + 8);
    return 1;
}

// Reads it from one of the two control connections, which is dropped once it is at its end.
static int ring_control(struct ring *r, int *fd, struct err *e) {
    int got = *fd < 0 ? -1 : ring_fault_read(*fd, e);
    if (got > 0)
        ring_fault(r, e); // pass it on
    if (got < 0 && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return got;
}

// A data connection to a neighbour broke. If it stopped for a reason of its own, or on another's
// news, that is on its way on the control connection; at the end of that, it is itself the reason.
static int ring_lost(struct ring *r, const struct ring_peer *peer, int *control, int error,
                     struct err *e) {
    int64_t end = clock_mono_ms() + RING_GRACE_MS;
    for (int got = 0; got == 0 && clock_mono_ms() < end;) {
        got = ring_control(r, control, e);
        if (got > 0)
            return -1;
        struct pollfd p = {.fd = *control, .events = POLLIN};
        if (got == 0)
            (void)poll(&p, 1, RING_GRACE_MS);
    }
    err_set(e, ERR_NET, "rank %d (node %d, %s) %s%s", peer->rank, peer->node, peer->address,
            error ? "was lost: " : "closed its connections", error ? strerror(error) : "");
    ring_fault(r, e);
    return -1;
}

// ---- one exchange ------------------------------------------------------------------------------

static int ring_stripes(const struct ring *r, size_t bytes) {
    size_t n = bytes / RING_STRIPE_BYTES_MIN;
    return n < 1 ? 1 : n > (size_t)r->sockets ? r->sockets : (int)n;
}

// Cuts `bytes` for the lanes, and gives how many it takes; cuts lie on multiples of 64, so never
// inside an element.
static int ring_cut(struct ring *r, struct ring_lane *lanes, uint32_t *step, char *data,
                    size_t bytes) {
    int stripes = data ? ring_stripes(r, bytes) : 0;
    size_t at = 0;
    for (int i = 0; i < stripes; i++) {
        size_t end = i + 1 == stripes ? bytes : bytes / (size_t)stripes * (size_t)(i + 1) / 64 * 64;
        struct ring_lane *l = &lanes[i];
        l->data = data + at;
        l->len = end - at;
        l->done = l->part_done = l->staged = 0;
        bytes_store(l->part, *step, 4);
        bytes_store(l->part + 4, (uint64_t)i, 4);
        bytes_store(l->part + 8, l->len, 8);
        at = end;
    }
    *step += data != NULL;
    return stripes;
}

static bool ring_lane_done(const struct ring_lane *l) {
    return l->part_done == RING_PART_BYTES && l->done == l->len;
}

// 1: something went out, 0: nothing now, -1: errno
static int ring_send(struct ring_lane *l) {
    struct iovec iov[2] = {{l->part + l->part_done, RING_PART_BYTES - l->part_done},
                           {l->data + l->done, l->len - l->done}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
    ssize_t n = sendmsg(l->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    size_t head = (size_t)n < iov[0].iov_len ? (size_t)n : iov[0].iov_len;
    l->part_done += head;
    l->done += (size_t)n - head;
    return 1;
}

// Adds the whole elements of what was staged; the rest moves to the front.
static void ring_absorb(struct ring_lane *l, const struct element *type) {
    size_t whole = l->staged / type->bytes * type->bytes;
    type->add(l->data + l->done, l->stage, whole / type->bytes);
    l->done += whole;
    l->staged -= whole;
    memmove(l->stage, l->stage + whole, l->staged);
}

// 1: something came, 0: nothing now, -1: errno (0: closed), -2: not what is expected
static int ring_recv(struct ring_lane *l, const struct element *add) {
    unsigned char part[RING_PART_BYTES];
    ssize_t n;
    errno = 0;
    if (l->part_done < RING_PART_BYTES) {
        // l->part holds what must come; a difference means the ranks do different things.
        n = recv(l->fd, part, RING_PART_BYTES - l->part_done, MSG_DONTWAIT);
        if (n > 0 && memcmp(part, l->part + l->part_done, (size_t)n) != 0)
            return -2;
        l->part_done += n > 0 ? (size_t)n : 0;
    } else if (add) {
        size_t room = RING_STAGE_BYTES - l->staged, left = l->len - l->done - l->staged;
        n = recv(l->fd, l->stage + l->staged, left < room ? left : room, MSG_DONTWAIT);
        if (n > 0) {
            l->staged += (size_t)n;
            ring_absorb(l, add);
        }
    } else {
        n = recv(l->fd, l->data + l->done, l->len - l->done, MSG_DONTWAIT);
        l->done += n > 0 ? (size_t)n : 0;
    }
    if (n > 0)
        return 1;
    if (err_not_yet(n))
        return 0;
    if (n == 0)
        errno = 0;
    return -1;
}

static int ring_differs(struct ring *r, struct err *e) {
    err_set(e, ERR_FAILED,
            "rank %d (node %d) is in another collective than rank %d: all ranks must make the same "
            "calls with the same counts",
            r->left.rank, r->left.node, r->rank);
    ring_fault(r, e);
    return -1;
}

// Reads a control connection. Its end alone is no fault, since a neighbour that has all its data
// may leave; the data connections show missing data.
static int ring_news(struct ring *r, const struct ring_peer *peer, int *control, struct err *e) {
    int error = 0;
    socklen_t len = sizeof error;
    (void)getsockopt(*control, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH)
        return ring_lost(r, peer, control, error, e);
    return ring_control(r, control, e) > 0 ? -1 : 0;
}

static int ring_stalled(struct ring *r, struct err *e) {
    err_set(e, ERR_TIMEOUT,
            "rank %d (node %d, %s) or rank %d (node %d, %s): nothing moved for %d ms", r->left.rank,
            r->left.node, r->left.address, r->right.rank, r->right.node, r->right.address,
            r->watch->stall_timeout_ms_max);
    ring_fault(r, e);
    return -1;
}

int ring_check(struct ring *r, struct err *e) {
    const struct ring_peer *peer[] = {&r->right, &r->left};
    int *control[] = {&r->control_right, &r->control_left};
    for (int i = 0; i < 2 && r->nodes > 1; i++) {
        if (ring_news(r, peer[i], control[i], e) < 0)
            return -1;
        if (*control[i] < 0)
            return ring_lost(r, peer[i], control[i], 0, e);
    }
    return 0;
}

// Nothing moves: sleeps until something may, or looks after the peers when a slice has passed.
static int ring_idle(struct ring *r, int out_lanes, int in_lanes, int64_t deadline_ms,
                     struct err *e) {
    struct pollfd p[2 * COMM_SOCKETS_MAX + 2];
    nfds_t n = 0;
    p[n++] = (struct pollfd){.fd = r->control_right, .events = POLLIN};
    p[n++] = (struct pollfd){.fd = r->control_left, .events = POLLIN};
    for (int i = 0; i < out_lanes; i++)
        if (!ring_lane_done(&r->send[i]))
            p[n++] = (struct pollfd){.fd = r->send[i].fd, .events = POLLOUT};
    for (int i = 0; i < in_lanes; i++)
        if (!ring_lane_done(&r->recv[i]))
            p[n++] = (struct pollfd){.fd = r->recv[i].fd, .events = POLLIN};
    int ready = poll(p, n, COMM_SLICE_MS);
    if (ready > 0) {
        if (p[0].revents && ring_news(r, &r->right, &r->control_right, e) < 0)
            return -1;
        return p[1].revents ? ring_news(r, &r->left, &r->control_left, e) : 0;
    }
    if (r->check && r->check(r->check_ctx, e) < 0) {
        ring_fault(r, e);
        return -1;
    }
    return clock_mono_ms() < deadline_ms ? 0 : ring_stalled(r, e);
}

static int ring_exchange(struct ring *r, const struct exchange *x, struct err *e) {
    char *out = (char *)(uintptr_t)x->out; // only read
    int out_lanes = ring_cut(r, r->send, &r->sent, out, x->out_bytes);
    int in_lanes = ring_cut(r, r->recv, &r->received, x->in, x->in_bytes);
    int64_t deadline_ms = 0;
    for (bool pending = true; pending;) {
        bool moved = false;
        pending = false;
        for (int i = 0; i < out_lanes; i++) {
            int n = ring_lane_done(&r->send[i]) ? 0 : ring_send(&r->send[i]);
            if (n < 0)
                return ring_lost(r, &r->right, &r->control_right, errno == EPIPE ? 0 : errno, e);
            moved |= n > 0;
            pending |= !ring_lane_done(&r->send[i]);
        }
        for (int i = 0; i < in_lanes; i++) {
            int n = ring_lane_done(&r->recv[i]) ? 0 : ring_recv(&r->recv[i], x->add);
            if (n == -2)
                return ring_differs(r, e);
            if (n < 0)
                return ring_lost(r, &r->left, &r->control_left, errno == ECONNRESET ? 0 : errno, e);
            moved |= n > 0;
            pending |= !ring_lane_done(&r->recv[i]);
        }
        if (moved || deadline_ms == 0)
            deadline_ms = clock_mono_ms() + r->watch->stall_timeout_ms_max;
        if (pending && !moved && ring_idle(r, out_lanes, in_lanes, deadline_ms, e) < 0)
            return -1;
    }
    return 0;
}

// ---- the collectives ---------------------------------------------------------------------------

static int ring_step(struct ring *r, const struct element *type, char *buf,
                     const struct ring_segment *segment, int out, int in, bool add, struct err *e) {
    const struct ring_segment *o = &segment[(out + 2 * r->nodes) % r->nodes];
    const struct ring_segment *i = &segment[(in + 2 * r->nodes) % r->nodes];
    const struct exchange x = {.out = buf + o->first * type->bytes,
                               .out_bytes = o->count * type->bytes,
                               .in = buf + i->first * type->bytes,
                               .in_bytes = i->count * type->bytes,
                               .add = add ? type : NULL};
    return ring_exchange(r, &x, e);
}

// Once around but one step: this node sends segment `first`, then the one before it, and so on,
// each as it came from the left.
static int ring_rotate(struct ring *r, const struct element *type, void *buf,
                       const struct ring_segment *segment, int first, bool add, struct err *e) {
    for (int s = 0; s < r->nodes - 1; s++)
        if (ring_step(r, type, buf, segment, first - s, first - s - 1, add, e) < 0)
            return -1;
    return 0;
}

int ring_reduce_scatter(struct ring *r, const struct element *type, void *buf,
                        const struct ring_segment *segment, double factor, struct err *e) {
    const struct ring_segment *own = &segment[r->node];
    if (ring_rotate(r, type, buf, segment, r->node - 1, true, e) < 0)
        return -1;
    type->scale((char *)buf + own->first * type->bytes, own->count, factor);
    return 0;
}

int ring_all_gather(struct ring *r, const struct element *type, void *buf,
                    const struct ring_segment *segment, struct err *e) {
    return ring_rotate(r, type, buf, segment, r->node, false, e);
}

int ring_broadcast(struct ring *r, void *buf, size_t bytes, int root_node, struct err *e) {
    size_t pieces = (bytes + RING_PIECE_BYTES - 1) / RING_PIECE_BYTES;
    int distance = (r->node - root_node + r->nodes) % r->nodes;
    bool receives = distance > 0, sends = distance < r->nodes - 1;
    // In step k piece k arrives while the previous piece is sent on; the root waits for nothing.
    for (size_t k = 0; k < pieces + (receives && sends); k++) {
        size_t in = k * RING_PIECE_BYTES, out = receives ? in - RING_PIECE_BYTES : in;
        struct exchange x = {.out = NULL};
        if (receives && k < pieces) {
            x.in = (char *)buf + in;
            x.in_bytes = bytes - in < RING_PIECE_BYTES ? bytes - in : RING_PIECE_BYTES;
        }
        if (sends && (k > 0 || !receives)) {
            x.out = (char *)buf + out;
            x.out_bytes = bytes - out < RING_PIECE_BYTES ? bytes - out : RING_PIECE_BYTES;
        }
        if (ring_exchange(r, &x, e) < 0)
            return -1;
    }
    return 0;
}

// Two nodes and little data: one round trip less. x + y is y + x to the bit, so both get the same.
static int ring_swap(struct ring *r, const struct element *type, void *buf, size_t count,
                     double factor, struct err *e) {
    _Alignas(64) char mine[RING_EXCHANGE_BYTES_MAX];
    size_t bytes = count * type->bytes;
    memcpy(mine, buf, bytes); // received data is added to buf while this is still being sent
    const struct exchange x = {mine, bytes, buf, bytes, type};
    if (ring_exchange(r, &x, e) < 0)
        return -1;
    type->scale(buf, count, factor);
    return 0;
}

int ring_all_reduce(struct ring *r, const struct element *type, void *buf, size_t count,
                    double factor, struct err *e) {
    if (r->nodes == 2 && count * type->bytes <= RING_EXCHANGE_BYTES_MAX)
        return ring_swap(r, type, buf, count, factor, e);
    for (int s = 0; s < r->nodes; s++) {
        size_t first = (size_t)((unsigned __int128)count * (unsigned)s / (unsigned)r->nodes);
        size_t end = (size_t)((unsigned __int128)count * ((unsigned)s + 1) / (unsigned)r->nodes);
        r->segment[s] = (struct ring_segment){first, end - first};
    }
    if (ring_rotate(r, type, buf, r->segment, r->node, true, e) < 0)
        return -1;
    // This node now has the whole sum of the segment after its own.
    const struct ring_segment *mine = &r->segment[(r->node + 1) % r->nodes];
    type->scale((char *)buf + mine->first * type->bytes, mine->count, factor);
    return ring_rotate(r, type, buf, r->segment, r->node + 1, false, e);
}
