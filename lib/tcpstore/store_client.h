// SPDX-License-Identifier: Apache-2.0
// Blocking client of a TCPStore (PyTorch >= 2.2 wire protocol), by which native workers find their
// peers.
//
//     struct store_client c;
//     if (store_client_open(&c, host, port, 60000, e) < 0) …
//     store_client_set(&c, "dtctl/address/3", text, strlen(text), e);
//     store_client_get(&c, "dtctl/address/0", buf, sizeof buf, &len, 60000, e); // waits until the
//     key exists store_client_close(&c);
//
// One connection, one request at a time; not thread-safe. Keys are sent unchanged. PyTorch's own
// clients prefix theirs with "/" (and more), so keys without a leading "/" other than "init/"
// cannot collide with them. Values are at most STORE_CLIENT_VALUE_BYTES_MAX. Timeouts are in ms; -1
// waits forever. ERR_TIMEOUT of get, wait or barrier says that the key did not come, and the client
// stays usable. After ERR_NET or ERR_FORMAT, such as an answer later than reply_ms_max, the client
// is closed: every further request is ERR_NET.
#ifndef TCPSTORE_STORE_CLIENT_H
#define TCPSTORE_STORE_CLIENT_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { STORE_CLIENT_KEY_BYTES_MAX = 8192, STORE_CLIENT_VALUE_BYTES_MAX = 8 << 20 };

struct store_client {
    int fd;           // -1 when closed
    int reply_ms_max; // limit for the answer to a request that does not wait
    char peer[80];    // "address:port", for messages
};

// host: numeric or a name. Retries a refused connection until timeout_ms, since the server may
// still be starting.
int store_client_open(struct store_client *c, const char *host, int port, int timeout_ms,
                      struct err *e);
void store_client_close(
    struct store_client *c); // no-op on a closed client, or a zeroed one with fd -1

int store_client_set(struct store_client *c, const char *key, const void *value, size_t len,
                     struct err *e);
// Waits until the key exists, then copies its value. ERR_LIMIT when the value is longer than cap.
int store_client_get(struct store_client *c, const char *key, void *buf, size_t cap, size_t *len,
                     int timeout_ms, struct err *e);
// Adds to the decimal number at key (absent: 0); *result is the sum.
int store_client_add(struct store_client *c, const char *key, int64_t amount, int64_t *result,
                     struct err *e);
// Waits until the key exists; ERR_TIMEOUT.
int store_client_wait(struct store_client *c, const char *key, int timeout_ms, struct err *e);
// 1: the key exists, 0: it does not.
int store_client_check(struct store_client *c, const char *key, struct err *e);
int store_client_delete(struct store_client *c, const char *key,
                        struct err *e); // 1 if it was there

#endif
