// SPDX-License-Identifier: Apache-2.0
// Connections of other nodes: they give generations of their states, or ask for their own, or for
// content of inputs. A giver that comes while another one gives is sent away without a reason, and
// comes again.
#include "base/log.h"
#include "copies/keeper_impl.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct visitor {
    struct channel link;
    struct keeper_state *keeper;
    struct visitor *next;
    struct timer idle;
    struct giver giver;
    struct taker taker;
    struct content_giver content;
    char *folder; // of the state that the taker takes; NULL: it takes none
    struct deferred gone;
};

static void free_visitor(struct deferred *d) {
    struct visitor *v = container_of(d, struct visitor, gone);
    free(v->folder);
    free(v);
}

// Frees the memory later, since a callback of the link may be running.
static void end(struct visitor *v) {
    struct keeper_state *s = v->keeper;
    struct visitor **at = &s->visitors;
    if (v->gone.loop)
        return;
    while (*at != v)
        at = &(*at)->next;
    *at = v->next;
    s->visitor_count--;
    if (v->folder)
        s->takes = false;
    taker_close(&v->taker);
    giver_close(&v->giver);
    content_giver_close(&v->content);
    channel_close(&v->link);
    timer_stop(&v->idle);
    loop_defer(s->loop, &v->gone, free_visitor);
}

static void on_idle(struct timer *t) {
    end(container_of(t, struct visitor, idle));
}

static void answer(struct visitor *v, int64_t number, bool whole, const char *reason) {
    struct wire_msg m = {
        .type = WIRE_STATE_END, .number = number, .final = whole, .reason = reason};
    channel_send(&v->link, &m);
}

static void on_taken(struct taker *t, const struct err *e) {
    struct visitor *v = t->ctx;
    v->keeper->takes = false;
    free(v->folder);
    v->folder = NULL;
    answer(v, t->number, e->code == ERR_NONE, e->code ? e->text : "");
}

static void on_offer(struct visitor *v, const struct wire_msg *m) {
    struct keeper_state *s = v->keeper;
    struct arena a = {0};
    struct err e;
    const char *folder = file_join(&a, s->copies, m->name);
    if (v->taker.loop || !keeper_is_name(m->name)) {
        end(v);
    } else if (s->takes) {
        answer(v, m->number, false, ""); // busy
    } else if (generation_newest(folder) >= m->number) {
        answer(v, m->number, true, "");
    } else {
        v->folder = memcpy(heap_alloc(strlen(folder) + 1), folder, strlen(folder) + 1);
        v->taker = (struct taker){.loop = s->loop,
                                  .link = &v->link,
                                  .folder = v->folder,
                                  .paced = true,
                                  .on_end = on_taken,
                                  .ctx = v};
        s->takes = true;
        if (taker_open(&v->taker, m, &e) < 0)
            on_taken(&v->taker, &e);
    }
    arena_fini(&a);
}

static void on_ask(struct visitor *v, const struct wire_msg *m) {
    struct arena a = {0};
    struct err e;
    const char *folder = file_join(&a, v->keeper->copies, m->name);
    int64_t number = keeper_is_name(m->name) ? generation_newest(folder) : 0;
    giver_close(&v->giver);
    content_giver_close(&v->content);
    if (number <= 0)
        answer(v, 0, false, "");
    else if (giver_open(&v->giver, folder, number, &e) == 0)
        giver_offer(&v->giver, &v->link, m->name);
    else
        answer(v, 0, false, e.text);
    arena_fini(&a);
}

static void on_content_ask(struct visitor *v, const struct wire_msg *m) {
    struct keeper_state *s = v->keeper;
    struct err e;
    giver_close(&v->giver);
    if (keeper_open_store(s, &e) == 0) {
        v->content.cas = &s->store;
        v->content.known = s->known;
        v->content.known_count = s->known_count;
        if (content_giver_ask(&v->content, &v->link, m, &e) == 0)
            return;
    }
    answer(v, 0, false, e.text);
}

static void on_get(struct visitor *v, const struct wire_msg *m) {
    struct err e;
    int rc = v->content.asked_count ? content_giver_get(&v->content, &v->link, m, &e)
                                    : giver_get(&v->giver, &v->link, m, &e);
    if (rc < 0)
        answer(v, 0, false, e.text);
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    struct visitor *v = l->ctx;
    timer_start(v->keeper->loop, &v->idle, KEEPER_IDLE_MS_MAX, on_idle);
    if (m->type == WIRE_STATE_OFFER)
        on_offer(v, m);
    else if (m->type == WIRE_STATE_ASK)
        on_ask(v, m);
    else if (m->type == WIRE_STATE_DATA)
        taker_data(&v->taker, m);
    else if (m->type == WIRE_CONTENT_ASK)
        on_content_ask(v, m);
    else if (m->type == WIRE_STATE_GET)
        on_get(v, m);
    else
        end(v);
}

static void on_ready(struct channel *l) {
    (void)l;
}

static void on_end(struct channel *l, const struct err *e) {
    (void)e;
    end(l->ctx);
}

static const struct channel_events events = {on_ready, on_message, on_end};

// The oldest connection makes room, unless it is the one that gives.
static void make_room(struct keeper_state *s) {
    struct visitor *oldest = NULL;
    for (struct visitor *v = s->visitors; v; v = v->next) // the newest is the first
        if (!v->folder)
            oldest = v;
    if (oldest && s->visitor_count >= KEEPER_VISITORS_MAX)
        end(oldest);
}

void keeper_visit(struct keeper_state *s, int fd) {
    struct err e;
    make_room(s);
    struct visitor *v = heap_alloc(sizeof *v);
    v->keeper = s;
    v->link.ctx = v;
    if (channel_open(&v->link, s->loop, fd, CHANNEL_COORDINATOR, false, &s->spec->secret, &events,
                     &e) < 0) {
        close(fd);
        free(v);
        return;
    }
    v->next = s->visitors;
    s->visitors = v;
    s->visitor_count++;
    timer_start(s->loop, &v->idle, KEEPER_IDLE_MS_MAX, on_idle);
}
