// SPDX-License-Identifier: Apache-2.0
// Converts torchrun's options, or a job specification of dtctl, to an agent's configuration.
//
//     struct launch l;
//     launch_init(&l, &arena, environ);                 // defaults
//     … cli and environment fill l.options (launch_table, PET_ variables) …
//     launch_by_hand(&l, command, count, e);             // or launch_job(&l, &spec, &roster, …)
//     status = agent_run(&l.agent, e);
//     launch_end(&l);                                    // after launch_by_hand
//
// Everything is in the caller's arena. Names are resolved here, blocking, before any loop runs.
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H

#include "agent/agent.h"
#include "conf/option.h"
#include "protocol/job_spec.h"
#include "sys/net.h"

enum {
    LAUNCH_PORT_STATIC = 29500,
    LAUNCH_PORT_C10D = 29400,
    LAUNCH_LAST_CALL_MS = 5000,
    LAUNCH_REGROUP_CALL_MS = 500,
    LAUNCH_REJOIN_MS = 30000,
    LAUNCH_CRASH_MS = 5000, // a group that fails sooner has crashed;
    LAUNCH_CRASHES_MAX = 1000,
    LAUNCH_BACKOFF_MS = 1000, // from the second crash in a row, each delay grows by this
    LAUNCH_JOB_CRASHES = 3,   // runs of dtctl: this many crashes in a row end the run
    LAUNCH_BEAT_MS_MIN = 20,
    LAUNCH_BEAT_MS_MAX = 60 * 1000,
    LAUNCH_BEATS_PER_SILENCE = 3, // at least
    LAUNCH_SILENT_MS_MAX = 600 * 1000,
    LAUNCH_NPROC_MAX = GUARD_WORKERS_MAX,
};

#define LAUNCH_NOTICE_FILE "/run/dtctl/notice"

struct launch_options { // one per row of launch_table
    struct option_range nnodes;
    const char *nproc_per_node, *rdzv_backend, *rdzv_endpoint, *rdzv_id, *rdzv_conf;
    bool standalone;
    int64_t max_restarts;
    double monitor_interval;
    const char *start_method, *event_log_handler, *role;
    bool module, no_python, run_path;
    const char *log_dir, *redirects, *tee, *local_ranks_filter;
    const char *duplicate_stdout_filters, *duplicate_stderr_filters;
    const char *log_line_prefix_template, *logs_specs;
    int64_t node_rank;
    const char *master_addr;
    int64_t master_port;
    const char *local_addr, *signals_to_handle;
    int64_t shutdown_timeout;
    bool virtual_local_rank, launch, use_env;
    const char *notice_file, *notice_signal;
    int numa_binding, exit_code, print_completion; // indexes into their choices
    bool help, version;
};

extern const struct option_table launch_table;

enum { LAUNCH_ADDRESSES_MAX = 4 }; // of one name
struct launch_addresses {
    struct net_address list[LAUNCH_ADDRESSES_MAX];
    int count;
};

struct launch {
    struct arena *arena;
    struct launch_options options;
    struct agent_config agent;
    char *const *env;         // of the program; launch_key removes the key from it
    int64_t resolve_until_ms; // a name may be unresolved until then; 0: not asked yet
    const char *log_dir_made; // created without --log-dir; NULL: none
};

void launch_init(struct launch *l, struct arena *a, char *const *env);
// args: the script or program and its arguments. Binds the rendezvous port.
int launch_by_hand(struct launch *l, const char *const *args, size_t count, struct err *e);
// After agent_run: removes folders without files from the log folder created here, which contain
// neither output nor an error file.
void launch_end(struct launch *l);
// Configures a node of a run of dtctl. root and run_dir are absolute; listen_fd is the agents'
// port.
int launch_job(struct launch *l, const struct job_spec *s, const struct roster *r, const char *root,
               const char *run_dir, int listen_fd, int listen_port, struct err *e);

// launch_env.c: the variables of the workers of a job: PATH, folders, inputs, those of the job and
// of its env.bundle. Makes the folders.
int launch_env(struct launch *l, const struct job_spec *s, const char *root, const char *run_dir,
               struct err *e);

// launch_env.c: the variables of an environment that lies ready in this node's root: PATH with
// its bin in front of `path`, then VIRTUAL_ENV or CONDA_PREFIX. Returns their number, at most
// LAUNCH_BUNDLE_PAIRS_MAX; ERR_NOT_FOUND when it is not there. launch_bundle_fill does not look.
enum { LAUNCH_BUNDLE_PAIRS_MAX = 3 };
int launch_bundle(struct arena *a, const char *root, const char *hash, const char *path,
                  struct job_pair *out, struct err *e);
int launch_bundle_fill(struct arena *a, const char *env_dir, const char *path,
                       struct job_pair *out);
// PATH where the environment has none.
extern const char launch_path_default[];

// launch_config.c: the part of both kinds of launch: workers, timeouts, signals, from l->options.
int launch_fill(struct launch *l, struct err *e);
int64_t launch_join_ms(const struct launch *l); // limit for all nodes to join

// launch_resolve.c: resolves a name; wait: retry as long as a node may take to join. Adds an
// endpoint.
int launch_resolve(struct launch *l, const char *host, bool wait, struct launch_addresses *out,
                   struct err *e);
int launch_endpoint(struct launch *l, const char *host, int port, bool first, struct err *e);

// launch_key_hide.c: takes the key (any text) from DTRUN_KEY or --rdzv-conf key=…, and hides both.
void launch_key(struct launch *l);
// Overwrites the key in an argument or a value of --rdzv-conf.
void launch_key_hide(char *text);

// launch_config.c: settings of TORCHELASTIC_ENABLE_FILE_TIMER, _TIMER_FILE, _HEALTH_CHECK_PORT and
// _UNINTERRUPTIBLE_STATE_TIMEOUT, from the job's variables, else from the environment.
int launch_watch(struct launch *l, struct err *e);

// launch_config.c: the workers' command line: interpreter, script, arguments.
int launch_command(struct launch *l, const char *const *args, size_t count, struct err *e);

// torchrun_flags.c: values with a grammar of their own; pure except for the devices of this host.
// "4", auto, cpu, gpu, xpu; visible: CUDA_VISIBLE_DEVICES, NULL when unset.
int launch_nproc(const char *text, const char *visible, int *out, struct err *e);
int launch_streams(const char *text, int nproc, unsigned char *out,
                   struct err *e); // "3", "0:3,1:1"
int launch_ranks_filter(const char *text, int nproc, bool *on_console, struct err *e);
const char *const *launch_filters(struct arena *a, const char *text); // "a,b,,c" -> a | b,c
int launch_signals(const char *text, sigset_t *out, struct err *e);
int launch_notice_signal(const char *text, struct err *e); // its number; 0: "none"; -1
// The value of a key in "k=v,k=v"; NULL when absent. Malformed entries are skipped.
const char *launch_conf(struct arena *a, const char *conf, const char *key);
int64_t launch_conf_ms(struct arena *a, const char *conf, const char *key, int64_t absent_ms);
int launch_gpu_count(const char *visible); // NVIDIA devices visible through CUDA_VISIBLE_DEVICES

#endif
