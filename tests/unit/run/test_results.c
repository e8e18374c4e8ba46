// SPDX-License-Identifier: Apache-2.0
// The results of a run from its nodes: which nodes are asked for what, how their parts become one
// folder, what is said to be missing or lost. Nodes are rows of a table; no transfer takes place.
#include "run/results/results.h"

#include "conf/config.h"
#include "run/results/results_owner.h"
#include "run/results/results_part.h"
#include "run/results/results_upload.h"
#include "tests/unit/run/results_tree.h"
#include "xfer/xfer_impl.h"

enum { NODES = 3 };

// ---- nodes without a network --------------------------------------------------------------------

static const char *has[NODES]; // files of the part, as a tree; "!": the transfer fails
static bool has_no_run[NODES];
static unsigned kinds_there; // of which the nodes have files
static int64_t work_files;
static struct strbuf asked; // "n0:output,model …": of whom, in order
static bool asked_rank0_only;

static struct transfer {
    struct xfer x;
    struct timer over;
    struct fleet_node *n;
    const struct xfer_events *events;
} transfers[4 * NODES];
static size_t begun;

static void no_effect(struct xfer *x) {
    (void)x;
}

static void on_over(struct timer *t) {
    struct transfer *x = container_of(t, struct transfer, over);
    struct err why = {0};
    if (str_eq(has[x->n->index], "!"))
        err_set(&why, ERR_SYS, "it cannot be read");
    x->events->on_end(&x->x, x->n, &why, &(struct xfer_progress){.files_all = 1, .bytes_all = 7});
}

struct xfer *test_fetch(struct transport_link *l, const struct xfer_fetch_spec *spec,
                        const struct xfer_events *events, void *ctx,
                        struct err *why) __asm__("xfer_fetch");

// Puts the asked kinds of the node's files into the destination.
struct xfer *test_fetch(struct transport_link *l, const struct xfer_fetch_spec *spec,
                        const struct xfer_events *events, void *ctx, struct err *why) {
    struct transfer *t = &transfers[begun++];
    struct fleet_node *n = ctx;
    char **words;
    (void)l, (void)why;
    must(begun <= sizeof transfers / sizeof *transfers && spec->missing_ok);
    *t = (struct transfer){.n = n, .events = events};
    t->x = (struct xfer){.stop = no_effect, .destroy = no_effect};
    strbuf_addf(&asked, "%s%s:", asked.len ? " " : "", n->info->name);
    const char *dest = spec->dest + strlen(root) + 1;
    for (const char *const *p = spec->paths; *p; p++) {
        const char *kind = strrchr(*p, '/') + 1;
        strbuf_addf(&asked, "%s%s", p == spec->paths ? "" : ",", kind);
        size_t count =
            *has[n->index] && *has[n->index] != '!' ? str_split(&a, has[n->index], ' ', &words) : 0;
        for (size_t i = 0; i < count; i++)
            if (str_starts(words[i], kind))
                put(dest, words[i]);
    }
    timer_start(n->fleet->context->loop, &t->over, 0, on_over);
    return &t->x;
}

int test_ask(struct fleet *f, const struct run *run, int rank0, struct work_left *out,
             struct err *why) __asm__("work_left_ask");
unsigned test_kinds(const struct work_left *w, unsigned kinds) __asm__("work_left_kinds");

int test_ask(struct fleet *f, const struct run *run, int rank0, struct work_left *out,
             struct err *why) {
    (void)f, (void)run, (void)why;
    asked_rank0_only = rank0 >= 0;
    *out = (struct work_left){.files = work_files, .gone = has_no_run};
    return 0;
}

unsigned test_kinds(const struct work_left *w, unsigned kinds) {
    (void)w;
    return kinds & kinds_there;
}

// ---- a run --------------------------------------------------------------------------------------

static const char *const names[NODES] = {"n0", "n1", "n2"};
static struct screen screen;
static struct context context;
static struct inventory_node info[NODES];
static struct fleet_node fleet_nodes[NODES];
static struct fleet fleet;
static struct run run;
static struct history_node places[NODES];
static struct run_history history;
static bool gone[NODES];
static struct collect_result got;

// All nodes were in the last round, in order. They give nothing.
static void begin(void) {
    clear();
    context.cluster = (struct cluster){0};
    if (cluster_open(&context.cluster, &a, root, "c", &e) < 0)
        bail_out("%s", e.text);
    memset(places, 0, sizeof places);
    memset(gone, 0, sizeof gone);
    memset(has_no_run, 0, sizeof has_no_run);
    run = (struct run){.id = "r",
                       .name = "r",
                       .state = "failed",
                       .nodes = (const char **)names,
                       .node_count = NODES,
                       .resumes = "",
                       .output_dir = in("out", ""),
                       .bring = RESULT_ALL};
    history = (struct run_history){.nodes = places, .node_count = NODES, .nodes_in_round = NODES};
    fleet = (struct fleet){.context = &context, .nodes = fleet_nodes, .count = NODES};
    for (size_t i = 0; i < NODES; i++) {
        has[i] = "";
        info[i] = (struct inventory_node){.name = (char *)names[i]};
        fleet_nodes[i] =
            (struct fleet_node){.fleet = &fleet, .index = i, .info = &info[i], .up = true};
        places[i] = (struct history_node){.name = names[i], .first_rank = (int)i};
    }
    kinds_there = 0;
    work_files = 0;
}

static void give(const char *n0, const char *n1, const char *n2) {
    has[0] = n0;
    has[1] = n1;
    has[2] = n2;
}

static void collect(const char *about, const char *want_asked, const char *want_tree) {
    strbuf_clear(&asked);
    begun = 0;
    int rc = results_collect(&fleet, &run, &history, gone, &got, &e);
    is_int(rc, 0, "%s: the results are collected%s", about, rc < 0 ? e.text : "");
    is_str(strbuf_cstr(&asked), want_asked, "%s: nodes are asked", about);
    if (file_exists(in("out", OWNER_MARK)))
        want_tree = arena_printf(&a, OWNER_MARK "=r\n%s%s", *want_tree ? " " : "", want_tree);
    is_tree("out", want_tree, about);
}

static void is_lost(const char *about, bool complete, const char *lost, unsigned kinds) {
    struct strbuf b = {0};
    for (size_t i = 0; i < run.lost_count; i++)
        strbuf_addf(&b, "%s%s", i ? " " : "", run.lost[i]);
    is_int(got.complete, complete, "%s: all is here, or not", about);
    is_str(b.len ? strbuf_cstr(&b) : "", lost, "%s: nodes whose results are lost are named", about);
    is_uint(run.lost_count ? run.lost_kinds : 0, kinds, "%s: kinds that are lost are named", about);
    is_int(file_exists(in(".dtctl", "c/runs/r/incoming")), !complete || run.lost_count,
           "%s: parts are kept as long as they may be needed", about);
    strbuf_fini(&b);
}

#define ALL_OF(n) n ":output,model,state"
// A node is asked for copies of the state of another one, which has failed.
#define COPIES(n, of) " " n ":" of
#define ALL           ALL_OF("n0") " " ALL_OF("n1") " " ALL_OF("n2")

// ---- a command ----------------------------------------------------------------------------------

static void test_merged(void) {
    begin();
    give("output/a=1 output/b=0 model/m=1", "output/a=1 output/b=1", "output/c=2 state/s=2");
    collect("merged", ALL, "a=1 c=2 model/m=1 n0/b=0 n1/b=1 state/n2/s=2");
    is_lost("merged", true, "", 0);
    is_uint(got.collisions.apart, 1, "a path that differs is counted");
    is_str(got.collisions.first, "n0/b", "the first of them is named");
    is_uint(run.left, 0, "nothing is left on the nodes");
    is_uint(got.totals.bytes_all, 3 * 7, "bytes of all parts are counted");
    is_int(asked_rank0_only, false, "all nodes are asked for what is left");
    ok(!file_exists(in("out", "state/n0")), "a node without a state has no folder");

    begin();
    run.merge = CONFIG_MERGE_BY_NODE;
    give("output/a=1 state/s=0", "output/a=1", "");
    collect("by node", ALL, "n0/a=1 n1/a=1 state/n0/s=0");
    is_lost("by node", true, "", 0);

    begin();
    give("", "", "");
    collect("nothing", ALL, "");
    is_lost("nothing", true, "", 0);
}

// The ranks do not follow the nodes' order.
static void test_rank0(void) {
    begin();
    run.merge = CONFIG_MERGE_RANK0;
    run.bring_work = true;
    places[1].first_rank = 0;
    places[2].first_rank = 1;
    places[0].first_rank = 2;
    give("output/a=0 state/s=0", "output/a=1 model/m=1 gathered/work/w=1", "output/a=2 state/s=2");
    collect("rank 0", "n0:state n1:output,gathered,model,state n2:state",
            "a=1 model/m=1 state/n0/s=0 state/n2/s=2 work/w=1");
    is_lost("rank 0", true, "", 0);
    is_int(asked_rank0_only, true, "the node of rank 0 is asked for what is left");

    begin();
    run.merge = CONFIG_MERGE_RANK0;
    give("!", "output/a=1", "output/a=2 state/s=2");
    collect("rank 0 fails", ALL_OF("n0") " n1:state n2:state" COPIES("n1", "n0") COPIES("n2", "n0"),
            "state/n2/s=2");
    is_lost("rank 0 fails", false, "", 0);

    begin();
    run.merge = CONFIG_MERGE_RANK0;
    history.round = -1;
    for (size_t i = 0; i < NODES; i++)
        places[i].round = -1;
    give("output/a=0", "output/b=1", "");
    collect("no round", ALL, "a=0 b=1");

    begin();
    run.merge = CONFIG_MERGE_RANK0;
    places[0].first_rank = 1; // that of rank 0 is not known
    give("output/a=0", "output/b=1", "");
    collect("no rank 0", ALL, "a=0 b=1");
}

// ---- parts that are missing ---------------------------------------------------------------------

static void test_fails(void) {
    begin();
    give("output/a=0", "!", "output/c=2");
    collect("a node fails", ALL COPIES("n0", "n1") COPIES("n2", "n1"), "a=0 c=2");
    is_lost("a node fails", false, "", 0);
    ok(fleet_nodes[1].failed && !fleet_nodes[0].failed, "the failure is the node's");
    // The next attempt has all.
    give("output/a=0", "output/b=1", "output/c=2");
    fleet_nodes[1].failed = false;
    collect("again", ALL, "a=0 b=1 c=2");
    is_lost("again", true, "", 0);
}

static void test_gone(void) {
    begin();
    has_no_run[1] = true;
    give("output/a=0", "output/b=1", "output/c=2");
    collect("a run is gone", ALL_OF("n0") " " ALL_OF("n2") COPIES("n0", "n1") COPIES("n2", "n1"),
            "a=0 c=2");
    is_lost("a run is gone", true, "n1", RESULT_ALL);
    ok(gone[1] && fleet_nodes[1].failed, "the node is noted as gone");
    has_str(fleet_nodes[1].err.text, "does not have the run any more", "the error says so");
    is_int(fleet_nodes[1].err.code, ERR_NO_STATUS, "the error has a code of its own");

    begin(); // it left before the last round, and gave its part then
    has_no_run[1] = true;
    history.round = 1;
    history.nodes_in_round = 2;
    places[0].round = places[2].round = 1;
    places[1].left = true;
    give("output/a=0", "", "output/c=2");
    collect("a node had left", ALL_OF("n0") " " ALL_OF("n2") COPIES("n0", "n1") COPIES("n2", "n1"),
            "a=0 c=2");
    is_lost("a node had left", true, "", 0);

    begin(); // the same, but it may be in the last round: one report is missing
    has_no_run[1] = true;
    history.round = 1;
    history.nodes_in_round = 3;
    places[0].round = places[2].round = 1;
    give("output/a=0", "", "output/c=2");
    collect("a report is missing",
            ALL_OF("n0") " " ALL_OF("n2") COPIES("n0", "n1") COPIES("n2", "n1"), "a=0 c=2");
    is_lost("a report is missing", true, "n1", RESULT_ALL);

    begin(); // the part that came when it left
    has_no_run[1] = true;
    put_all(".dtctl/c/runs/r", "left/n1=x incoming/n1/output/b=1");
    give("output/a=0", "", "output/c=2");
    collect("a part came before", ALL, "a=0 b=1 c=2");
    is_lost("a part came before", true, "", 0);
    ok(!file_exists(in(".dtctl", "c/runs/r/left")), "the mark goes when all is here");

    begin();
    run.merge = CONFIG_MERGE_RANK0;
    has_no_run[1] = true;
    give("output/a=0", "", "");
    collect("not rank 0", ALL_OF("n0") " n2:state" COPIES("n0", "n1") COPIES("n2", "n1"), "a=0");
    is_lost("not rank 0", true, "n1", RESULT_ALL & ~(RESULT_OUTPUT | RESULT_MODEL));
}

// Files that came during the run, of a node that gives no more.
static void begin_live(void) {
    begin();
    put_all(".dtctl/c/runs/r/live/n1", "disk=d output/b=live model/m=live state/s=live");
    give("output/a=0", "", "");
}

#define N0_N2 ALL_OF("n0") " " ALL_OF("n2") COPIES("n0", "n1") COPIES("n2", "n1")

static void test_live(void) {
    begin_live();
    has_no_run[1] = true;
    collect("files of a lost node", N0_N2, "a=0 b=live model/m=live");
    begin_live();
    has_no_run[1] = true;
    run.bring = RESULT_OUTPUT;
    collect("one kind of a lost node", "n0:output n2:output", "a=0 b=live");
    begin_live();
    give("output/a=0", "!", "");
    collect("a node that may give its part later",
            ALL_OF("n0") " " ALL_OF("n1") ",list " ALL_OF("n2") COPIES("n0", "n1")
                COPIES("n2", "n1"),
            "a=0");
    begin_live();
    give("output/a=0", "output/c=1", "");
    collect("the rest of a node's files", ALL_OF("n0") " " ALL_OF("n1") ",list " ALL_OF("n2"),
            "a=0 b=live c=1 model/m=live");
    begin_live();
    has_no_run[1] = true;
    run.merge = CONFIG_MERGE_RANK0;
    collect("files of a lost node that is not rank 0",
            ALL_OF("n0") " n2:state" COPIES("n0", "n1") COPIES("n2", "n1"), "a=0");
    begin_live();
    has_no_run[1] = run.native = true;
    collect("files of a lost node of the native trainer", ALL_OF("n0") " " ALL_OF("n2"), "a=0");
}

// ---- kinds --------------------------------------------------------------------------------------

static void test_kinds_left(void) {
    begin();
    run.bring = RESULT_OUTPUT;
    kinds_there = RESULT_MODEL | RESULT_OUTPUT;
    work_files = 5;
    give("output/a=0 model/m=0", "", "");
    collect("some kinds", "n0:output n1:output n2:output", "a=0");
    is_uint(run.left, RESULT_MODEL, "kinds that stay are named");
    is_int(run.work_left, 5, "files of working folders that stay are counted");
    run.rest = true;
    run.bring = RESULT_MODEL;
    collect("the rest", "n0:model n1:model n2:model", "a=0 model/m=0");
    is_uint(run.left, 0, "nothing is left after it");
    is_lost("the rest", true, "", 0);

    begin();
    run.bring = RESULT_OUTPUT;
    run.bring_work = true;
    work_files = 5;
    give("output/a=0 gathered/work/w=0", "", "");
    collect("with work", "n0:output,gathered n1:output,gathered n2:output,gathered",
            "a=0 work/w=0");
    is_int(run.work_left, 0, "files of working folders that came are not left");

    begin();
    run.bring = 0;
    give("output/a=0", "", "");
    collect("no kind", "", "");
    is_lost("no kind", true, "", 0);

    begin(); // nothing of the rest is on a node any more
    run.rest = true;
    run.bring = run.left = RESULT_MODEL;
    collect("the rest is deleted", "n0:model n1:model n2:model", "");
    is_lost("the rest is deleted", true, "n0 n1 n2", RESULT_MODEL);

    begin(); // a node that was lost is back
    run.rest = true;
    run.lost = (const char **)&names[1];
    run.lost_count = 1;
    run.lost_kinds = RESULT_ALL;
    give("output/a=0", "output/b=1", "");
    collect("a node is back", ALL, "a=0 b=1");
    is_lost("a node is back", true, "", 0);

    begin();
    run.rest = true;
    run.lost = (const char **)&names[1];
    run.lost_count = 1;
    run.lost_kinds = RESULT_STATE;
    give("output/a=0", "!", "");
    collect("a node stays lost", ALL COPIES("n0", "n1") COPIES("n2", "n1"), "a=0");
    is_lost("a node stays lost", false, "n1", RESULT_STATE);
}

// ---- the native trainer -------------------------------------------------------------------------

static void test_native(void) {
    begin();
    run.native = true;
    run.state = "finished";
    give("output/a=0", "output/a=1", "");
    collect("one is enough", ALL_OF("n0"), "a=0");
    is_lost("one is enough", true, "", 0);
    ok(!fleet_nodes[1].left_out, "the others are left out of this alone");

    begin();
    run.native = true;
    run.state = "finished";
    give("!", "output/a=1", "output/a=2");
    collect("the second rank", ALL_OF("n0") " " ALL_OF("n1"), "a=1");
    is_lost("the second rank", true, "", 0);

    begin();
    run.native = true;
    run.state = "finished";
    give("!", "!", "!");
    collect("all fail", ALL, "");
    is_lost("all fail", false, "", 0);

    begin();
    run.native = true;
    give("output/a=0", "output/a=1 output/b=1", "state/s=2");
    collect("it failed", ALL, "a=0 b=1 state/s=2");
    is_lost("it failed", true, "", 0);
    is_uint(got.collisions.apart, 0, "files of rank 0 win");

    begin();
    run.native = true;
    has_no_run[1] = true;
    give("output/a=0", "", "");
    collect("one is gone", ALL_OF("n0") " " ALL_OF("n2"), "a=0");
    is_lost("one is gone", true, "", 0);

    begin();
    run.native = true;
    has_no_run[0] = has_no_run[1] = has_no_run[2] = true;
    collect("all are gone", "", "");
    is_lost("all are gone", true, "n0 n1 n2", RESULT_ALL);
}

// Without a slash at its end, however the user writes the bucket.
static void test_uri(void) {
    static const char *const cases[][2] = {
        {"", ""},
        {"/", ""},
        {"//", ""},
        {"s3://b", "s3://b/task/runs/id"},
        {"s3://b/p/", "s3://b/p/task/runs/id"},
        {"s3://b/p//", "s3://b/p/task/runs/id"},
    };
    const struct run named = {.name = "task", .id = "id"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config = {.output_s3 = cases[i][0]};
        is_str(results_upload_uri(&(struct context){.arena = &a, .config = &config}, &named),
               cases[i][1], "results of a run below '%s'", cases[i][0]);
    }
}

int main(void) {
    if (!mkdtemp(root) || !(context.loop = loop_open(&e)))
        bail_out("cannot start");
    context.arena = &a;
    context.screen = &screen;
    screen_init(&screen, STDERR_FILENO, STDERR_FILENO, SCREEN_PLAIN, true);
    test_merged();
    test_rank0();
    test_fails();
    test_gone();
    test_live();
    test_kinds_left();
    test_native();
    test_uri();
    strbuf_fini(&asked);
    screen_fini(&screen);
    loop_close(context.loop);
    cluster_close(&context.cluster);
    file_remove_tree(root, &e);
    arena_fini(&a);
    return done_testing();
}
