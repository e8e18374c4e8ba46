// SPDX-License-Identifier: Apache-2.0
// The part that all transports share: links, runs, input buffers, parking.
#include "remote/transport_impl.h"

#include "base/str.h"
#include "remote/transport.h"

#include <stdlib.h>
#include <string.h>

// ---- links ------------------------------------------------------------------------------------

static const char *copy(struct arena *a, const char *s) {
    return s ? arena_strdup(a, s) : NULL;
}

struct transport_link *transport_open(const struct transport *t, const struct transport_env *env,
                                      const struct transport_target *target,
                                      const struct transport_link_events *events, void *ctx,
                                      struct err *e) {
    struct transport_link *l = t->open(env, target, e);
    if (!l) {
        (void)err_wrap(e, "node %s", target->node);
        return NULL;
    }
    l->kind = t;
    l->env = env;
    l->events = events;
    l->ctx = ctx;
    l->target = (struct transport_target){
        .node = copy(&l->arena, target->node),
        .host = copy(&l->arena, target->host),
        .user = copy(&l->arena, target->user),
        .port = target->port,
        .host_key = copy(&l->arena, target->host_key),
        .proxy_jump = copy(&l->arena, target->proxy_jump),
        .folder = copy(&l->arena, target->folder),
    };
    return l;
}

struct transport_link *transport_open_again(const struct transport_link *l,
                                            const struct transport_link_events *events, void *ctx,
                                            struct err *e) {
    return transport_open(l->kind, l->env, &l->target, events, ctx, e);
}

void transport_close(struct transport_link *l) {
    if (!l || l->closed)
        return;
    for (struct transport_run *r = l->runs; r; r = r->next)
        r->closed = true;
    l->run_count = 0;
    l->closed = true;
    l->state = TRANSPORT_DOWN;
    l->kind->close(l);
}

void transport_link_release(struct transport_link *l) {
    must(!l->runs);
    arena_fini(&l->arena);
    free(l);
}

const char *transport_node(const struct transport_link *l) {
    return l->target.node;
}

bool transport_is_local(const struct transport_link *l) {
    return l->kind == &transport_local;
}

int64_t transport_round_trip_us(const struct transport_link *l) {
    return l->round_trip_us;
}

int64_t transport_distance_us(const struct transport_link *l) {
    return l->state == TRANSPORT_UP && l->kind->distance_us ? l->kind->distance_us(l) : 0;
}

void transport_round_trip_seen(struct transport_link *l, int64_t us) {
    if (!transport_is_local(l) && (l->round_trip_us == 0 || us < l->round_trip_us))
        l->round_trip_us = us > 0 ? us : 1;
}

struct loop *transport_loop(const struct transport_link *l) {
    return l->env->loop;
}

void transport_notify_open(struct transport_link *l) {
    if (l->closed)
        return;
    l->state = TRANSPORT_UP;
    l->events->on_open(l, l->ctx);
}

void transport_notify_down(struct transport_link *l, const struct err *e) {
    if (l->closed || l->state == TRANSPORT_DOWN)
        return;
    l->state = TRANSPORT_DOWN;
    // A callback may close runs or the link, never free them: the list stays valid.
    for (struct transport_run *r = l->runs; r; r = r->next)
        transport_notify_lost(r, e);
    if (!l->closed)
        l->events->on_down(l, l->ctx, e);
}

// ---- runs -------------------------------------------------------------------------------------

struct transport_run *transport_run(struct transport_link *l, const struct transport_command *c,
                                    const struct transport_run_events *events, void *ctx,
                                    struct err *e) {
    if (l->state != TRANSPORT_UP) {
        (void)err_set(e, ERR_NET, "node %s: not connected", l->target.node);
        return NULL;
    }
    if (l->run_count >= TRANSPORT_RUNS_PER_LINK_MAX)
        transport_run_close(l->parked);
    if (l->run_count >= TRANSPORT_RUNS_PER_LINK_MAX) {
        (void)err_set(e, ERR_LIMIT, "node %s: more than %d commands at once on one connection",
                      l->target.node, TRANSPORT_RUNS_PER_LINK_MAX);
        return NULL;
    }
    struct transport_run *r = l->kind->run(l, c, e);
    if (!r) {
        (void)err_wrap(e, "node %s", l->target.node);
        return NULL;
    }
    r->link = l;
    r->events = events;
    r->ctx = ctx;
    r->next = l->runs;
    l->runs = r;
    l->run_count++;
    return r;
}

size_t transport_run_room(const struct transport_run *r) {
    if (r->closed || r->ended || r->input_ended)
        return 0;
    return TRANSPORT_INPUT_BYTES_MAX - (r->input.len - r->input.start);
}

size_t transport_run_unsent(const struct transport_run *r) {
    return r->input.len - r->input.start;
}

size_t transport_run_send(struct transport_run *r, const void *p, size_t len) {
    struct transport_input *in = &r->input;
    size_t room = transport_run_room(r);
    size_t take = len < room ? len : room;
    if (take < len)
        r->room_wanted = true;
    if (!take)
        return 0;
    // Twice the limit, so that bytes are moved to the front at most once per limit.
    if (!in->data) {
        in->room = 2 * (size_t)TRANSPORT_INPUT_BYTES_MAX;
        in->data = heap_alloc(in->room);
    }
    bool was_idle = in->start == in->len;
    if (was_idle)
        in->start = in->len = 0;
    if (in->len + take > in->room) {
        memmove(in->data, in->data + in->start, in->len - in->start);
        in->len -= in->start;
        in->start = 0;
    }
    memcpy(in->data + in->len, p, take);
    in->len += take;
    if (was_idle)
        r->link->kind->run_wake(r);
    return take;
}

void transport_run_send_end(struct transport_run *r) {
    if (r->input_ended || r->closed || r->ended)
        return;
    r->input_ended = true;
    r->link->kind->run_wake(r);
}

void transport_run_resize(struct transport_run *r, int columns, int rows) {
    if (!r->closed && !r->ended)
        r->link->kind->run_resize(r, columns, rows);
}

void transport_run_close(struct transport_run *r) {
    if (!r || r->closed)
        return;
    if (!r->ended)
        r->link->run_count--;
    if (r->link->parked == r)
        r->link->parked = NULL;
    r->closed = true;
    r->link->kind->run_close(r);
}

// ---- parking ----------------------------------------------------------------------------------

static void give_to(struct transport_run *r, const struct transport_run_events *events, void *ctx) {
    if (r->drop)
        r->drop(r->ctx);
    r->drop = NULL;
    r->events = events;
    r->ctx = ctx;
}

static void parked_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    (void)ctx;
    (void)end;
    if (r->link->parked == r)
        r->link->parked = NULL;
}

// The run sends nothing for a while, or never again.
static void trim(struct transport_run *r) {
    if (r->input.start == r->input.len) {
        free(r->input.data);
        r->input = (struct transport_input){0};
    }
    if (r->link->kind->trim)
        r->link->kind->trim(r->link);
}

void transport_run_park(struct transport_run *r, const char *name) {
    static const struct transport_run_events parked_events = {.on_end = parked_end};
    struct transport_link *l = r->link;
    if (r->ended || r->closed)
        return;
    transport_run_close(l->parked);
    give_to(r, &parked_events, NULL);
    trim(r);
    l->parked = r;
    if (!l->parked_as || strcmp(l->parked_as, name) != 0)
        l->parked_as = arena_strdup(&l->arena, name);
}

struct transport_run *transport_run_unpark(struct transport_link *l, const char *name,
                                           const struct transport_run_events *events, void *ctx) {
    struct transport_run *r = l->parked;
    if (!r || l->state != TRANSPORT_UP || strcmp(l->parked_as, name) != 0)
        return NULL;
    l->parked = NULL;
    give_to(r, events, ctx);
    return r;
}

void transport_run_release(struct transport_run *r) {
    for (struct transport_run **p = &r->link->runs; *p; p = &(*p)->next)
        if (*p == r) {
            *p = r->next;
            break;
        }
    if (r->drop)
        r->drop(r->ctx);
    trim(r);
    free(r->input.data);
    free(r);
}

const void *transport_input_peek(const struct transport_run *r, size_t *len) {
    *len = r->input.len - r->input.start;
    return *len ? r->input.data + r->input.start : NULL;
}

void transport_input_sent(struct transport_run *r, size_t len) {
    r->input.start += len;
    must(r->input.start <= r->input.len);
    if (r->room_wanted && transport_run_unsent(r) <= TRANSPORT_INPUT_BYTES_MAX / 2) {
        r->room_wanted = false;
        if (r->events->on_room && !r->closed && !r->ended)
            r->events->on_room(r, r->ctx);
    }
}

void transport_notify_output(struct transport_run *r, bool is_stderr, const void *p, size_t len) {
    if (r->closed || r->ended)
        return;
    if (is_stderr && r->events->on_error)
        r->events->on_error(r, r->ctx, p, len);
    else if (!is_stderr && r->events->on_output)
        r->events->on_output(r, r->ctx, p, len);
}

void transport_notify_end(struct transport_run *r, const struct transport_end *end) {
    if (r->closed || r->ended)
        return;
    r->ended = true;
    r->link->run_count--;
    r->events->on_end(r, r->ctx, end);
}

void transport_notify_lost(struct transport_run *r, const struct err *e) {
    struct transport_end end = {.how = TRANSPORT_LOST, .status = -1, .err = e};
    transport_notify_end(r, &end);
}

// ---- short commands ---------------------------------------------------------------------------

struct collect {
    struct strbuf out, err_text;
    struct strbuf input;
    size_t input_sent;
    transport_collect_cb *done;
    void *ctx;
};

static void collect_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    strbuf_add(&((struct collect *)ctx)->out, p, len);
}

static void collect_error(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    strbuf_add(&((struct collect *)ctx)->err_text, p, len);
}

static void collect_room(struct transport_run *r, void *ctx) {
    struct collect *c = ctx;
    c->input_sent +=
        transport_run_send(r, strbuf_cstr(&c->input) + c->input_sent, c->input.len - c->input_sent);
    if (c->input_sent == c->input.len)
        transport_run_send_end(r);
}

static void collect_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct collect *c = ctx;
    struct transport_result result = {
        .end = *end,
        .out = strbuf_cstr(&c->out),
        .out_len = c->out.len,
        .err_text = strbuf_cstr(&c->err_text),
        .err_len = c->err_text.len,
    };
    (void)r;
    c->done(c->ctx, &result);
}

static void collect_drop(void *ctx) {
    struct collect *c = ctx;
    strbuf_fini(&c->out);
    strbuf_fini(&c->err_text);
    strbuf_fini(&c->input);
    free(c);
}

static const struct transport_run_events collect_events = {
    .on_output = collect_output,
    .on_error = collect_error,
    .on_room = collect_room,
    .on_end = collect_end,
};

int transport_collect(struct transport_link *l, const char *line, const void *input,
                      size_t input_len, transport_collect_cb *done, void *ctx, struct err *e) {
    struct collect *c = heap_alloc(sizeof *c);
    c->done = done;
    c->ctx = ctx;
    strbuf_init(&c->out, TRANSPORT_COLLECT_BYTES_MAX);
    strbuf_init(&c->err_text, TRANSPORT_COLLECT_BYTES_MAX);
    strbuf_init(&c->input, 0);
    if (input_len)
        strbuf_add(&c->input, input, input_len);
    struct transport_run *r =
        transport_run(l, &(struct transport_command){.line = line}, &collect_events, c, e);
    if (!r) {
        collect_drop(c);
        return -1;
    }
    r->drop = collect_drop;
    collect_room(r, c);
    return 0;
}

char *transport_path_word(struct arena *a, const char *path) {
    if (str_eq(path, "~"))
        return arena_strdup(a, "~");
    if (str_starts(path, "~/"))
        return arena_printf(a, "~/%s", path[2] ? str_shell_quote(a, path + 2) : "");
    return str_shell_quote(a, path);
}
