// SPDX-License-Identifier: Apache-2.0
// The part of an agent's configuration that both kinds of launch share: workers, limits in
// --rdzv-conf, the command line of workers, and torchrun's watchdogs.
#include "launch/launch.h"

#include "sys/file.h"
#include "tests/tap.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct arena arena;
static struct err e;
static struct launch l;
static struct option_set set;
static char *no_variables[] = {NULL};
static char root[] = "/tmp/test_launch_config.XXXXXX";

// An agent with the defaults of all flags.
static void begin(char *const *env) {
    launch_init(&l, &arena, env);
    option_set_init(&set, &arena, "dtrun", "", env);
    option_set_add(&set, &launch_table, &l.options);
    l.options.nproc_per_node = "2";
    err_clear(&e);
}

static struct rendezvous_config *fill(const char *conf) {
    begin(no_variables);
    l.options.rdzv_conf = conf;
    return launch_fill(&l, &e) < 0 ? NULL : &l.agent.coordinator.rendezvous;
}

// ---- limits -------------------------------------------------------------------------------------

static void test_defaults(void) {
    struct rendezvous_config *r = fill("");
    if (!r)
        bail_out("%s", e.text);
    ok(l.agent.listen_fd == -1 && l.agent.node_rank == -1 && l.agent.health_port == -1,
       "a new launch has neither port, rank nor health checks");
    ok(r->nodes_min == 1 && r->nodes_max == 1 && r->max_restarts == 0, "one node has one try");
    ok(r->join_timeout_ms == 600000 && l.agent.join_timeout_ms == 600000,
       "nodes have ten minutes to join");
    ok(r->rejoin_timeout_ms == 30000 && r->last_call_ms == 5000 && r->regroup_call_ms == 500,
       "groups form again with their own limits");
    is_int(l.agent.coordinator.shutdown_timeout_ms, 30000, "workers have 30 s to end");
    is_int(r->stop_ms_max, 50000, "a stop has 20 s more than the workers");
    ok(r->note_ms == 5000 && r->backoff_ms == 1000, "notes and delays have their intervals");
    ok(r->crashes_max == 0 && r->crash_ms == 0, "no number of crashes ends a group");
    ok(l.agent.beat_ms == 300 && r->silent_ms_max == 1500 && r->lease_ms == 1500 + 600 + 93,
       "a lease is longer than the silence");
    ok(l.agent.report && !l.agent.exit_code_of_worker && !l.agent.virtual_local_rank,
       "failures are reported");
    is_int(l.agent.notice_signal, 0, "no signal follows a notice");
    ok(l.agent.workers.nproc == 2 && !l.agent.workers.prefix && !l.agent.workers.processors,
       "workers have neither a prefix of lines nor processors of their own");
    begin(no_variables);
    l.options.exit_code = 1;
    l.options.shutdown_timeout = 7;
    l.options.nnodes = (struct option_range){.min = 2, .max = 5};
    l.options.max_restarts = 3;
    l.options.virtual_local_rank = true;
    l.options.log_line_prefix_template = "[x]";
    l.options.notice_signal = "SIGUSR1";
    is_int(launch_fill(&l, &e), 0, "other flags count");
    r = &l.agent.coordinator.rendezvous;
    ok(l.agent.exit_code_of_worker && l.agent.coordinator.shutdown_timeout_ms == 7000 &&
           r->stop_ms_max == 27000 && r->nodes_min == 2 && r->nodes_max == 5 &&
           r->max_restarts == 3 && l.agent.virtual_local_rank && l.agent.notice_signal == 10,
       "the agent has the flags");
    is_str(l.agent.workers.prefix, "[x]", "lines have the prefix");
}

static void test_times(void) {
    struct rendezvous_config *r =
        fill("join_timeout=7,rejoin_timeout=8,last_call_timeout=9.5,timeout=6");
    ok(r && r->join_timeout_ms == 7000 && r->rejoin_timeout_ms == 8000 && r->last_call_ms == 9500,
       "the times are torchrun's");
    is_int(fill("timeout=6")->join_timeout_ms, 6000, "a static start has the key timeout");
    l.options.rdzv_backend = "c10d";
    is_int(launch_join_ms(&l), 600000, "another start has no key timeout");
    l.options.rdzv_backend = "static";
    l.options.rdzv_conf = "join_timeout=7,timeout=6";
    is_int(launch_join_ms(&l), 7000, "join_timeout has precedence");
    l.options.rdzv_conf = "";
    is_int(launch_join_ms(&l), 600000, "a static start has ten minutes, too");
}

static void test_beats(void) {
    static const struct {
        const char *conf;
        int beat_ms, silent_ms; // 0: refused
    } cases[] = {{"heartbeat=0.5", 500, 1500},
                 {"heartbeat=0.501", 0, 0},
                 {"heartbeat=0.02", 20, 1500},
                 {"heartbeat=0.019", 0, 0},
                 {"heartbeat=60,silence=180", 60000, 180000},
                 {"heartbeat=60.001,silence=190", 0, 0},
                 {"heartbeat=1,silence=3", 1000, 3000},
                 {"heartbeat=1,silence=2.999", 0, 0},
                 {"silence=600", 300, 600000},
                 {"silence=600.001", 0, 0},
                 {"silence=0.899", 0, 0},
                 {"silence=-1", 0, 0},
                 {"heartbeat=x", 0, 0},
                 {"heartbeat=86401", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rendezvous_config *r = fill(cases[i].conf);
        is_int(r ? l.agent.beat_ms : 0, cases[i].beat_ms, "%s has its heartbeats", cases[i].conf);
        is_int(r ? r->silent_ms_max : 0, cases[i].silent_ms, "%s has its silence", cases[i].conf);
    }
    is_int(fill("heartbeat=0.1,silence=1.6")->lease_ms, 1600 + 200 + 100,
           "the lease has two heartbeats and a sixteenth of the silence more");
    fill("heartbeat=0.01");
    is_str(e.text, "--rdzv-conf heartbeat: 0.01 s is not from 0.02 to 60 s",
           "the error has the bounds of heartbeats");
    fill("heartbeat=0.4,silence=1");
    is_str(e.text, "--rdzv-conf silence: 1 s is not from 3 heartbeats (of 0.4 s) to 600 s",
           "the error has the bounds of the silence");
    fill("silence=soon");
    is_str(e.text, "--rdzv-conf silence=soon: not a number of seconds", "the error has the key");
}

static void test_crashes(void) {
    static const struct {
        const char *conf;
        int count, ms; // -1: refused
    } cases[] = {{"crash_loop=0", 0, 0},          {"crash_loop=1", 1, 5000},
                 {"crash_loop=1000", 1000, 5000}, {"crash_loop=1001", -1, -1},
                 {"crash_loop=-1", -1, -1},       {"crash_loop=x", -1, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rendezvous_config *r = fill(cases[i].conf);
        is_int(r ? r->crashes_max : -1, cases[i].count, "%s has its count", cases[i].conf);
        is_int(r ? r->crash_ms : -1, cases[i].ms, "%s has its time", cases[i].conf);
    }
    is_str(e.text, "--rdzv-conf crash_loop=x: not a number of failures from 0 to 1000",
           "the error has the bounds of crashes");
}

// ---- workers ------------------------------------------------------------------------------------

static void test_workers(void) {
    static char devices[] = "CUDA_VISIBLE_DEVICES=0,1";
    char *env[] = {devices, NULL};
    static const struct {
        const char *nproc;
        bool is_virtual, visible;
        int want;
    } cases[] = {
        {"2", true, true, 0}, {"3", true, true, -1}, {"3", false, true, 0}, {"3", true, false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(cases[i].visible ? env : no_variables);
        l.options.nproc_per_node = cases[i].nproc;
        l.options.virtual_local_rank = cases[i].is_virtual;
        is_int(launch_fill(&l, &e), cases[i].want, "%s workers, virtual ranks %d", cases[i].nproc,
               cases[i].is_virtual);
        if (cases[i].want < 0)
            is_str(e.text,
                   "--virtual-local-rank: CUDA_VISIBLE_DEVICES '0,1' has 2 devices for 3 workers",
                   "a virtual rank needs a device");
    }
    begin(no_variables);
    l.options.redirects = "1";
    l.options.tee = "0:2";
    l.options.local_ranks_filter = "1";
    l.options.duplicate_stdout_filters = "a,b";
    is_int(launch_fill(&l, &e), 0, "the streams of workers are chosen");
    struct workers_config *w = &l.agent.workers;
    ok(w->streams_to_file[0] == 1 && w->streams_to_file[1] == 1 && w->streams_to_both[0] == 2 &&
           w->streams_to_both[1] == 0 && !w->on_console[0] && w->on_console[1],
       "each worker has its streams");
    ok(w->words_out && strcmp(w->words_out[0], "a") == 0, "lines are filtered by words");
    ok(!w->words_err[0], "the other stream has no words");
    static const struct {
        int flag;
        const char *want;
    } bad[] = {{0, "--redirects: "}, {1, "--tee: "}, {2, ""}, {3, ""}, {4, ""}, {5, ""}};
    for (int i = 0; i < 6; i++) {
        begin(no_variables);
        *(i == 0   ? &l.options.redirects
          : i == 1 ? &l.options.tee
          : i == 2 ? &l.options.local_ranks_filter
          : i == 3 ? &l.options.nproc_per_node
          : i == 4 ? &l.options.signals_to_handle
                   : &l.options.notice_signal) = "x?";
        ok(launch_fill(&l, &e) < 0 && strncmp(e.text, bad[i].want, strlen(bad[i].want)) == 0,
           "a wrong word of flag %d is refused", i);
    }
    begin(no_variables);
    l.options.numa_binding = 1;
    int bound = launch_fill(&l, &e);
    ok(bound < 0 || l.agent.workers.processors, "workers are bound to processors on request");
}

// ---- the command line ---------------------------------------------------------------------------

static const char *words(void) {
    struct strbuf text = {0};
    for (const char *const *w = l.agent.workers.command; *w; w++)
        strbuf_addf(&text, "%s%s", text.len ? " " : "", strchr(*w, '\n') ? "CODE" : *w);
    const char *all = arena_strdup(&arena, strbuf_cstr(&text));
    strbuf_fini(&text);
    return all;
}

static void test_commands(void) {
    static const char *const args[] = {"train.py", "--x", "1"};
    static char python[] = "PYTHON_EXEC=/opt/py";
    char *env[] = {python, NULL};
    static const struct {
        bool run_path, no_python, module, launch, use_env;
        const char *want; // or the error
    } cases[] = {
        {0, 0, 0, 0, 0, "/opt/py -u train.py --x 1"},
        {0, 0, 1, 0, 0, "/opt/py -u -m train.py --x 1"},
        {0, 1, 0, 0, 0, "train.py --x 1"},
        {1, 0, 0, 0, 0, "/opt/py -u -c CODE train.py --x 1"},
        {1, 1, 0, 0, 0, "/opt/py -u -c CODE train.py --x 1"},
        {1, 1, 1, 0, 0, "/opt/py -u -c CODE train.py --x 1"},
        {0, 0, 0, 1, 0, "/opt/py -u train.py --local-rank=${local_rank} --x 1"},
        {0, 1, 0, 1, 0, "train.py --local-rank=${local_rank} --x 1"},
        {0, 0, 0, 1, 1, "/opt/py -u train.py --x 1"},
        {0, 1, 1, 0, 0, "--no-python and --module exclude each other"},
        {0, 0, 0, 0, 1, "--use-env belongs to --launch"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(env);
        l.options.run_path = cases[i].run_path;
        l.options.no_python = cases[i].no_python;
        l.options.module = cases[i].module;
        l.options.launch = cases[i].launch;
        l.options.use_env = cases[i].use_env;
        int result = launch_command(&l, args, 3, &e);
        is_str(result < 0 ? e.text : words(), cases[i].want, "command %zu is torchrun's", i);
    }
    is_int(launch_command(&l, args, 1, &e), -1, "flags are checked");
    begin(env);
    is_int(launch_command(&l, args, 1, &e), 0, "a script may have no arguments");
    is_str(words(), "/opt/py -u train.py", "the script is alone");
    is_str(l.agent.title, "train.py", "the script is the title");
    is_int(launch_command(&l, args, 0, &e), -1, "there must be a script");
    is_str(e.text, "no training script is given", "the error says so");
}

// An executable file.
static void put_program(const char *name) {
    const char *path = file_join(&arena, root, name);
    if (file_make_dirs(file_dir(&arena, path), 0700, &e) < 0 ||
        file_write_atomic(path, "", 0, 0700, &e) < 0)
        bail_out("%s", e.text);
}

// The texts one after the other, with the folder of the test for each "@".
static char *here(const char *name, const char *text) {
    struct strbuf out = {0};
    strbuf_adds(&out, name);
    for (const char *p = text; *p; p++)
        if (*p == '@')
            strbuf_adds(&out, root);
        else
            strbuf_addc(&out, *p);
    char *all = arena_strdup(&arena, strbuf_cstr(&out));
    strbuf_fini(&out);
    return all;
}

static void test_interpreter(void) {
    static const char *const args[] = {"x"};
    put_program("both/python");
    put_program("both/python3");
    put_program("old/python");
    put_program("new/python3");
    put_program("venv/bin/python");
    if (file_make_dirs(file_join(&arena, root, "none"), 0700, &e) < 0)
        bail_out("%s", e.text);
    static const struct {
        const char *path, *venv, *want;
    } cases[] = {{"@/both", "", "python3"},      {"@/old", "", "python"},
                 {"@/new", "", "python3"},       {"@/none", "", "python3"},
                 {"@/none:@/old", "", "python"}, {"@/old:@/new", "", "python3"},
                 {":@/old:", "", "python"},      {"@/old", "@/venv", "@/venv/bin/python"},
                 {"@/old", "@/none", "python"},  {"", "", "python3"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *env[] = {here("PATH=", cases[i].path), here("VIRTUAL_ENV=", cases[i].venv), NULL};
        begin(env);
        if (launch_command(&l, args, 1, &e) < 0)
            bail_out("%s", e.text);
        is_str(l.agent.workers.command[0], here("", cases[i].want),
               "the interpreter of PATH '%s' and environment '%s'", cases[i].path, cases[i].venv);
    }
}

// ---- watchdogs ----------------------------------------------------------------------------------

static void test_watch(void) {
    static const struct {
        const char *variable;
        int64_t stuck_ms;
        int port;
    } cases[] = {{"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=2.5", 2501, -1},
                 {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=0", 0, -1},
                 {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=-3", 0, -1},
                 {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=x", 0, -1},
                 {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=", 0, -1},
                 {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=604800", 604800001, -1},
                 {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=604801", 0, -1},
                 {"TORCHELASTIC_HEALTH_CHECK_PORT=0", 0, 0},
                 {"TORCHELASTIC_HEALTH_CHECK_PORT=65535", 0, 65535},
                 {"TORCHELASTIC_HEALTH_CHECK_PORT=65536", 0, -1},
                 {"TORCHELASTIC_HEALTH_CHECK_PORT=-1", 0, -1},
                 {"TORCHELASTIC_HEALTH_CHECK_PORT=", 0, -1},
                 {"OTHER=1", 0, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *env[] = {arena_strdup(&arena, cases[i].variable), NULL};
        begin(env);
        is_int(launch_watch(&l, &e), 0, "%s is read", cases[i].variable);
        is_int(l.agent.stuck_ms_max, cases[i].stuck_ms, "%s has its limit", cases[i].variable);
        is_int(l.agent.health_port, cases[i].port, "%s has its port", cases[i].variable);
        ok(!l.agent.timer_file, "%s makes no timers", cases[i].variable);
    }
    static const struct job_pair pairs[] = {{"TORCHELASTIC_HEALTH_CHECK_PORT", "1"},
                                            {"OTHER", "3"},
                                            {"TORCHELASTIC_HEALTH_CHECK_PORT", "2"}};
    static char port[] = "TORCHELASTIC_HEALTH_CHECK_PORT=4";
    char *env[] = {port, NULL};
    begin(env);
    l.agent.env = pairs;
    l.agent.env_count = 3;
    launch_watch(&l, &e);
    is_int(l.agent.health_port, 2, "the job's last variable counts before the environment");
}

static void test_timers(void) {
    static const struct {
        const char *enabled, *file, *tmp;
        const char *want; // the beginning of the name; NULL: none
    } cases[] = {{"1", "/run/t", "", "/run/t"},
                 {"1", "", "", "/tmp/watchdog_timer_"},
                 {"1", "", "/var/tmp", "/var/tmp/watchdog_timer_"},
                 {"0", "/run/t", "", NULL},
                 {"true", "/run/t", "", NULL},
                 {"", "/run/t", "", NULL},
                 {"11", "/run/t", "", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *env[] = {arena_printf(&arena, "TORCHELASTIC_ENABLE_FILE_TIMER=%s", cases[i].enabled),
                       arena_printf(&arena, "TORCHELASTIC_TIMER_FILE=%s", cases[i].file),
                       arena_printf(&arena, "TMPDIR=%s", cases[i].tmp), NULL};
        begin(env);
        is_int(launch_watch(&l, &e), 0, "timers '%s' are read", cases[i].enabled);
        const char *file = l.agent.timer_file, *want = cases[i].want;
        ok(want ? file && strncmp(file, want, strlen(want)) == 0 : !file,
           "timers '%s' have the file %s", cases[i].enabled, want ? want : "none");
        if (want && !cases[i].file[0])
            is_int(strlen(file) - strlen(want), 16, "the name is random");
    }
}

int main(void) {
    if (!mkdtemp(root))
        bail_out("no folder");
    test_defaults();
    test_times();
    test_beats();
    test_crashes();
    test_workers();
    test_commands();
    test_interpreter();
    test_watch();
    test_timers();
    file_remove_tree(root, &e);
    arena_fini(&arena);
    return done_testing();
}
