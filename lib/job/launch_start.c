// SPDX-License-Identifier: Apache-2.0
// Starting the agents of a run on all its nodes.
#include "job/launch.h"

#include "job/agent_start.h"

struct start_node {
    struct agent_start agent;
    struct launch *launch;
};

static void on_listening(struct agent_start *s) {
    struct start_node *w = container_of(s, struct start_node, agent);
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
    struct start_node *w = n->work;
    return agent_start_begin(&w->agent, &w->launch->spec, "", e);
}

void launch_roster(const struct launch *l, const struct fleet *f, struct roster *out) {
    *out = (struct roster){.nodes = arena_new(l->session->arena, struct roster_node, f->count)};
    for (size_t i = 0; i < f->count; i++)
        if (l->ports[i])
            out->nodes[out->count++] = (struct roster_node){(int)i, f->nodes[i].info->name,
                                                            f->nodes[i].info->address, l->ports[i]};
}

static int send_roster(struct fleet_node *n, struct err *e) {
    struct start_node *w = n->work;
    struct roster roster;
    for (size_t i = 0; i < n->fleet->count; i++)
        if (n->fleet->nodes[i].failed)
            w->launch->ports[i] = 0;
    launch_roster(w->launch, n->fleet, &roster);
    return agent_start_roster(&w->agent, &roster, e);
}

int launch_start(struct launch *l, struct fleet *f, struct err *e) {
    struct start_node *work = arena_new(l->session->arena, struct start_node, f->count + 1);
    l->ports = arena_new(l->session->arena, int, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        work[i].launch = l;
        work[i].agent = (struct agent_start){
            .node = &f->nodes[i], .on_listening = on_listening, .on_over = on_over};
        f->nodes[i].work = &work[i];
    }
    int result = fleet_each(f, NULL, start_agent, e);
    size_t well = f->count - fleet_failures(f);
    if (result == 0 && well < (size_t)l->run.nodes_min) {
        result = fleet_verdict(f, "start", e);
        if (result == 0)
            result = err_set(e, ERR_FAILED, "start: too few nodes");
    }
    if (result == 0)
        result = fleet_each(f, NULL, send_roster, e);
    for (size_t i = 0; i < f->count; i++) {
        agent_start_close(&work[i].agent);
        f->nodes[i].work = NULL;
    }
    well = f->count - fleet_failures(f);
    if (result == 0 && well < (size_t)l->run.nodes_min)
        result = fleet_verdict(f, "start", e);
    return result;
}
