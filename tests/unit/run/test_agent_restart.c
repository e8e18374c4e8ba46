// SPDX-License-Identifier: Apache-2.0
// Agents that are started again: when, how often, with what, and for which nodes none is. The test
// is the nodes, and turns the clock.
#include "base/clock.h"
#include "run/agent_restart.h"
#include "run/results/results_part.h"
#include "run/results/state_published.h"
#include "sys/file.h"
#include "tests/unit/fleet_cluster.h"

static const char *const NAMES[] = {"n0", "n1", "n2"};
static const char *const COMMAND[] = {"true", NULL};
static const struct follow_view NOTHING;
static struct run run;
static struct run_start launch;
static struct follow follow;
static struct agent_restart restart;
static int ports[NODES];
static struct err e;

static void begin(void) {
    fake_fleet_begin("", "", "");
    timer_stop(&turn); // the test answers
    run = (struct run){.id = "r-1", .name = "r", .state = "started", .node_count = NODES};
    run.nodes = (const char **)NAMES;
    run.created_ms = clock_wall_ms() - 10000;
    launch = (struct run_start){.context = &context, .node_count = NODES, .ports = ports};
    launch.run.max_restarts = 1;
    launch.common = manifest_new();
    job_spec_init(&launch.spec);
    launch.spec.run = "r-1";
    launch.spec.command = COMMAND;
    launch.spec.command_count = 1;
    for (int i = 0; i < NODES; i++) {
        nodes[i].ready = true;
        info[i].address = arena_printf(&arena, "10.0.0.%d", i);
        ports[i] = 7000 + i;
    }
    if (follow_open(&follow, &context, &fleet, &run, &NOTHING, NULL, &e) < 0)
        bail_out("%s", e.text);
    agent_restart_init(&restart, &launch, &follow);
    said_clear();
    unlink(run_path(&context.cluster, &run, "events.jsonl"));
}

static void end(void) {
    agent_restart_close(&restart);
    agent_restart_close(&restart); // does nothing
    follow_close(&follow);
    manifest_free(launch.common);
    fake_fleet_end();
}

static bool lost(size_t node, bool is_new) {
    snprintf(follow.nodes[node].state, sizeof follow.nodes[node].state, "%s", is_new ? "" : "lost");
    follow.nodes[node].restarting = follow.restart(follow.restart_ctx, &follow.nodes[node], is_new);
    return follow.nodes[node].restarting;
}

// The newest command of the node; "": none. Without its program.
static const char *asked(size_t node) {
    for (const struct fake_run *r = fake_runs; r; r = r->older)
        if (r->r.link == nodes[node].link)
            return strstr(r->line, "--node ");
    return "";
}

static void say(const char *line) {
    fake_say(fake_run(0), line, strlen(line));
}

static void fails(const char *code) {
    say(arena_printf(&arena, "{\"event\":\"error\",\"code\":\"%s\",\"text\":\"why\"}\n", code));
    fake_exit(fake_run(0), 1);
}

static const char *events(void) {
    char *text;
    size_t len;
    return file_read(&arena, run_path(&context.cluster, &run, "events.jsonl"), 1 << 16, &text, &len,
                     &e) < 0
               ? ""
               : text;
}

#define START "--node start --root /r --run r-1 "

static void test_again(void) {
    begin();
    launch.spec.join_timeout_ms = 90 * 1000;
    launch.spec.max_time_ms = 60 * 1000;
    ok(lost(1, false), "an agent that has vanished is started again");
    clock_turn(context.loop, RESTART_PAUSE_MS - 1);
    is_int(fake_run_count(), 0, "no agent is started before a pause of one second");
    clock_turn(context.loop, 1);
    is_str(asked(1), START "--again", "the agent is started again behind the pause");
    is_str(said(), "starting the agent of n1 again (1 of 3)\n", "the user reads of the agent");
    has_str(events(),
            "\"kind\":\"agent-started-again\",\"peer\":\"n1\",\"try\":\"1 of 3\","
            "\"reason\":\"its agent vanished while its host was there\"",
            "the event of an agent has its node, its number and its reason");
    fake_take(fake_run(0), SIZE_MAX);
    const char *spec = strbuf_cstr(&fake_run(0)->got) + 4;
    has_str(spec, "agent_starts = 1\n", "the agent knows how often it was started");
    has_str(spec, "join_timeout_ms = 30000\n", "an agent that is started again finds others soon");
    const char *left = strstr(spec, "max_time_ms = ");
    long ms = left ? strtol(left + 14, NULL, 10) : 0;
    ok(ms > 40000 && ms <= 50000, "the time that the run has taken is not given again: %ld", ms);
    ok(lost(1, false) && fake_run_count() == 1, "an agent that starts is not started twice");
    strbuf_clear(&fake_run(0)->got);
    say("{\"event\":\"listening\",\"port\":4711}\n");
    fake_take(fake_run(0), SIZE_MAX);
    const char *roster = strbuf_cstr(&fake_run(0)->got) + 4;
    ok(strstr(roster, "4711") && strstr(roster, "7000") && strstr(roster, "7002"),
       "the agent gets the addresses of all nodes, with its new one");
    ok(!strstr(roster, "7001") && ports[1] == 4711, "the old address of the agent is forgotten");
    ok(fake_run(0)->got_end, "the input of the agent ends behind the addresses");
    say("{\"event\":\"started\"}\n");
    fake_exit(fake_run(0), 0);
    ok(!follow.nodes[1].restarting && !follow.nodes[1].over, "the node is a part of the run again");
    has_str(asked(1), "--node follow ", "the node is followed again");
    end();
}

static void test_tries(void) {
    static const int pauses[RESTART_TRIES_MAX] = {1000, 2000, 4000};
    begin();
    ok(lost(1, false), "the first agent that vanishes is started again");
    for (int i = 0; i < RESTART_TRIES_MAX; i++) {
        clock_turn(context.loop, pauses[i] - 1);
        is_int(fake_run_count(), i, "pause %d lasts %d ms", i + 1, pauses[i]);
        clock_turn(context.loop, 1);
        is_int(fake_run_count(), i + 1, "try %d follows its pause", i + 1);
        has_str(said(), arena_printf(&arena, "starting the agent of n1 again (%d of 3)", i + 1),
                "try %d has its number", i + 1);
        said_clear();
        fails("failed");
        has_str(said(), "cannot restart an agent", "the failure of try %d is reported", i + 1);
        is_int(follow.nodes[1].over, i + 1 == RESTART_TRIES_MAX,
               "the node is given up with its last try, not with %d", i + 1);
    }
    has_str(said(), "node=n1 reason=\"the agent did not start: why\"", "the report has the reason");
    clock_turn(context.loop, 10000);
    is_int(fake_run_count(), RESTART_TRIES_MAX, "a node that was given up gets no agent");
    ok(!lost(1, false), "a machine has three tries in all");
    ok(lost(1, true), "another machine has tries of its own");
    clock_turn(context.loop, RESTART_PAUSE_MS);
    has_str(said(), "sending the run to n1 (1 of 3)", "the tries of another machine begin at one");
    ok(lost(2, false), "the tries of one node are not those of another");
    end();
}

static void test_unwanted(void) {
    begin();
    follow.over_ms = 1;
    ok(!lost(1, false), "no agent is started when the run is over on a node");
    follow.over_ms = 0;
    follow.leave = true;
    ok(!lost(1, false), "no agent is started when the run is left");
    follow.leave = false;
    follow.stopping = true;
    ok(!lost(1, false), "no agent is started when the run stops");
    follow.stopping = false;
    follow.nodes[0].over = true;
    follow.nodes[2].restarting = true;
    ok(!lost(1, false), "no agent is started without another one that it could join");
    follow.nodes[2].restarting = false;
    ok(lost(1, false), "one other agent is enough");
    follow.stopping = true;
    clock_turn(context.loop, RESTART_PAUSE_MS);
    ok(follow.nodes[1].over && fake_run_count() == 0,
       "a run that stops during the pause starts no agent");
    is_str(said(), "", "the user reads of agents that are started alone");
    end();
    begin();
    agent_restart_close(&restart);
    follow.restart = NULL;
    launch.run.max_restarts = 0;
    agent_restart_init(&restart, &launch, &follow);
    ok(!follow.restart, "without restarts of the run no agent is started again");
    end();
}

static void test_away(void) {
    begin();
    lost(1, false);
    nodes[1].ready = false;
    clock_turn(context.loop, RESTART_PAUSE_MS);
    is_int(fake_run_count(), 0, "a node that is not ready is not asked");
    has_str(said(), "reason=\"the node is out of reach\"", "a node that is away is reported");
    nodes[1].ready = true;
    nodes[1].up = false;
    clock_turn(context.loop, 2000);
    is_int(fake_run_count(), 0, "a node that is not up is not asked");
    nodes[1].up = true;
    fake_refuses = 1;
    clock_turn(context.loop, 4000);
    has_str(said(), "no more commands", "a command that cannot start is reported");
    ok(follow.nodes[1].over, "three failures of any kind are too many");
    end();
}

static void test_new(void) {
    const char *mark = results_part_mark(&context, &run, "n1");
    begin();
    launch.spec.max_time_ms = 5000; // the run has taken longer
    if (file_make_dirs(file_dir(&arena, mark), 0700, &e) < 0 ||
        file_write_atomic(mark, "", 0, 0600, &e) < 0)
        bail_out("%s", e.text);
    lost(1, false);
    clock_turn(context.loop, RESTART_PAUSE_MS);
    ok(file_exists(mark), "the results of a machine that is still there are kept");
    fails("not-found");
    said_clear();
    clock_turn(context.loop, RESTART_PAUSE_MS);
    is_str(asked(1), START "--join", "a node that does not know the run is one that joins");
    is_str(said(), "sending the run to n1 (1 of 3)\n", "such a node begins with its first try");
    has_str(events(), "\"reason\":\"the node is there, and has nothing of the run\"",
            "the event has the reason");
    ok(!file_exists(mark), "results that were fetched from another machine are forgotten");
    fake_take(fake_run(0), SIZE_MAX);
    has_str(strbuf_cstr(&fake_run(0)->got) + 4, "max_time_ms = 1\n",
            "an agent of a run whose time is over ends at once");
    fails("not-found");
    clock_turn(context.loop, 2000);
    has_str(said(), "sending the run to n1 (2 of 3)", "a new node has three tries");
    end();
}

static void test_files(void) {
    begin();
    if (manifest_add_bytes(launch.common, "a", "x", 1, 0644, &e) < 0 ||
        manifest_hash(launch.common, NULL, NULL, NULL, &e) < 0)
        bail_out("%s", e.text);
    lost(1, true);
    clock_turn(context.loop, RESTART_PAUSE_MS);
    has_str(asked(1), "--node push ", "a new node gets the files of the run first");
    ok(restart.nodes[1].xfer != NULL, "the files are on their way");
    ok(lost(1, true), "a node that gets files is not begun again");
    fake_exit(fake_run(0), 1);
    for (int i = 0; i < 200 && restart.nodes[1].xfer; i++)
        loop_once(context.loop, 10);
    has_str(said(), "cannot restart an agent", "files that do not come are reported");
    ok(!follow.nodes[1].over, "files that do not come are sent again later");
    lost(2, true);
    nodes[2].up = false;
    clock_turn(context.loop, RESTART_PAUSE_MS);
    is_str(asked(2), "", "a node that is away gets no files");
    end();
}

// A command's state that was fetched goes to the machine that takes the node's place.
static void test_state(void) {
    const char *text = "state";
    begin();
    const char *file = run_path(&context.cluster, &run, "published/n1/3/state/f");
    if (file_make_dirs(file_dir(&arena, file), 0700, &e) < 0 ||
        file_write_atomic(file, text, strlen(text), 0600, &e) < 0)
        bail_out("%s", e.text);
    if (!ok(state_published_newest(&context, &run, "n1") != NULL, "a state was fetched"))
        diag("%s", file);
    lost(1, true);
    clock_turn(context.loop, RESTART_PAUSE_MS);
    bool sent = false;
    for (int i = 0; i < 500 && !sent; i++) {
        loop_once(context.loop, 10);
        sent = fake_run_count() > 0;
    }
    has_str(asked(1), "--node push ", "a new node gets the state that was fetched");
    const struct manifest *m = restart.nodes[1].state;
    is_str(m && m->count ? m->entries[m->count - 1].path : "", "runs/r-1/state/f",
           "the state goes into the run's folder");
    end();
    begin();
    run.native = true;
    lost(1, true);
    clock_turn(context.loop, RESTART_PAUSE_MS);
    is_str(asked(1), START "--join", "the native trainer has its state from the others");
    end();
}

int main(void) {
    fleet_cluster_open();
    run = (struct run){.id = "r-1"};
    if (file_make_dirs(run_path(&context.cluster, &run, ""), 0700, &e) < 0)
        bail_out("%s", e.text);
    test_again();
    test_tries();
    test_unwanted();
    test_away();
    test_new();
    test_files();
    test_state();
    fleet_cluster_close();
    return done_testing();
}
