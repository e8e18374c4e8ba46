// SPDX-License-Identifier: Apache-2.0
// dtctl gc: which runs go from which nodes, what is asked, what goes here, and what is said.
#include "tests/unit/cmd/nodes_fake.h"

#define DAY_MS 86400000LL

static const char *status_of[NODES]; // answers to `status`
static bool clean_fails;

// A run on a node, as a line of its status; the age in days.
static const char *on_node(const char *run, const char *state, int age_days) {
    long long at = (long long)(clock_wall_ms() - age_days * DAY_MS);
    return arena_printf(&nodes_arena,
                        "{\"run\":\"%s\",\"name\":\"t\",\"node\":\"x\",\"state\":\"%s\","
                        "\"created_ms\":%lld,\"updated_ms\":%lld}\n",
                        run, state, at - 1000, at);
}

static const char *join(const char *x, const char *y) {
    return arena_printf(&nodes_arena, "%s%s", x, y);
}

static const char *answer(size_t node, const char *verb, const char *words) {
    (void)words;
    if (str_eq(verb, "status"))
        return status_of[node];
    if (str_eq(verb, "clean"))
        return clean_fails ? "!failed" : "{\"removed\":1,\"removed_bytes\":1000}\n";
    return "{\"removed\":2,\"removed_bytes\":24}\n";
}

static void begin(const char *n0, const char *n1, const char *n2) {
    status_of[0] = n0;
    status_of[1] = n1;
    status_of[2] = n2;
    clean_fails = false;
}

// The runs that the nodes remove, "NODE RUN;…".
static const char *cleaned(void) {
    const char *text = nodes_asked(), *at = text, *out = "";
    while ((at = strstr(at, " clean --run "))) {
        size_t len = strcspn(at + 13, " ");
        out = arena_printf(&nodes_arena, "%s%.2s %.*s;", out, at - 2, (int)len, at + 13);
        at++;
    }
    return out;
}

static void test_which(void) {
    struct run r = nodes_run("a-1", "finished", true);
    nodes_keep_run(&r);
    r = nodes_run("a-2", "finished", true);
    nodes_keep_run(&r);
    r = nodes_run("a-3", "finished", false);
    nodes_keep_run(&r);
    r = nodes_run("a-4", "finished", true);
    r.left = RESULT_OUTPUT;
    nodes_keep_run(&r);
    begin(join(on_node("a-1", "finished", 8), on_node("a-2", "failed", 9)),
          on_node("a-3", "finished", 8), on_node("a-4", "finished", 8));
    is_int(dtctl("gc", "--keep", "0", NULL), 0, "old runs are removed: %s", dtctl_err.text);
    is_str(dtctl_out(),
           "removed 2 runs and 8 stored contents on nodes (2.1 kB) and 0 folders here\n",
           "the user reads how much is removed");
    const char *asked = nodes_asked();
    has_str(asked, "n0 clean --run a-1 --discard --owner ", "a fetched run is removed");
    has_str(asked, "n1 prune --older-than-ms 604800000;", "unused content goes after seven days");
    ok(!strstr(asked, "a-3"), "a run whose results were not fetched stays");
    ok(!strstr(asked, "a-4"), "a run of which some results are on the nodes stays");
    is_int(dtctl("gc", "--keep", "0", "--unfetched", NULL), 0, "unfetched runs can be removed");
    is_str(cleaned(), "n0 a-1;n1 a-3;n2 a-4;n0 a-2;", "each node removes its runs, newest first");
    struct run now = nodes_run_now("a-3");
    ok(now.lost_count == 1 && str_eq(now.lost[0], "n1"), "removed results are recorded as lost");
    ok(nodes_run_now("a-1").lost_count == 0, "fetched results are not lost");
}

static void test_ages(void) {
    begin(join(on_node("a-1", "finished", 8), on_node("a-2", "finished", 6)), "", "");
    dtctl("gc", "--keep", "0", NULL);
    is_str(cleaned(), "n0 a-1;", "runs go after seven days");
    dtctl("gc", "--keep", "0", "--older-than", "9d", NULL);
    is_str(cleaned(), "", "the age of runs can be given");
    dtctl("gc", "--keep", "0", "--older-than", "0", NULL);
    is_str(cleaned(), "n0 a-2;n0 a-1;", "runs of any age can be removed");
    begin(on_node("a-1", "running", 8), on_node("a-1", "running", 8), "");
    dtctl("gc", "--keep", "0", NULL);
    is_str(cleaned(), "", "an active run stays");
    begin(join(join(on_node("a-1", "finished", 30), on_node("a-2", "finished", 20)),
               join(on_node("b-1", "finished", 10), on_node("b-2", "finished", 9))),
          join(on_node("a-1", "finished", 30), on_node("a-2", "finished", 20)), "");
    dtctl("gc", NULL);
    is_str(cleaned(), "n0 a-1;", "each node keeps its three newest runs");
    dtctl("gc", "--keep", "1", NULL);
    is_str(cleaned(), "n0 a-2;n1 a-1;n0 a-1;", "the number of kept runs can be given");
}

static void test_dry_run(void) {
    begin(on_node("a-1", "finished", 8), "", "");
    is_int(dtctl("gc", "--keep", "0", "--dry-run", NULL), 0, "a dry run of gc succeeds");
    has_str(dtctl_out(), "would remove run a-1 from n0\n", "each run is shown");
    has_str(dtctl_out(),
            "would remove 1 run and 6 stored contents on nodes (72 B of content) and "
            "0 folders here\n",
            "the amount is shown");
    const char *asked = nodes_asked();
    ok(!strstr(asked, "clean"), "no run is removed");
    has_str(asked, "prune --older-than-ms 604800000 --dry-run;", "no content is removed");
}

static void test_others(void) {
    const char *other = on_node("a-1", "finished", 8);
    other =
        arena_printf(&nodes_arena, "%.*s,\"owner\":\"another\"}\n", (int)strlen(other) - 2, other);
    begin(other, on_node("x-1", "finished", 8), "");
    dtctl("gc", "--keep", "0", "--unfetched", NULL);
    is_str(cleaned(), "n1 x-1;", "runs of another cluster stay; unknown runs go when asked");
    dtctl("gc", "--keep", "0", NULL);
    is_str(cleaned(), "", "an unknown run stays, since its results were not fetched");
    struct cluster c = {0};
    int fd = -1;
    if (cluster_open(&c, &nodes_arena, nodes_folder, "c", &dtctl_err) < 0 ||
        run_lock(&c, "a-1", "a test", &fd, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
    begin(on_node("a-1", "finished", 8), "", on_node("a-1", "finished", 8));
    is_int(dtctl("gc", "--keep", "0", NULL), 0, "a run that another program holds is no error");
    is_str(cleaned(), "", "a run that another program holds stays");
    const char *first = strstr(said(), "run a-1 is left alone: ");
    ok(first && !strstr(first + 16, "is left alone"), "the user reads of such a run once");
    close(fd);
    cluster_close(&c);
    // A node that has come back with a part that counts as lost.
    struct run r = nodes_run("a-1", "finished", true);
    r.lost = (const char *[]){"n2"};
    r.lost_count = 1;
    r.lost_kinds = RESULT_ALL;
    nodes_keep_run(&r);
    dtctl("gc", "--keep", "0", NULL);
    is_str(cleaned(), "", "a run whose lost part is there again stays");
    begin(on_node("a-1", "finished", 8), "", "");
    dtctl("gc", "--keep", "0", NULL);
    is_str(cleaned(), "n0 a-1;", "a run whose part is lost goes from the other nodes");
}

static void test_failures(void) {
    begin(on_node("a-2", "finished", 8), "", "!failed");
    nodes_down[1] = true;
    is_int(dtctl("gc", "--keep", "0", NULL), 3, "nodes that fail are an exit status");
    is_str(cleaned(), "n0 a-2;", "the other nodes remove their runs");
    has_str(said(), "no route", "the user reads why a node failed");
    nodes_down[1] = false;
    begin(join(on_node("a-1", "finished", 8), on_node("a-2", "finished", 9)), "", "");
    clean_fails = true;
    is_int(dtctl("gc", "--keep", "0", "--unfetched", NULL), 3,
           "a run that stays is an exit status");
    is_str(cleaned(), "n0 a-1;", "a node stops at the first run that it cannot remove");
}

static void put(const char *path) {
    path = file_join(&nodes_arena, nodes_folder, path);
    if (file_make_dirs(path, 0700, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
}

static bool is_there(const char *path) {
    return file_exists(file_join(&nodes_arena, nodes_folder, path));
}

static void test_folders(void) {
    struct run r = nodes_run("d-1", "finished", true);
    nodes_keep_run(&r);
    r = nodes_run("d-2", "finished", false);
    nodes_keep_run(&r);
    put(".dtctl/c/nodes/n0");
    put(".dtctl/c/nodes/old");
    put(".dtctl/c/nodes/.hidden");
    put(".dtctl/c/runs/d-1/incoming/n0");
    put(".dtctl/c/runs/d-1/live");
    put(".dtctl/c/runs/d-2/incoming");
    begin("", "", "");
    dtctl("gc", "--dry-run", NULL);
    has_str(dtctl_out(), "and 3 folders here\n", "folders that would go are counted");
    has_str(dtctl_out(), "/nodes/old\n", "folders that would go are named");
    ok(is_there(".dtctl/c/nodes/old") && is_there(".dtctl/c/runs/d-1/live"),
       "a dry run removes no folder");
    dtctl("gc", NULL);
    has_str(dtctl_out(), "and 3 folders here\n", "folders that go are counted");
    ok(!is_there(".dtctl/c/nodes/old"), "the folder of a node that is not in the cluster goes");
    ok(is_there(".dtctl/c/nodes/n0"), "the folder of a node stays");
    ok(is_there(".dtctl/c/nodes/.hidden"), "a folder that is no node's stays");
    ok(!is_there(".dtctl/c/runs/d-1/incoming") && !is_there(".dtctl/c/runs/d-1/live"),
       "leftovers of a run whose results are here go");
    ok(is_there(".dtctl/c/runs/d-2/incoming"),
       "a run keeps the results that it has fetched so far");
    dtctl("gc", "--json", NULL);
    has_str(dtctl_out(),
            ",\"dry_run\":false,\"runs\":0,\"contents\":6,\"folders\":0,"
            "\"freed_bytes\":72,\"regions\":0,\"leftovers\":0,\"ended\":0,\"in_use\":0}\n",
            "the event has all numbers");
}

int main(void) {
    nodes_open();
    nodes_answer = answer;
    test_which();
    test_ages();
    test_dry_run();
    test_others();
    test_failures();
    test_folders();
    nodes_close();
    return done_testing();
}
