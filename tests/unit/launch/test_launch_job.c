// SPDX-License-Identifier: Apache-2.0
// A node of a run: what the agent gets from the job specification and the roster, which flags of
// torchrun count, and which jobs are refused.
#include "launch/launch.h"

#include "sys/file.h"
#include "tests/tap.h"

#include <string.h>
#include <sys/stat.h>

enum { NODES = 4, RANK = 2, PORT = 4100, FD = 77 };

static struct err e;
static struct arena arena;
static char root[] = "/tmp/test_launch_job.XXXXXX";
static const char *run_dir;
static struct launch l;
static struct job_spec spec;
static struct roster_node nodes[JOB_NODES_MAX];
static struct roster roster = {nodes, 0};
static struct job_pair pairs[8];
static struct job_input inputs[3];
static const struct job_deal deal = {.replicas = 1};
static char own_path[] = "PATH=/own/bin", devices[] = "CUDA_VISIBLE_DEVICES=0,1";
static char *environment[] = {own_path, devices, NULL};
static const char *command[] = {"bin/prog", "--x", NULL};

static const char *below(const char *name) {
    return file_join(&arena, root, name);
}

static void begin(void) {
    job_spec_init(&spec);
    spec.run = "run-1";
    spec.name = "a name";
    spec.node = "node-c";
    spec.node_rank = RANK;
    spec.nnodes_min = 2;
    spec.nnodes_max = NODES;
    spec.nproc_per_node = "2";
    spec.max_restarts = 5;
    spec.agent_starts = 6;
    spec.has_key = true;
    memset(spec.key, 9, sizeof spec.key);
    spec.address = "10.0.0.3";
    spec.workdir = "work/deep";
    spec.command = command;
    spec.command_count = 2;
    spec.shutdown_timeout_ms = 7000;
    spec.join_timeout_ms = 8000;
    spec.max_time_ms = 9000;
    spec.created_ms = 10001;
    spec.sample_ms = 11000;
    spec.env = spec.torchrun = spec.sagemaker = pairs;
    spec.inputs = inputs;
    roster.count = NODES;
    for (int i = 0; i < JOB_NODES_MAX; i++)
        nodes[i] = (struct roster_node){i, "node", "10.0.0.9", PORT + i};
    launch_init(&l, &arena, environment);
    err_clear(&e);
}

static int job(void) {
    return launch_job(&l, &spec, &roster, root, run_dir, FD, PORT + RANK, &e);
}

// ---- what the agent gets ------------------------------------------------------------------------

static void test_numbers(void) {
    begin();
    is_int(job(), 0, "a job is taken");
    const struct agent_config *c = &l.agent;
    const struct rendezvous_config *r = &c->coordinator.rendezvous;
    const struct {
        const char *name;
        int64_t got, want;
    } numbers[] = {
        {"the rank of the node", c->node_rank, RANK},
        {"the workers", c->workers.nproc, 2},
        {"the fewest nodes", r->nodes_min, 2},
        {"the most nodes", r->nodes_max, NODES},
        {"the nodes of the roster", r->nodes_expected, NODES},
        {"the restarts", r->max_restarts, 5},
        {"the starts of the agent", c->agent_starts, 6},
        {"the length of the key", (int64_t)c->coordinator.secret.key_len, JOB_KEY_BYTES},
        {"the time to stop workers", c->coordinator.shutdown_timeout_ms, 7000},
        {"the time to answer a stop", r->stop_ms_max, 17000},
        {"the agent's time to join", c->join_timeout_ms, 8000},
        {"the time to join", r->join_timeout_ms, 8000},
        {"the time limit", c->time_ms_max, 9000},
        {"the time of the run's begin", c->created_ms, 10001},
        {"the interval of samples", c->sample_ms, 11000},
        {"the crashes in a row", r->crashes_max, LAUNCH_JOB_CRASHES},
        {"the time of a crash", r->crash_ms, LAUNCH_CRASH_MS},
        {"the descriptor", c->listen_fd, FD},
        {"the port", c->listen_port, PORT + RANK},
        {"the report", c->report, 1},
        {"the streams of worker 1", c->workers.streams_to_file[1], STREAM_OUT | STREAM_ERR},
        {"the streams of both", c->workers.streams_to_both[1], 0},
        {"copies of the state", c->coordinator.copies, 0},
        {"dealt inputs", c->coordinator.deals, 0},
        {"the lead", c->leads, 0},
        {"the first start", c->bootstrap_at_once, 0},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        is_int(numbers[i].got, numbers[i].want, "%s: the agent has it", numbers[i].name);
    ok(c->coordinator.secret.key == spec.key, "the key is the job's");
    ok(!c->keeper.run_dir && !c->workers.sagemaker, "there is no keeper, and no tree of SageMaker");
}

static void test_texts(void) {
    begin();
    is_int(job(), 0, "a job is taken again");
    const struct agent_config *c = &l.agent;
    const struct {
        const char *name, *got, *want;
    } texts[] = {
        {"the run", c->run, "run-1"},
        {"the run of the secret", c->coordinator.secret.run, "run-1"},
        {"the name of the run", c->run_name, "a name"},
        {"the title", c->title, "a name"},
        {"the name of the node", c->name, "node-c"},
        {"the address", c->address, "10.0.0.3"},
        {"the folder of the run", c->run_dir, run_dir},
        {"the folder of logs", c->workers.log_base, run_dir},
        {"the working folder", c->workers.cwd, below("work/deep")},
        {"the first word", c->workers.command[0], "bin/prog"},
        {"the second word", c->workers.command[1], "--x"},
        {"the end of the command", c->workers.command[2], NULL},
        {"the name of a node", c->coordinator.expected_names[NODES - 1], "node"},
        {"the end of the names", c->coordinator.expected_names[NODES], NULL},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        is_str(texts[i].got, texts[i].want, "%s: the agent has it", texts[i].name);
    struct stat st;
    mode_t mask = umask(022);
    ok(stat(c->workers.cwd, &st) == 0 && S_ISDIR(st.st_mode) &&
           (st.st_mode & 0777) == (0755 & ~mask),
       "the working folder is made");
    umask(mask);

    spec.has_key = false;
    spec.workdir = "";
    if (file_make_dirs(below("bin"), 0755, &e) < 0 ||
        file_write_atomic(below("bin/prog"), "", 0, 0755, &e) < 0)
        bail_out("%s", e.text);
    launch_init(&l, &arena, environment);
    is_int(job(), 0, "a job without a key is taken");
    is_uint(c->coordinator.secret.key_len, 0, "no key is used");
    is_str(c->workers.cwd, root, "without a folder workers are in the node's");
    is_str(c->workers.command[0], below("bin/prog"), "a program below the node's folder is found");
    spec.workdir = "bin/prog/work";
    launch_init(&l, &arena, environment);
    is_int(job(), -1, "a working folder that cannot be made is an error");
    spec.workdir = "";
    command[0] = "prog";
    launch_init(&l, &arena, environment);
    is_int(job(), 0, "a command without a folder is taken");
    is_str(c->workers.command[0], "prog", "the agent leaves the search in PATH to its workers");
    command[0] = "bin/prog";
}

static void test_roster(void) {
    begin();
    is_int(job(), 0, "a roster is taken");
    const struct agent_config *c = &l.agent;
    is_int(c->endpoint_count, NODES - 1, "the other nodes are asked");
    static const int want[] = {PORT, PORT + 1, PORT + 3};
    for (int i = 0; i < NODES - 1; i++)
        ok(c->endpoints[i].port == want[i] && strcmp(c->endpoints[i].host, "10.0.0.9") == 0,
           "endpoint %d is another node", i);
    begin();
    spec.node_rank = 0;
    is_int(job(), 0, "the first node takes the job");
    ok(c->leads && c->bootstrap_at_once, "the first node leads");
    begin();
    spec.node_rank = 1;
    roster.nodes++, roster.count--;
    is_int(job(), 0, "a roster without rank 0 is taken");
    ok(c->leads, "the first node that is left leads");
    roster.nodes--;
    begin();
    spec.node_rank = NODES;
    is_int(job(), -1, "a node that is not in the roster is refused");
    ok(e.code == ERR_CONFIG && strstr(e.text, "node rank 4"), "the error has its rank");
    begin();
    roster.count = JOB_NODES_MAX;
    spec.nnodes_max = JOB_NODES_MAX;
    is_int(job(), 0, "a large roster is taken");
    is_int(c->endpoint_count, AGENT_ENDPOINTS_MAX, "no more nodes are asked than may be");
}

// ---- parts of a job -----------------------------------------------------------------------------

static void test_flags(void) {
    static const struct {
        const char *name, *value;
        int rc;
        const char *why;
    } cases[] = {
        {"rdzv-conf", "crash_loop=7", 0, NULL},
        {"nnodes", "1:3", 0, NULL},
        {"rdzv-conf", "silence=oops", -1, "silence=oops"},
        {"monitor-interval", "soon", -1, "torchrun flag 'monitor-interval'"},
        {"no-such-flag", "1", -1, "torchrun flag 'no-such-flag' is not known"},
        {"signals-to-handle", "SIGKILL", -1, "SIGKILL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        pairs[0] = (struct job_pair){"role", "trainer"};
        pairs[1] = (struct job_pair){cases[i].name, cases[i].value};
        spec.torchrun_count = 2;
        is_int(job(), cases[i].rc, "--%s=%s: the result", cases[i].name, cases[i].value);
        if (cases[i].why)
            has_str(e.text, cases[i].why, "--%s=%s: the error says why", cases[i].name,
                    cases[i].value);
    }
    begin();
    pairs[0] = (struct job_pair){"role", "trainer"};
    pairs[1] = (struct job_pair){"rdzv-conf", "crash_loop=7,rejoin_timeout=3"};
    spec.torchrun_count = 2;
    spec.state_replicas = 1;
    is_int(job(), 0, "flags are taken");
    is_str(l.agent.role, "trainer", "the role is the flag's");
    is_int(l.agent.coordinator.rendezvous.crashes_max, 7, "the crashes in a row are the flag's");
    is_int(l.agent.keeper.source_ms, 3000, "files may come as long as nodes may");
    ok(l.agent.coordinator.copies, "the state has one copy");
    begin();
    is_int(job(), 0, "a job without flags is taken");
    is_str(l.agent.role, "default", "the role is torchrun's");
    begin();
    spec.nproc_per_node = "0";
    is_int(job(), -1, "a job without workers is refused");
}

static void test_keeper(void) {
    const struct keeper_spec *k = &l.agent.keeper;
    begin();
    spec.state_replicas = 2;
    spec.state_every_ms = 1234;
    is_int(job(), 0, "a job with copies of its state is taken");
    ok(l.agent.coordinator.copies && !l.agent.coordinator.deals, "only states are copied");
    ok(k->replicas == 2 && k->every_ms == 1234 && k->input_count == 0,
       "the keeper has the numbers");
    ok(strcmp(k->run_dir, run_dir) == 0 && strcmp(k->node, "node-c") == 0 &&
           strcmp(k->store, below("cas")) == 0 && strcmp(k->locks, below("tmp")) == 0,
       "the keeper has the folders");
    ok(k->secret.key_len == JOB_KEY_BYTES && strcmp(k->secret.magic, WIRE_MAGIC_COPIES) == 0 &&
           !l.agent.coordinator.secret.magic,
       "connections of the keeper have the key, and a magic of their own");

    begin();
    spec.input_count = 3;
    inputs[0] =
        (struct job_input){.name = "two", .path = "in/two", .mode = "sharded", .deal = &deal};
    inputs[1] = (struct job_input){.name = "one", .path = "in/one", .mode = "replicated"};
    inputs[2] =
        (struct job_input){.name = "abs", .path = "/in/abs", .mode = "sharded", .deal = &deal};
    is_int(job(), 0, "a job with dealt inputs is taken");
    ok(!l.agent.coordinator.copies && l.agent.coordinator.deals, "only inputs are dealt");
    ok(k->run_dir && k->input_count == 2 && k->replicas == 0, "the keeper has two inputs");
    is_str(k->inputs[0].path, below("in/two"), "the keeper has the folder of an input");
    is_str(k->inputs[1].path, "/in/abs", "an absolute folder is left as it is");
    begin();
    spec.input_count = 1;
    is_int(job(), 0, "a job with one dealt input is taken");
    ok(l.agent.coordinator.deals && k->input_count == 1, "the input is dealt");
}

static void test_sagemaker(void) {
    begin();
    spec.sagemaker_count = 1;
    spec.input_count = 2;
    pairs[0] = (struct job_pair){"hyperparameters", "["};
    inputs[0] = (struct job_input){.name = "b", .path = "in/b", .mode = "replicated"};
    inputs[1] = (struct job_input){.name = "a", .path = "in/a", .mode = "replicated"};
    is_int(job(), -1, "hyperparameters that are no JSON are refused");
    has_str(e.text, "compat.sagemaker: ", "the error names the setting");
    const struct sagemaker *s = l.agent.workers.sagemaker;
    const struct {
        const char *name, *got, *want;
    } texts[] = {
        {"root", s->root, "run/opt-ml"},        {"output", s->output, "run/output"},
        {"model", s->model, "run/model"},       {"state", s->state, "run/state"},
        {"work", s->work, "work/deep"},         {"input a", s->inputs[0].path, "in/a"},
        {"input b", s->inputs[1].path, "in/b"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        is_str(texts[i].got, below(texts[i].want), "%s: the tree has the folder", texts[i].name);
    ok(strcmp(s->run, "run-1") == 0 && s->gpus == 2 && s->input_count == 2 && s->text_count == 1 &&
           s->texts == pairs,
       "the tree has run, GPUs, inputs and texts");
    sagemaker_close(l.agent.workers.sagemaker);
}

int main(void) {
    if (!mkdtemp(root))
        bail_out("no folder");
    run_dir = below("run");
    test_numbers();
    test_texts();
    test_roster();
    test_flags();
    test_keeper();
    test_sagemaker();
    if (file_remove_tree(root, &e) < 0)
        diag("%s", e.text);
    arena_fini(&arena);
    return done_testing();
}
