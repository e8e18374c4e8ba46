// SPDX-License-Identifier: Apache-2.0
// The greeting as a table-free little state machine; see frame.h for the bytes.
#include "channel/channel.h"

#include "base/log.h"
#include "sys/net.h"

#include <string.h>

static const struct conn_events conn_table;

bool link_is_open(const struct link *l) {
    return l->stage != LINK_IDLE;
}

void link_close(struct link *l) {
    if (l->stage == LINK_IDLE)
        return;
    l->stage = LINK_IDLE;
    timer_stop(&l->greeting);
    conn_close(&l->conn);
    arena_fini(&l->arena);
    strbuf_fini(&l->scratch);
}

static void fail(struct link *l, const struct err *e) {
    struct err copy = *e; // e may live in what is closed now
    const struct link_events *events = l->events;
    link_close(l);
    events->on_end(l, &copy);
}

static void put(struct link *l, const struct wire_msg *m, struct wire_seals *seals) {
    strbuf_clear(&l->scratch);
    wire_put(&l->scratch, m, seals);
    conn_send(&l->conn, l->scratch.data, l->scratch.len);
}

void link_send(struct link *l, const struct wire_msg *m) {
    if (l->stage == LINK_READY)
        put(l, m, &l->seals);
}

static void put_again(struct link *l, const char *frame, size_t len) {
    strbuf_clear(&l->scratch);
    wire_put_again(&l->scratch, frame, len, &l->seals);
    conn_send(&l->conn, l->scratch.data, l->scratch.len);
}

void link_tell(struct link *l, struct session *s, const struct wire_msg *m) {
    struct strbuf frame = {0};
    wire_put(&frame, m, NULL);
    session_keep(s, frame.data, frame.len);
    if (l->stage == LINK_READY && !s->cut)
        put_again(l, frame.data, frame.len);
    strbuf_fini(&frame);
}

void link_tell_again(struct link *l, const struct session *s) {
    const char *frame;
    size_t at = 0, len;
    while (l->stage == LINK_READY && (frame = session_unacked(s, &at, &len)))
        put_again(l, frame, len);
}

void link_refuse(struct link *l, bool final, const char *reason) {
    if (l->stage == LINK_IDLE)
        return;
    struct wire_msg m = {.type = WIRE_REFUSE, .final = final, .reason = reason};
    put(l, &m, l->stage == LINK_READY ? &l->seals : NULL);
    conn_finish(&l->conn);
    link_close(l);
}

static bool is_keyed(const struct link *l) {
    return l->secret->key_len > 0;
}

static const char *proof_of(struct link *l, int side, char out[WIRE_PROOF_BYTES]) {
    if (!is_keyed(l))
        return "";
    wire_proof(out, l->secret->key, l->secret->key_len, side, l->secret->run, l->nonces[LINK_AGENT],
               l->nonces[LINK_COORDINATOR]);
    return out;
}

static bool proof_holds(struct link *l, int side, const char *given) {
    return !is_keyed(l) ||
           wire_proof_holds(given, l->secret->key, l->secret->key_len, side, l->secret->run,
                            l->nonces[LINK_AGENT], l->nonces[LINK_COORDINATOR]);
}

static void become_ready(struct link *l) {
    timer_stop(&l->greeting);
    l->stage = LINK_READY;
    if (is_keyed(l))
        wire_seals_start(&l->seals, l->secret->key, l->secret->key_len, (int)l->side,
                         l->secret->run, l->nonces[LINK_AGENT], l->nonces[LINK_COORDINATOR]);
    l->events->on_ready(l);
}

static int check_nonce(struct link *l, enum link_side side, const struct wire_msg *m,
                       struct err *e) {
    if (m->version != WIRE_VERSION)
        return err_set(e, ERR_FORMAT, "the other side speaks version %lld, this is %d",
                       (long long)m->version, WIRE_VERSION);
    if ((m->keyed != 0) != is_keyed(l))
        return err_set(e, ERR_AUTH, "the other side has %s key, this one has %s",
                       m->keyed ? "a" : "no", is_keyed(l) ? "one" : "none");
    if (strlen(m->nonce) != WIRE_NONCE_TEXT_BYTES - 1)
        return err_set(e, ERR_FORMAT, "a nonce of %zu characters", strlen(m->nonce));
    memcpy(l->nonces[side], m->nonce, WIRE_NONCE_TEXT_BYTES);
    return 0;
}

static int on_hello(struct link *l, const struct wire_msg *m, struct err *e) {
    char proof[WIRE_PROOF_BYTES];
    if (check_nonce(l, LINK_AGENT, m, e) < 0)
        return -1;
    if (strcmp(m->run, l->secret->run) != 0 && is_keyed(l)) // a stranger learns no name
        return err_set(e, ERR_AUTH, "this is another run than '%.100s'", m->run);
    if (strcmp(m->run, l->secret->run) != 0)
        return err_set(e, ERR_AUTH, "this is run '%s', not '%.100s'", l->secret->run, m->run);
    wire_nonce(l->nonces[LINK_COORDINATOR]);
    struct wire_msg r = {.type = WIRE_CHALLENGE,
                         .version = WIRE_VERSION,
                         .keyed = is_keyed(l),
                         .nonce = l->nonces[LINK_COORDINATOR],
                         .proof = proof_of(l, LINK_COORDINATOR, proof)};
    put(l, &r, NULL);
    l->stage = LINK_WAIT_PROOF;
    return 0;
}

static int on_challenge(struct link *l, const struct wire_msg *m, struct err *e) {
    char proof[WIRE_PROOF_BYTES];
    if (check_nonce(l, LINK_COORDINATOR, m, e) < 0)
        return -1;
    if (!proof_holds(l, LINK_COORDINATOR, m->proof))
        return err_set(e, ERR_AUTH, "the coordinator does not know the run's key");
    struct wire_msg r = {.type = WIRE_PROOF, .proof = proof_of(l, LINK_AGENT, proof)};
    put(l, &r, NULL);
    become_ready(l);
    return 0;
}

static int on_proof(struct link *l, const struct wire_msg *m, struct err *e) {
    if (!proof_holds(l, LINK_AGENT, m->proof))
        return err_set(e, ERR_AUTH, "the agent does not know the run's key");
    become_ready(l);
    return 0;
}

// 0: go on; 1: the link is closed now, by the owner or below; -1: broken.
static int on_frame(struct link *l, const struct wire_msg *m, struct err *e) {
    int rc = 0;
    if (m->type == WIRE_REFUSE && (l->side == LINK_AGENT || l->stage == LINK_READY)) {
        l->refused_final = m->final != 0;
        return err_set(e, ERR_FAILED, "%.1000s", m->reason);
    }
    if (l->stage == LINK_READY)
        l->events->on_message(l, m);
    else if (l->stage == LINK_WAIT_HELLO && m->type == WIRE_HELLO)
        rc = on_hello(l, m, e);
    else if (l->stage == LINK_WAIT_CHALLENGE && m->type == WIRE_CHALLENGE)
        rc = on_challenge(l, m, e);
    else if (l->stage == LINK_WAIT_PROOF && m->type == WIRE_PROOF)
        rc = on_proof(l, m, e);
    else
        rc = err_set(e, ERR_FORMAT, "unexpected %s frame", wire_name(m->type));
    if (rc < 0 && l->side == LINK_COORDINATOR && l->stage != LINK_IDLE) {
        struct wire_msg r = {.type = WIRE_REFUSE, .final = 1, .reason = e->text};
        put(l, &r, NULL);
    }
    return rc < 0 ? -1 : l->stage == LINK_IDLE;
}

// True while the magic number is right or not complete.
static bool take_magic(struct link *l) {
    struct strbuf *in = &l->conn.in;
    size_t n = in->len < strlen(WIRE_MAGIC) ? in->len : strlen(WIRE_MAGIC);
    if (memcmp(in->data, WIRE_MAGIC, n) != 0)
        return false;
    if (n == strlen(WIRE_MAGIC)) {
        l->magic_seen = true;
        strbuf_consume(in, n);
    }
    return true;
}

// A refusal that crossed this agent's proof has no seal, and comes before any frame that has one.
// Anyone can write it, so it is good for its text and never final.
static bool is_refused_early(struct link *l, struct err *e) {
    struct wire_msg m;
    size_t used;
    if (l->side != LINK_AGENT || l->stage != LINK_READY || !l->seals.on || l->seals.received > 0 ||
        wire_take(&l->arena, l->conn.in.data, l->conn.in.len, WIRE_GREETING_BYTES_MAX, &m, &used,
                  NULL, e) <= 0 ||
        m.type != WIRE_REFUSE)
        return false;
    err_set(e, ERR_FAILED, "%.1000s", m.reason);
    return true;
}

static void on_data(struct conn *c) {
    struct link *l = container_of(c, struct link, conn);
    struct err e;
    if (!l->magic_seen && !take_magic(l)) {
        err_set(&e, ERR_FORMAT, "not an agent");
        fail(l, &e);
        return;
    }
    while (l->magic_seen) {
        struct wire_msg m;
        size_t used;
        if (is_refused_early(l, &e)) {
            fail(l, &e);
            return;
        }
        size_t most = l->stage == LINK_READY ? WIRE_FRAME_BYTES_MAX : WIRE_GREETING_BYTES_MAX;
        int rc = wire_take(&l->arena, c->in.data, c->in.len, most, &m, &used,
                           l->stage == LINK_READY ? &l->seals : NULL, &e);
        if (rc == 0)
            return;
        if (rc > 0) {
            strbuf_consume(&c->in, used);
            rc = on_frame(l, &m, &e);
            if (rc == 1)
                return;
        }
        if (rc < 0) {
            fail(l, &e);
            return;
        }
        arena_reset(&l->arena);
    }
}

static void say_hello(struct link *l) {
    wire_nonce(l->nonces[LINK_AGENT]);
    struct wire_msg m = {.type = WIRE_HELLO,
                         .version = WIRE_VERSION,
                         .keyed = is_keyed(l),
                         .run = l->secret->run,
                         .nonce = l->nonces[LINK_AGENT]};
    conn_send(&l->conn, WIRE_MAGIC, strlen(WIRE_MAGIC));
    put(l, &m, NULL);
}

static void on_open(struct conn *c) {
    say_hello(container_of(c, struct link, conn));
}

static void on_conn_end(struct conn *c, const struct err *e) {
    fail(container_of(c, struct link, conn), e);
}

static const struct conn_events conn_table = {
    .on_open = on_open, .on_data = on_data, .on_end = on_conn_end};

static void on_greeting_late(struct timer *t) {
    struct link *l = container_of(t, struct link, greeting);
    struct err e;
    err_set(&e, ERR_TIMEOUT, "no greeting within %d ms", LINK_GREETING_MS_MAX);
    fail(l, &e);
}

int link_open(struct link *l, struct loop *loop, int fd, enum link_side side, bool connecting,
              const struct link_secret *secret, const struct link_events *events, struct err *e) {
    *l = (struct link){.side = side, .secret = secret, .events = events, .ctx = l->ctx};
    net_retry_evenly(fd);
    l->magic_seen = side == LINK_AGENT; // only the agent sends it
    l->stage = side == LINK_AGENT ? LINK_WAIT_CHALLENGE : LINK_WAIT_HELLO;
    int rc = connecting
                 ? conn_open_connecting(&l->conn, loop, fd, &conn_table, WIRE_FRAME_BYTES_MAX + 64,
                                        LINK_OUT_BYTES_MAX, LINK_CONNECT_MS_MAX, e)
                 : conn_open(&l->conn, loop, fd, &conn_table, WIRE_FRAME_BYTES_MAX + 64,
                             LINK_OUT_BYTES_MAX, e);
    if (rc < 0) {
        l->stage = LINK_IDLE;
        return -1;
    }
    timer_start(loop, &l->greeting, LINK_GREETING_MS_MAX + (connecting ? LINK_CONNECT_MS_MAX : 0),
                on_greeting_late);
    if (side == LINK_AGENT && !connecting)
        say_hello(l);
    return 0;
}
