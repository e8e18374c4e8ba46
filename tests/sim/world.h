// SPDX-License-Identifier: Apache-2.0
// A world for sim_rendezvous.c: nodes with clocks of their own, connections that keep order but not
// time and break, partitions that may hold one direction only, processes that stop, die and come
// back, and forged requests to resume a session.
//
// Each node runs the real election and, while it coordinates, the real rendezvous. The shell around
// them (agent_*.c, coordinator*.c) and the guard are modelled by their rules.
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "channel/replay.h"
#include "rendezvous/election.h"
#include "rendezvous/rendezvous.h"

enum {
    NODES = 5,
    BEAT_MS = 300,
    LEASE_MS = 2000,
    SILENT_MS = 1500,
    CALM_MS = 40000,
    END_MS = 160000,
    STEP_MS = 10,
    MESSAGES_MAX = 8192,
    MEMBERS = 512, // ids of one rendezvous
    CONNS_MAX = 1 << 17,
    KEPT_MAX = 1 << 15,
    FLAP_MS_MAX = 500, // with beats, retries and delays less than SILENT_MS
    FLAP_PAUSE_MS = 1000,
    REQUESTS = 32, // to resume, of the last time, that are sent again later
};

// Rules that a broken build could break; the simulator must notice each.
enum mutation {
    MUTATION_NONE,
    MUTATION_SILENCE_IS_PROOF, // silence of the coordinator is taken for its death
    MUTATION_VOTE_AT_ONCE,     // votes do not wait for the lease
    MUTATION_NO_FENCE,         // a new coordinator starts at once
    MUTATION_NO_LAST_ROUND,    // the last round's electorate is forgotten before it may be
    MUTATION_NO_GUARD,         // workers outlive their lease
    MUTATION_NO_LEASE,         // the coordinator never steps down, and promises full leases
    MUTATION_CUT_IS_PROOF,     // a connection that breaks is taken for the coordinator's death
    MUTATION_NO_RESUME,        // or for a loss
    MUTATION_RESEND_ALL,       // what the other side has is sent again too
    MUTATION_RESEND_NONE,      // what it does not have is not
    MUTATION_ANY_CONNECTION,   // an old request to resume counts
    MUTATION_ANY_SESSION,      // one for another session does
    MUTATION_COUNT
};

// FLAPS: nothing but short cuts and connections that break. KILLS: nothing but agents that are
// killed, many at once, and started again.
enum luck { LUCK_ALL, LUCK_FLAPS, LUCK_KILLS };

enum worker_state { WORKERS_NONE, WORKERS_RUN, WORKERS_STOPPING, WORKERS_DONE };

enum kind {
    TO_JOIN,
    TO_RESUME,
    TO_BYE,
    TO_BEAT,
    TO_FAILED,
    TO_DONE,
    TO_STOPPED,
    FROM_JOINED,
    FROM_RESUMED,
    FROM_ACK,
    FROM_ROUND,
    FROM_STOP,
    FROM_OVER,
    FROM_DROPPED,
    ASKED,
    ANSWERED,
    CLOSED, // the connection is gone: a process has died, or it was cut
    NOBODY, // the other side's kernel says that no process listens there
};

struct message {
    int64_t at, order;
    enum kind kind;
    int from, to, conn;
    int64_t to_incarnation; // 0: any agent at the address
    int64_t from_incarnation;
    int64_t term, stamp, left, sent, round_term;
    int64_t serial, session, connection, taken; // serial: of what is kept, by the world's count
    struct rendezvous_resume resume;
    bool forged, guessed, torn; // forged: not by .from; torn: not behind what is on its way
    int round, rank, final;
    bool committed;
    struct electorate electorate; // owned
    struct election_counters counters;
    struct election_request request;
    struct election_response response;
    struct election_peer peer; // of ASKED, and back
};

struct side { // one end of a session, and what the world counts to check it
    struct replay session;
    int64_t told, heard, newest; // newest: connection that it has had
};

struct node {
    bool up, frozen;
    int64_t up_at, kill_at; // when it is started again, or killed; 0: never
    int64_t offset, rate_ppm, incarnation;
    bool has_host; // false: no power, nothing answers
    struct election election;
    // the connection to the coordinator
    int conn, conn_to;
    struct side side;
    int64_t connections;
    bool joining, joined;
    int64_t sent[16], seq, beat_at, stamp, join_sent;
    // workers; times are the node's own
    enum worker_state workers;
    int64_t group_term, lease_ms, stop_at, end_at; // lease_ms: as the guard received it last
    int round, rank, nproc;
    bool ends_badly, round_failed, told_over, lease_over;
    // coordinating
    struct rendezvous *r;
    int64_t leads_ms; // until then it has the right to, by its own clock
    int conns[MEMBERS], nodes[MEMBERS];
    struct side sides[MEMBERS];
};

struct world {
    uint64_t rng, seed;
    enum mutation mutation;
    int64_t now, order, incarnation, heal_at;
    int conn;
    enum luck luck;
    bool prompt; // a guard ends its workers at once when its agent dies
    struct rendezvous_config config;
    struct node nodes[NODES];
    bool cut[NODES][NODES]; // from, to
    int64_t late[NODES];    // until then its messages outside of connections come late
    struct message *queue;
    int queued;
    int64_t next_at;      // no message is due before
    struct message *kept; // of all sessions, for the whole run
    int kept_count;
    struct message requests[REQUESTS];
    int request_count;
    bool dead[CONNS_MAX]; // connections
    int64_t terms[4096];  // incarnation that coordinated in that term
    int rounds, take_overs, proofs, breaks, resumed, forged, lost, buried, failures;
    enum rendezvous_verdict verdict;
    const char *broken, *stuck; // what was unsafe; why it did not end
};

#endif
