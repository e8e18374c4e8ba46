// SPDX-License-Identifier: Apache-2.0
// The nodes that hold ranks of an active run, from what the nodes of a cluster answer. The fleet is
// a stand-in.
#include "run/rank_nodes.h"

#include "fleet/fleet_runs.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <unistd.h>

enum { NODES = 4, RUNS_MAX = 8 };

static char folder[] = "/tmp/test_rank_nodes.XXXXXX";
static struct arena a;
static struct context context;
static struct inventory inventory = {.count = NODES};
static struct node_run answers[RUNS_MAX];
static size_t answer_count, failures, reports;
static bool unreachable, mute;
static const char *asked;
static size_t *found, found_count;
static struct err error;

// ---- in place of the fleet ----------------------------------------------------------------------

void fleet_open(struct fleet *f, struct context *s, struct inventory *inv, const size_t *indices,
                size_t count) {
    (void)indices, (void)count;
    *f = (struct fleet){.context = s, .count = inv->count};
}

int fleet_connect(struct fleet *f, bool want_agent, struct err *e) {
    (void)f, (void)want_agent;
    return unreachable ? err_set(e, ERR_NET, "no network") : 0;
}

void fleet_report(struct fleet *f) {
    (void)f;
    reports++;
}

size_t fleet_failures(const struct fleet *f) {
    (void)f;
    return failures;
}

void fleet_close(struct fleet *f) {
    (void)f;
}

int fleet_runs_ask(struct fleet *f, const char *run, struct node_runs *out, struct err *e) {
    (void)f;
    asked = run ? run : "all";
    *out = (struct node_runs){answers, answer_count, RUNS_MAX};
    return mute ? err_set(e, ERR_NET, "no answer") : 0;
}

// ---- answers ------------------------------------------------------------------------------------

static void begin(void) {
    answer_count = failures = reports = 0;
    unreachable = mute = false;
    asked = "";
    err_clear(&error);
}

static struct node_run *runs_on(size_t node, const char *run, int round, int ranks,
                                const int *running) {
    struct node_run *r = &answers[answer_count++];
    *r = (struct node_run){.run = run, .node_index = node, .round = round, .ranks_running = ranks};
    r->running = arena_new(&a, int, (size_t)ranks + 1);
    for (int i = 0; i < ranks; i++)
        r->running[i] = running[i];
    return r;
}

// Indices of the nodes, or the error's text.
static const char *find(const char *run, size_t n, const int64_t *ranks) {
    struct option_ints list = {.items = arena_new(&a, int64_t, n + 1), .count = n};
    char *text = arena_strdup(&a, "");
    for (size_t i = 0; i < n; i++)
        list.items[i] = ranks[i];
    if (rank_nodes_find(&context, &inventory, run, &list, &found, &found_count, &error) < 0)
        return error.text;
    for (size_t i = 0; i < found_count; i++)
        text = arena_printf(&a, "%s%s%zu", text, i ? " " : "", found[i]);
    return text;
}

#define FIND(run, ...)                                                                             \
    find(run, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
#define ON(node, run, round, ...)                                                                  \
    runs_on(node, run, round, sizeof((int[]){__VA_ARGS__}) / sizeof(int),                          \
            (const int[]){__VA_ARGS__})

static void make_run(const char *name) {
    if (file_make_dirs(cluster_run_dir(&context.cluster, name), 0700, &error) < 0)
        bail_out("%s", error.text);
}

static void test_found(void) {
    begin();
    ON(3, "x-1", 2, 0, 1);
    ON(1, "x-1", 2, 2, 3);
    ON(2, "other", 2, 0);
    is_str(FIND(NULL, 3), "1", "a rank is on its node");
    is_str(asked, "all", "without a run all runs are asked for");
    is_str(FIND(NULL, 0, 1), "3", "two ranks of a node are one node");
    is_str(FIND(NULL, 1, 2), "1 3", "nodes are in the order of the inventory");
    is_str(FIND("x", 1, 2), "1 3", "a run is found by the beginning of its name");
    is_str(asked, "x-1", "the nodes are asked for this run");
    is_int((int)reports, 4, "nodes that fail are reported");
    ON(0, "x-1", 1, 3); // cut off
    is_str(FIND(NULL, 3), "1", "an older round does not count");
    answers[1].round = 3;
    is_str(FIND(NULL, 0), "rank 0 of 'x-1' is not running: 2 ranks are, the highest is 3",
           "ranks of the newest round count alone");
}

static void test_not_found(void) {
    begin();
    ON(1, "x-1", 0, 5);
    is_str(FIND(NULL, 4), "rank 4 of 'x-1' is not running: 1 rank is, the highest is 5",
           "the error has the highest rank");
    is_int(error.code, ERR_NOT_FOUND, "an unknown rank is not found");
    ON(2, "x-1", 0, 1);
    is_str(FIND(NULL, 5, 4), "rank 4 of 'x-1' is not running: 2 ranks are, the highest is 5",
           "one rank of several is not found");
    failures = 2;
    is_str(FIND(NULL, 4), "rank 4 of 'x-1' is on no node that answers, and 2 did not",
           "the error counts the nodes that did not answer");
    is_int(error.code, ERR_SOME_FAILED, "some nodes have failed");
    begin();
    is_str(FIND("x-1", 0), "run 'x-1' is not active: no node holds a rank of it",
           "a run may be over");
    is_str(FIND("nothing", 0), error.text, "an unknown run is an error");
    is_str(asked, "x-1", "no node is asked for an unknown run");
}

static void test_which_run(void) {
    begin();
    is_str(FIND(NULL, 0), "no run is active, so no node holds a rank", "no run is active");
    ON(0, "x-1", 0, 0)->over = true;
    runs_on(0, "x-1", 0, 0, NULL);
    ON(1, "foreign", 0, 0);
    is_str(FIND(NULL, 0), "no run is active, so no node holds a rank",
           "runs that are over, have no rank or are of another cluster are not active");
    ON(2, "y-2", 0, 0);
    ON(3, "y-2", 0, 1);
    is_str(FIND(NULL, 0), "2", "a run on two nodes is one run");
    ON(3, "x-1", 0, 7);
    is_str(FIND(NULL, 0), "more than one run is active: 'y-2' and 'x-1' (try: --run RUN)",
           "two runs are one too many");
    is_int(error.code, ERR_USAGE, "the user has to say which");
    is_str(FIND("y-2", 0), "2", "a run that is named is the one");
    mute = true;
    is_str(FIND(NULL, 0), "no answer", "the nodes do not answer");
    is_int((int)reports, 5, "there is nothing to report then");
    unreachable = true;
    is_str(FIND(NULL, 0), "no network", "the nodes cannot be reached");
}

int main(void) {
    if (!mkdtemp(folder) || cluster_open(&context.cluster, &a, folder, "c", &error) < 0)
        bail_out("no folder");
    context.arena = &a;
    make_run("x-1");
    make_run("y-2");
    test_found();
    test_not_found();
    test_which_run();
    cluster_close(&context.cluster);
    file_remove_tree(folder, &error);
    arena_fini(&a);
    return done_testing();
}
