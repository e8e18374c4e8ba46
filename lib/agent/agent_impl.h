// SPDX-License-Identifier: Apache-2.0
// Internals of the agent. Private to agent*.c.
#ifndef AGENT_AGENT_IMPL_H
#define AGENT_AGENT_IMPL_H

#include "agent/agent.h"
#include "agent/control_socket.h"
#include "agent/event_log.h"
#include "agent/health_check.h"
#include "agent/host_sampler.h"
#include "agent/log_times.h"
#include "agent/preemption_notice.h"
#include "channel/admission.h"
#include "sys/listener.h"
#include "tcpstore/store_server.h"
#include "worker/file_timer.h"

struct agent {
    const struct agent_config *config;
    struct loop *loop;
    struct events events;
    struct coordinator *coordinator; // NULL: another node coordinates
    struct control control;
    struct listener listener;
    struct admission admission; // connections that have not joined

    // the connection to the coordinator (agent_uplink.c)
    struct channel link;
    struct replay session; // spans successive connections to the same coordinator
    int64_t connections;   // number of join or resume requests of this agent
    int64_t cut_ms;        // when the last connection broke
    bool joined;           // the coordinator has accepted this agent
    struct timer beat;
    int64_t beats[16], seq; // send times of recent heartbeats
    int64_t stamp, join_ms; // the coordinator's last stamp; when JOIN was sent
    char connect_error[256];
    int64_t noted_ms;                     // when it was last logged
    struct election_peer peer;            // the agent to connect to
    char address[NET_ADDRESS_BYTES_MAX];  // advertised
    char leader[ELECTION_NAME_BYTES_MAX]; // the coordinator's name

    // the election (agent_peers.c)
    struct election election;
    struct timer elect, drop;
    struct asker *askers;       // requests to other agents
    struct answerer *answerers; // connections of agents that ask this one
    int asker_count;

    // the round (agent_round.c)
    enum node_state state;
    char reason[RENDEZVOUS_REASON_BYTES_MAX];
    struct workers workers;
    struct store_server *store, *store_next; // of this round, and of the next one
    int round, restarts, max_restarts, group_rank, group_world, rank;
    int64_t round_ms, started_ms, stop_ms;
    bool round_failed, stop_requested, stop_final, done_sent, leaving, rejoin;
    int present, expected;
    struct worker_facts facts;
    struct arena round_texts; // addresses in facts, until the workers start

    // copies of the state on other nodes (agent_copies.c)
    struct keeper keeper;
    bool awaits_state, awaits_inputs;       // the workers of this round have not started
    int inputs_round;                       // of the keeper's last word on inputs; -1: none
    char inputs_reason[ERR_TEXT_BYTES_MAX]; // why the inputs of that round are not here
    struct arena input_texts;
    char master_addr[NET_ADDRESS_BYTES_MAX], ifname[NET_IFNAME_BYTES_MAX];

    // GPUs of the last round (agent_watchdogs.c)
    struct timer devices;
    int64_t devices_until_ms;

    // the preemption notice of this node (agent_preemption.c)
    struct notice_watch notice_watch;
    struct timer notice_leave, notice_signal;
    struct notice notice;
    struct timer time_limit; // first the notice, then the stop (agent_shutdown.c)
    bool notice_unsent;      // no coordinator was connected

    // timers and health checks (agent_watchdogs.c)
    struct file_timers timers;
    struct health health;

    struct conn stream; // to the server of streamed inputs (agent_stream.c)

    // workers stuck in the kernel (agent_watchdogs.c)
    struct timer stuck;
    int64_t all_stuck_ms,
        killed_ms; // since when only stuck processes remain; when they were killed

    struct log_times log_times;
    struct host_sampler sampler;

    struct deferred status_due; // agent_status.c
    struct timer members_due;

    // the end
    bool over, coordinator_idle;
    int exit_status;
    int64_t begin_ms;
    bool ended; // nothing of the run remains here
    int signals_seen;
    struct arena end_arena;
};

// agent_peers.c
int agent_elect_open(struct agent *a, struct err *e);
void agent_elect_close(struct agent *a);
void agent_elect_pump(
    struct agent *a); // carries out the actions of the election and sets its timer
// Takes a new connection before its first message, while this agent does not coordinate.
void agent_elect_adopt(struct agent *a, int fd, const struct net_address *peer);
void agent_elect_answer(struct agent *a, struct channel *l, const struct net_address *from,
                        const struct wire_msg *m);
// JOINED and ROUND carry the electorate. False: this agent has voted since; the link is closed.
bool agent_elect_joined(struct agent *a, const struct wire_msg *m);
void agent_elect_round(struct agent *a, const struct wire_msg *m);
// Checks whether the agent at this address still exists. If not, informs the coordinator of this
// agent.
void agent_elect_probe(struct agent *a, const struct election_peer *peer);

// agent_election.c
void agent_lead_take_over(struct agent *a, const struct election_action *action);
void agent_lead_drop(struct agent *a); // closes this agent's coordinator soon

// agent_uplink.c
void agent_link_connect(struct agent *a, const struct election_peer *to);
int agent_link_open_local(struct agent *a, struct err *e);
void agent_link_close(struct agent *a, const char *why);
void agent_link_join(struct agent *a); // requests to join (again)
// Logs, at intervals, why no coordinator was found.
void agent_link_note(struct agent *a, const struct election_peer *peer, const char *text);
void agent_link_renew(struct agent *a);  // passes the end of the lease to the guard
void agent_link_beat(struct agent *a);   // sends a heartbeat now
void agent_link_resume(struct agent *a); // opens another connection after one that broke
void agent_send(struct agent *a, const struct wire_msg *m);

// agent_round.c
extern const struct workers_events agent_workers_table;
void agent_on_message(struct agent *a, const struct wire_msg *m);
void agent_coordinator_lost(struct agent *a, const char *why, int64_t silent_ms); // agent_uplink.c
int agent_open_store(struct agent *a, struct err *e); // for the next round; its port, or -1
void agent_stop_workers(struct agent *a, int signal, int64_t grace_ms, const char *why);

void agent_start_round(struct agent *a); // the workers, once the node has its state

// agent_copies.c
int agent_copies_open(struct agent *a, struct err *e);
void agent_copies_close(struct agent *a);
void agent_copies_ring(struct agent *a, const struct wire_msg *m);
bool agent_copies_wait(struct agent *a); // false: the workers may start at once
void agent_copies_env(struct agent *a);  // adds the variables of dealt inputs to the facts

// agent_shutdown.c
void agent_limit_open(struct agent *a); // starts the time limit of the run
void agent_end(struct agent *a, enum node_state state, const char *reason,
               const struct worker_failure *failures, int64_t count);
void agent_maybe_leave_loop(struct agent *a);
void agent_request_stop(struct agent *a, const char *reason, int signal, int64_t grace_ms);

void agent_leave(struct agent *a, const char *reason, int signal, int64_t grace_ms);

void agent_round_gone(struct agent *a); // nothing of the round remains on this node

// agent_watchdogs.c
void agent_devices_wait(
    struct agent *a); // waits until no process of the run holds a GPU, then continues
bool agent_devices_waits(const struct agent *a);
void agent_devices_close(struct agent *a);

// agent_preemption.c
int agent_notice_open(struct agent *a, struct err *e);
void agent_notice_close(struct agent *a);
void agent_notice_signal(struct agent *a); // to all workers, as soon as each can handle it
void agent_notice_joined(struct agent *a); // the coordinator is connected
void agent_notice_received(struct agent *a,
                           const struct wire_msg *m); // a notice from the coordinator
bool agent_notice_takes(struct agent *a,
                        const struct worker *x); // true: this exit counts as leaving

// agent_watchdogs.c
int agent_watch_open(struct agent *a, struct err *e);
void agent_watch_close(struct agent *a);

// agent_watchdogs.c
void agent_stuck_watch(struct agent *a); // watches the workers of the round until none remains
void agent_stuck_close(struct agent *a);

// agent_stream.c
int agent_stream_open(struct agent *a, struct err *e);
void agent_stream_close(struct agent *a); // the server ends

// agent_status.c
void agent_set_state(struct agent *a, enum node_state state, const char *reason);
void agent_write_status(struct agent *a);
void agent_write_status_soon(struct agent *a);  // once, after this batch of callbacks
void agent_write_members_soon(struct agent *a); // for members that changed

#endif
