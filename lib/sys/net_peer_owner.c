// SPDX-License-Identifier: Apache-2.0
// The owner of a local connection's socket, from the kernel's socket table, which is queried for
// one entry.
#include "sys/net.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
};

struct answer { // body or error, by head.nlmsg_type; attributes follow
    struct nlmsghdr head;
    union {
        struct inet_diag_msg body;
        struct nlmsgerr error;
    };
    char attributes[1024];
};

union endpoint {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool put_place(const union endpoint *p, __be16 *port, __be32 address[4]) {
    if (p->any.sa_family == AF_INET) {
        *port = p->v4.sin_port;
        memcpy(address, &p->v4.sin_addr, sizeof p->v4.sin_addr);
    } else if (p->any.sa_family == AF_INET6) {
        *port = p->v6.sin6_port;
        memcpy(address, &p->v6.sin6_addr, sizeof p->v6.sin6_addr);
    } else {
        return false;
    }
    return true;
}

static bool ask(int fd, struct question *q, struct answer *a) {
    union endpoint own = {0}, peer = {0};
    socklen_t own_len = sizeof own, peer_len = sizeof peer;
    *q = (struct question){.head = {.nlmsg_len = sizeof *q,
                                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                                    .nlmsg_flags = NLM_F_REQUEST},
                           .body = {.sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u}};
    struct inet_diag_sockid *id = &q->body.id;
    if (getsockname(fd, &own.any, &own_len) < 0 || getpeername(fd, &peer.any, &peer_len) < 0 ||
        !put_place(&peer, &id->idiag_sport, id->idiag_src) ||
        !put_place(&own, &id->idiag_dport, id->idiag_dst))
        return false;
    q->body.sdiag_family = (unsigned char)own.any.sa_family;
    memset(id->idiag_cookie, 0xff, sizeof id->idiag_cookie); // INET_DIAG_NOCOOKIE
    int diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (diag < 0)
        return false;
    ssize_t n = send(diag, q, sizeof *q, 0);
    if (n == (ssize_t)sizeof *q) // the kernel answers inside the call
        n = recv(diag, a, sizeof *a, MSG_DONTWAIT);
    close(diag);
    return n >= (ssize_t)sizeof a->head;
}

enum net_owner net_peer_owner(int fd, uid_t *uid) {
    struct question q;
    struct answer a = {0};
    if (!ask(fd, &q, &a))
        return NET_OWNER_UNKNOWN;
    if (a.head.nlmsg_type == NLMSG_ERROR)
        return a.error.error == -ENOENT ? NET_OWNER_ELSEWHERE : NET_OWNER_UNKNOWN;
    if (a.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return NET_OWNER_UNKNOWN;
    if (a.body.idiag_state == TCP_LISTEN) // found instead of the connection itself
        return NET_OWNER_ELSEWHERE;
    if (a.body.idiag_inode == 0)
        return NET_OWNER_CLOSED;
    *uid = a.body.idiag_uid;
    return NET_OWNER_KNOWN;
}
