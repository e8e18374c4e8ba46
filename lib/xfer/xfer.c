// SPDX-License-Identifier: Apache-2.0
// The common part of push and fetch on the operator's side.
#include "xfer/xfer_impl.h"

#include "base/clock.h"
#include "remote/transport_impl.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void on_tick(struct timer *t) {
    struct xfer *x = container_of(t, struct xfer, tick);
    int64_t wall = clock_mono_ns(), cpu = cpu_ns();
    if (wall > x->load_wall_ns)
        x->busy_percent = (int)((cpu - x->load_cpu_ns) * 100 / (wall - x->load_wall_ns));
    x->wire_rate = (uint64_t)((double)(x->progress.bytes_wire - x->load_wire) * 1e9 /
                              (double)(wall - x->load_wall_ns + 1));
    x->load_wire = x->progress.bytes_wire;
    x->load_wall_ns = wall;
    x->load_cpu_ns = cpu;
    timer_start(x->loop, t, XFER_TICK_MS, on_tick);
    x->on_tick(x);
    if (x->ended || !x->events->on_progress)
        return;
    x->in_callback = true;
    x->events->on_progress(x, x->ctx, &x->progress);
    x->in_callback = false;
    if (x->cancelled)
        x->destroy(x);
}

void xfer_start(struct xfer *x, struct transport_link *l, const struct xfer_events *events,
                void *ctx) {
    x->link = l;
    x->loop = transport_loop(l);
    x->node = arena_strdup(&x->arena, transport_node(l));
    x->events = events;
    x->ctx = ctx;
    x->load_wall_ns = clock_mono_ns();
    x->load_cpu_ns = cpu_ns();
    timer_start(x->loop, &x->tick, XFER_TICK_MS, on_tick);
}

static void deliver(struct xfer *x) {
    timer_stop(&x->finish);
    x->in_callback = true;
    x->events->on_end(x, x->ctx, &x->err, &x->progress);
    x->destroy(x);
}

static void on_finish(struct timer *t) {
    deliver(container_of(t, struct xfer, finish));
}

void xfer_finish(struct xfer *x, const struct err *e) {
    if (x->ended)
        return;
    x->ended = true;
    if (e)
        x->err = *e;
    timer_stop(&x->tick);
    timer_start(x->loop, &x->finish, 0, on_finish);
    x->stop(x);
}

void xfer_finish_now(struct xfer *x, const struct err *e) {
    xfer_finish(x, e);
    deliver(x);
}

void xfer_cancel(struct xfer *x) {
    if (!x || x->cancelled)
        return;
    x->cancelled = true;
    if (!x->ended)
        x->stop(x);
    x->ended = true;
    timer_stop(&x->tick);
    timer_stop(&x->finish);
    if (!x->in_callback) // else who calls it back frees it
        x->destroy(x);
}

void xfer_free(struct xfer *x) {
    timer_stop(&x->tick);
    timer_stop(&x->finish);
    arena_fini(&x->arena);
    free(x);
}

// ---- channels ---------------------------------------------------------------------------------

// The name for parking an agent. Agents of one program and folder are interchangeable.
static char *parking_name(struct arena *a, const char *program, const char *root) {
    return arena_printf(a, "%s\n%s", program, root);
}

void xfer_channel_park(struct transport_run *r, const char *program, const char *root) {
    struct arena a = {0};
    transport_run_park(r, parking_name(&a, program, root));
    arena_fini(&a);
}

int xfer_channel_open(struct xfer_channel *c, struct transport_link *l, const char *program,
                      enum node_verb_code verb, const char *root,
                      const struct transport_run_events *events, void *ctx, struct err *e) {
    const char *word = node_verb_name(verb);
    struct arena a = {0};
    strbuf_init(&c->err_text, XFER_STDERR_BYTES_MAX);
    c->run = transport_run_unpark(l, parking_name(&a, program, root), events, ctx);
    c->stays = c->run;
    if (c->run) {
        strbuf_addf(&c->out, "%s\n", word);
    } else {
        struct transport_command command = {.line = arena_printf(&a, "exec %s --node %s --root %s",
                                                                 str_shell_quote(&a, program), word,
                                                                 str_shell_quote(&a, root))};
        c->run = transport_run(l, &command, events, ctx, e);
    }
    arena_fini(&a);
    return c->run ? 0 : -1;
}

void xfer_channel_close(struct xfer_channel *c) {
    if (c->run && !c->in_ended)
        transport_run_close(c->run);
    c->run = NULL;
    strbuf_fini(&c->in);
    strbuf_fini(&c->out);
    strbuf_fini(&c->err_text);
    xfer_unpacker_fini(&c->unpacker);
}

bool xfer_channel_flush(struct xfer_channel *c) {
    if (!c->run || c->in_ended)
        return false;
    c->out_sent += transport_run_send(c->run, c->out.data ? c->out.data + c->out_sent : "",
                                      c->out.len - c->out_sent);
    if (c->out_sent < c->out.len)
        return false;
    strbuf_clear(&c->out);
    c->out_sent = 0;
    return true;
}

void xfer_channel_explain(const struct xfer_channel *c, const struct transport_end *end,
                          const char *node, struct err *e) {
    struct arena a = {0};
    size_t len = c->err_text.len;
    while (len && isspace((unsigned char)c->err_text.data[len - 1]))
        len--;
    const char *said = len ? str_printable(&a, c->err_text.data, len) : "nothing";
    if (end->how == TRANSPORT_LOST) {
        (void)err_set(e, end->err->code,
                      "%s; the transfer was cut, the next attempt continues where this one stopped",
                      end->err->text);
    } else if (end->how == TRANSPORT_SIGNALED) {
        (void)err_set(e, ERR_FAILED, "node %s: the agent was ended by signal %s; it said: %s", node,
                      end->signal, said);
    } else {
        (void)err_set(e, ERR_FAILED, "node %s: the agent ended with status %d; it said: %s", node,
                      end->status, said);
    }
    arena_fini(&a);
}
