// SPDX-License-Identifier: Apache-2.0
// Answers HTTP health checks: status 200 on every path while the agent's loop is alive. The answer
// contains nothing else. The port is open to all hosts, since probes come from outside the group (a
// container platform, a load balancer).
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
    HEALTH_CLIENTS_MAX = 16, // a further one replaces the oldest
    HEALTH_REQUEST_BYTES_MAX = 4096,
    HEALTH_CLIENT_MS_MAX = 5000, // without a byte
};

// Appends the answer to a request. `in` is the received part; false while its head is incomplete.
// Pure.
bool health_answer(const char *in, size_t len, struct strbuf *out);

struct health_client {
    struct conn conn;
    uint64_t came; // order of arrival
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
