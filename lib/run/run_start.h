// SPDX-License-Identifier: Apache-2.0
// Starts a run: plan, send, start. follow.h follows it.
//
//     struct run_start l;
//     run_start_plan(&l, context, &request, e); // changes nothing outside l but a new digest.key
//     run_start_files(&l, e); // hashes the files to send
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
#include "run/digest_key.h"
#include "run/inputs/input_parts.h"

enum {
    LAUNCH_IMPLICIT_BYTES_MAX_MIB = 1024, // of the current folder, when no --file was given
    LAUNCH_CALL_OFF_MS_MAX = 30 * 1000,   // until all agents of a run that could not start are gone
    LAUNCH_CALL_OFF_GRACE_MS = 5000,      // for workers that already run
    RUN_START_NAMES_MAX = 4,              // of a node's files that are named in the plan
};

struct input_look;
struct input_keep;

struct run_start_request {
    const char *const *command; // NULL-terminated; NULL or empty: the native trainer
    size_t command_count;
    const char *const *bench;  // flags for the native trainer, which measures; NULL: it trains
    struct input_look *looked; // inputs that were listed already; NULL: none
};

struct run_start_share {
    size_t files;
    size_t samples; // 0 unless samples are dealt
    uint64_t bytes;
    unsigned char digest[HASH_BYTES];       // of its files, in their order
    const char *names[RUN_START_NAMES_MAX]; // of the first files
};

struct input_remote;
struct input_fanout;

// The part of one node in the streamed inputs, for dtdata.
struct run_start_stream {
    struct strbuf input;
    const struct run_start_input *newest; // whose objects are being added
    size_t objects;
};

// The part of one node in the inputs from servers.
struct run_start_remote {
    struct manifest *files;          // where it goes; the hashes come from the node
    struct strbuf input;             // for dtdata
    struct manifest_entry **origins; // of the files in their input; NULL: the hashes stay here
    size_t origin_room;
};

struct run_start_input {
    const char *name, *source; // source: here
    const struct config_input *config;
    const char *run;                  // the earlier run that it is from; NULL: none
    const char *changed_since;        // the task's last run, which had other content; NULL
    const char *same_as;              // the task's last run, which had the same content; NULL
    const char *kept;                 // the run whose content it has, by on_change = keep; NULL
    bool held;                        // nodes may have its content: input_keep_send asks them first
    bool is_folder;                   // the source
    const char *const *ignore;        // patterns of files to leave out; NULL: none
    struct input_remote *remote;      // objects that the nodes read; NULL: files of this computer
    const struct input_remote *again; // listed again for a node that came later; NULL
    bool elastic;                     // sharded, and dealt anew by every round
    const char *path;          // on the nodes, below their root; elastic: of job_share_folder
    size_t *numbers;           // by entry: its place among the files; NULL until asked for
    int64_t *files;            // streamed from here: by entry, its number + 1; NULL
    struct manifest *manifest; // replicated, or complete before it is dealt out
    unsigned char digest[HASH_BYTES]; // of the manifest
    size_t samples;                   // in it; 0 unless samples are dealt
    struct run_start_share *share;    // sharded: by node rank; NULL: replicated
};

// The position of a checkpoint, read from its file.
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
    struct job_spec spec; // the part that is the same on every node
    int own_env_count;    // of spec.env: the user's, not the names of runs
    char digest_key[DIGEST_KEY_BYTES];
    const char **after_keys; // of the runs that task.after found
    size_t after_count;
    struct manifest *common;          // programs, work folder, replicated inputs
    struct manifest **shards;         // per node, NULL without sharded inputs
    bool elastic;                     // the nodes of the run may change
    struct manifest **dealt;          // per node: its shares of elastic inputs that are here; NULL
    struct manifest **listed;         // per node: lists of copied inputs; NULL: none
    struct manifest *lists;           // of elastic inputs, for every node; NULL: none
    struct run_start_remote *remote;  // per node, NULL without inputs from servers
    struct run_start_stream *streams; // per node, NULL without streamed inputs
    struct strbuf sources;            // files of streamed inputs that are here (input_source.h)
    size_t source_count;
    bool has_dtdata;             // the program is among the files
    struct input_fanout *shared; // objects that every node gets; NULL: none
    struct input_keep *keep;     // files of inputs that nodes may have; NULL: none
    const char **results;        // of earlier runs that are inputs, as RUN/PART; NULL: none
    uint64_t downloaded, again;  // bytes that nodes read, and requests made again
    uint64_t passed_on;          // bytes of them that nodes got from other nodes
    struct run_start_input *inputs;
    size_t input_count;
    struct input_look *looked;           // lists from before the nodes were made; NULL: none
    struct input_parts parts;            // of split archives
    const char *resume_run;              // run whose state is sent along; NULL: none
    struct run_start_position resume_at; // the native trainer's position in that state
    size_t resume_nodes;                 // a command's nodes that get their earlier state back
    bool native;
    bool measures;         // the native trainer, and it does not train
    const char *trainer;   // its program for these nodes, a name in the bundle
    const char *setup_dir; // of this run, here, for the setup's logs; NULL: no setup
    const char *bundle;    // the archive of the command's environment, here; NULL: none
    bool work_is_implicit; // the work folder is the current folder, since the command names a file
                           // in it
    struct transfer_totals sent;
    int *ports; // ports of the agents, by rank; 0: none. Set by run_start_agents
    struct run_start_agent *agents; // by rank; NULL before run_start_agents
};

// Checks that need neither a cluster nor a network; run_start_plan and
// run_start_files do the others.
int run_start_check(struct context *s, struct err *e);
// Of settings alone: one command, which goes with task.once.
int run_start_command_check(const struct config *c, struct err *e);
int run_start_plan(struct run_start *l, struct context *s, const struct run_start_request *request,
                   struct err *e);
int run_start_files(struct run_start *l, struct err *e);
void run_start_close(struct run_start *l);

// Parts of run_start_plan: the command and name of l->run; the variables of every worker.
int run_start_command(struct run_start *l, const struct run_start_request *request, struct err *e);
void run_start_env(struct run_start *l);
// Sets the settings that the record keeps for comparisons. Of variables it keeps digests only.
void run_start_settings(struct run_start *l);

// Adds the state of l->resume_run to the manifests. Without any state, l->resume_run becomes NULL;
// this is an error when the user named the run.
int run_start_state(struct run_start *l, struct err *e);
// Ensures that the results folder exists, is writable, and belongs to no other run but the one that
// is resumed; call after run_start_files.
int run_start_output(struct run_start *l, struct err *e);
void run_start_make_shards(struct run_start *l); // creates l->shards unless present

// Adds the archive of env.bundle to l->common, and its hash to l->spec. Before run_start_setup.
// An archive that nodes would refuse is refused here, so none is sent.
int run_start_bundle(struct run_start *l, struct err *e);
// Its lines of the plan; with --dry-run also the check and the content of the archive.
int run_start_bundle_show(struct run_start *l, struct err *e);
// Refuses an archive that cannot be read, by its beginning.
int run_start_bundle_check(const struct config *c, struct err *e);
// Adds the files of [setup] to l->common, and the script and its hash to l->spec.
int run_start_setup(struct run_start *l, struct err *e);
int run_start_send(struct run_start *l, struct fleet *f, struct err *e);
// Starts the agents on every node that has not failed. Between the configured minimum and maximum,
// nodes may fail; otherwise one failure calls the run off on all nodes.
int run_start_agents(struct run_start *l, struct fleet *f, struct err *e);
// Ends all of the run after run_start_agents, failed or not. Every agent that may have the roster
// is asked to stop. A signal, or LAUNCH_CALL_OFF_MS_MAX, ends the waiting. An agent without the
// roster ends by itself.
struct run_start_called_off {
    const char *unknown; // names of the nodes where an agent may still run; NULL: none
    bool ran;            // workers may have run
};
void run_start_call_off(struct run_start *l, struct fleet *f, struct run_start_called_off *out);
// The listening addresses of all agents, as text for every one of them.
void run_start_roster(const struct run_start *l, const struct fleet *f, struct strbuf *text);

// ---- parts that are pure ----
// Finds the newest checkpoint in a folder; false when no file can be read.
bool run_start_find_checkpoint(const char *dir, struct run_start_position *out);
// The default name of a task, taken from its command.
const char *run_start_task_name(struct arena *a, const char *const *command, size_t count);
// The launcher that the command starts (torchrun, …) without flags that connect it to those of
// other nodes, so that it makes a group of ranks of its own; NULL: none.
const char *run_start_launcher(const char *const *command, size_t count);

#endif
