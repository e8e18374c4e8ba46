// SPDX-License-Identifier: Apache-2.0
// Inside the agent. Only agent*.c includes this.
#ifndef ELASTIC_AGENT_STATE_H
#define ELASTIC_AGENT_STATE_H

#include "elastic/agent.h"
#include "elastic/control.h"
#include "elastic/events.h"
#include "elastic/notice.h"
#include "elastic/store_server.h"

struct agent {
    const struct agent_config *config;
    struct loop *loop;
    struct events events;
    struct coordinator *coordinator; // NULL: elsewhere
    struct control control;
    struct watch listen;

    // the connection to the coordinator (agent_link.c)
    struct link link;
    struct net_address leader;
    struct timer retry, beat;
    int64_t retry_ms, retry_until_ms, acked_ms; // acked: when the last answered beat was sent
    int64_t beats[16], seq;                     // send times of recent beats
    char connect_error[256];
    int64_t noted_ms; // when it was last told
    int64_t incarnation;
    char address[NET_ADDRESS_BYTES_MAX]; // advertised

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

    // GPUs of the last round (agent_devices.c)
    struct timer devices;
    int64_t devices_until_ms;

    // the announced end of this node (agent_notice.c)
    struct notice_watch notice_watch;
    struct timer notice_leave;
    struct notice notice;
    bool notice_unsent; // there was no coordinator to tell

    // the end
    bool over, coordinator_idle;
    int exit_status;
    int64_t begin_ms;
    int signals_seen;
    struct arena end_arena;
};

// agent_link.c
int agent_link_open(struct agent *a, struct err *e);
void agent_link_close(struct agent *a);
void agent_link_join(struct agent *a); // asks to take part (again)
void agent_send(struct agent *a, const struct wire_msg *m);

// agent_round.c
extern const struct workers_events agent_workers_table;
void agent_on_message(struct agent *a, const struct wire_msg *m);
void agent_coordinator_lost(struct agent *a, const char *why, int64_t silent_ms);
int agent_open_store(struct agent *a, struct err *e); // for the next round; its port, or -1
void agent_stop_workers(struct agent *a, int signal, int64_t grace_ms, const char *why);

// agent_end.c
void agent_end(struct agent *a, enum node_state state, const char *reason,
               const struct wire_failure *failures, int64_t count);
void agent_maybe_leave_loop(struct agent *a);
void agent_request_stop(struct agent *a, const char *reason, int signal, int64_t grace_ms);

void agent_leave(struct agent *a, const char *reason, int signal, int64_t grace_ms);

void agent_round_gone(struct agent *a); // nothing of the round is left here

// agent_devices.c
void agent_devices_wait(struct agent *a); // until no process of the run holds a GPU, then goes on
bool agent_devices_waits(const struct agent *a);
void agent_devices_close(struct agent *a);

// agent_notice.c
int agent_notice_open(struct agent *a, struct err *e);
void agent_notice_close(struct agent *a);
void agent_notice_joined(struct agent *a);                         // a coordinator is there
void agent_notice_told(struct agent *a, const struct wire_msg *m); // by the coordinator
bool agent_notice_takes(struct agent *a, const struct worker *x);  // this exit is a leave

// agent_status.c
void agent_set_state(struct agent *a, enum node_state state, const char *reason);
void agent_write_status(struct agent *a);

#endif
