// SPDX-License-Identifier: Apache-2.0
// Inside the agent. Only agent*.c includes this.
#ifndef AGENT_AGENT_IMPL_H
#define AGENT_AGENT_IMPL_H

#include "agent/agent.h"
#include "agent/control_socket.h"
#include "agent/event_log.h"
#include "agent/health_check.h"
#include "agent/preemption_notice.h"
#include "channel/guests.h"
#include "store/store_server.h"
#include "sys/listener.h"
#include "worker/file_timer.h"

struct agent {
    const struct agent_config *config;
    struct loop *loop;
    struct events events;
    struct coordinator *coordinator; // NULL: elsewhere
    struct control control;
    struct listener listener;
    struct guests guests; // connections that have not joined

    // the connection to the coordinator (agent_uplink.c)
    struct channel link;
    struct replay session; // with it, over one connection after the other
    int64_t connections;   // that this agent has asked to join or resume with
    int64_t cut_ms;        // when the last one broke
    bool joined;           // it has accepted this agent
    struct timer beat;
    int64_t beats[16], seq; // send times of recent beats
    int64_t stamp, join_ms; // the coordinator's last stamp; when JOIN was sent
    char connect_error[256];
    int64_t noted_ms;                     // when it was last told
    struct election_peer peer;            // whom it connects to
    char address[NET_ADDRESS_BYTES_MAX];  // advertised
    char leader[ELECTION_NAME_BYTES_MAX]; // the coordinator's name

    // who coordinates (agent_peers.c)
    struct election election;
    struct timer elect, drop;
    struct asker *askers;       // questions to other agents
    struct answerer *answerers; // connections of agents that ask this one
    int asker_count;

    // the round (agent_round.c)
    enum node_state state;
    char reason[RENDEZVOUS_REASON_BYTES_MAX];
    struct workers workers;
    struct store_server *store, *store_next; // of this round, and for the one to come
    int round, restarts, max_restarts, group_rank, group_world, rank;
    int64_t round_ms, started_ms, stop_ms;
    bool round_failed, stop_told, stop_final, done_told, leaving, rejoin;
    int present, expected;
    struct worker_facts facts;
    char master_addr[NET_ADDRESS_BYTES_MAX], ifname[NET_IFNAME_BYTES_MAX];

    // GPUs of the last round (agent_watchdogs.c)
    struct timer devices;
    int64_t devices_until_ms;

    // the announced end of this node (agent_preemption.c)
    struct notice_watch notice_watch;
    struct timer notice_leave, notice_signal;
    struct notice notice;
    struct timer time_limit; // first the notice, then the stop (agent_shutdown.c)
    bool notice_unsent;      // there was no coordinator to tell

    // what workers and the outside watch (agent_watchdogs.c)
    struct file_timers timers;
    struct health health;

    // workers that do not get out of the kernel (agent_watchdogs.c)
    struct timer stuck;
    int64_t all_stuck_ms, killed_ms; // since when nothing else was left; when that was killed

    // the end
    bool over, coordinator_idle;
    int exit_status;
    int64_t begin_ms;
    int signals_seen;
    struct arena end_arena;
};

// agent_peers.c
int agent_elect_open(struct agent *a, struct err *e);
void agent_elect_close(struct agent *a);
void agent_elect_pump(struct agent *a); // carries out what the election wants and sets its timer
// A connection of an agent that has said nothing yet, while this one does not coordinate.
void agent_elect_adopt(struct agent *a, int fd, const struct net_address *peer);
void agent_elect_answer(struct agent *a, struct channel *l, const struct net_address *from,
                        const struct wire_msg *m);
// JOINED and ROUND carry the electorate. False: this agent has voted since; the link is closed.
bool agent_elect_joined(struct agent *a, const struct wire_msg *m);
void agent_elect_round(struct agent *a, const struct wire_msg *m);
// Is the agent at that place still there? The coordinator of this agent is told if not.
void agent_elect_probe(struct agent *a, const struct election_peer *peer);

// agent_election.c
void agent_lead_take_over(struct agent *a, const struct election_action *action);
void agent_lead_drop(struct agent *a); // this agent's coordinator ends, soon

// agent_uplink.c
void agent_link_connect(struct agent *a, const struct election_peer *to);
int agent_link_open_local(struct agent *a, struct err *e);
void agent_link_close(struct agent *a, const char *why);
void agent_link_join(struct agent *a); // asks to take part (again)
// Why no coordinator was found there; told now and then.
void agent_link_note(struct agent *a, const struct election_peer *peer, const char *text);
void agent_link_renew(struct agent *a);  // tells the guard until when the workers may live
void agent_link_beat(struct agent *a);   // now
void agent_link_resume(struct agent *a); // tries another connection after one that broke
void agent_send(struct agent *a, const struct wire_msg *m);

// agent_round.c
extern const struct workers_events agent_workers_table;
void agent_on_message(struct agent *a, const struct wire_msg *m);
void agent_coordinator_lost(struct agent *a, const char *why, int64_t silent_ms); // agent_uplink.c
int agent_open_store(struct agent *a, struct err *e); // for the next round; its port, or -1
void agent_stop_workers(struct agent *a, int signal, int64_t grace_ms, const char *why);

// agent_shutdown.c
void agent_limit_open(struct agent *a); // the time limit of the run begins
void agent_end(struct agent *a, enum node_state state, const char *reason,
               const struct worker_failure *failures, int64_t count);
void agent_maybe_leave_loop(struct agent *a);
void agent_request_stop(struct agent *a, const char *reason, int signal, int64_t grace_ms);

void agent_leave(struct agent *a, const char *reason, int signal, int64_t grace_ms);

void agent_round_gone(struct agent *a); // nothing of the round is left here

// agent_watchdogs.c
void agent_devices_wait(struct agent *a); // until no process of the run holds a GPU, then goes on
bool agent_devices_waits(const struct agent *a);
void agent_devices_close(struct agent *a);

// agent_preemption.c
int agent_notice_open(struct agent *a, struct err *e);
void agent_notice_close(struct agent *a);
void agent_notice_signal(struct agent *a); // to all workers, as soon as each can handle it
void agent_notice_joined(struct agent *a); // a coordinator is there
void agent_notice_told(struct agent *a, const struct wire_msg *m); // by the coordinator
bool agent_notice_takes(struct agent *a, const struct worker *x);  // this exit is a leave

// agent_watchdogs.c
int agent_watch_open(struct agent *a, struct err *e);
void agent_watch_close(struct agent *a);

// agent_watchdogs.c
void agent_stuck_watch(struct agent *a); // the workers of the round, until nothing of it is left
void agent_stuck_close(struct agent *a);

// agent_status.c
void agent_set_state(struct agent *a, enum node_state state, const char *reason);
void agent_write_status(struct agent *a);

#endif
