// SPDX-License-Identifier: Apache-2.0
// dtctl logs, fetch, ssh, compare, report and completion on nodes that the test is, and on records
// of runs: what they ask, what they print, and their exit status.
#include "tests/unit/cmd/nodes_fake.h"

#include <fcntl.h>

static const char *follow_of[NODES];

#define RUNNING  "{\"end\":\"running\"}\n"
#define FINISHED "{\"end\":\"finished\",\"exit_status\":0}\n"
#define EVENT    "{\"kind\":\"round\",\"round\":0,\"nproc\":1,\"rank\":%d}\n"

// Lines of the one rank of a node, and an end.
static const char *lines_of(int rank, const char *lines, const char *end) {
    const char *event = arena_printf(&nodes_arena, EVENT, rank);
    return arena_printf(
        &nodes_arena,
        "{\"file\":\"events.jsonl\",\"offset\":0,\"bytes\":%zu}\n%s" NODES_RECORD
        "{\"file\":\"attempt_0/0/stdout.log\",\"offset\":0,\"bytes\":%zu}\n%s" NODES_RECORD "%s",
        strlen(event), event, strlen(lines), lines, end);
}

static const char *answer(size_t node, const char *verb, const char *words) {
    (void)words;
    if (str_eq(verb, "sh"))
        return node == 1 ? "!failed" : "shell\n";
    return str_eq(verb, "follow") ? follow_of[node] : "{}\n";
}

static void begin(const char *end) {
    struct err e = {0};
    for (size_t i = 0; i < NODES; i++) {
        const char *text = arena_printf(&nodes_arena, "a%zu\nb%zu\nc%zu\n", i, i, i);
        follow_of[i] = lines_of((int)i, text, end);
        nodes_down[i] = nodes_silent[i] = false;
    }
    file_remove_tree(file_join(&nodes_arena, nodes_folder, ".dtctl/c/runs"), &e);
}

// The line, in any order of nodes.
static bool has_line(const char *line) {
    const char *text = arena_printf(&nodes_arena, "\n%s", dtctl_out());
    return strstr(text, arena_printf(&nodes_arena, "\n%s\n", line));
}

static size_t lines(const char *text) {
    size_t count = 0;
    for (; (text = strchr(text, '\n')); text++)
        count++;
    return count;
}

static void put(const char *path, const char *text) {
    path = file_join(&nodes_arena, nodes_folder, path);
    if (file_make_dirs(file_dir(&nodes_arena, path), 0700, &dtctl_err) < 0 ||
        file_write_atomic(path, text, strlen(text), 0600, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
}

// ---- logs ---------------------------------------------------------------------------------------

static void test_logs(void) {
    begin(RUNNING);
    is_int(dtctl("logs", NULL), 1, "there are no logs without a run");
    struct run r = nodes_run("a-1", "started", false);
    nodes_keep_run(&r);
    is_int(dtctl("logs", NULL), 0, "the lines of an active run are shown: %s", dtctl_err.text);
    is_uint(lines(dtctl_out()), 9, "each line is shown once");
    ok(has_line("[n0:0] a0") && has_line("[n2:2] c2"), "lines have their node and their rank");
    has_str(nodes_asked(), "n1 follow --run a-1 --from - --once;",
            "nodes are asked for what is there");
    is_int(dtctl("logs", "--rank", "1", NULL), 0, "one rank can be shown");
    is_str(dtctl_out(), "a1\nb1\nc1\n", "the lines of one rank have no label");
    is_int(dtctl("logs", "--rank", "3", NULL), 1, "a rank above the highest is an error");
    is_str(dtctl_err.text, "run 'a-1' has no rank 3: its highest is 2",
           "the error has the highest");
    dtctl("logs", "--node", "n2", "--tail", "1", NULL);
    is_str(dtctl_out(), "[n2:2] c2\n", "the last line of one node is shown");
    dtctl("logs", "--tail", "0", NULL);
    is_str(dtctl_out(), "", "no line at all can be shown");
    is_int(dtctl("logs", "--node", "n[0-1]", NULL), 2, "logs shows one node or all");
    is_str(dtctl_err.text, "logs shows one node or all; 'n[0-1]' are 2", "the error has the nodes");
    is_int(dtctl("logs", "--since", "never", NULL), 2, "a time has to be one");
    has_str(dtctl_err.text, "--since: ", "the error names the flag");
    dtctl("logs", "--rank", "0", "-t", NULL);
    has_str(dtctl_out(), " a0\n", "lines have times");
    ok(str_starts(dtctl_out(), "-  "), "a time that is not known is a dash");
    r.state = "finished";
    r.fetched = true;
    nodes_keep_run(&r);
    is_int(dtctl("logs", "--rank", "2", NULL), 0, "the lines of a run that is here are shown");
    is_str(dtctl_out(), "a2\nb2\nc2\n", "lines that are here are shown");
    is_str(nodes_asked(), "", "no node is asked for lines that are here");
    r.left = RESULT_LOGS;
    nodes_keep_run(&r);
    dtctl("logs", NULL);
    has_str(nodes_asked(), "n0 follow ", "nodes are asked for logs that they kept");
    nodes_down[1] = true;
    r = nodes_run("a-1", "started", false);
    nodes_keep_run(&r);
    is_int(dtctl("logs", "other", NULL), 1, "a run that is not there has no logs");
}

// ---- fetch --------------------------------------------------------------------------------------

static void test_fetch(void) {
    begin(RUNNING);
    struct run r = nodes_run("a-1", "started", false);
    nodes_keep_run(&r);
    is_int(dtctl("fetch", NULL), 0, "an active run can be fetched: %s", dtctl_err.text);
    has_str(said(), "run a-1 is still going; its results come when it is over (its logs up to now ",
            "the user reads that its results come later");
    is_int(dtctl("fetch", "--dry-run", NULL), 0, "a dry run of fetch succeeds");
    is_str(dtctl_out(),
           arena_printf(&nodes_arena, "would fetch a-1 from 3 nodes to %s\n", r.output_dir),
           "a dry run names the run and the folder");
    dtctl("fetch", "--dry-run", "--fetch", "state", NULL);
    has_str(dtctl_out(), "would fetch state of a-1 from 3 nodes", "a dry run names the kinds");
    r.state = "finished";
    r.fetched = true;
    nodes_keep_run(&r);
    is_int(dtctl("fetch", NULL), 0, "results that are here are not fetched");
    is_str(dtctl_out(), arena_printf(&nodes_arena, "results of a-1 are here: %s\n", r.output_dir),
           "the folder of the results is shown");
    is_str(nodes_asked(), "", "no node is asked for results that are here");
    r.start_ms = 5;
    nodes_keep_run(&r);
    dtctl("fetch", "--dry-run", NULL);
    has_str(dtctl_out(), "would fetch a-1 ", "results whose folder is gone are fetched again");
    put("out/.dtctl-run", "a-1\n");
    dtctl("fetch", "--dry-run", NULL);
    has_str(dtctl_out(), "results of a-1 are here: ", "results in their folder are here");
    r.left = RESULT_STATE | RESULT_LOGS;
    nodes_keep_run(&r);
    dtctl("fetch", "--fetch", "output", NULL);
    has_str(dtctl_out(), ", and its logs and state on the nodes only (try: dtctl fetch a-1)\n",
            "kinds that are on the nodes are named");
    dtctl("fetch", "--dry-run", NULL);
    has_str(dtctl_out(), "would fetch logs and state of a-1 ", "the rest is fetched");
    r.left = 0;
    r.s3 = "s3://b/p";
    nodes_keep_run(&r);
    dtctl("fetch", "--dry-run", NULL);
    has_str(dtctl_out(), "would upload a-1 to s3://b/p\n", "results would be uploaded");
    r.s3 = "";
    r.lost = NODE_NAMES;
    r.lost_count = 2;
    r.lost_kinds = RESULT_OUTPUT;
    nodes_keep_run(&r);
    is_int(dtctl("fetch", "--fetch", "state", NULL), 4, "lost results are an exit status");
    is_str(dtctl_err.text, "of run 'a-1', these results of n[0-1] are lost: output",
           "the error names the nodes and the kinds");
    r.lost_kinds = RESULT_ALL;
    nodes_keep_run(&r);
    dtctl("fetch", "--fetch", "state", "--dry-run", NULL);
    has_str(dtctl_out(), "would fetch state of a-1", "a node may have what was lost again");
}

static void test_fetch_paths(void) {
    is_int(dtctl("fetch", "--path", "/x", "--to", "t", "-w", "n[1-2]", "--dry-run", NULL), 0,
           "a dry run of paths succeeds: %s", dtctl_err.text);
    is_str(dtctl_out(), "would fetch 1 path of n1 to t/n1\nwould fetch 1 path of n2 to t/n2\n",
           "a dry run names the folder of each node");
    is_int(dtctl("fetch", "a-1", "--path", "/x", NULL), 2, "fetch takes a run or paths");
    is_int(dtctl("fetch", "--path", "/x", "--fetch", "state", NULL), 2, "paths have no kinds");
    is_int(dtctl("fetch", "--path", "/x", "--work", NULL), 2, "paths have no working folder");
}

// ---- ssh ----------------------------------------------------------------------------------------

static void test_ssh(void) {
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        bail_out("no null device");
    close(null);
    begin(RUNNING);
    is_int(dtctl("ssh", NULL), 0, "a shell of the first node is opened: %s", dtctl_err.text);
    is_str(nodes_asked(), "n0 sh exec \"${SHELL:-/bin/sh}\" -l;",
           "without a terminal it is a login shell");
    is_str(dtctl_out(), "shell\n", "the output of a shell is shown");
    is_int(dtctl("ssh", "n1", "--", "x", "y z", NULL), 1, "the status of a command is returned");
    is_str(nodes_asked(), "n1 sh x 'y z';", "a command has its words");
    is_int(dtctl("ssh", "n[0-1]", NULL), 2, "ssh takes one node");
    is_str(dtctl_err.text, "ssh takes one node, 'n[0-1]' are 2",
           "the error has the number of nodes");
    nodes_silent[2] = true;
    is_int(dtctl("ssh", "n2", NULL), 4, "a lost connection has no status");
    has_str(dtctl_err.text, "node 'n2': ", "the error names the node");
    nodes_down[2] = true;
    is_int(dtctl("ssh", "n2", NULL), 1, "a node that does not answer is an error");
    is_str(dtctl_err.text, "node 'n2': no route", "the error has the reason");
}

// ---- records ------------------------------------------------------------------------------------

static void test_compare(void) {
    begin(RUNNING);
    is_int(dtctl("compare", "a-1", NULL), 2, "two runs are compared, or more");
    is_int(dtctl("compare", NULL), 1, "without runs there is nothing to compare");
    for (int i = 1; i <= 3; i++) {
        struct run r = nodes_run(arena_printf(&nodes_arena, "a-%d", i), "finished", true);
        r.nproc = arena_printf(&nodes_arena, "4%d", i);
        nodes_keep_run(&r);
        put(arena_printf(&nodes_arena, ".dtctl/c/runs/a-%d/metrics.jsonl", i),
            arena_printf(&nodes_arena,
                         "{\"node\":\"n0\",\"rank\":0,\"time_ms\":1,\"name\":\"loss\","
                         "\"value\":%d}\n{\"node\":\"n0\",\"rank\":0,\"time_ms\":2,"
                         "\"name\":\"acc\",\"value\":7}\n",
                         10 - i));
    }
    is_int(dtctl("compare", "a-1", "a-2", "a-3", NULL), 0, "runs are compared: %s", dtctl_err.text);
    const char *first = strstr(dtctl_out(), "a-1"), *last = strstr(dtctl_out(), "a-3");
    ok(first && last && first < last, "runs are in their order");
    has_str(dtctl_out(), "42", "settings that differ are shown");
    ok(strstr(dtctl_out(), "loss") && strstr(dtctl_out(), "acc"), "all metrics are shown");
    is_int(dtctl("compare", "a-1", "a-2", "a-3", "--sort", "loss", "--metric", "acc", NULL), 0,
           "runs are compared in order of a metric");
    first = strstr(dtctl_out(), "a-3");
    last = strstr(dtctl_out(), "a-1");
    ok(first && last && first < last, "the run with the smallest value comes first");
    ok(!strstr(dtctl_out(), "loss") && strstr(dtctl_out(), "acc"),
       "a metric that orders alone is not shown");
    is_int(dtctl("compare", "a-1", "a-2", "--metric", "los", NULL), 1, "a metric has to be there");
    has_str(dtctl_err.text, "none of these runs has a metric 'los'", "the error names the metric");
    is_int(dtctl("compare", "a-1", "none", NULL), 1, "a run that is not there is an error");
    put(".dtctl/c/runs/a-3/run.toml", "x");
    is_int(dtctl("compare", "a-1", "a-3", NULL), 1, "a record that cannot be read is an error");
    is_str(dtctl_err.text, "the record of 1 run cannot be read", "such records are counted");
    has_str(dtctl_out(), "a-1", "the other runs are shown");
}

static void test_report(void) {
    is_int(dtctl("report", "a-1", NULL), 0, "a report is written: %s", dtctl_err.text);
    is_str(dtctl_out(), ".dtctl/c/runs/a-1/report.html\n",
           "the report of one run is in its folder");
    is_int(dtctl("report", "a-1", "a-2", NULL), 0, "a report of two runs is written");
    is_str(dtctl_out(), ".dtctl/c/runs/a-1/compared.html\n",
           "the report of two runs has another name");
    is_int(dtctl("report", "a-1", "-o", "page.html", NULL), 0, "the file can be named");
    is_int(dtctl("report", "a-1", "-o", "page.html", NULL), 0, "a report may be replaced");
    put("text", "no report, and longer than the begin of one, which is a line of HTML at most\n");
    is_int(dtctl("report", "a-1", "-o", "text", NULL), 2, "another file is not replaced");
    has_str(dtctl_err.text, "/text' is there already, and is no report (try: another -o FILE)",
            "the error names the file");
    put("empty", "");
    is_int(dtctl("report", "a-1", "-o", "empty", NULL), 0, "an empty file may be replaced");
    is_int(dtctl("report", "a-1", "-o", ".", NULL), 2, "a folder is not replaced");
    is_int(dtctl("report", "a-1", "-o", "dry", "--dry-run", NULL), 0,
           "a dry run of report succeeds");
    is_str(dtctl_out(), "dry would be written\n", "a dry run names the file");
    ok(!file_exists("dry"), "a dry run writes no file");
    dtctl("report", "a-1", "-o", "page.html", "--json", NULL);
    has_str(dtctl_out(), "\"points\":2,\"problems\":[\"summary.json is not here\"]}\n",
            "the event has the number of points, and the problems");
}

static void test_completion(void) {
    is_int(dtctl("completion", "nodes", NULL), 0, "nodes are listed");
    is_str(dtctl_out(), "n0\nn1\nn2\n", "each node has a line");
    dtctl("completion", "clusters", NULL);
    is_str(dtctl_out(), "c\n", "each cluster has a line");
    dtctl("completion", "runs", NULL);
    ok(has_line("a-1") && has_line("a-2"), "each run has a line");
    is_int(dtctl("completion", "bash", NULL), 0, "completions are printed");
    has_str(dtctl_out(), "complete", "completions are a script");
    is_int(dtctl("completion", "man", NULL), 0, "the manual is printed");
    ok(str_starts(dtctl_out(), ".") && strstr(dtctl_out(), ".TH"), "the manual is a page");
    is_int(dtctl("completion", "csh", NULL), 2, "another shell is refused");
}

int main(void) {
    nodes_open();
    nodes_answer = answer;
    test_logs();
    test_fetch();
    test_fetch_paths();
    test_ssh();
    test_compare();
    test_report();
    test_completion();
    nodes_close();
    return done_testing();
}
