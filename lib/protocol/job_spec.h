// SPDX-License-Identifier: Apache-2.0
// The job specification and the roster that dtctl sends to each node's agent, as TOML text.
//
// dtctl fills struct job_spec and calls job_spec_format; the agent calls job_spec_parse. One module
// contains both directions, which keeps them consistent. All memory is in the caller's arena.
//
//     [run]      id name node node_rank nnodes_min nnodes_max nproc_per_node max_restarts key
//                agent_starts
//     address
//                workdir command shutdown_timeout_ms join_timeout_ms max_time_ms
//                created_ms sample_ms
//     [env]      NAME = "value"
//     [inputs.NAME]  path mode streamed path absolute, or relative to the node's root
//                    archives listed                     as in struct job_input
//                    shard uneven seed replicas extracts dealt anew in each round (struct job_deal)
//     [setup]    run hash               a script that prepares the node, once for each hash
//     [bundle]   hash                   the archive of the command's environment
//     [state]    replicas every_ms      copies of the state on other nodes; absent: none
//     [sagemaker] NAME = "value"        compat.sagemaker (lib/worker/sagemaker.h); absent: off
//     [torchrun] any long option without dashes = "value", as dtrun's own command line takes it
#ifndef PROTOCOL_JOB_SPEC_H
#define PROTOCOL_JOB_SPEC_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    JOB_KEY_BYTES = 32,
    JOB_ARGS_MAX = 4096,
    JOB_ENV_MAX = 4096,
    JOB_INPUTS_MAX = 64,
    JOB_NODES_MAX = 16384,
    JOB_REPLICAS_MAX = 15,
    JOB_DAYS_MAX = 365,      // of a run's time limit
    JOB_RUN_BYTES_MAX = 100, // of a run's id, which names a folder
};

struct job_pair {
    const char *name, *value;
};

// The rule by which each round deals a sharded input to its nodes (content/deal.h).
struct job_deal {
    int shard;     // of deal_shard_words
    int uneven;    // of deal_uneven_words
    bool shuffled; // with this seed
    int64_t seed;  // 0 …
    int replicas;  // other nodes that keep the files of a share
    bool extracts; // workers get job_input_tree of the share's folder
};

struct job_input {
    const char *name, *path, *mode; // mode: "replicated" or "sharded"
    const struct job_deal *deal;    // NULL: dealt once, by the operator, or to every node
    const char *archives;           // folder to unpack to job_input_tree, which has path; NULL
    bool listed;                    // job_input_list has the files that the node has of it
    bool streamed; // path is a folder of JOB_STREAM_LIST and JOB_STREAM_URLS, as dtdata writes them
};

// The folder of a node's share, from the input's path. In the folder of the run: the list of the
// share's files for workers; that of all files of the input, by generation_encode.
char *job_share_folder(struct arena *a, const char *path, int nodes, int group_rank);
char *job_share_list(struct arena *a, const char *run_dir, const char *name, int nodes,
                     int group_rank);
char *job_deal_list(struct arena *a, const char *run_dir, const char *name);
// The folder to which the archives of a folder are unpacked; beside it.
#define JOB_TREE_END "-extracted"
char *job_input_tree(struct arena *a, const char *archives);
// The list for workers of an input that is dealt once.
char *job_input_list(struct arena *a, const char *run_dir, const char *name);

#define JOB_STREAM_LIST   "list"
#define JOB_STREAM_URLS   "urls"
#define JOB_STREAM_SOCKET "stream.sock" // in the run's folder: events for the agent

struct job_spec {
    const char *run, *name, *node;
    int node_rank;
    int nnodes_min, nnodes_max;
    const char *nproc_per_node; // "auto", "cpu", "gpu" or a number
    int max_restarts;
    int agent_starts; // number of restarts of this node's agent
    bool has_key;
    unsigned char key[JOB_KEY_BYTES];
    const char *address; // this node's own, numeric: it listens there and others connect to it
    const char *workdir; // absolute or relative to root; created when absent; "": root
    const char *const *command; // NULL-terminated; argv[0] absolute, relative to root, or on PATH
    int command_count;
    int64_t shutdown_timeout_ms; // grace between SIGTERM and SIGKILL
    int64_t join_timeout_ms;
    int64_t
        max_time_ms; // until the run is stopped, counted from the start of this agent; 0: no limit
    int64_t created_ms; // wall clock
    int64_t sample_ms;  // interval of samples of the node; 0: none
    struct job_pair *env;
    int env_count;
    struct job_input *inputs;
    int input_count;
    const char *setup, *setup_hash; // NULL: none; hash: HASH_HEX_BYTES - 1 digits
    const char *bundle_hash;        // of the environment's archive; NULL: none
    int state_replicas;             // copies of a node's state on other nodes
    int64_t state_every_ms;
    struct job_pair *sagemaker; // what the operator knows of the tree; none: no tree
    int sagemaker_count;
    struct job_pair *torchrun;
    int torchrun_count;
};

// The folder of a setup, below the node's root.
char *job_setup_dir(struct arena *a, const char *hash);
// The folder of an environment, below the node's root. It has the files of JOB_BUNDLE_*, and the
// environment itself in JOB_BUNDLE_ENV.
char *job_bundle_dir(struct arena *a, const char *hash);
#define JOB_BUNDLES_DIR    "envs"    // all of them
#define JOB_BUNDLE_ARCHIVE "archive" // as it was sent
#define JOB_BUNDLE_ENV     "env"
#define JOB_BUNDLE_DONE    "done" // made when the environment is complete
// True when `dtrun --node setup` has something to do before the agent starts.
bool job_needs_setup(const struct job_spec *s);
void job_spec_init(struct job_spec *s); // defaults
int job_spec_parse(struct arena *a, const char *text, size_t len, struct job_spec *s,
                   struct err *e);
// with_key false omits the key (job.toml on disk).
void job_spec_format(const struct job_spec *s, bool with_key, struct strbuf *out);

struct roster_node {
    int rank;
    const char *name, *address; // numeric
    int port;
};

struct roster {
    struct roster_node *nodes; // by rank, ascending, without duplicates
    int count;
};

int job_roster_parse(struct arena *a, const char *text, size_t len, struct roster *r,
                     struct err *e);
void job_roster_format(const struct roster *r, struct strbuf *out);

#endif
