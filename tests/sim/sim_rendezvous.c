// SPDX-License-Identifier: Apache-2.0
// A whole run under seeded bad luck: agents that join late, are killed, stop and continue; hosts
// that lose power; networks that split, in one direction too, and hold messages back; connections
// that break, with what is on its way, and come back; forged and repeated requests to resume them;
// clocks that start anywhere and run at different rates. Any node may coordinate, and does.
//
// Safety, checked after every message and step: all workers that run anywhere belong to one round
// of one coordinator, no rank runs twice, a round never has fewer than nodes_min nodes, and a term
// has one coordinator; each message of a session is taken once and in order, and no session is
// taken over. Liveness: when bad luck ends, the run finishes, provided that a quorum of the last
// round is alive; and when connections break and come back but no silence is too long, nothing
// happens at all. The checks themselves are checked: each of a list of broken rules must be
// noticed.
//
//     sim_rendezvous [SEED [COUNT [MUTATION]]]     a failure prints its seed
#include "rendezvous/rendezvous.h"
#include "tests/sim/luck.h"

// ---- bad luck ----

// Nothing that lasts: a cable is out for less than a silence may last, connections break.
static void flap(struct world *w) {
    int at = (int)between(w, 0, NODES - 1), joined = 0;
    for (int i = 0; i < NODES; i++)
        joined += w->nodes[i].joined && w->nodes[i].workers != WORKERS_NONE;
    if (w->now < w->heal_at + FLAP_PAUSE_MS || joined < NODES)
        return;
    for (int i = 0; i < NODES; i++)
        if (chance(w, 50))
            break_some(w, i);
    w->heal_at = w->now + between(w, 1, FLAP_MS_MAX);
    for (int i = 0; i < NODES; i++)
        w->cut[at][i] = w->cut[i][at] = i != at;
    if (chance(w, 30))
        forge(w);
}

// Agents die, within a second or at once, up to all of them; each is started again a moment later.
static void kill_many(struct world *w) {
    int count = (int)between(w, 1, NODES);
    bool at_once = chance(w, 50);
    for (int i = 0; i < NODES && w->heal_at; i++) {
        struct node *n = &w->nodes[i];
        if (!n->up || (int)between(w, 1, NODES) > count)
            continue;
        n->kill_at = w->now + (at_once ? 0 : between(w, 0, 1000));
    }
    w->heal_at = w->now + (w->heal_at ? between(w, 500, 9000) : between(w, 3000, 9000));
    if (w->now >= CALM_MS)
        w->heal_at = END_MS;
}

static void bad_luck(struct world *w) {
    int at = (int)between(w, 0, NODES - 1), other = (int)between(w, 0, NODES - 1);
    for (int i = 0; i < NODES && chance(w, 60); i++) // it likes the one that coordinates
        if (w->nodes[i].r)
            at = i;
    switch (between(w, 0, 11)) {
    case 0: kill_process(w, at); break;
    case 1: power_off(w, at); break;
    case 2: w->nodes[at].frozen = w->nodes[at].up && !w->nodes[at].frozen; break;
    case 3: split(w, false); break;
    case 4: split(w, true); break;
    case 5: w->cut[at][other] = w->cut[other][at] = at != other; break;
    case 6: w->cut[at][other] = at != other; break;
    case 7: break_some(w, other); break;
    case 8: break_some(w, at); break;
    case 9: forge(w); break;
    default: heal(w); break;
    }
}

// ---- one run ----

static void setup(struct world *w, uint64_t seed, enum mutation mutation, enum luck luck) {
    struct message *queue = w->queue ? w->queue : heap_alloc(MESSAGES_MAX * sizeof *queue);
    struct message *kept = w->kept ? w->kept : heap_alloc(KEPT_MAX * sizeof *kept);
    memset(w, 0, sizeof *w);
    w->seed = w->rng = seed;
    w->mutation = mutation;
    w->queue = queue;
    w->kept = kept;
    w->luck = luck;
    w->config =
        (struct rendezvous_config){.nodes_min = luck == LUCK_FLAPS ? NODES : (int)between(w, 1, 3),
                                   .nodes_max = NODES,
                                   .max_restarts = 1000,
                                   .join_timeout_ms = END_MS,
                                   .rejoin_timeout_ms = END_MS,
                                   .last_call_ms = between(w, 0, 4000),
                                   .regroup_call_ms = 500,
                                   .silent_ms_max = SILENT_MS,
                                   .lease_ms = LEASE_MS,
                                   .stop_ms_max = 20000,
                                   .note_ms = 5000};
    for (int at = 0; at < NODES; at++)
        w->nodes[at] = (struct node){.has_host = true,
                                     .up_at = 1 + between(w, 0, 3000),
                                     .offset = between(w, 1, 1000000),
                                     .rate_ppm = between(w, -20000, 20000),
                                     .nproc = (int)between(w, 1, 3)};
}

static void calm_down(struct world *w) {
    heal(w);
    for (int at = 0; at < NODES; at++)
        if (!w->nodes[at].up)
            w->nodes[at].up_at = w->now + 1;
}

static void run(struct world *w) {
    for (w->now = 1; w->now < END_MS && !w->broken && !w->verdict; w->now += STEP_MS) {
        struct message m;
        if (w->now / STEP_MS == CALM_MS / STEP_MS)
            calm_down(w);
        if (w->luck == LUCK_FLAPS && w->now >= w->heal_at && w->heal_at)
            heal(w);
        if (w->luck == LUCK_FLAPS && chance(w, 1))
            flap(w);
        if (w->luck == LUCK_KILLS && w->now >= w->heal_at)
            kill_many(w);
        if (w->luck == LUCK_ALL && w->now < CALM_MS && chance(w, 1) && chance(w, 70))
            bad_luck(w);
        while (!w->broken && next_message(w, &m)) {
            node_take(w, &m);
            message_free(&m);
            check_safety(w);
        }
        for (int at = 0; at < NODES; at++) {
            if (w->nodes[at].kill_at && w->now >= w->nodes[at].kill_at)
                kill_process(w, at);
            node_step(w, at);
        }
        check_safety(w);
    }
    if (!w->broken && !w->verdict && could_go_on(w))
        w->stuck = "the run did not end although a quorum is alive";
    if (!w->broken && w->verdict && w->verdict != VERDICT_FINISHED)
        w->stuck = "the run did not finish";
    if (w->luck == LUCK_KILLS && !w->verdict)
        w->stuck = "the run did not end although every host says who died";
    if (w->luck == LUCK_FLAPS && (w->rounds != 1 || w->lost || w->take_overs))
        w->stuck = "a flap was taken for a loss";
}

struct totals {
    int bad, unsafe, finished, rounds, take_overs, proofs, breaks, resumed, forged, buried;
};

static struct totals run_all(struct world *w, uint64_t first, int count, enum mutation mutation,
                             enum luck luck) {
    struct totals t = {0};
    int bad_max = mutation ? count : 5;
    for (int i = 0; i < count && t.bad < bad_max && !(mutation && t.unsafe); i++) {
        setup(w, first + (uint64_t)i, mutation, luck);
        run(w);
        t.rounds += w->rounds;
        t.take_overs += w->take_overs;
        t.proofs += w->proofs;
        t.breaks += w->breaks;
        t.resumed += w->resumed;
        t.forged += w->forged;
        t.buried += w->buried;
        t.finished += w->verdict == VERDICT_FINISHED;
        t.unsafe += w->broken != NULL;
        t.bad += w->broken || w->stuck;
        if (w->broken || (w->stuck && mutation == MUTATION_NONE))
            diag("seed %llu at %lld ms: %s", (unsigned long long)w->seed, (long long)w->now,
                 w->broken ? w->broken : w->stuck);
        clear(w);
    }
    return t;
}

// The effect of each broken rule, and the seeds around which it shows.
static const struct {
    const char *text;
    uint64_t seed;
    int runs;
    enum { UNSAFE, STUCK, FLAPS } shows; // FLAPS: in runs of connections that come back
} mutations[MUTATION_COUNT] = {
    [MUTATION_SILENCE_IS_PROOF] = {"silence taken for death", 1, 200, UNSAFE},
    [MUTATION_VOTE_AT_ONCE] = {"votes that do not wait for the lease", 1, 20, STUCK},
    [MUTATION_NO_FENCE] = {"a coordinator that does not wait for the fence", 1, 200, UNSAFE},
    [MUTATION_NO_LAST_ROUND] = {"a last round that is forgotten at once", 1, 200, UNSAFE},
    [MUTATION_NO_GUARD] = {"workers that outlive their lease", 1, 200, UNSAFE},
    [MUTATION_NO_LEASE] = {"a coordinator that does not step down", 401, 200, UNSAFE},
    [MUTATION_CUT_IS_PROOF] = {"a broken connection taken for death", 1, 200, UNSAFE},
    [MUTATION_NO_RESUME] = {"a broken connection taken for a loss", 1, 20, FLAPS},
    [MUTATION_RESEND_ALL] = {"messages that come twice", 1, 200, UNSAFE},
    [MUTATION_RESEND_NONE] = {"messages that are not sent again", 1, 200, UNSAFE},
    [MUTATION_ANY_CONNECTION] = {"an old request that takes a session over", 1, 200, UNSAFE},
    [MUTATION_ANY_SESSION] = {"a stranger that takes a session over", 1, 200, UNSAFE}};

static bool noticed(struct world *w, enum mutation m) {
    int runs = mutations[m].runs;
    struct totals t =
        run_all(w, mutations[m].seed, runs, m, mutations[m].shows == FLAPS ? LUCK_FLAPS : LUCK_ALL);
    return mutations[m].shows != UNSAFE ? t.bad > runs / 2 : t.unsafe > 0;
}

int main(int argc, char **argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    int count = argc > 2 ? (int)strtol(argv[2], NULL, 10) : argc > 1 ? 1 : 200;
    enum mutation only = argc > 3 ? (enum mutation)strtol(argv[3], NULL, 10) : MUTATION_NONE;
    static struct world w;
    struct totals t = run_all(&w, first, count, only, LUCK_ALL);
    is_int(t.bad, 0, "%d runs of %d nodes with random faults are safe, and continue with a quorum",
           count, NODES);
    diag("%d finished; %d rounds, %d changes of the coordinator, %d proofs", t.finished, t.rounds,
         t.take_overs, t.proofs);
    ok(count < 100 || (t.finished > count / 2 && t.take_overs > count && t.proofs > count / 10),
       "the runs have faults, and most finish");
    diag("%d connections broke, %d were resumed, %d forged requests", t.breaks, t.resumed,
         t.forged);
    ok(count < 100 || (t.resumed > count / 2 && t.forged > count / 2),
       "the runs have resumed and forged connections");
    t = run_all(&w, first, count, only, LUCK_FLAPS);
    is_int(t.bad, 0, "%d runs with broken and resumed connections: nothing else happens", count);
    diag("%d connections broke, %d were resumed, %d forged requests", t.breaks, t.resumed,
         t.forged);
    ok(count < 100 || (t.resumed > 10 * count && t.finished == count),
       "connections are resumed often, and all runs finish");
    t = run_all(&w, first, count, only, LUCK_KILLS);
    is_int(t.bad, 0, "%d runs of agents that are killed, most of them at once: all continue",
           count);
    ok(count < 100 || (t.finished == count && t.buried > count / 2),
       "all finish, and often a host's answer was needed (%d times)", t.buried);
    for (int m = 1; m < MUTATION_COUNT && argc < 2 && !TAP_SANITIZED; m++)
        ok(noticed(&w, (enum mutation)m), "the fault is noticed: %s", mutations[m].text);
    free(w.queue);
    free(w.kept);
    return done_testing();
}
