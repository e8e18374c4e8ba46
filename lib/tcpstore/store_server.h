// SPDX-License-Identifier: Apache-2.0
// The store behind a TCP port, on the loop. Owns its listening socket and its clients' sockets.
//
//     struct store_server *s = store_server_open(loop, "10.0.0.1", 0, NULL, e);
//     … store_server_port(s) goes to the workers as MASTER_PORT …
//     store_server_close(s);          // also drops every client
//
// Until store_server_allow is called, all other hosts are served; afterwards only the listed ones.
// On this host only processes of the server's user and of root are served.
#ifndef TCPSTORE_STORE_SERVER_H
#define TCPSTORE_STORE_SERVER_H

#include "base/err.h"
#include "sys/loop.h"
#include "sys/net.h"
#include "tcpstore/store.h"

struct store_server;

// host NULL: all addresses. port 0: ephemeral; -1: no listening socket, only store_server_adopt.
// limits NULL: defaults. Returns NULL on error.
struct store_server *store_server_open(struct loop *loop, const char *host, int port,
                                       const struct store_limits *limits, struct err *e);
void store_server_close(struct store_server *s); // NULL is fine
int store_server_port(const struct store_server *s);
// Sets the hosts that may connect from now on (copied); ports are ignored.
void store_server_allow(struct store_server *s, const struct net_address *hosts, size_t count);
// Takes a connected, non-blocking socket before its first byte is read.
void store_server_adopt(struct store_server *s, int fd, const struct net_address *peer);

#endif
