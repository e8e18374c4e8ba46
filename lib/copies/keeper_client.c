// SPDX-License-Identifier: Apache-2.0
// The one connection that this node opens at a time: to send its newest generation to a holder, to
// ask the nodes of the ring for its state, or to receive it.
#include "base/log.h"
#include "copies/keeper_impl.h"
#include "sys/net.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static void step(struct keeper_state *s);
static void find_next(struct keeper_state *s);

void keeper_stop(struct keeper_state *s) {
    s->task = TASK_NONE;
    timer_stop(&s->soon);
    timer_stop(&s->limit);
    state_receiver_close(&s->receiver);
    state_sender_close(&s->sender);
    channel_close(&s->link);
}

static struct holder *peer(struct keeper_state *s) {
    return &s->ring[s->at];
}

// ---- results of a connection --------------------------------------------------------------------

static void note(struct keeper_state *s, enum keeper_note kind, int64_t number, uint64_t bytes,
                 const char *reason) {
    struct wire_msg m = {.type = WIRE_STATE_NOTE,
                         .kind = kind,
                         .name = peer(s)->name,
                         .number = number,
                         .bytes = (int64_t)bytes,
                         .reason = reason};
    keeper_send_note(s, &m);
}

static void on_sent(struct keeper_state *s, int64_t number, uint64_t bytes) {
    struct holder *h = peer(s);
    keeper_stop(s);
    h->has = number;
    h->failed = false;
    if (bytes)
        note(s, KEEPER_COPIED, number, bytes, "");
    keeper_send(s);
}

static void on_busy_over(struct timer *t) {
    keeper_send(container_of(t, struct keeper_state, busy));
}

// The next interval tries again; a busy holder (no reason) is asked again soon.
static void on_not_sent(struct keeper_state *s, const char *why) {
    struct holder *h = peer(s);
    if (!h->failed && why[0])
        log_warn("a node has no copy of this node's newest state", "holder=%s reason=\"%s\"",
                 h->name, why);
    h->failed |= why[0] != '\0';
    if (!why[0])
        timer_start(s->loop, &s->busy, KEEPER_BUSY_MS, on_busy_over);
    keeper_stop(s);
    for (s->at++; s->at < s->states; s->at++)
        if (s->at < s->spec->replicas && peer(s)->has < s->best_number) {
            s->task = TASK_SEND;
            step(s);
            return;
        }
}

static void search_is_over(struct keeper_state *s, const char *why) {
    keeper_stop(s);
    if (why[0])
        log_error("this node begins without its state, of which another node has a copy",
                  "reason=\"%s\"", why);
    keeper_ready(s, why);
}

static void on_restored(struct state_receiver *t, const struct err *e) {
    struct keeper_state *s = t->ctx;
    struct err why = *e;
    int64_t number = t->number;
    uint64_t bytes = t->fetched;
    if (!why.code && keeper_restore(s->spec, s->own, &why) == 0) {
        note(s, KEEPER_RESTORED, number, bytes, s->wanted);
        search_is_over(s, "");
        return;
    }
    peer(s)->failed = true;
    keeper_stop(s);
    if (++s->tries < KEEPER_TRIES_MAX) {
        log_warn("a copy of this node's state cannot be had", "reason=\"%s\"", why.text);
        s->at = -1;
        s->best_number = 0;
        find_next(s);
    } else {
        search_is_over(s, why.text);
    }
}

static void lost(struct keeper_state *s, const char *why) {
    struct err e = {0};
    if (s->task == TASK_SEND) {
        on_not_sent(s, why);
    } else if (s->task == TASK_FIND) {
        find_next(s);
    } else if (s->task == TASK_RESTORE) {
        err_set(&e, ERR_NET, "%s", why);
        s->receiver.ctx = s;
        on_restored(&s->receiver, &e);
    }
}

// ---- the connection -----------------------------------------------------------------------------

static void on_limit(struct timer *t) {
    lost(container_of(t, struct keeper_state, limit), "it does not answer");
}

static void on_ready(struct channel *l) {
    struct keeper_state *s = l->ctx;
    struct wire_msg m = {.type = WIRE_STATE_ASK, .name = s->wanted};
    if (s->task == TASK_SEND)
        state_sender_offer(&s->sender, l, s->spec->node);
    else
        channel_send(l, &m);
}

static void on_offer(struct keeper_state *s, const struct wire_msg *m) {
    struct err e;
    if (s->task == TASK_FIND) {
        if (m->number > s->best_number) {
            s->best = s->at;
            s->best_number = m->number;
        }
        find_next(s);
    } else if (s->task == TASK_RESTORE && !s->receiver.loop) {
        s->receiver = (struct state_receiver){
            .loop = s->loop, .link = &s->link, .folder = s->own, .on_end = on_restored, .ctx = s};
        if (state_receiver_open(&s->receiver, m, &e) < 0)
            on_restored(&s->receiver, &e);
    }
}

static void on_end_message(struct keeper_state *s, const struct wire_msg *m) {
    if (s->task != TASK_SEND)
        lost(s, m->reason[0] ? m->reason : "it has no copy");
    else if (m->final)
        on_sent(s, s->sender.number, s->sender.sent);
    else
        on_not_sent(s, m->reason);
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    struct keeper_state *s = l->ctx;
    struct err e;
    timer_start(s->loop, &s->limit, KEEPER_IDLE_MS_MAX, on_limit);
    if (m->type == WIRE_STATE_OFFER)
        on_offer(s, m);
    else if (m->type == WIRE_STATE_END)
        on_end_message(s, m);
    else if (m->type == WIRE_STATE_DATA && s->task == TASK_RESTORE)
        state_receiver_data(&s->receiver, m);
    else if (m->type != WIRE_STATE_GET || s->task != TASK_SEND)
        lost(s, "it breaks the protocol");
    else if (state_sender_get(&s->sender, l, m, &e) < 0)
        lost(s, e.text);
}

static void on_end(struct channel *l, const struct err *e) {
    lost(l->ctx, e->code ? e->text : "its connection closed");
}

static const struct channel_events events = {on_ready, on_message, on_end};

int keeper_connect(const struct keeper_state *s, const struct holder *h, struct channel *link,
                   struct loop *loop, const struct channel_events *on, struct err *e) {
    struct net_address address;
    if (!net_is_numeric(h->address) || h->port < 1 || h->port > 65535)
        return err_set(e, ERR_FORMAT, "'%.60s' is not an address", h->address);
    if (net_resolve(h->address, h->port, &address, e) < 0)
        return -1;
    int fd = net_connect_start(&address, e);
    if (fd < 0)
        return -1;
    int rc = channel_open(link, loop, fd, CHANNEL_AGENT, true, &s->spec->secret, on, e);
    if (rc < 0)
        close(fd);
    return rc;
}

static void on_step(struct timer *t) {
    struct keeper_state *s = container_of(t, struct keeper_state, soon);
    struct err e = {0};
    int rc = 0;
    if (s->task == TASK_SEND)
        rc = state_sender_open(&s->sender, s->own, s->best_number, &e);
    s->link.ctx = s;
    if (rc == 0)
        rc = keeper_connect(s, peer(s), &s->link, s->loop, &events, &e);
    if (rc < 0)
        lost(s, e.text);
    else
        timer_start(s->loop, &s->limit, KEEPER_IDLE_MS_MAX, on_limit);
}

// One connection for the task and ring[at], outside the callbacks of the one before.
static void step(struct keeper_state *s) {
    timer_start(s->loop, &s->soon, 0, on_step);
}

// ---- tasks --------------------------------------------------------------------------------------

void keeper_send(struct keeper_state *s) {
    if (s->task != TASK_NONE)
        return;
    s->best_number = generation_newest(s->own);
    for (s->at = 0; s->at < s->states && s->at < s->spec->replicas; s->at++)
        if (peer(s)->has < s->best_number) {
            s->task = TASK_SEND;
            step(s);
            return;
        }
}

// The next node that is asked; after the last one the newest copy is fetched, or that of the node
// whose state this one takes over is searched.
static void find_next(struct keeper_state *s) {
    int at = s->at;
    keeper_stop(s);
    s->task = TASK_FIND;
    for (at++; at < s->states && s->ring[at].failed;)
        at++;
    s->at = at;
    if (at < s->states) {
        step(s);
    } else if (s->best_number) {
        s->task = TASK_RESTORE;
        s->at = s->best;
        step(s);
    } else if (s->heir_of[0] && strcmp(s->wanted, s->spec->node) == 0) {
        s->wanted = s->heir_of;
        s->at = -1;
        find_next(s);
    } else {
        search_is_over(s, "");
    }
}

static void on_search(struct timer *t) {
    keeper_search(container_of(t, struct keeper_state, soon));
}

// The folder of generations has one writer.
void keeper_search(struct keeper_state *s) {
    if (s->publishing) {
        kill(s->publisher.pid, SIGKILL);
        timer_start(s->loop, &s->soon, KEEPER_KILL_MS, on_search);
        return;
    }
    s->wanted = s->spec->node;
    s->tries = 0;
    s->best_number = 0;
    s->at = -1;
    find_next(s);
}
