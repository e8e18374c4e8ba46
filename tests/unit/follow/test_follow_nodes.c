// SPDX-License-Identifier: Apache-2.0
// The nodes of a run that is followed: what they are asked, what their records and ends mean, when
// a lost node is tried again, and how waiting ends. The test is the nodes, and turns the clock.
#include "base/bytes.h"
#include "follow/follow.h"
#include "protocol/node_protocol.h"
#include "sys/file.h"
#include "tests/unit/fleet_cluster.h"

#include <sys/resource.h>

static const char *const NAMES[] = {"n0", "n1", "n2"};
static struct run run;
static struct follow follow;
static struct strbuf seen; // calls of the view
static bool restarts;      // the answer to a vanished agent
static struct err e;

// ---- what the user would see --------------------------------------------------------------------

static void on_lost(void *ctx, const struct follow_node *n, const struct err *why) {
    (void)ctx;
    strbuf_addf(&seen, "lost %s: %s;", n->node->info->name, why->text);
}

static void on_back(void *ctx, const struct follow_node *n) {
    (void)ctx;
    strbuf_addf(&seen, "back %s;", n->node->info->name);
}

static void on_over(void *ctx, const struct follow_node *n) {
    (void)ctx;
    strbuf_addf(&seen, "over %s;", n->node->info->name);
}

static bool on_vanished(void *ctx, struct follow_node *n, bool is_new) {
    (void)ctx;
    strbuf_addf(&seen, "%s %s;", is_new ? "new" : "vanished", n->node->info->name);
    return restarts;
}

static const struct follow_view view = {.on_lost = on_lost, .on_back = on_back, .on_over = on_over};

// Since the last call.
static const char *news(void) {
    const char *text = arena_printf(&arena, "%s", strbuf_cstr(&seen));
    strbuf_clear(&seen);
    return text;
}

// ---- nodes --------------------------------------------------------------------------------------

static void begin(void) {
    fake_fleet_begin("", "", "");
    timer_stop(&turn); // the test answers
    run = (struct run){.id = "r-1", .name = "r", .state = "started", .node_count = NODES};
    run.nodes = (const char **)NAMES;
    for (size_t i = 0; i < NODES; i++)
        nodes[i].ready = true;
    if (follow_open(&follow, &context, &fleet, &run, &view, NULL, &e) < 0)
        bail_out("%s", e.text);
    strbuf_clear(&seen);
    said_clear();
    restarts = false;
}

static void end(void) {
    follow_close(&follow);
    fake_fleet_end();
    file_remove_tree(run_path(&context.cluster, &run, ""), &e);
}

// All nodes are followed.
static void begin_followed(void) {
    begin();
    for (size_t i = 0; i < NODES; i++)
        fleet.on_back(&nodes[i]);
}

static struct fake_run *run_of(size_t node) {
    for (struct fake_run *r = fake_runs; r; r = r->older)
        if (r->r.link == nodes[node].link)
            return r;
    return NULL;
}

static const char *asked(size_t node) {
    const struct fake_run *r = run_of(node);
    return r ? strstr(r->line, "--node ") : "";
}

static void say(size_t node, const char *header, const char *data) {
    unsigned char length[4];
    size_t len = strlen(header) + 1 + strlen(data);
    bytes_store(length, len, sizeof length);
    fake_say(run_of(node), length, sizeof length);
    const char *text = arena_printf(&arena, "%s\n%s", header, data);
    fake_say(run_of(node), text, len);
}

#define FOLLOW "--node follow --root /r --run r-1 --from -"

static void test_asked(void) {
    begin();
    fleet.on_back(&nodes[1]);
    is_str(asked(1), FOLLOW, "a node is asked for all of the run");
    fake_take(run_of(1), SIZE_MAX);
    ok(run_of(1)->got.len >= 4 && run_of(1)->got_end, "a node gets the offsets, and no more");
    is_uint(bytes_load(run_of(1)->got.data, 4), run_of(1)->got.len - 4,
            "the length of the offsets comes first");
    is_str(asked(0), "", "other nodes are not asked");
    follow.until_now = true;
    fleet.on_back(&nodes[0]);
    is_str(asked(0), FOLLOW " --once", "a node may be asked for what there is");
    follow.events_only = true;
    follow.until_now = false;
    fleet.on_back(&nodes[2]);
    is_str(asked(2), FOLLOW " --only events", "a node may be asked for events alone");
    end();
    begin();
    fake_refuses = 1;
    fleet.on_back(&nodes[1]);
    is_str(news(), "lost n1: node n1: no more commands;", "a node that cannot be asked is lost");
    follow.nodes[0].over = true;
    fleet.on_back(&nodes[0]);
    is_str(asked(0), "", "a node whose end is known is not asked again");
    end();
}

static void test_ends(void) {
    begin_followed();
    say(0, "{\"end\":\"finished\",\"exit_status\":3}", "");
    is_str(news(), "over n0;", "a node that has finished is over");
    ok(follow.nodes[0].over && !follow.nodes[0].no_status && follow.over_ms,
       "the run is over on a node");
    is_int(follow.nodes[0].exit_status, 3, "the node has an exit status");
    is_str(follow.nodes[0].state, "finished", "the node has its state");
    say(0, "{\"end\":\"failed\",\"exit_status\":4}", "");
    fake_exit(run_of(0), 0);
    is_str(news(), "", "a node is over once");
    is_str(follow.nodes[0].state, "finished", "the first end of a node counts");
    say(1, "{\"end\":\"running\"}", "");
    is_str(news(), "lost n1: the agent ended while the run was running;",
           "an agent that ends before the run is lost");
    ok(!follow.nodes[1].over, "a lost node is not over");
    fake_exit(run_of(2), 0);
    is_str(news(), "lost n2: the agent's stream ended without the run's end;",
           "a stream that ends without the run's end is lost");
    end();
    begin_followed();
    say(1, "{\"end\":\"lost\"}", "");
    is_str(news(), "over n1;", "a node without its agent is over");
    is_int(follow.over_ms, 0, "a node without its agent does not end the run");
    follow.history.nodes[2].announced = true;
    say(2, "{\"end\":\"stopped\"}", "");
    is_int(follow.over_ms, 0, "a node whose end was announced does not end the run");
    say(0, "{\"end\":\"stopped\"}", "");
    ok(follow.over_ms != 0, "a node that was stopped ends the run");
    end();
    begin_followed();
    follow.until_now = true;
    say(1, "{\"end\":\"running\"}", "");
    ok(follow.nodes[1].over && follow.over_ms, "the end of what there is ends a node");
    is_str(news(), "over n1;", "a node that goes on is not lost when all is here");
    end();
}

static void test_restarts(void) {
    begin_followed();
    follow.restart = on_vanished;
    restarts = true;
    say(1, "{\"end\":\"lost\"}", "");
    is_str(news(), "vanished n1;", "an agent that has vanished is asked about");
    ok(follow.nodes[1].restarting && !follow.nodes[1].over,
       "the node without its agent is being restarted");
    fake_exit(run_of(1), 0);
    is_str(news(), "", "the end of the old stream means nothing");
    int before = fake_run_count();
    follow_again(&follow.nodes[1]);
    is_int(fake_run_count(), before + 1, "a node with a new agent is followed again");
    ok(!follow.nodes[1].restarting, "a node with a new agent is not being restarted");
    nodes[2].ready = false;
    follow_again(&follow.nodes[2]);
    is_str(news(), "lost n2: it is not connected;", "a node without a connection is lost");
    fake_say(run_of(0), "{\"event\":\"error\",\"code\":\"not-found\",\"text\":\"no run\"}\n", 52);
    fake_exit(run_of(0), 1);
    is_str(news(), "new n0;", "a node that does not know the run is another machine");
    ok(follow.nodes[0].restarting, "another machine is being restarted");
    follow_stays_lost(&follow.nodes[0]);
    is_str(news(), "over n0;", "a node that is not restarted is over");
    end();
    begin_followed();
    follow.restart = on_vanished;
    fake_say(run_of(0), "{\"event\":\"error\",\"code\":\"not-found\",\"text\":\"no run\"}\n", 52);
    fake_exit(run_of(0), 1);
    is_str(news(), "new n0;over n0;", "another machine that is not restarted is given up");
    ok(follow.nodes[0].no_status && follow.nodes[0].err.code == ERR_NOT_FOUND,
       "a node that was given up has the reason");
    is_int(follow.over_ms, 0, "a node that was given up does not end the run");
    say(1, "{\"end\":\"lost\"}", "");
    is_str(news(), "vanished n1;over n1;", "an agent that is not restarted is over");
    follow.until_now = true;
    say(2, "{\"end\":\"lost\"}", "");
    is_str(news(), "over n2;", "no agent is restarted for what there is");
    end();
}

static void test_lost(void) {
    static const int pauses[] = {200, 400, 800, 1600, 3200, 5000, 5000};
    struct err why = {0};
    begin_followed();
    fake_say(run_of(1), "\xff\xff\xff\xff", 4);
    has_str(news(), "lost n1: a record of the node has ", "a malformed record loses the node");
    ok(run_of(1)->is_closed, "the stream of a malformed record is closed");
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        int before = fake_run_count();
        clock_turn(context.loop, pauses[i] - 1);
        is_int(fake_run_count(), before, "a lost node has pause %zu", i);
        clock_turn(context.loop, 1);
        is_int(fake_run_count(), before + 1, "a lost node is asked behind pause %zu, %d ms", i,
               pauses[i]);
        fake_exit(run_of(1), 1);
    }
    is_str(news(), "", "a node is lost once");
    clock_turn(context.loop, 5000);
    say(1, "{\"beat\":1}", "");
    is_str(news(), "back n1;", "a node that speaks is back");
    is_int(follow.nodes[1].lost_ms, 0, "a node that is back is not lost");
    fake_exit(run_of(1), 1);
    int before = fake_run_count();
    clock_turn(context.loop, 200);
    is_int(fake_run_count(), before + 1, "a node that is lost again begins with the first pause");
    err_set(&why, ERR_AUTH, "refused");
    news();
    fleet.on_lost(&nodes[0], &why);
    is_str(news(), "over n0;", "a node that refuses the login is given up");
    err_set(&why, ERR_NET, "cut");
    fleet.on_lost(&nodes[2], &why);
    is_str(news(), "lost n2: cut;", "a node whose connection ends is lost");
    nodes[2].absent = true;
    fleet.on_lost(&nodes[2], &why);
    is_str(news(), "over n2;", "a node that has left the cluster is given up");
    end();
    begin_followed();
    follow.awaits = true;
    err_set(&why, ERR_HOSTKEY, "changed");
    fleet.on_lost(&nodes[0], &why);
    is_str(news(), "lost n0: changed;", "a node that may come back as another machine is lost");
    follow.awaits = false;
    fleet.on_lost(&nodes[1], &why);
    ok(follow.nodes[1].over && follow.nodes[1].no_status, "a node with another key is given up");
    end();
}

static void test_files(void) {
    begin();
    follow.events_only = true;
    fleet.on_back(&nodes[1]);
    say(1, "{\"file\":\"events.jsonl\",\"offset\":0,\"bytes\":0}", "");
    clock_turn(context.loop, 0);
    is_int(fake_run_count(), 1, "a node without an announced end keeps its logs");
    follow.history.nodes[1].announced = true;
    say(1, "{\"beat\":1}", "");
    clock_turn(context.loop, 0);
    is_int(fake_run_count(), 2, "a node whose end is announced is asked again");
    is_str(asked(1), FOLLOW, "a node whose end is announced gives its logs");
    ok(fake_run(1)->is_closed, "the first stream is closed");
    say(1, "{\"beat\":1}", "");
    clock_turn(context.loop, 0);
    is_int(fake_run_count(), 2, "a node is asked for its logs once");
    end();
}

static void test_stop(void) {
    begin();
    follow.nodes[0].over = true;
    follow_stop_run(&follow, "the test");
    ok(follow.stopping, "the run stops");
    is_str(asked(0), "", "a node whose end is known is not asked to stop");
    is_str(asked(1), "--node stop --root /r --run r-1", "a node is asked to stop the run");
    ok(str_starts(asked(2), "--node stop "), "every node is asked to stop the run");
    end();
    begin();
    nodes[0].up = false;
    nodes[1].ready = false;
    follow.nodes[2].restarting = true;
    follow_stop_run(&follow, "the test");
    is_int(fake_run_count(), 0, "nodes that cannot answer are not asked to stop");
    follow.nodes[2].restarting = false;
    fake_refuses = 1;
    follow_stop_run(&follow, "the test");
    has_str(said(), "a node cannot be asked to stop node=n2 reason=",
            "the user reads of a node that cannot be asked");
    end();
}

// ---- waiting ------------------------------------------------------------------------------------

static struct timer acting;
static int64_t passed_ms; // since the begin of the wait
static void (*act)(void);

static void on_turn(struct timer *t) {
    clock_ahead_ms += 1000;
    passed_ms += 1000;
    if (act)
        act();
    timer_start(context.loop, t, 0, on_turn);
}

static int wait_with(void (*what)(void)) {
    act = what;
    passed_ms = 0;
    err_clear(&e);
    timer_start(context.loop, &acting, 0, on_turn);
    int result = follow_wait(&follow, &e);
    timer_stop(&acting);
    return result;
}

static void finish_all(void) {
    for (size_t i = 0; i < NODES; i++)
        say(i, "{\"end\":\"finished\",\"exit_status\":0}", "");
}

static void leave(void) {
    follow.leave = true;
}

static void hold(void) {
    if (passed_ms == 1000)
        finish_all();
    follow.held = passed_ms < 5000;
}

static void come_back(void) {
    if (passed_ms == 599 * 1000)
        fleet.on_back(&nodes[0]);
    if (passed_ms == 599 * 1000)
        say(0, "{\"beat\":1}", "");
    if (passed_ms == 700 * 1000)
        follow.leave = true;
}

static void test_waits(void) {
    begin();
    is_int(wait_with(finish_all), 0, "the wait ends with the end of all nodes");
    is_str(news(), "over n0;over n1;over n2;", "each node is over once");
    end();
    begin();
    is_int(wait_with(hold), 0, "the wait ends behind transfers");
    is_int(passed_ms, 5000, "the wait lasts as long as the transfers");
    end();
    begin();
    is_int(wait_with(leave), -1, "the wait ends when the run is left");
    is_str(e.text, "left the run 'r-1' (try: dtctl logs -f r-1)", "the error has the next step");
    is_int(e.code, ERR_INTERRUPTED, "a run that is left is an interruption");
    follow.leave = false;
    follow.stopping = true;
    wait_with(leave);
    is_str(e.text,
           "left the run 'r-1' while it stops (try: dtctl logs -f r-1, which brings its results)",
           "the error of a run that stops has the next step");
    end();
    begin();
    for (size_t i = 0; i < NODES; i++)
        nodes[i].ready = false;
    is_int(wait_with(NULL), -1, "the wait for nodes that do not answer ends");
    ok(passed_ms >= 600 * 1000 && passed_ms <= 603 * 1000,
       "the wait without answers lasts ten minutes");
    is_str(e.text,
           "no node of run 'r-1' has answered for 10 minutes; it may still be going "
           "(try: dtctl logs -f r-1)",
           "the error has the time and the next step");
    is_int(e.code, ERR_NO_STATUS, "a run without answers has no status");
    has_str(news(), "lost n2: it is not connected;", "nodes without a connection are lost");
    end();
    begin();
    for (size_t i = 0; i < NODES; i++)
        nodes[i].ready = false;
    wait_with(come_back);
    is_int(e.code, ERR_INTERRUPTED, "one node that answers is enough to wait on");
    end();
}

static void test_descriptors(void) {
    struct rlimit before, none;
    begin();
    nodes[1].ready = false;
    int fd = dup(0);
    close(fd);
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = (rlim_t)fd + 2;
    setrlimit(RLIMIT_NOFILE, &none);
    int result = wait_with(NULL);
    setrlimit(RLIMIT_NOFILE, &before);
    is_int(result, -1, "the wait ends without descriptors");
    is_int(e.code, ERR_LIMIT, "too few descriptors are a limit");
    has_str(e.text, arena_printf(&arena, "; dtctl may have %d open (try: ulimit -n 1024)", fd + 2),
            "the error has the limit and the next step");
    is_str(news(), "", "no node is lost for a fault on this side");
    end();
}

int main(void) {
    fleet_cluster_open();
    test_asked();
    test_ends();
    test_restarts();
    test_lost();
    test_files();
    test_stop();
    test_waits();
    test_descriptors();
    strbuf_fini(&seen);
    fleet_cluster_close();
    return done_testing();
}
