// SPDX-License-Identifier: Apache-2.0
// Answers HTTP health checks.
#include "agent/health_check.h"

#include "sys/net.h"

#include <string.h>
#include <unistd.h>

static void answer(struct strbuf *out, const char *status, const char *body, bool with_body) {
    strbuf_addf(out,
                "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                "Cache-Control: no-store\r\nConnection: close\r\n\r\n%s",
                status, strlen(body), with_body ? body : "");
}

bool health_answer(const char *in, size_t len, struct strbuf *out) {
    bool head = len >= 5 && memcmp(in, "HEAD ", 5) == 0;
    bool get = len >= 4 && memcmp(in, "GET ", 4) == 0;
    if (!memmem(in, len, "\r\n\r\n", 4) && !memmem(in, len, "\n\n", 2)) {
        if (len < HEALTH_REQUEST_BYTES_MAX)
            return false;
        answer(out, "431 Request Header Fields Too Large", "too long\n", true);
    } else if (get || head) {
        answer(out, "200 OK", "alive\n", get);
    } else {
        answer(out, "405 Method Not Allowed", "GET and HEAD only\n", true);
    }
    return true;
}

static void on_data(struct conn *c) {
    struct strbuf out = {0};
    if (health_answer(c->in.data, c->in.len, &out)) {
        strbuf_consume(&c->in, c->in.len);
        conn_send(c, out.data, out.len);
        conn_finish(c);
    }
    strbuf_fini(&out);
}

static void on_end(struct conn *c, const struct err *e) {
    (void)c;
    (void)e;
}

static const struct conn_events conn_table = {.on_data = on_data, .on_end = on_end};

static struct health_client *place(struct health *h) {
    struct health_client *oldest = &h->clients[0];
    for (int i = 0; i < HEALTH_CLIENTS_MAX; i++) {
        struct health_client *x = &h->clients[i];
        if (!conn_is_open(&x->conn))
            return x;
        if (x->came < oldest->came)
            oldest = x;
    }
    conn_close(&oldest->conn);
    return oldest;
}

static void on_accept(struct listener *l, int fd, const struct net_address *peer) {
    struct health *h = container_of(l, struct health, listener);
    struct health_client *x = place(h);
    struct err e;
    (void)peer;
    *x = (struct health_client){.came = ++h->served};
    if (conn_open(&x->conn, h->loop, fd, &conn_table, HEALTH_REQUEST_BYTES_MAX, 4096, &e) < 0)
        close(fd);
    else
        conn_idle_limit(&x->conn, HEALTH_CLIENT_MS_MAX);
}

int health_open(struct health *h, struct loop *loop, int port, struct err *e) {
    int fd;
    *h = (struct health){0};
    if (net_listen(NULL, port, &fd, &h->port, e) < 0)
        return -1;
    if (listener_open(&h->listener, loop, fd, "health checks", on_accept, e) < 0)
        return -1;
    h->loop = loop;
    return 0;
}

void health_close(struct health *h) {
    if (!h->loop)
        return;
    listener_close(&h->listener);
    for (int i = 0; i < HEALTH_CLIENTS_MAX; i++)
        conn_close(&h->clients[i].conn);
    h->loop = NULL;
}
