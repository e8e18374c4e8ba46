// SPDX-License-Identifier: Apache-2.0
// The runs that nodes hold: lines of a node's answer and what of them is believed, nodes without
// the run, marks that results were fetched.
#include "fleet/fleet_runs.h"

#include "tests/unit/fleet_fake.h"

static struct err e;

static struct node_runs parse(const char *text) {
    struct node_runs out = {0};
    fleet_runs_parse(&arena, text, strlen(text), 5, &out);
    return out;
}

static void test_line(void) {
    struct node_runs all =
        parse("Welcome\n\n{\"run\":\"r-1\",\"name\":\"n\",\"node\":\"node7\",\"state\":\"running\","
              "\"node_rank\":2,\"pid\":11,\"round\":3,\"restarts\":4,\"max_restarts\":6,"
              "\"agent_starts\":8,\"created_ms\":100,\"updated_ms\":200,\"coordinator\":true,"
              "\"owner\":\"c1\",\"fetched\":true,\"reason\":\"it \\u001b[1m\",\"workers\":["
              "{\"state\":\"running\",\"rank\":9},{\"state\":\"exited\",\"rank\":10},"
              "{\"state\":\"running\"}]}\n{\"other\":1}\nnot json\n{\"run\":\"r-2\"}");
    is_uint(all.count, 2, "lines that are no runs are passed over");
    const struct node_run *r = &all.items[0];
    ok(str_eq(r->run, "r-1") && str_eq(r->name, "n") && str_eq(r->node, "node7") &&
           str_eq(r->state, "running") && str_eq(r->owner, "c1"),
       "the names come");
    ok(r->node_index == 5 && r->node_rank == 2 && r->pid == 11 && r->round == 3, "the place comes");
    ok(r->restarts == 4 && r->max_restarts == 6 && r->agent_starts == 8, "the counts come");
    ok(r->created_ms == 100 && r->updated_ms == 200, "the times come");
    ok(r->coordinator && r->fetched && !r->over, "the marks come");
    is_int(r->exit_status, -1, "a run that is not over has no status");
    ok(!strchr(r->reason, '\x1b') && str_starts(r->reason, "it "), "no control byte passes");
    is_int(r->ranks, 3, "all ranks are counted");
    is_int(r->ranks_running, 2, "those that run are counted");
    ok(r->running[0] == 9 && r->running[1] == -1,
       "a rank that runs has its number, or an unknown one");
    r = &all.items[1];
    ok(str_eq(r->name, "?") && str_eq(r->node, "?") && str_eq(r->state, "?"),
       "names that are missing are unknown");
    ok(r->owner[0] == '\0' && r->reason[0] == '\0', "an owner that is missing is none");
    ok(r->node_rank == -1 && r->round == -1 && r->exit_status == -1 && r->pid == 0 &&
           r->restarts == 0 && r->max_restarts == 0 && r->agent_starts == 0 && r->created_ms == 0 &&
           r->updated_ms == 0,
       "numbers that are missing are unknown");
    ok(!r->coordinator && !r->fetched && !r->over && r->ranks == 0, "nothing else is claimed");
}

// Every state of an agent: over or not.
static void test_states(void) {
    for (int i = 0; i <= NODE_LOST; i++) {
        const char *name = node_state_name((enum node_state)i);
        struct node_runs all =
            parse(arena_printf(&arena, "{\"run\":\"r\",\"state\":\"%s\",\"workers\":7}", name));
        is_int(all.items[0].over, node_state_is_final((enum node_state)i),
               "a run in state '%s' is over or not", name);
        is_int(all.items[0].ranks, 0, "workers that are no list are none");
    }
    ok(!parse("{\"run\":\"r\",\"state\":\"odd\"}").items[0].over, "an odd state is no end");
}

static void test_names(void) {
    char name[130] = {0};
    memset(name, 'n', 129);
    const char *long_one = arena_printf(&arena, "{\"run\":\"r\",\"node\":\"%s\"}", name);
    is_str(parse(long_one).items[0].node, "?", "a name of 129 bytes is none");
    name[128] = '\0';
    long_one = arena_printf(&arena, "{\"run\":\"r\",\"node\":\"%s\",\"owner\":\"../x\"}", name);
    is_str(parse(long_one).items[0].node, name, "a name of 128 bytes is one");
    is_str(parse(long_one).items[0].owner, "?", "an owner that is no name is somebody's");
}

// ---- nodes --------------------------------------------------------------------------------------

static void test_ask(void) {
    struct node_runs all;
    fake_fleet_begin("{\"run\":\"a\"}\n{\"run\":\"b\"}\n", "!not-found", "!failed");
    is_int(fleet_runs_ask(&fleet, NULL, &all, &e), 0, "nodes are asked for all runs");
    is_str(fake_run(0)->line, "/p --node status --root /r", "the line names no run");
    is_uint(all.count, 2, "the runs of a node come");
    is_uint(all.items[1].node_index, 0, "a run has the index of its node");
    ok(!nodes[1].failed, "a node without the run has not failed");
    ok(nodes[2].failed, "a node that cannot say it has failed");
    ok(!nodes[0].work, "the nodes are free again");
    fake_fleet_end();
    fake_fleet_begin("{\"run\":\"a\"}\n", "{}\n", "{\"run\":\"a\"}\n");
    nodes[1].failed = true;
    is_int(fleet_runs_ask(&fleet, "a", &all, &e), 0, "nodes are asked for one run");
    is_str(fake_run(0)->line, "/p --node status --root /r --run a", "the line names it");
    is_int(fake_run_count(), 2, "a node that has failed is not asked");
    is_uint(all.count, 2, "each other node reports the run");
    fake_fleet_end();
}

static void test_mark(void) {
    fake_fleet_begin("", "!failed", "");
    nodes[0].left_out = "it is";
    nodes[2].up = false;
    fleet_runs_mark_fetched(&fleet, "r1");
    is_int(fake_run_count(), 2,
           "nodes that can be reached hear of it, also those that were left out");
    is_str(fake_run(0)->line, "/p --node fetched --root /r --run r1", "the line names the run");
    ok(!nodes[0].failed && !nodes[1].failed && !nodes[2].failed, "no node fails for that");
    fake_fleet_end();
}

int main(void) {
    fake_fleet_init();
    test_line();
    test_states();
    test_names();
    test_ask();
    test_mark();
    fake_fleet_fini();
    return done_testing();
}
