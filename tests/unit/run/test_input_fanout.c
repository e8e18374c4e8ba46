// SPDX-License-Identifier: Apache-2.0
// Objects that every node gets: which node reads what, what is read again when a node fails, and
// what each one lacks in the end. Reads and transfers are the test's.
#include "run/inputs/input_fanout.h"
#include "tests/unit/fleet_fake.h"

#define HEAD "{\"folder\":true,\"ca\":\"\",\"ends\":9}\n"
#define LINE(path, size, id)                                                                       \
    "{\"path\":\"" path "\",\"name\":\"s3://b/" path "\",\"url\":\"u-" path "\",\"size\":" size    \
    ",\"etag\":\"e\",\"id\":\"" id "\"}\n"
#define ID1 "1111111111111111111111111111111111111111111111111111111111111111"
#define ID2 "2222222222222222222222222222222222222222222222222222222222222222"
#define ID3 "3333333333333333333333333333333333333333333333333333333333333333"

static struct run_start l;
static struct strbuf done; // the steps
static struct err e;
static bool can_share;
static int fails_at[NODES]; // this read of a node fails, 1: its first one; 0: none
static int reads_of[NODES];
static bool fails_early[NODES];  // the node fails as a whole
static const char *lacks[NODES]; // "1" for each file that no node could give, "0" otherwise
static size_t lacked[NODES];
static bool share_fails;

// The objects of a list, with "!" where the content is named.
static void list_text(const struct input_remote_list *list) {
    const char *text = strbuf_cstr(list->input);
    if (!str_starts(text, HEAD))
        fail("a list has its head");
    for (const char *at = text; (at = strstr(at, "\"url\":\"u-")); at++) {
        const char *hash = strstr(at, "sha256");
        bool known = hash && hash < at + strcspn(at, "\n");
        strbuf_addf(&done, "%.1s%s", at + 9, known ? "!" : "");
    }
}

int test_input_remote_read(struct run_start *start, struct fleet *f,
                           struct input_remote_list *lists,
                           struct err *why) __asm__("input_remote_read");

int test_input_remote_read(struct run_start *start, struct fleet *f,
                           struct input_remote_list *lists, struct err *why) {
    (void)start, (void)why;
    strbuf_adds(&done, "read");
    for (size_t n = 0; n < f->count; n++) {
        struct input_remote_list *list = &lists[n];
        if (f->nodes[n].failed || list->count == 0)
            continue;
        strbuf_addf(&done, " n%zu:", n);
        list_text(list);
        struct err failed = {0};
        err_set(&failed, ERR_NET, "no server");
        if (fails_early[n])
            fleet_fail(&f->nodes[n], &failed);
        else if (++reads_of[n] == fails_at[n] && list->tolerant)
            list->why = failed;
        else if (reads_of[n] == fails_at[n])
            fleet_fail(&f->nodes[n], &failed);
        else
            for (size_t i = 0; i < list->count; i++)
                list->came[list->entries ? list->entries[i] : i] = true;
    }
    strbuf_adds(&done, "; ");
    return 0;
}

bool fleet_can_share(const struct fleet *f) {
    (void)f;
    return can_share;
}

int test_fleet_share_manifest(struct fleet *f, const char *operation, struct manifest *m,
                              const char *dest, struct xfer_peers *peers,
                              struct transfer_totals *totals,
                              struct err *why) __asm__("fleet_share_manifest");

int test_fleet_share_manifest(struct fleet *f, const char *operation, struct manifest *m,
                              const char *dest, struct xfer_peers *peers,
                              struct transfer_totals *totals, struct err *why) {
    (void)m, (void)dest;
    strbuf_addf(&done, "%s; ", operation);
    for (size_t n = 0; n < f->count; n++) {
        peers[n].lacked = lacked[n];
        for (size_t i = 0; lacks[n][i]; i++)
            peers[n].lacks[i] = lacks[n][i] == '1';
    }
    totals->bytes = 55;
    return share_fails ? err_set(why, ERR_NET, "cut") : 0;
}

int test_fleet_send_manifests(struct fleet *f, const char *operation,
                              struct manifest *const *manifests, const char *dest,
                              enum xfer_mode mode, struct transfer_totals *totals,
                              struct err *why) __asm__("fleet_send_manifests");

int test_fleet_send_manifests(struct fleet *f, const char *operation,
                              struct manifest *const *manifests, const char *dest,
                              enum xfer_mode mode, struct transfer_totals *totals,
                              struct err *why) {
    (void)dest, (void)mode, (void)why;
    strbuf_addf(&done, "%s", operation);
    for (size_t n = 0; n < f->count; n++)
        if (manifests[n])
            strbuf_addf(&done, " n%zu", n);
    strbuf_adds(&done, "; ");
    totals->files = 3;
    return 0;
}

// ---- a run --------------------------------------------------------------------------------------

static void begin(void) {
    static struct input_remote from;
    struct manifest *all = manifest_new();
    fake_fleet_begin("", "", "");
    timer_stop(&turn);
    l = (struct run_start){.context = &context};
    from = (struct input_remote){.folder = false};
    if (input_remote_parse(&arena,
                           HEAD LINE("c", "300", ID1) LINE("a", "500", ID2)
                               LINE("b", "400", ID3) "{\"end\":3}\n",
                           &from, all, &e) < 0)
        bail_out("%s", e.text);
    for (size_t i = 0; i < all->count; i++)
        if (input_fanout_add(&l, &from, &all->entries[i],
                             arena_printf(&arena, "in/%s", all->entries[i].path), &e) < 0)
            bail_out("%s", e.text);
    manifest_free(all);
    for (size_t i = 0; i < NODES; i++) {
        fails_at[i] = reads_of[i] = 0;
        fails_early[i] = false;
        lacks[i] = "000";
        lacked[i] = 0;
    }
    can_share = true;
    share_fails = false;
    strbuf_clear(&done);
    err_clear(&e);
}

static void end(void) {
    input_fanout_close(&l);
    ok(!input_fanout_files(&l), "nothing is left of the files");
    fake_fleet_end();
}

static void test_shares(void) {
    begin();
    const struct manifest *m = input_fanout_files(&l);
    ok(m && m->count == 3, "every node gets three files");
    is_int(input_fanout_send(&l, &fleet, &e), 0, "the files are sent: %s", e.text);
    is_str(strbuf_cstr(&done), "read n0:a n1:b n2:c; share; ",
           "each node reads a part, then all give theirs to each other");
    is_str(m->entries[0].path, "in/a", "the files are in order");
    is_int((int)l.passed_on, 55, "the bytes that nodes gave are counted");
    end();
    begin();
    lacked[1] = 2;
    lacks[1] = "001";
    input_fanout_send(&l, &fleet, &e);
    is_str(strbuf_cstr(&done), "read n0:a n1:b n2:c; share; read n1:a!b!c!; place n1; ",
           "a node that got something has its content named, and reads what it lacks");
    end();
    begin();
    lacked[2] = 1;
    input_fanout_send(&l, &fleet, &e);
    is_str(strbuf_cstr(&done), "read n0:a n1:b n2:c; share; read n2:a!b!c!; ",
           "a node that lacks nothing in the end places nothing more");
    end();
    begin();
    lacked[2] = 1;
    lacks[2] = "111";
    share_fails = true;
    is_int(input_fanout_send(&l, &fleet, &e), -1, "a failure on this side ends the step");
    is_str(strbuf_cstr(&done), "read n0:a n1:b n2:c; share; ", "nothing is read behind a failure");
    end();
}

static void test_failures(void) {
    begin();
    fails_at[0] = 1;
    input_fanout_send(&l, &fleet, &e);
    is_str(strbuf_cstr(&done), "read n0:a n1:b n2:c; read n1:a; share; ",
           "another node reads what a node could not");
    ok(!nodes[0].failed, "a node that could not read gets all from the others");
    end();
    begin();
    fails_early[1] = true;
    input_fanout_send(&l, &fleet, &e);
    has_str(strbuf_cstr(&done), "read n0:a n1:b n2:c; read n0:b; share; ",
            "another node reads the part of a node that has failed");
    ok(nodes[1].failed && !nodes[0].failed, "the node that has failed stays failed");
    end();
    begin();
    fails_at[0] = fails_at[1] = 1;
    fails_at[2] = 2;
    input_fanout_send(&l, &fleet, &e);
    is_str(strbuf_cstr(&done), "read n0:a n1:b n2:c; read n2:ab; share; ",
           "a file is split as long as a node can read");
    ok(nodes[0].failed && nodes[1].failed && nodes[2].failed,
       "a file that none can read fails all");
    is_str(nodes[2].err.text, "no server", "a node that tried has its own reason");
    end();
    begin();
    fails_early[0] = true;
    fails_at[1] = 1;
    fails_at[2] = 2;
    input_fanout_send(&l, &fleet, &e);
    ok(nodes[1].failed && nodes[2].failed, "nodes without a file fail");
    end();
}

static void test_alone(void) {
    begin();
    can_share = false;
    is_int(input_fanout_send(&l, &fleet, &e), 0, "nodes that cannot share are sent their files");
    is_str(strbuf_cstr(&done), "read n0:abc n1:abc n2:abc; place n0 n1 n2; ",
           "each node reads and places all files");
    is_int((int)l.sent.files, 3, "the files are counted");
    end();
    begin();
    can_share = false;
    fails_at[1] = 1;
    input_fanout_send(&l, &fleet, &e);
    ok(nodes[1].failed && !nodes[0].failed, "a node that cannot read fails alone");
    end();
    l = (struct run_start){.context = &context};
    strbuf_clear(&done);
    is_int(input_fanout_send(&l, &fleet, &e), 0, "a run without such files sends none");
    is_str(strbuf_cstr(&done), "", "a run without such files reads nothing");
    input_fanout_close(&l);
}

int main(void) {
    fake_fleet_init();
    test_shares();
    test_failures();
    test_alone();
    strbuf_fini(&done);
    fake_fleet_fini();
    return done_testing();
}
