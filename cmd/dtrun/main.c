// SPDX-License-Identifier: Apache-2.0
// dtrun: starts the workers of a distributed job on this node, with torchrun's command line.
#include "base/env.h"
#include "base/log.h"
#include "build_info.h"
#include "conf/cli.h"
#include "conf/render.h"
#include "launch/launch.h"
#include "node_verbs.h"
#include "scheduler_flags.h"
#include "sys/file.h"
#include "sys/proc.h"
#include "verb.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern char **environ;

static const struct render_program program = {
    .name = "dtrun",
    .summary = "start the workers of a distributed job on this node",
    .version = DTCTL_VERSION,
    .synopsis = "[FLAGS] SCRIPT [ARGUMENTS]",
    .text =
        "Takes torchrun's command line and gives workers what torchrun gives them. Flags can "
        "also be set as PET_<FLAG>; a flag on the command line wins. Underscores and hyphens "
        "in flags are the same, and a flag may be shortened while it is unambiguous.\n\n"
        "On several nodes: the same command on each, with --nnodes, --rdzv-backend c10d, "
        "--rdzv-endpoint HOST:PORT and --rdzv-id; or with --node-rank, --master-addr and "
        "--master-port. DTRUN_KEY holds a secret that all agents of a run share.\n\n"
        "Under srun and mpirun, values that are not given come from them: nodes, this node's rank, "
        "the leader, and workers per node (tasks of the node, or its GPUs with one task). "
        "There is one agent per node; further tasks wait for it, unless --node-rank is given, "
        "or as many nodes as there are tasks: then each task is an agent. For Open MPI the "
        "leader is "
        "where mpirun runs; MASTER_ADDR names another.\n\n"
        "`dtrun shard-range TOTAL` prints this node's part of TOTAL rows. `dtrun wait PATH` waits "
        "until other processes have written a file.\n\n"
        "Python is PYTHON_EXEC, that of the active virtual environment, or python3.",
};

static int fail(const struct err *e) {
    fprintf(stderr, "dtrun: %s\n", e->text);
    return err_status(e->code);
}

// The help, or the completions for a shell.
static int describe(const struct option_set *set, const char *shell) {
    struct strbuf text = {0};
    struct err e;
    int rc = 0;
    if (shell)
        rc = render_completion(&text, set, &program, shell, &e);
    else
        render_help(&text, set, &program, 0);
    if (rc == 0)
        rc = file_print(strbuf_cstr(&text), &e);
    strbuf_fini(&text);
    return rc < 0 ? fail(&e) : 0;
}

static enum log_level level_wanted(char *const *env) {
    const char *level = env_get(env, "LOGLEVEL"); // torchrun's variable and default
    static const struct {
        const char *name;
        enum log_level level;
    } names[] = {{"NOTSET", LOG_DEBUG},   {"DEBUG", LOG_DEBUG},  {"INFO", LOG_INFO},
                 {"WARN", LOG_WARN},      {"WARNING", LOG_WARN}, {"ERROR", LOG_ERROR},
                 {"CRITICAL", LOG_ERROR}, {"FATAL", LOG_ERROR}};
    for (size_t i = 0; level && i < sizeof names / sizeof *names; i++)
        if (strcasecmp(level, names[i].name) == 0)
            return names[i].level;
    return LOG_WARN;
}

// Until the agent handles signals no worker runs, so the process may just end.
static const int early_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

static void on_early_signal(int signal) {
    static const char text[] = "dtrun: error: the run was stopped reason=a signal was received\n";
    (void)signal;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

static void take_early_signals(void (*handler)(int)) {
    for (size_t i = 0; i < sizeof early_signals / sizeof *early_signals; i++) {
        struct sigaction old, new = {.sa_handler = handler};
        if (sigaction(early_signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(early_signals[i], &new, NULL);
    }
}

static int work(struct launch *l, const struct cli_rest *rest) {
    struct err e;
    if (launch_by_hand(l, rest->command, rest->command_count, &e) < 0)
        return fail(&e);
    sigprocmask(SIG_BLOCK, &l->agent.signals, NULL); // from here on the agent handles them
    take_early_signals(SIG_DFL);
    int status = agent_run(&l->agent, &e);
    launch_end(l);
    return status < 0 ? fail(&e) : status;
}

// Scans a copy of the arguments. The key in the original, which every user of this host can read,
// is overwritten.
static void scan(struct option_set *set, int argc, char **argv, struct cli_rest *rest) {
    const char **copy = arena_new(set->arena, const char *, (size_t)argc + 1);
    for (int i = 0; i < argc; i++)
        copy[i] = arena_strdup(set->arena, argv[i]);
    cli_scan(set, NULL, 0, argc, copy, rest);
    for (int i = 0; i < argc - (int)rest->command_count; i++)
        launch_key_hide(argv[i]);
}

static int run(int argc, char **argv, char *const *env) {
    static struct arena arena; // until the process ends
    static struct launch launch;
    struct option_set set;
    struct cli_rest rest;
    struct around around;
    struct err e;
    launch_init(&launch, &arena, env);
    option_set_init(&set, &arena, "dtrun", "PET_", env);
    set.style = OPTION_STYLE_UNDERSCORES | OPTION_STYLE_PREFIXES | OPTION_STYLE_REMAINDER;
    option_set_add(&set, &launch_table, &launch.options);
    scan(&set, argc - 1, argv + 1, &rest);
    if (scheduler_flags_read(&set, &around, &e) < 0)
        return fail(&e);
    option_set_env(&set, env);
    cli_apply(&set);
    if (launch.options.help)
        return describe(&set, NULL);
    if (launch.options.print_completion > 0)
        return describe(&set, render_shells[launch.options.print_completion - 1]);
    if (launch.options.version)
        return file_print("dtrun " DTCTL_VERSION "\n", &e) < 0 ? fail(&e) : 0;
    if (option_set_finish(&set, &e) < 0)
        return fail(&e), 2; // every error here is an error of usage
    int hold, turn = scheduler_flags_take_turn(&arena, &around, &hold, &e);
    if (turn != 0)
        return turn < 0 ? fail(&e) : 0;
    int status = work(&launch, &rest);
    scheduler_flags_end_turn(&around, hold);
    return status;
}
int main(int argc, char **argv) {
    proc_prepare();
    if (argc > 1 && strcmp(argv[1], "--node") == 0) {
        log_open("dtrun", LOG_WARN, LOG_PLAIN);
        return node_verbs_run(argc - 2, argv + 2, environ);
    }
    static const struct verb *const verbs[] = {&verb_shard_range, &verb_wait};
    for (size_t i = 0; argc > 1 && i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(argv[1], verbs[i]->name) == 0)
            return verb_main(verbs[i], argc - 2, (const char *const *)argv + 2, environ);
    take_early_signals(on_early_signal);
    log_open("dtrun", level_wanted(environ), LOG_PLAIN);
    return run(argc, argv, environ);
}
