// SPDX-License-Identifier: Apache-2.0
// Copies of the state of this node on other nodes: the agent's part (copies/keeper.h). The workers
// of a round start when the keeper says that the state is here.
#include "agent/agent_impl.h"

#include "base/clock.h"
#include "base/log.h"

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
    return !a->over && a->joined && !a->stop_told && !a->round_failed &&
           workers_is_idle(&a->workers);
}

static void on_ready(struct agent *a, const struct wire_msg *m) {
    if (!a->awaits_state || m->number != a->round)
        return;
    a->awaits_state = false;
    if (!is_wanted(a))
        return;
    if (clock_mono_ms() >= election_lease_end(&a->election))
        agent_coordinator_lost(a, "this agent was stopped for too long", 0);
    else
        agent_start_round(a);
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
    }
}

int agent_copies_open(struct agent *a, struct err *e) {
    a->keeper.ctx = a;
    if (!a->config->keeper.run_dir)
        return 0;
    return keeper_open(&a->keeper, a->loop, &a->config->keeper, on_note, e);
}

void agent_copies_close(struct agent *a) {
    keeper_close(&a->keeper);
    arena_fini(&a->round_texts);
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
    return a->awaits_state;
}
