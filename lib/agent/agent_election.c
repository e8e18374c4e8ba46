// SPDX-License-Identifier: Apache-2.0
// Becomes the coordinator, and ceases to be it.
#include "agent/agent_impl.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

static void on_idle(struct coordinator *c) {
    struct agent *a = coordinator_ctx(c);
    a->coordinator_idle = true;
    if (!a->over) // its own connection was cut before it read the verdict
        agent_end(a, NODE_FAILED, rendezvous_reason(coordinator_rendezvous(c)), NULL, 0);
    agent_maybe_leave_loop(a);
}

static void on_deposed(struct coordinator *c, const char *why) {
    struct agent *a = coordinator_ctx(c);
    agent_coordinator_lost(a, why, 0);
}

// This agent learns of the round before all others.
static void on_round(struct coordinator *c) {
    struct agent *a = coordinator_ctx(c);
    const struct rendezvous *r = coordinator_rendezvous(c);
    const struct electorate *e = rendezvous_electorate(r);
    struct election_peer *peers = heap_alloc((size_t)(e->count + 1) * sizeof *peers);
    struct election_counters counters;
    rendezvous_counters(r, &counters);
    coordinator_election_peers(c, peers, e->count);
    election_merge_counters(&a->election, &counters);
    election_set_electorate(&a->election, clock_mono_ms(), e, peers, e->count, e->count);
    free(peers);
}

static void on_members(struct coordinator *c) {
    agent_write_members_soon(coordinator_ctx(c));
}

static void on_ask(struct coordinator *c, struct channel *l, const struct net_address *from,
                   const struct wire_msg *m) {
    agent_elect_answer(coordinator_ctx(c), l, from, m);
}

static void on_disconnected(struct coordinator *c, const struct election_peer *peer) {
    agent_elect_probe(coordinator_ctx(c), peer);
}

static const struct coordinator_events coordinator_table = {
    on_idle, on_deposed, on_round, on_members, on_ask, on_disconnected};

void agent_lead_take_over(struct agent *a, const struct election_action *action) {
    struct coordinator_config config = a->config->coordinator;
    char why[RENDEZVOUS_REASON_BYTES_MAX];
    struct err e;
    bool first = action->counters.attempt < 0;
    snprintf(why, sizeof why, "node %.200s is gone: its agent coordinated", a->leader);
    struct rendezvous_history history = {.term = action->term,
                                         .not_before_ms = action->not_before_ms,
                                         .exclusive_until_ms = action->exclusive_until_ms,
                                         .counters = action->counters,
                                         .electorate = &a->election.electorate,
                                         .peers = a->election.peers,
                                         .why = why};
    config.admission = &a->admission;
    config.rendezvous.incarnation = a->election.config.incarnation;
    if (!first)
        log_warn("this agent coordinates now", "term=%lld lost=%s not_before_ms=%lld",
                 (long long)action->term, a->leader,
                 (long long)(action->not_before_ms - clock_mono_ms()));
    agent_link_close(a, "its agent coordinates now");
    coordinator_close(a->coordinator);
    timer_stop(&a->drop);
    a->coordinator_idle = false;
    a->coordinator =
        coordinator_open(a->loop, &config, &history, &a->events, &coordinator_table, a);
    if (agent_link_open_local(a, &e) < 0)
        agent_end(a, NODE_FAILED, e.text, NULL, 0);
}

// Closes the coordinator outside its own callbacks. Until then it starts nothing and renews no
// lease.
static void on_drop(struct timer *t) {
    struct agent *a = container_of(t, struct agent, drop);
    coordinator_close(a->coordinator);
    a->coordinator = NULL;
}

void agent_lead_drop(struct agent *a) {
    coordinator_depose(a->coordinator);
    timer_start(a->loop, &a->drop, 0, on_drop);
}
