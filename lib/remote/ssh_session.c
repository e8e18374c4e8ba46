// SPDX-License-Identifier: Apache-2.0
// A session: connecting, key exchange, login, keepalive, end.
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "remote/ssh_impl.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// AES-GCM first: authenticated in one pass, in hardware nearly everywhere.
static const char *const ciphers[] = {"aes256-gcm@openssh.com",
                                      "aes128-gcm@openssh.com",
                                      "aes256-ctr",
                                      "aes192-ctr",
                                      "aes128-ctr",
                                      "chacha20-poly1305@openssh.com",
                                      NULL};

static const char *const doing[] = {
    [SSH_CONNECTING] = "connecting", [SSH_HANDSHAKE] = "exchanging keys",
    [SSH_METHODS] = "logging in",    [SSH_LOGIN] = "logging in",
    [SSH_OPEN] = "talking",          [SSH_DOWN] = "closing",
};

static void enter(struct ssh *s) {
    s->busy++;
}

static void leave(struct ssh *s) {
    if (--s->busy == 0)
        s->events->on_idle(s); // may free s
}

// ---- the end ----------------------------------------------------------------------------------

int ssh_error(struct ssh *s, const char *what, struct err *e) {
    char *text = NULL;
    int len = 0;
    if (s->far_end_closed || s->io_error)
        return err_set(e, ERR_NET, "%s: the connection was lost while %s%s%s", s->host.label, what,
                       s->io_error ? ": " : " (closed by the far end)",
                       s->io_error ? strerror(s->io_error) : "");
    (void)libssh2_session_last_error(s->session, &text, &len, 0);
    return err_set(e, ERR_NET, "%s: %s: %s", s->host.label, what,
                   text ? str_printable(&s->arena, text, (size_t)len) : "no reason given");
}

static void shut(struct ssh *s) {
    timer_stop(&s->deadline);
    timer_stop(&s->keepalive);
    timer_stop(&s->kick);
    resolver_stop(&s->resolver);
    if (s->state == SSH_OPEN && !s->io_error) {
        (void)libssh2_session_disconnect(s->session, "done");
        ssh_bytes_flush(s);
    }
    s->state = SSH_DOWN;
    watch_stop(&s->watch);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

void ssh_fail(struct ssh *s, const struct err *e) {
    if (s->state == SSH_DOWN)
        return;
    enter(s);
    s->err = *e;
    shut(s);
    s->events->on_down(s, &s->err);
    leave(s);
}

void ssh_fini(struct ssh *s) {
    must(s->busy == 0);
    shut(s);
    ssh_auth_fini(s);
    if (s->session)
        // In state DOWN every read and write of libssh2 fails at once, so it frees all memory.
        for (int i = 0; i < 1000 && libssh2_session_free(s->session) == LIBSSH2_ERROR_EAGAIN; i++)
            ;
    if (s->tunnel)
        ssh_tunnel_close(s->tunnel);
    free(s->out);
    free(s->in);
    arena_fini(&s->arena);
}

// ---- steps ------------------------------------------------------------------------------------

static int handshake(struct ssh *s, struct err *e) {
    int rc = libssh2_session_handshake(s->session, ssh_bytes_fd(s));
    if (rc == LIBSSH2_ERROR_EAGAIN)
        return 0;
    if (rc)
        return ssh_error(s, "exchanging keys", e);
    if (ssh_hostkey_check(s, e) < 0)
        return -1;
    s->state = SSH_METHODS;
    return 1;
}

static int methods(struct ssh *s, struct err *e) {
    const char *list =
        libssh2_userauth_list(s->session, s->host.user, (unsigned)strlen(s->host.user));
    if (!list && libssh2_userauth_authenticated(s->session)) {
        s->state = SSH_OPEN; // the server requires no authentication
        return 1;
    }
    if (!list && libssh2_session_last_errno(s->session) == LIBSSH2_ERROR_EAGAIN)
        return 0;
    if (!list)
        return ssh_error(s, "logging in", e);
    if (!strstr(list, "publickey"))
        return err_set(e, ERR_AUTH,
                       "%s: the server takes no public keys (it offers: %s); put your key into "
                       "~/.ssh/authorized_keys there and allow PubkeyAuthentication",
                       s->host.label, str_printable(&s->arena, list, strlen(list)));
    s->state = SSH_LOGIN;
    return 1;
}

static void on_keepalive(struct timer *t);

static int64_t keepalive_ms(const struct ssh *s) {
    int64_t ms = s->env->keepalive_ms > 0 ? s->env->keepalive_ms : TRANSPORT_KEEPALIVE_MS_DEFAULT;
    return ms < TRANSPORT_KEEPALIVE_MS_MIN ? TRANSPORT_KEEPALIVE_MS_MIN : ms;
}

static int login(struct ssh *s, struct err *e) {
    int rc = ssh_auth_step(s, e);
    if (rc > 0)
        s->state = SSH_OPEN;
    return rc;
}

static void opened(struct ssh *s) {
    timer_stop(&s->deadline);
    ssh_auth_fini(s);
    int seconds = (int)((keepalive_ms(s) + 999) / 1000);
    libssh2_keepalive_config(s->session, 1, (unsigned)seconds);
    timer_start(s->env->loop, &s->keepalive, keepalive_ms(s), on_keepalive);
    log_debug("connected", "host=\"%s\" cipher=%s", s->host.label,
              libssh2_session_methods(s->session, LIBSSH2_METHOD_CRYPT_CS));
    s->events->on_open(s);
}

// waiting: number of bytes in `in` when the step began.
static void step_end(struct ssh *s, size_t waiting) {
    struct err e;
    bool was_full = !ssh_has_room(s);
    ssh_bytes_flush(s);
    if (was_full && ssh_has_room(s))
        ssh_kick(s);
    if (s->state == SSH_OPEN) {
        bool unread = waiting && s->in_len - s->in_start >= waiting; // no channel reads it now
        ssh_bytes_take_idle(s);
        ssh_bytes_flush(s);
        if (s->in_start < s->in_len && !unread) {
            ssh_kick(s); // also at the end of the stream, which may contain a status
            return;
        }
    }
    if (s->far_end_closed || s->io_error) {
        (void)ssh_error(s, doing[s->state], &e);
        ssh_fail(s, &e);
    }
}

// A call on one channel makes libssh2 read all available data, also for other channels and for the
// other stream. Only another call there returns it. Rounds are repeated until one reads nothing;
// the loop runs in between.
static void do_channels(struct ssh *s) {
    uint64_t before;
    int rounds = SSH_ROUNDS_PER_STEP;
    do {
        before = s->taken;
        s->events->on_step(s);
    } while (s->taken != before && s->state == SSH_OPEN && --rounds > 0);
    if (s->taken != before)
        ssh_kick(s);
}

void ssh_step(struct ssh *s) {
    struct err e;
    int rc = 1;
    size_t waiting = s->in_len - s->in_start;
    enter(s);
    while (rc > 0 && s->state > SSH_CONNECTING && s->state < SSH_OPEN) {
        rc = s->state == SSH_HANDSHAKE ? handshake(s, &e)
             : s->state == SSH_METHODS ? methods(s, &e)
                                       : login(s, &e);
        if (rc > 0 && s->state == SSH_OPEN)
            opened(s);
    }
    if (rc < 0) {
        ssh_bytes_flush(s);
        ssh_fail(s, &e);
    }
    if (s->state == SSH_OPEN) {
        ssh_bytes_flush(s); // makes room
        do_channels(s);
    }
    if (s->state > SSH_CONNECTING && s->state < SSH_DOWN)
        step_end(s, waiting);
    leave(s);
}

static void on_kick(struct timer *t) {
    ssh_step(container_of(t, struct ssh, kick));
}

void ssh_kick(struct ssh *s) {
    if (s->state != SSH_DOWN)
        timer_start(s->env->loop, &s->kick, 0, on_kick);
}

static void on_keepalive(struct timer *t) {
    struct ssh *s = container_of(t, struct ssh, keepalive);
    struct err e;
    int next;
    int64_t silent_ms = clock_mono_ms() - s->heard_ms;
    enter(s);
    if (silent_ms > SSH_KEEPALIVES_MISSED_MAX * keepalive_ms(s) + keepalive_ms(s) / 2) {
        (void)err_set(&e, ERR_TIMEOUT,
                      "%s: nothing was heard for %lld s, the connection counts as lost; the node "
                      "may be down or its network cut",
                      s->host.label, (long long)silent_ms / 1000);
        ssh_fail(s, &e);
    } else {
        (void)libssh2_keepalive_send(s->session, &next);
        ssh_bytes_flush(s);
        timer_start(s->env->loop, t, keepalive_ms(s), on_keepalive);
    }
    leave(s);
}

static void on_deadline(struct timer *t) {
    struct ssh *s = container_of(t, struct ssh, deadline);
    struct err e;
    int64_t ms = s->env->connect_timeout_ms > 0 ? s->env->connect_timeout_ms
                                                : TRANSPORT_CONNECT_TIMEOUT_MS_DEFAULT;
    double seconds = (double)ms / 1000.0;
    if (s->state == SSH_CONNECTING && !s->tunnel && s->resolver.count == 0)
        (void)err_set(&e, ERR_NET, "%s: the host name has no address after %.1f s: %s",
                      s->host.label, seconds,
                      s->resolver.attempts ? s->resolver.err.text : "the resolver does not answer");
    else
        (void)err_set(&e, ERR_TIMEOUT,
                      "%s: no answer within %.1f s while %s; is the node up, and does a firewall "
                      "let port %d through?",
                      s->host.label, seconds, doing[s->state], s->host.port);
    ssh_fail(s, &e);
}

// ---- connecting -------------------------------------------------------------------------------

static void on_socket(struct watch *w, unsigned events) {
    (void)events;
    ssh_step(container_of(w, struct ssh, watch));
}

// Lists only supported methods, since libssh2 before 1.11 damages its list otherwise.
int ssh_prefer(struct ssh *s, int method, const char *const *names, struct err *e) {
    const char **supported = NULL;
    struct strbuf list = {0};
    int count = libssh2_session_supported_algs(s->session, method, &supported);
    for (; *names; names++)
        for (int i = 0; i < count; i++)
            if (str_eq(supported[i], *names))
                strbuf_addf(&list, "%s%s", list.len ? "," : "", *names);
    if (count > 0)
        libssh2_free(s->session, supported);
    int rc = libssh2_session_method_pref(s->session, method, strbuf_cstr(&list));
    strbuf_fini(&list);
    return rc ? ssh_error(s, "choosing algorithms", e) : 0;
}

static int start_session(struct ssh *s, struct err *e) {
    s->session = libssh2_session_init_ex(NULL, NULL, NULL, s);
    if (!s->session)
        return err_set(e, ERR_FAILED, "%s: libssh2 cannot make a session", s->host.label);
    ssh_bytes_attach(s);
    libssh2_session_set_blocking(s->session, 0);
    if (ssh_prefer(s, LIBSSH2_METHOD_CRYPT_CS, ciphers, e) < 0 ||
        ssh_prefer(s, LIBSSH2_METHOD_CRYPT_SC, ciphers, e) < 0 || ssh_hostkey_prefer(s, e) < 0)
        return -1;
    s->state = SSH_HANDSHAKE;
    return 0;
}

static int connect_next(struct ssh *s, struct err *e);

static void on_connect(struct watch *w, unsigned events) {
    struct ssh *s = container_of(w, struct ssh, watch);
    struct err e;
    int error = 0, one = 1;
    socklen_t len = sizeof error;
    (void)events;
    enter(s);
    (void)getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    watch_stop(w);
    int rc = 0;
    if (error) {
        close(s->fd);
        s->fd = -1;
        (void)err_set(&e, ERR_NET, "%s: cannot connect: %s", s->host.label, net_why(error));
        rc = connect_next(s, &e);
    } else {
        (void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        (void)setsockopt(s->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
        s->heard_ms = clock_mono_ms();
        rc = watch_start(s->env->loop, &s->watch, s->fd, LOOP_READ, on_socket, &e);
        if (rc == 0 && (rc = start_session(s, &e)) == 0)
            ssh_step(s);
    }
    if (rc < 0)
        ssh_fail(s, &e);
    leave(s);
}

// Connects to the next address; keeps the error in e when no address is left.
static int connect_next(struct ssh *s, struct err *e) {
    while (s->address_next < s->resolver.count) {
        s->fd = net_connect_start(&s->resolver.found[s->address_next++], e);
        if (s->fd < 0) {
            (void)err_wrap(e, "%s", s->host.label);
            continue;
        }
        if (watch_start(s->env->loop, &s->watch, s->fd, LOOP_WRITE, on_connect, e) < 0)
            return -1;
        return 0;
    }
    return -1;
}

void ssh_tunnel_ready(struct ssh *s) {
    struct err e;
    enter(s);
    s->heard_ms = clock_mono_ms();
    if (start_session(s, &e) < 0)
        ssh_fail(s, &e);
    else
        ssh_step(s);
    leave(s);
}

static void on_resolved(struct resolver *l) {
    struct ssh *s = container_of(l, struct ssh, resolver);
    struct err e;
    enter(s);
    if (l->count > 0 && connect_next(s, &e) < 0)
        ssh_fail(s, &e);
    else if (l->count == 0 && l->attempts == 1)
        log_warn("a host name has no address yet; trying again", "host=\"%s\" reason=\"%s\"",
                 s->host.label, l->err.text);
    leave(s);
}

int ssh_open(struct ssh *s, const struct transport_env *env, const struct transport_target *t,
             const struct ssh_events *events, struct err *e) {
    static bool ready; // libssh2_init must be called once, before any thread uses it
    if (!ready && libssh2_init(0))
        return err_set(e, ERR_FAILED, "libssh2 cannot start");
    ready = true;
    s->env = env;
    s->events = events;
    s->fd = -1;
    s->state = SSH_CONNECTING;
    if (ssh_host_resolve(&s->arena, env, t, &s->host, e) < 0)
        return -1;
    if (s->host.jump) {
        s->tunnel = ssh_tunnel_open(s, e);
        if (!s->tunnel)
            return -1;
    } else if (resolver_start(env->loop, &s->resolver, s->host.host_name, s->host.port, on_resolved,
                              e) < 0) {
        return err_wrap(e, "%s", s->host.label);
    }
    timer_start(env->loop, &s->deadline,
                env->connect_timeout_ms > 0 ? env->connect_timeout_ms
                                            : TRANSPORT_CONNECT_TIMEOUT_MS_DEFAULT,
                on_deadline);
    return 0;
}
