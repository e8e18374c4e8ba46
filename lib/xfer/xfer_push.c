// SPDX-License-Identifier: Apache-2.0
// Push, the operator's side. One main connection carries the list, its answer and content.
// Additional connections carry content only; they are opened when the round trip is so long that
// the window limits one connection. Every connection sends a frame whenever it has room. A node of
// a chain (fanout.h) has its main connection only.
#include "base/clock.h"
#include "base/log.h"
#include "xfer/xfer_push_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    PUSH_EXTRA_BYTES_MIN = 8 << 20, // remaining bytes per additional connection
    PUSH_ENTRIES_BYTES = 128 << 10,
    PUSH_EXTRAS_MAX = 48, // over all nodes: they help a few distant nodes, not hundreds
    PUSH_QUIET_MAX = 4,   // up to this many concurrent pushes, this process itself answers promptly
};

static int pushes, extras; // active in this process

static const struct transport_run_events run_events;
static void pump(struct push_conn *c);
static void open_extras(struct push *p, uint64_t bytes);

static bool is_main(const struct push_conn *c) {
    return c == &c->push->conns[0];
}

static void fail(struct push *p, const struct err *e) {
    struct err named = *e;
    (void)err_wrap(&named, "node %s", p->x.node);
    xfer_finish(&p->x, &named);
}

// Closes an additional connection; the main one takes over its work.
static void conn_close(struct push_conn *c) {
    if (c->has_stream) {
        if (c->state != CONN_FINISHED)
            xfer_send_stream_return(&c->stream);
        c->push->closed_bytes += c->stream.retired;
        xfer_send_stream_fini(&c->stream);
        c->has_stream = false;
    }
    xfer_channel_close(&c->channel);
    extras -= c->link != NULL;
    transport_close(c->link);
    c->link = NULL;
    if (c->state != CONN_FINISHED)
        c->state = CONN_CLOSED;
}

static void stop(struct xfer *x) {
    struct push *p = (struct push *)x;
    pushes -= p->counted;
    p->counted = false;
    fanout_leave(&p->relay);
    for (int i = p->opened; i-- > 0;)
        conn_close(&p->conns[i]);
}

static void destroy(struct xfer *x) {
    struct push *p = (struct push *)x;
    stop(x);
    if (p->planned)
        xfer_send_plan_fini(&p->plan);
    xfer_free(x);
}

// ---- sending ----------------------------------------------------------------------------------

static void put_list(struct push_conn *c) {
    struct push *p = c->push;
    if (xfer_wire_entries(&c->stream.packer, &c->channel.out, p->m, &p->next_entry,
                          PUSH_ENTRIES_BYTES, !p->no_compress))
        c->state = CONN_ANSWER;
}

// True when all additional connections have finished. Those still connecting are not needed.
static bool others_finished(struct push *p) {
    for (int i = 1; i < p->opened; i++)
        if (p->conns[i].state == CONN_CONNECTING || p->conns[i].state == CONN_GREETING)
            conn_close(&p->conns[i]);
    for (int i = 1; i < p->opened; i++)
        if (p->conns[i].state != CONN_CLOSED && p->conns[i].state != CONN_FINISHED)
            return false;
    return true;
}

// Adds one frame; false when there is nothing to send now.
static bool fill(struct push_conn *c) {
    struct push *p = c->push;
    struct err e;
    if (c->state == CONN_LIST) {
        put_list(c);
        return true;
    }
    if (c->state != CONN_CONTENT)
        return false;
    int rc = xfer_send_stream_fill(&c->stream, &c->channel.out, !p->no_compress && !p->fast, &e);
    if (rc < 0)
        fail(p, &e);
    if (rc != 0)
        return rc > 0;
    if (is_main(c) && p->relay.state == FANOUT_RELAYED) {
        xfer_wire_frame(&c->channel.out, XFER_RELAY_END, NULL, 0);
        c->state = CONN_RELAY;
        return true;
    }
    if (is_main(c) && !others_finished(p))
        return false; // a connection may still return work
    xfer_wire_frame(&c->channel.out, XFER_DONE, NULL, 0);
    c->state = CONN_DONE;
    if (is_main(c))
        p->x.progress.phase = "place";
    return true;
}

static void pump(struct push_conn *c) {
    while (xfer_channel_flush(&c->channel)) {
        size_t before = c->channel.out.len;
        if (!fill(c))
            return;
        c->push->x.progress.bytes_wire += c->channel.out.len - before;
    }
}

// ---- receiving --------------------------------------------------------------------------------

// The round trip measured by this process includes its work for other nodes; the kernel's ends at
// the first relay. The former is used with few nodes, the latter with many.
static int64_t round_trip_us(const struct push *p) {
    int64_t kernel_us = transport_distance_us(p->x.link);
    return pushes > PUSH_QUIET_MAX && kernel_us > 0 ? kernel_us
                                                    : transport_round_trip_us(p->x.link);
}

static void add_frame(struct push *p, enum xfer_type type, const void *data, size_t len) {
    xfer_wire_frame(&p->conns[0].channel.out, type, data, len);
    pump(&p->conns[0]);
}

static void begin_content(struct push *p, enum conn_state state) {
    p->x.progress.bytes_total = p->had_bytes + p->plan.bytes;
    p->x.progress.phase = state == CONN_DONE ? "place" : "send";
    p->conns[0].state = state;
}

// No other node has what this one lacks.
static void end_peers(struct push *p) {
    const struct send_plan *plan = &p->plan;
    for (size_t i = 0; i < plan->small_count; i++)
        p->peers->lacks[plan->small[i]] = true;
    for (size_t i = 0; i < plan->count; i++)
        p->peers->lacks[plan->units[i].entry] = true;
    p->x.progress.bytes_total = p->had_bytes;
    p->x.progress.phase = "place";
    p->conns[0].state = CONN_DONE;
    add_frame(p, XFER_DONE, NULL, 0);
}

void xfer_push_direct(struct push *p) {
    if (p->peers) {
        end_peers(p);
        return;
    }
    int64_t us = round_trip_us(p);
    xfer_send_plan_ready(&p->plan);
    log_debug("sending", "node=%s files=%zu bytes=%llu round_trip_us=%lld", p->x.node,
              p->plan.files, (unsigned long long)p->plan.bytes, (long long)us);
    p->near = us < XFER_FAR_US / 3;
    p->fast = p->near;
    if (us >= XFER_FAR_US)
        open_extras(p, p->plan.bytes);
    // A receiver that needs no file continues by itself.
    begin_content(p, p->plan.files ? CONN_CONTENT : CONN_DONE);
    pump(&p->conns[0]);
}

// ---- a chain of nodes -------------------------------------------------------------------------

void xfer_push_relayed(struct push *p, uint64_t total) {
    begin_content(p, CONN_RELAY);
    p->x.progress.bytes_total = p->had_bytes + total;
}

void xfer_push_relay_head(struct push *p, struct send_plan *chain) {
    xfer_send_plan_fini(&p->plan);
    p->plan = *chain;
    xfer_send_plan_ready(&p->plan);
    log_debug("sending to a chain", "node=%s bytes=%llu", p->x.node,
              (unsigned long long)p->plan.bytes);
    begin_content(p, CONN_CONTENT);
    pump(&p->conns[0]);
}

void xfer_push_relay_peer(struct push *p, enum xfer_type type, const struct xfer_relay_peer *peer) {
    struct strbuf b = {0};
    xfer_put_relay_peer(&b, peer);
    add_frame(p, type, b.data, b.len);
    strbuf_fini(&b);
}

void xfer_push_relay_end(struct push *p) {
    add_frame(p, XFER_RELAY_END, NULL, 0);
}

// Content that a node of a chain has received counts like content that was sent to it.
static int take_ack(struct push_conn *c, uint64_t bytes, struct err *e) {
    struct push *p = c->push;
    if (c->state != CONN_RELAY)
        return xfer_send_stream_ack(&c->stream, bytes, e);
    if (bytes < c->stream.acked || bytes > p->x.progress.bytes_total)
        return err_set(e, ERR_FORMAT,
                       "transfer: the receiver acknowledges bytes that were not sent");
    c->stream.sent = c->stream.acked = bytes;
    return 0;
}

// The first list of lacking files, or a further one after a chain.
static int take_need(struct push_conn *c, const struct xfer_frame *f, struct err *e) {
    struct push *p = c->push;
    if (c->state == CONN_RELAY) {
        p->had_bytes = c->stream.acked;
        xfer_send_stream_fini(&c->stream);
        xfer_send_stream_init(&c->stream, &p->plan, false);
        c->stream.sent = c->stream.acked = c->stream.retired = p->had_bytes;
        xfer_send_plan_fini(&p->plan);
        xfer_send_plan_init(&p->plan, p->m);
        c->state = CONN_ANSWER;
    }
    if (c->state != CONN_ANSWER || !c->greeted)
        return xfer_wire_unexpected(f, e);
    if (f->type == XFER_NEED)
        return xfer_send_plan_need(&p->plan, f, e);
    if (!p->x.progress.files_total) {
        p->x.progress.files_total = p->plan.files;
        if (p->peers)
            p->peers->lacked = p->plan.files;
    }
    fanout_ready(&p->relay);
    return 0;
}

static int take_result(struct push_conn *c, const struct xfer_frame *f, struct err *e) {
    struct push *p = c->push;
    if (c->state != CONN_DONE || f->len != 16)
        return xfer_wire_unexpected(f, e);
    c->state = CONN_FINISHED;
    if (!is_main(c)) {
        c->stream.acked = c->stream.sent;
        pump(&p->conns[0]);
        return 0;
    }
    p->x.progress.bytes_done = p->x.progress.bytes_total;
    p->x.progress.files_done = p->x.progress.files_total;
    if (c->channel.stays) {
        xfer_channel_park(c->channel.run, p->program, p->root);
        c->channel.run = NULL;
    }
    xfer_finish(&p->x, NULL);
    return 0;
}

static int take_frame(struct push_conn *c, const struct xfer_frame *f, struct err *e) {
    struct push *p = c->push;
    switch (f->type) {
    case XFER_HELLO:
        if (c->greeted || f->len != 4 || bytes_load(f->data, 4) != XFER_VERSION)
            return err_set(e, ERR_FORMAT, "transfer: the agent greets with another version");
        c->greeted = true;
        if (c->greet_ns)
            transport_round_trip_seen(p->x.link, (clock_mono_ns() - c->greet_ns) / 1000);
        if (is_main(c))
            p->x.progress.phase = "compare";
        else
            c->state = CONN_CONTENT;
        return 0;
    case XFER_NEED:
    case XFER_NEED_END: return take_need(c, f, e);
    case XFER_ACK:
        if (!c->has_stream || f->len != 8)
            return xfer_wire_unexpected(f, e);
        return take_ack(c, bytes_load(f->data, 8), e);
    case XFER_RELAY_PORT:
        return is_main(c) && f->len == 4 ? fanout_port(&p->relay, (uint32_t)bytes_load(f->data, 4))
                                         : xfer_wire_unexpected(f, e);
    case XFER_RELAY_READY:
    case XFER_RELAY_LOST:
        if (!is_main(c))
            return xfer_wire_unexpected(f, e);
        fanout_link(&p->relay, f->type == XFER_RELAY_READY);
        return 0;
    case XFER_PROGRESS: return 0;
    case XFER_RESULT: return take_result(c, f, e);
    default: return xfer_wire_unexpected(f, e);
    }
}

static void conn_fail(struct push_conn *c, const struct err *e) {
    struct push *p = c->push;
    if (is_main(c) || e->code == ERR_FORMAT) {
        fail(p, e);
        return;
    }
    log_debug("a further connection failed", "node=%s error=\"%s\"", p->x.node, e->text);
    conn_close(c);
    pump(&p->conns[0]);
}

static void on_output(struct transport_run *r, void *ctx, const void *data, size_t len) {
    struct push_conn *c = ctx;
    struct xfer_frame f;
    struct err e;
    size_t used = 0;
    int rc = 1;
    (void)r;
    strbuf_add(&c->channel.in, data, len);
    while (c->channel.run && (rc = xfer_wire_take(&c->channel.unpacker, c->channel.in.data + used,
                                                  c->channel.in.len - used, &f, &e)) > 0) {
        used += f.wire_bytes;
        if (take_frame(c, &f, &e) < 0) {
            rc = -1;
            break;
        }
    }
    if (!c->channel.run) // a push that has ended has closed it
        return;
    strbuf_consume(&c->channel.in, used);
    if (rc < 0)
        conn_fail(c, &e);
    else
        pump(c);
}

static void on_error(struct transport_run *r, void *ctx, const void *data, size_t len) {
    (void)r;
    strbuf_add(&((struct push_conn *)ctx)->channel.err_text, data, len);
}

static void on_room(struct transport_run *r, void *ctx) {
    (void)r;
    pump(ctx);
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct push_conn *c = ctx;
    struct push *p = c->push;
    struct err e;
    (void)r;
    c->channel.in_ended = true;
    if (p->x.ended || c->state == CONN_FINISHED)
        return;
    xfer_channel_explain(&c->channel, end, p->x.node, &e);
    if (is_main(c))
        xfer_finish_now(&p->x, &e);
    else
        conn_fail(c, &e);
}

static const struct transport_run_events run_events = {
    .on_output = on_output, .on_error = on_error, .on_room = on_room, .on_end = on_end};

// ---- connections ------------------------------------------------------------------------------

static int greet(struct push_conn *c, struct transport_link *l, struct err *e) {
    struct push *p = c->push;
    struct strbuf b = {0};
    int rc =
        xfer_channel_open(&c->channel, l, p->program, NODE_VERB_PUSH, p->root, &run_events, c, e);
    if (rc < 0)
        return -1;
    xfer_send_stream_init(&c->stream, &p->plan, !is_main(c));
    c->has_stream = true;
    c->greet_ns = c->channel.stays ? clock_mono_ns() : 0;
    struct xfer_push_hello hello = {
        .extra = !is_main(c),
        .replace = p->replace,
        .peers = p->peers != NULL,
        .gives = p->peers && p->peers->gives,
        .dest = p->dest,
        .owner = p->owner,
        .results = is_main(c) ? (const char **)p->results : NULL,
    };
    xfer_put_push_hello(&b, &hello);
    xfer_wire_frame(&c->channel.out, XFER_HELLO, b.data, b.len);
    strbuf_fini(&b);
    c->state = is_main(c) ? CONN_LIST : CONN_GREETING;
    pump(c);
    return 0;
}

static void extra_open(struct transport_link *l, void *ctx) {
    struct push_conn *c = ctx;
    struct err e;
    if (greet(c, l, &e) < 0)
        conn_fail(c, &e);
}

static void extra_down(struct transport_link *l, void *ctx, const struct err *e) {
    struct push_conn *c = ctx;
    (void)l;
    if (c->state != CONN_CLOSED && c->state != CONN_FINISHED)
        conn_fail(c, e);
}

static const struct transport_link_events extra_events = {.on_open = extra_open,
                                                          .on_down = extra_down};

static void open_extras(struct push *p, uint64_t bytes) {
    int wanted = p->connections - 1;
    if ((uint64_t)wanted > bytes / PUSH_EXTRA_BYTES_MIN)
        wanted = (int)(bytes / PUSH_EXTRA_BYTES_MIN);
    if (wanted > PUSH_EXTRAS_MAX - extras)
        wanted = PUSH_EXTRAS_MAX - extras;
    for (int i = 0; i < wanted; i++) {
        struct push_conn *c = &p->conns[p->opened];
        struct err e;
        c->push = p;
        c->link = transport_open_again(p->x.link, &extra_events, c, &e);
        if (!c->link) {
            log_debug("cannot open a further connection", "error=\"%s\"", e.text);
            return;
        }
        c->state = CONN_CONNECTING;
        extras++;
        p->opened++;
    }
}

static void on_tick(struct xfer *x) {
    struct push *p = (struct push *)x;
    uint64_t done = p->closed_bytes;
    for (int i = 0; i < p->opened; i++)
        if (p->conns[i].has_stream)
            done += p->conns[i].stream.acked;
    x->progress.bytes_done = done < x->progress.bytes_total ? done : x->progress.bytes_total;
    if (x->progress.bytes_total)
        x->progress.files_done =
            (size_t)((double)x->progress.files_total * (double)x->progress.bytes_done /
                     (double)x->progress.bytes_total);
    p->fast = p->near || x->busy_percent >= XFER_BUSY_PERCENT ||
              x->wire_rate > XFER_COMPRESS_BELOW_BYTES_PER_S;
}

struct xfer *xfer_push(struct transport_link *l, const struct xfer_push_spec *spec,
                       const struct xfer_events *events, void *ctx, struct err *e) {
    struct push *p = heap_alloc(sizeof *p);
    if (!spec->manifest->sorted) {
        free(p);
        (void)err_set(e, ERR_FAILED, "the list of files was not hashed");
        return NULL;
    }
    p->m = spec->manifest;
    p->program = arena_strdup(&p->x.arena, spec->program);
    p->root = arena_strdup(&p->x.arena, spec->root);
    p->dest = arena_strdup(&p->x.arena, spec->dest);
    p->replace = spec->mode == XFER_REPLACE;
    p->peers = spec->peers;
    p->owner = arena_strdup(&p->x.arena, spec->owner ? spec->owner : "");
    p->results = spec->results;
    p->no_compress = spec->no_compress || transport_is_local(l);
    p->connections = spec->connections > 0 ? spec->connections : XFER_CONNECTIONS_DEFAULT;
    if (p->connections > XFER_CONNECTIONS_MAX)
        p->connections = XFER_CONNECTIONS_MAX;
    p->x.on_tick = on_tick;
    p->x.stop = stop;
    p->x.destroy = destroy;
    p->x.progress = (struct xfer_progress){
        .phase = "connect", .files_all = p->m->files, .bytes_all = p->m->bytes};
    xfer_send_plan_init(&p->plan, p->m);
    p->planned = true;
    p->counted = true;
    pushes++;
    xfer_start(&p->x, l, events, ctx);
    p->conns[0].push = p;
    p->opened = 1;
    fanout_join(spec->fanout, &p->relay, p, spec->address ? spec->address : "");
    if (greet(&p->conns[0], l, e) < 0) {
        destroy(&p->x);
        return NULL;
    }
    return &p->x;
}
