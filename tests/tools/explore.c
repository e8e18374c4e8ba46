// SPDX-License-Identifier: Apache-2.0
// Explores the election, the rendezvous and the sessions with two to four nodes: starting from a
// running group, every sequence of events up to a depth, shortest first. After each sequence the
// world is hashed without its times; a known state is not continued. Then everything heals, and the
// run must finish if a quorum of its last round lives.
//
// Events: an agent dies, stops or continues, a node is cut off in one or both directions, a
// connection breaks and loses its messages, an old request is sent again, a node's messages arrive
// late and out of order, a worker fails, a dead agent is restarted, all heals. Clocks have rates of
// their own; by the seed, a round needs two nodes, and of four nodes one is a spare. The checks are
// luck.h's: one group at a time, one node with the right to coordinate, no duplicate rank, no round
// with a lost member, each failure counted once.
//
//     explore COUNT SEED [MUTATION [NODES PATH]]
//
// COUNT: of sequences, for each number of nodes. PATH: one sequence, as a failure prints it.
#include "rendezvous/rendezvous.h"
#include "tests/sim/luck.h"

#include <stdlib.h>

enum {
    DEPTH_MAX = 12,
    PATHS_MAX = 1 << 20,
    SEEN_MAX = 1 << 22, // a power of two
    BEGIN_MS = 6000,    // by then all run
    // After the last event, for the run to finish. Workers fail for up to CALM_MS more.
    SETTLE_MS = 180000,
};

enum event {
    KILL,
    START,
    FREEZE,
    CUT,
    DEAF,
    BREAK,
    LATE,
    FAIL,
    NODE_EVENTS,
    HEAL = NODE_EVENTS,
    FORGE
};

struct path {
    unsigned char len, events[DEPTH_MAX]; // event * NODES + node
};

static struct explorer {
    struct path *paths; // a queue
    size_t first, count;
    uint64_t *seen;
    size_t states, runs, faults, bad;
    int nodes;
    uint64_t seed;
    enum mutation mutation;
} x;

// ---- one step -----------------------------------------------------------------------------------

static bool applies(const struct world *w, enum event event, int at) {
    const struct node *n = &w->nodes[at];
    switch (event) {
    case KILL: return n->up;
    case START: return !n->up;
    case BREAK: return n->up && n->conn && n->conn_to != at;
    case FORGE: return w->request_count > 0;
    case FAIL: return n->up && n->workers == WORKERS_RUN;
    case FREEZE:
    case CUT:
    case DEAF:
    case LATE: return n->up;
    case HEAL: return true;
    }
    return false;
}

static void apply(struct world *w, enum event event, int at) {
    struct node *n = &w->nodes[at];
    switch (event) {
    case KILL:
        kill_process(w, at);
        n->up_at = 0;
        break;
    case START: n->up_at = w->now + 1; break;
    case FREEZE: n->frozen = !n->frozen; break;
    case CUT:
    case DEAF:
        for (int i = 0; i < NODES; i++) {
            w->cut[i][at] = i != at;
            w->cut[at][i] = i != at && event == CUT;
        }
        break;
    case BREAK: break_some(w, at); break;
    case LATE: // each by another time, so that they overtake each other between connections
        for (int i = 0; i < w->queued; i++)
            if (w->queue[i].from == at && w->queue[i].conn == 0)
                w->queue[i].at += between(w, 0, 700);
        w->late[at] = w->now + 1000;
        break;
    case FAIL:
        n->end_at = clock_of(w, n);
        n->ends_badly = true;
        break;
    case HEAL: heal(w); break;
    case FORGE: forge(w); break;
    }
}

static void step(struct world *w) {
    struct message m;
    while (!w->broken && next_message(w, &m)) {
        node_take(w, &m);
        message_free(&m);
        check_safety(w);
    }
    for (int at = 0; at < x.nodes; at++)
        node_step(w, at);
    check_safety(w);
    w->now += STEP_MS;
}

static bool all_run(const struct world *w) {
    int count = 0;
    for (int at = 0; at < x.nodes; at++)
        count += w->nodes[at].workers == WORKERS_RUN;
    return count == w->config.nodes_max;
}

static void run_until(struct world *w, int64_t until) {
    while (w->now < until && !w->broken && !w->verdict)
        step(w);
}

// ---- states -------------------------------------------------------------------------------------

static void mix(uint64_t *h, int64_t value) {
    *h = (*h ^ (uint64_t)value) * 0x100000001b3u;
    *h ^= *h >> 29;
}

// The node of a present or past incarnation: terms and incarnations only grow.
static int node_of(const struct world *w, int64_t incarnation) {
    for (int at = 0; at < x.nodes; at++)
        if (w->nodes[at].up && w->nodes[at].incarnation == incarnation)
            return at;
    return incarnation ? NODES : -1;
}

static uint64_t hash_state(const struct world *w) {
    uint64_t h = 14695981039346656037u;
    int64_t newest = 0;
    for (int at = 0; at < x.nodes; at++)
        if (w->nodes[at].up && w->nodes[at].election.highest_term > newest)
            newest = w->nodes[at].election.highest_term;
    for (int at = 0; at < x.nodes; at++) {
        const struct node *n = &w->nodes[at];
        const struct election *e = &n->election;
        mix(&h, n->up * 8 + n->frozen * 4 + n->workers);
        for (int i = 0; i < x.nodes; i++)
            mix(&h, w->cut[at][i]);
        if (!n->up)
            continue;
        mix(&h, e->state * 8 + e->may_stand * 4 + e->disconnected * 2 + (e->leader_dead_ms > 0));
        mix(&h, newest - e->highest_term < 4 ? newest - e->highest_term : 4);
        mix(&h, e->highest_term - e->term < 4 ? e->highest_term - e->term : 4);
        mix(&h, node_of(w, e->leader.incarnation) * 16 + node_of(w, e->voted_for));
        mix(&h, n->joined * 4 + n->joining * 2 + n->side.session.cut);
        for (int i = 0; i < e->electorate.count; i++)
            mix(&h, node_of(w, e->electorate.voters[i].incarnation) * 16 +
                        e->electorate.voters[i].rounds * 4 + e->electorate.voters[i].dead * 2 +
                        e->reported_dead[i]);
        mix(&h, e->electorate.committed * 16 + node_of(w, e->electorate.tie_breaker));
        mix(&h, n->r ? 1 + (int)rendezvous_phase(n->r) : 0);
        if (n->r)
            mix(&h, rendezvous_member_count(n->r) * 64 + rendezvous_active_count(n->r) * 2 +
                        (clock_of(w, n) < n->leads_ms));
    }
    return h ? h : 1;
}

static bool is_new(uint64_t h) {
    size_t at = (size_t)h & (SEEN_MAX - 1);
    while (x.seen[at] && x.seen[at] != h)
        at = (at + 1) & (SEEN_MAX - 1);
    if (x.seen[at] || x.states >= SEEN_MAX / 2)
        return false;
    x.seen[at] = h;
    x.states++;
    return true;
}

// ---- one sequence -------------------------------------------------------------------------------

static void begin(struct world *w) {
    struct message *queue = w->queue, *kept = w->kept;
    memset(w, 0, sizeof *w);
    w->queue = queue;
    w->kept = kept;
    w->seed = w->rng = x.seed;
    w->mutation = x.mutation;
    w->prompt = true; // a group that is founded anew when all have died has no fence
    w->config = (struct rendezvous_config){.nodes_min = 1 + (x.seed >> 1 & 1),
                                           .nodes_max = x.nodes - (x.nodes == 4 && x.seed & 1),
                                           .max_restarts = 1000,
                                           .join_timeout_ms = END_MS,
                                           .rejoin_timeout_ms = END_MS,
                                           .last_call_ms = 2000,
                                           .regroup_call_ms = 500,
                                           .silent_ms_max = SILENT_MS,
                                           .lease_ms = LEASE_MS,
                                           .stop_ms_max = 20000,
                                           .note_ms = 5000};
    for (int at = 0; at < NODES; at++)
        w->nodes[at] = (struct node){.has_host = true,
                                     .up_at = at < x.nodes,
                                     .offset = between(w, 1, 1000000),
                                     .rate_ppm = between(w, -20000, 20000),
                                     .nproc = 1};
    w->now = 1;
}

static void finish(struct world *w) {
    heal(w);
    for (int at = 0; at < x.nodes; at++)
        if (!w->nodes[at].up)
            w->nodes[at].up_at = w->now + 1;
    run_until(w, w->now + SETTLE_MS);
    if (!w->broken && !w->verdict && could_go_on(w))
        w->stuck = "the run did not end although a quorum is alive";
    if (!w->broken && w->verdict && w->verdict != VERDICT_FINISHED)
        w->stuck = "the run did not finish";
}

// Bit i: after it, event i could happen. 0: this state was seen before.
static uint64_t go(struct world *w, const struct path *p) {
    static const int64_t pauses[] = {40, 350, 900, 1700, 2600}; // below and above each limit
    uint64_t open = 0;
    begin(w);
    while (w->now < BEGIN_MS && !all_run(w))
        step(w);
    for (int i = 0; i < p->len && !w->broken && !w->verdict; i++) {
        enum event event = (enum event)(p->events[i] / NODES);
        if (applies(w, event, p->events[i] % NODES))
            apply(w, event, p->events[i] % NODES);
        size_t pause = (size_t)between(w, 0, sizeof pauses / sizeof *pauses - 1);
        run_until(w, w->now + pauses[pause]);
    }
    if (!w->broken && !w->verdict && is_new(hash_state(w)))
        for (int event = 0; event <= FORGE; event++)
            for (int at = 0; at < (event < NODE_EVENTS ? x.nodes : 1); at++)
                open |= (uint64_t)applies(w, (enum event)event, at) << (event * NODES + at);
    finish(w);
    x.runs++;
    x.faults += p->len;
    return open;
}

static void tell(const struct world *w, const struct path *p) {
    char text[DEPTH_MAX * 4 + 1] = "-";
    size_t len = 0;
    for (int i = 0; i < p->len; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%d", i ? "," : "", p->events[i]);
    diag("%s; again: explore 1 %llu %d %d %s", w->broken ? w->broken : w->stuck,
         (unsigned long long)x.seed, x.mutation, x.nodes, text);
    x.bad++;
}

static void one(struct world *w, const struct path *p) {
    uint64_t open = go(w, p);
    if (w->broken || w->stuck)
        tell(w, p);
    for (int i = 0; i < 64 && p->len < DEPTH_MAX && x.count < PATHS_MAX; i++) {
        if (!(open >> i & 1))
            continue;
        struct path *next = &x.paths[x.count++];
        *next = *p;
        next->events[next->len++] = (unsigned char)i;
    }
    clear(w);
}

// Of the sequences that wait, one of the shortest or, every other time, any: so depth is reached.
static void explore(struct world *w, int nodes, size_t count) {
    x.nodes = nodes;
    x.first = x.count = 0;
    memset(x.seen, 0, SEEN_MAX * sizeof *x.seen);
    x.paths[x.count++] = (struct path){0};
    uint64_t rng = x.seed + (uint64_t)nodes;
    for (size_t i = 0; i < count && x.first < x.count && x.bad < 5; i++) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        if (rng >> 63) {
            size_t other = x.first + (size_t)(rng >> 8) % (x.count - x.first);
            struct path p = x.paths[other];
            x.paths[other] = x.paths[x.first];
            x.paths[x.first] = p;
        }
        struct path p = x.paths[x.first++];
        one(w, &p);
    }
}

static struct path parse(const char *text) {
    struct path p = {0};
    for (char *end; p.len < DEPTH_MAX && *text >= '0' && *text <= '9'; text = end + (*end == ',')) {
        long event = strtol(text, &end, 10);
        p.events[p.len++] = (unsigned char)(event < FORGE * NODES ? event : FORGE * NODES);
    }
    return p;
}

int main(int argc, char **argv) {
    static struct world w;
    size_t count = argc > 1 ? strtoull(argv[1], NULL, 0) : 5000;
    x.seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    x.mutation = argc > 3 ? (enum mutation)strtol(argv[3], NULL, 10) : MUTATION_NONE;
    x.paths = heap_alloc(PATHS_MAX * sizeof *x.paths);
    x.seen = heap_alloc(SEEN_MAX * sizeof *x.seen);
    w.queue = heap_alloc(MESSAGES_MAX * sizeof *w.queue);
    w.kept = heap_alloc(KEPT_MAX * sizeof *w.kept);
    size_t states = 0;
    if (argc > 5) {
        struct path p = parse(argv[5]);
        x.nodes = (int)strtol(argv[4], NULL, 10);
        one(&w, &p);
        is_int((long long)x.bad, 0, "the sequence does no harm");
        return done_testing();
    }
    for (int nodes = 2; nodes <= 4; nodes++) {
        x.states = 0;
        explore(&w, nodes, count);
        states += x.states;
        is_int((long long)x.bad, 0, "%d nodes: safe, and it goes on, in %zu states (%zu to go)",
               nodes, x.states, x.count - x.first);
        ok(x.bad || x.states > count / 8, "%d nodes: sequences lead to new states", nodes);
    }
    diag("explore: seed=%llu rounds=%zu states=%zu faults=%zu", (unsigned long long)x.seed, x.runs,
         states, x.faults);
    free(x.paths);
    free(x.seen);
    free(w.queue);
    free(w.kept);
    return done_testing();
}
