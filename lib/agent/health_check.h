// SPDX-License-Identifier: Apache-2.0
// The agent's answer to a health check: HTTP 200 on every path while its loop is alive, nothing
// when it is not. It says nothing else and is open to everybody who reaches the port, since probes
// come from outside the group (a container platform, a load balancer).
//
//     health_open(&h, loop, port, e);     // on all addresses of the host
//     health_close(&h);
#ifndef AGENT_HEALTH_CHECK_H
#define AGENT_HEALTH_CHECK_H

#include "base/err.h"
#include "base/str.h"
#include "sys/conn.h"
#include "sys/listener.h"

enum {
    HEALTH_CLIENTS_MAX = 16, // one more takes the place of the oldest
    HEALTH_REQUEST_BYTES_MAX = 4096,
    HEALTH_CLIENT_MS_MAX = 5000, // without a byte
};

// Appends the answer to a request, of which `in` is what has come; false while its head is not
// complete. Pure.
bool health_answer(const char *in, size_t len, struct strbuf *out);

struct health_client {
    struct conn conn;
    uint64_t came; // which one it was
};

struct health {
    struct loop *loop; // NULL: closed
    struct listener listener;
    int port;
    uint64_t served;
    struct health_client clients[HEALTH_CLIENTS_MAX];
};

int health_open(struct health *h, struct loop *loop, int port, struct err *e); // 0: any port
void health_close(struct health *h);                                           // no-op when closed

#endif
