// SPDX-License-Identifier: Apache-2.0
// Many nodes of a run are about to end at once: their results are fetched a few nodes at a time, in
// order, and the run waits for all of them.
#include "run/results/results_drain.h"

#include "run/results/results_part.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "xfer/xfer_impl.h"

#include <unistd.h>

enum { NODES = 2 * FLEET_MOVING_NODES_MAX + 3 };

// ---- transfers without a network ---------------------------------------------------------------

static struct fetched {
    struct xfer x;
    void *ctx;
    const struct xfer_events *events;
} transfers[NODES];
static size_t begun, cancelled;
static bool refuses; // no transfer can begin

static void on_cancel(struct xfer *x) {
    (void)x;
    cancelled++;
}

struct xfer *test_fetch(struct transport_link *l, const struct xfer_fetch_spec *spec,
                        const struct xfer_events *events, void *ctx,
                        struct err *e) __asm__("xfer_fetch");

struct xfer *test_fetch(struct transport_link *l, const struct xfer_fetch_spec *spec,
                        const struct xfer_events *events, void *ctx, struct err *e) {
    (void)l, (void)spec;
    if (refuses) {
        (void)err_set(e, ERR_NET, "no room");
        return NULL;
    }
    struct fetched *t = &transfers[begun++];
    *t = (struct fetched){.ctx = ctx, .events = events};
    t->x = (struct xfer){.stop = on_cancel, .destroy = on_cancel};
    return &t->x;
}

static void end(size_t i, const char *why) {
    struct err e = {0};
    if (why)
        (void)err_set(&e, ERR_NET, "%s", why);
    transfers[i].events->on_end(&transfers[i].x, transfers[i].ctx, &e,
                                &(struct xfer_progress){.bytes_all = 1});
}

// ---- a run of many nodes
// -------------------------------------------------------------------------

static struct arena arena;
static struct screen screen;
static struct context context;
static struct inventory_node info[NODES];
static struct fleet_node fleet_nodes[NODES];
static struct fleet fleet;
static struct run run;
static struct follow follow;
static struct results_drain drain;
static const char *names[NODES];
static const struct follow_view NOTHING;
static char dir[] = "/tmp/test_results_drain.XXXXXX";

static void begin(void) {
    struct err e = {0};
    begun = cancelled = 0;
    if (follow_open(&follow, &context, &fleet, &run, &NOTHING, NULL, &e) < 0)
        bail_out("%s", e.text);
    results_drain_open(&drain, &follow);
    for (size_t i = 0; i < NODES; i++) {
        follow.history.nodes[i].announced = true;
        fleet_nodes[i].up = true;
        (void)unlink(results_part_mark(&context, &run, names[i]));
    }
}

static size_t marks(void) {
    size_t count = 0;
    for (size_t i = 0; i < NODES; i++)
        count += file_exists(results_part_mark(&context, &run, names[i]));
    return count;
}

static void test_window(void) {
    begin();
    for (size_t i = 0; i < NODES; i++) {
        results_drain_node(&drain, &follow.nodes[i]);
        results_drain_node(&drain, &follow.nodes[i]); // more than one event may say so
    }
    is_uint(begun, FLEET_MOVING_NODES_MAX, "the results of a few nodes come at once");
    is_int(follow.held, NODES, "the run waits for the results of all of them");
    end(1, NULL);
    is_uint(begun, FLEET_MOVING_NODES_MAX + 1, "the next node begins when one has ended");
    is_uint(marks(), 1, "the part of a node that has ended is marked as complete");
    end(0, "connection reset");
    is_uint(marks(), 1, "a part that did not come is not marked");
    fleet_nodes[FLEET_MOVING_NODES_MAX + 2].up = false;
    for (size_t i = 2; i < begun; i++)
        end(i, NULL);
    is_uint(begun, NODES - 1, "every node that can be reached has its turn");
    is_int(follow.held, 0, "the run waits for nothing more");
    is_uint(marks(), NODES - 2, "every part that came is marked");
    bool ordered = true;
    for (size_t i = 1; i < begun; i++) {
        const struct results_drain_node *a = transfers[i - 1].ctx, *b = transfers[i].ctx;
        ordered &= a->node->index < b->node->index;
    }
    ok(ordered, "nodes have their turns in the order of their ends");
    results_drain_close(&drain);
    follow_close(&follow);
}

static void test_close(void) {
    begin();
    for (size_t i = 0; i < NODES; i++)
        results_drain_node(&drain, &follow.nodes[i]);
    results_drain_close(&drain);
    is_int(follow.held, 0, "a follower that leaves waits for nothing");
    ok(cancelled >= FLEET_MOVING_NODES_MAX, "transfers in progress are dropped");
    is_uint(begun, FLEET_MOVING_NODES_MAX, "a follower that leaves begins no transfer");
    follow_close(&follow);
}

static void test_not_wanted(void) {
    begin();
    refuses = true;
    for (size_t i = 0; i < NODES; i++)
        results_drain_node(&drain, &follow.nodes[i]);
    is_int(follow.held, 0, "a transfer that cannot begin is not waited for");
    refuses = false;
    run.native = true;
    results_drain_node(&drain, &follow.nodes[0]);
    run.native = false;
    follow.history.nodes[1].announced = false;
    results_drain_node(&drain, &follow.nodes[1]);
    follow.nodes[2].no_status = true;
    results_drain_node(&drain, &follow.nodes[2]);
    is_uint(begun, 0, "only nodes whose end is announced, and that are there, are fetched from");
    results_drain_close(&drain);
    follow_close(&follow);
}

int main(void) {
    struct err e = {0};
    if (!mkdtemp(dir) || cluster_open(&context.cluster, &arena, dir, "c", &e) < 0)
        bail_out("no folder: %s", e.text);
    context.arena = &arena;
    context.screen = &screen;
    screen_init(&screen, STDERR_FILENO, STDERR_FILENO, SCREEN_PLAIN, true);
    run = (struct run){.id = "r", .name = "r", .state = "started", .node_count = NODES};
    fleet = (struct fleet){.context = &context, .nodes = fleet_nodes, .count = NODES};
    for (size_t i = 0; i < NODES; i++) {
        names[i] = info[i].name = arena_printf(&arena, "n%02zu", i);
        fleet_nodes[i] = (struct fleet_node){.fleet = &fleet, .index = i, .info = &info[i]};
    }
    run.nodes = names;
    test_window();
    test_close();
    test_not_wanted();
    screen_fini(&screen);
    cluster_close(&context.cluster);
    file_remove_tree(dir, &e);
    arena_fini(&arena);
    return done_testing();
}
