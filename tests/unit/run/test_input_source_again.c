// SPDX-License-Identifier: Apache-2.0
// Connections over which files of this computer are streamed to nodes: when they are made, made
// again and given up, and when the user reads that a node is not served. The test is the nodes.
#include "run/inputs/input_source.h"

#include "base/bytes.h"
#include "fleet/embedded_files.h"
#include "protocol/source_frames.h"
#include "tests/unit/fleet_cluster.h"

static struct run run = {.id = "r-1"};
static struct follow follow;
static struct follow_node follow_nodes[NODES];
static struct input_source source;
static struct err e;

const struct embed_file embed_files[] = {{.name = "dtdata", .sha256 = "00112233445566778899"},
                                         {.name = NULL}};

// Only node 0 is there.
static void begin(void) {
    fake_fleet_begin("", "", "");
    timer_stop(&turn); // the test answers
    follow = (struct follow){
        .context = &context, .fleet = &fleet, .run = &run, .nodes = follow_nodes, .count = NODES};
    for (size_t i = 0; i < NODES; i++)
        follow_nodes[i] = (struct follow_node){.follow = &follow, .node = &nodes[i], .index = i};
    nodes[0].ready = true;
    nodes[1].up = nodes[2].up = false;
    said_clear();
    if (input_source_open(&source, &follow, &e) < 0)
        bail_out("%s", e.text);
    clock_turn(context.loop, 0);
}

static void end(void) {
    struct fake_run *r = fake_run(0);
    bool runs = source.nodes[0].run != NULL;
    input_source_close(&source);
    if (r && runs && !r->is_closed)
        bail_out("a connection is left");
    fake_fleet_end();
}

static void later(int ms) {
    clock_turn(context.loop, ms);
}

// The dtdata of node 0 ends.
static void ends(int status, const char *why) {
    if (*why)
        fake_say_error(fake_run(0), why);
    fake_exit(fake_run(0), status);
}

static void test_again(void) {
    begin();
    is_int(fake_run_count(), 1, "a node that is ready is connected at once");
    ok(str_starts(fake_run(0)->line, "/r/") && str_ends(fake_run(0)->line, " source /r/runs/r-1"),
       "dtdata of the run is asked: %s", fake_run(0)->line);
    ends(0, "");
    later(INPUT_SOURCE_RETRY_MS - 1);
    is_int(fake_run_count(), 1, "a connection is not made again at once");
    later(1);
    is_int(fake_run_count(), 2, "a connection is made again half a second later");
    ends(0, "");
    nodes[0].up = false;
    later(INPUT_SOURCE_RETRY_MS);
    is_int(fake_run_count(), 2, "a node that is away is not connected");
    nodes[0].up = true;
    nodes[0].ready = false;
    later(INPUT_SOURCE_RETRY_MS);
    is_int(fake_run_count(), 2, "a node that is not ready is not connected");
    nodes[0].ready = follow_nodes[0].over = true;
    later(INPUT_SOURCE_RETRY_MS);
    is_int(fake_run_count(), 2, "a node whose run is over is not connected");
    follow_nodes[0].over = false;
    fake_refuses = 1;
    later(INPUT_SOURCE_RETRY_MS);
    is_int(fake_run_count(), 2, "a connection may be refused");
    later(INPUT_SOURCE_RETRY_MS);
    is_int(fake_run_count(), 3, "a refused connection is tried again");
    end();
}

// Ends so many connections with a failure.
static void fail_times(int count, const char *why) {
    for (int i = 0; i < count; i++) {
        ends(1, why);
        later(INPUT_SOURCE_RETRY_MS);
    }
}

static void test_warned(void) {
    begin();
    fail_times(INPUT_SOURCE_SHUT_MAX, "no socket\nmore\n");
    is_str(said(), "", "a server may need some time");
    fail_times(1, "still no socket\nmore\n");
    has_str(said(),
            "streamed inputs of this computer cannot be served to a node node=n0 "
            "reason=\"still no socket\"",
            "the user reads the newest reason");
    said_clear();
    fail_times(3, "no socket\n");
    is_str(said(), "", "the user reads once that a node is not served");
    end();
    begin();
    fail_times(INPUT_SOURCE_SHUT_MAX, "x");
    ends(0, "");
    later(INPUT_SOURCE_RETRY_MS);
    fail_times(INPUT_SOURCE_SHUT_MAX, "x");
    is_str(said(), "", "a connection that ends well begins the count anew");
    follow_nodes[0].over = true;
    ends(1, "x");
    is_str(said(), "", "a node whose run is over need not be served");
    end();
}

static void test_asked(void) {
    unsigned char ask[SOURCE_ASK_BYTES] = {0};
    bytes_store(ask, 3, 4);
    bytes_store(ask + 20, 1, 8);
    begin();
    fail_times(INPUT_SOURCE_SHUT_MAX, "x");
    fake_say(fake_run(0), ask, 5);
    fake_say(fake_run(0), ask + 5, sizeof ask - 5);
    while (fake_take(fake_run(0), SIZE_MAX))
        ;
    const struct strbuf *got = &fake_run(0)->got;
    ok(got->len == SOURCE_HEAD_BYTES + 1 && got->data[0] == SOURCE_BYTES &&
           got->data[SOURCE_HEAD_BYTES] == 'f',
       "a request that comes in parts is answered");
    fail_times(INPUT_SOURCE_SHUT_MAX, "x");
    is_str(said(), "", "a request begins the count anew");
    fail_times(1, "x");
    has_str(said(), "cannot be served", "later failures are counted from the request");
    end();
    begin();
    bytes_store(ask + 4, 1, 8);
    fake_say(fake_run(0), ask, sizeof ask);
    has_str(said(), "a node asks for what no streamed input has node=n0",
            "the user reads of a request for another file");
    ok(fake_run(0)->is_closed, "a node that asks for another file is left");
    later(10 * INPUT_SOURCE_RETRY_MS);
    is_int(fake_run_count(), 1, "a node that is left is not connected again");
    end();
}

int main(void) {
    struct strbuf list = {0};
    size_t count = 0;
    fleet_cluster_open();
    struct manifest_entry x = {.path = "f", .source = file_join(&arena, folder, "f"), .size = 4};
    if (file_make_dirs(run_path(&context.cluster, &run, ""), 0700, &e) < 0 ||
        file_write_atomic(x.source, "file", 4, 0600, &e) < 0 ||
        input_source_add(&list, &count, &x, &e) != 0 ||
        input_source_save(&context, &run, &list, &e) < 0)
        bail_out("%s", e.text);
    strbuf_fini(&list);
    test_again();
    test_warned();
    test_asked();
    fleet_cluster_close();
    return done_testing();
}
