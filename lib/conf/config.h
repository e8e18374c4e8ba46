// SPDX-License-Identifier: Apache-2.0
// The whole configuration of dtctl as one struct: from flags, DTCTL_* variables, values that an
// earlier `up` kept of those (rows with OPTION_KEEP), dtctl.toml, defaults.
//
//     struct config c;
//     config_open(&c, &arena, "dtctl", environ);
//     if (config_verb(&c, argc, argv, &verb, &used, e) < 0) …       // flags in front of the verb
//     struct config_verb v = {.verb = "logs", .rows = &logs_rows, .target = &logs_flags};
//     if (config_load(&c, &v, argc - used, argv + used, &rest, e) < 0) …
//
// After config_load the struct is not changed any more; the arena owns all it points to. An error
// has every problem of file, environment and command line, one line each (ERR_CONFIG or ERR_USAGE).
#ifndef CONF_CONFIG_H
#define CONF_CONFIG_H

#include "conf/aws_config.h"
#include "conf/cli.h"
#include "conf/option.h"
#include "conf/train_config.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONFIG_FILE_BYTES_MAX = 1 << 20, CONFIG_REPLICAS_MAX = 15 };

// Providers: enum, word in the configuration, struct provider in lib/provider.
// clang-format off
#define CONFIG_PROVIDERS(X)                                                                        \
    X(CONFIG_LOCAL, "local", provider_local)                                                       \
    X(CONFIG_HOSTS, "hosts", provider_hosts)                                                       \
    X(CONFIG_AWS,   "aws",   provider_aws)
// clang-format on
#define CONFIG_PROVIDER_ID(id, word, object) id,
enum config_provider { CONFIG_PROVIDERS(CONFIG_PROVIDER_ID) };
enum config_fanout { CONFIG_FANOUT_AUTO, CONFIG_FANOUT_OFF };
enum config_merge { CONFIG_MERGE_AUTO, CONFIG_MERGE_BY_NODE, CONFIG_MERGE_RANK0 };
extern const char *const config_merge_words[]; // by enum config_merge; NULL at the end
enum config_archive { CONFIG_ARCHIVE_NONE, CONFIG_ARCHIVE_TAR_ZST };
extern const char *const config_archive_words[]; // by enum config_archive; NULL at the end
// The last two are SageMaker's words; config_input_is_sharded and config_input_shard know them.
enum config_input_mode {
    CONFIG_REPLICATED,
    CONFIG_SHARDED,
    CONFIG_FULLY_REPLICATED,
    CONFIG_SHARDED_BY_KEY
};
enum config_shard { CONFIG_SHARD_SIZE, CONFIG_SHARD_KEY, CONFIG_SHARD_COUNT };
enum config_unit { CONFIG_UNIT_FILE, CONFIG_UNIT_SAMPLE };
enum config_uneven {
    CONFIG_UNEVEN_ALLOW,
    CONFIG_UNEVEN_PAD,
    CONFIG_UNEVEN_DROP,
    CONFIG_UNEVEN_REFUSE
};
enum { CONFIG_NPROC_AUTO = -1, CONFIG_NPROC_CPU = -2, CONFIG_NPROC_GPU = -3 };

// [[hosts.host]]: settings of one host. It adds the host, or completes the one in
// hosts.list that has the same address.
struct config_host {
    const char *address;  // without user and port
    const char *name;     // node name; "": from the address
    const char *user;     // "": ssh.user
    int64_t port;         // 0: ssh.port
    const char *host_key; // "ssh-ed25519 AAAA…" or "SHA256:…"; "": known_hosts decides
    struct option_place place;
};

// [inputs.NAME], --input NAME=SOURCE[:mode]
// A source that differs from the one of the task's last run.
enum config_change { CONFIG_CHANGE_RESEND, CONFIG_CHANGE_KEEP, CONFIG_CHANGE_REFUSE };

struct config_input {
    const char *name;
    const char *source;  // a file or folder on the operator's side
    int mode;            // enum config_input_mode
    int shard;           // enum config_shard
    int unit;            // enum config_unit
    int uneven;          // enum config_uneven
    const char *order;   // "name" or "shuffle:SEED"
    const char *deliver; // "copy" or "stream", or SageMaker's "File" or "FastFile"
    int64_t window;      // of a streamed one: bytes that are fetched ahead
    int64_t cache_max; // of a streamed one: bytes that stay on a node; 0: the disk alone limits it
    int64_t replicas;  // of a sharded one in a run whose nodes may change: other nodes with a copy
    int on_change;     // enum config_change
    struct option_list include, exclude;
    struct option_place place;
};

extern const struct option_record config_input_record;
int config_input_check_name(const char *name, struct err *e);
// Keys that contradict each other.
int config_input_check(const struct config_input *in, struct err *e);
bool config_input_is_sharded(const struct config_input *in);
bool config_input_is_streamed(const struct config_input *in);
bool config_input_is_extracted(const struct config_input *in);
int config_input_shard(const struct config_input *in); // enum config_shard
// True when the order is shuffled.
bool config_input_seed(const struct config_input *in, uint64_t *seed);

struct config_cluster {
    const char *name;
    int provider; // enum config_provider
    int64_t nodes;
    int fanout; // enum config_fanout
};

struct config_hosts {
    struct option_list list;    // "user@address[:port]", node sets allowed
    struct option_records host; // struct config_host
    const char *root;           // on the nodes: absolute, or "~/…"
};

// The state that a later run of a task begins with.
enum config_keep { CONFIG_KEEP_RUN, CONFIG_KEEP_TASK };

// A script that prepares each node, once for each hash of its text and of the files it needs.
struct config_setup {
    const char *run; // "": none
    struct option_list needs;
    int64_t timeout_ms;
};

struct config_ssh {
    const char *user; // "": ssh_config, else the login name
    int64_t port;     // 0: ssh_config, else 22
    struct option_list identity_files;
    const char *config_file; // "": none
    bool accept_host_keys;
    const char *proxy_jump; // "": as ssh_config says
    int64_t connect_timeout_ms;
    int64_t keepalive_ms;
};

// How a command is run on the nodes ([train] without the trainer's own keys).
struct config_job {
    struct option_list command; // empty, and no shell line: the native trainer
    const char *shell;          // a line for bash instead of a command; "": none
    bool once;                  // one process on one node, whatever nodes and nproc_per_node say
    struct option_range nodes;  // {0,0}: every node of the cluster
    int64_t spares;             // further nodes that wait to take a lost one's place
    int64_t nproc_per_node;     // > 0, or CONFIG_NPROC_*
    const char *name;           // task; "": from the command or the model
    const char *task;           // section [tasks.NAME] of the file; "": none
    struct option_list after;   // tasks that must have finished
    bool if_changed;            // a finished run of the same key is reused
    bool force;                 // the task runs even if a finished run could be reused
    bool clean_state;           // the run begins without the state of earlier runs
    int64_t max_time_ms;        // 0: no limit
    bool detach;
    int64_t max_restarts;
    bool replace_nodes;
    struct option_list files; // sent to the working folder of the command
    bool exit_code;
    const char *notice_signal; // "auto", "none" or a signal
    const char *env_bundle;    // archive of the command's environment; "": none
};

// torchrun's own flags; rows carry OPTION_PASS_ON ([train.torchrun]). Strings as torchrun takes
// them.
struct config_torchrun {
    const char *redirects, *tee, *local_ranks_filter;
    const char *duplicate_stdout_filters, *duplicate_stderr_filters;
    const char *log_line_prefix_template, *rdzv_conf, *signals_to_handle, *role;
    int64_t shutdown_timeout; // seconds
    double monitor_interval;  // seconds
};

struct config {
    // flags of every command
    const char *file; // -f
    bool file_found;
    bool json, yes, verbose, quiet, dry_run, help;
    struct option_list set_list; // --set, as typed

    struct config_cluster cluster;
    struct config_hosts hosts;
    struct aws_config aws;
    struct lease_config lease;
    struct config_ssh ssh;
    struct config_job job;
    struct config_setup setup;
    struct config_torchrun torchrun;
    struct train_config train;
    struct option_records inputs; // struct config_input
    struct option_map metrics;    // name -> regular expression with a group, the number
    struct option_map env;
    struct option_map hyperparameters; // of a command: --NAME VALUE, SM_HPS, SM_HP_<NAME>
    const char *output_dir;            // "": output/ of the run's folder
    const char *output_s3;             // "": results are not uploaded
    struct option_list output_fetch;   // kinds of results that come here (result_kinds.h)
    const char *output_every;          // config_output_every_ms
    int output_merge;                  // enum config_merge
    int output_archive;                // enum config_archive
    bool output_work;                  // also new files of a command's working folder
    int state_keep;                    // enum config_keep
    int64_t state_every_ms;            // 0: the state is fetched at the end
    int64_t state_replicas;            // other nodes that have a copy of a node's state
    const char *monitor_interval;      // config_monitor_ms
    bool compat_sagemaker;             // /opt/ml and the variables of SageMaker around a command

    struct option_sections sections; // [tasks.NAME]
    struct option_set set;           // places, problems
};

// The interval of outputs.every; 0: "end".
enum { CONFIG_OUTPUT_EVERY_MS_MIN = 1000, CONFIG_OUTPUT_EVERY_MS_MAX = 86400000 };
int64_t config_output_every_ms(const struct config *c);
// The interval of monitor.interval; 0: nodes are not sampled.
enum { CONFIG_MONITOR_MS_MIN = 500, CONFIG_MONITOR_MS_MAX = 3600000 };
int64_t config_monitor_ms(const struct config *c);

// Defaults only. env is the program's environment (NULL: empty) and must outlive the struct.
void config_open(struct config *c, struct arena *a, const char *program, char *const *env);
// Scans the flags in front of the verb. argv without the program's name; *verb NULL when there is
// none; *used counts the arguments up to and with the verb.
int config_verb(struct config *c, int argc, const char *const *argv, const char **verb, int *used,
                struct err *e);

struct config_verb {
    const char *verb;
    const struct option_table *rows; // the verb's own flags (.verbs = "logs"); NULL: none
    void *target;
    bool takes_file; // its first argument, if there is one, is the configuration file
};
// File, environment, flags. `dtctl.toml` that does not exist is fine unless it was named.
// With --help among the flags nothing is read and c->help is set.
int config_load(struct config *c, const struct config_verb *v, int argc, const char *const *argv,
                struct cli_rest *rest, struct err *e);

// Adds a problem for two inputs, hyperparameters or tasks of task.after whose names become the same
// variable. config_load calls it.
void config_check_names(struct config *c);

// Variables that workers have from their agent: never an option's. "DTCTL_INPUT_*": so begin some.
extern const char *const config_worker_variables[]; // NULL-terminated
// DTCTL_… variables that no option reads, in one line with the names that may be meant; "": none.
const char *config_unknown_env(const struct config *c);

// Where `up` keeps its flags and variables for later commands: .dtctl/<cluster>/up.toml.
const char *config_kept_path(const struct config *c);

const struct config_host *config_host(const struct config *c, size_t i);
const struct config_input *config_input(const struct config *c, size_t i);
// Keys that were given and have no effect with the provider that holds, as one sentence that says
// where the first is; "": none. Where a flag or variable chose the provider, the file may well have
// the tables of others.
const char *config_without_effect(const struct config *c);
// For errors found later: "dtctl.toml:12:9: hosts.list" (or "--host: hosts.list", …;
// "hosts.list" where it has its default).
const char *config_where(const struct config *c, const char *key);

// The tables, for help, manual and tests: globals and file keys; [metrics]; [aws] and [lease]; job;
// torchrun.
extern const struct option_table options_config;
extern const struct option_table options_metrics;
extern const struct option_table options_aws;
extern const struct option_table options_job;
extern const struct option_table options_torchrun;

#endif
