// SPDX-License-Identifier: Apache-2.0
// How a command is run on the nodes: the rest of [train], and torchrun's own flags, which go to the
// agent under their own names.
#include "conf/config.h"
#include "sys/proc.h"

#include <stddef.h>
#include <string.h>

#define AT(field)          .offset = offsetof(struct config, job.field)
#define AT_TORCHRUN(field) .offset = offsetof(struct config, torchrun.field)
#define AT_SETUP(field)    .offset = offsetof(struct config, setup.field)
#define TORCHRUN(name, dashed)                                                                     \
    .key = "train.torchrun." name, .flag = dashed, .verbs = "train", .marks = OPTION_PASS_ON

enum { TASK_DAYS_MAX = 365 };

static const char *const devices[] = {"auto", "cpu", "gpu", NULL};

static int check_notice_signal(const char *name, struct err *e) {
    if (strcmp(name, "auto") == 0 || strcmp(name, "none") == 0 || proc_signal_parse(name, e) > 0)
        return 0;
    return err_wrap(e, "neither auto nor none");
}

static int check_signals(const char *text, struct err *e) {
    struct arena a = {0};
    char **names;
    size_t count = str_split(&a, text, ',', &names);
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++)
        result = !names[i][0] || proc_signal_parse(names[i], e) > 0 ? 0 : -1;
    arena_fini(&a);
    return result;
}

static const struct option_row job_rows[] = {
    {.key = "train.command",
     .verbs = "train",
     .type = OPTION_LIST,
     .marks = OPTION_REST,
     AT(command),
     .arg = "COMMAND…",
     .help = "Program and arguments that every rank runs, on the command line after --; empty: the "
             "native trainer."},
    {.key = "train.shell",
     .flag = "shell",
     .verbs = "train",
     .type = OPTION_STRING,
     AT(shell),
     .arg = "LINE",
     .help = "Line that every rank runs with bash, with pipes and the worker's $VARIABLES; "
             "hyperparameters are in \"$@\"."},
    {.key = "setup.run",
     .flag = "setup",
     .verbs = "train",
     .type = OPTION_STRING,
     AT_SETUP(run),
     .arg = "LINES",
     .help =
         "Lines of bash that prepare each node, in the command's folder, before any rank starts. "
         "They run once per node for the same lines and the same files of setup.needs. The first "
         "line that fails ends the run. Files for later runs belong in $DTCTL_SETUP_DIR."},
    {.key = "setup.needs",
     .verbs = "train",
     .type = OPTION_PATHS,
     AT_SETUP(needs),
     .arg = "PATH",
     .help = "Files and folders below the current one that setup.run reads. They are sent; when "
             "one changes, setup.run runs again."},
    {.key = "setup.timeout",
     .verbs = "train",
     .type = OPTION_DURATION,
     AT_SETUP(timeout_ms),
     .text = "1h",
     .min = 1000,
     .max = 86400000,
     .arg = "TIME",
     .help = "Time limit of setup.run on a node, and of unpacking env.bundle.archive and inputs "
             "there."},
    {.key = "env.bundle.archive",
     .flag = "env-bundle",
     .verbs = "train",
     .type = OPTION_PATH,
     AT(env_bundle),
     .arg = "FILE",
     .help = "Python environment of the command: a .tar or .tar.zst of conda-pack or of a venv. "
             "It is sent once to each node and unpacked there once; its bin comes first on PATH."},
    {.flag = "task",
     .verbs = "train",
     .type = OPTION_STRING,
     .marks = OPTION_NO_ENV,
     AT(task),
     .arg = "NAME",
     .check = option_plain_name,
     .help = "Run the task [tasks.NAME] of the configuration file; its keys override the file's "
             "other keys."},
    {.key = "task.after",
     .verbs = "train",
     .type = OPTION_LIST,
     AT(after),
     .check = option_plain_name,
     .arg = "TASK",
     .help = "Tasks that must have finished before this one starts; the command finds the run of "
             "each in DTCTL_TASK_<TASK>."},
    {.key = "task.if_changed",
     .flag = "if-changed",
     .verbs = "train",
     .type = OPTION_BOOL,
     AT(if_changed),
     .text = "false",
     .help = "Do not run the task again when its newest finished run had the same command, files, "
             "inputs, setup, environment and settings."},
    {.flag = "force",
     .verbs = "train",
     .type = OPTION_BOOL,
     .marks = OPTION_NO_ENV,
     AT(force),
     .text = "false",
     .help = "Run the task even when --if-changed finds an equal finished run."},
    {.flag = "clean-state",
     .verbs = "train",
     .type = OPTION_BOOL,
     .marks = OPTION_NO_ENV,
     AT(clean_state),
     .text = "false",
     .help = "Begin without the state of earlier runs, also where state.keep = task or --resume "
             "would give it. Later runs have the state of this one."},
    {.key = "task.once",
     .flag = "once",
     .verbs = "train",
     .type = OPTION_BOOL,
     AT(once),
     .text = "false",
     .help = "Run one process on one node, for a task such as data preparation."},
    {.key = "task.max_time",
     .flag = "max-time",
     .verbs = "train bench",
     .type = OPTION_DURATION,
     AT(max_time_ms),
     .text = "0s",
     .min = 0,
     .max = TASK_DAYS_MAX * 86400000LL,
     .arg = "TIME",
     .help = "Time limit of the run, from the start of its agents; 0: none. The workers get the "
             "notice signal one minute before the limit, or at nine tenths of a short limit. At "
             "the limit the run is stopped, and its results are fetched. The agents enforce the "
             "limit also without this program."},
    {.key = "train.nodes",
     .flag = "nodes",
     .verbs = "train bench",
     .type = OPTION_RANGE,
     AT(nodes),
     .min = 1,
     .max = 10000,
     .arg = "N|MIN:MAX",
     .help = "Number of nodes; empty: all of the cluster. With MIN:MAX the run continues while at "
             "least MIN nodes are left."},
    {.key = "train.nproc_per_node",
     .flag = "nproc-per-node",
     .verbs = "train bench",
     .type = OPTION_COUNT,
     AT(nproc_per_node),
     .text = "1",
     .min = 1,
     .max = 1024,
     .choices = devices,
     .arg = "N|auto|cpu|gpu",
     .help = "Processes per node: a number; gpu or cpu, one per device of the node; auto, gpu on "
             "nodes with GPUs and cpu on others."},
    {.key = "train.name",
     .flag = "name",
     .verbs = "train",
     .type = OPTION_STRING,
     AT(name),
     .arg = "TASK",
     .check = option_plain_name,
     .help = "Prefix of the run's name; empty: from the command or the model."},
    {.key = "train.detach",
     .flag = "detach",
     .letter = 'd',
     .verbs = "train",
     .type = OPTION_BOOL,
     AT(detach),
     .text = "false",
     .help = "Return as soon as every rank has started, and leave the run active."},
    {.key = "train.spares",
     .flag = "spares",
     .verbs = "train",
     .type = OPTION_INT,
     AT(spares),
     .text = "0",
     .min = 0,
     .max = 4096,
     .help = "Number of nodes in addition to --nodes that stand by and replace lost nodes."},
    {.key = "train.max_restarts",
     .flag = "max-restarts",
     .verbs = "train",
     .type = OPTION_INT,
     AT(max_restarts),
     .text = "0",
     .min = 0,
     .max = 1000000,
     .help = "Number of times that a failed group of ranks is started again."},
    {.key = "train.replace_nodes",
     .flag = "replace-nodes",
     .verbs = "train",
     .type = OPTION_BOOL,
     AT(replace_nodes),
     .text = "false",
     .help = "Provider aws: replace lost instances (such as preempted spot instances) during the "
             "run. New instances get the run's files, read inputs of a server again, and join it. "
             "Needs --max-restarts, and a dtctl that follows the run."},
    {.key = "train.files",
     .flag = "file",
     .verbs = "train",
     .type = OPTION_PATHS,
     AT(files),
     .arg = "PATH",
     .help = "File or folder to send to the command's working folder; may be repeated. For a "
             "folder with a slash at its end, its content is sent."},
    {.key = "train.exit_code",
     .flag = "exit-code",
     .verbs = "train",
     .type = OPTION_BOOL,
     AT(exit_code),
     .text = "false",
     .help = "End with the exit status of the first rank that failed."},
    {.key = "train.notice_signal",
     .flag = "notice-signal",
     .verbs = "train",
     .type = OPTION_STRING,
     AT(notice_signal),
     .text = "auto",
     .arg = "SIGNAL|auto|none",
     .check = check_notice_signal,
     .help = "Signal that every rank gets once when the end of a node is announced (preemption of "
             "a spot instance, end of the lease), so that it can write a checkpoint. auto: USR1 "
             "for the native trainer, none for commands."},
};

const struct option_table options_job = {"Run", job_rows, sizeof job_rows / sizeof job_rows[0]};

// "0" to "3" for all, or "LOCAL_RANK:0…3" separated by commas.
static int check_streams(const char *text, struct err *e) {
    bool fine = strlen(text) == 1 && text[0] >= '0' && text[0] <= '3';
    for (const char *p = text; !fine; p++) {
        size_t digits = strspn(p, "0123456789");
        p += digits;
        if (digits == 0 || p[0] != ':' || p[1] < '0' || p[1] > '3')
            return err_set(e, ERR_CONFIG,
                           "'%.100s' is neither 0, 1, 2 or 3 nor LOCAL_RANK:N,LOCAL_RANK:N…", text);
        p += 2;
        fine = !*p;
        if (!fine && *p != ',')
            return err_set(e, ERR_CONFIG, "'%.100s': expected ',' before '%.20s'", text, p);
    }
    return 0;
}

static int check_local_ranks(const char *text, struct err *e) {
    if (text[strspn(text, "0123456789, ")])
        return err_set(e, ERR_CONFIG, "'%.100s' is not a list of local ranks such as 0,1", text);
    return 0;
}

// K=V,K=V. Other keys than these would have no effect.
static int check_rdzv_conf(const char *text, struct err *e) {
    static const char *const seconds[] = {"join_timeout",
                                          "rejoin_timeout",
                                          "last_call_timeout",
                                          "timeout",
                                          "heartbeat",
                                          "silence",
                                          NULL};
    static const char *const others[] = {"rank", "is_host",    "store_type",
                                         "key",  "crash_loop", NULL};
    enum { CRASHES_MAX = 1000 };
    struct arena a = {0};
    int64_t crashes;
    char **pairs = NULL;
    size_t count = str_split(&a, text, ',', &pairs);
    int result = 0;
    for (size_t i = 0; *text && i < count && result == 0; i++) {
        char *equals = strchr(pairs[i], '=');
        double value;
        bool timed = false, known = false;
        if (!equals || equals == pairs[i]) {
            result = err_set(e, ERR_CONFIG, "'%.60s' is not KEY=VALUE", pairs[i]);
            break;
        }
        *equals = 0;
        for (size_t k = 0; seconds[k]; k++)
            timed |= strcmp(pairs[i], seconds[k]) == 0;
        for (size_t k = 0; others[k]; k++)
            known |= strcmp(pairs[i], others[k]) == 0;
        if (!timed && !known)
            result = err_set(e, ERR_CONFIG, "'%.60s' is no setting of the rendezvous%s", pairs[i],
                             cli_nearest(&a, pairs[i], seconds));
        else if (timed && str_parse_f64(equals + 1, 0, 86400, &value, e) < 0)
            result = err_set(e, ERR_CONFIG, "%s: '%.40s' is not a number of seconds", pairs[i],
                             equals + 1);
        else if (strcmp(pairs[i], "crash_loop") == 0 &&
                 str_parse_i64(equals + 1, 0, CRASHES_MAX, &crashes, e) < 0)
            result = err_set(e, ERR_CONFIG, "%s: '%.40s' is not a number of failures from 0 to %d",
                             pairs[i], equals + 1, CRASHES_MAX);
    }
    arena_fini(&a);
    return result;
}

static const struct option_row torchrun_rows[] = {
    {TORCHRUN("redirects", "redirects"), .letter = 'r', .type = OPTION_STRING,
     AT_TORCHRUN(redirects), .text = "0", .arg = "STREAMS", .check = check_streams,
     .help = "Streams that are written to files only: 0 none, 1 stdout, 2 stderr, 3 both; or per "
             "local rank, such as 0:3,1:1."},
    {TORCHRUN("tee", "tee"), .letter = 't', .type = OPTION_STRING, AT_TORCHRUN(tee), .text = "0",
     .arg = "STREAMS", .check = check_streams,
     .help = "Streams that are written to files and to the console, in the form of --redirects."},
    {TORCHRUN("local_ranks_filter", "local-ranks-filter"), .type = OPTION_STRING,
     AT_TORCHRUN(local_ranks_filter), .arg = "RANKS", .check = check_local_ranks,
     .help = "Local ranks, separated by commas, whose output the console shows; empty: all."},
    {TORCHRUN("duplicate_stdout_filters", "duplicate-stdout-filters"), .type = OPTION_STRING,
     AT_TORCHRUN(duplicate_stdout_filters), .arg = "TEXTS",
     .help = "Texts, separated by commas; lines of stdout that contain one are copied to a "
             "separate file."},
    {TORCHRUN("duplicate_stderr_filters", "duplicate-stderr-filters"), .type = OPTION_STRING,
     AT_TORCHRUN(duplicate_stderr_filters), .arg = "TEXTS",
     .help = "The same for lines of stderr."},
    {TORCHRUN("log_line_prefix_template", "log-line-prefix-template"), .type = OPTION_STRING,
     AT_TORCHRUN(log_line_prefix_template), .arg = "TEMPLATE",
     .help = "Prefix of console lines, with ${role_name}, ${rank}, ${local_rank}, ${hostname}."},
    {TORCHRUN("rdzv_conf", "rdzv-conf"), .type = OPTION_STRING, AT_TORCHRUN(rdzv_conf),
     .arg = "K=V,K=V", .check = check_rdzv_conf,
     .help = "Settings of the rendezvous, such as join_timeout=120."},
    {TORCHRUN("signals_to_handle", "signals-to-handle"), .type = OPTION_STRING,
     AT_TORCHRUN(signals_to_handle), .text = "SIGTERM,SIGINT,SIGHUP,SIGQUIT", .arg = "SIGNALS",
     .check = check_signals,
     .help = "Signals that stop the run; the agent passes them on to its workers."},
    {TORCHRUN("shutdown_timeout", "shutdown-timeout"), .type = OPTION_INT,
     AT_TORCHRUN(shutdown_timeout), .text = "30", .min = 0, .max = 86400, .arg = "SECONDS",
     .help = "Time from the signal to SIGKILL for workers, in seconds."},
    {TORCHRUN("monitor_interval", "monitor-interval"), .type = OPTION_REAL,
     AT_TORCHRUN(monitor_interval), .text = "0.1", .min = 0, .max = 3600, .arg = "SECONDS",
     .help = "Longest time until the agent notices a change of a worker, in seconds."},
    {TORCHRUN("role", "role"), .type = OPTION_STRING, AT_TORCHRUN(role), .text = "default",
     .arg = "NAME", .help = "Role of the workers, in ROLE_NAME and in prefixes."},
};

const struct option_table options_torchrun = {"torchrun", torchrun_rows,
                                              sizeof torchrun_rows / sizeof torchrun_rows[0]};
