// SPDX-License-Identifier: Apache-2.0
// The agent of one node. It keeps the connection to the coordinator (or is the coordinator), starts
// and stops workers round by round, hosts the workers' store on the node of rank 0, and writes the
// events.
//
//     struct agent_config c = {…};
//     status = agent_run(&c, e); // returns at the end of the run: exit status, or -1
//
// Everything in the config is the caller's and must outlive agent_run.
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "agent/coordinator.h"
#include "base/err.h"
#include "copies/keeper.h"
#include "worker/workers.h"

#include <signal.h>
#include <stdbool.h>

enum {
    AGENT_BEAT_MS = 300,
    AGENT_SILENT_MS_MAX = 1500,   // the other side then counts as lost
    AGENT_NOTE_MS = 5000,         // between two lines about missing nodes
    AGENT_DEVICES_MS_MAX = 10000, // for processes of the last round to release GPUs
    AGENT_DEVICES_LOOK_MS = 50,
    AGENT_NOTICE_MARGIN_MS =
        20000, // a node leaves this long before its preemption, or after half the time;
    AGENT_NOTICE_STOP_MS = 15000,  // its workers have this long, or half the time, after SIGTERM
    AGENT_LIMIT_NOTICE_MS = 60000, // workers get the notice signal this long before the time limit,
    AGENT_LIMIT_NOTICE_PART = 10,  // or when this fraction of the limit is left
    AGENT_NOTICE_YOUNG_MS = 2000,  // a worker may need this long until it can handle a signal
    AGENT_REQUEST_MS = 100, // between requests to other agents after the loss of the coordinator
    AGENT_REQUEST_MS_MAX = 1000,
    AGENT_STAGGER_MS = 200,
    AGENT_ELECTION_TIMEOUT_MS = 600,
    AGENT_STUCK_LOOK_MS = 100,  // between two checks for workers stuck in the kernel
    AGENT_STUCK_KILL_MS = 1000, // for SIGKILL to end the remaining processes
    AGENT_UNJOINED_MAX = 4096,  // connections that have not joined; at most half of all
    AGENT_ENDPOINTS_MAX = ELECTION_SEEDS_MAX,
    AGENT_INCARNATION_BITS = 62,
};
// Workers of a lost node are gone after this time, counted from its last message. A heartbeat's
// answer grants the time left since the heartbeat before the last one. Even that lease must outlive
// the silence limit.
#define AGENT_LEASE_MS(silent_ms, beat_ms) ((silent_ms) + 2 * (beat_ms) + (silent_ms) / 16)

struct agent_endpoint {
    const char *host; // numeric
    int port;
    const char *name; // as configured; NULL: same as host
    bool same;        // another address of the previous endpoint
};

struct agent_config {
    const char *run, *name, *role;
    int node_rank; // -1: none
    struct coordinator_config
        coordinator;        // used while this node coordinates; secret is always used
    const char *address;    // numeric, by which others reach this node; "": derived from the route
    bool leads;             // coordinates unless a group already exists
    bool bootstrap_at_once; // without asking the other endpoints for an existing group
    int64_t beat_ms;
    int listen_fd; // where agents connect; -1: none (one node). Ownership passes to the agent
    int listen_port;
    struct agent_endpoint endpoints[AGENT_ENDPOINTS_MAX]; // other agents to ask first
    int endpoint_count;
    bool store_at_endpoint; // workers use the leader's own port as MASTER_PORT (static start)
    int64_t join_timeout_ms;
    int64_t time_ms_max; // this agent then requests the stop of the run; 0: no limit
    struct workers_config workers;
    const char *notice_file; // file that announces the preemption of this node; "": not watched
    int notice_signal;       // sent to the workers of all nodes on a notice; 0: none
    const char *timer_file;  // FIFO to create for PyTorch's FileTimerClient; NULL: none
    int64_t stuck_ms_max;    // limit for a worker in uninterruptible sleep; 0: none
    int health_port;         // port of HTTP health checks; -1: none
    const char *title;       // of the failure report
    bool virtual_local_rank;
    bool own_store;         // the workers open their store themselves
    const char *error_file; // destination for the error file of the root cause; NULL: none
    const char *signals_text;
    sigset_t signals; // signals that stop the run
    const struct job_pair *env;
    int env_count;
    const struct job_pair *env_defaults;
    int env_default_count;
    const char *run_dir; // holds events.jsonl, status.json, control.sock; NULL when started by hand
    int door_fd;         // of control_listen, with run_dir; ownership passes to the agent
    const char *stream_socket; // of dtdata, which serves streamed inputs; NULL: none
    int64_t created_ms;
    int64_t sample_ms;         // interval of samples of this node; 0: none
    int agent_starts;          // number of restarts of this agent; for status
    struct keeper_spec keeper; // copies of the state; run_dir NULL: none
    const char *run_name;
    bool report;              // print the failure report to standard error
    bool exit_code_of_worker; // return the first failing worker's status instead of 1
};

int agent_run(const struct agent_config *config, struct err *e);

#endif
