// SPDX-License-Identifier: Apache-2.0
// The node's side of the reachability check, linked into dtrun:
//
//     dtrun --node probe --listen ADDRESS --name NAME
//         listens on a free port of ADDRESS, prints {"event":"listening","port":N}, sends NAME and
//         a newline to each connection, and ends when standard input ends, or after
//         PROBE_LISTEN_MS_MAX.
//     dtrun --node probe --connect [--timeout-ms N]
//         reads lines `name address port` from standard input to its end, connects to all of them
//         at once, prints a line per peer {"peer":"…","ok":true,"us":N} or
//         {"peer":"…","ok":false,"why":"refused"}.
//
// Agents, stores and collectives use free ports, so one free port stands for all of them.
#include "base/clock.h"
#include "base/json.h"
#include "node/node_verb.h"
#include "sys/conn.h"
#include "sys/file.h"
#include "sys/listener.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PROBE_LISTEN_MS_MAX = 60 * 1000,
    PROBE_CONNECT_MS_DEFAULT = 3000,
    PROBE_PEERS_MAX = 4096,
    PROBE_INPUT_BYTES_MAX = 1 << 20,
};
enum { GREETING_BYTES_MAX = 128, GREETINGS_MAX = 256, CONN_BUFFER_BYTES = 4096 };

struct options {
    const char *listen, *name;
    bool connect;
    int64_t timeout_ms;
};

static int parse_options(int argc, char **argv, struct options *o, struct err *e) {
    *o = (struct options){.timeout_ms = PROBE_CONNECT_MS_DEFAULT};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--connect") == 0) {
            o->connect = true;
            continue;
        }
        if (!value)
            return err_set(e, ERR_USAGE, "'%s' needs a value", argv[i]);
        if (strcmp(argv[i], "--listen") == 0)
            o->listen = value;
        else if (strcmp(argv[i], "--name") == 0)
            o->name = value;
        else if (strcmp(argv[i], "--timeout-ms") == 0) {
            if (str_parse_i64(value, 1, PROBE_LISTEN_MS_MAX, &o->timeout_ms, e) < 0)
                return -1;
        } else if (strcmp(argv[i], "--root") != 0) {
            return err_set(e, ERR_USAGE, "unknown flag '%s'", argv[i]);
        }
        i++;
    }
    if (o->connect == (o->listen != NULL))
        return err_set(e, ERR_USAGE, "one of --listen and --connect is needed");
    if (o->listen && (!o->name || strlen(o->name) > GREETING_BYTES_MAX))
        return err_set(e, ERR_USAGE, "--listen needs --name");
    return 0;
}

static int say(const struct strbuf *text, struct err *e) {
    struct strbuf line = {0};
    strbuf_add(&line, strbuf_cstr(text), text->len);
    strbuf_addc(&line, '\n');
    int result = file_write_all(STDOUT_FILENO, line.data, line.len, e);
    strbuf_fini(&line);
    return result;
}

// ---- listening ---------------------------------------------------------------------------------

struct greeter {
    struct loop *loop;
    struct listener listener;
    struct watch input;
    struct timer limit;
    char greeting[GREETING_BYTES_MAX + 2];
    int greeted;
};

static void on_accept(struct listener *l, int fd, const struct net_address *peer) {
    struct greeter *g = container_of(l, struct greeter, listener);
    (void)peer;
    // The buffer of a new socket always has room for one short line.
    ssize_t n = write(fd, g->greeting, strlen(g->greeting));
    (void)n;
    close(fd);
    if (++g->greeted == GREETINGS_MAX * 16)
        loop_stop(g->loop);
}

static void on_input(struct watch *w, unsigned events) {
    (void)events;
    char waste[256];
    if (read(w->fd, waste, sizeof waste) <= 0)
        loop_stop(container_of(w, struct greeter, input)->loop);
}

static void on_limit(struct timer *t) {
    loop_stop(container_of(t, struct greeter, limit)->loop);
}

static int say_listening(int port, struct err *e) {
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_object(&j, NULL);
    json_str(&j, "event", "listening");
    json_int(&j, "port", port);
    json_end(&j);
    int result = say(&text, e);
    strbuf_fini(&text);
    return result;
}

static int probe_listen(const struct options *o, struct err *e) {
    struct greeter g = {0};
    int port = 0, fd = -1, result = -1;
    snprintf(g.greeting, sizeof g.greeting, "%s\n", o->name);
    if (net_listen(o->listen, 0, &fd, &port, e) < 0)
        return -1;
    g.loop = loop_open(e);
    if (!g.loop) {
        close(fd);
        return -1;
    }
    if (listener_open(&g.listener, g.loop, fd, "greetings", on_accept, e) == 0 &&
        watch_start(g.loop, &g.input, STDIN_FILENO, LOOP_READ, on_input, e) == 0 &&
        say_listening(port, e) == 0) {
        timer_start(g.loop, &g.limit, PROBE_LISTEN_MS_MAX, on_limit);
        loop_run(g.loop);
        result = 0;
    }
    listener_close(&g.listener);
    watch_stop(&g.input);
    timer_stop(&g.limit);
    loop_close(g.loop);
    return result;
}

// ---- connecting --------------------------------------------------------------------------------

struct prober;

struct probed_peer {
    struct prober *prober;
    struct conn conn;
    const char *name;
    int64_t started_ns;
    bool over;
};

struct prober {
    struct loop *loop;
    struct probed_peer *peers;
    size_t count, going;
    int64_t timeout_ms;
    struct err failure;
};

static void peer_over(struct probed_peer *p, const char *why) {
    struct prober *all = p->prober;
    struct strbuf text = {0};
    struct json_out j;
    if (p->over)
        return;
    p->over = true;
    json_open(&j, &text);
    json_object(&j, NULL);
    json_str(&j, "peer", p->name);
    json_bool(&j, "ok", why == NULL);
    if (why)
        json_str(&j, "why", why);
    else
        json_int(&j, "us", (clock_mono_ns() - p->started_ns) / 1000);
    json_end(&j);
    say(&text, &all->failure);
    strbuf_fini(&text);
    if (--all->going == 0)
        loop_stop(all->loop);
}

static void on_data(struct conn *c) {
    struct probed_peer *p = c->ctx;
    char *end = memchr(c->in.data, '\n', c->in.len);
    if (!end && c->in.len <= GREETING_BYTES_MAX)
        return;
    size_t len = end ? (size_t)(end - c->in.data) : 0;
    bool same = end && len == strlen(p->name) && memcmp(c->in.data, p->name, len) == 0;
    conn_close(c);
    peer_over(p, same ? NULL : "another program answers at this address");
}

static void on_end(struct conn *c, const struct err *e) {
    peer_over(c->ctx, e->code ? e->text : "closed without a greeting");
}

static const struct conn_events PEER_EVENTS = {.on_data = on_data, .on_end = on_end};

static void peer_start(struct probed_peer *p, const char *address, int port) {
    struct net_address to;
    struct err e = {0};
    p->started_ns = clock_mono_ns();
    p->conn.ctx = p;
    if (!net_is_numeric(address)) {
        peer_over(p, "the address is not numeric");
        return;
    }
    int fd = -1;
    if (net_resolve(address, port, &to, &e) < 0 || (fd = net_connect_start(&to, &e)) < 0 ||
        conn_open_connecting(&p->conn, p->prober->loop, fd, &PEER_EVENTS, CONN_BUFFER_BYTES,
                             CONN_BUFFER_BYTES, p->prober->timeout_ms, &e) < 0) {
        peer_over(p, e.text);
        return;
    }
    p->conn.ctx = p;
    conn_idle_limit(&p->conn, p->prober->timeout_ms);
}

static int read_input(struct strbuf *in, struct err *e) {
    char part[8192];
    ssize_t n;
    while ((n = read(STDIN_FILENO, part, sizeof part)) > 0) {
        strbuf_add(in, part, (size_t)n);
        if (in->len > PROBE_INPUT_BYTES_MAX)
            return err_set(e, ERR_LIMIT, "more than %d bytes of peers", PROBE_INPUT_BYTES_MAX);
    }
    return n < 0 ? err_errno(e, ERR_SYS, "cannot read the list of peers") : 0;
}

static int probe_connect(const struct options *o, struct arena *a, struct err *e) {
    struct strbuf in = {0};
    char **lines = NULL;
    if (read_input(&in, e) < 0)
        return -1;
    size_t count = str_split(a, strbuf_cstr(&in), '\n', &lines);
    strbuf_fini(&in);
    while (count > 0 && !lines[count - 1][0])
        count--; // of a list that ends in a newline
    if (count > PROBE_PEERS_MAX)
        return err_set(e, ERR_LIMIT, "more than %d peers", PROBE_PEERS_MAX);
    struct prober all = {.loop = loop_open(e), .timeout_ms = o->timeout_ms};
    if (!all.loop)
        return -1;
    all.peers = arena_new(a, struct probed_peer, count + 1);
    all.going = 1; // keeps it active until every peer has been started
    for (size_t i = 0; i < count; i++) {
        char **parts = NULL;
        int64_t port = 0;
        if (!lines[i][0])
            continue;
        if (str_split(a, lines[i], ' ', &parts) != 3 ||
            str_parse_i64(parts[2], 1, 65535, &port, e) < 0)
            return err_set(e, ERR_FORMAT, "line %zu is not 'name address port'", i + 1);
        struct probed_peer *p = &all.peers[all.count++];
        *p = (struct probed_peer){.prober = &all, .name = parts[0]};
        all.going++;
        peer_start(p, parts[1], (int)port);
    }
    if (--all.going > 0)
        loop_run(all.loop);
    for (size_t i = 0; i < all.count; i++)
        conn_close(&all.peers[i].conn);
    loop_close(all.loop);
    if (all.failure.code)
        return err_set(e, all.failure.code, "%s", all.failure.text);
    return 0;
}

int node_probe(const struct node_call *c) {
    struct options o;
    struct err e = {0};
    struct arena a = {0};
    int result = parse_options(c->argc, c->argv, &o, &e);
    if (result == 0)
        result = o.connect ? probe_connect(&o, &a, &e) : probe_listen(&o, &e);
    if (result < 0) {
        struct strbuf text = {0};
        struct json_out j;
        struct err ignored = {0};
        json_open(&j, &text);
        json_object(&j, NULL);
        json_str(&j, "event", "error");
        json_str(&j, "code", err_name(e.code));
        json_str(&j, "text", e.text);
        json_end(&j);
        say(&text, &ignored);
        strbuf_fini(&text);
    }
    arena_fini(&a);
    return result < 0 ? err_status(e.code) : 0;
}
