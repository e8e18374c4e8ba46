// SPDX-License-Identifier: Apache-2.0
// Shares of elastic inputs that are sent again: to which node, which files, and when none is sent.
// The nodes are in the test.
#include "run/inputs/input_resend.h"

#include "tests/unit/fleet_fake.h"
#include "tests/unit/said.h"

#include "sys/file.h"

static char folder[] = "/tmp/test_input_resend.XXXXXX";
static struct screen notes;
static struct run run = {.id = "r-1"};
static struct config_input settings = {.mode = CONFIG_SHARDED, .order = "name", .deliver = "copy"};
static struct run_start_input inputs[3];
static struct run_start launch;
static struct follow_node follow_nodes[NODES];
static struct follow follow;
static struct input_resend resend;
static struct err e;

static void begin(void) {
    fake_fleet_begin("", "", "");
    timer_stop(&turn); // no node answers
    context.screen = &notes;
    for (size_t i = 0; i < NODES; i++) {
        nodes[i].ready = true;
        follow_nodes[i] = (struct follow_node){.follow = &follow, .node = &nodes[i], .index = i};
    }
    follow = (struct follow){
        .context = &context, .fleet = &fleet, .run = &run, .nodes = follow_nodes, .count = NODES};
    launch = (struct run_start){
        .context = &context, .inputs = inputs, .input_count = 3, .node_count = NODES};
    for (size_t i = 0; i < 3; i++) {
        inputs[i] = (struct run_start_input){.name = arena_printf(&arena, "in%zu", i),
                                             .config = &settings,
                                             .path = arena_printf(&arena, "inputs/%zu", i),
                                             .elastic = i > 0,
                                             .manifest = manifest_new()};
        for (int k = 0; k < 4; k++)
            if (manifest_add_bytes(inputs[i].manifest, arena_printf(&arena, "f%d", k), "x", 1, 0644,
                                   &e) < 0)
                bail_out("%s", e.text);
        if (manifest_hash(inputs[i].manifest, NULL, NULL, NULL, &e) < 0)
            bail_out("%s", e.text);
    }
    said_clear();
    input_resend_open(&resend, &launch, &follow);
}

static void end(void) {
    input_resend_close(&resend);
    ok(!resend.nodes && !resend.launch, "nothing is sent any more");
    input_resend_close(&resend);
    for (size_t i = 0; i < 3; i++)
        manifest_free(inputs[i].manifest);
    fake_fleet_end();
}

static void event(size_t node, const char *text) {
    struct json *j;
    if (json_parse(&arena, text, strlen(text), &j, &e) < 0)
        bail_out("%s", e.text);
    input_resend_node(&resend, &follow_nodes[node], j);
}

#define EVENT(input, nodes, rank)                                                                  \
    "{\"input\":\"" input "\",\"nodes\":" #nodes ",\"group_rank\":" #rank "}"

// The files of the share that is being sent.
static const char *share_of(size_t node) {
    const struct manifest *m = resend.nodes[node].share;
    const char *text = "";
    for (size_t i = 0; m && i < m->count; i++)
        if (m->entries[i].kind == MANIFEST_FILE)
            text = arena_printf(&arena, "%s%s%s", text, *text ? " " : "", m->entries[i].path);
    return text;
}

static int runs_of(size_t node) {
    int count = 0;
    for (struct fake_run *r = fake_runs; r; r = r->older)
        count += r->r.link == nodes[node].link && !r->is_closed;
    return count;
}

static void test_sent(void) {
    begin();
    event(1, EVENT("in2", 2, 1));
    const char *first = job_share_folder(&arena, "inputs/2", 2, 1);
    is_str(share_of(1), arena_printf(&arena, "%s/f1 %s/f3", first, first),
           "the share of two nodes is dealt anew");
    ok(runs_of(1) == 1 && runs_of(0) == 0 && runs_of(2) == 0, "one node alone gets files");
    has_str(said(), "sending files of input in2 to n1, since no node has them",
            "the user reads of it");
    char *text;
    size_t len;
    if (file_read(&arena, run_path(&context.cluster, &run, "events.jsonl"), 1 << 16, &text, &len,
                  &e) < 0)
        bail_out("%s", e.text);
    has_str(text, "\"kind\":\"input-sent-again\",\"peer\":\"n1\",\"input\":\"in2\"",
            "the event has the node and the input");
    event(1, EVENT("in1", 3, 0));
    const char *second = job_share_folder(&arena, "inputs/1", 3, 0);
    has_str(share_of(1), arena_printf(&arena, "%s/f0", second), "another round has another share");
    is_int(runs_of(1), 1, "the transfer of the round before is over");
    event(0, EVENT("in1", 3, 2));
    ok(runs_of(0) == 1 && runs_of(1) == 1, "two nodes may get files at a time");
    end();
}

static void test_failed(void) {
    begin();
    event(0, EVENT("in1", 1, 0));
    fake_exit(fake_run(0), 1);
    for (int i = 0; i < 100 && resend.nodes[0].xfer; i++)
        loop_once(context.loop, 10);
    ok(!resend.nodes[0].xfer && !resend.nodes[0].share, "a transfer that fails is over");
    has_str(said(), "cannot send the files of an input again", "the user reads a warning");
    said_clear();
    nodes[1].up = false;
    event(1, EVENT("in1", 1, 0));
    has_str(said(), "the node is out of reach", "a node that is away gets nothing");
    ok(!resend.nodes[1].share && runs_of(1) == 0, "the share of a node that is away is dropped");
    nodes[1].up = true;
    nodes[1].ready = false;
    event(1, EVENT("in1", 1, 0));
    is_int(runs_of(1), 0, "a node that is not ready gets nothing");
    nodes[1].ready = true;
    fake_refuses = 1;
    event(1, EVENT("in1", 1, 0));
    ok(!resend.nodes[1].xfer && !resend.nodes[1].share, "a transfer that cannot begin is dropped");
    end();
}

static void test_ignored(void) {
    static const char *const events[] = {
        EVENT("in0", 1, 0), EVENT("none", 1, 0), EVENT("in1", 0, 0),    EVENT("in1", 4, 0),
        EVENT("in1", 2, 2), EVENT("in1", 2, -1), "{\"input\":\"in1\"}", "{}"};
    begin();
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        event(2, events[i]);
        ok(runs_of(2) == 0 && !resend.nodes[2].share, "event %zu sends nothing", i);
    }
    inputs[1].remote = (struct input_remote *)(void *)&inputs; // its objects are not here
    event(2, EVENT("in1", 1, 0));
    is_int(runs_of(2), 0, "objects of servers are not sent");
    follow.replaying = true;
    event(2, EVENT("in2", 3, 0));
    is_int(runs_of(2), 0, "old events send nothing");
    follow.replaying = false;
    follow.stopping = true;
    event(2, EVENT("in2", 3, 0));
    is_int(runs_of(2), 0, "a run that stops gets nothing");
    follow.stopping = false;
    event(2, EVENT("in2", 3, 2));
    is_int(runs_of(2), 1, "the last node of a round gets its share");
    end();
    event(2, EVENT("in2", 3, 2));
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    fake_fleet_init();
    said_open(&notes);
    if (cluster_open(&context.cluster, &arena, folder, "c", &e) < 0 ||
        file_make_dirs(run_path(&context.cluster, &run, ""), 0700, &e) < 0)
        bail_out("%s", e.text);
    test_sent();
    test_failed();
    test_ignored();
    said_close(&notes);
    fake_fleet_fini();
    (void)file_remove_tree(folder, &e);
    return done_testing();
}
