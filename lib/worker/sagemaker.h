// SPDX-License-Identifier: Apache-2.0
// compat.sagemaker: what a training container of SageMaker shows to its program: the tree /opt/ml,
// and the variables SM_*, SSM_* and TF_CONFIG.
//
//     sagemaker_open(&s, SAGEMAKER_MOUNTED, e);     // before the agent's loop: makes the tree
//     sagemaker_round(&s, &facts, e);               // files that depend on the round
//     sagemaker_variables(&s, a, &facts, i, &pairs) // of the worker with local rank i
//     sagemaker_enter(&s, e);                       // in the guard, when mounted
//     sagemaker_close(&s);
//
// The tree is in the run's folder. Programs see it as /opt/ml in a mount namespace of their own;
// where the kernel grants none, through a link; where that cannot be made, only the variables name
// it. Nodes are called algo-1, algo-2, … by group rank.
#ifndef WORKER_SAGEMAKER_H
#define WORKER_SAGEMAKER_H

#include "base/arena.h"
#include "base/err.h"
#include "protocol/job_spec.h"
#include "worker/worker_env.h"

enum {
    SAGEMAKER_FAILURE_BYTES_MAX = 1024,       // of output/failure, as SageMaker keeps it
    SAGEMAKER_MANIFEST_FILES_MAX = 100000,    // a channel with more files has no manifest
    SAGEMAKER_MANIFEST_DEPTH_MAX = 64,        // folders deeper are not listed
    SAGEMAKER_OPT_ENTRIES_MAX = 256,          // of /opt, when a mount point has to be made there
    SAGEMAKER_TF_PORT = 8890,                 // of rank 0 in TF_CONFIG; rank N has this plus N
    SAGEMAKER_VARIABLE_BYTES_MAX = 128 << 10, // of Linux; a longer one is left out
    SAGEMAKER_WHY_BYTES_MAX = 256,
};

enum sagemaker_way { SAGEMAKER_MOUNTED, SAGEMAKER_LINKED, SAGEMAKER_VARIABLES };

struct sagemaker {
    // Filled by the caller. Paths are absolute.
    const char *root;                          // the tree; replaced by sagemaker_open
    const char *run;                           // its id
    const char *output, *model, *state, *work; // the run's folders that the tree shows
    struct job_input *inputs;                  // sorted by sagemaker_open
    int input_count;
    const struct job_pair *texts; // of the job's table [sagemaker]
    int text_count;
    int gpus;
    // Filled by sagemaker_open.
    struct arena arena;
    enum sagemaker_way way;
    char why[SAGEMAKER_WHY_BYTES_MAX]; // why it is not mounted; "" when it is
    const char *base;                  // the tree, as programs see it
    const char *hosts_file;            // /etc/hosts with the names of the round's nodes
    int lock_fd;                       // holds the link; -1: none
};

extern const char *const sagemaker_ways[]; // words for events, by enum

// best: the first way to try. Call sagemaker_close also after an error.
int sagemaker_open(struct sagemaker *s, enum sagemaker_way best, struct err *e);
void sagemaker_close(struct sagemaker *s);
int sagemaker_round(struct sagemaker *s, const struct worker_facts *f, struct err *e);
// Puts the tree in its place for this process and its children. Call in a process of its own.
int sagemaker_enter(const struct sagemaker *s, struct err *e);
// The number of variables; they are in the arena.
int sagemaker_variables(const struct sagemaker *s, struct arena *a, const struct worker_facts *f,
                        int local_rank, struct job_pair **out);
// The text that the program left in output/failure during this round, in the arena; "": none.
const char *sagemaker_failure(const struct sagemaker *s, struct arena *a);

// ---- parts ----
const char *sagemaker_text(const struct sagemaker *s, const char *name); // of the job; "": absent
const char *sagemaker_host(struct arena *a, int group_rank);             // "algo-1"
// The content of input/config/resourceconfig.json and inputdataconfig.json.
const char *sagemaker_resources(const struct sagemaker *s, struct arena *a,
                                const struct worker_facts *f);
const char *sagemaker_channels(const struct sagemaker *s, struct arena *a);
int sagemaker_write_config(const struct sagemaker *s, struct err *e); // all that no round changes

#endif
