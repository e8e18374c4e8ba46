// SPDX-License-Identifier: Apache-2.0
// The way to the nodes of inputs whose content nodes may have: which nodes look, share, and are
// sent files, and which nodes fail. Transfers are stand-ins.
#include "run/inputs/input_give.h"
#include "run/inputs/input_keep.h"

#include "tests/tap.h"
#include "tests/unit/run/manifest_words.h"

#include <string.h>

enum { NODES = 3 };

static struct arena a;
static struct config_input config = {
    .source = "/data", .deliver = "copy", .on_change = CONFIG_CHANGE_KEEP};
static struct context context = {.arena = &a};
static struct fleet_node nodes[NODES];
static struct fleet fleet = {.context = &context, .nodes = nodes, .count = NODES};
static struct run_start launch;
static struct run_start_input inputs[2];
static struct err e;

// ---- in place of transfers ----------------------------------------------------------------------

static const char *calls;            // "find NODE:PATH,… …; send …; "
static const char *found[NODES];     // paths that a node has or is given; NULL: all
static const char *has_first[NODES]; // paths that the results of a node have, for find
static bool can_share, fails;

static const char *paths_of(const struct manifest *m) {
    const char *text = "";
    for (size_t i = 0; i < m->count; i++)
        text = arena_printf(&a, "%s%s%s", text, i ? "," : "", m->entries[i].path);
    return text;
}

static int called(const char *name, struct manifest *const *manifests, struct err *err) {
    calls = arena_printf(&a, "%s%s", calls, name);
    for (size_t n = 0; n < NODES; n++)
        if (manifests[n])
            calls = arena_printf(&a, "%s %zu:%s", calls, n, paths_of(manifests[n]));
    calls = arena_printf(&a, "%s; ", calls);
    return fails ? err_set(err, ERR_INTERRUPTED, "stopped") : 0;
}

static void look(const char *const *has, size_t n, const struct manifest *m, bool *lacks) {
    for (size_t i = 0; i < m->count; i++)
        lacks[i] = has[n] && !strstr(has[n], m->entries[i].path);
}

bool fleet_can_share(const struct fleet *f) {
    (void)f;
    return can_share;
}

int fleet_find_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, const char *const *results, struct xfer_peers *peers,
                         struct transfer_totals *totals, struct err *err) {
    (void)f;
    if (*dest || results != launch.results || totals != &launch.sent)
        bail_out("nodes look elsewhere");
    for (size_t n = 0; n < NODES; n++)
        look(has_first, n, manifests[n], peers[n].lacks);
    return called(operation, manifests, err);
}

int input_give_shares(struct run_start *l, struct fleet *f, struct manifest *const *all_manifests,
                      struct xfer_peers *peers, struct err *err) {
    (void)l, (void)f;
    for (size_t n = 0; n < NODES; n++)
        look(found, n, all_manifests[n], peers[n].lacks);
    return called("give", all_manifests, err);
}

int fleet_share_manifest(struct fleet *f, const char *operation, struct manifest *m,
                         const char *dest, struct xfer_peers *peers, struct transfer_totals *totals,
                         struct err *err) {
    struct manifest *same[NODES] = {m, m, m};
    (void)f;
    if (*dest || totals != &launch.sent)
        bail_out("nodes share elsewhere");
    for (size_t n = 0; n < NODES; n++)
        look(found, n, m, peers[n].lacks);
    return called(operation, same, err);
}

int fleet_send_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, enum xfer_mode mode, struct transfer_totals *totals,
                         struct err *err) {
    (void)f;
    if (*dest || mode != XFER_MERGE || totals != &launch.sent)
        bail_out("files are sent elsewhere");
    return called(operation, manifests, err);
}

// ---- inputs -------------------------------------------------------------------------------------

static struct run_start_input *input(const char *name) {
    struct run_start_input *in = &inputs[launch.input_count++];
    *in = (struct run_start_input){
        .name = name, .config = &config, .path = arena_printf(&a, "inputs/%s", name)};
    return in;
}

static void begin(void) {
    launch = (struct run_start){.context = &context, .node_count = NODES, .inputs = inputs};
    calls = "";
    can_share = fails = false;
    err_clear(&e);
    for (size_t n = 0; n < NODES; n++) {
        nodes[n] = (struct fleet_node){.fleet = &fleet, .index = n};
        found[n] = has_first[n] = NULL;
    }
}

static void end(void) {
    input_keep_close(&launch);
    input_keep_close(&launch); // does nothing
    if (launch.keep)
        bail_out("a closed run keeps nothing");
}

// ---- sending ------------------------------------------------------------------------------------

static void add(struct manifest *m, const char *words) {
    struct manifest *from = manifest_of(&a, words);
    for (size_t i = from->count; i-- > 0;) // not sorted
        if (manifest_append(m, &from->entries[i], &e) < 0)
            bail_out("%s", e.text);
    manifest_free(from);
}

static void sends(const char *about, int want, const char *want_calls) {
    is_int(input_keep_send(&launch, &fleet, &e), want, "%s: %s", about, e.text);
    is_str(calls, want_calls, "%s: transfers are as expected", about);
}

static void test_results(void) {
    begin();
    input_keep_add_results(&launch, "r/output");
    input_keep_add_results(&launch, "r/model");
    input_keep_add_results(&launch, "r/output");
    input_keep_add_results(&launch, "r/model");
    ok(str_eq(launch.results[0], "r/output") && str_eq(launch.results[1], "r/model") &&
           !launch.results[2],
       "results are there once each, in their order");
    end();
}

static void begin_common(const char *kept) {
    begin();
    input("one")->kept = kept;
    add(input_keep_common(&launch), "inputs/one/a=a inputs/one/b=B");
}

static void test_common(void) {
    begin();
    sends("nothing is kept", 0, "");
    input_keep_common(&launch);
    sends("the lists are empty", 0, "");
    end();
    begin_common("old");
    sends("nodes have all", 0,
          "keep 0:inputs/one/a,inputs/one/b 1:inputs/one/a,inputs/one/b "
          "2:inputs/one/a,inputs/one/b; ");
    end();
    begin_common("old");
    found[1] = "inputs/one/b";
    sends("a node lacks a file that is here", 0,
          "keep 0:inputs/one/a,inputs/one/b 1:inputs/one/a,inputs/one/b "
          "2:inputs/one/a,inputs/one/b; push 1:inputs/one/a,inputs/one/b; ");
    end();
    begin_common("old");
    fails = true;
    sends("sharing is stopped", -1,
          "keep 0:inputs/one/a,inputs/one/b 1:inputs/one/a,inputs/one/b "
          "2:inputs/one/a,inputs/one/b; ");
    end();
}

static void test_nowhere(void) {
    begin_common("old");
    add(input_keep_common(&launch), "inputs/one/sub/c=C");
    found[0] = "inputs/one/a";
    nodes[2].failed = true;
    found[2] = "";
    sends("a file is nowhere", 0,
          "keep 0:inputs/one/a,inputs/one/b,inputs/one/sub/c "
          "1:inputs/one/a,inputs/one/b,inputs/one/sub/c "
          "2:inputs/one/a,inputs/one/b,inputs/one/sub/c; ");
    ok(nodes[0].failed && !nodes[1].failed, "a node without the file fails, and no other");
    is_str(nodes[0].err.text,
           "input 'one' is kept as run 'old' had it, and 2 of its files are neither on this node "
           "nor here, 'b' the first (try: --set inputs.one.on_change=resend)",
           "the error names the input, the run and the first file");
    is_int(nodes[2].err.code, 0, "a node that has failed before keeps its error");
    end();
    begin_common(NULL);
    can_share = true;
    found[0] = "inputs/one/a";
    sends("a file of no kept input is nowhere", 0,
          "keep 0:inputs/one/a,inputs/one/b 1:inputs/one/a,inputs/one/b "
          "2:inputs/one/a,inputs/one/b; ");
    has_str(nodes[0].err.text, "input '' is kept as run '' had it, and 1 of",
            "the error counts the files");
    end();
    begin();
    input("on")->kept = "other";
    input("one")->kept = "old";
    inputs[1].path = "inputs/one/b";
    add(input_keep_common(&launch), "inputs/one/b=B");
    found[0] = "";
    sends("an object is nowhere", 0, "keep 0:inputs/one/b 1:inputs/one/b 2:inputs/one/b; ");
    has_str(nodes[0].err.text, "input 'one' is kept as run 'old' had it",
            "the path of an input is no beginning of a name");
    end();
}

#define FIND                                                                                       \
    "find 0:inputs/one/a,inputs/one/b 1:inputs/one/a,inputs/one/b "                                \
    "2:inputs/one/a,inputs/one/b; "
#define KEEP                                                                                       \
    "keep 0:inputs/one/a,inputs/one/b 1:inputs/one/a,inputs/one/b "                                \
    "2:inputs/one/a,inputs/one/b; "

static void begin_results(const char *kept, bool shares) {
    begin_common(kept);
    input_keep_add_results(&launch, "r/output");
    can_share = shares;
}

static void test_found(void) {
    begin_results(NULL, true);
    sends("all nodes have the results", 0, FIND);
    end();
    begin_results(NULL, true);
    has_first[2] = "inputs/one/b";
    sends("one node lacks content of others", 0, FIND KEEP);
    end();
    begin_results(NULL, true);
    has_first[2] = "inputs/one/b";
    nodes[2].failed = true;
    sends("a failed node lacks content of others", 0, FIND);
    end();
    begin_results(NULL, true);
    has_first[0] = has_first[1] = has_first[2] = "inputs/one/b";
    sends("all nodes lack the same", 0,
          FIND "push 0:inputs/one/a,inputs/one/b 1:inputs/one/a,inputs/one/b "
               "2:inputs/one/a,inputs/one/b; ");
    end();
    begin_results(NULL, false);
    has_first[2] = "inputs/one/b";
    sends("nodes cannot share", 0, FIND "push 2:inputs/one/a,inputs/one/b; ");
    end();
    begin_results("old", false);
    has_first[2] = "inputs/one/a";
    sends("kept content has to be shared", 0, FIND KEEP);
    end();
    begin_results(NULL, true);
    fails = true;
    sends("the look is stopped", -1, FIND);
    end();
}

static void test_shards(void) {
    begin();
    add(input_keep_shard(&launch, 0), "inputs/one/a=a inputs/one/b=b");
    add(input_keep_shard(&launch, 2), "inputs/one/c=c");
    found[0] = "inputs/one/a";
    sends("shares", 0,
          "find 0:inputs/one/a,inputs/one/b 1: 2:inputs/one/c; "
          "give 0:inputs/one/a,inputs/one/b 1: 2:inputs/one/c; "
          "push 0:inputs/one/a,inputs/one/b; ");
    calls = "";
    add(input_keep_common(&launch), "inputs/two/x=x");
    sends("a common list and shares", 0,
          "keep 0:inputs/two/x 1:inputs/two/x 2:inputs/two/x; "
          "push 0:inputs/two/x; "
          "find 0:inputs/one/a,inputs/one/b 1: 2:inputs/one/c; "
          "give 0:inputs/one/a,inputs/one/b 1: 2:inputs/one/c; "
          "push 0:inputs/one/a,inputs/one/b; ");
    calls = "";
    fails = true;
    sends("the common list is stopped", -1, "keep 0:inputs/two/x 1:inputs/two/x 2:inputs/two/x; ");
    end();
    begin();
    add(input_keep_shard(&launch, 1), "inputs/one/a=a");
    add(input_keep_shard(&launch, 1), "inputs/one/a=b");
    is_int(input_keep_send(&launch, &fleet, &e), -1, "a path that is there twice is an error");
    is_int(e.code, ERR_EXISTS, "the error says so");
    end();
}

int main(void) {
    test_results();
    test_common();
    test_nowhere();
    test_found();
    test_shards();
    arena_fini(&a);
    return done_testing();
}
