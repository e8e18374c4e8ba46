// SPDX-License-Identifier: Apache-2.0
// dtctl plan, up and down on nodes that the test is: which nodes are made, dropped and cleaned, in
// which order, and what stays of the cluster.
#include "tests/unit/cmd/nodes_fake.h"

static const char *status_of[NODES], *clean_of[NODES];

static const char *answer(size_t node, const char *verb, const char *words) {
    (void)words;
    const char *text = str_eq(verb, "status")  ? status_of[node]
                       : str_eq(verb, "clean") ? clean_of[node]
                                               : NULL;
    return text ? text : "{}\n";
}

static void begin(void) {
    for (size_t i = 0; i < NODES; i++) {
        status_of[i] = "";
        clean_of[i] = "{\"removed_bytes\":1000}\n";
        nodes_down[i] = nodes_silent[i] = false;
    }
}

static struct inventory inventory_now(void) {
    struct cluster c = {0};
    struct inventory inv = {0};
    struct err e = {0};
    if (cluster_open(&c, &nodes_arena, nodes_folder, "c", &e) == 0 && cluster_exists(&c) &&
        cluster_load(&c, &inv, &e) < 0)
        bail_out("%s", e.text);
    cluster_close(&c);
    return inv;
}

static const char *nodes_now(void) {
    struct inventory inv = inventory_now();
    const char *text = "";
    for (size_t i = 0; i < inv.count; i++)
        text = arena_printf(&nodes_arena, "%s%s%s", text, i ? " " : "", inv.nodes[i].name);
    return text;
}

static bool is_there(const char *path) {
    return file_exists(file_join(&nodes_arena, nodes_folder, path));
}

// ---- plan ---------------------------------------------------------------------------------------

static void test_plan(void) {
    begin();
    is_int(dtctl("plan", NULL), 0, "a plan is shown: %s", dtctl_err.text);
    is_str(dtctl_out(),
           "cluster c, provider local, 3 nodes\n  = node0                127.0.0.2\n"
           "  = node1                127.0.0.3\n  = node2                127.0.0.4\n"
           "nothing to change\n",
           "a plan without changes says so");
    dtctl("plan", "--nodes", "4", NULL);
    has_str(dtctl_out(), "  = node2                127.0.0.4\n  + node3                127.0.0.5\n",
            "a plan shows nodes that are added");
    ok(!strstr(dtctl_out(), "nothing to change"), "an added node is a change");
    dtctl("plan", "--nodes", "1", NULL);
    has_str(dtctl_out(), "  - node1\n  - node2\n", "a plan shows nodes that are dropped");
    ok(!strstr(dtctl_out(), "nothing to change"), "a dropped node is a change");
    has_str(dtctl_out(), "provider local, 1 node\n", "one node is one");
    dtctl("plan", "--nodes", "2", "--json", NULL);
    has_str(dtctl_out(),
            "\"cluster\":\"c\",\"provider\":\"local\",\"added\":[],\"kept\":[\"node0\",\"node1\"],"
            "\"removed\":[\"node2\"]}\n",
            "the event has the nodes");
    is_str(nodes_asked(), "", "a plan asks no node");
    is_int(dtctl("up", "--dry-run", NULL), 0, "a dry run of up shows the plan");
    has_str(dtctl_out(), "nothing to change\n", "a dry run of up is a plan");
    is_int(dtctl("plan", "--nodes", "251", NULL), 2, "provider local has a limit of nodes");
    has_str(dtctl_err.text, "provider local makes 1 to 250 nodes, not 251", "the error has it");
}

// ---- up -----------------------------------------------------------------------------------------

static void test_up(void) {
    begin();
    is_int(dtctl("up", NULL), 0, "a cluster that is up is brought up again: %s", dtctl_err.text);
    has_str(dtctl_out(),
            "NODE             ADDRESS                   CPUS  GPUS     MEMORY\n"
            "node0            127.0.0.2                    4     2     8.6 GB\n"
            "node1            127.0.0.3                    4     2     8.6 GB\n",
            "the nodes are listed with their facts");
    has_str(said(), "cluster c is up (", "the user reads that the cluster is up");
    has_str(said(), "next: dtctl train\n", "the user reads the next step");
    struct inventory inv = inventory_now();
    if (inv.count != NODES)
        bail_out("the cluster has not all nodes");
    ok(inv.nodes[1].cpus == 4 && inv.nodes[1].gpus == 2 &&
           inv.nodes[1].memory_bytes == 8589934592 && str_eq(inv.nodes[1].dtrun, AGENT_SHA256),
       "the inventory has the facts of a node");
    nodes_down[1] = true;
    is_int(dtctl("up", NULL), 3, "a node that does not answer is an exit status of up");
    is_str(dtctl_err.text, "up: 1 of 3 nodes failed: node1", "the error names the node");
    inv = inventory_now();
    if (inv.count != NODES)
        bail_out("the cluster has lost a node");
    ok(!inv.nodes[1].dtrun[0], "the node stays, and its agent is not known");
    nodes_down[1] = false;
    ok(!is_there(".dtctl/c/up.toml") || dtctl("up", NULL) == 0, "the cluster is up again");
}

static void test_shrink(void) {
    begin();
    is_int(dtctl("up", "--nodes", "2", NULL), 2, "without a terminal no node is dropped");
    is_str(dtctl_err.text,
           "up would drop node2 from cluster 'c', and there is no terminal to ask on (try: dtctl "
           "up -y; dtctl plan shows it)",
           "the error names the node that would be dropped");
    is_str(nodes_now(), "node0 node1 node2", "a refused up leaves the cluster");
    clean_of[2] = "!failed";
    is_int(dtctl("up", "--nodes", "2", "-y", NULL), 3, "a node that cannot be cleaned is a status");
    is_str(dtctl_err.text,
           "node2 is to leave cluster 'c' and cannot be cleaned (try: dtctl down --node node2 "
           "--forget, which drops it)",
           "the error has the next step");
    is_str(nodes_now(), "node0 node1 node2", "a node that cannot be cleaned stays");
    begin();
    status_of[2] = "{\"run\":\"x-1\",\"state\":\"running\"}\n";
    is_int(dtctl("up", "--nodes", "2", "-y", NULL), 1, "a node with an active run is not dropped");
    has_str(dtctl_err.text, "x-1", "the error names the run");
    begin();
    is_int(dtctl("up", "--nodes", "2", "-y", NULL), 0, "a node is dropped: %s", dtctl_err.text);
    is_str(nodes_now(), "node0 node1", "the other nodes stay");
    const char *asked = nodes_asked();
    has_str(asked, "node2 clean --all --fetched --owner ", "the node is cleaned");
    ok(!strstr(asked, "node1 clean"), "the other nodes are not cleaned");
    ok(!is_there(".dtctl/c/nodes/node2"), "the folder of the node is removed");
    is_int(dtctl("up", "--nodes", "3", NULL), 0, "the cluster grows again: %s", dtctl_err.text);
    is_str(nodes_now(), "node0 node1 node2", "the node is back");
    has_str(said(), "cluster c is up (", "the grown cluster is up");
}

// ---- down ---------------------------------------------------------------------------------------

static void test_down_some(void) {
    begin();
    is_int(dtctl("down", "--dry-run", NULL), 0, "a dry run of down succeeds");
    has_str(
        dtctl_out(),
        arena_printf(&nodes_arena, "would clean node0: %s/.dtctl/c/nodes/node0\n", nodes_folder),
        "a dry run names the folders of the nodes");
    ok(!strstr(nodes_asked(), "clean"), "a dry run cleans no node");
    is_int(dtctl("down", "--node", "other", NULL), 1, "a node has to be in the cluster");
    status_of[1] = "{\"run\":\"x-1\",\"state\":\"running\"}\n";
    is_int(dtctl("down", NULL), 1, "an active run keeps the cluster");
    has_str(dtctl_err.text, "x-1", "the error names the active run");
    is_str(nodes_now(), "node0 node1 node2", "all nodes stay");
    is_int(dtctl("down", "--node", "node0", NULL), 0, "one node is removed: %s", dtctl_err.text);
    is_str(dtctl_out(), "1 node cleaned, 1.0 kB freed there\n", "one node is counted");
    is_str(nodes_now(), "node1 node2", "the nodes that are not named stay");
    begin();
    nodes_down[1] = true;
    is_int(dtctl("down", "--force", NULL), 3, "a node that does not answer is a status of down");
    is_str(nodes_now(), "node1", "a node that does not answer stays");
    has_str(nodes_asked(), " --force --discard;", "nodes get the permission to remove results");
    is_int(dtctl("down", "--forget", "--force", NULL), 0, "a node can be forgotten");
    is_str(nodes_now(), "", "a node that is forgotten is not in the cluster");
    is_int(dtctl("down", NULL), 0, "a cluster that is down can be removed");
    is_str(dtctl_out(), "cluster c is not up\n", "a cluster that is down is not up");
    is_int(dtctl("down", "--dry-run", NULL), 0, "a dry run without a cluster succeeds");
    is_str(dtctl_out(), "cluster c is not up\n", "a dry run says that the cluster is down");
}

static void test_down(void) {
    begin();
    is_int(dtctl("up", NULL), 0, "a cluster is made anew: %s", dtctl_err.text);
    is_str(nodes_now(), "node0 node1 node2", "all nodes are made");
    ok(is_there(".dtctl/c/up.toml"), "the flags of up are kept");
    struct run r = nodes_run("a-1", "finished", true);
    nodes_keep_run(&r);
    if (file_make_dirs(r.output_dir, 0700, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
    r = nodes_run("a-2", "finished", false);
    r.output_dir = "/nowhere";
    nodes_keep_run(&r);
    clean_of[1] = "{\"removed_bytes\":5,\"others\":[\"of x\",7],\"left\":[\"data\"]}\n";
    is_int(dtctl("down", NULL), 0, "the cluster is removed: %s", dtctl_err.text);
    is_str(dtctl_out(), "3 nodes cleaned, 2.0 kB freed there\n", "the nodes are counted");
    has_str(said(), "node1: programs and content stay there for of x\n",
            "the user reads of other clusters there");
    has_str(said(), "node1: this stays in dtctl's folder there, which push put there: data\n",
            "the user reads of other files there");
    has_str(said(), "1 run has its results on this side, in ", "runs with results are counted");
    has_str(said(), "; 1 has none\n", "runs without results are counted");
    is_str(nodes_now(), "", "no node is left");
    ok(!is_there(".dtctl/c/nodes/node0"), "the folders of the nodes are removed");
    ok(!is_there(".dtctl/c/up.toml"), "the flags of up are forgotten");
    is_int(dtctl("up", NULL), 0, "a cluster is made once more");
    dtctl("down", "--json", NULL);
    has_str(dtctl_out(),
            "\"cluster\":\"c\",\"nodes_removed\":3,\"freed_bytes\":2005,\"runs_left\":1,"
            "\"runs_without_results\":1}\n",
            "the event has all numbers");
}

// A cluster of which no node was ever reached is not kept.
static void test_nothing(void) {
    begin();
    nodes_down[0] = nodes_down[1] = nodes_down[2] = true;
    is_int(dtctl("up", NULL), 3, "a cluster without a node that answers is not up");
    has_str(dtctl_err.text, "up: 3 of 3 nodes failed: node[0-2]", "the error names all nodes");
    is_str(nodes_now(), "", "a cluster that was never reached is not kept");
    ok(!is_there(".dtctl/c/up.toml"), "the flags of a cluster that was never reached are not kept");
}

int main(void) {
    for (size_t i = 0; i < NODES; i++)
        NODE_NAMES[i] = arena_printf(&nodes_arena, "node%zu", i);
    nodes_open();
    nodes_answer = answer;
    test_plan();
    test_up();
    test_shrink();
    test_down_some();
    test_down();
    test_nothing();
    nodes_close();
    return done_testing();
}
