// SPDX-License-Identifier: Apache-2.0
// Random messages that no agent of ours sends, in any order, to the election and to the rendezvous.
// Their invariants end the process when one is broken: no peer may be able to do that. The tables
// of states must be sound, and the messages reach every state.
#include "base/err.h"
#include "rendezvous/election_impl.h"
#include "rendezvous/rendezvous_impl.h"
#include "tests/tap.h"

enum { RUNS = 300, STEPS = 400, NODES = 6 };

static uint64_t rng;

static uint64_t random_next(void) { // splitmix64 (Steele, Lea, Flood 2014)
    uint64_t z = rng += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t between(int64_t low, int64_t high) {
    return low + (int64_t)(random_next() % (uint64_t)(high - low + 1));
}

static bool chance(int percent) {
    return between(1, 100) <= percent;
}

// Mostly a small number, near those that mean something; sometimes an extreme one.
static int64_t odd(void) {
    static const int64_t extremes[] = {INT64_MIN, INT64_MIN / 2, -1,       INT32_MIN, INT32_MAX,
                                       1LL << 31, INT64_MAX / 2, INT64_MAX};
    return chance(85) ? between(0, 8)
                      : extremes[between(0, sizeof extremes / sizeof *extremes - 1)];
}

// ---- the tables ----

static void test_tables(void) {
    int count, twice = 0;
    const struct election_transition *e = election_transitions(&count);
    unsigned reached = 1u << ELECTION_SEARCHING, left = 0;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < i; k++)
            twice += e[i].from == e[k].from && e[i].event == e[k].event;
        reached |= 1u << e[i].to;
        left |= 1u << e[i].from;
    }
    is_int(twice, 0, "the election has one row at most for a state and an event");
    ok(reached == 31 && left == 31, "every state can be reached and left");
    const struct rendezvous_transition *r = rendezvous_transitions(&count);
    reached = 1u << PHASE_GATHER, left = twice = 0;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < i; k++)
            twice += r[i].from == r[k].from && r[i].event == r[k].event;
        reached |= 1u << r[i].to;
        left |= 1u << r[i].from;
    }
    is_int(twice, 0, "the rendezvous has one row at most for a phase and an event");
    ok(reached == 31 && left == 15, "every phase can be reached, and all but the last one left");
    for (int s = 0; s <= ELECTION_LEADER; s++)
        ok(election_state_name((enum election_state)s)[0], "state %d has a name", s);
    for (int s = 0; s < ELECTION_EVENT_COUNT; s++)
        ok(election_event_name((enum election_event)s) != NULL, "event %d has a name", s);
    for (int s = 0; s < RENDEZVOUS_EVENT_COUNT; s++)
        ok(rendezvous_event_name((enum rendezvous_event)s) != NULL, "event %d has a name, too", s);
}

// ---- the election ----

static struct election_peer random_peer(void) {
    struct election_peer p = {.incarnation = chance(90) ? between(0, NODES) : odd(),
                              .port = (int)between(0, NODES)};
    snprintf(p.address, sizeof p.address, "10.0.0.%d", (int)between(0, 2));
    return p;
}

static struct election_counters random_counters(void) {
    return (struct election_counters){(int)odd(), (int)odd(), (int)odd()};
}

static void random_electorate(struct election *e, int64_t now) {
    struct voter voters[NODES];
    struct election_peer peers[NODES];
    struct electorate of = {.term = odd(),
                            .round = (int)odd(),
                            .committed = chance(50),
                            .tie_breaker = between(0, NODES),
                            .tie_breaker_last = odd(),
                            .voters = voters,
                            .count = (int)between(0, NODES)};
    for (int i = 0; i < of.count; i++) {
        voters[i] = (struct voter){.incarnation = between(1, NODES),
                                   .rounds = (unsigned)between(0, 3),
                                   .dead = chance(20)};
        peers[i] = random_peer();
        if (chance(70))
            peers[i].incarnation = voters[i].incarnation;
    }
    election_set_electorate(e, now, &of, peers, of.count, chance(80) ? of.count : (int)odd());
}

static void random_request(struct election *e, int64_t now) {
    struct election_request q = {.kind = (enum election_request_kind)between(0, REQUEST_ANNOUNCE),
                                 .term = chance(60) ? e->term + between(0, 2) : odd(),
                                 .round_term = odd(),
                                 .round = (int)odd(),
                                 .from = random_peer()};
    struct election_response r;
    election_requested(e, now, &q, &r);
}

static void random_response(struct election *e, int64_t now) {
    struct election_peer from = random_peer();
    struct election_response r = {.kind = (enum election_request_kind)between(0, REQUEST_ANNOUNCE),
                                  .request_term = chance(70) ? e->term : odd(),
                                  .term = chance(70) ? e->highest_term : odd(),
                                  .granted = chance(70),
                                  .unaffiliated = chance(50),
                                  .incarnation = chance(70) ? from.incarnation : odd(),
                                  .age_ms = odd(),
                                  .leader_term = chance(70) ? 0 : odd(),
                                  .leader = random_peer(),
                                  .counters = random_counters()};
    election_answered(e, now, &from, &r);
}

static void random_event(struct election *e, int64_t now) {
    struct election_peer p = random_peer();
    struct election_counters c = random_counters();
    switch (between(0, 13)) {
    case 0: election_joined(e, now, now - between(0, 300), e->term + between(-1, 1), &p); break;
    case 1: election_joined(e, now, now, odd(), &p); break;
    case 2: election_heartbeat_acked(e, now, now - between(0, 300), odd()); break;
    case 3: election_leader_round(e, odd(), (int)odd(), chance(50)); break;
    case 4:
    case 5: random_electorate(e, now); break;
    case 6: election_merge_counters(e, &c); break;
    case 7: election_leader_lost(e, now); break;
    case 8: election_disconnected(e, now); break;
    case 9: election_resumed(e, now); break;
    case 10: election_process_dead(e, now, &p); break;
    case 11: random_request(e, now); break;
    default: random_response(e, now); break;
    }
}

static void test_election(void) {
    int seen[ELECTION_LEADER + 1] = {0};
    for (int run = 0; run < RUNS; run++) {
        struct election e;
        struct election_action a;
        struct election_config c = {.incarnation = 1,
                                    .silent_ms_max = 1500,
                                    .lease_ms = 2200,
                                    .request_ms = 100,
                                    .stagger_ms = 200,
                                    .election_timeout_ms = 600,
                                    .request_ms_max = 1000,
                                    .connect_ms_max = 3000,
                                    .join_ms_max = 20000,
                                    .give_up_ms = 30000,
                                    .may_bootstrap = chance(50)};
        int64_t now = 1000000;
        rng = (uint64_t)run;
        election_open(&e, &c, now);
        for (int i = 0; i < 3; i++) {
            struct election_peer p = random_peer();
            election_seed(&e, p.address, p.port);
            if (chance(30))
                election_seed_alias(&e);
        }
        for (int i = 0; i < STEPS; i++, now += between(0, chance(10) ? 3000 : 60)) {
            if (election_deadline(&e) <= now)
                election_tick(&e, now);
            seen[e.state]++;
            random_event(&e, now);
            seen[e.state]++;
            while (election_next(&e, &a))
                ;
        }
        election_close(&e);
    }
    for (int s = 0; s <= ELECTION_LEADER; s++)
        ok(seen[s] > RUNS / 10, "the election gets into state %s (%d times) and out of it",
           election_state_name((enum election_state)s), seen[s]);
}

// An electorate that comes while this agent stands: the votes were for another one.
static void test_regrouped(void) {
    struct election_config c = {.incarnation = 1,
                                .silent_ms_max = 1500,
                                .lease_ms = 2200,
                                .request_ms = 100,
                                .election_timeout_ms = 600,
                                .join_ms_max = 20000,
                                .give_up_ms = 30000};
    struct voter voters[] = {{.incarnation = 1, .rounds = QUORUM_THIS},
                             {.incarnation = 2, .rounds = QUORUM_THIS},
                             {.incarnation = 3, .rounds = QUORUM_THIS}};
    struct voter others[] = {{.incarnation = 2, .rounds = QUORUM_THIS}};
    struct election_peer peers[] = {{.incarnation = 1, .port = 1},
                                    {.incarnation = 2, .port = 2},
                                    {.incarnation = 3, .port = 3}};
    struct electorate of = {.term = 1, .committed = true, .voters = voters, .count = 3};
    struct electorate other = {.term = 9, .committed = true, .voters = others, .count = 1};
    struct election e;
    election_open(&e, &c, 0);
    election_joined(&e, 0, 0, 1, &peers[1]);
    election_set_electorate(&e, 0, &of, peers, 3, 3);
    election_leader_lost(&e, 1600);
    for (int64_t now = 1600; now < 3000 && e.state != ELECTION_PRECANDIDATE; now += 100)
        election_tick(&e, now);
    is_int(e.state, ELECTION_PRECANDIDATE, "an agent stands");
    election_set_electorate(&e, 3000, &other, &peers[1], 1, 1);
    is_int(e.state, ELECTION_SEARCHING, "a candidate that gets another electorate searches");
    struct election_response yes = {.kind = REQUEST_PREVOTE, .granted = true, .incarnation = 2};
    election_answered(&e, 3001, &peers[1], &yes);
    is_int(e.state, ELECTION_SEARCHING, "a late pre-vote does not change that");
    election_close(&e);
}

static void test_counters(void) {
    struct election_counters own = {3, 1, 2};
    static const struct {
        const char *what;
        struct election_counters c, then;
    } cases[] = {
        {"a later round", {4, 0, 0}, {4, 1, 2}},
        {"more restarts bring their crashes", {0, 2, 0}, {4, 2, 0}},
        {"as many restarts, more crashes", {0, 2, 1}, {4, 2, 1}},
        {"as many restarts, fewer crashes", {0, 2, 0}, {4, 2, 1}},
        {"a round that no run has", {ELECTION_COUNTER_MAX + 1, 3, 3}, {4, 2, 1}},
        {"restarts below none", {5, -1, 0}, {4, 2, 1}},
        {"crashes below none", {5, 3, -1}, {4, 2, 1}},
        {"a round before none", {-2, 3, 3}, {4, 2, 1}},
        {"no round, more restarts", {-1, 3, 0}, {4, 3, 0}},
        {"the highest that counts", {ELECTION_COUNTER_MAX, 3, 0}, {ELECTION_COUNTER_MAX, 3, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        election_counters_merge(&own, &cases[i].c);
        ok(own.attempt == cases[i].then.attempt && own.restarts == cases[i].then.restarts &&
               own.crashes == cases[i].then.crashes,
           "the counters are right: %s", cases[i].what);
    }
}

// ---- the rendezvous ----

static struct rendezvous *random_rendezvous(int64_t now) {
    struct voter voters[NODES];
    struct election_peer peers[NODES] = {{0}};
    struct electorate of = {.term = between(1, 3),
                            .round = (int)between(0, 3),
                            .committed = chance(70),
                            .tie_breaker = between(1, NODES),
                            .voters = voters,
                            .count = (int)between(0, NODES)};
    for (int i = 0; i < of.count; i++)
        voters[i] = (struct voter){.incarnation = between(1, NODES),
                                   .rounds = (unsigned)between(0, 3),
                                   .dead = chance(20)};
    int min = (int)between(1, 3);
    struct rendezvous_config c = {.incarnation = 1,
                                  .nodes_min = min,
                                  .nodes_max = min + (int)between(0, 3),
                                  .nodes_expected = (int)between(0, 4),
                                  .max_restarts = (int)between(0, 3),
                                  .join_timeout_ms = 20000,
                                  .rejoin_timeout_ms = 20000,
                                  .last_call_ms = between(0, 1000),
                                  .regroup_call_ms = 100,
                                  .silent_ms_max = 1500,
                                  .lease_ms = 2200,
                                  .stop_ms_max = 5000,
                                  .note_ms = 1000,
                                  .crash_ms = between(0, 3000),
                                  .crashes_max = 3,
                                  .backoff_ms = 100};
    struct rendezvous_history h = {.term = between(1, 4),
                                   .not_before_ms = now + between(0, 1000),
                                   .exclusive_until_ms = now + between(0, 3000),
                                   .counters = {(int)between(-1, 5), 0, (int)between(0, 2)},
                                   .electorate = &of,
                                   .peers = peers,
                                   .why = "a test"};
    return chance(50) ? rendezvous_open(&c, now) : rendezvous_take_over(&c, now, &h);
}

static void random_join(struct rendezvous *r, int64_t now) {
    struct rendezvous_node n = {.name = chance(50) ? "a" : "b",
                                .address = "10.0.0.1",
                                .role = chance(50) ? "r" : "",
                                .node_rank = (int)between(-1, 3),
                                .incarnation = chance(90) ? between(0, NODES) : odd(),
                                .session = odd(),
                                .connection = odd(),
                                .port = (int)odd(),
                                .store_port = (int)odd(),
                                .nproc = (int)between(1, 1 << 16),
                                .term = chance(98) ? between(-1, 1) : odd(),
                                .last_round = (int)between(-1, 9)};
    int id;
    struct err e;
    rendezvous_join(r, now, &n, &id, &e);
}

static void random_report(struct rendezvous *r, int64_t now) {
    int id = (int)between(-1, 9), round = chance(80) ? rendezvous_round(r) : (int)odd();
    struct rendezvous_resume x = {between(0, NODES), odd(), odd()};
    struct err e;
    switch (between(0, 14)) {
    case 0:
    case 1:
    case 2: random_join(r, now); break;
    case 3: rendezvous_lost(r, now, id, "lost"); break;
    case 4: rendezvous_leave(r, now, id, "leaves"); break;
    case 5: rendezvous_failed(r, now, id, round, "failed"); break;
    case 6: rendezvous_done(r, now, id, round); break;
    case 7:
    case 8: rendezvous_stopped(r, now, id, round, (int)odd()); break;
    case 9: rendezvous_disconnected(r, now, id, "broke"); break;
    case 10: rendezvous_resume(r, now, &x, &id, &e); break;
    case 11: rendezvous_process_dead(r, now, odd(), chance(50), "dead"); break;
    case 12:
        if (chance(3))
            rendezvous_stop(r, now, (enum rendezvous_verdict)between(1, VERDICT_STOPPED), "stop");
        else if (chance(2))
            rendezvous_depose(r, "deposed");
        break;
    default:
        rendezvous_heartbeat(r, now, id, chance(90) ? now - between(0, 300) : odd(), odd(), round);
    }
}

static void test_rendezvous(void) {
    int seen[PHASE_DEPOSED + 1] = {0};
    for (int run = 0; run < RUNS; run++) {
        struct rendezvous_action a;
        int64_t now = 1000000;
        rng = (uint64_t)run;
        struct rendezvous *r = random_rendezvous(now);
        for (int i = 0; i < STEPS; i++, now += between(0, chance(5) ? 800 : 60)) {
            if (rendezvous_deadline(r) <= now)
                rendezvous_tick(r, now);
            for (int id = 0; id < 10 && chance(70); id++)
                rendezvous_heartbeat(r, now, id, now - 1, rendezvous_term(r), rendezvous_round(r));
            random_report(r, now);
            rendezvous_check(r);
            rendezvous_check_members(r);
            seen[rendezvous_phase(r)]++;
            while (rendezvous_next(r, &a))
                ;
        }
        rendezvous_close(r);
    }
    for (int s = 0; s <= PHASE_DEPOSED; s++)
        ok(seen[s] > RUNS / 10, "the rendezvous gets into phase %s (%d times)",
           rendezvous_phase_name((enum rendezvous_phase)s), seen[s]);
}

static void test_wrong_term(void) {
    struct rendezvous_config c = {
        .incarnation = 1, .nodes_min = 1, .nodes_max = 2, .silent_ms_max = 1500, .lease_ms = 2200};
    static const struct {
        const char *what;
        int64_t term;
        enum err_code code;
        enum rendezvous_phase phase;
    } cases[] = {{"of no plausible term", 2LL + ELECTION_TERM_STEP_MAX, ERR_FORMAT, PHASE_GATHER},
                 {"of the last term of all", INT64_MAX, ERR_FORMAT, PHASE_GATHER},
                 {"of a later term", 1LL + ELECTION_TERM_STEP_MAX, ERR_BUSY, PHASE_DEPOSED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rendezvous *r = rendezvous_open(&c, 0);
        struct rendezvous_node n = {.name = "a",
                                    .address = "10.0.0.1",
                                    .role = "r",
                                    .node_rank = -1,
                                    .last_round = -1,
                                    .nproc = 1,
                                    .incarnation = 2,
                                    .term = cases[i].term};
        int id;
        struct err e;
        ok(rendezvous_join(r, 1, &n, &id, &e) < 0 && e.code == cases[i].code,
           "a node %s is refused", cases[i].what);
        is_int(rendezvous_phase(r), cases[i].phase, "the coordinator %s",
               cases[i].phase == PHASE_DEPOSED ? "steps down" : "continues");
        rendezvous_close(r);
    }
}

int main(void) {
    test_tables();
    test_election();
    test_regrouped();
    test_counters();
    test_rendezvous();
    test_wrong_term();
    return done_testing();
}
