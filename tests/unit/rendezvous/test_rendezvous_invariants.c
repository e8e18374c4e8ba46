// SPDX-License-Identifier: Apache-2.0
// The invariants of the election and of the rendezvous: each of them, broken, ends the process.
#include "base/err.h"
#include "rendezvous/election_impl.h"
#include "rendezvous/rendezvous_impl.h"
#include "tests/tap.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static bool aborts(void (*check)(void *), void *state) {
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        check(state);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGABRT;
}

static void check_election(void *state) {
    election_check(state);
}

static void check_rendezvous(void *state) {
    rendezvous_check(state);
    rendezvous_check_members(state);
}

static void test_election_invariants(void) {
    struct election good = {.config.incarnation = 1,
                            .term = 2,
                            .highest_term = 2,
                            .state = ELECTION_FOLLOWER,
                            .leader_term = 2,
                            .voted_for = 3,
                            .leader.incarnation = 3,
                            .seed_count = ELECTION_SEEDS_MAX};
    struct election e = good;
    ok(!aborts(check_election, &e), "a sound follower passes");
#define BROKEN(what, change)                                                                       \
    e = good, change, ok(aborts(check_election, &e), "an election does not pass: %s", what)
    BROKEN("a term above the highest", e.term = e.leader_term = 3);
    BROKEN("too many seeds", e.seed_count++);
    BROKEN("a queue that is read past its end", e.actions.first = 1);
    BROKEN("a leader of another term", e.leader_term = 1);
    BROKEN("a vote for another one", e.voted_for = 4);
    BROKEN("a follower of itself", e.leader.incarnation = e.voted_for = 1);
    BROKEN("a leader with another leader", e.state = ELECTION_LEADER);
    BROKEN("a follower that connects", e.connecting = true);
    BROKEN("a follower with a proof", e.leader_dead_ms = 5);
    BROKEN("a searching agent that is disconnected",
           (e.state = ELECTION_SEARCHING, e.disconnected = true));
    BROKEN("a precandidate that may not stand", e.state = ELECTION_PRECANDIDATE);
    BROKEN("a candidate that has voted for another one",
           (e.state = ELECTION_CANDIDATE, e.may_stand = true));
    BROKEN("a leader that connects", (e.state = ELECTION_LEADER, e.leader.incarnation = 1,
                                      e.voted_for = 1, e.connecting = true));
    BROKEN("a leader with a proof", (e.state = ELECTION_LEADER, e.leader.incarnation = 1,
                                     e.voted_for = 1, e.leader_dead_ms = 5));
    BROKEN("a leader that is disconnected", (e.state = ELECTION_LEADER, e.leader.incarnation = 1,
                                             e.voted_for = 1, e.disconnected = true));
#undef BROKEN
    e = good, e.state = ELECTION_CANDIDATE, e.may_stand = true, e.voted_for = 1;
    ok(!aborts(check_election, &e), "a sound candidate passes");
    e.state = ELECTION_PRECANDIDATE, e.voted_for = 3, e.leader_dead_ms = 5, e.connecting = true;
    ok(!aborts(check_election, &e), "a sound precandidate passes");
}

static void test_rendezvous_invariants(void) {
    struct rendezvous_member m = {.state = MEMBER_ACTIVE, .incarnation = 7, .voter = -1};
    struct rendezvous_member *slots[2] = {&m, NULL};
    int64_t incarnations[2] = {7, 0};
    int active[1] = {0};
    struct rendezvous good = {.phase = PHASE_RUN,
                              .world_size = 1,
                              .slots = slots,
                              .incarnations = incarnations,
                              .slot_count = 2,
                              .member_count = 1,
                              .active = active,
                              .active_count = 1};
    struct rendezvous r = good;
    const struct rendezvous_member kept = m;
    ok(!aborts(check_rendezvous, &r), "a sound round passes");
#define BROKEN(what, change)                                                                       \
    r = good, m = kept, incarnations[0] = 7, incarnations[1] = 0, active[0] = 0, change,           \
    ok(aborts(check_rendezvous, &r), "a rendezvous does not pass: %s", what)
    BROKEN("a verdict while it runs", r.verdict = VERDICT_FAILED);
    BROKEN("an end without a verdict", r.phase = PHASE_OVER);
    BROKEN("a final stop that has not begun", r.verdict_next = VERDICT_STOPPED);
    BROKEN("a round without nodes", r.active_count = 0);
    BROKEN("a round without ranks", r.world_size = 0);
    BROKEN("a round without a number", r.round = -1);
    BROKEN("a failure to excuse while it runs", r.blame.open = true);
    BROKEN("a round before none", (r.phase = PHASE_STOP, m.state = MEMBER_STOPPING, r.round = -2));
    BROKEN("restarts below none", r.restarts = -1);
    BROKEN("crashes below none", r.crashes = -1);
    BROKEN("a member too many", r.member_count = 2);
    BROKEN("more members than slots", r.member_count = 3);
    BROKEN("fewer members than none", r.member_count = -1);
    BROKEN("a queue that is read past its end", r.actions.first = 1);
    BROKEN("a member under another incarnation", incarnations[0] = 8);
    BROKEN("an incarnation without a member", incarnations[1] = 8);
    BROKEN("a member with another id", m.id = 1);
    BROKEN("a vote outside of the electorate", m.voter = 0);
    BROKEN("a member that stops while it runs", m.state = MEMBER_STOPPING);
    BROKEN("a member that runs while it gathers", r.phase = PHASE_GATHER);
    BROKEN("a member that runs while it stops", r.phase = PHASE_STOP);
    BROKEN("a member that is done while it gathers",
           (r.phase = PHASE_GATHER, m.state = MEMBER_DONE));
    BROKEN("a rank of a member that is gone", active[0] = 1);
    BROKEN("a rank of no member at all", active[0] = -2);
    BROKEN("a member of another rank", m.group_rank = 1);
#undef BROKEN
    r = good, m = kept, incarnations[0] = 7, incarnations[1] = 0, active[0] = -1;
    r.phase = PHASE_DEPOSED, r.verdict = r.verdict_next = VERDICT_FAILED, r.blame.open = true;
    ok(!aborts(check_rendezvous, &r), "a coordinator that stepped down passes, whatever it was");
    r.phase = PHASE_OVER, r.blame.open = false, m.state = MEMBER_DONE;
    ok(!aborts(check_rendezvous, &r), "the end of a run passes");
    r.phase = PHASE_STOP, r.verdict = VERDICT_NONE, m.state = MEMBER_STOPPING, r.blame.open = true;
    ok(!aborts(check_rendezvous, &r), "a final stop passes");
}

int main(void) {
    test_election_invariants();
    test_rendezvous_invariants();
    return done_testing();
}
