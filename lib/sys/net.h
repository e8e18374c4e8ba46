// SPDX-License-Identifier: Apache-2.0
// Sockets and addresses. getaddrinfo blocks: inside a loop only numeric addresses are resolved
// here, and names by a resolver (sys/resolver.h).
#ifndef SYS_NET_H
#define SYS_NET_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

enum { NET_HOST_BYTES_MAX = 256, NET_ADDRESS_BYTES_MAX = 64, NET_IFNAME_BYTES_MAX = 17 };

struct net_address {
    struct sockaddr_storage ss;
    socklen_t len;
};

// "host", "host:port", "[v6]:port", "v6" (several colons). port_absent when none is given.
int net_split(const char *text, int port_absent, char host[NET_HOST_BYTES_MAX], int *port,
              struct err *e);
bool net_is_numeric(const char *host);
// Blocking unless host is numeric. First address of getaddrinfo's order.
int net_resolve(const char *host, int port, struct net_address *out, struct err *e);
// All addresses in that order, up to max; returns their number, or -1.
int net_resolve_all(const char *host, int port, struct net_address *out, int max, struct err *e);
const char *net_format(const struct net_address *a, char out[NET_ADDRESS_BYTES_MAX]); // no port
int net_port(const struct net_address *a);
bool net_same_host(const struct net_address *a, const struct net_address *b); // v4-mapped = v4
bool net_is_loopback(const struct net_address *a);
// The address that a host has sent, as reachable from here: a loopback address is the sender's own
// and becomes `from`. Both are numeric or "".
const char *net_sent_address(const char *address, const char *from);

// Listening TCP socket, close-on-exec, non-blocking. port 0: ephemeral. host NULL or "": dual-stack
// any. *port_out gets the real port.
int net_listen(const char *host, int port, int *fd_out, int *port_out, struct err *e);
// Non-blocking accept: fd with TCP_NODELAY and close-on-exec, or -1 with e->code ERR_NONE when
// there is nothing to accept.
int net_accept(int listen_fd, struct net_address *peer, struct err *e);
// Starts a non-blocking connect and returns the fd. On failure errno is set.
int net_connect_start(const struct net_address *to, struct err *e);
// Retransmits lost data every 0.2 s or so at first, instead of with growing pauses. For connections
// with little traffic that must recover quickly.
void net_retry_evenly(int fd);
// Blocking connect with a deadline; the fd is blocking. For the trainer's set-up.
int net_connect(const struct net_address *to, int timeout_ms, struct err *e);
// Whole-buffer blocking I/O with a deadline in ms (-1: none); a short end of file is ERR_NET.
int net_send_all(int fd, const void *p, size_t len, int timeout_ms, struct err *e);
int net_recv_all(int fd, void *p, size_t len, int timeout_ms, struct err *e);

int net_unix_listen(const char *path,
                    struct err *e); // non-blocking, mode 0600; replaces a dead one
int net_unix_connect(const char *path, struct err *e); // blocking
// ERR_TIMEOUT when the listener has taken no connection for wait_ms (more than 0).
int net_unix_connect_within(const char *path, int wait_ms, struct err *e);

// Local address the kernel would use towards `to`, and the interface that owns it.
int net_route_source(const struct net_address *to, struct net_address *local, struct err *e);
int net_interface_of(const struct net_address *local, char ifname[NET_IFNAME_BYTES_MAX],
                     struct err *e);
bool net_address_is_local(const struct net_address *a); // some interface of this host has it

// The owner of the socket at the other end of a connection between two addresses of this host.
// CLOSED: the process has closed it. ELSEWHERE: not in this network namespace. UNKNOWN: the kernel
// does not tell.
enum net_owner { NET_OWNER_KNOWN, NET_OWNER_CLOSED, NET_OWNER_ELSEWHERE, NET_OWNER_UNKNOWN };
enum net_owner net_peer_owner(int fd, uid_t *uid); // *uid: KNOWN only

// Text for a connect errno: "refused", "filtered (no answer)", "no route", …
const char *net_why(int error);

#endif
