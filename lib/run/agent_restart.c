// SPDX-License-Identifier: Apache-2.0
// Restarts agents that have vanished while their hosts still answer.
#include "run/agent_restart.h"

#include "base/clock.h"
#include "base/log.h"
#include "run/inputs/input_fanout.h"
#include "run/inputs/input_keep.h"
#include "run/monitor.h"
#include "run/results/results.h"
#include "run/results/results_part.h"
#include "run/results/state_published.h"
#include "sys/file.h"

#include <unistd.h>

// True while the run is active and another node is left to join.
static bool is_wanted(const struct agent_restart_node *x) {
    const struct follow *f = x->restart->follow;
    if (f->over_ms || f->leave || f->stopping)
        return false;
    for (size_t i = 0; i < f->count; i++)
        if (&f->nodes[i] != x->node && !f->nodes[i].over && !f->nodes[i].restarting)
            return true;
    return false;
}

static bool is_there(const struct agent_restart_node *x, struct err *e) {
    if (x->agent.node->up && x->agent.node->ready)
        return true;
    err_set(e, ERR_NET, "the node is out of reach");
    return false;
}

static void on_pause(struct timer *t);

static bool try_later(struct agent_restart_node *x) {
    if (x->tries >= RESTART_TRIES_MAX || !is_wanted(x))
        return false;
    timer_start(x->restart->follow->context->loop, &x->pause, (int64_t)RESTART_PAUSE_MS << x->tries,
                on_pause);
    x->tries++;
    return true;
}

static void failed(struct agent_restart_node *x, const struct err *e) {
    const char *name = x->node->node->info->name;
    agent_start_close(&x->agent);
    if (e->code == ERR_NOT_FOUND && !x->is_new) { // the node does not know the run
        x->is_new = true;
        x->tries = 0;
    }
    if (try_later(x)) {
        log_warn("cannot restart an agent", "node=%s reason=\"%s\"", name, e->text);
        return;
    }
    if (e->code)
        log_error("cannot restart an agent", "node=%s reason=\"%s\"", name, e->text);
    follow_stays_lost(x->node);
}

static void on_listening(struct agent_start *s) {
    struct agent_restart_node *x = container_of(s, struct agent_restart_node, agent);
    struct run_start *l = x->restart->launch;
    struct strbuf roster = {0};
    struct err e = {0};
    l->ports[s->node->index] = s->port;
    run_start_roster(l, x->restart->follow->fleet, &roster);
    if (agent_start_roster(s, &roster, &e) < 0)
        failed(x, &e);
    strbuf_fini(&roster);
}

static void on_over(struct agent_start *s, const struct err *e) {
    struct agent_restart_node *x = container_of(s, struct agent_restart_node, agent);
    if (e->code) {
        failed(x, e);
        return;
    }
    agent_start_close(s);
    follow_again(x->node);
}

// Forgets the results fetched from the machine that this one replaces.
static int begin_anew(struct agent_restart_node *x, struct err *e) {
    const struct follow *f = x->restart->follow;
    unlink(results_part_mark(f->context, f->run, x->node->node->info->name));
    return log_mirror_begin(&x->node->mirror, follow_take_line, x->node, e);
}

static void start_agent(struct agent_restart_node *x) {
    struct job_spec spec = x->restart->launch->spec;
    struct err e = {0};
    const struct run *r = x->restart->follow->run;
    int64_t used = clock_wall_ms() - r->created_ms - r->push_ms - r->setup_ms - r->start_ms;
    if (spec.max_time_ms) // an agent counts from its own start
        spec.max_time_ms = spec.max_time_ms > used ? spec.max_time_ms - used : 1;
    spec.agent_starts = x->tries;
    if (spec.join_timeout_ms > RESTART_JOIN_MS_MAX)
        spec.join_timeout_ms = RESTART_JOIN_MS_MAX;
    if (!is_there(x, &e) || (x->is_new && begin_anew(x, &e) < 0) ||
        agent_start_begin(&x->agent, &spec, x->is_new ? " --join" : " --again", &e) < 0)
        failed(x, &e);
}

// ---- a node that has nothing of the run --------------------------------------------------------

static void send_next(struct agent_restart_node *x);

static struct input_again_node *inputs_of(struct agent_restart_node *x) {
    return &x->restart->inputs.nodes[x->node->index];
}

// Streamed inputs are served before the agent, which connects to their server.
static void serve(struct agent_restart_node *x) {
    struct err e = {0};
    if (!input_again_has(x->restart->launch, x->node->index, true))
        start_agent(x);
    else if (input_again_begin(inputs_of(x), true, &e) < 0)
        failed(x, &e);
}

static void on_prepared(struct node_setup *s, const struct err *e) {
    struct agent_restart_node *x = container_of(s, struct agent_restart_node, setup);
    if (e->code)
        failed(x, e);
    else
        serve(x);
}

static void on_inputs(struct input_again_node *in, const struct err *e) {
    struct agent_restart *r = container_of(in->all, struct agent_restart, inputs);
    struct agent_restart_node *x = &r->nodes[in->node->index];
    if (e->code) {
        failed(x, e);
    } else if (in->streamed) {
        start_agent(x);
    } else {
        x->has_objects = true;
        send_next(x);
    }
}

// True while the objects have to come first. dtdata is among the files for all nodes.
static bool reads_first(struct agent_restart_node *x) {
    struct err e = {0};
    if (x->sent == 0 || x->has_objects ||
        !input_again_has(x->restart->launch, x->node->index, false))
        return false;
    if (!is_there(x, &e) || input_again_begin(inputs_of(x), false, &e) < 0)
        failed(x, &e);
    return true;
}

static void on_sent(struct xfer *xfer, void *ctx, const struct err *e,
                    const struct xfer_progress *p) {
    struct agent_restart_node *x = ctx;
    (void)xfer;
    x->xfer = NULL;
    x->restart->launch->run.push_bytes += p->bytes_done;
    if (e->code)
        failed(x, e);
    else
        send_next(x);
}

static void drop_state(struct agent_restart_node *x) {
    if (x->state)
        manifest_free(x->state);
    x->state = NULL;
}

static void begins_without(struct agent_restart_node *x, const struct err *e) {
    log_warn("a new node begins without the state that was fetched", "node=%s reason=\"%s\"",
             x->node->node->info->name, e->text);
    drop_state(x);
}

static void on_state(struct hashing *h, const struct err *e) {
    struct agent_restart_node *x = container_of(h, struct agent_restart_node, hashing);
    if (e->code)
        begins_without(x, e);
    send_next(x);
}

// Takes the newest state of a command that was fetched from the machine before this one. Without it
// the node begins anew. Nodes of the native trainer have the state of the others. True: send_next
// follows when the state is hashed.
static bool take_state(struct agent_restart_node *x) {
    const struct follow *f = x->restart->follow;
    struct context *s = f->context;
    const char *name = x->node->node->info->name;
    struct err e = {0};
    drop_state(x);
    const char *folder = f->run->native ? NULL : state_published_newest(s, f->run, name);
    if (!folder)
        return false;
    x->state = manifest_new();
    if (hashing_follow(&x->hashing, s, x->state, file_join(s->arena, folder, "state"),
                       run_node_dir(s->arena, f->run->id, "state"), on_state, &e) == 0)
        return true;
    begins_without(x, &e);
    return false;
}

// Sends the parts of run_start_send one after the other, with what nodes read of the inputs behind
// the first one, then starts the agent.
static void send_next(struct agent_restart_node *x) {
    static const struct xfer_events events = {.on_end = on_sent};
    struct run_start *l = x->restart->launch;
    const struct fleet_node *n = x->agent.node;
    // Objects of inputs are in the node's store. The newest state replaces an earlier run's.
    // Files of an elastic input that are not here come from the other nodes.
    const struct manifest *parts[] = {l->common,
                                      l->shards ? l->shards[n->index] : NULL,
                                      l->dealt ? l->dealt[n->index] : NULL,
                                      l->remote && !l->elastic ? l->remote[n->index].files : NULL,
                                      l->lists,
                                      l->listed ? l->listed[n->index] : NULL,
                                      input_fanout_files(l),
                                      l->keep ? input_keep_common(l) : NULL,
                                      l->keep ? input_keep_shard(l, n->index) : NULL,
                                      x->state};
    struct xfer_push_spec spec = {
        .program = n->facts.program, .root = n->facts.root, .dest = "", .mode = XFER_MERGE};
    struct err e = {0};
    if (reads_first(x))
        return;
    while (!spec.manifest && x->sent < sizeof parts / sizeof parts[0]) {
        const struct manifest *m = parts[x->sent++];
        spec.manifest = m && m->count ? m : NULL;
    }
    if (!spec.manifest) {
        if (!job_needs_setup(&l->spec))
            serve(x);
        else if (!is_there(x, &e) || node_setup_begin(&x->setup, &e) < 0)
            failed(x, &e);
        return;
    }
    if (is_there(x, &e))
        x->xfer = xfer_push(n->link, &spec, &events, x, &e);
    if (!x->xfer)
        failed(x, &e);
}

// ---- when ---------------------------------------------------------------------------------------

static void on_pause(struct timer *t) {
    struct agent_restart_node *x = container_of(t, struct agent_restart_node, pause);
    const struct follow *f = x->restart->follow;
    const char *name = x->node->node->info->name;
    struct arena a = {0};
    if (!is_wanted(x)) {
        follow_stays_lost(x->node);
        return;
    }
    screen_note(f->context->screen,
                x->is_new ? "sending the run to %s (%d of %d)"
                          : "starting the agent of %s again (%d of %d)",
                name, x->tries, RESTART_TRIES_MAX);
    monitor_note(f->context, f->run, "agent-started-again", "peer", name, "try",
                 arena_printf(&a, "%d of %d", x->tries, RESTART_TRIES_MAX), "reason",
                 x->is_new ? "the node is there, and has nothing of the run"
                           : "its agent vanished while its host was there",
                 NULL);
    arena_fini(&a);
    x->sent = 0;
    x->has_objects = false;
    if (x->is_new) {
        if (!take_state(x))
            send_next(x);
    } else {
        start_agent(x);
    }
}

static bool on_lost(void *ctx, struct follow_node *n, bool is_new) {
    struct agent_restart *r = ctx;
    struct agent_restart_node *x = &r->nodes[n->index];
    if (x->pause.loop || x->xfer || x->setup.run || inputs_of(x)->busy || x->hashing.context ||
        x->agent.run) // a restart is already in progress
        return true;
    if (is_new) // another machine, which has tries of its own
        x->tries = 0;
    x->is_new = is_new;
    return try_later(x);
}

void agent_restart_init(struct agent_restart *r, struct run_start *l, struct follow *f) {
    *r = (struct agent_restart){.launch = l, .follow = f};
    if (l->run.max_restarts == 0)
        return;
    r->nodes = arena_new(f->context->arena, struct agent_restart_node, f->count);
    for (size_t i = 0; i < f->count; i++) {
        struct agent_restart_node *x = &r->nodes[i];
        x->restart = r;
        x->node = &f->nodes[i];
        x->setup =
            (struct node_setup){.node = f->nodes[i].node, .start = l, .on_over = on_prepared};
        x->agent = (struct agent_start){
            .node = f->nodes[i].node, .on_listening = on_listening, .on_over = on_over};
    }
    input_again_open(&r->inputs, l, f);
    for (size_t i = 0; i < f->count; i++)
        r->inputs.nodes[i].on_over = on_inputs;
    f->restart = on_lost;
    f->restart_ctx = r;
}

void agent_restart_close(struct agent_restart *r) {
    input_again_close(&r->inputs);
    for (size_t i = 0; r->nodes && i < r->follow->count; i++) {
        timer_stop(&r->nodes[i].pause);
        if (r->nodes[i].xfer)
            xfer_cancel(r->nodes[i].xfer);
        r->nodes[i].xfer = NULL;
        hashing_cancel(&r->nodes[i].hashing);
        drop_state(&r->nodes[i]);
        node_setup_close(&r->nodes[i].setup);
        agent_start_close(&r->nodes[i].agent);
    }
    r->nodes = NULL;
}
