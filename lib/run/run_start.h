// SPDX-License-Identifier: Apache-2.0
// Starting a run: decide, send, start. What follows is follow.h.
//
//     struct launch l;
//     launch_plan(&l, session, &request, e);      // nothing is touched; l.run says everything
//     launch_files(&l, e);                        // what will be sent, hashed
//     launch_connect(&l, &fleet, e); launch_send(&l, e); launch_start(&l, e);
//     launch_close(&l);
//
// All strings are in the session's arena. The per-run key exists in memory and on the agents only.
#ifndef RUN_RUN_START_H
#define RUN_RUN_START_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"
#include "fleet/send.h"
#include "protocol/job_spec.h"

enum {
    LAUNCH_IMPLICIT_BYTES_MAX_MIB = 1024, // of the current folder, when no --file was given
    LAUNCH_CALL_OFF_MS_MAX = 30 * 1000,   // until all agents of a run that could not start are gone
    LAUNCH_CALL_OFF_GRACE_MS = 5000,      // for workers that run already
};

struct launch_request {
    const char *const *command; // NULL-terminated; NULL or empty: the native trainer
    size_t command_count;
};

struct launch_input {
    const char *name, *source;
    const char *path; // on the nodes, below their root
    bool sharded;
    struct manifest *manifest; // replicated, or everything before it is dealt out
    size_t *owner;             // sharded: the node, by rank, that each entry goes to
};

// Where a checkpoint stands, as its file says.
struct launch_position {
    int64_t step, epoch, consumed, seed;
    bool has_seed;
};

struct launch {
    struct session *session;
    struct inventory inventory;
    size_t *indices; // of the chosen nodes in the inventory, by rank
    size_t node_count;
    struct run run;
    struct job_spec spec;     // what is the same on every node
    struct manifest *common;  // programs, work folder, replicated inputs
    struct manifest **shards; // per node, NULL without sharded inputs
    struct launch_input *inputs;
    size_t input_count;
    const char *resume_run;           // whose state goes along; NULL: none
    struct launch_position resume_at; // the native trainer's place in that state
    size_t resume_nodes;              // a command's nodes that get back what they had
    bool native;
    bool work_is_implicit; // the current folder, because the command names a file in it
    struct transfer_totals sent;
    int *ports;                  // where the agents listen, by rank; 0: none. From launch_start on
    struct launch_agent *agents; // by rank, from launch_start on; NULL before
};

// What needs no cluster to be refused; launch_plan and launch_files find the rest.
int launch_check(const struct session *s, struct err *e);
int launch_plan(struct launch *l, struct session *s, const struct launch_request *request,
                struct err *e);
int launch_files(struct launch *l, struct err *e);
void launch_close(struct launch *l);

// The state of l->resume_run into the manifests. Without any, l->resume_run becomes NULL, or that
// is an error when the run was named.
int launch_state(struct launch *l, struct err *e);
// The folder for results exists, can be written, and belongs to no other run.
int launch_output(struct launch *l, struct err *e);
void launch_make_shards(struct launch *l); // l->shards, when there is none yet

int launch_send(struct launch *l, struct fleet *f, struct err *e);
// Starts the agents on every node that has not failed. Between the configured minimum and maximum
// nodes may fail; otherwise one is enough to call it off everywhere.
int launch_start(struct launch *l, struct fleet *f, struct err *e);
// After launch_start, failed or not: nothing of the run is to go on. Every agent that may have the
// roster is asked to stop; a signal, or LAUNCH_CALL_OFF_MS_MAX, ends the waiting. An agent without
// the roster ends by itself.
struct launch_called_off {
    const char *unknown; // names of the nodes where an agent may go on; NULL: none
    bool ran;            // workers may have run
};
void launch_call_off(struct launch *l, struct fleet *f, struct launch_called_off *out);
// The nodes whose agents have listened, as text for all of them.
void launch_roster(const struct launch *l, const struct fleet *f, struct strbuf *text);

// ---- parts that are pure ----
// Deals the files of a manifest out to `count` nodes so that each gets about the same number of
// bytes: largest first, always to the node with the least. owner[i] is the node of entry i.
void launch_deal(const struct manifest *m, size_t count, size_t *owner);
// The furthest checkpoint in a folder of them; false when there is none that can be read.
bool launch_find_checkpoint(const char *dir, struct launch_position *out);
// What to call a task when nobody named it.
const char *launch_task_name(struct arena *a, const char *const *command, size_t count);

#endif
