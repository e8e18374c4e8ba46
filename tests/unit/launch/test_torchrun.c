// SPDX-License-Identifier: Apache-2.0
// torchrun's small grammars, the workers' environment, job specifications and rosters, and the
// failure report.
#include "agent/failure_report.h"
#include "base/env.h"
#include "launch/launch.h"
#include "protocol/job_spec.h"
#include "tests/tap.h"
#include "worker/worker_env.h"

#include <glob.h>
#include <unistd.h>

static struct err e;
static struct arena a;

static void test_streams(void) {
    static const struct {
        const char *text, *want; // per local rank of three; NULL: refused
    } cases[] = {{"0", "000"},    {"3", "333"},  {"0:3,1:1", "310"}, {"2:2", "002"},
                 {"7:1", "000"},  {"", NULL},    {"4", NULL},        {"33", NULL},
                 {"0:4", NULL},   {"a:1", NULL}, {"0:1;1:2", NULL},  {"0", "000"},
                 {"1:2,", "020"}, {"0:", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char out[3];
        char text[4] = {0};
        int rc = launch_streams(cases[i].text, 3, out, &e);
        for (int k = 0; k < 3; k++)
            text[k] = (char)('0' + out[k]);
        is_str(rc < 0 ? NULL : text, cases[i].want, "streams '%s'", cases[i].text);
    }
}

static void test_lists(void) {
    const char *const *words = launch_filters(&a, "one,two,,three,,,,x,");
    is_str(words[0], "one", "filters: the first word");
    is_str(words[1], "two,three,,x", "a doubled comma is a comma");
    is_str(words[2], NULL, "no empty word is at the end");
    is_str(launch_filters(&a, "")[0], NULL, "no filters");
    bool shown[3];
    launch_ranks_filter("2,0", 3, shown, &e);
    ok(shown[0] && !shown[1] && shown[2], "the filter of local ranks is read");
    launch_ranks_filter("", 3, shown, &e);
    ok(shown[0] && shown[1] && shown[2], "none: all are shown");
    is_int(launch_ranks_filter("1,x", 3, shown, &e), -1,
           "a filter that is no list of numbers is refused");
    sigset_t set;
    is_int(launch_signals("SIGTERM,USR2", &set, &e), 0, "signals are read with and without SIG");
    ok(sigismember(&set, SIGUSR2) && !sigismember(&set, SIGINT), "only the listed signals are set");
    is_int(launch_signals("SIGKILL", &set, &e), -1, "SIGKILL cannot be handled");
    const char *conf = "'join_timeout=5,last_call_timeout=0.5,is_host=1,odd,timeout=5'";
    is_str(launch_conf(&a, conf, "is_host"), "1", "a key of --rdzv-conf is read");
    is_str(launch_conf(&a, conf, "join_timeout"), NULL, "a key with a stray quote is another key");
    is_int(launch_conf_ms(&a, conf, "last_call_timeout", 9), 500, "seconds may have a fraction");
    is_int(launch_conf_ms(&a, conf, "timeout", 9), 9, "a value that is no number is left alone");
}

static void test_nproc(void) {
    int n = 0;
    is_int(launch_nproc("4", NULL, &n, &e), 0, "a number of workers is read");
    is_int(n, 4, "a number of workers is read");
    is_int(launch_nproc("0", NULL, &n, &e), -1, "zero workers are refused");
    is_int(launch_nproc("lots", NULL, &n, &e), -1, "a word is refused");
    launch_nproc("cpu", NULL, &n, &e);
    ok(n >= 1 && n <= sysconf(_SC_NPROCESSORS_CONF), "cpu counts the processors: %d", n);
    launch_nproc("gpu", "3,1,-1,0", &n, &e);
    is_int(n, 2, "gpu: CUDA_VISIBLE_DEVICES counts up to the first invalid device");
    is_int(launch_nproc("gpu", "", &n, &e), -1, "gpu without one is refused");
}

static void test_gpus(void) {
    static const struct {
        const char *visible;
        int want;
    } cases[] = {{"", 0},   {"0", 1},    {"3", 1},  {"0,1", 2},   {"1,0,2,", 3},     {"0,-1,2", 1},
                 {"-1", 0}, {"0,,2", 1}, {",0", 0}, {"10,11", 2}, {"GPU-a,GPU-b", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_int(launch_gpu_count(cases[i].visible), cases[i].want,
               "CUDA_VISIBLE_DEVICES='%s' shows %d GPUs", cases[i].visible, cases[i].want);
    glob_t gpus;
    size_t count = glob("/proc/driver/nvidia/gpus/*", 0, NULL, &gpus) == 0 ? gpus.gl_pathc : 0;
    globfree(&gpus);
    is_int(launch_gpu_count(NULL), count, "without it, all of the machine's GPUs count");
}

static void test_env(void) {
    static const char *const parent[] = {"PATH=/bin", "RANK=99", "GLOO_SOCKET_IFNAME=mine",
                                         "CUDA_VISIBLE_DEVICES=5,6", NULL};
    char *const *inherited = (char *const *)parent;
    struct job_pair extra[] = {{"FOO", "bar"}, {"MASTER_PORT", "1"}};
    struct worker_facts f = {.run = "r1",
                             .role = "trainer",
                             .node = "n0",
                             .nproc = 2,
                             .group_rank = 1,
                             .group_world = 2,
                             .rank = 4,
                             .world_size = 6,
                             .role_rank = 4,
                             .role_world = 6,
                             .restarts = 1,
                             .max_restarts = 3,
                             .round = 7,
                             .master_addr = "10.0.0.1",
                             .master_port = 29500,
                             .ifname = "eth0",
                             .has_efa = true,
                             .signals = "SIGTERM",
                             .extra = extra,
                             .extra_count = 2};
    const char *const *env = worker_env_build(&a, inherited, &f, 1, "/e.json");
    static const char *const want[][2] = {{"PATH", "/bin"},
                                          {"RANK", "5"},
                                          {"LOCAL_RANK", "1"},
                                          {"WORLD_SIZE", "6"},
                                          {"GROUP_RANK", "1"},
                                          {"ROLE_RANK", "5"},
                                          {"MASTER_ADDR", "10.0.0.1"},
                                          {"TORCHELASTIC_RESTART_COUNT", "1"},
                                          {"TORCHELASTIC_ERROR_FILE", "/e.json"},
                                          {"OMP_NUM_THREADS", "1"},
                                          {"GLOO_SOCKET_IFNAME", "mine"},
                                          {"NCCL_SOCKET_IFNAME", "eth0"},
                                          {"FI_PROVIDER", "efa"},
                                          {"FOO", "bar"},
                                          {"MASTER_PORT", "1"},
                                          {"CUDA_VISIBLE_DEVICES", "5,6"},
                                          {"DTCTL_NODE", "n0"},
                                          {"DTCTL_SHARD_INDEX", "1"},
                                          {"DTCTL_NODES", "2"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        is_str(env_get((char *const *)env, want[i][0]), want[i][1], "%s", want[i][0]);
    int ranks = 0;
    for (int i = 0; env[i]; i++)
        ranks += strncmp(env[i], "RANK=", 5) == 0;
    is_int(ranks, 1, "an inherited name is replaced, not repeated");
    ok(worker_env_limits_threads(inherited, &f), "the thread limit is worth a warning");
    f.virtual_local_rank = true;
    f.has_efa = false;
    env = worker_env_build(&a, inherited, &f, 1, "");
    is_str(env_get((char *const *)env, "LOCAL_RANK"), "0",
           "--virtual-local-rank gives each worker local rank 0");
    is_str(env_get((char *const *)env, "CUDA_VISIBLE_DEVICES"), "6",
           "a virtual local rank sees one device");
    ok(!env_get((char *const *)env, "FI_PROVIDER"), "without EFA libfabric has its own choice");
}

static void test_job(void) {
    static const char *const command[] = {"python3", "a \"b\"\n", NULL};
    struct job_pair env[] = {{"A", "1"}, {"quoted.name", "x=y"}};
    struct job_input inputs[] = {{.name = "train", .path = "inputs/a", .mode = "sharded"}};
    struct job_spec s, back;
    job_spec_init(&s);
    s.run = "run-1", s.name = "task", s.node = "gpu01", s.node_rank = 3, s.nnodes_min = 2;
    s.nnodes_max = 4, s.nproc_per_node = "auto", s.max_restarts = 2, s.has_key = true;
    s.command = command, s.command_count = 2, s.env = env, s.env_count = 2;
    s.inputs = inputs, s.input_count = 1, s.address = "fd00::1", s.workdir = "runs/run-1/work";
    memset(s.key, 0xa5, sizeof s.key);
    struct strbuf text = {0}, again = {0};
    job_spec_format(&s, true, &text);
    ok(job_spec_parse(&a, text.data, text.len, &back, &e) == 0, "a job reads back %s", e.text);
    job_spec_format(&back, true, &again);
    is_str(strbuf_cstr(&again), strbuf_cstr(&text), "a job is written to the same text");
    is_mem(back.key, sizeof back.key, s.key, sizeof s.key, "a job keeps its key");
    strbuf_clear(&again);
    job_spec_format(&s, false, &again);
    ok(!strstr(strbuf_cstr(&again), "a5a5"), "a job without a key is written without one");
    static const char *const bad[] = {
        "",
        "[run]\nid=\"../x\"\nnode=\"n\"\ncommand=[\"x\"]",
        "[run]\nid=\"x\"\nnode=\"n\"",
        "[run]\nid=\"x\"\nnode=\"n\"\ncommand=[\"x\"]\nnnodes_min=3\nnnodes_max=2",
        "[run]\nid=\"x\"\nnode=\"n\"\ncommand=[\"x\"]\naddress=\"host.name\"",
        "[run]\nid=\"x\"\nnode=\"n\"\ncommand=[\"x\"]\nkey=\"12\"",
        "[run]\nid=\"x\"\nnode=\"n\"\ncommand=[\"x\"]\n[env]\n\"A=B\"=\"1\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_int(job_spec_parse(&a, bad[i], strlen(bad[i]), &back, &e), -1, "the job is refused: %s",
               e.text);
    struct roster_node nodes[] = {{1, "b", "10.0.0.2", 2}, {0, "a", "10.0.0.1", 1}};
    struct roster r = {nodes, 2}, read;
    strbuf_clear(&text);
    job_roster_format(&r, &text);
    is_int(job_roster_parse(&a, text.data, text.len, &read, &e), 0, "a roster reads back");
    is_str(read.nodes[0].name, "a", "nodes are sorted by rank");
    nodes[0].rank = 0;
    strbuf_clear(&text);
    job_roster_format(&r, &text);
    is_int(job_roster_parse(&a, text.data, text.len, &read, &e), -1,
           "a roster with one rank twice is refused");
    strbuf_fini(&text), strbuf_fini(&again);
}

static void test_report(void) {
    struct worker_failure f[2] = {{.rank = 3,
                                   .local_rank = 1,
                                   .pid = 42,
                                   .status = 137,
                                   .signal = 9,
                                   .host = "gpu01",
                                   .error_file = "",
                                   .message = "",
                                   .tail = "one\n\x1b[31mtwo",
                                   .evidence = "out of memory: x\nXid 79 of GPU y"},
                                  {.rank = 0,
                                   .pid = 7,
                                   .status = 1,
                                   .host = "gpu00",
                                   .error_file = "/e.json",
                                   .message = "ValueError: x",
                                   .tail = "",
                                   .evidence = ""}};
    struct strbuf text = {0};
    failure_report_print(&text, "train.py", f, 2);
    const char *t = strbuf_cstr(&text);
    has_str(t, "train.py FAILED\n---", "the report has a title and a rule");
    has_str(t, "[1]:\n", "the report has the other failure");
    has_str(t, "ValueError: x", "the other failure has its message");
    const char *root = strstr(t, "Root Cause (first observed failure):\n[0]:");
    ok(root != NULL, "the report has the first failure as root cause");
    has_str(root, "rank      : 3 (local_rank: 1)", "the root cause has its rank");
    has_str(root, "exitcode  : -9 (pid: 42)", "a signal is a negative exit code");
    has_str(root, "Signal 9 (SIGKILL) received by PID 42", "a signal has its name");
    has_str(root, "  evidence  : out of memory: x\n              Xid 79 of GPU y\n",
            "the failure has the kernel's evidence");
    ok(!strchr(t, '\x1b'), "foreign control characters do not reach the terminal");
    strbuf_clear(&text);
    failure_report_print(&text, "x", f, 1);
    has_str(strbuf_cstr(&text), "<NO_OTHER_FAILURES>",
            "without another failure the report says so");
    strbuf_fini(&text);
}

int main(void) {
    test_streams();
    test_lists();
    test_nproc();
    test_gpus();
    test_env();
    test_job();
    test_report();
    arena_fini(&a);
    return done_testing();
}
