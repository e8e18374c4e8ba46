// SPDX-License-Identifier: Apache-2.0
// Agents of three nodes are started, and called off when too few of them start. The test is the
// nodes, and turns the clock.
#include "run/run_start.h"
#include "tests/unit/fleet_fake.h"
#include "tests/unit/turned_clock.h"

#include <signal.h>

// How a node answers; NULL: well, "!…": with an error of that code, "": not at all.
struct answer {
    const char *start;  // to the job
    const char *roster; // "…": a signal interrupts the start, and the node answers later
    const char *stop;
    int round; // that the run has reached; -1: none, -2: a signal comes instead
};

static const char *const COMMAND[] = {"true", NULL};
enum { RUNS_MAX = 64 };
static struct answer script[NODES];
static struct fake_run *seen[RUNS_MAX];
static int steps[RUNS_MAX];
static struct timer speaking;
static struct run_start l;
static struct err e;

static int *step_of(const struct fake_run *r) {
    int i = 0;
    while (seen[i] && seen[i] != r)
        i++;
    must(i < RUNS_MAX - 1);
    seen[i] = (struct fake_run *)r;
    return &steps[i];
}

static void end(struct fake_run *r, const char *answer, const char *good) {
    bool fails = answer && answer[0] == '!';
    const char *line =
        fails ? arena_printf(&arena, "{\"event\":\"error\",\"code\":\"%s\",\"text\":\"why\"}\n",
                             answer + 1)
              : arena_printf(&arena, "%s\n", good);
    *step_of(r) = -1;
    fake_say(r, line, strlen(line));
    fake_exit(r, fails);
}

static void speak_start(struct fake_run *r, size_t node) {
    const struct answer *a = &script[node];
    int *step = step_of(r);
    fake_take(r, SIZE_MAX);
    if (*step == 0 && a->start && a->start[0] == '!') {
        end(r, a->start, "");
    } else if (*step == 0) {
        const char *line =
            arena_printf(&arena, "{\"event\":\"listening\",\"port\":%zu}\n", 7000 + node);
        *step = 1;
        fake_say(r, line, strlen(line));
    } else if (r->got_end && str_eq(a->roster, "…") && *step == 1) {
        *step = 2;
        context.interrupt = SIGINT;
    } else if (r->got_end && !context.interrupt && !str_eq(a->roster, "")) {
        end(r, a->roster, "{\"event\":\"started\"}");
    }
}

static void speak(struct timer *t) {
    bool any = false;
    for (size_t i = 0; i < NODES; i++)
        for (struct fake_run *r = fake_runs; r; r = r->older) {
            if (r->r.link != nodes[i].link || r->is_closed || *step_of(r) < 0)
                continue;
            any = true;
            if (strstr(r->line, "--node start "))
                speak_start(r, i);
            else if (strstr(r->line, "--node status ") && script[i].round < -1)
                context.interrupt = SIGINT;
            else if (strstr(r->line, "--node status "))
                end(r, NULL, arena_printf(&arena, "{\"run\":\"r\",\"round\":%d}", script[i].round));
            else if (!strstr(r->line, "--node stop "))
                end(r, "!failed", ""); // the agent's program cannot be installed
            else if (!str_eq(script[i].stop, ""))
                end(r, script[i].stop, "{\"event\":\"stopped\"}");
        }
    clock_ahead_ms += any ? 500 : 0; // a node that stays silent does so for long
    timer_start(context.loop, t, 0, speak);
}

static void begin(int nodes_min) {
    fake_fleet_begin("", "", "");
    timer_stop(&turn);
    fleet.agent = "/agent";
    fleet.agent_sha256 = "0123";
    for (size_t i = 0; i < NODES; i++) {
        nodes[i].ready = true;
        info[i].address = arena_printf(&arena, "10.0.0.%zu", i);
        script[i] = (struct answer){.round = -1};
    }
    for (size_t i = 0; i < RUNS_MAX; i++) {
        seen[i] = NULL;
        steps[i] = 0;
    }
    context.interrupt = 0;
    e = (struct err){0};
    l = (struct run_start){.context = &context, .node_count = NODES};
    l.run.id = "r";
    l.run.nodes_min = nodes_min;
    l.run.nodes_max = NODES;
    job_spec_init(&l.spec);
    l.spec.run = l.spec.name = "r";
    l.spec.workdir = "";
    l.spec.command = COMMAND;
    l.spec.command_count = 1;
    timer_start(context.loop, &speaking, 0, speak);
}

static void finish(void) {
    timer_stop(&speaking);
    fake_fleet_end();
}

static struct run_start_called_off call_off(void) {
    struct run_start_called_off out;
    run_start_call_off(&l, &fleet, &out);
    for (size_t i = 0; i < NODES; i++)
        ok(!nodes[i].work, "node %zu has no work left", i);
    return out;
}

static int count_of(const char *verb) {
    int count = 0;
    for (struct fake_run *r = fake_runs; r; r = r->older)
        count += strstr(r->line, verb) != NULL;
    return count;
}

// The newest command of a node.
static struct fake_run *newest_of(size_t node, const char *verb) {
    struct fake_run *r = fake_runs;
    while (r && (r->r.link != nodes[node].link || !strstr(r->line, verb)))
        r = r->older;
    if (!r)
        bail_out("node %zu got no '%s'", node, verb);
    return r;
}

static const char *roster_of(size_t node) {
    const struct fake_run *r = newest_of(node, "--node start ");
    const char *text = strbuf_cstr(&r->got);
    for (size_t i = 0; i + 8 < r->got.len; i++) // behind the job and its key
        if (memcmp(text + i, "[[node]]", 8) == 0)
            return arena_strndup(&arena, text + i, r->got.len - i);
    return "none";
}

// ---- starting -----------------------------------------------------------------------------------

static void test_all(void) {
    begin(NODES);
    is_int(run_start_agents(&l, &fleet, &e), 0, "all agents start: %s", e.text);
    is_str(newest_of(1, "--node start ")->line, "/p --node start --root /r --run r",
           "a node gets the command");
    for (int i = 0; i < NODES; i++) {
        is_int(l.ports[i], 7000 + i, "the port of node %d is known", i);
        is_str(roster_of((size_t)i),
               "[[node]]\nrank = 0\nname = \"n0\"\naddress = \"10.0.0.0\"\nport = 7000\n\n"
               "[[node]]\nrank = 1\nname = \"n1\"\naddress = \"10.0.0.1\"\nport = 7001\n\n"
               "[[node]]\nrank = 2\nname = \"n2\"\naddress = \"10.0.0.2\"\nport = 7002\n",
               "node %d gets the list of all", i);
        ok(!nodes[i].work && !nodes[i].failed, "node %d has no work left", i);
    }
    finish();
}

static void test_fewer(void) {
    begin(2);
    script[1].start = "!failed";
    is_int(run_start_agents(&l, &fleet, &e), 0, "two of three agents are enough: %s", e.text);
    ok(nodes[1].failed && !nodes[0].failed && !nodes[2].failed, "one node has failed");
    is_str(roster_of(2),
           "[[node]]\nrank = 0\nname = \"n0\"\naddress = \"10.0.0.0\"\nport = 7000\n\n"
           "[[node]]\nrank = 2\nname = \"n2\"\naddress = \"10.0.0.2\"\nport = 7002\n",
           "the list has the two that listen, with their ranks");
    is_str(roster_of(1), "none", "a node that failed gets no list");
    finish();
    begin(2);
    script[2].roster = "!failed";
    is_int(run_start_agents(&l, &fleet, &e), 0, "an agent may fail after the list: %s", e.text);
    ok(nodes[2].failed, "the node has failed");
    finish();
    begin(2);
    script[0].roster = "!failed";
    script[1].start = "!failed";
    is_int(run_start_agents(&l, &fleet, &e), -1, "one agent is too few");
    is_str(e.text, "start: 2 of 3 nodes failed: n[0-1]", "the error has the nodes");
    finish();
    begin(NODES + 1);
    is_int(run_start_agents(&l, &fleet, &e), -1, "three nodes may be too few");
    is_str(e.text, "start: too few nodes", "the error says so without a failure");
    is_str(roster_of(0), "none", "no list is sent to too few");
    finish();
}

// ---- calling off --------------------------------------------------------------------------------

static void test_nothing_to_call_off(void) {
    begin(NODES);
    struct run_start_called_off out = call_off();
    ok(!out.unknown && !out.ran, "a run that was not started is off");
    script[1].start = "!failed";
    is_int(run_start_agents(&l, &fleet, &e), -1, "one agent of three is missing");
    is_str(e.text, "start: 1 of 3 nodes failed: n1", "the error has the node");
    out = call_off();
    ok(!out.unknown && !out.ran, "agents without a list end by themselves");
    is_int(count_of("--node stop "), 0, "no node is asked to stop");
    finish();
}

// Starts the agents of which n1 fails with its list.
static void fail_late(void) {
    begin(NODES);
    script[1].roster = "!failed";
    is_int(run_start_agents(&l, &fleet, &e), -1, "an agent fails after the list");
}

static void test_call_off(void) {
    fail_late();
    script[1].stop = "!not-found";
    struct run_start_called_off out = call_off();
    is_int(count_of("--node stop "), NODES, "every node that may have an agent is asked to stop");
    is_str(newest_of(0, "--node stop ")->line, "/p --node stop --root /r --run r --grace-ms 5000",
           "workers get a short time");
    ok(!out.unknown, "agents that stopped are known");
    ok(!out.ran, "no workers ran before the first round");
    finish();
    fail_late();
    script[2].round = 0;
    out = call_off();
    ok(!out.unknown && out.ran, "workers may have run in a round");
    finish();
    fail_late();
    script[0].stop = script[2].stop = "!failed";
    out = call_off();
    is_str(out.unknown, "n0,n2", "nodes that do not stop are named");
    ok(out.ran, "workers on those nodes may run");
    finish();
    begin(2);
    script[0].start = script[1].roster = "!failed";
    is_int(run_start_agents(&l, &fleet, &e), -1, "one agent of two is left");
    out = call_off();
    is_int(count_of("--node stop "), 2, "a node without a list is not asked to stop");
    ok(!out.unknown, "the node without a list is known to have no agent");
    finish();
}

static void test_silence(void) {
    fail_late();
    script[0].stop = "";
    int64_t before = clock_ahead_ms;
    struct run_start_called_off out = call_off();
    is_str(out.unknown, "n0", "a silent node is named");
    ok(out.ran, "workers on a silent node may have run");
    int64_t waited = clock_ahead_ms - before;
    ok(waited >= LAUNCH_CALL_OFF_MS_MAX && waited < 2 * LAUNCH_CALL_OFF_MS_MAX,
       "a silent node is awaited for a time");
    has_str(nodes[0].err.text, "it has not stopped within 30 s", "the node has the reason");
    finish();
}

static void test_one(void) {
    begin(1);
    script[1].start = script[2].start = script[0].roster = "!failed";
    is_int(run_start_agents(&l, &fleet, &e), -1, "no agent is left");
    struct run_start_called_off out = call_off();
    is_int(count_of("--node stop "), 1, "the one node with a list is asked to stop");
    ok(!out.unknown && !out.ran, "the one agent has stopped");
    finish();
    fail_late();
    script[1].round = -2;
    out = call_off();
    ok(!out.unknown, "agents have stopped before the signal");
    ok(out.ran, "workers may have run where a node was not asked");
    finish();
}

// An agent that has its list neither starts nor fails.
static void test_unsettled(void) {
    begin(NODES);
    script[0].roster = "…";
    script[2].roster = "";
    is_int(run_start_agents(&l, &fleet, &e), -1, "a signal ends a start that does not end");
    struct run_start_called_off out = call_off();
    is_int(count_of("--node stop "), 0, "no node is asked to stop when the time is over");
    is_str(out.unknown, "n[0-2]", "every node may have an agent");
    ok(out.ran, "workers may have run before the time was over");
    finish();
}

static void test_unreachable(void) {
    fail_late();
    nodes[0].ready = false; // another machine may be there
    struct run_start_called_off out = call_off();
    is_int(count_of("--node stop "), NODES - 1, "nodes that can be reached are asked to stop");
    is_str(out.unknown, "n0", "a node that cannot be reached is named");
    ok(out.ran, "workers on a node that cannot be reached may run");
    finish();
}

static void test_interrupted(void) {
    begin(NODES);
    script[0].roster = "…";
    script[2].roster = "";
    is_int(run_start_agents(&l, &fleet, &e), -1, "a signal ends the start");
    is_int(e.code, ERR_INTERRUPTED, "the error is the signal");
    const struct fake_run *slow = newest_of(0, "--node start ");
    ok(!slow->is_closed, "an agent that has its list is not cut off");
    script[2].roster = NULL;
    struct run_start_called_off out = call_off();
    is_int(*step_of(slow), -1, "the end of its start is awaited");
    is_int(count_of("--node stop "), NODES, "the agent is asked to stop after it has started");
    ok(!out.unknown && !out.ran, "all agents have stopped");
    finish();
}

int main(void) {
    fake_fleet_init();
    test_all();
    test_fewer();
    test_nothing_to_call_off();
    test_call_off();
    test_silence();
    test_one();
    test_unsettled();
    test_unreachable();
    test_interrupted();
    fake_fleet_fini();
    return done_testing();
}
