// SPDX-License-Identifier: Apache-2.0
// The folder of a cluster: one command at a time works on it, and runs are found by what a user
// types of their names.
#include "cluster/cluster_folder.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <unistd.h>

enum { WAIT_MS = 1000 };

static char dir[] = "/tmp/test_cluster_state.XXXXXX";
static struct arena a;
static struct err e;

static struct cluster opened(void) {
    struct cluster c;
    if (cluster_open(&c, &a, dir, "c", &e) < 0)
        bail_out("%s", e.text);
    return c;
}

static void test_lock(void) {
    struct cluster one = opened(), two = opened();
    is_int(cluster_lock(&one, "up", 0, &e), 0, "a cluster that nobody uses is locked: %s", e.text);
    is_int(cluster_lock(&one, "up", 0, &e), 0, "a lock that is held is not taken again");
    is_int(cluster_lock(&two, "down", 0, &e), -1, "a second command does not wait if told so");
    is_int(e.code, ERR_BUSY, "a locked cluster is busy");
    has_str(e.text, "cluster 'c'", "the error names the cluster");
    has_str(e.text, "up", "the error names the first command");
    is_int(cluster_lock(&two, "down", WAIT_MS, &e), -1, "a wait ends");
    has_str(e.text, "after 1 s", "the error has the time of the wait");
    cluster_unlock(&one);
    is_int(cluster_lock(&two, "down", 0, &e), 0, "a free cluster is locked: %s", e.text);
    is_int(cluster_lock(&one, "up", 0, &e), -1, "the first command waits in its turn");
    cluster_discard(&two);
    cluster_unlock(&two);
    is_int(cluster_lock(&one, "up", 0, &e), 0, "a folder that was discarded is made again: %s",
           e.text);
    cluster_close(&one);
    cluster_close(&two);
}

static const char *found(const struct cluster *c, const char *text) {
    const char *run = NULL;
    e = (struct err){0};
    return cluster_find_run(c, text, &run, &e) == 0 ? run : "";
}

static void test_runs(void) {
    static const char *const runs[] = {"mlp-20260101T000000Z-000001", "mlp-20260102T000000Z-000002",
                                       "vit-20251231T000000Z-000003",
                                       "mlp-2-20260103T000000Z-000004"};
    struct cluster c = opened();
    is_str(found(&c, NULL), "", "a cluster without runs has no newest run");
    has_str(e.text, "no runs yet (try: dtctl train)", "the error has the next step");
    for (size_t i = 0; i < 4; i++)
        if (file_make_dirs(cluster_run_dir(&c, runs[i]), 0700, &e) < 0)
            bail_out("%s", e.text);
    is_str(found(&c, NULL), runs[3], "the newest run is the default");
    is_str(found(&c, ""), runs[3], "an empty name is no name");
    is_str(found(&c, runs[0]), runs[0], "a whole name finds its run");
    is_str(found(&c, "vit"), runs[2], "the beginning of one name finds its run");
    is_str(found(&c, "mlp"), runs[1], "a task's name finds its newest run");
    is_str(found(&c, "ml"), "", "the beginning of two names finds neither");
    has_str(e.text, "3 runs begin with 'ml'", "the error has the number of runs");
    has_str(e.text, runs[3], "the error names the newest of them");
    is_str(found(&c, "x"), "", "no run has that name");
    is_uint(cluster_task_runs(&c, runs[1], "mlp"), 2, "a task has two runs");
    is_uint(cluster_task_runs(&c, runs[3], "mlp"), 0, "a longer name is that of another task");
    is_uint(cluster_task_runs(&c, runs[1], runs[1]), 0, "the name of a run is no task");
    cluster_close(&c);
}

static void test_damaged(void) {
    struct cluster c = opened();
    struct inventory inv;
    must(file_write_atomic(c.inventory_path, "", 0, 0600, &e) == 0);
    is_int(cluster_load(&c, &inv, &e), -1, "an empty record of the nodes is refused");
    has_str(e.text, "reads format 1\n", "the error has the reason");
    has_str(e.text, "move it away, then dtctl up", "the error has the next step");
    cluster_close(&c);
}

int main(void) {
    if (!mkdtemp(dir))
        bail_out("no folder");
    test_lock();
    test_runs();
    test_damaged();
    file_remove_tree(dir, &e);
    arena_fini(&a);
    return done_testing();
}
