// SPDX-License-Identifier: Apache-2.0
// Starting a run: decide, send, start. What follows is follow.h.
//
//     struct run_start l;
//     run_start_plan(&l, context, &request, e);      // nothing is touched; l.run says everything
//     run_start_files(&l, e);                        // what will be sent, hashed
//     run_start_connect(&l, &fleet, e); run_start_send(&l, e); run_start_agents(&l, e);
//     run_start_close(&l);
//
// All strings are in the context's arena. The per-run key exists in memory and on the agents only.
#ifndef RUN_RUN_START_H
#define RUN_RUN_START_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"
#include "fleet/fleet_transfer.h"
#include "protocol/job_spec.h"

enum {
    LAUNCH_IMPLICIT_BYTES_MAX_MIB = 1024, // of the current folder, when no --file was given
    LAUNCH_CALL_OFF_MS_MAX = 30 * 1000,   // until all agents of a run that could not start are gone
    LAUNCH_CALL_OFF_GRACE_MS = 5000,      // for workers that run already
};

struct run_start_request {
    const char *const *command; // NULL-terminated; NULL or empty: the native trainer
    size_t command_count;
};

struct run_start_input {
    const char *name, *source;
    const char *path; // on the nodes, below their root
    bool sharded;
    struct manifest *manifest; // replicated, or everything before it is dealt out
    size_t *owner;             // sharded: the node, by rank, that each entry goes to
};

// Where a checkpoint stands, as its file says.
struct run_start_position {
    int64_t step, epoch, consumed, seed;
    bool has_seed;
};

struct run_start {
    struct context *context;
    struct inventory inventory;
    size_t *indices; // of the chosen nodes in the inventory, by rank
    size_t node_count;
    struct run run;
    struct job_spec spec;     // what is the same on every node
    struct manifest *common;  // programs, work folder, replicated inputs
    struct manifest **shards; // per node, NULL without sharded inputs
    struct run_start_input *inputs;
    size_t input_count;
    const char *resume_run;              // whose state goes along; NULL: none
    struct run_start_position resume_at; // the native trainer's place in that state
    size_t resume_nodes;                 // a command's nodes that get back what they had
    bool native;
    bool work_is_implicit; // the current folder, because the command names a file in it
    struct transfer_totals sent;
    int *ports; // where the agents listen, by rank; 0: none. From run_start_agents on
    struct run_start_agent *agents; // by rank, from run_start_agents on; NULL before
};

// What needs no cluster to be refused; run_start_plan and run_start_files find the rest.
int run_start_check(const struct context *s, struct err *e);
int run_start_plan(struct run_start *l, struct context *s, const struct run_start_request *request,
                   struct err *e);
int run_start_files(struct run_start *l, struct err *e);
void run_start_close(struct run_start *l);

// The state of l->resume_run into the manifests. Without any, l->resume_run becomes NULL, or that
// is an error when the run was named.
int run_start_state(struct run_start *l, struct err *e);
// The folder for results exists, can be written, and belongs to no other run.
int run_start_output(struct run_start *l, struct err *e);
void run_start_make_shards(struct run_start *l); // l->shards, when there is none yet

int run_start_send(struct run_start *l, struct fleet *f, struct err *e);
// Starts the agents on every node that has not failed. Between the configured minimum and maximum
// nodes may fail; otherwise one is enough to call it off everywhere.
int run_start_agents(struct run_start *l, struct fleet *f, struct err *e);
// After run_start_agents, failed or not: nothing of the run is to go on. Every agent that may have
// the roster is asked to stop; a signal, or LAUNCH_CALL_OFF_MS_MAX, ends the waiting. An agent
// without the roster ends by itself.
struct run_start_called_off {
    const char *unknown; // names of the nodes where an agent may go on; NULL: none
    bool ran;            // workers may have run
};
void run_start_call_off(struct run_start *l, struct fleet *f, struct run_start_called_off *out);
// The nodes whose agents have listened, as text for all of them.
void run_start_roster(const struct run_start *l, const struct fleet *f, struct strbuf *text);

// ---- parts that are pure ----
// Deals the files of a manifest out to `count` nodes so that each gets about the same number of
// bytes: largest first, always to the node with the least. owner[i] is the node of entry i.
void run_start_deal(const struct manifest *m, size_t count, size_t *owner);
// The furthest checkpoint in a folder of them; false when there is none that can be read.
bool run_start_find_checkpoint(const char *dir, struct run_start_position *out);
// What to call a task when nobody named it.
const char *run_start_task_name(struct arena *a, const char *const *command, size_t count);

#endif
