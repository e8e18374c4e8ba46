// SPDX-License-Identifier: Apache-2.0
// Connections of a push, the operator's side: agents that stay, compression by distance, further
// connections to distant nodes and their loss.
#include "tests/unit/xfer/push_node.h"

// ---- agents that stay ---------------------------------------------------------------------------

static struct fake_run *park(const char *program, const char *root) {
    static const struct transport_run_events ignored = {.on_end = NULL};
    struct transport_run *r =
        transport_run(node_link, &(struct transport_command){.line = "agent"}, &ignored, NULL, &e);
    xfer_channel_park(r, program, root);
    return fake_run(0);
}

static void test_stays(const struct manifest *m) {
    static const unsigned char result[16] = {0};
    struct xfer_push_spec spec = spec_of(m);
    struct fake_run *agent = park("/r/bin/dtrun", "/r");
    begin(&spec);
    is_int(fake_run_count(), 1, "an agent that waits is used");
    while (fake_take(agent, SIZE_MAX))
        ;
    ok(agent->got.len > 5 && memcmp(agent->got.data, "push\n", 5) == 0,
       "the agent gets the verb first");
    say_hello(agent);
    say(agent, XFER_NEED_END, NULL, 0);
    say(agent, XFER_RESULT, result, 16);
    loop_once(loop, 0);
    is_int(end_err.code, ERR_NONE, "the push is a success");
    ok(!agent->is_closed && node_link->parked == &agent->r, "the agent waits again");
    ok(transport_round_trip_us(node_link) > 0, "the greeting of the agent shows the round trip");
    spec.root = "/other";
    begin(&spec);
    is_int(fake_run_count(), 2, "an agent of another folder is not used");
    is_str(fake_run(0)->line, "exec /r/bin/dtrun --node push --root /other",
           "another agent is started");
    fake_exit(fake_run(0), 1);
    reopen();
}

// ---- further connections ------------------------------------------------------------------------

// Whether a file that compresses well is compressed, for a node at this distance.
static bool compresses(int64_t round_trip_us, bool no_compress) {
    struct manifest *m = manifest_new();
    struct xfer_push_spec spec = spec_of(m);
    struct strbuf b = {0};
    if (manifest_add_path(m, path_of("src/flat"), "flat", NULL, &e) < 0 ||
        manifest_hash(m, NULL, NULL, NULL, &e) < 0)
        bail_out("%s", e.text);
    spec.no_compress = no_compress;
    transport_round_trip_seen(node_link, round_trip_us);
    struct xfer *x = begin(&spec);
    say_hello(fake_run(0));
    while (fake_take(fake_run(0), SIZE_MAX)) // the list
        ;
    xfer_put_need(&b, &(struct xfer_need){.units = (uint32_t)cas_unit_count(m->bytes)});
    say(fake_run(0), XFER_NEED, b.data, b.len);
    say(fake_run(0), XFER_NEED_END, NULL, 0);
    while (fake_take(fake_run(0), SIZE_MAX))
        ;
    size_t len = fake_run(0)->got.len;
    ok(len > 0 && ends == 0, "content was sent");
    xfer_cancel(x);
    strbuf_fini(&b);
    bool less = len < m->bytes / 2;
    ok(less || len > m->bytes, "the file is compressed or not");
    manifest_free(m);
    reopen();
    return less;
}

static void test_compression(void) {
    ok(!compresses(1, false), "nothing is compressed for a node that is near");
    ok(!compresses(XFER_FAR_US / 3 - 1, false), "a node below the limit is near");
    ok(compresses(XFER_FAR_US / 3, false), "content for a node at the limit is compressed");
    ok(!compresses(XFER_FAR_US / 3, true), "the option is honoured");
}

static int link_count(void) {
    int count = 0;
    for (struct fake_link *l = fake_links; l; l = l->older)
        count++;
    return count;
}

// How many further connections a push opens that has so many bytes to send.
static int extras_of(uint64_t bytes, int64_t round_trip_us, int connections) {
    struct manifest *m = manifest_new();
    struct manifest_entry n = {.path = "x", .kind = MANIFEST_FILE, .mode = 0644, .size = bytes};
    struct xfer_push_spec spec = spec_of(m);
    struct strbuf b = {0};
    n.source = path_of("src/big");
    n.hashed = true;
    if (manifest_append(m, &n, &e) < 0 || manifest_sort(m, &e) < 0)
        bail_out("%s", e.text);
    spec.connections = connections;
    transport_round_trip_seen(node_link, round_trip_us);
    struct xfer *x = begin(&spec);
    say_hello(fake_run(0));
    xfer_put_need(&b, &(struct xfer_need){.units = (uint32_t)cas_unit_count(bytes)});
    say(fake_run(0), XFER_NEED, b.data, b.len);
    say(fake_run(0), XFER_NEED_END, NULL, 0);
    int count = ends ? -1 : link_count() - 1;
    if (!ends)
        xfer_cancel(x);
    strbuf_fini(&b);
    manifest_free(m);
    reopen();
    return count;
}

static void test_extras(void) {
    enum { MB8 = 8 << 20 };
    is_int(extras_of(MB8 - 1, XFER_FAR_US, 0), 0, "less than 8 MiB need no further connection");
    is_int(extras_of(MB8, XFER_FAR_US, 0), 1, "8 MiB to a distant node get one more");
    is_int(extras_of(3 * MB8, XFER_FAR_US, 0), 3, "each 8 MiB get one more");
    is_int(extras_of(30ULL * MB8, XFER_FAR_US, 0), XFER_CONNECTIONS_DEFAULT - 1,
           "there are no more than by default");
    is_int(extras_of(30ULL * MB8, XFER_FAR_US - 1, 0), 0, "a node that is near gets none");
    is_int(extras_of(30ULL * MB8, XFER_FAR_US, 1), 0, "the option is honoured");
    is_int(extras_of(30ULL * MB8, XFER_FAR_US, 16), 15, "a push opens as many as there may be");
    is_int(extras_of(30ULL * MB8, XFER_FAR_US, 17), 15, "a push opens no more than that");
}

enum leaves { LEAVES_LAST, LEAVES_DONE, LEAVES_IN_THE_MIDDLE };

// Two connections share the content; the further one leaves when the push has ended, when its own
// part is done, or it is lost.
static void test_shared(const struct manifest *m, const char *dest, enum leaves leaves) {
    struct end n = {0}, more = {0};
    struct xfer_push_spec spec = spec_of(m);
    spec.connections = 2;
    spec.mode = XFER_REPLACE;
    transport_round_trip_seen(node_link, XFER_FAR_US);
    file_remove_tree(path_of("node-store"), &e);
    begin(&spec);
    n.run = fake_run(0);
    while (link_count() == 1 && !ends) {
        serve(&n, dest);
        loop_once(loop, 0);
    }
    is_int(link_count(), 2, "%s: a further connection is opened", dest);
    fake_up(&fake_links->l);
    more.run = fake_run(0);
    ok(more.run != n.run && str_eq(more.run->line, n.run->line),
       "%s: the connection has the same command", dest);
    for (int i = 0; i < 10000 && !ends; i++) {
        serve(&more, dest);
        if (leaves == LEAVES_IN_THE_MIDDLE && more.content_frames > 3) {
            transport_notify_down(&fake_links->l, &(struct err){ERR_NET, "lost"});
            leaves = LEAVES_LAST;
        } else if (leaves == LEAVES_DONE && more.got_done) {
            fake_exit(more.run, 0);
            ok(!ends && !fake_links->is_closed, "%s: a connection that is done may leave", dest);
            leaves = LEAVES_LAST;
        }
        serve(&n, dest);
        loop_once(loop, 0);
    }
    push_greeted(&more);
    ok(more.hello.extra && !more.hello.results[0],
       "%s: the connection says that it is a further one", dest);
    ok(more.content_frames > 3, "%s: the connection carries content", dest);
    is_int(leaves, LEAVES_LAST, "%s: the connection has left", dest);
    is_int(end_err.code, ERR_NONE, "%s: the push is a success: %s", dest, end_err.text);
    ok(same_tree("src", dest), "%s: the node has all files", dest);
    is_uint(last.bytes_done, last.bytes_total, "%s: all bytes are done", dest);
    ok(last.bytes_wire > 0 && last.bytes_wire < 2 * (n.run->got.len + more.run->got.len),
       "%s: bytes on the wire are counted", dest);
    ok(fake_links->is_closed, "%s: the further connection is closed", dest);
    close_end(&n);
    close_end(&more);
    reopen();
}

int main(void) {
    struct manifest *m = push_init();
    test_stays(m);
    test_compression();
    test_extras();
    test_shared(m, "shared", LEAVES_LAST);
    test_shared(m, "shared-done", LEAVES_DONE);
    test_shared(m, "shared-lost", LEAVES_IN_THE_MIDDLE);
    push_fini(m);
    return done_testing();
}
