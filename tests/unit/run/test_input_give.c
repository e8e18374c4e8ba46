// SPDX-License-Identifier: Apache-2.0
// Shares whose content other nodes have in results: the nodes that look, the nodes that are given
// to, and bounds of bytes. Transfers are stand-ins.
#include "run/inputs/input_give.h"

#include "tests/tap.h"

#include <string.h>

enum { NODES = 3, ENTRIES_MAX = 8, MIB = 1 << 20 };

static struct arena a;
static struct context context = {.arena = &a};
static struct inventory_node info[NODES];
static struct fleet_node nodes[NODES];
static struct fleet fleet = {.context = &context, .nodes = nodes, .count = NODES};
static struct run_start launch;
static struct manifest *all[NODES];
static struct xfer_peers peers[NODES];
static struct err e;

// ---- in place of transfers ----------------------------------------------------------------------

static bool can_share, look_fails;
static const char *has[NODES]; // paths of lacked files that the results of a node have
static const char *calls;      // "look PATH…; give NODE PATH…; …"
static int gives_before_failure;
static bool receiver_fails;

static const char *paths_of(const struct manifest *m) {
    const char *text = "";
    for (size_t i = 0; i < m->count; i++)
        text = arena_printf(&a, "%s %s", text, m->entries[i].path);
    return text;
}

bool fleet_can_share(const struct fleet *f) {
    (void)f;
    return can_share;
}

int fleet_find_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, const char *const *results, struct xfer_peers *peers_of,
                         struct transfer_totals *totals, struct err *err) {
    (void)f, (void)totals;
    ok(strcmp(operation, "look") == 0 && !*dest && results == launch.results,
       "the results of each node are looked through");
    calls = arena_printf(&a, "%slook%s; ", calls, paths_of(manifests[0]));
    for (size_t n = 0; n < NODES; n++)
        for (size_t i = 0; i < manifests[n]->count; i++)
            peers_of[n].lacks[i] = !strstr(has[n], manifests[n]->entries[i].path);
    return look_fails ? err_set(err, ERR_INTERRUPTED, "stopped") : 0;
}

int fleet_share_manifest(struct fleet *f, const char *operation, struct manifest *m,
                         const char *dest, struct xfer_peers *peers_of,
                         struct transfer_totals *totals, struct err *err) {
    size_t to = NODES;
    (void)totals;
    ok(strcmp(operation, "give") == 0 && !*dest, "content is given, and put nowhere");
    for (size_t n = 0; n < NODES; n++)
        if (!peers_of[n].gives)
            to = to == NODES ? n : NODES + 1;
    calls = arena_printf(&a, "%sgive %zu%s; ", calls, to, paths_of(m));
    if (to >= NODES)
        bail_out("one node is given to");
    for (size_t i = 0; i < m->count; i++)
        peers_of[to].lacks[i] = false;
    f->nodes[to].failed = receiver_fails;
    return gives_before_failure-- == 0 ? err_set(err, ERR_INTERRUPTED, "stopped") : 0;
}

int fleet_send_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, enum xfer_mode mode, struct transfer_totals *totals,
                         struct err *err) {
    (void)f, (void)operation, (void)manifests, (void)dest, (void)mode, (void)totals, (void)err;
    bail_out("nothing is sent");
}

int fleet_send_manifest(struct fleet *f, const char *operation, const struct manifest *m,
                        const char *dest, enum xfer_mode mode, struct err *err) {
    (void)f, (void)operation, (void)m, (void)dest, (void)mode, (void)err;
    bail_out("nothing is sent");
}

int fleet_transfer_each(struct fleet *f, const char *operation, fleet_transfer_start *start,
                        void *ctx, struct transfer_totals *totals, struct err *err) {
    (void)f, (void)operation, (void)start, (void)ctx, (void)totals, (void)err;
    bail_out("nothing is sent");
}

// ---- shares -------------------------------------------------------------------------------------

// A file of a node's share, which the node lacks or has.
static void add(size_t node, const char *path, uint64_t bytes, bool lacks) {
    struct manifest_entry x = {
        .path = path, .kind = MANIFEST_FILE, .mode = 0644, .size = bytes, .hashed = true};
    peers[node].lacks[all[node]->count] = lacks;
    if (manifest_append(all[node], &x, &e) < 0)
        bail_out("%s", e.text);
}

static void begin(void) {
    static const char *const results[] = {"r-1/output", NULL};
    launch = (struct run_start){.context = &context, .results = (const char **)results};
    for (size_t n = 0; n < NODES; n++) {
        info[n].name = arena_printf(&a, "n%zu", n);
        nodes[n] = (struct fleet_node){.fleet = &fleet, .index = n, .info = &info[n]};
        peers[n] = (struct xfer_peers){.lacks = arena_new(&a, bool, ENTRIES_MAX)};
        all[n] = manifest_new();
        has[n] = "";
    }
    can_share = true;
    look_fails = receiver_fails = false;
    gives_before_failure = NODES;
    calls = "";
    err_clear(&e);
}

static void gives(const char *about, int want, const char *want_calls) {
    is_int(input_give_shares(&launch, &fleet, all, peers, &e), want, "%s: %s", about, e.text);
    is_str(calls, want_calls, "%s: transfers are as expected", about);
    for (size_t n = 0; n < NODES; n++)
        manifest_free(all[n]);
}

static void two_receivers(void) {
    begin();
    add(0, "a", 3 * MIB, true);
    add(0, "b", 9 * MIB, false);
    add(0, "c", 3 * MIB, true);
    add(2, "d", 5 * MIB, true);
    has[1] = "0/0 0/2 2/0";
}

static void test_receivers(void) {
    two_receivers();
    gives("two nodes lack content", 0, "look 0/0 0/2 2/0; give 0 a b c; give 2 d; ");
    ok(!peers[0].lacks[0] && !peers[0].lacks[2] && !peers[2].lacks[0],
       "nodes that were given to lack less");
    two_receivers();
    has[1] = "0/0 2/0";
    gives("too little of a share is elsewhere", 0, "look 0/0 0/2 2/0; give 2 d; ");
    ok(peers[0].lacks[0] && peers[0].lacks[2], "the other node lacks its files as before");
    two_receivers();
    has[1] = "";
    has[2] = "0/0";
    has[0] = "0/2";
    gives("two nodes have a part each", 0, "look 0/0 0/2 2/0; give 0 a b c; ");
    two_receivers();
    receiver_fails = true;
    gives("receivers fail", 0, "look 0/0 0/2 2/0; give 0 a b c; give 2 d; ");
    ok(peers[0].lacks[0] && peers[2].lacks[0], "a node that fails lacks its files as before");
}

static void test_bounds(void) {
    begin();
    add(1, "a", 4 * MIB, true);
    has[0] = "1/0";
    gives("four MiB are enough", 0, "look 1/0; give 1 a; ");
    begin();
    add(1, "a", 4 * MIB - 1, true);
    has[0] = "1/0";
    gives("a byte less is sent from here", 0, "");
    begin();
    add(0, "a", 2 * MIB, true);
    add(1, "a", 3 * MIB, true);
    has[2] = "0/0 1/0";
    gives("each share is too small", 0, "look 0/0 1/0; ");
    begin();
    add(1, "a", 9 * MIB, false);
    has[0] = "1/0";
    gives("nothing is lacked", 0, "");
    begin();
    add(1, "a", 9 * MIB, true);
    gives("no node has it", 0, "look 1/0; ");
}

static void test_not(void) {
    two_receivers();
    launch.results = NULL;
    gives("no input is a result", 0, "");
    two_receivers();
    can_share = false;
    gives("nodes cannot give", 0, "");
    two_receivers();
    nodes[0].failed = true;
    gives("a node has failed", 0, "look 2/0; give 2 d; ");
    two_receivers();
    nodes[1].failed = true;
    gives("the node that has it has failed", 0, "look 0/0 0/2 2/0; ");
    two_receivers();
    look_fails = true;
    gives("the look is stopped", -1, "look 0/0 0/2 2/0; ");
    two_receivers();
    gives_before_failure = 0;
    gives("the first gift is stopped", -1, "look 0/0 0/2 2/0; give 0 a b c; ");
    two_receivers();
    manifest_free(all[1]);
    all[1] = NULL;
    is_int(input_give_shares(&launch, &fleet, all, peers, &e), 0, "a node may have no share");
    is_str(calls, "look 0/0 0/2 2/0; give 0 a b c; give 2 d; ", "the others are given to");
    manifest_free(all[0]);
    manifest_free(all[2]);
}

int main(void) {
    test_receivers();
    test_bounds();
    test_not();
    arena_fini(&a);
    return done_testing();
}
