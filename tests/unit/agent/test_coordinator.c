// SPDX-License-Identifier: Apache-2.0
// A coordinator and two members over socket pairs: one asks to resume a session that cannot be
// resumed, as the first event after the last call, which begins a round with it.
#include "agent/coordinator.h"

#include "base/clock.h"
#include "base/log.h"
#include "tests/tap.h"

#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS_MAX = 60 * 1000, CALL_MS_MIN = 50, CALL_MS_MAX = 20 * 1000, OWN = 1, OTHER = 2 };

static struct err e;
static struct channel_secret secret = {.run = "x"};
static struct loop *loop;
static struct channel own, other;
static struct coordinator *coordinator;
static int own_rounds, own_stops, joined, ready, losses, refusals;
static int members, both; // as the coordinator reports them: now, and once both had joined
static int64_t session;   // of the other member
static char refusal[ERR_TEXT_BYTES_MAX];

// ---- events of the coordinator ----

static void on_idle(struct coordinator *c) {
    (void)c;
}

static void on_deposed(struct coordinator *c, const char *why) {
    (void)c;
    diag("deposed: %s", why);
}

static void on_round(struct coordinator *c) {
    (void)c;
}

static void on_members(struct coordinator *c) {
    members = rendezvous_member_count(coordinator_rendezvous(c));
}

static void on_ask(struct coordinator *c, struct channel *l, const struct net_address *from,
                   const struct wire_msg *m) {
    (void)c, (void)l, (void)from, (void)m;
}

static void on_disconnected(struct coordinator *c, const struct election_peer *peer) {
    (void)c, (void)peer;
    losses++;
}

// ---- members ----

static void on_ready(struct channel *l) {
    (void)l;
    ready++;
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    joined += m->type == WIRE_JOINED;
    if (m->type == WIRE_JOINED && l == &other)
        session = m->session;
    own_rounds += l == &own && m->type == WIRE_ROUND;
    own_stops += l == &own && m->type == WIRE_STOP;
}

static void on_end(struct channel *l, const struct err *why) {
    if (l != &other)
        return;
    snprintf(refusal, sizeof refusal, "%s", why->text);
    refusals++;
}

// Turns the loop until the number is at least `least`.
static void wait_for(const int *number, int least) {
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX; *number < least;) {
        if (clock_mono_ms() > until)
            bail_out("a message does not come");
        loop_once(loop, 20);
    }
}

// Returns with the greeting done on both sides.
static void connect_member(struct channel *l, const struct net_address *from) {
    static const struct channel_events events = {on_ready, on_message, on_end};
    int fds[2], before = ready;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0 ||
        channel_open(l, loop, fds[0], CHANNEL_AGENT, false, &secret, &events, &e) < 0)
        bail_out("no link: %s", e.text);
    coordinator_adopt(coordinator, fds[1], from);
    wait_for(&ready, before + 1);
}

static void join(struct channel *l, int64_t incarnation, const char *name) {
    int before = joined;
    channel_send(l, &(struct wire_msg){.type = WIRE_JOIN,
                                       .incarnation = incarnation,
                                       .name = name,
                                       .node_rank = -1,
                                       .address = "127.0.0.1",
                                       .port = 1,
                                       .store_port = 1,
                                       .nproc = 1,
                                       .role = "default",
                                       .round = -1,
                                       .connection = 1});
    wait_for(&joined, before + 1);
}

// The last call for more nodes ends while the loop stands still. So the request to resume is the
// first event after it, and its member begins the round. False: the call was over too soon.
static bool resume_at_the_last_call(int64_t call_ms) {
    static const struct coordinator_events events = {on_idle,    on_deposed, on_round,
                                                     on_members, on_ask,     on_disconnected};
    struct admission admission = {.max = 8};
    struct events log = {0};
    struct net_address from;
    struct coordinator_config config = {.rendezvous = {.incarnation = OWN,
                                                       .nodes_min = 2,
                                                       .nodes_max = 3,
                                                       .max_restarts = 3,
                                                       .join_timeout_ms = WAIT_MS_MAX,
                                                       .rejoin_timeout_ms = WAIT_MS_MAX,
                                                       .last_call_ms = call_ms,
                                                       .silent_ms_max = WAIT_MS_MAX,
                                                       .lease_ms = WAIT_MS_MAX,
                                                       .stop_ms_max = WAIT_MS_MAX,
                                                       .note_ms = WAIT_MS_MAX},
                                        .secret = secret,
                                        .admission = &admission};
    own_rounds = own_stops = joined = ready = losses = refusals = 0;
    refusal[0] = '\0';
    if (net_resolve("127.0.0.1", 1, &from, &e) < 0 || events_open(&log, NULL, "own", &e) < 0)
        bail_out("%s", e.text);
    coordinator = coordinator_open(loop, &config, NULL, &log, &events, NULL);
    connect_member(&own, NULL);
    join(&own, OWN, "own");
    connect_member(&other, &from);
    join(&other, OTHER, "other");
    both = members;
    int64_t called_ms = clock_mono_ms(); // not before the call began
    channel_close(&other);
    wait_for(&losses, 1);
    connect_member(&other, &from);
    bool in_time = rendezvous_phase(coordinator_rendezvous(coordinator)) == PHASE_GATHER;
    if (in_time) {
        while (clock_mono_ms() <= called_ms + call_ms)
            usleep(1000);
        channel_send(&other, &(struct wire_msg){.type = WIRE_RESUME,
                                                .incarnation = OTHER,
                                                .session = session,
                                                .connection = 2,
                                                .taken = 1000000});
        wait_for(&refusals, 1);
        wait_for(&own_stops, 1);
    }
    coordinator_close(coordinator);
    channel_close(&own);
    channel_close(&other);
    events_close(&log);
    return in_time;
}

int main(void) {
    log_open("test", LOG_ERROR, LOG_PLAIN);
    loop = loop_open(&e);
    if (!loop)
        bail_out("no loop: %s", e.text);
    int64_t call_ms = CALL_MS_MIN;
    while (!resume_at_the_last_call(call_ms) && call_ms < CALL_MS_MAX)
        call_ms *= 2; // a busy machine
    is_str(refusal, "too much was sent meanwhile", "a session with an impossible count is refused");
    is_int(both, 2, "members that join are reported");
    is_int(members, 1, "a member that is gone is reported");
    is_int(own_rounds, 1, "the round that was about to begin begins");
    is_int(own_stops, 1, "the round stops, since its member is gone");
    loop_close(loop);
    return done_testing();
}
