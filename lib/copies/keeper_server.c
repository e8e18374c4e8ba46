// SPDX-License-Identifier: Apache-2.0
// Connections from other nodes: they send generations of their states, or ask for their own, or for
// content of inputs. A sender that comes while another one sends is sent away without a reason, and
// comes again.
#include "base/log.h"
#include "copies/keeper_impl.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct inbound {
    struct channel link;
    struct keeper_state *keeper;
    struct inbound *next;
    struct timer idle;
    struct state_sender sender;
    struct state_receiver receiver;
    struct content_sender content;
    char *folder; // of the state that is received; NULL: none
    struct deferred gone;
};

static void free_inbound(struct deferred *d) {
    struct inbound *in = container_of(d, struct inbound, gone);
    free(in->folder);
    free(in);
}

// Frees the memory later, since a callback of the link may be running.
static void end(struct inbound *in) {
    struct keeper_state *s = in->keeper;
    struct inbound **at = &s->inbound;
    if (in->gone.loop)
        return;
    while (*at != in)
        at = &(*at)->next;
    *at = in->next;
    s->inbound_count--;
    if (in->folder)
        s->receives = false;
    state_receiver_close(&in->receiver);
    state_sender_close(&in->sender);
    content_sender_close(&in->content);
    channel_close(&in->link);
    timer_stop(&in->idle);
    loop_defer(s->loop, &in->gone, free_inbound);
}

// A connection that waits for content to be hashed is not idle.
static void on_idle(struct timer *t) {
    struct inbound *in = container_of(t, struct inbound, idle);
    if (content_sender_looks(&in->content))
        timer_start(in->keeper->loop, &in->idle, KEEPER_IDLE_MS_MAX, on_idle);
    else
        end(in);
}

static void answer(struct inbound *in, int64_t number, bool whole, const char *reason) {
    struct wire_msg m = {
        .type = WIRE_STATE_END, .number = number, .final = whole, .reason = reason};
    channel_send(&in->link, &m);
}

static void on_received(struct state_receiver *t, const struct err *e) {
    struct inbound *in = t->ctx;
    in->keeper->receives = false;
    free(in->folder);
    in->folder = NULL;
    answer(in, t->number, e->code == ERR_NONE, e->code ? e->text : "");
}

static void on_offer(struct inbound *in, const struct wire_msg *m) {
    struct keeper_state *s = in->keeper;
    struct arena a = {0};
    struct err e;
    const char *folder = file_join(&a, s->copies, m->name);
    if (in->receiver.loop || !keeper_is_name(m->name)) {
        end(in);
    } else if (s->receives) {
        answer(in, m->number, false, ""); // busy
    } else if (generation_newest(folder) >= m->number) {
        answer(in, m->number, true, "");
    } else {
        in->folder = memcpy(heap_alloc(strlen(folder) + 1), folder, strlen(folder) + 1);
        in->receiver = (struct state_receiver){.loop = s->loop,
                                               .link = &in->link,
                                               .folder = in->folder,
                                               .paced = true,
                                               .on_end = on_received,
                                               .ctx = in};
        s->receives = true;
        if (state_receiver_open(&in->receiver, m, &e) < 0)
            on_received(&in->receiver, &e);
    }
    arena_fini(&a);
}

static void on_ask(struct inbound *in, const struct wire_msg *m) {
    struct arena a = {0};
    struct err e;
    const char *folder = file_join(&a, in->keeper->copies, m->name);
    int64_t number = keeper_is_name(m->name) ? generation_newest(folder) : 0;
    state_sender_close(&in->sender);
    content_sender_close(&in->content);
    if (number <= 0)
        answer(in, 0, false, "");
    else if (state_sender_open(&in->sender, folder, number, &e) == 0)
        state_sender_offer(&in->sender, &in->link, m->name);
    else
        answer(in, 0, false, e.text);
    arena_fini(&a);
}

static void on_content_ask(struct inbound *in, const struct wire_msg *m) {
    struct keeper_state *s = in->keeper;
    struct err e;
    state_sender_close(&in->sender);
    if (keeper_open_store(s, &e) == 0) {
        in->content.loop = s->loop;
        in->content.cas = &s->store;
        in->content.look = &s->look;
        in->content.known = s->known;
        in->content.known_count = s->known_count;
        if (content_sender_ask(&in->content, &in->link, m, &e) == 0)
            return;
    }
    answer(in, 0, false, e.text);
}

static void on_get(struct inbound *in, const struct wire_msg *m) {
    struct err e;
    int rc = in->content.asked_count ? content_sender_get(&in->content, &in->link, m, &e)
                                     : state_sender_get(&in->sender, &in->link, m, &e);
    if (rc < 0)
        answer(in, 0, false, e.text);
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    struct inbound *in = l->ctx;
    timer_start(in->keeper->loop, &in->idle, KEEPER_IDLE_MS_MAX, on_idle);
    if (m->type == WIRE_STATE_OFFER)
        on_offer(in, m);
    else if (m->type == WIRE_STATE_ASK)
        on_ask(in, m);
    else if (m->type == WIRE_STATE_DATA)
        state_receiver_data(&in->receiver, m);
    else if (m->type == WIRE_CONTENT_ASK)
        on_content_ask(in, m);
    else if (m->type == WIRE_STATE_GET)
        on_get(in, m);
    else
        end(in);
}

static void on_ready(struct channel *l) {
    (void)l;
}

static void on_end(struct channel *l, const struct err *e) {
    (void)e;
    end(l->ctx);
}

static const struct channel_events events = {on_ready, on_message, on_end};

// The oldest connection makes room, unless it is the one that sends.
static void make_room(struct keeper_state *s) {
    struct inbound *oldest = NULL;
    for (struct inbound *in = s->inbound; in; in = in->next) // the newest is the first
        if (!in->folder)
            oldest = in;
    if (oldest && s->inbound_count >= KEEPER_INBOUND_MAX)
        end(oldest);
}

void keeper_accept(struct keeper_state *s, int fd) {
    struct err e;
    make_room(s);
    struct inbound *in = heap_alloc(sizeof *in);
    in->keeper = s;
    in->link.ctx = in;
    if (channel_open(&in->link, s->loop, fd, CHANNEL_COORDINATOR, false, &s->spec->secret, &events,
                     &e) < 0) {
        close(fd);
        free(in);
        return;
    }
    in->next = s->inbound;
    s->inbound = in;
    s->inbound_count++;
    timer_start(s->loop, &in->idle, KEEPER_IDLE_MS_MAX, on_idle);
}
