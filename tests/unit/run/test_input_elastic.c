// SPDX-License-Identifier: Apache-2.0
// Inputs that rounds deal anew: what is refused, and that every share reaches a node though nodes
// fail while shares are sent. The test takes the place of transfers.
#include "run/inputs/input_elastic.h"

#include "content/generation.h"
#include "fleet/fleet_transfer.h"
#include "sys/file.h"
#include "tests/unit/fleet_fake.h"

#include <unistd.h>

static struct err error;

// ---- refusals -----------------------------------------------------------------------------------

static struct config config;

static void load(const char *text) {
    config_open(&config, &arena, "dtctl", NULL);
    option_set_file(&config.set, "dtctl.toml", text, strlen(text));
    if (option_set_finish(&config.set, &error) < 0)
        bail_out("%s", error.text);
}

static void test_check(void) {
    static const struct {
        const char *input, *more, *what, *instead;
    } cases[] = {
        {"deliver='stream'", "", "deliver = stream", "deliver = copy"},
        {"unit='sample'", "", "unit = sample", "unit = file"},
        {"uneven='drop'", "", "uneven = drop", "uneven = pad"},
        {"on_change='keep'", "", "on_change = keep", "on_change = refuse"},
        {"", "[compat]\nsagemaker=true\n", "compat.sagemaker", "mode = replicated"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        load(arena_printf(&arena,
                          "[train]\nnodes='1:3'\n[inputs.d]\nsource='x'\nmode='sharded'\n%s\n%s",
                          cases[i].input, cases[i].more));
        is_int(input_elastic_check(&config, config_input(&config, 0), &error), -1, "%s is refused",
               cases[i].what);
        is_int(error.code, ERR_CONFIG, "the settings are at fault");
        has_str(error.text, "dtctl.toml", "the error has the place of the nodes");
        has_str(error.text,
                arena_printf(&arena,
                             "input 'd' is sharded, and a run with MIN:MAX nodes deals its files "
                             "anew when nodes come and go, which %s does not allow (try: %s, or "
                             "--nodes N)",
                             cases[i].what, cases[i].instead),
                "the error has both settings");
    }
    load("[train]\nnodes='2'\nspares=1\n[inputs.d]\nsource='x'\nmode='sharded'\nuneven='drop'\n");
    is_int(input_elastic_check(&config, config_input(&config, 0), &error), -1,
           "spare nodes come and go, too");
    has_str(error.text, "a run with spare nodes deals", "the error has the spare nodes");
    has_str(error.text, "or --nodes N without --spares)", "the error says what to leave out");
    load("[train]\nnodes='1:3'\n[inputs.d]\nsource='x'\nmode='sharded'\nuneven='pad'\n");
    is_int(input_elastic_check(&config, config_input(&config, 0), &error), 0,
           "files that are copied can be dealt anew");
}

static void test_check_run(void) {
    struct manifest m = {.count = GENERATION_FILES_MAX};
    struct run_start_input in = {.source = "data", .manifest = &m};
    struct run_start l = {.node_count = INPUT_ELASTIC_NODES_MAX};
    is_int(input_elastic_check_run(&l, &in, &error), 0, "256 nodes may share the most files");
    l.native = true;
    is_int(input_elastic_check_run(&l, &in, &error), -1, "the native trainer is refused");
    is_int(error.code, ERR_CONFIG, "the settings of the trainer are at fault");
    l.native = false;
    l.node_count++;
    is_int(input_elastic_check_run(&l, &in, &error), -1, "257 nodes are refused");
    has_str(error.text, "is for 256 nodes, and there are 257", "the error has both numbers");
    is_int(error.code, ERR_LIMIT, "nodes have a limit");
    l.node_count = 2;
    m.count++;
    is_int(input_elastic_check_run(&l, &in, &error), -1, "one more file is refused");
    has_str(error.text,
            arena_printf(&arena, "'data' has %d files and folders; %d can be dealt anew",
                         GENERATION_FILES_MAX + 1, GENERATION_FILES_MAX),
            "the error has the files");
    is_int(error.code, ERR_LIMIT, "files have a limit");
}

static int deal(int nodes_min, int nodes_max, size_t count, enum deal_uneven uneven) {
    static const struct deal_item items[] = {{"a", 1}, {"b", 1}, {"c", 1},
                                             {"d", 1}, {"e", 1}, {"f", 1}};
    struct run_start l = {.run = {.nodes_min = nodes_min, .nodes_max = nodes_max}};
    struct run_start_input in = {.source = "data"};
    struct deal_rule rule = {.what = "files", .shard = DEAL_COUNT, .uneven = uneven};
    err_clear(&error);
    return input_elastic_check_deal(&l, &in, items, count, &rule, &error);
}

static void test_check_deal(void) {
    is_int(deal(1, 3, 3, DEAL_UNEVEN_ALLOW), 0, "three nodes may get a file each");
    is_int(deal(1, 4, 3, DEAL_UNEVEN_ALLOW), -1, "the fourth node would get nothing");
    has_str(error.text, "'data': ", "the error has the source");
    is_int(deal(1, 3, 6, DEAL_UNEVEN_REFUSE), 0, "six files are even for one to three nodes");
    is_int(deal(4, 4, 6, DEAL_UNEVEN_REFUSE), -1, "six files are not even for four nodes");
    is_int(deal(3, 4, 6, DEAL_UNEVEN_REFUSE), -1, "the most nodes count");
    is_int(deal(4, 6, 6, DEAL_UNEVEN_REFUSE), -1, "the fewest nodes count");
    is_int(deal(5, 6, 6, DEAL_UNEVEN_REFUSE), -1, "five nodes count");
    is_int(deal(6, 6, 6, DEAL_UNEVEN_REFUSE), 0, "fewer nodes that cannot be do not count");
    is_int(deal(4, 6, 6, DEAL_UNEVEN_PAD), 0, "counts may differ when files are repeated");
}

// ---- sending ------------------------------------------------------------------------------------

static struct run_start l;
static struct strbuf sent;      // a line for each pass
static const char *failures[8]; // by pass: the nodes that fail in it
static int passes;
static bool refuses; // the next pass fails on this side

int fleet_send_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, enum xfer_mode mode, struct transfer_totals *totals,
                         struct err *e) {
    struct err lost = {0};
    ok(mode == XFER_MERGE && !*dest && totals == &l.sent, "'%s' adds to what is there", operation);
    strbuf_addf(&sent, "%s:", operation);
    for (size_t i = 0; i < f->count; i++)
        for (size_t k = 0; manifests[i] && !f->nodes[i].failed && k < manifests[i]->count; k++)
            strbuf_addf(&sent, " n%zu=%s", i, manifests[i]->entries[k].path);
    strbuf_addc(&sent, '\n');
    err_set(&lost, ERR_NET, "lost");
    for (const char *p = failures[passes]; p && *p; p++)
        fleet_fail(&f->nodes[*p - '0'], &lost);
    passes++;
    return refuses ? err_set(e, ERR_INTERRUPTED, "stopped") : 0;
}

// Of the same module; none is called.
int fleet_transfer_each(struct fleet *f, const char *operation, fleet_transfer_start *start,
                        void *ctx, struct transfer_totals *totals, struct err *e) {
    (void)f, (void)start, (void)ctx, (void)totals;
    return err_set(e, ERR_FAILED, "%s", operation);
}

int fleet_send_manifest(struct fleet *f, const char *operation, const struct manifest *m,
                        const char *dest, enum xfer_mode mode, struct err *e) {
    (void)f, (void)m, (void)dest, (void)mode;
    return err_set(e, ERR_FAILED, "%s", operation);
}

bool fleet_can_share(const struct fleet *f) {
    (void)f;
    return false;
}

int fleet_share_manifest(struct fleet *f, const char *operation, struct manifest *m,
                         const char *dest, struct xfer_peers *peers, struct transfer_totals *totals,
                         struct err *e) {
    (void)f, (void)m, (void)dest, (void)peers, (void)totals;
    return err_set(e, ERR_FAILED, "%s", operation);
}

int fleet_find_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, const char *const *results, struct xfer_peers *peers,
                         struct transfer_totals *totals, struct err *e) {
    (void)f, (void)manifests, (void)dest, (void)results, (void)peers, (void)totals;
    return err_set(e, ERR_FAILED, "%s", operation);
}

static struct run_start_input inputs[2]; // the second one is dealt

// Three files, and the first nodes get one each.
static void begin(bool elastic, size_t shares) {
    fake_fleet_begin("", "", "");
    timer_stop(&turn);
    strbuf_clear(&sent);
    memset(failures, 0, sizeof failures);
    passes = 0;
    refuses = false;
    err_clear(&error);
    inputs[1] = (struct run_start_input){
        .name = "d", .path = "inputs/d", .elastic = elastic, .manifest = manifest_new()};
    l = (struct run_start){
        .context = &context, .node_count = NODES, .inputs = inputs, .input_count = 2};
    l.run.id = "r";
    l.run.nodes_max = NODES;
    for (size_t i = 0; i < NODES; i++) {
        struct manifest_entry n = {.path = arena_printf(&arena, "%c", (int)('a' + i)),
                                   .kind = MANIFEST_FILE,
                                   .mode = 0644,
                                   .size = 1};
        if (manifest_append(inputs[1].manifest, &n, &error) < 0)
            bail_out("%s", error.text);
    }
    for (size_t i = 0; i < shares; i++)
        if (input_elastic_add(&l, &inputs[1], i, i, &error) < 0)
            bail_out("%s", error.text);
}

static void end(void) {
    input_elastic_close(&l);
    ok(!l.dealt && !l.lists, "nothing is left of the shares");
    manifest_free(inputs[1].manifest);
    fake_fleet_end();
}

#define A         "inputs/d-of3.0/a"
#define B         "inputs/d-of3.1/b"
#define C         "inputs/d-of3.2/c"
#define LIST      "runs/r/inputs/d.list"
#define SHARES(w) "push shards: " w "\n"
#define LISTS(w)  "push lists: " w "\n"

static void sends(int rc, const char *want, const char *name) {
    is_int(input_elastic_send(&l, &fleet, &error), rc, "the call ends where %s: %s", name,
           error.text);
    is_str(strbuf_cstr(&sent), want, "shares and lists are sent where %s", name);
    end();
}

static void test_send(void) {
    begin(false, 0);
    sends(0, "", "no input is elastic");
    begin(true, 3);
    sends(0, SHARES("n0=" A " n1=" B " n2=" C) LISTS("n0=" LIST " n1=" LIST " n2=" LIST),
          "all nodes stay");
    begin(true, 2);
    sends(0, SHARES("n0=" A " n1=" B) LISTS("n0=" LIST " n1=" LIST " n2=" LIST),
          "a node has no share");
    begin(true, 0);
    sends(0, LISTS("n0=" LIST " n1=" LIST " n2=" LIST), "no node has a share");
}

static void test_heirs(void) {
    begin(true, 3);
    failures[0] = "1";
    sends(0, SHARES("n0=" A " n1=" B " n2=" C) SHARES("n0=" B) LISTS("n0=" LIST " n2=" LIST),
          "one node fails");
    begin(true, 3);
    failures[0] = "0";
    sends(0, SHARES("n0=" A " n1=" B " n2=" C) SHARES("n1=" A) LISTS("n1=" LIST " n2=" LIST),
          "the first node fails");
    begin(true, 3);
    failures[0] = "1";
    failures[1] = "0";
    sends(0,
          SHARES("n0=" A " n1=" B " n2=" C) SHARES("n0=" B) SHARES("n2=" A) SHARES("n2=" B)
              LISTS("n2=" LIST),
          "the heir fails, too");
    begin(true, 3);
    failures[0] = "01";
    sends(0, SHARES("n0=" A " n1=" B " n2=" C) SHARES("n2=" A) SHARES("n2=" B) LISTS("n2=" LIST),
          "two nodes fail at once");
    begin(true, 3);
    failures[0] = "012";
    sends(0, SHARES("n0=" A " n1=" B " n2=" C), "all nodes fail");
    begin(true, 3);
    refuses = true;
    sends(-1, SHARES("n0=" A " n1=" B " n2=" C), "this side is interrupted");
}

int main(void) {
    char folder[] = "/tmp/test_input_elastic.XXXXXX";
    fake_fleet_init();
    context.config = &config;
    if (!mkdtemp(folder) || cluster_open(&context.cluster, &arena, folder, "c", &error) < 0)
        bail_out("no folder: %s", error.text);
    test_check();
    test_check_run();
    test_check_deal();
    test_send();
    test_heirs();
    cluster_close(&context.cluster);
    file_remove_tree(folder, &error);
    strbuf_fini(&sent);
    fake_fleet_fini();
    return done_testing();
}
