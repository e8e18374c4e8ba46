// SPDX-License-Identifier: Apache-2.0
// The record of one run on the operator's side: `runs/<run>/run.toml` and the paths around it.
//
// The record is written when the run is made and when its state changes. A later dtctl finds in it
// all data to follow, stop and fetch the run. It never contains the run's key. All memory is in the
// cluster's arena.
#ifndef CLUSTER_RUN_RECORD_H
#define CLUSTER_RUN_RECORD_H

#include "cluster/cluster_folder.h"
#include "conf/config.h"
#include "conf/result_kinds.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    RUN_TASK_BYTES_MAX = 48,
    RUN_RECORD_BYTES_MAX = 4 << 20,
    RUN_NODES_MAX = 4096,
    RUN_COMMAND_WORDS_MAX = 4096,
};

// Archives in the folder for results; where there are none, files of their names are the run's.
enum run_archives { RUN_ARCHIVES_NONE, RUN_ARCHIVES_BEGUN, RUN_ARCHIVES_WHOLE };

struct run {
    const char *id, *name;
    const char *cluster, *provider;
    int64_t created_ms;
    const char **command; // NULL-terminated; the operator's command, or the trainer's
    size_t command_count;
    bool native;
    const char **nodes; // indexed by node rank
    size_t node_count;
    int nodes_min, nodes_max, max_restarts;
    const char *nproc;
    const char *output_dir; // absolute folder for results
    const char *s3;         // where the results are uploaded to; "": nowhere
    bool uploaded;          // they all are there
    struct option_map metrics;
    struct option_map tags;     // of the instances (aws.tags)
    const char *version;        // of the dtctl that made the run; "": without the next three
    const char *types;          // types of its instances, with commas; "": none
    struct option_map settings; // that the command does not show: of the native trainer, …
    struct option_map env;      // digests of the values of environment variables, by their names
    const char *state;          // "made", "started", or a final state of node_protocol.h
    bool fetched;               // the wanted results are on this side, except those of `lost`
    unsigned wanted;            // kinds of results (enum result_kind) that come by themselves
    unsigned left;              // once fetched: kinds of which some are on the nodes only
    const char **lost;          // nodes whose results are lost
    size_t lost_count;
    unsigned lost_kinds;     // their kinds of results that are lost
    int64_t work_left;       // number of new files in working folders that are on the nodes only
    bool bring_work;         // also fetch those files
    unsigned bring;          // not stored: kinds to fetch this time
    bool rest;               // not stored: other results are here, and stay fetched if this fails
    int64_t output_every_ms; // interval to fetch output of an active run; 0: at the end
    int merge;               // enum config_merge
    int archive;             // enum config_archive
    int archives;            // enum run_archives
    const char *key;         // of its task (run/task.h); "": of an older dtctl
    const char *resumes;     // the run whose state it resumed, or ""
    int exit_status;         // of the run, after its end
    int64_t push_ms, setup_ms, start_ms, train_ms, fetch_ms; // durations, 0: not yet
    uint64_t push_bytes, fetch_bytes;
};

// A new id: <name>-<YYYYmmddTHHMMSSZ>-<6 hex>. Later ids of one name sort after earlier ones.
char *run_make_id(struct arena *a, const char *name, int64_t wall_ms);
// Converts any text to a task name of letters, digits, '.', '_', '-'.
char *run_make_name(struct arena *a, const char *text);

// The record as TOML; path is for messages only. Pure; strings in the arena.
void run_format(const struct run *r, struct strbuf *text);
int run_parse(struct arena *a, const char *text, size_t len, const char *path, struct run *r,
              struct err *e);
int run_load(const struct cluster *c, const char *id, struct run *r, struct err *e);

// Goes through the runs of a cluster, newest first.
//     struct run_walk w;
//     if (run_walk_open(&w, cluster, e) == 0)
//         while (run_walk_next(&w, &run)) …
struct run_walk {
    const struct cluster *cluster;
    char **ids;
    size_t count, next; // also of runs whose records cannot be read
};
int run_walk_open(struct run_walk *w, const struct cluster *c, struct err *e);
bool run_walk_next(struct run_walk *w, struct run *r); // leaves out records that cannot be read
int run_save(const struct cluster *c, const struct run *r, struct err *e);
bool run_is_over(const struct run *r); // a final state
// All results are on this side, except those that are lost: the nodes need not keep any.
bool run_is_all_here(const struct run *r);
bool run_has_lost(const struct run *r, const char *node); // its part is recorded as lost
// Records that results were removed from the only node that had them. The run is lost when no node
// has results any more.
int run_lose(const struct cluster *c, const char *id, const char *node, struct err *e);
// Of several programs, one fetches the results of a run or removes them from the nodes. The lock
// ends with *fd. ERR_BUSY: another program has it. Does not wait.
int run_lock(const struct cluster *c, const char *id, const char *purpose, int *fd, struct err *e);

// Paths in the run's folder, in the cluster's arena.
char *run_path(const struct cluster *c, const struct run *r, const char *name);
// The folder of a run on a node, or `name` in it, relative to the node's root.
char *run_node_dir(struct arena *a, const char *run, const char *name);
// The path relative to the current folder, if it is below it.
const char *run_near_path(struct arena *a, const char *path);
char *run_node_path(const struct cluster *c, const struct run *r, const char *node,
                    const char *name); // nodes/<node>/<name>: exact copies of the node's files

#endif
