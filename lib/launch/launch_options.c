// SPDX-License-Identifier: Apache-2.0
// torchrun's command line as a table: names, defaults, help. What dtrun does not serve is marked
// and refused when it is given.
#include "launch/launch.h"

#include <stddef.h>

#define AT(field)               .offset = offsetof(struct launch_options, field)
#define FLAG(name, kind, field) .flag = name, .type = kind, AT(field)

static const char *const exit_codes[] = {"agent", "worker", NULL};
static const char *const bindings[] = {"none", "node", "socket", "exclusive", "core-complex", NULL};
static const char *const completions[] = {"none", "bash", "zsh", "fish", NULL};

static const struct option_row rows[] = {
    {FLAG("nnodes", OPTION_RANGE, nnodes), .letter = 'n', .text = "1:1", .min = 1,
     .max = JOB_NODES_MAX, .arg = "N|MIN:MAX",
     .help = "Number of nodes, or the range that the run may grow and shrink in."},
    {FLAG("nproc-per-node", OPTION_STRING, nproc_per_node), .word = "ppn", .text = "1",
     .arg = "N|auto|cpu|gpu",
     .help = "Workers per node: a number, or as many as there are devices of a kind. Also -ppn."},
    {FLAG("rdzv-backend", OPTION_STRING, rdzv_backend), .text = "static", .arg = "static|c10d",
     .help = "How nodes find each other: static (ranks and leader given) or c10d (they join)."},
    {FLAG("rdzv-endpoint", OPTION_STRING, rdzv_endpoint), .text = "", .arg = "HOST[:PORT]",
     .help = "Where the coordinator is; c10d: port 29400 unless given."},
    {FLAG("rdzv-id", OPTION_STRING, rdzv_id), .text = "none", .arg = "ID",
     .help = "Name of the run, the same on all nodes."},
    {FLAG("rdzv-conf", OPTION_STRING, rdzv_conf), .text = "", .arg = "KEY=VALUE,…",
     .help = "Seconds: join_timeout (static: also timeout), last_call_timeout, rejoin_timeout; "
             "is_host, rank, key. crash_loop=N: N failures in a row, each within 5 s of the "
             "start, end the run. torchrun's other keys are taken and not needed."},
    {FLAG("standalone", OPTION_BOOL, standalone), .text = "false",
     .help = "One node, no network: overrides the other rendezvous flags."},
    {FLAG("max-restarts", OPTION_INT, max_restarts), .text = "0", .min = 0, .max = 1000000,
     .help = "How often a failed group is started again, over all nodes."},
    {FLAG("monitor-interval", OPTION_REAL, monitor_interval), .text = "0.1", .min = 0, .max = 86400,
     .help = "Taken for compatibility: workers are watched without an interval."},
    {FLAG("start-method", OPTION_STRING, start_method), .text = "spawn",
     .help = "Taken for compatibility: a script is always started as a new process."},
    {FLAG("event-log-handler", OPTION_STRING, event_log_handler), .text = "null",
     .help = "Only null is served."},
    {FLAG("role", OPTION_STRING, role), .text = "default", .arg = "ROLE",
     .help = "Role of this node's workers (ROLE_NAME, log prefix)."},
    {FLAG("module", OPTION_BOOL, module), .letter = 'm', .text = "false",
     .help = "The script is a Python module, as with python -m."},
    {FLAG("no-python", OPTION_BOOL, no_python), .text = "false",
     .help = "The script is a program: run it without an interpreter."},
    {FLAG("run-path", OPTION_BOOL, run_path), .text = "false",
     .help = "The script is run by Python's runpy, also with --no-python or -m."},
    {FLAG("log-dir", OPTION_STRING, log_dir), .text = "", .arg = "DIR",
     .help = "Where log folders go; a temporary folder unless given, /dev/null for none."},
    {FLAG("redirects", OPTION_STRING, redirects), .letter = 'r', .text = "0",
     .arg = "0-3|RANK:0-3,…",
     .help = "Streams that go to files: 0 none, 1 stdout, 2 stderr, 3 both; also per local rank."},
    {FLAG("tee", OPTION_STRING, tee), .letter = 't', .text = "0", .arg = "0-3|RANK:0-3,…",
     .help = "Streams that go to files and to the console, with a prefix."},
    {FLAG("local-ranks-filter", OPTION_STRING, local_ranks_filter), .text = "", .arg = "RANK,…",
     .help = "Only these local ranks are shown on the console."},
    {FLAG("duplicate-stdout-filters", OPTION_STRING, duplicate_stdout_filters), .text = "",
     .arg = "WORD,…", .help = "Lines with one of these words also go to filtered_stdout.log."},
    {FLAG("duplicate-stderr-filters", OPTION_STRING, duplicate_stderr_filters), .text = "",
     .arg = "WORD,…", .help = "Lines with one of these words also go to filtered_stderr.log."},
    {FLAG("log-line-prefix-template", OPTION_STRING, log_line_prefix_template), .text = "",
     .arg = "TEXT",
     .help =
         "Prefix of lines on the console, with ${role_name}, ${local_rank}, ${rank}, ${hostname}."},
    {FLAG("logs-specs", OPTION_STRING, logs_specs), .text = "",
     .help = "Python plug-ins for logs are not served."},
    {FLAG("node-rank", OPTION_INT, node_rank), .text = "-1", .min = -1, .max = JOB_NODES_MAX - 1,
     .arg = "N", .help = "Rank of this node: needed with static, an order to keep with c10d."},
    {FLAG("master-addr", OPTION_STRING, master_addr), .text = "127.0.0.1", .arg = "HOST",
     .help = "Host of node rank 0 (static)."},
    {FLAG("master-port", OPTION_INT, master_port), .text = "0", .min = 0, .max = 65535,
     .arg = "PORT", .help = "Port of node rank 0 (static); 29500 unless given."},
    {FLAG("local-addr", OPTION_STRING, local_addr), .text = "", .arg = "HOST",
     .help = "Address that this node gives to the others."},
    {FLAG("numa-binding", OPTION_CHOICE, numa_binding), .text = "none", .choices = bindings,
     .arg = "MODE",
     .help = "Processors of each worker, by its GPU: its node, socket, an exclusive share of the "
             "node's cores, or one core-complex (shared cache)."},
    {FLAG("signals-to-handle", OPTION_STRING, signals_to_handle),
     .text = "SIGTERM,SIGINT,SIGHUP,SIGQUIT", .arg = "SIGNAL,…",
     .help = "Signals that stop the run and are passed on to the workers."},
    {FLAG("shutdown-timeout", OPTION_INT, shutdown_timeout), .text = "30", .min = 0, .max = 86400,
     .arg = "SECONDS",
     .help = "Time for workers between a signal and SIGKILL; else TORCH_ELASTIC_SHUTDOWN_TIMEOUT."},
    {FLAG("notice-file", OPTION_STRING, notice_file), .text = LAUNCH_NOTICE_FILE, .arg = "PATH",
     .help = "File that announces the end of this node (a spot instance is taken back, its lease "
             "is over). The node then leaves the run before its deadline; empty: not watched."},
    {FLAG("notice-signal", OPTION_STRING, notice_signal), .text = "none", .arg = "SIGNAL|none",
     .help = "Signal that the workers of all nodes get once when one node's end is announced, so "
             "that they can write a checkpoint."},
    {FLAG("virtual-local-rank", OPTION_BOOL, virtual_local_rank), .text = "false",
     .help = "Every worker sees LOCAL_RANK 0 and one CUDA device."},
    {FLAG("launch", OPTION_BOOL, launch), .text = "false",
     .help = "As python -m torch.distributed.launch: scripts also get --local-rank=N."},
    {FLAG("use-env", OPTION_BOOL, use_env), .text = "false",
     .help = "With --launch: do not pass --local-rank, LOCAL_RANK has it."},
    {FLAG("exit-code", OPTION_CHOICE, exit_code), .text = "agent", .choices = exit_codes,
     .help = "What dtrun ends with: 1 for any failure, or the first failing worker's status."},
    {FLAG("print-completion", OPTION_CHOICE, print_completion), .text = "none",
     .choices = completions, .arg = "SHELL", .marks = OPTION_NO_ENV,
     .help = "Print the completions for a shell, and end."},
    {FLAG("help", OPTION_BOOL, help), .letter = 'h', .text = "false", .marks = OPTION_NO_ENV,
     .help = "Show this help."},
    {FLAG("version", OPTION_BOOL, version), .text = "false", .marks = OPTION_NO_ENV,
     .help = "Show the version."},
};

const struct option_table launch_table = {"Options", rows, sizeof rows / sizeof rows[0]};
