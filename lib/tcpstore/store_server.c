// SPDX-License-Identifier: Apache-2.0
// Sockets of the store. A client costs one small object. Bytes are read into one shared buffer and
// replies are written at once, so an idle client has no buffers.
#include "tcpstore/store_server.h"

#include "base/arena.h"
#include "base/log.h"
#include "sys/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    READ_BYTES = 256 << 10,
    UNSENT_PAUSE_BYTES = 1 << 20, // input of a client that does not read its replies is paused
};

struct client {
    struct watch watch;
    struct store_server *server;
    struct store_session *session;
    struct client *prev, *next;
    unsigned events;
};

struct store_server {
    struct loop *loop;
    struct store *store;
    struct listener listener;
    int port;
    struct client *clients;
    bool restricted;
    struct net_address *allowed;
    size_t allowed_count;
    struct log_limit refused, closed;
    char *buffer;
};

static void client_close(struct client *c) {
    struct store_server *s = c->server;
    int fd = c->watch.fd;
    watch_stop(&c->watch);
    close(fd);
    store_session_close(c->session);
    *(c->prev ? &c->prev->next : &s->clients) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    free(c);
}

static void client_refuse(struct client *c, const struct err *e) {
    if (log_admits(&c->server->closed))
        log_warn("store: a client was closed", "reason=%s", e->text);
    client_close(c);
}

static void client_watch(struct client *c) {
    size_t unsent = c->session->out.len;
    unsigned events = (unsent < UNSENT_PAUSE_BYTES ? LOOP_READ : 0) | (unsent ? LOOP_WRITE : 0);
    if (events != c->events)
        watch_modify(&c->watch, events);
    c->events = events;
}

// Sends as much as possible; the rest waits for the socket. False when the client was closed.
static bool client_flush(struct client *c) {
    struct strbuf *out = &c->session->out;
    size_t sent = 0;
    while (sent < out->len) {
        ssize_t n = send(c->watch.fd, out->data + sent, out->len - sent, MSG_NOSIGNAL);
        if (err_interrupted(n))
            continue;
        if (n < 0 && errno != EAGAIN) {
            client_close(c);
            return false;
        }
        if (n <= 0)
            break;
        sent += (size_t)n;
    }
    if (sent == out->len && out->room > READ_BYTES)
        strbuf_fini(out);
    else
        strbuf_consume(out, sent);
    client_watch(c);
    return true;
}

static void flush_ready(struct store_server *s) {
    for (struct store_session *c; (c = store_ready(s->store));)
        client_flush(c->ctx);
}

static void client_event(struct watch *w, unsigned events) {
    struct client *c = container_of(w, struct client, watch);
    struct store_server *s = c->server;
    if ((events & LOOP_WRITE) && !client_flush(c))
        return;
    if (!(events & (LOOP_READ | LOOP_HANGUP)))
        return;
    ssize_t n = recv(w->fd, s->buffer, READ_BYTES, 0);
    if (err_not_yet(n))
        return;
    if (n <= 0) {
        client_close(c);
        return;
    }
    struct err e;
    if (store_feed(c->session, s->buffer, (size_t)n, &e) < 0)
        client_refuse(c, &e);
    flush_ready(s);
    loop_linger(s->loop);
}

// On this host only processes of the run's user are accepted, whatever their address. A socket of
// another network namespace may belong to another member that shares this host's address.
static bool is_ours(const struct net_address *peer, int fd, size_t members) {
    uid_t uid;
    switch (net_peer_owner(fd, &uid)) {
    case NET_OWNER_KNOWN: return uid == geteuid() || uid == 0;
    case NET_OWNER_CLOSED: return false;
    case NET_OWNER_ELSEWHERE: return members > 1 && !net_is_loopback(peer);
    case NET_OWNER_UNKNOWN: break;
    }
    return true;
}

// The reason for refusing a client; NULL: accepted.
static const char *why_refused(const struct store_server *s, int fd,
                               const struct net_address *peer) {
    size_t members = 0;
    for (size_t i = 0; i < s->allowed_count; i++)
        members += net_same_host(&s->allowed[i], peer);
    if (net_is_loopback(peer) || net_address_is_local(peer))
        return is_ours(peer, fd, members) ? NULL : "not a process of the run's user";
    return members > 0 || !s->restricted ? NULL : "not a member";
}

void store_server_adopt(struct store_server *s, int fd, const struct net_address *peer) {
    char text[NET_ADDRESS_BYTES_MAX];
    struct err e;
    const char *why = why_refused(s, fd, peer);
    if (why) {
        if (log_admits(&s->refused))
            log_warn("store: refused a client", "peer=%s reason=%s", net_format(peer, text), why);
        close(fd);
        return;
    }
    struct client *c = heap_alloc(sizeof *c);
    c->server = s;
    c->session = store_session_open(s->store, c, &e);
    if (!c->session || watch_start(s->loop, &c->watch, fd, LOOP_READ, client_event, &e) < 0) {
        if (log_admits(&s->refused))
            log_warn("store: refused a client", "peer=%s reason=%s", net_format(peer, text),
                     e.text);
        store_session_close(c->session);
        free(c);
        close(fd);
        return;
    }
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    c->events = LOOP_READ;
    c->next = s->clients;
    if (c->next)
        c->next->prev = c;
    s->clients = c;
}

static void on_accept(struct listener *l, int fd, const struct net_address *peer) {
    store_server_adopt(container_of(l, struct store_server, listener), fd, peer);
}

struct store_server *store_server_open(struct loop *loop, const char *host, int port,
                                       const struct store_limits *limits, struct err *e) {
    struct store_server *s = heap_alloc(sizeof *s);
    s->loop = loop;
    s->store = store_open(limits);
    s->buffer = heap_alloc(READ_BYTES);
    int fd;
    if (port >= 0 && (net_listen(host, port, &fd, &s->port, e) < 0 ||
                      listener_open(&s->listener, loop, fd, "store", on_accept, e) < 0)) {
        err_wrap(e, "store");
        store_server_close(s);
        return NULL;
    }
    return s;
}

void store_server_close(struct store_server *s) {
    if (!s)
        return;
    listener_close(&s->listener);
    for (struct client *c = s->clients, *next; c; c = next) {
        next = c->next;
        client_close(c);
    }
    store_close(s->store);
    free(s->allowed);
    free(s->buffer);
    free(s);
}

int store_server_port(const struct store_server *s) {
    return s->port;
}

void store_server_allow(struct store_server *s, const struct net_address *hosts, size_t count) {
    free(s->allowed);
    s->allowed = heap_alloc((count ? count : 1) * sizeof *hosts);
    memcpy(s->allowed, hosts, count * sizeof *hosts);
    s->allowed_count = count;
    s->restricted = true;
}
