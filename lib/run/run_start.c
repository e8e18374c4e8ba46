// SPDX-License-Identifier: Apache-2.0
// Starts the agents of a run on all its nodes, and cancels the start.
//
// An agent runs independently once it has the roster. If the start fails later, every agent that
// was sent the roster must be stopped. Only the end of `start` on the node tells whether the agent
// got the roster, and only then can the agent be asked to stop.
#include "run/run_start.h"

#include "base/str.h"
#include "cluster/nodeset.h"
#include "fleet/agent_start.h"
#include "fleet/fleet_runs.h"

struct run_start_agent {
    struct agent_start agent;
    struct run_start *launch;
    const struct strbuf *roster; // while the roster is being sent
    bool has_roster;             // the agent has, or may have, the roster
    bool stopped;                // the node has confirmed the stop
};

static void on_listening(struct agent_start *s) {
    struct run_start_agent *w = container_of(s, struct run_start_agent, agent);
    w->launch->ports[s->node->index] = s->port;
    fleet_done(s->node, NULL);
}

static void on_over(struct agent_start *s, const struct err *e) {
    if (s->node->busy)
        fleet_done(s->node, e);
    else if (e->code)
        fleet_fail(s->node, e);
}

static int start_agent(struct fleet_node *n, struct err *e) {
    struct run_start_agent *w = n->work;
    return agent_start_begin(&w->agent, &w->launch->spec, "", e);
}

void run_start_roster(const struct run_start *l, const struct fleet *f, struct strbuf *text) {
    struct arena a = {0};
    struct roster r = {.nodes = arena_new(&a, struct roster_node, f->count + 1)};
    for (size_t i = 0; i < f->count; i++)
        if (l->ports[i])
            r.nodes[r.count++] = (struct roster_node){(int)i, f->nodes[i].info->name,
                                                      f->nodes[i].info->address, l->ports[i]};
    job_roster_format(&r, text);
    arena_fini(&a);
}

static int send_roster(struct fleet_node *n, struct err *e) {
    struct run_start_agent *w = n->work;
    w->has_roster = true;
    return agent_start_roster(&w->agent, w->roster, e);
}

// All nodes get the same text.
static int send_rosters(struct run_start *l, struct fleet *f, struct err *e) {
    struct strbuf roster = {0};
    for (size_t i = 0; i < f->count; i++) {
        l->agents[i].roster = &roster;
        if (f->nodes[i].failed)
            l->ports[i] = 0;
    }
    run_start_roster(l, f, &roster);
    int result = fleet_each(f, NULL, send_roster, e);
    strbuf_fini(&roster);
    return result;
}

static int enough(const struct run_start *l, const struct fleet *f, struct err *e) {
    if (f->count - fleet_failures(f) >= (size_t)l->run.nodes_min)
        return 0;
    return fleet_verdict(f, "start", e) < 0 ? -1 : err_set(e, ERR_FAILED, "start: too few nodes");
}

int run_start_agents(struct run_start *l, struct fleet *f, struct err *e) {
    struct run_start_agent *all =
        arena_new(l->context->arena, struct run_start_agent, f->count + 1);
    l->ports = arena_new(l->context->arena, int, f->count);
    l->agents = all;
    for (size_t i = 0; i < f->count; i++) {
        all[i].launch = l;
        all[i].agent = (struct agent_start){
            .node = &f->nodes[i], .on_listening = on_listening, .on_over = on_over};
        f->nodes[i].work = &all[i];
    }
    int result = fleet_each(f, NULL, start_agent, e);
    if (result == 0)
        result = enough(l, f, e);
    if (result == 0)
        result = send_rosters(l, f, e);
    for (size_t i = 0; i < f->count; i++) {
        if (result == 0 || !all[i].has_roster) // else its end is awaited
            agent_start_close(&all[i].agent);
        f->nodes[i].work = NULL;
    }
    return result == 0 ? enough(l, f, e) : -1;
}

// ---- calling it off ----------------------------------------------------------------------------

struct call_off {
    struct fleet *fleet;
    struct timer limit;
    bool late;
};

static void on_limit(struct timer *t) {
    struct call_off *c = container_of(t, struct call_off, limit);
    struct err e = {0};
    c->late = true;
    err_set(&e, ERR_TIMEOUT, "it has not stopped within %d s", LAUNCH_CALL_OFF_MS_MAX / 1000);
    for (size_t i = 0; i < c->fleet->count; i++)
        fleet_done(&c->fleet->nodes[i], &e);
}

// The error is ignored: an agent may exist in either case.
static void on_settled(struct agent_start *s, const struct err *e) {
    (void)e;
    fleet_done(s->node, NULL);
}

static int settle(struct fleet_node *n, struct err *e) {
    struct run_start_agent *w = n->work;
    (void)e;
    w->agent.on_over = on_settled;
    if (!w->agent.run)
        fleet_done(n, NULL);
    return 0;
}

static void on_stopped(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct run_start_agent *w = n->work;
    struct err e = {0};
    if (fleet_answer(r, &e) < 0 && e.code == ERR_NOT_FOUND) // `start` has failed on this node
        err_clear(&e);
    if (w)
        w->stopped |= e.code == ERR_NONE;
    fleet_done(n, &e);
}

static int stop_agent(struct fleet_node *n, struct err *e) {
    struct run_start_agent *w = n->work;
    char *rest = arena_printf(n->fleet->context->arena, "--run %s --grace-ms %d", w->launch->run.id,
                              LAUNCH_CALL_OFF_GRACE_MS);
    return transport_collect(n->link, fleet_line(n, NODE_VERB_STOP, rest), NULL, 0, on_stopped, n,
                             e);
}

static bool have_run(struct run_start *l, struct fleet *f) {
    struct node_runs runs;
    struct err ignored = {0};
    if (fleet_runs_ask(f, l->run.id, &runs, &ignored) < 0)
        return true;
    for (size_t i = 0; i < runs.count; i++)
        if (runs.items[i].round >= 0)
            return true;
    return false;
}

// Selects the nodes that may hold an agent, also those that have failed.
static void choose_nodes(struct run_start *l, struct fleet *f) {
    for (size_t i = 0; i < f->count; i++) {
        struct fleet_node *n = &f->nodes[i];
        n->failed = false;
        err_clear(&n->err);
        n->left_out = l->agents[i].has_roster ? NULL : "no agent was started on it";
        n->work = &l->agents[i];
    }
}

void run_start_call_off(struct run_start *l, struct fleet *f, struct run_start_called_off *out) {
    struct call_off c = {.fleet = f};
    struct err e = {0};
    size_t count = 0, unknown = 0;
    *out = (struct run_start_called_off){0};
    for (size_t i = 0; l->agents && i < f->count; i++)
        count += l->agents[i].has_roster;
    if (count == 0)
        return;
    context_take_interrupt(l->context); // a second one ends the waiting
    screen_note(l->context->screen, "calling the run off on %zu node%s …", count,
                str_plural(count));
    choose_nodes(l, f);
    timer_start(l->context->loop, &c.limit, LAUNCH_CALL_OFF_MS_MAX, on_limit);
    int result = fleet_each(f, NULL, settle, &e);
    if (result == 0 && !c.late) {
        choose_nodes(l, f);
        result = fleet_connect(f, true, &e);
    }
    if (result == 0 && !c.late)
        result = fleet_each(f, NULL, stop_agent, &e);
    out->ran = result < 0 || c.late || have_run(l, f);
    timer_stop(&c.limit);
    const char **names = arena_new(l->context->arena, const char *, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        agent_start_close(&l->agents[i].agent);
        if (l->agents[i].has_roster && !l->agents[i].stopped)
            names[unknown++] = f->nodes[i].info->name;
        f->nodes[i].work = NULL;
    }
    if (unknown) {
        out->unknown = nodeset_fold(l->context->arena, names, unknown);
        out->ran = true;
    }
}
