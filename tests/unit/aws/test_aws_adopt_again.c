// SPDX-License-Identifier: Apache-2.0
// A cluster that is here is adopted again: runs come that are not here, and nothing else changes.
#include "tests/unit/aws/adopt_fake.h"

static const char *inventory;

// Another command in the same folder.
static void next_command(void) {
    cluster_close(&context.cluster);
    if (cluster_open(&context.cluster, &a, folder, "c", &error) < 0)
        bail_out("%s", error.text);
    strbuf_clear(&opened);
    err_clear(&error);
}

static void adopt_without_node1(void) {
    start();
    answers[0] = arena_printf(&a, "%s%s", usual(), run_of("task-1"));
    answers[1] = NULL;
    is_int(adopt("198.51.100.0"), -1, "the cluster is adopted while a node is down");
    ok(!adopted.again, "the cluster was not here");
    inventory = arena_printf(&a, "%s# changed\n", text_of(in_cluster("cluster.toml")));
    if (file_write_atomic(in_cluster("cluster.toml"), inventory, strlen(inventory), 0600, &error) <
        0)
        bail_out("%s", error.text);
    next_command();
}

static void test_runs(void) {
    adopt_without_node1();
    answers[0] = arena_printf(&a, "%s%s", run_of("task-1"), run_of("task-3"));
    answers[1] = run_of("task-2");
    is_int(adopt("ubuntu@10.0.0.1"), 0, "the cluster is adopted again, from a private address: %s",
           error.text);
    ok(adopted.again, "the caller learns that the cluster was here");
    is_uint(adopted.inventory.count, 2, "the caller learns of both nodes");
    is_uint(adopted.runs, 2, "the runs that were not here count");
    is_str(run_here("task-2").state, "started", "the run of the node that was down is here");
    is_str(text_of(in_cluster("cluster.toml")), inventory, "the inventory stays");
    is_str(strbuf_cstr(&opened),
           "node0 ubuntu@198.51.100.0:0 by its key known_hosts id_ed25519\n"
           "node1 ubuntu@198.51.100.1:0 by its key known_hosts id_ed25519\n",
           "only the nodes are contacted, by their keys");
}

static void test_stopped(void) {
    adopt_without_node1();
    stops_at = 1;
    is_int(adopt("198.51.100.0"), -1, "the user stops another adoption");
    is_int(error.code, ERR_INTERRUPTED, "the error has the code of a stop");
    is_str(text_of(in_cluster("cluster.toml")), inventory, "the cluster stays after a stop");
    is_uint(adopted.inventory.count, 0, "there is nothing to report");
    context.interrupt = 0;
}

static void test_another_node(void) {
    adopt_without_node1();
    is_int(adopt("203.0.113.9"), -1, "the cluster is not adopted from a node that it lacks");
    is_int(error.code, ERR_NOT_FOUND, "the error has its code");
    is_str(error.text, "cluster 'c' of this folder has no node at 203.0.113.9",
           "the error names the cluster and the address");
    is_str(strbuf_cstr(&opened), "", "no node is contacted");
    is_uint(adopted.inventory.count, 0, "there is nothing to report then");
    is_str(text_of(in_cluster("cluster.toml")), inventory, "the cluster stays");
}

// Of the same length, shorter, longer.
static void test_other_keys(void) {
    const char *good = text_of(key_path);
    size_t n = strlen(good);
    const char *const others[] = {arena_printf(&a, "%.*s?", (int)n - 1, good),
                                  arena_printf(&a, "%.*s", (int)n - 1, good),
                                  arena_printf(&a, "%s?", good)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        adopt_without_node1();
        if (file_write_atomic(context.cluster.key_path, others[i], strlen(others[i]), 0600,
                              &error) < 0)
            bail_out("%s", error.text);
        is_int(adopt("198.51.100.0"), -1, "a cluster with another key is not adopted (%zu)", i);
        is_int(error.code, ERR_EXISTS, "the error says that another is here (%zu)", i);
        is_str(strbuf_cstr(&opened), "", "no node is contacted (%zu)", i);
    }
}

int main(void) {
    begin();
    test_runs();
    test_stopped();
    test_another_node();
    test_other_keys();
    end();
    return done_testing();
}
