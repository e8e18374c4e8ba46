// SPDX-License-Identifier: Apache-2.0
// The connections of a node in a chain of nodes that pass content on.
#include "xfer/xfer_relay.h"

#include "base/hash.h"
#include "sys/net.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RELAY_READ_BYTES = 256 << 10, RELAY_USED_BYTES_MAX = 1 << 20 };

// ---- greeting ---------------------------------------------------------------------------------
//
// sender → nonce s; receiver → nonce r, HMAC(key, "from" s r); sender → HMAC(key, "to" s r)

static void prove(unsigned char proof[HASH_BYTES], const unsigned char *key, const char side[4],
                  const unsigned char nonces[2 * RELAY_NONCE_BYTES]) {
    unsigned char text[4 + 2 * RELAY_NONCE_BYTES];
    memcpy(text, side, 4);
    memcpy(text + 4, nonces, 2 * RELAY_NONCE_BYTES);
    hash_hmac(proof, key, XFER_RELAY_KEY_BYTES, text, sizeof text);
}

static int check_proof(int fd, const unsigned char *key, const char side[4],
                       const unsigned char *nonces, struct err *e) {
    unsigned char want[HASH_BYTES], got[HASH_BYTES];
    prove(want, key, side, nonces);
    if (net_recv_all(fd, got, sizeof got, RELAY_GREETING_MS, e) < 0)
        return -1;
    return hash_equal(want, got, sizeof got)
               ? 0
               : err_set(e, ERR_AUTH, "the peer does not have the key of this transfer");
}

static int greet_receiver(int fd, const unsigned char *key, struct err *e) {
    unsigned char nonces[2 * RELAY_NONCE_BYTES], proof[HASH_BYTES];
    hash_random(nonces, RELAY_NONCE_BYTES);
    if (net_send_all(fd, nonces, RELAY_NONCE_BYTES, RELAY_GREETING_MS, e) < 0 ||
        net_recv_all(fd, nonces + RELAY_NONCE_BYTES, RELAY_NONCE_BYTES, RELAY_GREETING_MS, e) < 0 ||
        check_proof(fd, key, "from", nonces, e) < 0)
        return -1;
    prove(proof, key, "to  ", nonces);
    return net_send_all(fd, proof, sizeof proof, RELAY_GREETING_MS, e);
}

static int greet_sender(int fd, const unsigned char *key, struct err *e) {
    unsigned char nonces[2 * RELAY_NONCE_BYTES], proof[HASH_BYTES];
    hash_random(nonces + RELAY_NONCE_BYTES, RELAY_NONCE_BYTES);
    if (net_recv_all(fd, nonces, RELAY_NONCE_BYTES, RELAY_GREETING_MS, e) < 0)
        return -1;
    prove(proof, key, "from", nonces);
    if (net_send_all(fd, nonces + RELAY_NONCE_BYTES, RELAY_NONCE_BYTES, RELAY_GREETING_MS, e) < 0 ||
        net_send_all(fd, proof, sizeof proof, RELAY_GREETING_MS, e) < 0)
        return -1;
    return check_proof(fd, key, "to  ", nonces, e);
}

// ---- the node before --------------------------------------------------------------------------

static void drop(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void xfer_relay_drop_from(struct relay *r) {
    drop(&r->listen_fd);
    drop(&r->from_fd);
    strbuf_clear(&r->in);
    r->in_used = 0;
}

int xfer_relay_listen(struct relay *r, const struct xfer_relay_peer *at, int *port, struct err *e) {
    xfer_relay_drop_from(r);
    memcpy(r->key, at->key, sizeof r->key);
    r->strangers = 0;
    r->active = true;
    return net_listen(at->address, 0, &r->listen_fd, port, e);
}

int xfer_relay_fd(const struct relay *r) {
    return r->from_fd >= 0 ? r->from_fd : r->listen_fd;
}

// A host that vanishes without a word is noticed after about RELAY_STALL_MS.
static void notice_loss(int fd) {
    static const struct {
        int option, value;
    } options[] = {{TCP_KEEPIDLE, 1},
                   {TCP_KEEPINTVL, 1},
                   {TCP_KEEPCNT, 2},
                   {TCP_USER_TIMEOUT, RELAY_STALL_MS}};
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        setsockopt(fd, IPPROTO_TCP, options[i].option, &options[i].value, sizeof(int));
}

static int accept_sender(struct relay *r, struct err *e) {
    struct net_address peer;
    int fd = net_accept(r->listen_fd, &peer, e);
    if (fd < 0)
        return e->code == ERR_NONE ? 0 : -1;
    if (greet_sender(fd, r->key, e) < 0) {
        close(fd);
        return ++r->strangers < RELAY_STRANGERS_MAX ? 0 : -1;
    }
    notice_loss(fd);
    r->from_fd = fd;
    drop(&r->listen_fd);
    return 0;
}

int xfer_relay_read(struct relay *r, struct err *e) {
    if (r->from_fd < 0)
        return accept_sender(r, e);
    if (r->in_used == r->in.len || r->in_used >= RELAY_USED_BYTES_MAX) {
        strbuf_consume(&r->in, r->in_used);
        r->in_used = 0;
    }
    ssize_t n = recv(r->from_fd, strbuf_reserve(&r->in, RELAY_READ_BYTES), RELAY_READ_BYTES, 0);
    if (err_not_yet(n))
        return 0;
    if (n < 0)
        return err_errno(e, ERR_NET, "the node before this one is gone");
    if (n == 0)
        return err_set(e, ERR_NET, "the node before this one ended the relay");
    r->in.len += (size_t)n;
    return 0;
}

int xfer_relay_take(struct relay *r, struct xfer_frame *f, const void **wire, struct err *e) {
    *wire = r->in.data ? r->in.data + r->in_used : "";
    int rc = xfer_wire_take(&r->unpacker, *wire, r->in.len - r->in_used, f, e);
    r->in_used += rc > 0 ? f->wire_bytes : 0;
    return rc;
}

// ---- the node behind --------------------------------------------------------------------------

int xfer_relay_connect(struct relay *r, const struct xfer_relay_peer *to, struct err *e) {
    struct net_address address;
    drop(&r->to_fd);
    r->active = true;
    if (!net_is_numeric(to->address))
        return err_set(e, ERR_FORMAT, "transfer: '%s' is not a numeric address", to->address);
    if (net_resolve(to->address, (int)to->port, &address, e) < 0)
        return -1;
    int fd = net_connect(&address, RELAY_GREETING_MS, e);
    if (fd < 0)
        return -1;
    if (greet_receiver(fd, to->key, e) < 0) {
        close(fd);
        return -1;
    }
    notice_loss(fd);
    r->to_fd = fd;
    return 0;
}

int xfer_relay_send(struct relay *r, const void *wire, size_t len, struct err *e) {
    const char *p = wire;
    while (r->to_fd >= 0 && len) {
        size_t n = len < RELAY_STALL_BYTES ? len : RELAY_STALL_BYTES;
        if (net_send_all(r->to_fd, p, n, RELAY_STALL_MS, e) < 0) {
            drop(&r->to_fd);
            return -1;
        }
        p += n;
        len -= n;
    }
    return 0;
}

void xfer_relay_close(struct relay *r) {
    xfer_relay_drop_from(r);
    drop(&r->to_fd);
    strbuf_fini(&r->in);
    xfer_unpacker_fini(&r->unpacker);
    *r = RELAY_CLOSED;
}
