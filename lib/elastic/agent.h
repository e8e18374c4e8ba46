// SPDX-License-Identifier: Apache-2.0
// The agent of one node: keeps the connection to the coordinator (and is it, on one node), starts
// and stops workers round by round, hosts the workers' store on the node of rank 0, and tells the
// story.
//
//     struct agent_config c = {…};
//     status = agent_run(&c, e);       // returns when the run is over: exit status, or -1
//
// Everything in the config is the caller's and must outlive agent_run.
#ifndef ELASTIC_AGENT_H
#define ELASTIC_AGENT_H

#include "base/err.h"
#include "elastic/coordinator.h"
#include "elastic/workers.h"

#include <signal.h>
#include <stdbool.h>

enum {
    AGENT_BEAT_MS = 300,
    AGENT_SILENT_MS_MAX = 1500, // the other side is lost after
    AGENT_LEASE_MS = 2000,      // workers of a lost node are gone after; counted from its last word
    AGENT_NOTE_MS = 5000,       // between two lines about who is missing
    AGENT_DEVICES_MS_MAX = 10000, // for processes of the last round to let go of GPUs
    AGENT_DEVICES_LOOK_MS = 50,
    AGENT_NOTICE_MARGIN_MS = 20000, // a node leaves so long before it is taken away, or halfway;
    AGENT_NOTICE_STOP_MS = 15000,   // its workers have so much of it, or half, after SIGTERM
    AGENT_RETRY_FIRST_MS = 50,
    AGENT_RETRY_MS_MAX = 1000,
};

struct agent_config {
    const char *run, *name, *role;
    int node_rank;                         // -1: none
    struct coordinator_config coordinator; // used when this node leads; secret always
    const char *address; // numeric, what others reach this node by; "": from the route
    bool leads;          // the coordinator lives here
    int listen_fd;       // where agents connect; -1: none (one node). Taken over
    int listen_port;
    const char *leader_host; // others: where the coordinator is (name or number)
    int leader_port;
    bool store_at_endpoint; // workers use the leader's own port as MASTER_PORT (static start)
    int64_t join_timeout_ms;
    struct workers_config workers;
    const char *notice_file; // where this node's end is announced; "": not watched
    int notice_signal;       // that workers of all nodes get then; 0: none
    const char *title;       // of the failure report
    bool virtual_local_rank;
    const char *signals_text;
    sigset_t signals; // that stop the run
    const struct job_pair *env;
    int env_count;
    const struct job_pair *env_defaults;
    int env_default_count;
    const char *run_dir; // events.jsonl, status.json, control.sock; NULL by hand
    int64_t created_ms;
    const char *run_name;
    bool report;              // print the failure report to standard error
    bool exit_code_of_worker; // return the first failing worker's status instead of 1
};

int agent_run(const struct agent_config *config, struct err *e);

#endif
