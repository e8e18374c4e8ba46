// SPDX-License-Identifier: Apache-2.0
// torchrun's command line as a table: names, defaults, help. Unsupported flags are marked and
// refused when given.
#include "launch/launch.h"
#include "sys/file_entries.h"
#include "sys/proc.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define AT(field)               .offset = offsetof(struct launch_options, field)
#define FLAG(name, kind, field) .flag = name, .type = kind, AT(field)

static const char *const exit_codes[] = {"agent", "worker", NULL};
static const char *const bindings[] = {"none", "node", "socket", "exclusive", "core-complex", NULL};
static const char *const completions[] = {"none", "bash", "zsh", "fish", NULL};

static const struct option_row rows[] = {
    {FLAG("nnodes", OPTION_RANGE, nnodes), .letter = 'n', .text = "1:1", .min = 1,
     .max = JOB_NODES_MAX, .arg = "N|MIN:MAX",
     .help = "Number of nodes, or the range MIN:MAX of an elastic run."},
    {FLAG("nproc-per-node", OPTION_STRING, nproc_per_node), .word = "ppn", .text = "1",
     .arg = "N|auto|cpu|gpu",
     .help = "Workers per node: a number, or one per device of a kind. Also -ppn."},
    {FLAG("rdzv-backend", OPTION_STRING, rdzv_backend), .text = "static", .arg = "static|c10d",
     .help = "How nodes find each other: static (ranks and leader given) or c10d (they join)."},
    {FLAG("rdzv-endpoint", OPTION_STRING, rdzv_endpoint), .text = "", .arg = "HOST[:PORT]",
     .help = "Address of the coordinator; c10d: default port 29400."},
    {FLAG("rdzv-id", OPTION_STRING, rdzv_id), .text = "none", .arg = "ID",
     .help = "Name of the run, the same on all nodes."},
    {FLAG("rdzv-conf", OPTION_STRING, rdzv_conf), .text = "", .arg = "KEY=VALUE,…",
     .help = "In seconds: join_timeout (static: also timeout), last_call_timeout, rejoin_timeout; "
             "others: is_host, rank, key. crash_loop=N: N failures in a row, each within 5 s of "
             "the start, end the run. torchrun's other keys are accepted and ignored."},
    {FLAG("standalone", OPTION_BOOL, standalone), .text = "false",
     .help = "One node, no network: overrides the other rendezvous flags."},
    {FLAG("max-restarts", OPTION_INT, max_restarts), .text = "0", .min = 0, .max = 1000000,
     .help = "Number of times that a failed group of workers is started again, counted over all "
             "nodes."},
    {FLAG("monitor-interval", OPTION_REAL, monitor_interval), .text = "0.1", .min = 0, .max = 86400,
     .help = "Accepted for compatibility; dtrun notices changes of workers at once."},
    {FLAG("start-method", OPTION_STRING, start_method), .text = "spawn",
     .help = "Accepted for compatibility; a script is always started as a new process."},
    {FLAG("event-log-handler", OPTION_STRING, event_log_handler), .text = "null",
     .help = "Only null is supported."},
    {FLAG("role", OPTION_STRING, role), .text = "default", .arg = "ROLE",
     .help = "Role of this node's workers (ROLE_NAME, log prefix)."},
    {FLAG("module", OPTION_BOOL, module), .letter = 'm', .text = "false",
     .help = "The script is a Python module, as with python -m."},
    {FLAG("no-python", OPTION_BOOL, no_python), .text = "false",
     .help = "The script is a program: run it without an interpreter."},
    {FLAG("run-path", OPTION_BOOL, run_path), .text = "false",
     .help = "The script is run by Python's runpy, also with --no-python or -m."},
    {FLAG("log-dir", OPTION_STRING, log_dir), .text = "", .arg = "DIR",
     .help = "Parent of the log folders; default: a temporary folder; /dev/null: no files."},
    {FLAG("redirects", OPTION_STRING, redirects), .letter = 'r', .text = "0",
     .arg = "0-3|RANK:0-3,…",
     .help = "Streams that are written to files only: 0 none, 1 stdout, 2 stderr, 3 both; also per "
             "local rank."},
    {FLAG("tee", OPTION_STRING, tee), .letter = 't', .text = "0", .arg = "0-3|RANK:0-3,…",
     .help = "Streams that are written to files, and to the console with a prefix."},
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
     .help = "Python plug-ins for logs are not supported."},
    {FLAG("node-rank", OPTION_INT, node_rank), .text = "-1", .min = -1, .max = JOB_NODES_MAX - 1,
     .arg = "N", .help = "Rank of this node; required with static, respected with c10d."},
    {FLAG("master-addr", OPTION_STRING, master_addr), .text = "127.0.0.1", .arg = "HOST",
     .help = "Host of node rank 0 (static)."},
    {FLAG("master-port", OPTION_INT, master_port), .text = "0", .min = 0, .max = 65535,
     .arg = "PORT", .help = "Port of node rank 0 (static); default: 29500."},
    {FLAG("local-addr", OPTION_STRING, local_addr), .text = "", .arg = "HOST",
     .help = "Address of this node for the other nodes."},
    {FLAG("numa-binding", OPTION_CHOICE, numa_binding), .text = "none", .choices = bindings,
     .arg = "MODE",
     .help = "Processors of each worker, near its GPU: the NUMA node, the socket, an exclusive "
             "share of the NUMA node's cores, or one core complex (shared cache)."},
    {FLAG("signals-to-handle", OPTION_STRING, signals_to_handle),
     .text = "SIGTERM,SIGINT,SIGHUP,SIGQUIT", .arg = "SIGNAL,…",
     .help = "Signals that stop the run and are passed on to the workers."},
    {FLAG("shutdown-timeout", OPTION_INT, shutdown_timeout), .text = "30", .min = 0, .max = 86400,
     .arg = "SECONDS",
     .help = "Time from a signal to SIGKILL for workers; default: TORCH_ELASTIC_SHUTDOWN_TIMEOUT."},
    {FLAG("notice-file", OPTION_STRING, notice_file), .text = LAUNCH_NOTICE_FILE, .arg = "PATH",
     .help = "File that announces the end of this node (preemption of a spot instance, end of its "
             "lease). The node leaves the run before that end; empty: no file is watched."},
    {FLAG("notice-signal", OPTION_STRING, notice_signal), .text = "none", .arg = "SIGNAL|none",
     .help = "Signal that the workers of all nodes get once when one node's end is announced, so "
             "that they can write a checkpoint."},
    {FLAG("virtual-local-rank", OPTION_BOOL, virtual_local_rank), .text = "false",
     .help = "Every worker sees LOCAL_RANK 0 and one CUDA device."},
    {FLAG("launch", OPTION_BOOL, launch), .text = "false",
     .help = "Behave as python -m torch.distributed.launch: scripts also get --local-rank=N."},
    {FLAG("use-env", OPTION_BOOL, use_env), .text = "false",
     .help = "With --launch: do not pass --local-rank; scripts read LOCAL_RANK."},
    {FLAG("exit-code", OPTION_CHOICE, exit_code), .text = "agent", .choices = exit_codes,
     .help = "Exit status after a failure: 1, or that of the first failed worker."},
    {FLAG("print-completion", OPTION_CHOICE, print_completion), .text = "none",
     .choices = completions, .arg = "SHELL", .marks = OPTION_NO_ENV,
     .help = "Print the completion script for a shell, and exit."},
    {FLAG("help", OPTION_BOOL, help), .letter = 'h', .text = "false", .marks = OPTION_NO_ENV,
     .help = "Show this help."},
    {FLAG("version", OPTION_BOOL, version), .text = "false", .marks = OPTION_NO_ENV,
     .help = "Show the version."},
};

const struct option_table launch_table = {"Options", rows, sizeof rows / sizeof rows[0]};

// ---- the grammars inside flags ------------------------------------------------------------------
// Parsers for values of torchrun's flags.

int launch_gpu_count(const char *visible) {
    if (visible) {
        int count = 0;
        for (const char *p = visible; *p; p += strcspn(p, ","), p += *p == ',') {
            if (*p == '-' || *p == ',') // CUDA stops at the first invalid one
                break;
            count++;
        }
        return count;
    }
    int count = 0;
    struct file_entries in = file_entries_open("/proc/driver/nvidia/gpus");
    while (file_entries_next(&in))
        count += in.name[0] != '.';
    (void)file_entries_close(&in, 0, NULL);
    return count;
}

int launch_nproc(const char *text, const char *visible, int *out, struct err *e) {
    int64_t n;
    int gpus = launch_gpu_count(visible);
    if (strcmp(text, "cpu") == 0 || (strcmp(text, "auto") == 0 && gpus == 0)) {
        n = proc_cpu_count();
    } else if (strcmp(text, "auto") == 0 || strcmp(text, "gpu") == 0) {
        n = gpus;
        if (gpus == 0)
            return err_set(e, ERR_USAGE, "--nproc-per-node gpu: this host has no CUDA device");
    } else if (str_parse_i64(text, 1, LAUNCH_NPROC_MAX, &n, e) < 0) {
        return err_set(e, ERR_USAGE,
                       "--nproc-per-node '%.40s' is neither a number from 1 to %d nor auto, cpu or "
                       "gpu",
                       text, LAUNCH_NPROC_MAX);
    }
    *out = (int)n;
    return 0;
}

static int bad_streams(const char *text, struct err *e) {
    return err_set(e, ERR_USAGE, "'%.100s' is neither 0, 1, 2 or 3 nor a list like 0:3,1:1", text);
}

int launch_streams(const char *text, int nproc, unsigned char *out, struct err *e) {
    memset(out, 0, (size_t)nproc);
    if (text[0] >= '0' && text[0] <= '3' && !text[1]) {
        memset(out, text[0] - '0', (size_t)nproc);
        return 0;
    }
    for (const char *p = text; *p;) {
        char *end;
        long rank = strtol(p, &end, 10);
        if (end == p || end[0] != ':' || end[1] < '0' || end[1] > '3' || (end[2] && end[2] != ','))
            return bad_streams(text, e);
        if (rank >= 0 && rank < nproc)
            out[rank] = (unsigned char)(end[1] - '0');
        p = end + 2 + (end[2] == ',');
    }
    return text[0] ? 0 : bad_streams(text, e);
}

int launch_ranks_filter(const char *text, int nproc, bool *on_console, struct err *e) {
    for (int i = 0; i < nproc; i++)
        on_console[i] = !text[0];
    for (const char *p = text; *p;) {
        char *end;
        long rank = strtol(p, &end, 10);
        if (end == p || (*end && *end != ','))
            return err_set(e, ERR_USAGE, "--local-ranks-filter '%.100s' is not a list of numbers",
                           text);
        if (rank >= 0 && rank < nproc)
            on_console[rank] = true;
        p = end + (*end == ',');
    }
    return 0;
}

const char *const *launch_filters(struct arena *a, const char *text) {
    size_t room = strlen(text) + 2, count = 0;
    const char **out = arena_new(a, const char *, room);
    struct strbuf word = {0};
    for (const char *p = text; *text; p++) {
        if (p[0] == ',' && p[1] == ',') { // a comma that is meant
            strbuf_addc(&word, ',');
            p++;
        } else if (p[0] && p[0] != ',') {
            strbuf_addc(&word, p[0]);
        } else {
            if (word.len > 0)
                out[count++] = arena_strdup(a, strbuf_cstr(&word));
            strbuf_clear(&word);
            if (!p[0])
                break;
        }
    }
    strbuf_fini(&word);
    return out;
}

int launch_signals(const char *text, sigset_t *out, struct err *e) {
    struct arena a = {0};
    char **names;
    size_t count = str_split(&a, text, ',', &names);
    int rc = 0;
    sigemptyset(out);
    for (size_t i = 0; i < count && rc == 0; i++) {
        int signal = names[i][0] ? proc_signal_parse(names[i], e) : 0;
        if (signal < 0)
            rc = err_wrap(e, "--signals-to-handle");
        else if (signal == SIGKILL || signal == SIGSTOP || signal == SIGCHLD)
            rc = err_set(e, ERR_USAGE, "--signals-to-handle: %s cannot be handled", names[i]);
        else if (signal > 0)
            sigaddset(out, signal);
    }
    arena_fini(&a);
    return rc;
}

int launch_notice_signal(const char *text, struct err *e) {
    if (strcmp(text, "none") == 0)
        return 0;
    int signal = proc_signal_parse(text, e);
    if (signal < 0)
        return err_wrap(e, "--notice-signal");
    if (signal == SIGKILL || signal == SIGSTOP)
        return err_set(e, ERR_USAGE, "--notice-signal: workers cannot act on %s", text);
    return signal;
}

const char *launch_conf(struct arena *a, const char *conf, const char *key) {
    char **entries;
    size_t count = str_split(a, conf, ',', &entries), n = strlen(key);
    for (size_t i = 0; i < count; i++) {
        const char *entry = entries[i];
        while (*entry == ' ')
            entry++;
        if (strncmp(entry, key, n) == 0 && entry[n] == '=')
            return entry + n + 1;
    }
    return NULL;
}

int64_t launch_conf_ms(struct arena *a, const char *conf, const char *key, int64_t absent_ms) {
    struct err e;
    double seconds;
    const char *text = launch_conf(a, conf, key);
    if (!text || str_parse_f64(text, 0, 7 * 86400, &seconds, &e) < 0)
        return absent_ms;
    return (int64_t)(seconds * 1000);
}
