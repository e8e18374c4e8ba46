// SPDX-License-Identifier: Apache-2.0
#include "job/revive.h"

#include "base/log.h"
#include "job/attend.h"

// Whether there is a run left to come back to.
static bool is_wanted(const struct revive_node *x) {
    const struct follow *f = x->revive->follow;
    if (f->over_ms || f->leave || f->stopping)
        return false;
    for (size_t i = 0; i < f->count; i++)
        if (&f->nodes[i] != x->node && !f->nodes[i].over && !f->nodes[i].reviving)
            return true;
    return false;
}

static void on_pause(struct timer *t);

static bool try_later(struct revive_node *x) {
    if (x->tries >= REVIVE_TRIES_MAX || !is_wanted(x))
        return false;
    timer_start(x->revive->follow->session->loop, &x->pause, (int64_t)REVIVE_PAUSE_MS << x->tries,
                on_pause);
    x->tries++;
    return true;
}

static void failed(struct revive_node *x, const struct err *e) {
    const char *name = x->node->node->info->name;
    agent_start_close(&x->agent);
    if (try_later(x)) {
        log_warn("an agent could not be started again", "node=%s reason=\"%s\"", name, e->text);
        return;
    }
    if (e->code)
        log_error("an agent could not be started again", "node=%s reason=\"%s\"", name, e->text);
    follow_stays_lost(x->node);
}

static void on_listening(struct agent_start *s) {
    struct revive_node *x = container_of(s, struct revive_node, agent);
    struct launch *l = x->revive->launch;
    struct roster roster;
    struct err e = {0};
    l->ports[s->node->index] = s->port;
    launch_roster(l, x->revive->follow->fleet, &roster);
    if (agent_start_roster(s, &roster, &e) < 0)
        failed(x, &e);
}

static void on_over(struct agent_start *s, const struct err *e) {
    struct revive_node *x = container_of(s, struct revive_node, agent);
    if (e->code) {
        failed(x, e);
        return;
    }
    agent_start_close(s);
    follow_again(x->node);
}

static void on_pause(struct timer *t) {
    struct revive_node *x = container_of(t, struct revive_node, pause);
    const struct follow *f = x->revive->follow;
    const char *name = x->node->node->info->name;
    struct job_spec spec = x->revive->launch->spec;
    struct arena a = {0};
    struct err e = {0};
    if (!is_wanted(x)) {
        follow_stays_lost(x->node);
        return;
    }
    screen_note(f->session->screen, "starting the agent of %s again (%d of %d)", name, x->tries,
                REVIVE_TRIES_MAX);
    attend_note(f->session, f->run, "agent-started-again", "peer", name, "try",
                arena_printf(&a, "%d of %d", x->tries, REVIVE_TRIES_MAX), "reason",
                "its agent vanished while its host was there", NULL);
    arena_fini(&a);
    spec.agent_starts = x->tries;
    if (spec.join_timeout_ms > REVIVE_JOIN_MS_MAX)
        spec.join_timeout_ms = REVIVE_JOIN_MS_MAX;
    if (!x->agent.node->up || !x->agent.node->ready)
        err_set(&e, ERR_NET, "the node is out of reach");
    else if (agent_start_begin(&x->agent, &spec, " --again", &e) == 0)
        return;
    failed(x, &e);
}

static bool on_lost(void *ctx, struct follow_node *n) {
    struct revive *r = ctx;
    struct revive_node *x = &r->nodes[n->index];
    if (x->pause.loop || x->agent.run) // it goes on already
        return true;
    return try_later(x);
}

void revive_init(struct revive *r, struct launch *l, struct follow *f) {
    *r = (struct revive){.launch = l, .follow = f};
    if (l->run.max_restarts == 0)
        return;
    r->nodes = arena_new(f->session->arena, struct revive_node, f->count);
    for (size_t i = 0; i < f->count; i++) {
        struct revive_node *x = &r->nodes[i];
        x->revive = r;
        x->node = &f->nodes[i];
        x->agent = (struct agent_start){
            .node = f->nodes[i].node, .on_listening = on_listening, .on_over = on_over};
    }
    f->revive = on_lost;
    f->revive_ctx = r;
}

void revive_close(struct revive *r) {
    for (size_t i = 0; r->nodes && i < r->follow->count; i++) {
        timer_stop(&r->nodes[i].pause);
        agent_start_close(&r->nodes[i].agent);
    }
    r->nodes = NULL;
}
