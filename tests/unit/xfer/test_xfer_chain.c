// SPDX-License-Identifier: Apache-2.0
// Receivers in a chain of nodes: content comes that one of them has already, is cut, and comes
// again.
#include "tests/unit/xfer/memory.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

static void open_with(struct run *t, const struct manifest *m, const char *dest, bool peers) {
    struct receive_config config = {.dest = path_of(dest),
                                    .store = path_of(arena_printf(&arena, "%s-store", dest)),
                                    .replace = !peers,
                                    .peers = peers,
                                    .keep = true,
                                    .acks = true};
    if (xfer_receive_open(&t->r, &config, &t->err) < 0 || run_list(t, m) < 0)
        bail_out("%s", t->err.text);
}

static void open_run(struct run *t, const struct manifest *m, const char *dest) {
    open_with(t, m, dest, false);
}

static void close_run(struct run *t) {
    xfer_receive_close(&t->r);
    xfer_send_plan_fini(&t->plan);
    xfer_unpacker_fini(&t->to_r);
    xfer_unpacker_fini(&t->to_s);
    strbuf_fini(&t->forth);
    strbuf_fini(&t->back);
}

// Sends up to frames_max content frames of the plan, then the end of the relay. The plan of t is
// then what t still lacks.
static void relay(struct run *t, struct send_plan *plan, size_t frames_max) {
    struct send_stream s;
    xfer_send_stream_init(&s, plan, false);
    for (size_t n = 0; n < frames_max && xfer_send_stream_fill(&s, &t->forth, true, &t->err) > 0;
         n++)
        ;
    xfer_send_stream_fini(&s);
    xfer_wire_frame(&t->forth, XFER_RELAY_END, NULL, 0);
    int rc = deliver(t);
    xfer_send_plan_fini(&t->plan);
    xfer_send_plan_init(&t->plan, plan->m);
    t->ready = false;
    is_int(rc < 0 || answer(t, NULL) < 0, 0, "the receiver accepts a relay: %s", t->err.text);
}

// A chain of two nodes: one lacks all, the other has a part. Content that any of them lacks passes
// both.
static void test_relay(const struct manifest *m) {
    struct run part = {.frames_max = 24};
    (void)transfer(&part, m, "relay-b", "relay-b-store", true, true);
    (void)plan_bytes(&part);
    struct run a = {0}, b = {0};
    open_run(&a, m, "relay-a");
    open_run(&b, m, "relay-b");
    ok(b.plan.bytes < a.plan.bytes, "one node lacks less than the other");
    for (size_t cut = 30;; cut = SIZE_MAX) {
        struct send_plan all;
        const struct send_plan *plans[] = {&b.plan, &a.plan};
        uint64_t more = a.plan.bytes > b.plan.bytes ? a.plan.bytes : b.plan.bytes;
        xfer_send_plan_init(&all, m);
        xfer_send_plan_unite(&all, plans, 2);
        ok(all.bytes >= more && all.bytes <= a.plan.bytes + b.plan.bytes,
           "a chain carries what any of its nodes lacks");
        struct send_plan second;
        xfer_send_plan_init(&second, m);
        xfer_send_plan_unite(&second, plans, 2);
        is_uint(second.bytes, all.bytes, "the same plans unite to the same plan");
        xfer_send_plan_ready(&all);
        xfer_send_plan_ready(&second);
        relay(&a, &all, cut);
        relay(&b, &second, cut);
        xfer_send_plan_fini(&all);
        xfer_send_plan_fini(&second);
        if (cut == SIZE_MAX)
            break;
        ok(a.ready && a.plan.files > 0, "a relay that was cut leaves a list of lacking files");
        xfer_wire_frame(&b.forth, XFER_ENTRIES_END, NULL, 0);
        is_int(deliver(&b), -1, "a list in the middle of the content is refused");
        close_run(&b);
        b = (struct run){0};
        open_run(&b, m, "relay-b");
    }
    ok(a.result && b.result, "both nodes finish after the second relay");
    is_uint(a.plan.files + b.plan.files, 0, "neither node lacks anything");
    close_run(&a);
    close_run(&b);
    ok(same_tree("src", "relay-a") && same_tree("src", "relay-b"), "both nodes have all files");
}

// Content that is on nodes alone: damage on the way is noticed at the end of the relay, and the
// node asks again for just what was damaged. DONE ends the transfer also when files are lacking.
static void test_peers(const struct manifest *m) {
    struct run t = {0};
    open_with(&t, m, "peers", true);
    for (int round = 0; round < 2; round++) {
        struct send_plan all;
        const struct send_plan *plans[] = {&t.plan};
        struct send_stream s;
        size_t frames = 0;
        uint64_t lacking = t.plan.bytes;
        xfer_send_plan_init(&all, m);
        xfer_send_plan_unite(&all, plans, 1);
        xfer_send_plan_ready(&all);
        xfer_send_stream_init(&s, &all, false);
        for (size_t from = 0; xfer_send_stream_fill(&s, &t.forth, false, &t.err) > 0; frames++) {
            if (round == 0 && frames % 2 == 0)
                t.forth.data[t.forth.len - 1] ^= 1; // of the last content in the frame
            must(t.forth.len > from);
            from = t.forth.len;
        }
        xfer_send_stream_fini(&s);
        xfer_send_plan_fini(&all);
        xfer_wire_frame(&t.forth, XFER_RELAY_END, NULL, 0);
        int rc = deliver(&t);
        xfer_send_plan_fini(&t.plan);
        xfer_send_plan_init(&t.plan, m);
        t.ready = false;
        is_int(rc < 0 || answer(&t, NULL) < 0, 0, "damage ends no transfer: %s", t.err.text);
        ok(t.ready && !t.result, "the node waits for more");
        if (round == 0)
            ok(t.plan.files > 0 && t.plan.bytes < lacking,
               "the node lacks the damaged files alone");
    }
    is_uint(t.plan.files, 0, "the second relay brings the rest");
    xfer_wire_frame(&t.forth, XFER_DONE, NULL, 0);
    is_int(deliver(&t) < 0 || answer(&t, NULL) < 0, 0, "the files are put into place");
    ok(t.result && same_tree("src", "peers"), "the node has all files");
    close_run(&t);

    struct run none = {0};
    open_with(&none, m, "none", true);
    xfer_wire_frame(&none.forth, XFER_DONE, NULL, 0);
    is_int(deliver(&none) < 0 || answer(&none, NULL) < 0, 0, "a transfer ends without its files");
    ok(none.result, "the end without files has a result");
    close_run(&none);
}

// Sends one content frame after the other of what t lacks; damages frame number `bad`.
static void send_content(struct run *t, size_t bad) {
    struct send_stream s;
    xfer_send_plan_ready(&t->plan);
    xfer_send_stream_init(&s, &t->plan, false);
    for (size_t n = 0; xfer_send_stream_fill(&s, &t->forth, false, &t->err) > 0; n++) {
        if (n == bad)
            t->forth.data[t->forth.len - 1] ^= 1;
        if (deliver(t) < 0)
            bail_out("%s", t->err.text);
    }
    xfer_send_stream_fini(&s);
}

// The bytes of a file are on their way to disk: 1, only in memory: 0, the file system does not say:
// -1. File systems choose blocks when they begin to write.
static int is_written(const char *path) {
    enum { EXTENTS_MAX = 64 };
    struct fiemap *f = heap_alloc(sizeof *f + EXTENTS_MAX * sizeof *f->fm_extents);
    f->fm_length = FIEMAP_MAX_OFFSET;
    f->fm_extent_count = EXTENTS_MAX;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    int result = fd < 0 || ioctl(fd, FS_IOC_FIEMAP, f) < 0 ? -1 : f->fm_mapped_extents > 0;
    for (unsigned i = 0; result > 0 && i < f->fm_mapped_extents; i++)
        if (f->fm_extents[i].fe_flags & FIEMAP_EXTENT_DELALLOC)
            result = 0;
    free(f);
    return result;
}

// The sync at the end is short, since all but small files are on their way to disk by then.
static void check_written(struct run *t, const struct manifest *m) {
    const struct manifest_entry *n = &m->entries[manifest_lower_bound(m, "big")];
    int copy = is_written(path_of("early/big"));
    int object = is_written(cas_object_path(&t->r.cas, n->hash));
    if (copy < 0 || object < 0) {
        skip(2, "the file system does not say which blocks it has chosen");
        return;
    }
    is_int(object, 1, "the content is being written to disk before it ends");
    is_int(copy, 1, "the file is being written to disk before the content ends");
}

// Files are in place before the content ends: those that came, and those of the store, of which
// each frame brings one. A damaged file is not.
static void test_early(const struct manifest *m) {
    static const char *const names[] = {"big",  "copy/big", "edge",  "edge1",
                                        "unit", "flat",     "empty", "many/0/0"};
    struct err e;
    struct run t = {0};
    open_with(&t, m, "early", true);
    send_content(&t, SIZE_MAX);
    is_int(t.r.phase, RECEIVE_CONTENT, "the content has not ended");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ok(same_file(arena_printf(&arena, "src/%s", names[i]),
                     arena_printf(&arena, "early/%s", names[i])),
           "%s is in place before the content ends", names[i]);
    check_written(&t, m);
    close_run(&t);

    const unsigned char *hash = m->entries[manifest_lower_bound(m, "unit1")].hash;
    if (file_remove_tree(path_of("early"), &e) < 0)
        bail_out("%s", e.text);
    t = (struct run){0};
    open_with(&t, m, "early", true);
    is_uint(t.plan.files, 0, "a node that has all content in its store lacks nothing");
    if (unlink(cas_object_path(&t.r.cas, hash)) < 0)
        bail_out("unlink");
    close_run(&t);
    t = (struct run){0};
    open_with(&t, m, "early", true);
    is_uint(t.plan.files, 1, "the node lacks the file that its store has lost");
    ok(!file_exists(path_of("early/big")), "nothing is in place before content comes");
    send_content(&t, 3);
    ok(same_file("src/big", "early/big") && same_file("src/flat", "early/flat"),
       "content of the store is put into place while other content comes");
    ok(!file_exists(path_of("early/unit1")), "a damaged file is not put into place");
    xfer_wire_frame(&t.forth, XFER_RELAY_END, NULL, 0);
    xfer_send_plan_fini(&t.plan);
    xfer_send_plan_init(&t.plan, m);
    is_int(deliver(&t) < 0 || answer(&t, NULL) < 0, 0, "damage ends no transfer: %s", t.err.text);
    is_uint(t.plan.files, 1, "the node asks for the damaged file again");
    close_run(&t);
}

int main(void) {
    struct err e;
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    make_tree();
    struct manifest *m = scan("src");
    test_relay(m);
    test_peers(m);
    test_early(m);
    manifest_free(m);
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    arena_fini(&arena);
    return done_testing();
}
