// SPDX-License-Identifier: Apache-2.0
// Copies of the state of this node on other nodes, and inputs that each round deals anew: the
// agent's part (copies/keeper.h). The workers of a round start when the keeper says that state and
// inputs are here.
#include "agent/agent_impl.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

static void note_event(struct agent *a, enum node_event kind, const struct wire_msg *m) {
    struct json_out *j = events_begin(&a->events, kind);
    json_str(j, "peer", m->name);
    json_int(j, "number", m->number);
    json_int(j, "bytes", m->bytes);
    if (kind == EVENT_STATE_RESTORED)
        json_str(j, "of", m->reason);
    events_end(&a->events);
}

// A stop or a lost coordinator may have ended the round meanwhile.
static bool is_wanted(const struct agent *a) {
    return !a->over && a->joined && !a->stop_requested && !a->round_failed &&
           workers_is_idle(&a->workers);
}

static void start_if_ready(struct agent *a) {
    if (a->awaits_state || a->awaits_inputs || !is_wanted(a))
        return;
    if (clock_mono_ms() >= election_lease_end(&a->election))
        agent_coordinator_lost(a, "this agent was stopped for too long", 0);
    else
        agent_start_round(a);
}

static void on_ready(struct agent *a, const struct wire_msg *m) {
    if (!a->awaits_state || m->number != a->round)
        return;
    a->awaits_state = false;
    start_if_ready(a);
}

// May come before this agent knows of the round.
static void on_inputs(struct agent *a, const struct wire_msg *m) {
    if (m->number < 0 || m->number > INT32_MAX || a->inputs_round == m->number)
        return;
    a->inputs_round = (int)m->number;
    snprintf(a->inputs_reason, sizeof a->inputs_reason, "%s", m->reason);
    if (!a->awaits_inputs || a->inputs_round != a->round)
        return;
    a->awaits_inputs = false;
    start_if_ready(a);
}

static void input_event(struct agent *a, enum node_event kind, const struct wire_msg *m) {
    struct json_out *j = events_begin(&a->events, kind);
    json_int(j, "round", m->number);
    json_str(j, "input", m->name);
    json_int(j, "files", m->file);
    if (kind == EVENT_INPUT_LACKS) {
        json_int(j, "group_rank", m->group_rank);
        json_int(j, "nodes", m->group_world);
    } else {
        json_int(j, "bytes", m->bytes);
    }
    events_end(&a->events);
}

static void on_note(struct keeper *k, const struct wire_msg *m) {
    struct agent *a = k->ctx;
    if (m->kind == KEEPER_READY) {
        on_ready(a, m);
    } else if (m->kind == KEEPER_COPIED) {
        note_event(a, EVENT_STATE_COPIED, m);
    } else if (m->kind == KEEPER_RESTORED) {
        log_info("the state of this node is back", "from=%s of=%s bytes=%lld", m->name, m->reason,
                 (long long)m->bytes);
        note_event(a, EVENT_STATE_RESTORED, m);
    } else if (m->kind == KEEPER_INPUTS) {
        on_inputs(a, m);
    } else if (m->kind == KEEPER_DEALT) {
        input_event(a, EVENT_INPUT_DEALT, m);
    } else if (m->kind == KEEPER_LACKS) {
        input_event(a, EVENT_INPUT_LACKS, m);
    } else if (m->kind == KEEPER_KEPT) {
        input_event(a, EVENT_INPUT_KEPT, m);
    }
}

int agent_copies_open(struct agent *a, struct err *e) {
    a->keeper.ctx = a;
    a->inputs_round = -1;
    if (!a->config->keeper.run_dir)
        return 0;
    return keeper_open(&a->keeper, a->loop, &a->config->keeper, on_note, e);
}

void agent_copies_close(struct agent *a) {
    keeper_close(&a->keeper);
    arena_fini(&a->round_texts);
    arena_fini(&a->input_texts);
}

// Addresses as they are reachable from here.
void agent_copies_ring(struct agent *a, const struct wire_msg *m) {
    struct wire_msg ring = *m;
    ring.nodes = heap_alloc((size_t)(m->node_count + 1) * sizeof *ring.nodes);
    for (int64_t i = 0; i < m->node_count; i++) {
        ring.nodes[i] = m->nodes[i];
        ring.nodes[i].address = net_sent_address(m->nodes[i].address, a->peer.address);
    }
    keeper_ring(&a->keeper, &ring);
    free(ring.nodes);
}

bool agent_copies_wait(struct agent *a) {
    a->awaits_state = keeper_is_needed(&a->keeper, a->round);
    a->awaits_inputs = a->config->keeper.input_count && a->inputs_round != a->round;
    return a->awaits_state || a->awaits_inputs;
}

void agent_copies_env(struct agent *a) {
    const struct keeper_spec *k = &a->config->keeper;
    struct arena *texts = &a->input_texts;
    int n = 0;
    arena_reset(texts);
    struct job_pair *env = arena_new(texts, struct job_pair, 2 * (size_t)k->input_count + 1);
    for (int i = 0; i < k->input_count; i++) {
        const struct job_input *in = &k->inputs[i];
        const char *name = env_variable(texts, "DTCTL_INPUT_", in->name);
        char *share = job_share_folder(texts, in->path, a->group_world, a->group_rank);
        env[n++] =
            (struct job_pair){name, in->deal->extracts ? job_input_tree(texts, share) : share};
        env[n++] = (struct job_pair){
            arena_printf(texts, "%s_LIST", name),
            job_share_list(texts, k->run_dir, in->name, a->group_world, a->group_rank)};
    }
    a->facts.inputs = env;
    a->facts.input_count = n;
}
