// SPDX-License-Identifier: Apache-2.0
// Building the ring. Every node publishes its address; each connects to its right neighbour and
// sends a hello on every connection before it accepts any, so no order of arrival can block. A
// hello proves with an HMAC that its sender has the token of the store; the answer proves the same
// of the other side. Foreign connections are closed and have no effect.
//
// Hello: u32 magic, u32 node, u32 lane, u32 lanes, 16 bytes nonce, HMAC of all that.
// Answer: HMAC of the hello's HMAC.
#include "comm/ring_tcp.h"

#include "base/arena.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "sys/listener.h"
#include "sys/net.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RING_MAGIC = 0x676e6972,
    RING_NONCE_BYTES = 16,
    RING_CLAIM_BYTES = 16 + RING_NONCE_BYTES,
    RING_HELLO_BYTES = RING_CLAIM_BYTES + HASH_BYTES,
    RING_HELLO_TIMEOUT_MS = 2000, // for a connection without a greeting
    RING_STRANGERS_MAX = 1000,
    RING_TOKEN_BYTES = 32,
    RING_KEY_BYTES_MAX = 512,
    RING_NODE_TEXT_BYTES = 128
};

struct joining {
    struct ring *ring;
    const struct comm_config *config;
    unsigned char token[RING_TOKEN_BYTES];
    unsigned char proof[COMM_SOCKETS_MAX + 1][HASH_BYTES]; // HMACs of our hellos
    int64_t deadline_ms;
    int lanes; // data connections and the control one, which is the last
    int port;
};

static int joining_left_ms(const struct joining *j) {
    int64_t left = j->deadline_ms - clock_mono_ms();
    return left > 0 ? (int)left : 0;
}

static int *ring_right_fd(struct ring *r, int lane) {
    return lane < r->sockets ? &r->send[lane].fd : &r->control_right;
}

static int *ring_left_fd(struct ring *r, int lane) {
    return lane < r->sockets ? &r->recv[lane].fd : &r->control_left;
}

// ---- the store ---------------------------------------------------------------------------------

static int ring_token(struct joining *j, struct err *e) {
    const struct comm_config *c = j->config;
    char key[RING_KEY_BYTES_MAX];
    size_t len = 0;
    snprintf(key, sizeof key, "%s/token", c->prefix);
    if (c->rank == 0) {
        hash_random(j->token, sizeof j->token);
        return c->kv.set(c->kv.ctx, key, j->token, sizeof j->token, e);
    }
    if (c->kv.get(c->kv.ctx, key, j->token, sizeof j->token, &len, joining_left_ms(j), e) < 0)
        return err_wrap(e, "waiting for rank 0");
    return len == sizeof j->token
               ? 0
               : err_set(e, ERR_FORMAT, "store key '%s' has %zu bytes", key, len);
}

static int ring_publish(const struct joining *j, struct err *e) {
    const struct comm_config *c = j->config;
    char key[RING_KEY_BYTES_MAX], text[RING_NODE_TEXT_BYTES];
    snprintf(key, sizeof key, "%s/node/%d", c->prefix, c->node);
    int n = snprintf(text, sizeof text, "%d %d %s", j->ring->rank, j->port, c->address);
    return c->kv.set(c->kv.ctx, key, text, (size_t)n, e);
}

static int ring_find(const struct joining *j, int node, struct ring_peer *peer, struct err *e) {
    const struct comm_config *c = j->config;
    char key[RING_KEY_BYTES_MAX], text[RING_NODE_TEXT_BYTES];
    size_t len = 0;
    snprintf(key, sizeof key, "%s/node/%d", c->prefix, node);
    if (c->kv.get(c->kv.ctx, key, text, sizeof text - 1, &len, joining_left_ms(j), e) < 0)
        return err_wrap(e, "waiting for node %d", node);
    text[len < sizeof text ? len : sizeof text - 1] = 0;
    peer->node = node;
    if (sscanf(text, "%d %d %63s", &peer->rank, &peer->port, peer->address) != 3 ||
        peer->rank < 0 || peer->rank >= COMM_WORLD_MAX || peer->port < 1 || peer->port > 65535)
        return err_set(e, ERR_FORMAT, "store key '%s' is malformed", key);
    return 0;
}

// ---- connections -------------------------------------------------------------------------------

static void ring_tune(int fd, bool control) {
    int on = 1, idle_s = 1, interval_s = 1, probes = 3;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!control)
        return;
    // Data connections may rest with a full window while a peer computes; this one always answers.
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

static int ring_connect(struct joining *j, struct err *e) {
    struct ring *r = j->ring;
    struct net_address to;
    if (net_resolve(r->right.address, r->right.port, &to, e) < 0)
        return -1;
    for (int lane = 0; lane < j->lanes; lane++) {
        unsigned char hello[RING_HELLO_BYTES];
        int fd = net_connect(&to, joining_left_ms(j), e);
        if (fd < 0)
            return err_wrap(e, "reaching rank %d (node %d, %s port %d)", r->right.rank,
                            r->right.node, r->right.address, r->right.port);
        *ring_right_fd(r, lane) = fd;
        bytes_store(hello, RING_MAGIC, 4);
        bytes_store(hello + 4, (uint64_t)r->node, 4);
        bytes_store(hello + 8, (uint64_t)lane, 4);
        bytes_store(hello + 12, (uint64_t)j->lanes, 4);
        hash_random(hello + 16, RING_NONCE_BYTES);
        hash_hmac(j->proof[lane], j->token, sizeof j->token, hello, RING_CLAIM_BYTES);
        memcpy(hello + RING_CLAIM_BYTES, j->proof[lane], HASH_BYTES);
        if (net_send_all(fd, hello, sizeof hello, joining_left_ms(j), e) < 0)
            return err_wrap(e, "rank %d (node %d)", r->right.rank, r->right.node);
    }
    return 0;
}

// Checks whether the connection is one of those expected from the left neighbour. 1: taken, 0:
// foreign, -1: error.
static int ring_admit(struct joining *j, int fd, struct err *e) {
    struct ring *r = j->ring;
    unsigned char hello[RING_HELLO_BYTES], proof[HASH_BYTES], answer[HASH_BYTES];
    struct err ignored;
    int limit_ms = joining_left_ms(j);
    if (limit_ms > RING_HELLO_TIMEOUT_MS)
        limit_ms = RING_HELLO_TIMEOUT_MS;
    if (net_recv_all(fd, hello, sizeof hello, limit_ms, &ignored) < 0 ||
        bytes_load(hello, 4) != RING_MAGIC)
        return 0;
    hash_hmac(proof, j->token, sizeof j->token, hello, RING_CLAIM_BYTES);
    if (!hash_equal(proof, hello + RING_CLAIM_BYTES, HASH_BYTES))
        return 0;
    uint64_t node = bytes_load(hello + 4, 4), lane = bytes_load(hello + 8, 4);
    if (bytes_load(hello + 12, 4) != (uint64_t)j->lanes)
        return err_set(e, ERR_CONFIG, "node %llu uses %llu connections, this one %d",
                       (unsigned long long)node, (unsigned long long)bytes_load(hello + 12, 4) - 1,
                       r->sockets);
    if (node != (uint64_t)r->left.node || lane >= (uint64_t)j->lanes ||
        *ring_left_fd(r, (int)lane) >= 0)
        return 0; // a replayed or misled hello
    hash_hmac(answer, j->token, sizeof j->token, proof, HASH_BYTES);
    if (net_send_all(fd, answer, sizeof answer, limit_ms, &ignored) < 0)
        return 0;
    *ring_left_fd(r, (int)lane) = fd;
    return 1;
}

static int ring_accept(struct joining *j, int listener, struct err *e) {
    int missing = j->lanes, strangers = 0;
    while (missing > 0) {
        struct net_address from;
        int fd = listener_wait(listener, j->deadline_ms, &from, e);
        if (fd < 0 && e->code == ERR_TIMEOUT)
            return err_set(e, ERR_TIMEOUT, "rank %d (node %d, %s) did not connect within %d ms",
                           j->ring->left.rank, j->ring->left.node, j->ring->left.address,
                           j->config->connect_timeout_ms_max);
        if (fd < 0)
            return err_wrap(e, "waiting for rank %d", j->ring->left.rank);
        int taken = ring_admit(j, fd, e);
        if (taken <= 0)
            close(fd);
        if (taken < 0)
            return -1;
        missing -= taken;
        if (taken == 0 && ++strangers > RING_STRANGERS_MAX)
            return err_set(e, ERR_LIMIT, "more than %d strangers connected to %s port %d",
                           RING_STRANGERS_MAX, j->config->address, j->port);
    }
    return 0;
}

static int ring_confirm(struct joining *j, struct err *e) {
    struct ring *r = j->ring;
    for (int lane = 0; lane < j->lanes; lane++) {
        unsigned char want[HASH_BYTES], got[HASH_BYTES];
        hash_hmac(want, j->token, sizeof j->token, j->proof[lane], HASH_BYTES);
        if (net_recv_all(*ring_right_fd(r, lane), got, sizeof got, joining_left_ms(j), e) < 0)
            return err_wrap(e, "rank %d (node %d, %s) does not answer", r->right.rank,
                            r->right.node, r->right.address);
        if (!hash_equal(want, got, sizeof got))
            return err_set(e, ERR_AUTH, "the program at %s port %d is not rank %d of this run",
                           r->right.address, r->right.port, r->right.rank);
    }
    for (int lane = 0; lane < j->lanes; lane++) {
        ring_tune(*ring_right_fd(r, lane), lane == r->sockets);
        ring_tune(*ring_left_fd(r, lane), lane == r->sockets);
    }
    return 0;
}

static int ring_join(struct joining *j, int listener, struct err *e) {
    struct ring *r = j->ring;
    if (ring_token(j, e) < 0 || ring_publish(j, e) < 0 ||
        ring_find(j, (r->node + 1) % r->nodes, &r->right, e) < 0 ||
        ring_find(j, (r->node + r->nodes - 1) % r->nodes, &r->left, e) < 0)
        return -1;
    if (ring_connect(j, e) < 0 || ring_accept(j, listener, e) < 0)
        return -1;
    return ring_confirm(j, e);
}

int ring_open(struct ring *r, const struct comm_config *config, int shown, struct comm_watch *watch,
              struct err *e) {
    memset(r, 0, sizeof *r);
    r->node = config->node;
    r->nodes = config->nodes;
    r->rank = shown;
    r->segment = heap_alloc((size_t)r->nodes * sizeof *r->segment);
    r->sockets = config->sockets > 0 ? config->sockets : COMM_SOCKETS;
    r->watch = watch;
    r->control_left = r->control_right = -1;
    for (int i = 0; i < COMM_SOCKETS_MAX; i++)
        r->send[i].fd = r->recv[i].fd = -1;
    for (int i = 0; i < r->sockets; i++)
        r->recv[i].stage = heap_alloc(RING_STAGE_BYTES);
    struct joining j = {.ring = r,
                        .config = config,
                        .deadline_ms = clock_mono_ms() + config->connect_timeout_ms_max,
                        .lanes = r->sockets + 1};
    int listener;
    if (net_listen(config->address, 0, &listener, &j.port, e) < 0)
        return err_wrap(e, "listening for the other nodes");
    int bad = ring_join(&j, listener, e);
    close(listener);
    return bad;
}

void ring_close(struct ring *r) {
    for (int i = 0; i < r->sockets; i++) {
        if (r->send[i].fd >= 0)
            close(r->send[i].fd);
        if (r->recv[i].fd >= 0)
            close(r->recv[i].fd);
        free(r->recv[i].stage);
    }
    if (r->nodes > 0 && r->control_right >= 0)
        close(r->control_right);
    if (r->nodes > 0 && r->control_left >= 0)
        close(r->control_left);
    free(r->segment);
    memset(r, 0, sizeof *r);
}
