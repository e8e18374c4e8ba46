// SPDX-License-Identifier: Apache-2.0
// dtctl extend, and the end of the cluster of train --up --down: which end the nodes get, and
// whether the cluster stays. The test is the nodes.
#include "tests/unit/cmd/nodes_fake.h"

#include "cmd/dtctl/up_down.h"
#include "tests/unit/turned_clock.h"

#include <signal.h>

enum { HOUR_MS = 3600 * 1000 };
static const int64_t NOW_MS = 1767225600000; // 2026-01-01T00:00:00Z

static int64_t ends_ms[NODES]; // of each node; 0: none
static const char *status_of[NODES];
static const char *type = "zz1.huge"; // of the machines; it has no price
static const char *set_to;            // the ends that the nodes got, in seconds

static const char *answer(size_t node, const char *verb, const char *words) {
    const char *at;
    if (str_eq(verb, "status"))
        return status_of[node];
    if (!str_eq(verb, "sh"))
        return str_eq(verb, "clean") ? "{\"removed_bytes\":1000}\n" : "{}\n";
    if ((at = strstr(words, "put lease ")))
        set_to = arena_printf(&nodes_arena, "%s%zu:%s ", set_to, node, at + 10);
    if (str_starts(words, "cat /var/lib/dtctl/lease") && ends_ms[node])
        return arena_printf(&nodes_arena, "%lld\n", (long long)(ends_ms[node] / 1000));
    return "";
}

// A cluster of that provider, or of none.
static void begin(const char *provider) {
    static struct inventory_node nodes[NODES];
    struct inventory inv = {.name = "c",
                            .provider = provider,
                            .created = "2026-01-02T03:04:05.678Z",
                            .nodes = nodes,
                            .count = NODES};
    struct cluster c = {0};
    for (size_t i = 0; i < NODES; i++) {
        nodes[i] = (struct inventory_node){
            .name = NODE_NAMES[i],
            .address = arena_printf(&nodes_arena, "127.0.0.%zu", i + 2),
            .root = arena_printf(&nodes_arena, "%s/.dtctl/c/nodes/%s", nodes_folder, NODE_NAMES[i]),
            .arch = "x86_64",
            .instance_type = type,
            .dtrun = AGENT_SHA256};
        ends_ms[i] = 0;
        nodes_down[i] = false;
        status_of[i] = "";
    }
    set_to = "";
    if (cluster_open(&c, &nodes_arena, nodes_folder, "c", &dtctl_err) < 0 ||
        file_make_dirs(file_join(&nodes_arena, c.dir, "terraform"), 0700, &dtctl_err) < 0 ||
        (*provider ? cluster_save(&c, &inv, &dtctl_err) : file_remove_tree(c.dir, &dtctl_err)) < 0)
        bail_out("%s", dtctl_err.text);
    cluster_close(&c);
}

static bool is_up(void) {
    return file_exists(file_join(&nodes_arena, nodes_folder, ".dtctl/c/cluster.toml"));
}

static const char *seconds(int64_t ms) {
    return arena_printf(&nodes_arena, "%lld", (long long)((NOW_MS + ms) / 1000));
}

static const char *all_to(int64_t ms) {
    return arena_printf(&nodes_arena, "0:%s 1:%s 2:%s ", seconds(ms), seconds(ms), seconds(ms));
}

static void settings(const char *more) {
    const char *text = arena_printf(&nodes_arena, "[cluster]\nname = \"c\"\nnodes = 3\n%s", more);
    if (file_write_atomic("dtctl.toml", text, strlen(text), 0600, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
}

// ---- extend -------------------------------------------------------------------------------------

static void test_extend(void) {
    begin("aws");
    is_int(dtctl("extend", "4h", NULL), 0, "nodes get a later end: %s", dtctl_err.text);
    is_str(set_to, all_to(4 * HOUR_MS), "each node gets the end");
    is_str(dtctl_out(), "the nodes of c end themselves in 4:00:00 (2026-01-01T04:00Z)\n",
           "the user reads the end");
    type = "g5.xlarge";
    begin("aws");
    type = "zz1.huge";
    settings("[lease]\nttl = \"2h\"\n");
    is_int(dtctl("extend", NULL), 0, "a time may be that of the settings: %s", dtctl_err.text);
    is_str(set_to, all_to(2 * HOUR_MS), "each node gets the end of the settings");
    has_str(dtctl_out(), "Z); until then they cost at most $", "the user reads the price");
    begin("aws");
    is_int(dtctl("extend", "4h", "--json", NULL), 0, "--json prints the new end as one event");
    has_str(dtctl_out(),
            "\"cluster\":\"c\",\"until_ms\":1767240000000,\"nodes\":[\"n0\",\"n1\",\"n2\"]}\n",
            "the event has the end and the nodes");
}

static void test_refusals(void) {
    begin("local");
    is_int(dtctl("extend", "4h", NULL), 2, "machines of others have no lease");
    is_str(dtctl_err.text, "cluster 'c' has no lease: dtctl did not make its machines",
           "the error names the cluster");
    begin("aws");
    is_int(dtctl("extend", "4x", NULL), 2, "a time has its unit");
    is_int(dtctl("extend", "0s", NULL), 2, "no time is none");
    is_str(dtctl_err.text, "extend needs a time, such as dtctl extend 4h",
           "the error has an example");
    settings("[lease]\nttl = \"0s\"\n");
    is_int(dtctl("extend", NULL), 2, "a lease without an end gives none");
    is_int(dtctl("extend", "1ms", NULL), 0, "the shortest time is one: %s", dtctl_err.text);
    begin("aws");
    is_int(dtctl("extend", "31d", NULL), 0, "an end may be 31 days ahead: %s", dtctl_err.text);
    is_int(dtctl("extend", "2678400001ms", NULL), 2, "an end is no more than 31 days ahead");
    is_str(dtctl_err.text,
           "nodes take no end that is more than 31 days ahead; say dtctl extend 31d, and again "
           "later",
           "the error has the limit");
}

static void test_sooner(void) {
    begin("aws");
    ends_ms[0] = NOW_MS + 12 * HOUR_MS;
    ends_ms[1] = NOW_MS + 4 * HOUR_MS + 61000;
    ends_ms[2] = NOW_MS + 11 * HOUR_MS;
    is_int(dtctl("extend", "4h", NULL), 2, "an earlier end needs a flag");
    is_str(dtctl_err.text,
           "the nodes end in 4:01:01, and 4:00:00 would be sooner (try: a longer time, or "
           "--shorten)",
           "the error has both times");
    is_str(set_to, "", "no node gets an earlier end");
    is_int(dtctl("extend", "4h", "--shorten", NULL), 0, "a flag allows it: %s", dtctl_err.text);
    is_str(set_to, all_to(4 * HOUR_MS), "each node gets the earlier end");
    begin("aws");
    ends_ms[0] = NOW_MS + 4 * HOUR_MS + 60000;
    is_int(dtctl("extend", "4h", NULL), 0, "a minute is no difference: %s", dtctl_err.text);
}

static void test_unreached(void) {
    begin("aws");
    nodes_down[1] = true;
    is_int(dtctl("extend", "4h", NULL), 3, "a node that does not answer is a status");
    has_str(dtctl_out(), "2 of 3 nodes of c end themselves in 4:00:00 (",
            "the user reads how many nodes have the end");
    has_str(said(), "; it keeps the end that it had", "the user reads of the other node");
    is_str(dtctl_err.text, "extend: 1 of 3 nodes failed: n1", "the error names the node");
    dtctl("extend", "4h", "--json", NULL);
    has_str(dtctl_out(), "\"nodes\":[\"n0\",\"n2\"]}\n",
            "the event has the nodes that were reached");
    nodes_down[0] = nodes_down[2] = true;
    is_int(dtctl("extend", "4h", NULL), 3, "no node may answer");
    is_str(dtctl_out(), "", "no end is shown then");
}

// ---- after a run --------------------------------------------------------------------------------

static struct up_down flags;
static struct up_down_end ended;
static int interrupt, after; // after: the result

static int run_after(struct context *s, const struct cli_rest *rest, const void *f, struct err *e) {
    (void)rest, (void)f;
    s->interrupt = interrupt;
    after = up_down_after(s, &flags, &ended, e);
    return 0;
}

// Settings may be one more argument of --set.
static void end_of(int result, int64_t keep_ms, const char *setting) {
    static const struct command command = {.verb = {.name = "train"}, .run = run_after};
    const char *argv[] = {"--set", setting, NULL};
    flags = (struct up_down){.down = true, .keep_ms = keep_ms};
    ended.result = result;
    err_clear(&dtctl_err);
    said_clear();
    if (dtctl_run(&command, setting ? 2 : 0, argv) != 0)
        bail_out("%s", dtctl_err.text);
}

static void test_check(void) {
    static struct config config;
    const struct context s = {.config = &config};
    struct err e = {0};
    is_int(up_down_check(&(struct up_down){.down = true, .keep_ms = 5}, &s, &e), 0,
           "a cluster that is removed may be kept on failure");
    is_int(up_down_check(&(struct up_down){.keep_ms = 5}, &s, &e), -1,
           "a cluster that stays is not kept on failure");
    is_str(e.text, "--keep-on-failure is for --down", "the error names the flag that is missing");
    config.job.detach = true;
    is_int(up_down_check(&(struct up_down){.up = true}, &s, &e), 0,
           "a run that is not followed may have a new cluster");
    is_int(up_down_check(&(struct up_down){.down = true}, &s, &e), -1,
           "a run that is not followed removes no cluster");
    is_str(e.text, "--down needs a dtctl that follows the run; --detach does not",
           "the error names both flags");
}

static void test_removed(void) {
    begin("local");
    end_of(0, 0, NULL);
    ok(after == 0 && !is_up(), "the cluster of a run that went well is removed");
    begin("local");
    end_of(3, 0, NULL);
    ok(after == 3 && !is_up(), "the cluster of a run that failed is removed");
    begin("local");
    end_of(0, HOUR_MS, NULL);
    ok(after == 0 && !is_up(), "a run that went well keeps no cluster");
    begin("local");
    status_of[1] = "{\"run\":\"x-1\",\"state\":\"running\"}\n";
    end_of(0, 0, NULL);
    ok(after == -1 && is_up(), "another run keeps the cluster");
    ok(str_starts(dtctl_err.text, "the run went well; --down: ") && strstr(dtctl_err.text, "x-1"),
       "the error says that the run went well: %s", dtctl_err.text);
    end_of(3, 0, NULL);
    ok(after == 3 && is_up(), "the result of a run that failed is that of the run");
    has_str(said(), "--down: ", "the user reads why the cluster stays");
}

static void test_stays(void) {
    begin("local");
    ended.going = true;
    end_of(4, 0, NULL);
    ended.going = false;
    ok(after == 4 && is_up(), "the cluster of an active run stays");
    is_str(said(),
           "cluster c stays, since the run is active (later: dtctl down, which fetches results "
           "first)\n",
           "the user reads why the cluster stays");
    interrupt = SIGINT;
    end_of(1, 0, NULL);
    interrupt = 0;
    ok(after == 1 && is_up(), "the cluster stays when the user interrupts");
    is_str(said(), "cluster c stays (later: dtctl down, which fetches results first)\n",
           "the user reads that the cluster stays");
    end_of(3, HOUR_MS, NULL);
    ok(after == 3 && is_up(), "the cluster of a run that failed may stay");
    is_str(said(), "cluster c stays for inspection (later: dtctl down)\n",
           "the user reads that the cluster stays for inspection");
    begin("");
    end_of(3, HOUR_MS, NULL);
    ok(after == 3, "the result is that of the run without a cluster, too");
    is_str(said(), "", "no cluster stays without one");
}

static void keep_run(const char *id, const char *state, bool fetched) {
    struct run r = nodes_run(id, state, fetched);
    nodes_keep_run(&r);
}

static void test_kept(void) {
    begin("aws");
    ends_ms[0] = NOW_MS + 12 * HOUR_MS;
    keep_run("a-1", "finished", true);
    keep_run("a-2", "made", false); // never began
    end_of(3, HOUR_MS, NULL);
    is_int(after, 3, "the result of the run is that of the command");
    is_str(set_to, all_to(HOUR_MS), "nodes without results of their own end sooner");
    has_str(said(), "cluster c stays for inspection", "the user reads that the nodes stay");
    ok(!strstr(said(), "lease.idle"), "the lease has the last word");
    end_of(3, HOUR_MS, "lease.idle=30m");
    has_str(said(), "without a login they end after 30:00 (lease.idle)\n",
            "the user reads of an idle end that is sooner");
    end_of(3, HOUR_MS, "lease.idle=1h");
    ok(!strstr(said(), "lease.idle"), "an idle end at the same time is not mentioned");
    keep_run("a-3", "finished", false);
    set_to = "";
    end_of(3, HOUR_MS, NULL);
    is_int(after, 3, "the result of the run stays that of the command");
    is_str(set_to, "", "nodes with results of their own end no sooner");
    has_str(said(), "--keep-on-failure: the nodes keep the end that they had: ",
            "the user reads that the end is the old one");
    end_of(3, 13 * (int64_t)HOUR_MS, NULL);
    is_str(set_to, all_to(13 * (int64_t)HOUR_MS), "nodes with results of their own end later");
}

int main(void) {
    clock_stop();
    clock_day_ms = NOW_MS;
    nodes_open();
    nodes_answer = answer;
    test_extend();
    test_refusals();
    test_sooner();
    test_unreached();
    test_check();
    test_removed();
    test_stays();
    test_kept();
    nodes_close();
    return done_testing();
}
