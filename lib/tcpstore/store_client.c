// SPDX-License-Identifier: Apache-2.0
// Blocking store client: one write per request, then its answer is read completely.
//
// WAIT is answered when the keys exist. On a timeout the wait is cancelled. An answer of the wait
// that is already in transit differs by value from the answer of the cancellation, so the
// connection stays in sync.
#include "tcpstore/store_client.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/str.h"
#include "sys/net.h"
#include "tcpstore/store_protocol.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RETRY_FIRST_MS = 10, RETRY_MS_MAX = 500, REPLY_MS_MAX = 60000 };

// An answer that is late or wrong would be taken for the answer to the next request, so the
// connection ends here. ERR_TIMEOUT stays for keys that did not come.
static int broken(struct store_client *c, struct err *e) {
    store_client_close(c);
    if (e->code == ERR_TIMEOUT)
        e->code = ERR_NET;
    return err_wrap(e, "store at %s", c->peer);
}

static void request_key(struct strbuf *b, const char *key) {
    unsigned char len[8];
    bytes_store(len, strlen(key), 8);
    strbuf_add(b, len, 8);
    strbuf_adds(b, key);
}

static void request_uint(struct strbuf *b, uint64_t v, size_t width) {
    unsigned char bytes[8];
    bytes_store(bytes, v, 8);
    strbuf_add(b, bytes, width);
}

// Sends and frees the request.
static int request_send(struct store_client *c, struct strbuf *b, struct err *e) {
    int rc = c->fd < 0 ? err_set(e, ERR_NET, "the connection is closed")
                       : net_send_all(c->fd, b->data, b->len, c->reply_ms_max, e);
    strbuf_fini(b);
    if (rc < 0)
        return broken(c, e);
    return 0;
}

static int reply_uint(struct store_client *c, uint64_t *v, size_t width, struct err *e) {
    unsigned char bytes[8];
    if (net_recv_all(c->fd, bytes, width, c->reply_ms_max, e) < 0)
        return broken(c, e);
    *v = bytes_load(bytes, width);
    return 0;
}

static int greet(struct store_client *c, struct err *e) {
    struct strbuf b = {0};
    uint32_t nonce = (uint32_t)getpid();
    uint64_t echo;
    strbuf_addc(&b, STORE_OP_VALIDATE);
    request_uint(&b, STORE_WIRE_MAGIC, 4);
    strbuf_addc(&b, STORE_OP_PING);
    request_uint(&b, nonce, 4);
    if (request_send(c, &b, e) < 0 || reply_uint(c, &echo, 4, e) < 0)
        return -1;
    if (echo != nonce)
        return err_set(e, ERR_FORMAT, "%s is not a TCPStore: wrong echo", c->peer);
    return 0;
}

static void sleep_ms(int ms) {
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&t, NULL);
}

int store_client_open(struct store_client *c, const char *host, int port, int timeout_ms,
                      struct err *e) {
    int64_t end = timeout_ms < 0 ? INT64_MAX : clock_mono_ms() + timeout_ms;
    struct net_address to;
    char text[NET_ADDRESS_BYTES_MAX];
    *c = (struct store_client){.fd = -1, .reply_ms_max = REPLY_MS_MAX};
    if (net_resolve(host, port, &to, e) < 0)
        return -1;
    snprintf(c->peer, sizeof c->peer, "%s:%d", net_format(&to, text), port);
    for (int pause = RETRY_FIRST_MS;; pause = pause * 2 < RETRY_MS_MAX ? pause * 2 : RETRY_MS_MAX) {
        int64_t left = end == INT64_MAX ? REPLY_MS_MAX : end - clock_mono_ms();
        c->fd = net_connect(&to, left > 0 ? (int)left : 0, e);
        if (c->fd >= 0) {
            int on = 1;
            setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            if (greet(c, e) == 0)
                return 0;
            store_client_close(c);
        }
        if (end != INT64_MAX && clock_mono_ms() + pause >= end) {
            e->code = ERR_TIMEOUT;
            return err_wrap(e, "no store within %d ms", timeout_ms);
        }
        sleep_ms(pause);
    }
}

void store_client_close(struct store_client *c) {
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

static int check_sizes(const char *key, size_t value_len, struct err *e) {
    if (strlen(key) > STORE_CLIENT_KEY_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "store key of %zu bytes is longer than %d", strlen(key),
                       STORE_CLIENT_KEY_BYTES_MAX);
    if (value_len > STORE_CLIENT_VALUE_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "store value of %zu bytes is longer than %d", value_len,
                       STORE_CLIENT_VALUE_BYTES_MAX);
    return 0;
}

int store_client_set(struct store_client *c, const char *key, const void *value, size_t len,
                     struct err *e) {
    if (check_sizes(key, len, e) < 0)
        return -1;
    struct strbuf b = {0};
    strbuf_addc(&b, STORE_OP_SET);
    request_key(&b, key);
    request_uint(&b, len, 8);
    strbuf_add(&b, value, len);
    return request_send(c, &b, e);
}

static int cancel_wait(struct store_client *c, struct err *e) {
    struct strbuf b = {0};
    uint64_t answer = 0;
    strbuf_addc(&b, STORE_OP_CANCEL_WAIT);
    if (request_send(c, &b, e) < 0)
        return -1;
    do {
        if (reply_uint(c, &answer, 1, e) < 0)
            return -1;
    } while (answer == STORE_WIRE_STOP_WAITING);
    if (answer != STORE_WIRE_WAIT_CANCELED) {
        err_set(e, ERR_FORMAT, "unexpected answer %u to a cancelled wait", (unsigned)answer);
        return broken(c, e);
    }
    return 0;
}

// Reads the answer to WAIT, or cancels the wait and returns ERR_TIMEOUT.
static int await_answer(struct store_client *c, const char *key, int timeout_ms, struct err *e) {
    int64_t end = clock_mono_ms() + timeout_ms;
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    for (;;) {
        int64_t left = end - clock_mono_ms();
        int n = poll(&p, 1, timeout_ms < 0 ? -1 : (left > 0 ? (int)left : 0));
        if (err_interrupted(n))
            continue;
        if (n > 0)
            break;
        if (cancel_wait(c, e) < 0)
            return -1;
        return err_set(e, ERR_TIMEOUT, "store at %s: key '%s' did not come within %d ms", c->peer,
                       key, timeout_ms);
    }
    uint64_t answer;
    if (reply_uint(c, &answer, 1, e) < 0)
        return -1;
    if (answer != STORE_WIRE_STOP_WAITING) {
        err_set(e, ERR_FORMAT, "unexpected answer %u to a wait", (unsigned)answer);
        return broken(c, e);
    }
    return 0;
}

int store_client_wait(struct store_client *c, const char *key, int timeout_ms, struct err *e) {
    if (check_sizes(key, 0, e) < 0)
        return -1;
    struct strbuf b = {0};
    strbuf_addc(&b, STORE_OP_WAIT);
    request_uint(&b, 1, 8);
    request_key(&b, key);
    if (request_send(c, &b, e) < 0)
        return -1;
    return await_answer(c, key, timeout_ms, e);
}

int store_client_get(struct store_client *c, const char *key, void *buf, size_t cap, size_t *len,
                     int timeout_ms, struct err *e) {
    if (store_client_wait(c, key, timeout_ms, e) < 0)
        return -1;
    struct strbuf b = {0};
    uint64_t size;
    strbuf_addc(&b, STORE_OP_GET);
    request_key(&b, key);
    if (request_send(c, &b, e) < 0 || reply_uint(c, &size, 8, e) < 0)
        return -1;
    if (size > cap) {
        store_client_close(c); // the value is still unread
        return err_set(e, ERR_LIMIT, "the value at '%s' has %llu bytes, room is for %zu", key,
                       (unsigned long long)size, cap);
    }
    if (size > 0 && net_recv_all(c->fd, buf, (size_t)size, c->reply_ms_max, e) < 0)
        return broken(c, e);
    *len = (size_t)size;
    return 0;
}

int store_client_add(struct store_client *c, const char *key, int64_t amount, int64_t *result,
                     struct err *e) {
    if (check_sizes(key, 0, e) < 0)
        return -1;
    struct strbuf b = {0};
    uint64_t sum;
    strbuf_addc(&b, STORE_OP_ADD);
    request_key(&b, key);
    request_uint(&b, (uint64_t)amount, 8);
    if (request_send(c, &b, e) < 0 || reply_uint(c, &sum, 8, e) < 0)
        return -1;
    *result = (int64_t)sum;
    return 0;
}

int store_client_check(struct store_client *c, const char *key, struct err *e) {
    if (check_sizes(key, 0, e) < 0)
        return -1;
    struct strbuf b = {0};
    uint64_t answer;
    strbuf_addc(&b, STORE_OP_CHECK);
    request_uint(&b, 1, 8);
    request_key(&b, key);
    if (request_send(c, &b, e) < 0 || reply_uint(c, &answer, 1, e) < 0)
        return -1;
    return answer == STORE_WIRE_READY;
}

int store_client_delete(struct store_client *c, const char *key, struct err *e) {
    if (check_sizes(key, 0, e) < 0)
        return -1;
    struct strbuf b = {0};
    uint64_t count;
    strbuf_addc(&b, STORE_OP_DELETE_KEY);
    request_key(&b, key);
    if (request_send(c, &b, e) < 0 || reply_uint(c, &count, 8, e) < 0)
        return -1;
    return count > 0;
}
