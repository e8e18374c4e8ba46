// SPDX-License-Identifier: Apache-2.0
// Steps of a fleet: how many nodes at once, what a signal does; which peers a node asks.
#include "fleet/fleet.h"
#include "fleet/fleet_transfer.h"
#include "fleet/network_check.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 100, AT_ONCE = 7 };

static struct arena arena;
static struct screen screen;
static struct context session;
static struct fleet fleet;
static struct inventory_node nodes[NODES];
static struct timer timers[NODES];
static size_t now_going, most_going, started, ended;
static bool raises; // a signal, as the last node ends

static void open_session(void) {
    struct err e = {0};
    static struct config config;
    screen_init(&screen, 1, 2, SCREEN_PLAIN, true);
    session = (struct context){.arena = &arena, .config = &config, .screen = &screen};
    session.loop = loop_open(&e);
    if (!session.loop || context_signals(&session, &e) < 0)
        bail_out("no loop");
    fleet = (struct fleet){.context = &session, .count = NODES};
    fleet.nodes = arena_new(&arena, struct fleet_node, NODES);
    for (size_t i = 0; i < NODES; i++) {
        nodes[i].name = arena_printf(&arena, "node%zu", i);
        fleet.nodes[i] = (struct fleet_node){.fleet = &fleet, .index = i, .info = &nodes[i]};
    }
}

static void on_timer(struct timer *t) {
    size_t i = (size_t)(t - timers);
    now_going--;
    ended++;
    if (raises && ended == NODES)
        raise(SIGINT);
    fleet_done(&fleet.nodes[i], NULL);
}

static int start(struct fleet_node *n, struct err *e) {
    started++;
    if (n->index == 5)
        return err_set(e, ERR_FAILED, "cannot begin");
    if (n->index == 6) { // over before start has returned
        fleet_done(n, NULL);
        ended++;
        return 0;
    }
    now_going++;
    most_going = now_going > most_going ? now_going : most_going;
    timer_start(session.loop, &timers[n->index], (int64_t)(n->index % 3), on_timer);
    return 0;
}

static void begin(void) {
    now_going = most_going = started = ended = 0;
    for (size_t i = 0; i < NODES; i++)
        fleet.nodes[i].failed = false;
}

static void some_at_once(void) {
    struct err e = {0};
    begin();
    is_int(fleet_each_of(&fleet, NULL, start, AT_ONCE, &e), 0, "a step runs on some nodes at once");
    is_int((long long)started, NODES, "every node has its turn");
    is_int((long long)most_going, AT_ONCE, "no more nodes work at once than the limit allows");
    is_int((long long)fleet_failures(&fleet), 1, "a node that cannot begin has failed");
    begin();
    is_int(fleet_each(&fleet, NULL, start, &e), 0, "a step runs on all nodes at once");
    is_int((long long)most_going, NODES - 2, "all nodes work at once");
    begin();
    is_int(fleet_each_resumed(&fleet, NULL, start, &e), 0, "a step that is resumed runs");
    is_int((long long)most_going, 16, "a step that is resumed runs on sixteen nodes at once");
}

// ---- transfers ----------------------------------------------------------------------------------

static const struct xfer_events *transfer_events;
static char transfers[NODES]; // stand in for the transfers, which nothing looks into

static void transfer_over(struct timer *t) {
    size_t i = (size_t)(t - timers);
    const struct xfer_progress all = {.bytes_done = 5, .bytes_all = 7, .files_all = 1};
    struct err none = {0};
    now_going--;
    transfer_events->on_end((struct xfer *)&transfers[i], &fleet.nodes[i], &none, &all);
}

static struct xfer *transfer(void *ctx, struct fleet_node *n, const struct xfer_events *events,
                             struct err *e) {
    (void)ctx, (void)e;
    transfer_events = events;
    started++;
    now_going++;
    most_going = now_going > most_going ? now_going : most_going;
    timer_start(session.loop, &timers[n->index], (int64_t)(n->index % 3), transfer_over);
    return (struct xfer *)&transfers[n->index];
}

// Memory and connections of this side grow with the window, and not with the cluster.
static void transfers_at_once(void) {
    struct err e = {0};
    struct transfer_totals totals = {0};
    begin();
    is_int(fleet_transfer_each(&fleet, NULL, transfer, NULL, &totals, &e), 0,
           "content goes to %d nodes", NODES);
    is_uint(started, NODES, "every node has its transfer");
    is_uint(totals.bytes, 5 * NODES, "the totals are those of all nodes");
    is_uint(most_going, 16, "sixteen transfers are under way at once");
}

static int look(struct fleet_node *n, struct err *e) {
    (void)e;
    if (n->index == 0) {
        is_str(fleet.progress.rows[1].state, "left out: it cannot be reached", "a row says why");
        is_str(fleet.progress.rows[2].state, "left out: not today",
               "a row without a failure shows its reason");
        is_str(fleet.progress.rows[3].state, "waiting", "a row without a state says 'waiting'");
    }
    fleet_done(n, NULL);
    return 0;
}

static void left_out(void) {
    struct err e = {0}, why = {0};
    begin();
    err_set(&why, ERR_NO_STATUS, "it cannot be reached");
    fleet_fail(&fleet.nodes[1], &why);
    fleet.nodes[2].left_out = "not today";
    is_int(fleet_each(&fleet, "fetch", look, &e), 0, "a step leaves out two nodes");
    fleet.nodes[2].left_out = NULL;
}

// A login whose shell waits for ever, in place of the agent.
static void silent(void) {
    static char dir[] = "/tmp/test_fleet.XXXXXX", sha[65], elf[64];
    static char *const variables[] = {(char *)"PATH=/usr/bin:/bin", NULL};
    struct err e = {0};
    struct fleet f = {
        .context = &session, .count = 1, .env = {.loop = session.loop, .env = variables}};
    struct inventory_node info = {.name = "node0", .host = "", .user = "", .host_key = ""};
    memset(sha, 'a', sizeof sha - 1);
    memcpy(elf, "\177ELF", 4);
    elf[18] = 62; // x86-64
    if (!mkdtemp(dir))
        bail_out("no folder");
    info.root = dir;
    const char *program = arena_printf(&arena, "%s/bin/dtrun-%.16s", dir, sha);
    static const char text[] = "#!/bin/sh\nexec sleep 600\n";
    must(file_make_dirs(file_dir(&arena, program), 0700, &e) == 0);
    must(file_write_atomic(program, text, sizeof text - 1, 0700, &e) == 0);
    f.nodes = arena_new(&arena, struct fleet_node, 1);
    f.nodes[0] = (struct fleet_node){.fleet = &f, .info = &info};
    f.agent = elf, f.agent_size = sizeof elf, f.agent_sha256 = sha;
    f.answer_ms = 50;
    is_int(fleet_connect(&f, true, &e), 0, "a node without an answer ends the wait for it");
    is_int(f.nodes[0].err.code, ERR_TIMEOUT, "the node has failed by the time limit");
    has_str(f.nodes[0].err.text, "no answer for 50 ms", "the error has the time");
    fleet_close(&f);
    file_remove_tree(dir, &e);
}

static void signals(void) {
    struct err e = {0};
    begin();
    raise(SIGTERM);
    is_int(fleet_each(&fleet, NULL, start, &e), -1, "a signal before a step stops it");
    is_int(e.code, ERR_INTERRUPTED, "a signal before a step is an interrupt error");
    is_int((long long)started, 0, "nothing has begun");
    is_int(fleet_each(&fleet, NULL, start, &e), -1, "the next step fails, too");
    is_int(context_take_interrupt(&session), SIGTERM, "the signal is kept until it is taken");
    is_int(fleet_each(&fleet, NULL, start, &e), 0, "after the signal is taken, steps run");
    begin();
    raises = true;
    ended = 1; // one of them cannot begin
    is_int(fleet_each(&fleet, NULL, start, &e), 0,
           "a step succeeds when a signal comes as its last node ends");
    is_int(fleet_each(&fleet, NULL, start, &e), -1,
           "a signal at the end of a step stops the next step");
    is_int(context_take_interrupt(&session), SIGINT, "the signal that stopped the step is kept");
    is_int(context_take_interrupt(&session), 0, "the signal can be taken once");
    raises = false;
}

static int heard;

static void hear(void *ctx, int signal) {
    (void)ctx;
    heard = signal;
}

static void listening(void) {
    struct err e = {0};
    raise(SIGHUP);
    context_listen(&session, hear, NULL);
    is_int(heard, SIGHUP, "a new listener gets a pending signal");
    raise(SIGINT);
    is_int(context_check(&session, &e), 0, "a signal with a listener interrupts nothing");
    is_int(heard, SIGINT, "a later signal with a listener interrupts nothing");
    context_listen(&session, NULL, NULL);
    raise(SIGINT);
    is_int(context_pause(&session, 60000, &e), -1, "a pause ends at once");
    context_take_interrupt(&session);
}

static void peers(void) {
    enum { MANY = 256 };
    bool all = true, sound = true, reached[MANY] = {0};
    size_t most = 0;
    for (size_t i = 0; i < 32; i++)
        for (size_t k = 0; k < 32; k++)
            all &= network_check_asks(i, k, 32) == (i != k);
    ok(all, "32 nodes: all pairs");
    for (size_t i = 0; i < MANY; i++) {
        size_t count = 0;
        for (size_t k = 0; k < MANY; k++) {
            count += network_check_asks(i, k, MANY);
            reached[k] |= network_check_asks(i, k, MANY);
        }
        most = count > most ? count : most;
        sound &= !network_check_asks(i, i, MANY) && network_check_asks(i, (i + 1) % MANY, MANY) &&
                 (i == 0 || network_check_asks(i, 0, MANY));
    }
    for (size_t i = 0; i < MANY; i++)
        sound &= reached[i];
    ok(sound, "256 nodes: each asks the next and the first, and is asked");
    ok(most <= 11, "at most 11 other nodes ask one node");
}

static void remedy(void) {
    struct inventory_node info[] = {{.address = "10.0.0.1"}, {.address = "10.0.0.2"}};
    struct fleet_node two[] = {{.info = &info[0]}, {.info = &info[1]}};
    struct fleet f = {.nodes = two, .count = 2};
    has_str(network_check_remedy(&f), "open all TCP ports", "closed ports are the usual reason");
    info[1].address = "fd00::2";
    has_str(network_check_remedy(&f), "list addresses of one kind",
            "an IPv4 host does not reach an IPv6 host");
    info[0].address = "fd00::1";
    has_str(network_check_remedy(&f), "open all TCP ports", "IPv6 alone is one kind");
}

int main(void) {
    open_session();
    some_at_once();
    transfers_at_once();
    left_out();
    silent();
    signals();
    listening();
    peers();
    remedy();
    loop_close(session.loop);
    arena_fini(&arena);
    return done_testing();
}
