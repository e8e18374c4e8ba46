// SPDX-License-Identifier: Apache-2.0
// Objects that all nodes read at once: whose part a node reads, failures that are none of the node,
// counts, and the files that are put into place then. The test is the nodes; transfers are
// stand-ins.
#include "run/inputs/input_remote.h"

#include "fleet/embedded_files.h"
#include "run/inputs/input_fanout.h"
#include "tests/unit/fleet_fake.h"
#include "tests/unit/said.h"

#define H1 "1111111111111111111111111111111111111111111111111111111111111111"
#define H2 "2222222222222222222222222222222222222222222222222222222222222222"
#define LINE(path)                                                                                 \
    "{\"path\":\"" path "\",\"name\":\"s3://b/" path "\",\"url\":\"u\",\"size\":1,\"etag\":\"e\"," \
    "\"id\":\"" H1 "\"}\n"
#define HASH(i, hex)     "{\"i\":" #i ",\"sha256\":\"" hex "\"}\n"
#define END(read, again) "{\"end\":true,\"read\":" #read ",\"again\":" #again "}\n"

static struct screen notes;
static struct run_start launch;
static struct input_remote from;
static struct manifest *listed;
static struct err e;

const struct embed_file embed_files[] = {{.name = "dtdata", .sha256 = "00112233445566778899"},
                                         {.name = NULL}};

// ---- in place of transfers ----------------------------------------------------------------------

static const char *calls; // "place NODE:PATH=HASH,… …; fanout; "
static bool place_fails, fanout_fails;

int fleet_send_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, enum xfer_mode mode, struct transfer_totals *totals,
                         struct err *err) {
    if (f != &fleet || *dest || mode != XFER_MERGE || totals != &launch.sent)
        bail_out("files are placed elsewhere");
    calls = arena_printf(&arena, "%s%s", calls, operation);
    for (size_t n = 0; n < NODES; n++)
        for (size_t i = 0; manifests[n] && i < manifests[n]->count; i++)
            calls =
                arena_printf(&arena, "%s%s%s=%x", calls, i ? "," : arena_printf(&arena, " %zu:", n),
                             manifests[n]->entries[i].path, manifests[n]->entries[i].hash[31]);
    calls = arena_printf(&arena, "%s; ", calls);
    return place_fails ? err_set(err, ERR_INTERRUPTED, "stopped") : 0;
}

int input_fanout_send(struct run_start *l, struct fleet *f, struct err *err) {
    (void)l, (void)f;
    calls = arena_printf(&arena, "%sfanout; ", calls);
    return fanout_fails ? err_set(err, ERR_INTERRUPTED, "stopped") : 0;
}

// ---- a run --------------------------------------------------------------------------------------

// Adds an object to the part of a node.
static void add(size_t node, const char *path) {
    const struct manifest_entry *x = &listed->entries[manifest_lower_bound(listed, path)];
    if (input_remote_add(&launch, node, &from, x, arena_printf(&arena, "in/%s", path), &e) < 0)
        bail_out("%s", e.text);
}

static void begin(const char *n0, const char *n1, const char *n2) {
    fake_fleet_begin(n0, n1, n2);
    context.screen = &notes;
    launch = (struct run_start){.context = &context, .node_count = NODES};
    calls = "";
    place_fails = fanout_fails = false;
    said_clear();
    err_clear(&e);
}

// Node 0 has the objects b and a, node 2 the object c.
static void begin_parts(const char *n0, const char *n1, const char *n2) {
    begin(n0, n1, n2);
    add(0, "b");
    add(0, "a");
    add(2, "c");
}

static void end(void) {
    input_remote_close(&launch);
    fake_fleet_end();
}

static const char *input_of(int back) {
    while (fake_take(fake_run(back), SIZE_MAX))
        ;
    return strbuf_cstr(&fake_run(back)->got);
}

#define TWO HASH(0, H2) HASH(1, H1) END(7, 0)
#define ONE HASH(0, H2) END(3, 1)

static void test_own(void) {
    begin("", "", "");
    is_int(input_remote_send(&launch, &fleet, &e), 0, "a run without objects reads nothing");
    is_str(calls, "", "nothing is placed without objects");
    end();
    begin_parts(TWO, "", ONE);
    is_int(input_remote_send(&launch, &fleet, &e), 0, "each node reads its part: %s", e.text);
    is_int(fake_run_count(), 2, "a node without a part reads nothing");
    is_str(input_of(1), "{\"folder\":true}\n" LINE("b") LINE("a") INPUT_REMOTE_END,
           "a node has its objects in the order in which they were added");
    is_str(calls, "place 0:in/a=11,in/b=22 2:in/c=22; fanout; ",
           "files are placed by the hashes that came");
    is_str(said(), "inputs   nodes read 10 B, 1 request was made again\n",
           "the user reads how much was read");
    ok(launch.downloaded == 10 && launch.again == 1, "bytes and requests are added up");
    ok(!nodes[1].failed && !nodes[0].work, "a node without a part is well, and no node has work");
    is_str(launch.remote[0].files->entries[0].path, "in/a", "the part is sorted in the end");
    end();
    begin_parts(TWO, "", ONE);
    launch.elastic = true;
    is_int(input_remote_send(&launch, &fleet, &e), 0, "elastic parts are sent by others");
    is_str(calls, "fanout; ", "no elastic part is read here");
    end();
}

static void test_notes(void) {
    begin("", "", "");
    launch.shared = (struct input_fanout *)(void *)&launch; // not looked at
    launch.passed_on = 2048;
    launch.again = 2;
    is_int(input_remote_send(&launch, &fleet, &e), 0, "objects that every node gets are sent");
    is_str(calls, "fanout; ", "shared objects alone are read");
    is_str(said(),
           "inputs   nodes read 0 B and gave each other 2.0 kB, 2 requests were made again\n",
           "the user reads how much was passed on");
    end();
    begin("", "", "");
    launch.shared = (struct input_fanout *)(void *)&launch;
    is_int(input_remote_send(&launch, &fleet, &e), 0, "nothing has to be made again");
    is_str(said(), "inputs   nodes read 0 B\n", "the user reads no more than there is");
    fanout_fails = true;
    said_clear();
    is_int(input_remote_send(&launch, &fleet, &e), -1, "a failure of shared objects is one");
    is_str(said(), "", "the user reads nothing of a failure");
    end();
}

static void test_failures(void) {
    begin_parts("!not-found", "", ONE);
    is_int(input_remote_send(&launch, &fleet, &e), 0, "a failure is kept per node");
    ok(nodes[0].failed && !nodes[2].failed, "the node that failed has failed");
    is_str(nodes[0].err.text, "why", "the node has its error");
    is_str(calls, "place 2:in/c=22; fanout; ", "a failed node is given nothing");
    is_str(said(), "", "nothing is said of reads that failed");
    end();
    begin_parts(TWO, "", ONE);
    place_fails = true;
    is_int(input_remote_send(&launch, &fleet, &e), -1, "a stopped placement is an error");
    is_str(calls, "place 0:in/a=11,in/b=22 2:in/c=22; ", "no more is done then");
    end();
}

static void test_parts(void) {
    static const size_t parts[] = {2, SIZE_MAX, NODES}, none[] = {1, SIZE_MAX, SIZE_MAX};
    begin_parts(ONE, "", "");
    is_int(input_remote_send_parts(&launch, &fleet, parts, &e), 0, "a node reads another's part");
    is_int(fake_run_count(), 1, "nodes without a part read nothing");
    is_str(input_of(0), "{\"folder\":true}\n" LINE("c") INPUT_REMOTE_END,
           "the node gets the list of the part");
    is_str(calls, "place 0:in/c=22; ", "the node places the part");
    end();
    begin_parts("", "", "");
    is_int(input_remote_send_parts(&launch, &fleet, none, &e), 0, "a part may be empty");
    ok(fake_run_count() == 0 && !*calls, "empty parts are neither read nor placed");
    end();
}

static void test_tolerant(void) {
    struct input_remote_list lists[NODES] = {{.tolerant = true}};
    begin_parts("!not-found", "", END(1, 0));
    for (size_t i = 0; i < NODES; i++)
        lists[i] = (struct input_remote_list){.input = &launch.remote[i].input,
                                              .files = launch.remote[i].files,
                                              .count = launch.remote[i].files->count,
                                              .tolerant = true};
    is_int(input_remote_read(&launch, &fleet, lists, &e), 0, "lists are read: %s", e.text);
    ok(!nodes[0].failed, "a failure of dtdata may be none of the node");
    ok(lists[0].why.code == ERR_NOT_FOUND && strcmp(lists[0].why.text, "why") == 0,
       "the reason is kept: %s", lists[0].why.text);
    ok(nodes[2].failed && !lists[2].why.code, "a node without an answer has failed all the same");
    end();
}

int main(void) {
    fake_fleet_init();
    screen_fini(&screen);
    said_open(&notes);
    listed = manifest_new();
    if (input_remote_parse(&arena,
                           "{\"folder\":true}\n" LINE("a") LINE("b") LINE("c") "{\"end\":3}\n",
                           &from, listed, &e) < 0 ||
        manifest_sort(listed, &e) < 0)
        bail_out("%s", e.text);
    test_own();
    test_notes();
    test_failures();
    test_parts();
    test_tolerant();
    manifest_free(listed);
    said_close(&notes);
    loop_close(context.loop);
    arena_fini(&arena);
    return done_testing();
}
