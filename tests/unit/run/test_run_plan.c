// SPDX-License-Identifier: Apache-2.0
// The plan of a run: its nodes, its processes, its words for the agents, the run that it resumes;
// and refusals. The cluster is a file.
#include "run/run_start.h"

#include "fleet/embedded_files.h"
#include "run/node_replace.h"
#include "tests/unit/run/plain_run.h"
#include "tests/unit/said.h"

#include "tests/unit/conf/config_fixture.h"

#include <sys/stat.h>

enum { NODES = 3 };
#define DTRUN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// In place of the table that the build makes.
extern struct embed_file embed_files[2];
struct embed_file embed_files[2] = {{.name = "dttrain", .sha256 = "0123456789abcdef0123"}};

static char root[] = "/tmp/test_run_plan.XXXXXX";
static struct screen screen;
static struct context context = {.arena = &a, .config = &c, .screen = &screen};
static struct inventory_node nodes[NODES];
static struct inventory cluster = {.name = "c", .created = "", .nodes = nodes};
static struct run_start start;
static struct err e;

static void save_cluster(size_t count, const char *provider, const char *unready) {
    struct cluster to = {0};
    cluster.count = count;
    cluster.provider = provider;
    for (size_t i = 0; i < count; i++) {
        const char *name = arena_printf(&a, "n%zu", i);
        nodes[i] = (struct inventory_node){.name = name,
                                           .root = "/r",
                                           .address = "127.0.0.1",
                                           .arch = "",
                                           .dtrun = str_eq(name, unready) ? "" : DTRUN};
    }
    if (cluster_open(&to, &a, ".", "c", &e) < 0 || cluster_create(&to, &e) < 0 ||
        cluster_save(&to, &cluster, &e) < 0)
        bail_out("%s", e.text);
}

// command NULL: the native trainer.
static int plan_with(const char *words, const char *file, const char *const *command) {
    size_t count = 0;
    while (command && command[count])
        count++;
    const char *problem = load("train", words, file, NULL);
    if (*problem)
        bail_out("'%s': %s", words, problem);
    const struct run_start_request request = {.command = command, .command_count = count};
    context.cluster = (struct cluster){0};
    said_clear();
    err_clear(&e);
    if (cluster_open(&context.cluster, &a, ".", "c", &e) < 0)
        bail_out("%s", e.text);
    return run_start_plan(&start, &context, &request, &e);
}

static const char *const TRUE[] = {"true", NULL};

static int plan(const char *words) {
    return plan_with(words, NULL, TRUE);
}

static const char *torchrun(const char *name) {
    for (int i = 0; i < start.spec.torchrun_count; i++)
        if (str_eq(start.spec.torchrun[i].name, name))
            return start.spec.torchrun[i].value;
    return "absent";
}

// ---- nodes --------------------------------------------------------------------------------------

static void has_nodes(const char *words, int min, int max, size_t count, bool elastic) {
    is_int(plan(words), 0, "'%s' is planned: %s", words, e.text);
    ok(start.run.nodes_min == min && start.run.nodes_max == max, "'%s': from %d to %d nodes", words,
       start.run.nodes_min, start.run.nodes_max);
    ok(start.spec.nnodes_min == min && start.spec.nnodes_max == max, "'%s': agents know it", words);
    ok(start.node_count == count && start.run.node_count == count, "'%s': %zu nodes take part",
       words, start.node_count);
    ok(start.elastic == elastic, "'%s': the nodes %s change", words, elastic ? "may" : "do not");
    for (size_t i = 0; i < count; i++)
        ok(start.indices[i] == i && str_eq(start.run.nodes[i], arena_printf(&a, "n%zu", i)),
           "'%s': node %zu has its place", words, i);
}

static void is_refused(const char *words, const char *want) {
    is_int(plan(words), -1, "'%s' is refused", words);
    has_str(e.text, want, "'%s' is refused with its reason", words);
}

static void test_nodes(void) {
    save_cluster(3, "local", NULL);
    has_nodes("", 3, 3, 3, false);
    has_nodes("--nodes=2", 2, 2, 2, false);
    has_nodes("--nodes=3", 3, 3, 3, false);
    has_nodes("--nodes=2:3", 2, 3, 3, true);
    has_nodes("--nodes=2:9", 2, 3, 3, true);
    has_nodes("--nodes=3:9", 3, 3, 3, false);
    has_nodes("--nodes=2|--spares=1", 2, 2, 3, true);
    has_nodes("--once", 1, 1, 1, false);
    is_str(start.run.nproc, "1", "one process is made once");
    is_refused("--nodes=4", "the run wants 4 nodes and cluster 'c' has 3 (try: dtctl up --nodes 4");
    is_refused("--nodes=2|--spares=2",
               "2 nodes and 2 spares are wanted and cluster 'c' has 3 nodes");
    save_cluster(3, "local", "n1");
    is_refused("", "node 'n1' is not ready");
    has_nodes("--nodes=1", 1, 1, 1, false);
    save_cluster(3, "local", NULL);
}

static void test_processes(void) {
    static const char *const words[][2] = {{"--nproc-per-node=4", "4"},
                                           {"--nproc-per-node=auto", "auto"},
                                           {"--nproc-per-node=cpu", "cpu"},
                                           {"--nproc-per-node=gpu", "gpu"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        is_int(plan(words[i][0]), 0, "'%s' is planned", words[i][0]);
        ok(str_eq(start.run.nproc, words[i][1]) && str_eq(start.spec.nproc_per_node, words[i][1]),
           "'%s': the record and the agents have it", words[i][0]);
    }
}

// ---- machines that are replaced -----------------------------------------------------------------

static void test_replaced(void) {
    const char *wait = arena_printf(&a, "rejoin_timeout=%d", REPLACE_WAIT_MS / 1000);
    is_refused("--replace-nodes|--max-restarts=1", "provider local creates no machines");
    save_cluster(2, "aws", NULL);
    is_refused("--replace-nodes", "needs --max-restarts");
    is_refused("--replace-nodes|--max-restarts=1|--detach", "not --detach");
    is_int(plan("--replace-nodes|--max-restarts=1"), 0, "machines may be replaced: %s", e.text);
    is_str(torchrun("rdzv-conf"), wait, "the agents wait for a new node");
    is_int(start.spec.max_restarts, 1, "the agents know the restarts");
    is_int(plan("--replace-nodes|--max-restarts=1|--rdzv-conf=join_timeout=60"), 0,
           "agents have other words");
    is_str(torchrun("rdzv-conf"), arena_printf(&a, "join_timeout=60,%s", wait),
           "the wait is added to them");
    is_int(plan("--replace-nodes|--max-restarts=1|--rdzv-conf=rejoin_timeout=7"), 0,
           "the user has a wait");
    is_str(torchrun("rdzv-conf"), "rejoin_timeout=7", "the user's wait is kept");
    is_int(plan("--max-restarts=1"), 0, "no machine is replaced");
    is_str(torchrun("rdzv-conf"), "absent", "the agents wait as they always do");
    save_cluster(3, "local", NULL);
}

// ---- words for the agents -----------------------------------------------------------------------

static void test_words(void) {
    unsigned char before[JOB_KEY_BYTES];
    is_int(plan("--name=my|--max-time=90s|--shutdown-timeout=7|--monitor-interval=0.5"), 0,
           "a run is planned: %s", e.text);
    is_str(start.run.name, "my", "the run has the name");
    ok(str_starts(start.run.id, "my-") && str_eq(start.spec.run, start.run.id),
       "the id begins with the name");
    is_int(start.spec.max_time_ms, 90000, "the agents know the limit of time");
    is_int(start.spec.shutdown_timeout_ms, 7000, "the agents know the grace");
    is_str(torchrun("shutdown-timeout"), "7", "a flag of torchrun is passed on");
    is_str(torchrun("monitor-interval"), "0.5", "a fraction is passed on");
    is_str(torchrun("rdzv-conf"), "absent", "a flag that is not given is not passed on");
    is_str(torchrun("notice-signal"), "none", "a command gets no signal");
    ok(start.spec.command_count == 1 && str_eq(start.spec.command[0], "true"),
       "the agents have the command");
    has_str(start.spec.workdir, start.run.id, "the working folder is that of the run");
    ok(start.spec.has_key, "the agents have a key");
    memcpy(before, start.spec.key, sizeof before);
    is_int(plan("--notice-signal=TERM"), 0, "a command may get a signal");
    is_str(torchrun("notice-signal"), "TERM", "the agents know the signal");
    ok(memcmp(before, start.spec.key, sizeof before) != 0, "each run has a key of its own");
    is_int(start.spec.state_every_ms, 0, "states are not copied");
    is_int(plan("--set=state.every=60s|--set=state.replicas=2"), 0, "states are copied");
    ok(start.spec.state_every_ms == 60000 && start.spec.state_replicas == 2,
       "the agents know how often, and to how many");
    is_int(plan("--nodes=1|--set=state.every=60s|--set=state.replicas=2"), 0, "one node is alone");
    is_int(start.spec.state_every_ms, 0, "a node by itself has nobody to copy to");
}

static void test_outputs(void) {
    char here[4096];
    if (!getcwd(here, sizeof here))
        bail_out("getcwd");
    is_int(plan("--set=outputs.dir=out|--set=outputs.s3=s3://bucket/x|--set=outputs.fetch=logs"), 0,
           "results have a folder: %s", e.text);
    is_str(start.run.output_dir, arena_printf(&a, "%s/out", here), "the folder is absolute");
    is_str(start.run.s3, arena_printf(&a, "s3://bucket/x/%s/runs/%s", start.run.name, start.run.id),
           "the bucket's place is that of the run");
    is_uint(start.run.wanted, RESULT_LOGS, "the wanted kinds are known");
    is_int(plan(""), 0, "results have no folder");
    has_str(start.run.output_dir, arena_printf(&a, "/runs/%s/output", start.run.id),
            "the folder is that of the run");
    is_str(start.run.s3, "", "no bucket gets the results");
    is_int(plan("--set=outputs.work=false"), 0, "new files may stay");
    ok(!start.run.bring_work, "new files of the working folder stay on the nodes");
    is_int(plan("--set=outputs.work=true"), 0, "new files may come");
    ok(start.run.bring_work, "new files of the working folder come");
}

static void test_text(void) {
    static const char *const bad[] = {"true", "a\xff", NULL};
    static const char *const launcher[] = {"torchrun", "x.py", NULL};
    is_int(plan_with("", NULL, bad), -1, "a command that is no text is refused");
    has_str(e.text, "the command: 'a\\xff' is not UTF-8", "the error has the word");
    is_int(plan("--env=A=b\xff"), -1, "a variable that is no text is refused");
    has_str(e.text, "A: 'b\\xff' is not UTF-8", "the error names the variable");
    is_int(plan("--set=outputs.dir=/x\xff"), -1, "a folder that is no text is refused");
    has_str(e.text, "outputs.dir", "the error names the setting");
    is_int(plan_with("", NULL, launcher), 0, "a launcher is a command");
    has_str(said(), "launcher=torchrun", "the user reads that it makes groups of its own");
    is_int(plan_with("--nodes=1|--nproc-per-node=1", NULL, launcher), 0, "a launcher may be alone");
    ok(!strstr(said(), "launcher"), "one process by itself has no other group");
    is_int(plan_with("--nodes=2|--nproc-per-node=1", NULL, launcher), 0, "two nodes have one each");
    has_str(said(), "launcher=torchrun", "the user reads of two groups");
}

// ---- the native trainer -------------------------------------------------------------------------

static void test_native(void) {
    is_int(plan_with("--nproc-per-node=2", NULL, NULL), 0, "the trainer is planned: %s", e.text);
    ok(start.native && str_eq(start.trainer, "dttrain"), "the trainer is that for processors");
    is_str(start.run.command[0], "bin/dttrain-0123456789abcdef", "the program has its hash");
    is_str(torchrun("notice-signal"), "USR1", "the trainer gets its signal");
    is_int(plan_with("--set=outputs.work=true", NULL, NULL), 0,
           "the trainer writes no files there");
    ok(!start.run.bring_work, "no new files of the trainer come");
    ok(!strstr(said(), "local_steps"), "no setting does nothing");
    is_int(plan_with("--set=train.outer_lr=0.5", NULL, NULL), 0, "a setting may do nothing");
    has_str(said(), "train.outer_lr", "the user reads which setting does nothing");
    is_int(plan_with("--set=train.outer_momentum=0.5", NULL, NULL), 0,
           "another setting may do nothing");
    has_str(said(), "train.outer_momentum", "the user reads of that one, too");
    is_int(plan_with("--set=train.outer_lr=0.5|--set=train.local_steps=2", NULL, NULL), 0,
           "rounds have the setting");
    ok(!strstr(said(), "outer_lr"), "the setting counts then");
    is_int(plan_with("--nodes=2:3|--nproc-per-node=1|--set=train.pipeline=2", NULL, NULL), -1,
           "a pipeline needs its ranks with each number of nodes");
    is_int(plan_with("--nodes=2|--nproc-per-node=1|--set=train.pipeline=2", NULL, NULL), 0,
           "a pipeline has its ranks: %s", e.text);
    is_int(plan_with("--nodes=2|--nproc-per-node=2|--set=train.pipeline=4", NULL, NULL), 0,
           "ranks of a node count for a pipeline: %s", e.text);
    is_int(plan_with("--set=state.every=60s", NULL, NULL), 0, "the trainer has its checkpoints");
    is_int(start.spec.state_every_ms, 0, "the agents do not copy them by themselves");
    is_int(plan_with("--set=state.every=60s|--set=state.replicas=1", NULL, NULL), 0,
           "the user may want copies");
    is_int(start.spec.state_replicas, 1, "the agents copy them then");
}

// ---- the run before -----------------------------------------------------------------------------

static void save_run(const char *id, const char *state) {
    struct run r = plain_run(id);
    r.state = state;
    if (run_save(&context.cluster, &r, &e) < 0)
        bail_out("%s", e.text);
}

static void resumes(const char *words, const char *want) {
    is_int(plan(words), 0, "'%s' is planned: %s", words, e.text);
    is_str(start.resume_run, want, "'%s' resumes %s", words, want ? want : "no run");
}

static void test_resume(void) {
    const char *failed = "task-20260101T000000Z-000001", *done = "task-20260102T000000Z-000002";
    resumes("--name=task", NULL);
    save_run(failed, "failed");
    resumes("--name=task", failed);
    resumes("--name=other", NULL);
    resumes("--name=task|--clean-state", NULL);
    resumes("--name=task|--set=train.resume=never", NULL);
    save_run(done, "finished");
    resumes("--name=task", NULL);
    resumes("--name=task|--set=state.keep=task", done);
    resumes(arena_printf(&a, "--name=task|--set=train.resume=%s", failed), failed);
    is_refused("--name=task|--set=train.resume=none-1", "none-1");
    if (mkdir("folder", 0700) < 0)
        bail_out("mkdir");
    is_int(plan_with("--name=task|--set=train.resume=folder/", NULL, NULL), -1,
           "the trainer resumes no folder");
    has_str(e.text, "is a folder here; give the name of a run", "the error has the next step");
    is_int(plan("--name=task|--set=train.resume=folder/"), -1, "a command resumes no folder");
    ok(!strstr(e.text, "is a folder here"), "a command resumes runs alone: %s", e.text);
}

int main(void) {
    said_open(&screen);
    if (!mkdtemp(root) || chdir(root) < 0)
        bail_out("no folder");
    test_nodes();
    test_processes();
    test_replaced();
    test_words();
    test_outputs();
    test_text();
    test_native();
    test_resume();
    said_close(&screen);
    if (chdir("/") < 0 || file_remove_tree(root, &e) < 0)
        bail_out("the folder stays");
    arena_fini(&a);
    return done_testing();
}
