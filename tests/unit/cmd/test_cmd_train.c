// SPDX-License-Identifier: Apache-2.0
// dtctl train on nodes that the test is: its plan, what the nodes are asked, what is recorded, and
// the exit status. Transfers are over at once.
#include "fleet/fleet_transfer.h"
#include "tests/unit/cmd/nodes_fake.h"

// ---- transfers ----------------------------------------------------------------------------------

static int pushes; // to a node each
static bool push_fails[NODES];

static int send_to_all(struct fleet *f, struct transfer_totals *totals) {
    const struct err why = {.code = ERR_SYS, .text = "no space"};
    for (size_t i = 0; i < f->count; i++) {
        if (f->nodes[i].failed)
            continue;
        pushes++;
        if (totals)
            totals->bytes += 5;
        if (push_fails[f->nodes[i].info->name[1] - '0'])
            fleet_fail(&f->nodes[i], &why);
    }
    return 0;
}

int fleet_transfer_each(struct fleet *f, const char *operation, fleet_transfer_start *start,
                        void *ctx, struct transfer_totals *totals, struct err *e) {
    (void)f, (void)operation, (void)start, (void)ctx, (void)totals, (void)e;
    return 0;
}

int fleet_send_manifest(struct fleet *f, const char *operation, const struct manifest *m,
                        const char *dest, enum xfer_mode mode, struct err *e) {
    (void)operation, (void)m, (void)dest, (void)mode, (void)e;
    return send_to_all(f, NULL);
}

int fleet_send_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, enum xfer_mode mode, struct transfer_totals *totals,
                         struct err *e) {
    (void)operation, (void)manifests, (void)dest, (void)mode, (void)e;
    return send_to_all(f, totals);
}

bool fleet_can_share(const struct fleet *f) {
    (void)f;
    return false;
}

int fleet_share_manifest(struct fleet *f, const char *operation, struct manifest *m,
                         const char *dest, struct xfer_peers *peers, struct transfer_totals *totals,
                         struct err *e) {
    (void)operation, (void)m, (void)dest, (void)peers, (void)e;
    return send_to_all(f, totals);
}

int fleet_find_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, const char *const *results, struct xfer_peers *peers,
                         struct transfer_totals *totals, struct err *e) {
    (void)f, (void)operation, (void)manifests, (void)dest, (void)results, (void)peers;
    (void)totals, (void)e;
    return 0;
}

// ---- nodes --------------------------------------------------------------------------------------

static const char *follow_of[NODES], *start_of[NODES];

static const char *answer(size_t node, const char *verb, const char *words) {
    (void)words;
    return str_eq(verb, "follow")  ? follow_of[node]
           : str_eq(verb, "start") ? start_of[node]
                                   : "{}\n";
}

static void forget_runs(void);

static void begin(const char *end) {
    forget_runs();
    for (size_t i = 0; i < NODES; i++) {
        follow_of[i] = end;
        start_of[i] = "";
        nodes_down[i] = nodes_silent[i] = push_fails[i] = false;
    }
    pushes = 0;
}

static void put(const char *path, const char *text) {
    path = file_join(&nodes_arena, nodes_folder, path);
    if (file_make_dirs(file_dir(&nodes_arena, path), 0700, &dtctl_err) < 0 ||
        file_write_atomic(path, text, strlen(text), 0600, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
}

// dtctl.toml: the cluster, and more.
static void set(const char *more) {
    put("dtctl.toml", arena_printf(&nodes_arena, "[cluster]\nname = \"c\"\nnodes = 3\n%s", more));
}

static size_t runs_now(void) {
    struct cluster c = {0};
    char **ids = NULL;
    size_t count = 0;
    struct err e = {0};
    if (cluster_open(&c, &nodes_arena, nodes_folder, "c", &e) == 0)
        (void)cluster_runs(&c, &ids, &count, &e);
    cluster_close(&c);
    return count;
}

// Without the runs before: those of one second have no order.
static void forget_runs(void) {
    struct err e = {0};
    file_remove_tree(file_join(&nodes_arena, nodes_folder, ".dtctl/c/runs"), &e);
}

static struct run newest(void) {
    struct cluster c = {0};
    struct run r = {.state = "", .id = ""};
    const char *id = NULL;
    struct err e = {0};
    if (cluster_open(&c, &nodes_arena, nodes_folder, "c", &e) == 0 &&
        cluster_find_run(&c, "", &id, &e) == 0)
        (void)run_load(&c, id, &r, &e);
    cluster_close(&c);
    return r;
}

#define FINISHED "{\"end\":\"finished\",\"exit_status\":0}\n"
#define FAILED   "{\"end\":\"failed\",\"exit_status\":5}\n"
#define TRAIN    "train", "--file", "work"
#define COMMAND  "--", "python3", "a.py", NULL

// ---- the plan -----------------------------------------------------------------------------------

static void test_plan(void) {
    is_int(dtctl(TRAIN, "--dry-run", COMMAND), 0, "a run is planned: %s", dtctl_err.text);
    ok(str_starts(said(), "run      a-"), "a run has the name of its command");
    has_str(said(), "\ncommand  python3 a.py\nnodes    3, 1 process each\nsends    ",
            "the plan has the command and the nodes");
    ok(!strstr(said(), "input ") && !strstr(said(), "fetches ") && !strstr(said(), "uploads "),
       "the plan has no more than there is");
    is_str(nodes_asked(), "", "a plan asks no node");
    dtctl(TRAIN, "--dry-run", "--nproc-per-node", "2", "--nodes", "2:3", "--", "x y", NULL);
    has_str(said(), "nodes    3 (at least 2), 2 processes each\n", "the plan has the fewest nodes");
    set("[inputs.data]\nsource = \"in\"\nmode = \"sharded\"\n[inputs.rep]\nsource = \"work\"\n");
    dtctl(TRAIN, "--dry-run", COMMAND);
    has_str(said(),
            "input    data: 7 files, 13 B, a share to every node by size, 2 to 3 files each\n",
            "the plan has the spread of shares");
    has_str(said(), "           n0: 3 files, 5 B: 1, 4, 0\n           n1: 2 files, 4 B: 2, 5\n",
            "a dry run shows the deal");
    has_str(said(), "input    rep: 2 files, 3 B, all to every node\n",
            "the plan has inputs that all nodes get");
    dtctl(TRAIN, "--dry-run", "--nodes", "1", COMMAND);
    has_str(said(), "           n0: 7 files, 13 B: ", "one node gets all files");
    has_str(said(), ", and 3 more\n", "four files of a node are named");
    ok(!strstr(said(), " each\nin"), "one share has no spread");
    dtctl(TRAIN, "--dry-run", "--fetch", "logs", "--json", COMMAND);
    has_str(dtctl_out(),
            "\"native\":false,\"command\":[\"python3\",\"a.py\"],\"nodes\":[\"n0\",\"n1\","
            "\"n2\"],",
            "the event has the command and the nodes");
    has_str(dtctl_out(),
            "\"bundle\":null,\"resumes\":null,\"output_dir\":", "the event has the folder");
    dtctl(TRAIN, "--dry-run", "--fetch", "logs", COMMAND);
    has_str(said(), "fetches  logs of the results, the rest stays on the nodes\n",
            "the plan has the results that come");
    set("");
    is_int(dtctl(TRAIN, "--dry-run", "--", NULL), 2, "a command follows the dashes");
    is_int(dtctl(TRAIN, "--down", "--detach", COMMAND), 2, "--down needs a dtctl that follows");
    is_int(dtctl(TRAIN, "--keep-on-failure", "1h", COMMAND), 2, "--keep-on-failure needs --down");
}

// ---- runs ---------------------------------------------------------------------------------------

static void test_finished(void) {
    begin(FINISHED);
    is_int(dtctl(TRAIN, COMMAND), 0, "a run that finishes has status 0: %s", dtctl_err.text);
    struct run r = newest();
    ok(str_eq(r.state, "finished") && r.fetched, "the record has the state and the results: %s",
       r.state);
    is_int(pushes, NODES, "each node gets the files once");
    const char *asked = nodes_asked();
    const char *begins = strstr(asked, "n0 start "), *follows = strstr(asked, "n0 follow ");
    ok(begins && follows && begins < follows, "agents are started, then followed");
    has_str(asked, "n2 fetched --run ", "nodes learn that the results are here");
    ok(r.push_bytes == 5 * NODES, "the bytes that were sent are recorded: %llu",
       (unsigned long long)r.push_bytes);
    has_str(dtctl_out(), "finished", "the user reads of the end");
    begin(FAILED);
    is_int(dtctl(TRAIN, COMMAND), 1, "a run that fails has a status");
    is_str(newest().state, "failed", "the record has the failure");
}

static void test_detached(void) {
    begin(FINISHED);
    is_int(dtctl(TRAIN, "--detach", COMMAND), 0, "a run is left alone: %s", dtctl_err.text);
    struct run r = newest();
    is_str(r.state, "started", "the record has the start");
    is_str(dtctl_out(), arena_printf(&nodes_arena, "%s\n", r.id), "the run is printed for scripts");
    has_str(said(), arena_printf(&nodes_arena, "run %s has started on 3 nodes\n", r.id),
            "the user reads of the start");
    has_str(said(), arena_printf(&nodes_arena, "  stop:    dtctl stop %s\n", r.id),
            "the user reads how to stop the run");
    ok(!strstr(nodes_asked(), " follow "), "a run that is left alone is not followed");
    ok(!strstr(said(), "lease"), "local nodes have no lease");
}

static void test_not_started(void) {
    begin(FINISHED);
    push_fails[1] = true;
    is_int(dtctl(TRAIN, COMMAND), 3, "a node without the files is a status");
    struct run r = newest();
    ok(str_eq(r.state, "failed") && r.fetched, "a run that was not started has failed, without "
                                               "results");
    ok(!strstr(nodes_asked(), " start "), "no agent is started without the files");
    begin(FINISHED);
    push_fails[1] = true;
    is_int(dtctl(TRAIN, "--nodes", "2:3", COMMAND), 0, "a run may begin with fewer nodes: %s",
           dtctl_err.text);
    begin(FINISHED);
    start_of[2] = "!failed";
    is_int(dtctl(TRAIN, COMMAND), 3, "an agent that does not start is a status");
    is_str(newest().state, "failed", "a run without an agent that it needs has failed");
    begin(FINISHED);
    start_of[2] = "!failed";
    is_int(dtctl(TRAIN, "--nodes", "2:3", COMMAND), 0, "a run may begin with fewer agents: %s",
           dtctl_err.text);
    begin(FINISHED);
    nodes_down[0] = nodes_down[1] = nodes_down[2] = true;
    is_int(dtctl(TRAIN, COMMAND), 3, "nodes that do not answer are a status of train");
    is_int(pushes, 0, "nodes that do not answer get no files");
}

static void test_again(void) {
    begin(FINISHED);
    is_int(dtctl(TRAIN, "--if-changed", COMMAND), 0, "a task runs: %s", dtctl_err.text);
    const char *first = newest().id;
    is_int(dtctl(TRAIN, "--if-changed", COMMAND), 0, "a task that is done has status 0");
    has_str(said(),
            arena_printf(&nodes_arena,
                         "task 'a' is done: run %s is reused, nothing has changed (--force runs "
                         "it)\n",
                         first),
            "the user reads which run is reused");
    is_uint(runs_now(), 1, "a task that is done does not run");
    is_int(dtctl(TRAIN, "--if-changed", "--force", COMMAND), 0, "a task can be run again");
    is_uint(runs_now(), 2, "a task that is forced runs");
    dtctl(TRAIN, "--if-changed", "--", "python3", "a.py", "x", NULL);
    ok(!strstr(said(), "is reused"), "another command is another task");
}

int main(void) {
    nodes_open();
    nodes_answer = answer;
    put("work/a.py", "x");
    put("work/b.py", "yy");
    for (int i = 0; i < 7; i++)
        put(arena_printf(&nodes_arena, "in/%d", i), i == 0 ? "x" : "yy");
    begin(FINISHED);
    test_plan();
    test_finished();
    test_detached();
    test_not_started();
    test_again();
    nodes_close();
    return done_testing();
}
