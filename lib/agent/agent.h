// SPDX-License-Identifier: Apache-2.0
// The agent of one node: keeps the connection to the coordinator (and is it, at times), starts
// and stops workers round by round, hosts the workers' store on the node of rank 0, and tells the
// story.
//
//     struct agent_config c = {…};
//     status = agent_run(&c, e);       // returns when the run is over: exit status, or -1
//
// Everything in the config is the caller's and must outlive agent_run.
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "agent/coordinator.h"
#include "base/err.h"
#include "worker/workers.h"

#include <signal.h>
#include <stdbool.h>

enum {
    AGENT_BEAT_MS = 300,
    AGENT_SILENT_MS_MAX = 1500,   // the other side is lost after
    AGENT_NOTE_MS = 5000,         // between two lines about who is missing
    AGENT_DEVICES_MS_MAX = 10000, // for processes of the last round to let go of GPUs
    AGENT_DEVICES_LOOK_MS = 50,
    AGENT_NOTICE_MARGIN_MS = 20000, // a node leaves so long before it is taken away, or halfway;
    AGENT_NOTICE_STOP_MS = 15000,   // its workers have so much of it, or half, after SIGTERM
    AGENT_LIMIT_NOTICE_MS = 60000,  // workers get the notice signal so long before the time limit,
    AGENT_LIMIT_NOTICE_PART = 10,   // or when this part of the limit is left
    AGENT_NOTICE_YOUNG_MS = 2000,   // a worker may need so long until it can handle a signal
    AGENT_REQUEST_MS = 100,         // between questions to others when the coordinator is lost
    AGENT_REQUEST_MS_MAX = 1000,
    AGENT_STAGGER_MS = 200,
    AGENT_ELECTION_TIMEOUT_MS = 600,
    AGENT_STUCK_LOOK_MS = 100,  // between two looks at workers that may not get out of the kernel
    AGENT_STUCK_KILL_MS = 1000, // for SIGKILL to end what is left
    AGENT_GUESTS_MAX = 4096,    // connections that have not joined yet; at most half of all
    AGENT_ENDPOINTS_MAX = ELECTION_SEEDS_MAX,
    AGENT_INCARNATION_BITS = 62,
};
// Workers of a lost node are gone after this, counted from its last word. An answer passes on what
// is left since the beat before the last: that shall still be longer than a silence may last.
#define AGENT_LEASE_MS(silent_ms, beat_ms) ((silent_ms) + 2 * (beat_ms) + (silent_ms) / 16)

struct agent_endpoint {
    const char *host; // number
    int port;
    const char *name; // as it was given; NULL: so
    bool same;        // as the one before, another of its addresses
};

struct agent_config {
    const char *run, *name, *role;
    int node_rank;                         // -1: none
    struct coordinator_config coordinator; // used when this node leads; secret always
    const char *address;    // numeric, what others reach this node by; "": from the route
    bool leads;             // coordinates, unless there is a group already
    bool bootstrap_at_once; // without asking the other endpoints whether there is one
    int64_t beat_ms;
    int listen_fd; // where agents connect; -1: none (one node). Taken over
    int listen_port;
    struct agent_endpoint endpoints[AGENT_ENDPOINTS_MAX]; // where to ask first; not this agent's
    int endpoint_count;
    bool store_at_endpoint; // workers use the leader's own port as MASTER_PORT (static start)
    int64_t join_timeout_ms;
    int64_t time_ms_max; // until this agent has the run stopped; 0: no limit
    struct workers_config workers;
    const char *notice_file; // where this node's end is announced; "": not watched
    int notice_signal;       // that workers of all nodes get then; 0: none
    const char *timer_file;  // FIFO that is made for PyTorch's FileTimerClient; NULL: none
    int64_t stuck_ms_max;    // of a worker in uninterruptible sleep; 0: any time
    int health_port;         // where HTTP health checks are answered; -1: nowhere
    const char *title;       // of the failure report
    bool virtual_local_rank;
    bool own_store;         // the workers open their store themselves
    const char *error_file; // where the root cause's error file is copied; NULL: nowhere
    const char *signals_text;
    sigset_t signals; // that stop the run
    const struct job_pair *env;
    int env_count;
    const struct job_pair *env_defaults;
    int env_default_count;
    const char *run_dir; // events.jsonl, status.json, control.sock; NULL by hand
    int door_fd;         // with run_dir: of control_listen, taken over
    int64_t created_ms;
    int agent_starts; // how often it was started again; for status
    const char *run_name;
    bool report;              // print the failure report to standard error
    bool exit_code_of_worker; // return the first failing worker's status instead of 1
};

int agent_run(const struct agent_config *config, struct err *e);

#endif
