// SPDX-License-Identifier: Apache-2.0
// Jump hosts: a session whose channels carry other sessions (direct-tcpip, RFC 4254 7.2). All nodes
// behind the same chain of jump hosts share one session, because sshd limits the number of
// connections that are not yet logged in (MaxStartups).
#include "base/str.h"
#include "remote/ssh_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum tunnel_state { TUNNEL_OPEN, TUNNEL_ON, TUNNEL_CLOSE, TUNNEL_GONE };

struct ssh_tunnel {
    struct ssh_hop *hop;
    struct ssh *inner; // NULL: closed by its user
    struct ssh_tunnel *next;
    enum tunnel_state state;
    LIBSSH2_CHANNEL *channel;
    char *host;
    int port;
};

struct ssh_hop {
    struct ssh ssh;
    const struct transport_env *env;
    char *chain; // "a,b": through a to b; identity of this hop
    struct ssh_tunnel *tunnels;
    struct ssh_hop *next;
};

// Shared by the process, like the loop: one thread uses it.
static struct ssh_hop *hops;

static struct ssh_hop *hop_of(struct ssh *s) {
    return container_of(s, struct ssh_hop, ssh);
}

// ---- tunnels ----------------------------------------------------------------------------------

ssize_t ssh_tunnel_read(struct ssh_tunnel *t, void *p, size_t len) {
    if (t->state == TUNNEL_OPEN)
        return -EAGAIN;
    struct ssh *s = &t->hop->ssh;
    if (t->state != TUNNEL_ON || s->state != SSH_OPEN)
        return -ENOTCONN;
    uint64_t before = s->taken;
    ssize_t n = libssh2_channel_read(t->channel, p, len);
    if (s->taken != before && s->busy == 0)
        ssh_kick(s); // it may have been for another tunnel
    if (n == LIBSSH2_ERROR_EAGAIN)
        return -EAGAIN;
    return n < 0 ? -ECONNRESET : n == 0 && !libssh2_channel_eof(t->channel) ? -EAGAIN : n;
}

ssize_t ssh_tunnel_write(struct ssh_tunnel *t, const void *p, size_t len) {
    if (t->state == TUNNEL_OPEN)
        return -EAGAIN;
    if (t->state != TUNNEL_ON || t->hop->ssh.state != SSH_OPEN)
        return -EPIPE;
    if (!ssh_has_room(&t->hop->ssh))
        return -EAGAIN;
    ssize_t n = libssh2_channel_write(t->channel, p, len);
    ssh_kick(&t->hop->ssh);
    return n == LIBSSH2_ERROR_EAGAIN ? -EAGAIN : n < 0 ? -EPIPE : n;
}

static void tunnel_fail(struct ssh_tunnel *t, const struct err *e) {
    struct err copy = *e;
    t->state = t->channel ? TUNNEL_CLOSE : TUNNEL_GONE;
    if (t->inner)
        ssh_fail(t->inner, &copy);
}

static void tunnel_open(struct ssh_tunnel *t) {
    struct ssh *s = &t->hop->ssh;
    struct err e;
    if (s->opener && s->opener != t)
        return;
    if (!s->opener && !t->inner) {
        t->state = TUNNEL_GONE;
        return;
    }
    t->channel = libssh2_channel_direct_tcpip_ex(s->session, t->host, t->port, "127.0.0.1", 0);
    if (!t->channel && libssh2_session_last_errno(s->session) == LIBSSH2_ERROR_EAGAIN) {
        s->opener = t;
        return;
    }
    s->opener = NULL;
    ssh_kick(s);
    if (!t->channel) {
        (void)ssh_error(s, "connecting onward", &e);
        if (t->inner)
            (void)err_wrap(&e, "%s: the jump host cannot reach it", t->inner->host.label);
        tunnel_fail(t, &e);
        return;
    }
    t->state = TUNNEL_ON;
    if (t->inner)
        ssh_tunnel_ready(t->inner);
}

static void tunnel_step(struct ssh_tunnel *t) {
    if (t->state == TUNNEL_OPEN)
        tunnel_open(t);
    else if (t->state == TUNNEL_ON && t->inner)
        ssh_step(t->inner);
    else if (t->state == TUNNEL_ON)
        t->state = TUNNEL_CLOSE;
    if (t->state == TUNNEL_CLOSE && t->hop->ssh.state == SSH_OPEN &&
        libssh2_channel_free(t->channel) != LIBSSH2_ERROR_EAGAIN) {
        t->channel = NULL;
        t->state = TUNNEL_GONE;
    }
}

// ---- hops -------------------------------------------------------------------------------------

static void on_open(struct ssh *s) {
    ssh_kick(s);
}

static void on_step(struct ssh *s) {
    for (struct ssh_tunnel *t = hop_of(s)->tunnels; t && s->state == SSH_OPEN; t = t->next)
        tunnel_step(t);
}

static void on_down(struct ssh *s, const struct err *e) {
    struct err named = *e;
    (void)err_wrap(&named, "jump host");
    for (struct ssh_tunnel *t = hop_of(s)->tunnels; t; t = t->next)
        tunnel_fail(t, &named);
}

static void hop_unlist(struct ssh_hop *h) {
    for (struct ssh_hop **p = &hops; *p; p = &(*p)->next)
        if (*p == h) {
            *p = h->next;
            return;
        }
}

// Frees closed tunnels, and the hop after the last one.
static void on_idle(struct ssh *s) {
    struct ssh_hop *h = hop_of(s);
    bool wanted = false;
    for (struct ssh_tunnel *t = h->tunnels; t; t = t->next)
        wanted |= t->inner != NULL;
    if (s->state == SSH_DOWN || !wanted)
        hop_unlist(h); // new sessions open a new hop
    struct ssh_tunnel **p = &h->tunnels;
    while (*p) {
        struct ssh_tunnel *t = *p;
        if (t->inner || (wanted && t->state != TUNNEL_GONE)) {
            p = &t->next;
            continue;
        }
        *p = t->next;
        if (s->opener == t)
            s->opener = NULL;
        free(t->host);
        free(t);
    }
    if (!h->tunnels) {
        ssh_fini(s);
        free(h->chain);
        free(h);
    }
}

static const struct ssh_events hop_events = {
    .on_open = on_open, .on_step = on_step, .on_down = on_down, .on_idle = on_idle};

// Splits off the last hop "[user@]host[:port]" from the chain.
static int split_chain(struct arena *a, const char *chain, struct transport_target *t,
                       struct err *e) {
    char **parts;
    size_t count = str_split(a, chain, ',', &parts);
    if (count > SSH_JUMPS_MAX)
        return err_set(e, ERR_LIMIT, "ProxyJump names more than %d hosts", SSH_JUMPS_MAX);
    char *last = parts[count - 1];
    if (str_starts(last, "ssh://"))
        last += 6;
    char *at = strrchr(last, '@');
    if (at) {
        *at = '\0';
        t->user = last;
        last = at + 1;
    }
    char *host = arena_new(a, char, NET_HOST_BYTES_MAX);
    if (net_split(last, 0, host, &t->port, e) < 0)
        return err_wrap(e, "ProxyJump '%s'", chain);
    t->node = t->host = host;
    size_t before = (size_t)(strrchr(chain, ',') ? strrchr(chain, ',') - chain : 0);
    if (before)
        t->proxy_jump = arena_strndup(a, chain, before);
    return 0;
}

static struct ssh_hop *hop_get(const struct transport_env *env, const char *chain, int depth,
                               struct err *e) {
    for (struct ssh_hop *h = hops; h; h = h->next)
        if (h->env == env && strcmp(h->chain, chain) == 0 && h->ssh.state != SSH_DOWN)
            return h;
    if (depth > SSH_JUMPS_MAX) {
        (void)err_set(e, ERR_LIMIT, "ProxyJump leads in a circle, or over more than %d hosts",
                      SSH_JUMPS_MAX);
        return NULL;
    }
    struct arena a = {0};
    struct transport_target t = {0};
    struct ssh_hop *h = heap_alloc(sizeof *h);
    h->env = env;
    h->chain = heap_strdup(chain);
    if (split_chain(&a, chain, &t, e) < 0 || ssh_open(&h->ssh, env, &t, &hop_events, e) < 0) {
        ssh_fini(&h->ssh);
        free(h->chain);
        free(h);
        h = NULL;
    } else {
        h->next = hops;
        hops = h;
    }
    arena_fini(&a);
    return h;
}

struct ssh_tunnel *ssh_tunnel_open(struct ssh *s, struct err *e) {
    static int depth; // opening a hop may recurse for hops before it
    depth++;
    struct ssh_hop *h = hop_get(s->env, s->host.jump, depth, e);
    depth--;
    if (!h) {
        (void)err_wrap(e, "%s: jump host", s->host.label);
        return NULL;
    }
    struct ssh_tunnel *t = heap_alloc(sizeof *t);
    t->hop = h;
    t->inner = s;
    t->host = heap_strdup(s->host.host_name);
    t->port = s->host.port;
    t->next = h->tunnels;
    h->tunnels = t;
    if (h->ssh.state == SSH_OPEN)
        ssh_kick(&h->ssh);
    return t;
}

void ssh_tunnel_close(struct ssh_tunnel *t) {
    struct ssh *s = &t->hop->ssh;
    t->inner = NULL;
    ssh_kick(s); // closes the channel, and after the last one the hop
    if (s->busy == 0)
        on_idle(s);
}
