// SPDX-License-Identifier: Apache-2.0
// dtctl ps, status, stop, exec and path on nodes that the test is: what they ask, what they print,
// and their exit status.
#include "tests/unit/cmd/nodes_fake.h"

static const char *status_of[NODES], *exec_of[NODES], *stop_of[NODES];

static const char *answer(size_t node, const char *verb, const char *words) {
    (void)words;
    const char *text = str_eq(verb, "status") ? status_of[node]
                       : str_eq(verb, "sh")   ? exec_of[node]
                       : str_eq(verb, "stop") ? stop_of[node]
                                              : "{}\n";
    return text ? text : "";
}

static void begin(const char *n0, const char *n1, const char *n2) {
    const char *all[] = {n0, n1, n2};
    for (size_t i = 0; i < NODES; i++) {
        status_of[i] = exec_of[i] = stop_of[i] = all[i];
        nodes_down[i] = nodes_silent[i] = false;
    }
}

// A run on a node: its state, then more members.
static const char *on_node(size_t node, const char *run, const char *state, const char *more) {
    return arena_printf(&nodes_arena,
                        "{\"run\":\"%s\",\"name\":\"t\",\"node\":\"n%zu\",\"state\":\"%s\"%s}\n",
                        run, node, state, more);
}

static const char *row(int n) {
    const char *at = dtctl_out();
    while (n-- > 0 && at)
        at = (at = strchr(at, '\n')) ? at + 1 : NULL;
    return at ? arena_strndup(&nodes_arena, at, strcspn(at, "\n")) : "";
}

#define WORKERS                                                                                    \
    ",\"workers\":[{\"rank\":0,\"state\":\"running\"},{\"rank\":1,\"state\":\"running\"},"         \
    "{\"rank\":2,\"state\":\"ended\"}]"

// ---- ps -----------------------------------------------------------------------------------------

static void test_ps(void) {
    begin("", "", "");
    is_int(dtctl("ps", NULL), 0, "a cluster without runs has status 0");
    is_str(said(), "no runs yet (try: dtctl train)\n", "the user reads that there are no runs");
    struct run r = nodes_run("a-1", "finished", true);
    nodes_keep_run(&r);
    dtctl("ps", NULL);
    is_str(said(), "no run is going (ps --all shows 1)\n", "the user reads of runs that are over");
    is_int(dtctl("ps", "-a", NULL), 0, "runs that are over can be listed");
    is_str(row(0),
           "RUN                                          STATE     NODES RUNNING RESTARTS      AGE "
           "RESULTS",
           "the rows have names");
    is_str(row(1),
           "a-1                                          finished      3       -        0  1:00:00 "
           "here",
           "a run that is over has its row");
    r = nodes_run("b-1", "started", false);
    r.max_restarts = 4;
    nodes_keep_run(&r);
    begin(on_node(0, "b-1", "running",
                  ",\"round\":2,\"restarts\":2,\"reason\":\"rank 1 failed\",\"agent_starts\":1,"
                  "\"coordinator\":true" WORKERS),
          on_node(1, "b-1", "running", ",\"round\":2,\"restarts\":1,\"agent_starts\":2" WORKERS),
          on_node(2, "b-1", "running", ",\"round\":1,\"restarts\":3" WORKERS));
    is_int(dtctl("ps", NULL), 0, "an active run is listed");
    is_str(row(1),
           "b-1                                          running       3       4        3  1:00:00 "
           "on nodes",
           "ranks of the newest round are counted");
    is_str(row(2), "  round 2, 3 of 4 restarts: rank 1 failed; coordinator n0",
           "a later round has its reason and the coordinator");
    is_str(row(3), "  agents started again: 3", "agents that were started again are counted");
    is_str(row(4), "", "runs whose results are here are left out");
    dtctl("ps", "--json", NULL);
    const char *json = strstr(dtctl_out(), "\"run\":\"b-1\"");
    has_str(json,
            "\"nodes_seen\":3,\"ranks_running\":4,\"round\":2,\"restarts\":3,\"max_restarts\":4",
            "the event has the numbers");
    has_str(json, "\"fetched\":false,\"lost\":[],\"left\":[]", "the event has the results");
}

static void test_ps_results(void) {
    static const struct {
        unsigned left;
        size_t lost;
        unsigned lost_kinds;
        bool is_there;
        const char *results;
    } rows[] = {
        {RESULT_OUTPUT, 0, 0, true, "here, but output on nodes"},
        {RESULT_OUTPUT, 0, 0, false, "here, but output lost"},
        {0, 1, RESULT_ALL, true, "part lost"},
        {0, NODES, RESULT_ALL, true, "lost"},
        {0, NODES, RESULT_OUTPUT, true, "part lost"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run r = nodes_run("a-1", "finished", true);
        r.left = rows[i].left;
        r.lost = (const char **)NODE_NAMES;
        r.lost_count = rows[i].lost;
        r.lost_kinds = rows[i].lost_kinds;
        nodes_keep_run(&r);
        begin(rows[i].is_there ? on_node(0, "a-1", "finished", "") : "", "", "");
        dtctl("ps", "-a", NULL);
        const char *at = strstr(dtctl_out(), "a-1 ");
        at = at ? arena_strndup(&nodes_arena, at, strcspn(at, "\n")) : "";
        ok(str_ends(at, arena_printf(&nodes_arena, "00 %s", rows[i].results)),
           "results %zu are %s: %s", i, rows[i].results, at);
    }
    struct run r = nodes_run("a-1", "finished", true);
    nodes_keep_run(&r);
    begin("", "", "");
    nodes_down[1] = true;
    is_int(dtctl("ps", NULL), 3, "a node that does not answer is an exit status of ps");
    has_str(row(1), " not known", "results on a node that does not answer are not known");
    nodes_down[1] = false;
    is_int(dtctl("ps", NULL), 0, "a run that no node has is no error");
    is_str(dtctl_out(), "", "a run that no node has is not active");
    dtctl("ps", "-a", NULL);
    has_str(dtctl_out(), " lost          3       -        0  1:00:00 lost",
            "an unfinished run that no node has is lost");
    begin(on_node(0, "x-9", "running", ""), on_node(1, "x-9", "running", ""),
          on_node(1, "y-9", "running", ",\"owner\":\"another\""));
    dtctl("ps", NULL);
    const char *x = strstr(said(), "run x-9 is on the nodes, and this side has no record of it "
                                   "(try: dtctl fetch --path runs/x-9)\n");
    ok(x && !strstr(x + 1, "run x-9"), "a run without a record is named once");
    ok(!strstr(said(), "y-9"), "a run of another cluster is not named");
}

// ---- status -------------------------------------------------------------------------------------

static void test_status(void) {
    begin(on_node(0, "b-1", "running",
                  ",\"round\":1,\"restarts\":1,\"max_restarts\":4,\"reason\":\"why\","
                  "\"coordinator\":true" WORKERS),
          on_node(1, "b-1", "finished", ""), "");
    status_of[2] = arena_printf(&nodes_arena, "%s%s", on_node(2, "b-1", "running", ""),
                                on_node(2, "b-2", "running", ""));
    is_int(dtctl("status", NULL), 0, "the nodes are listed");
    is_str(row(0), "cluster c, provider local, 3 nodes, up since 2026-01-02T03:04:05.678Z",
           "the cluster is named");
    is_str(row(1),
           "NODE             ADDRESS            STATE       CPUS GPUS    MEMORY DISK FREE  RUN",
           "the rows of nodes have names");
    is_str(row(2),
           "n0               127.0.0.2          busy           4    2    8.6 GB    1.1 GB  b-1",
           "a node with an active run is busy");
    is_str(row(3), "  running, coordinator, round 1, 1 of 4 restarts: why",
           "a later round of a node has its reason");
    is_str(row(4),
           "n1               127.0.0.3          idle           4    2    8.6 GB    1.1 GB  ",
           "a node whose run is over is idle");
    has_str(row(5), "  b-2 and more", "a node may have several runs");
    nodes_down[1] = true;
    is_int(dtctl("status", "n[1-2]", NULL), 3, "a node that does not answer is a status");
    is_str(row(2), "n1               127.0.0.3          unreachable no route",
           "a node that does not answer has the reason");
    has_str(row(3), "n2 ", "the other node is listed");
    is_str(row(4), "", "nodes that are not named are not listed");
    dtctl("status", "--json", NULL);
    has_str(dtctl_out(), "\"state\":\"busy\",\"error\":null,\"run\":\"b-1\",\"ranks_running\":2",
            "the event has the ranks");
}

// ---- top ----------------------------------------------------------------------------------------

#define SAMPLE                                                                                     \
    ",\"every_ms\":2000,\"sample\":{\"time_ms\":7,\"cpus\":4,\"cpu_percent\":12.5},"               \
    "\"tail\":{\"stdout\":\"\",\"stderr\":\"\",\"metrics\":\"\"}"

static int looks; // that the first node has answered

// The run is over with the third look.
static const char *answer_looks(size_t node, const char *verb, const char *words) {
    looks += node == 0 && str_eq(verb, "status") && strstr(words, "--sample");
    return on_node(node, "b-1", looks > 2 ? "finished" : "running", ",\"round\":0" SAMPLE);
}

static void test_top(void) {
    begin(on_node(0, "b-1", "running",
                  ",\"round\":1,\"restarts\":2,\"reason\":\"why\"" SAMPLE WORKERS),
          on_node(1, "b-1", "running",
                  ",\"round\":1,\"coordinator\":true,\"reason\":\"lost\"" SAMPLE WORKERS),
          on_node(2, "b-1", "running", ",\"round\":0,\"silent\":true" WORKERS));
    is_int(dtctl("top", "--once", NULL), 0, "one look at the active run succeeds: %s",
           dtctl_err.text);
    has_str(row(0), "run b-1  running, 4 ranks on 3 of 3 nodes, ",
            "ranks of the newest round are counted by top");
    has_str(row(0), ", 1 without an answer, round 1, 2 of 4 restarts: lost",
            "a frozen agent is counted, and the reason is the coordinator's");
    has_str(nodes_asked(), "n1 status --run b-1 --sample;", "the nodes are asked for a sample");
    nodes_down[2] = true;
    is_int(dtctl("top", "b-1", "--once", NULL), 3,
           "a node that does not answer is a status of top");
    has_str(dtctl_out(), "run b-1  running, 4 ranks on 2 of 3 nodes, ",
            "the other nodes are shown");
    nodes_down[2] = false;
    begin(on_node(0, "b-1", "finished", SAMPLE), on_node(1, "b-1", "failed", SAMPLE),
          on_node(2, "b-1", "finished", SAMPLE));
    is_int(dtctl("top", "--once", NULL), 1, "a run that is over on all nodes is not shown");
    is_str(dtctl_err.text, "run 'b-1' is not active: its state is 'failed' (try: dtctl logs b-1)",
           "the error has the state that is not the best");
    is_int(dtctl("top", "a-1", NULL), 1, "a run that is recorded as over is not shown");
    is_str(dtctl_err.text, "run 'a-1' is not active: its state is 'finished' (try: dtctl logs a-1)",
           "the error has the recorded state");
    nodes_answer = answer_looks;
    is_int(dtctl("top", "--every", "100ms", NULL), 0, "top ends with the run");
    is_int(looks, 3, "top looks until the run is over");
    nodes_answer = answer;
}

// ---- stop ---------------------------------------------------------------------------------------

static void test_stop(void) {
    begin("{\"event\":\"stopping\"}\n", "!not-found", "{}\n");
    is_int(dtctl("stop", NULL), 0, "the active run is stopped: %s", dtctl_err.text);
    is_str(dtctl_out(), "run b-1: nothing of it is left running\n", "the run is named");
    is_str(nodes_asked(),
           "n0 stop --run b-1 --grace-ms 30000 --signal SIGTERM;"
           "n1 stop --run b-1 --grace-ms 30000 --signal SIGTERM;"
           "n2 stop --run b-1 --grace-ms 30000 --signal SIGTERM;",
           "each node of the run is asked to stop it");
    has_str(said(), "its results are on the nodes: dtctl fetch b-1\n", "the next step is named");
    is_int(dtctl("stop", "b-1", "--grace", "2s", "--signal", "INT", NULL), 0, "flags are taken");
    has_str(nodes_asked(), "n0 stop --run b-1 --grace-ms 2000 --signal INT;",
            "nodes get the flags");
    is_int(dtctl("stop", "--dry-run", NULL), 0, "a dry run stops nothing");
    is_str(dtctl_out(), "would stop b-1 on 3 nodes\n", "a dry run names the run");
    is_str(nodes_asked(), "", "a dry run asks no node");
    begin("{}\n", "{}\n", "{}\n");
    is_int(dtctl("stop", "a-1", NULL), 0, "a run that is over can be named");
    is_str(dtctl_out(), "run a-1 is over already: finished\n", "a run that is over is said to be");
    stop_of[1] = "!failed";
    is_int(dtctl("stop", "b-1", NULL), 3, "a node that cannot stop the run is a status");
    is_str(dtctl_out(), "", "a run that may run on is not called stopped");
    is_int(dtctl("stop", "none", NULL), 1, "a run that is not there is an error");
}

#define OLD "t-20260101T000000Z-00000a"
#define NEW "t-20260102T000000Z-00000b"

static void test_stop_task(void) {
    struct run r = nodes_run(OLD, "started", false);
    nodes_keep_run(&r);
    r = nodes_run(NEW, "started", false);
    nodes_keep_run(&r);
    begin("{\"event\":\"stopping\"}\n", "{}\n", "{}\n");
    is_int(dtctl("stop", NULL), 0, "of several active runs the newest is stopped");
    is_str(dtctl_out(), "run " NEW ": nothing of it is left running\n", "the newest run is named");
    is_int(dtctl("stop", "t", NULL), 2, "a task with two active runs is an error");
    is_str(dtctl_err.text,
           "2 runs of task 't' are active; the newest is '" NEW "' (try: dtctl stop " NEW ")",
           "the error names the newest run");
    r.state = "finished";
    nodes_keep_run(&r);
    is_int(dtctl("stop", "t", NULL), 0, "a newest run that is recorded as over is asked about");
    is_str(dtctl_out(), "run " NEW ": nothing of it is left running\n",
           "the newest run is stopped although it is recorded as over");
    ok(!strstr(nodes_asked(), OLD), "the older run is not stopped then");
    begin("{}\n", "{}\n", "{}\n");
    dtctl("stop", "t", NULL);
    is_str(dtctl_out(), "run " OLD ": nothing of it is left running\n",
           "when the newest run is over the active one is stopped");
    r = nodes_run(OLD, "finished", true);
    nodes_keep_run(&r);
    r = nodes_run(NEW, "finished", true);
    nodes_keep_run(&r);
}

// ---- exec ---------------------------------------------------------------------------------------

static void test_exec(void) {
    begin("a\nb\n", "a\nb\n", "c");
    is_int(dtctl("exec", "--", "uname", "-r", NULL), 0, "a command runs on all nodes");
    is_str(dtctl_out(), "n0: a\nn0: b\nn1: a\nn1: b\nn2: c\n", "each line has its node");
    is_str(nodes_asked(), "n0 sh uname -r;n1 sh uname -r;n2 sh uname -r;",
           "each node gets the command");
    dtctl("exec", "-N", "--", "x", NULL);
    is_str(dtctl_out(), "a\nb\na\nb\nc\n", "lines may be without their nodes");
    dtctl("exec", "-b", "--", "x", NULL);
    is_str(dtctl_out(),
           "---------------\nn[0-1] (2)\n---------------\na\nb\n"
           "---------------\nn2 (1)\n---------------\nc\n",
           "equal output is shown once");
    dtctl("exec", "-w", "n[1-2]", "--", "x", NULL);
    is_str(nodes_asked(), "n1 sh x;n2 sh x;", "nodes can be named");
    is_int(dtctl("exec", "--dry-run", "--", "x", "y", NULL), 0, "a dry run has status 0");
    is_str(dtctl_out(), "would run on 3 nodes (n[0-2]): x y\n", "a dry run shows the command");
    begin("a\n", "!failed", "c\n");
    is_int(dtctl("exec", "--", "x", NULL), 3, "a command that fails on a node is a status");
    has_str(said(), "exit status 1", "the user reads the status of the node");
    is_int(dtctl("exec", "--exit-code", "--", "x", NULL), 1,
           "the status of a node can be returned");
    nodes_silent[0] = true;
    is_int(dtctl("exec", "--", "x", NULL), 4, "a node without a status is a status");
    is_str(dtctl_err.text, "exec: 1 of 3 nodes gave no status",
           "the nodes without one are counted");
    dtctl("exec", "--json", "--", "x", NULL);
    has_str(dtctl_out(), "\"node\":\"n0\",\"status\":null}", "the event has no status");
    has_str(dtctl_out(), "\"node\":\"n1\",\"status\":1}", "the event has the status");
    nodes_silent[0] = false;
    nodes_down[2] = true;
    is_int(dtctl("exec", "--", "x", NULL), 4, "a node that is not reached gave no status");
    is_int(dtctl("exec", NULL), 2, "exec needs a command");
    is_int(dtctl("exec", "--rank", "0", "-w", "n0", "--", "x", NULL), 2,
           "ranks and nodes exclude each other");
    is_int(dtctl("exec", "--run", "b-1", "--", "x", NULL), 2, "a run needs ranks");
    is_int(dtctl("exec", "-w", "other", "--", "x", NULL), 1, "a node has to be in the cluster");
    nodes_down[2] = false;
}

// ---- path ---------------------------------------------------------------------------------------

static void put(const char *path, const char *text) {
    path = file_join(&nodes_arena, nodes_folder, path);
    if (file_make_dirs(file_dir(&nodes_arena, path), 0700, &dtctl_err) < 0 ||
        file_write_atomic(path, text, strlen(text), 0600, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
}

static void path_fails(const struct run *r, const char *flag, const char *text) {
    if (r)
        nodes_keep_run(r);
    is_int(dtctl("path", "c-1", flag, NULL), 1, "there is no path: %s", text);
    is_str(dtctl_err.text, text, "the error has the reason: %s", text);
    is_str(dtctl_out(), "", "no path is printed: %s", text);
}

static void test_path(void) {
    struct run r = nodes_run("c-1", "started", false);
    path_fails(&r, NULL,
               "run 'c-1' is not over, as far as this side knows (try: dtctl logs -f c-1, which "
               "brings its results)");
    path_fails(&r, "--live", "run 'c-1' was started without outputs.every");
    path_fails(&r, "--s3", "run 'c-1' was started without outputs.s3");
    r.output_every_ms = 60000;
    path_fails(&r, "--live",
               "nothing of run 'c-1' has come yet (try: dtctl logs -f c-1, which fetches it)");
    put(".dtctl/c/runs/c-1/live/n0/output/f", "x");
    is_int(dtctl("path", "--live", "c-1", NULL), 0, "output of an active run has a path");
    ok(str_ends(dtctl_out(), "/.dtctl/c/runs/c-1/live\n"), "the path is that of the live output");
    r.state = "finished";
    path_fails(&r, NULL, "the results of run 'c-1' are not here (try: dtctl fetch c-1)");
    r.fetched = true;
    path_fails(
        &r, "--live",
        arena_printf(&nodes_arena, "run 'c-1' is over, and its results are in %s", r.output_dir));
    path_fails(&r, NULL, "'out' does not hold the results of run 'c-1' any more");
    r.s3 = "s3://b/p";
    path_fails(&r, "--s3", "the results of run 'c-1' are not in s3://b/p (try: dtctl fetch c-1)");
    r.uploaded = true;
    nodes_keep_run(&r);
    is_int(dtctl("path", "--s3", "c-1", NULL), 0, "uploaded results have an address");
    is_str(dtctl_out(), "s3://b/p\n", "the address is printed");
    is_int(dtctl("path", "--s3", "--live", NULL), 2, "one kind of path is printed at a time");
    r.left = RESULT_OUTPUT;
    path_fails(&r, NULL,
               "the results of run 'c-1' are not here: output on the nodes only (try: dtctl fetch "
               "c-1)");
    r.left = 0;
    r.lost = (const char **)NODE_NAMES;
    r.lost_count = NODES;
    path_fails(&r, NULL, "the results of run 'c-1' are lost: no node has them any more");
    r.lost_count = 0;
    r.state = "failed";
    nodes_keep_run(&r);
    put("out/.dtctl-run", "c-1\n");
    put("out/output/f", "x");
    is_int(dtctl("path", "c", NULL), 0, "results that are here have a path: %s", dtctl_err.text);
    is_str(dtctl_out(), arena_printf(&nodes_arena, "%s\n", r.output_dir), "the path is printed");
    is_str(said(), "run 'c-1' is 'failed', not finished\n", "the user reads how the run ended");
    dtctl("path", "c-1", NULL);
    is_str(said(), "", "nothing is said of a run that is named");
}

int main(void) {
    nodes_open();
    nodes_answer = answer;
    test_ps();
    test_status();
    test_top();
    test_stop();
    test_stop_task();
    test_exec();
    test_path();
    test_ps_results();
    nodes_close();
    return done_testing();
}
