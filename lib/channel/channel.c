// SPDX-License-Identifier: Apache-2.0
// The greeting as a small state machine; see frame.h for the bytes.
#include "channel/channel.h"

#include "base/log.h"
#include "sys/net.h"

#include <string.h>

static const struct conn_events conn_table;

bool channel_is_open(const struct channel *l) {
    return l->stage != CHANNEL_IDLE;
}

void channel_close(struct channel *l) {
    if (l->stage == CHANNEL_IDLE)
        return;
    l->stage = CHANNEL_IDLE;
    timer_stop(&l->greeting);
    conn_close(&l->conn);
    arena_fini(&l->arena);
    strbuf_fini(&l->scratch);
}

static void fail(struct channel *l, const struct err *e) {
    struct err copy = *e; // e may be part of the memory that is closed now
    const struct channel_events *events = l->events;
    channel_close(l);
    events->on_end(l, &copy);
}

static void put(struct channel *l, const struct wire_msg *m, struct wire_seals *seals) {
    strbuf_clear(&l->scratch);
    frame_put(&l->scratch, m, seals);
    conn_send(&l->conn, l->scratch.data, l->scratch.len);
}

void channel_send(struct channel *l, const struct wire_msg *m) {
    if (l->stage == CHANNEL_READY)
        put(l, m, &l->seals);
}

static void put_again(struct channel *l, const char *frame, size_t len) {
    strbuf_clear(&l->scratch);
    frame_put_again(&l->scratch, frame, len, &l->seals);
    conn_send(&l->conn, l->scratch.data, l->scratch.len);
}

void channel_send_kept(struct channel *l, struct replay *s, const struct wire_msg *m) {
    struct strbuf frame = {0};
    frame_put(&frame, m, NULL);
    replay_keep(s, frame.data, frame.len);
    if (l->stage == CHANNEL_READY && !s->cut)
        put_again(l, frame.data, frame.len);
    strbuf_fini(&frame);
}

void channel_send_again(struct channel *l, const struct replay *s) {
    const char *frame;
    size_t at = 0, len;
    while (l->stage == CHANNEL_READY && (frame = replay_unacked(s, &at, &len)))
        put_again(l, frame, len);
}

void channel_refuse(struct channel *l, bool final, const char *reason) {
    if (l->stage == CHANNEL_IDLE)
        return;
    struct wire_msg m = {.type = WIRE_REFUSE, .final = final, .reason = reason};
    put(l, &m, l->stage == CHANNEL_READY ? &l->seals : NULL);
    conn_finish(&l->conn);
    channel_close(l);
}

static bool is_keyed(const struct channel *l) {
    return l->secret->key_len > 0;
}

static const char *proof_of(struct channel *l, int side, char out[WIRE_PROOF_BYTES]) {
    if (!is_keyed(l))
        return "";
    proof_make(out, l->secret->key, l->secret->key_len, side, l->secret->run,
               l->nonces[CHANNEL_AGENT], l->nonces[CHANNEL_COORDINATOR]);
    return out;
}

static bool proof_holds(struct channel *l, int side, const char *given) {
    return !is_keyed(l) ||
           proof_matches(given, l->secret->key, l->secret->key_len, side, l->secret->run,
                         l->nonces[CHANNEL_AGENT], l->nonces[CHANNEL_COORDINATOR]);
}

static void become_ready(struct channel *l) {
    timer_stop(&l->greeting);
    l->stage = CHANNEL_READY;
    if (is_keyed(l))
        proof_seals_start(&l->seals, l->secret->key, l->secret->key_len, (int)l->side,
                          l->secret->run, l->nonces[CHANNEL_AGENT], l->nonces[CHANNEL_COORDINATOR]);
    l->events->on_ready(l);
}

static int check_nonce(struct channel *l, enum channel_side side, const struct wire_msg *m,
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

static int on_hello(struct channel *l, const struct wire_msg *m, struct err *e) {
    char proof[WIRE_PROOF_BYTES];
    if (check_nonce(l, CHANNEL_AGENT, m, e) < 0)
        return -1;
    if (strcmp(m->run, l->secret->run) != 0 &&
        is_keyed(l)) // do not reveal the name without a proof
        return err_set(e, ERR_AUTH, "this is another run than '%.100s'", m->run);
    if (strcmp(m->run, l->secret->run) != 0)
        return err_set(e, ERR_AUTH, "this is run '%s', not '%.100s'", l->secret->run, m->run);
    proof_nonce(l->nonces[CHANNEL_COORDINATOR]);
    struct wire_msg r = {.type = WIRE_CHALLENGE,
                         .version = WIRE_VERSION,
                         .keyed = is_keyed(l),
                         .nonce = l->nonces[CHANNEL_COORDINATOR],
                         .proof = proof_of(l, CHANNEL_COORDINATOR, proof)};
    put(l, &r, NULL);
    l->stage = CHANNEL_WAIT_PROOF;
    return 0;
}

static int on_challenge(struct channel *l, const struct wire_msg *m, struct err *e) {
    char proof[WIRE_PROOF_BYTES];
    if (check_nonce(l, CHANNEL_COORDINATOR, m, e) < 0)
        return -1;
    if (!proof_holds(l, CHANNEL_COORDINATOR, m->proof))
        return err_set(e, ERR_AUTH, "the coordinator does not know the run's key");
    struct wire_msg r = {.type = WIRE_PROOF, .proof = proof_of(l, CHANNEL_AGENT, proof)};
    put(l, &r, NULL);
    become_ready(l);
    return 0;
}

static int on_proof(struct channel *l, const struct wire_msg *m, struct err *e) {
    if (!proof_holds(l, CHANNEL_AGENT, m->proof))
        return err_set(e, ERR_AUTH, "the agent does not know the run's key");
    become_ready(l);
    return 0;
}

// 0: continue; 1: the link was closed, by its owner or here; -1: broken.
static int on_frame(struct channel *l, const struct wire_msg *m, struct err *e) {
    int rc = 0;
    if (m->type == WIRE_REFUSE && (l->side == CHANNEL_AGENT || l->stage == CHANNEL_READY)) {
        l->refused_final = m->final != 0;
        return err_set(e, ERR_FAILED, "%.1000s", m->reason);
    }
    if (l->stage == CHANNEL_READY)
        l->events->on_message(l, m);
    else if (l->stage == CHANNEL_WAIT_HELLO && m->type == WIRE_HELLO)
        rc = on_hello(l, m, e);
    else if (l->stage == CHANNEL_WAIT_CHALLENGE && m->type == WIRE_CHALLENGE)
        rc = on_challenge(l, m, e);
    else if (l->stage == CHANNEL_WAIT_PROOF && m->type == WIRE_PROOF)
        rc = on_proof(l, m, e);
    else
        rc = err_set(e, ERR_FORMAT, "unexpected %s frame", frame_name(m->type));
    if (rc < 0 && l->side == CHANNEL_COORDINATOR && l->stage != CHANNEL_IDLE) {
        struct wire_msg r = {.type = WIRE_REFUSE, .final = 1, .reason = e->text};
        put(l, &r, NULL);
    }
    return rc < 0 ? -1 : l->stage == CHANNEL_IDLE;
}

static const char *magic_of(const struct channel *l) {
    return l->secret->magic ? l->secret->magic : WIRE_MAGIC;
}

// True while the received part of the magic number is right.
static bool take_magic(struct channel *l) {
    struct strbuf *in = &l->conn.in;
    size_t n = in->len < strlen(WIRE_MAGIC) ? in->len : strlen(WIRE_MAGIC);
    if (memcmp(in->data, magic_of(l), n) != 0)
        return false;
    if (n == strlen(WIRE_MAGIC)) {
        l->magic_seen = true;
        strbuf_consume(in, n);
    }
    return true;
}

// A refusal sent before this agent's proof arrived has no seal and precedes all sealed frames. Its
// sender is not authenticated, so only its text is used and it is never final.
static bool is_refused_early(struct channel *l, struct err *e) {
    struct wire_msg m;
    size_t used;
    if (l->side != CHANNEL_AGENT || l->stage != CHANNEL_READY || !l->seals.on ||
        l->seals.received > 0 ||
        frame_take(&l->arena, l->conn.in.data, l->conn.in.len, WIRE_GREETING_BYTES_MAX, &m, &used,
                   NULL, e) <= 0 ||
        m.type != WIRE_REFUSE)
        return false;
    err_set(e, ERR_FAILED, "%.1000s", m.reason);
    return true;
}

static void on_data(struct conn *c) {
    struct channel *l = container_of(c, struct channel, conn);
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
        size_t most = l->stage == CHANNEL_READY ? WIRE_FRAME_BYTES_MAX : WIRE_GREETING_BYTES_MAX;
        int rc = frame_take(&l->arena, c->in.data, c->in.len, most, &m, &used,
                            l->stage == CHANNEL_READY ? &l->seals : NULL, &e);
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

static void say_hello(struct channel *l) {
    proof_nonce(l->nonces[CHANNEL_AGENT]);
    struct wire_msg m = {.type = WIRE_HELLO,
                         .version = WIRE_VERSION,
                         .keyed = is_keyed(l),
                         .run = l->secret->run,
                         .nonce = l->nonces[CHANNEL_AGENT]};
    conn_send(&l->conn, magic_of(l), strlen(WIRE_MAGIC));
    put(l, &m, NULL);
}

static void on_open(struct conn *c) {
    say_hello(container_of(c, struct channel, conn));
}

static void on_conn_end(struct conn *c, const struct err *e) {
    fail(container_of(c, struct channel, conn), e);
}

static const struct conn_events conn_table = {
    .on_open = on_open, .on_data = on_data, .on_end = on_conn_end};

static void on_greeting_late(struct timer *t) {
    struct channel *l = container_of(t, struct channel, greeting);
    struct err e;
    err_set(&e, ERR_TIMEOUT, "no greeting within %d ms", LINK_GREETING_MS_MAX);
    fail(l, &e);
}

int channel_open(struct channel *l, struct loop *loop, int fd, enum channel_side side,
                 bool connecting, const struct channel_secret *secret,
                 const struct channel_events *events, struct err *e) {
    *l = (struct channel){.side = side, .secret = secret, .events = events, .ctx = l->ctx};
    net_retry_evenly(fd);
    l->magic_seen = side == CHANNEL_AGENT; // only the agent sends it
    l->stage = side == CHANNEL_AGENT ? CHANNEL_WAIT_CHALLENGE : CHANNEL_WAIT_HELLO;
    int rc = connecting
                 ? conn_open_connecting(&l->conn, loop, fd, &conn_table, WIRE_FRAME_BYTES_MAX + 64,
                                        LINK_OUT_BYTES_MAX, LINK_CONNECT_MS_MAX, e)
                 : conn_open(&l->conn, loop, fd, &conn_table, WIRE_FRAME_BYTES_MAX + 64,
                             LINK_OUT_BYTES_MAX, e);
    if (rc < 0) {
        l->stage = CHANNEL_IDLE;
        return -1;
    }
    timer_start(loop, &l->greeting, LINK_GREETING_MS_MAX + (connecting ? LINK_CONNECT_MS_MAX : 0),
                on_greeting_late);
    if (side == CHANNEL_AGENT && !connecting)
        say_hello(l);
    return 0;
}
