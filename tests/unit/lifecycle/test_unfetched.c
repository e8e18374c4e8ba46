// SPDX-License-Identifier: Apache-2.0
// Results that only the nodes have: which runs count, what the user reads, and which of them are
// fetched before nodes go or make a refusal.
#include "lifecycle/unfetched.h"

#include "fleet/cluster_owner.h"
#include "run/results/results_bring.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum { NODES = 4, RUNS_MAX = 32 };

static struct arena arena;
static struct config config;
static struct screen screen;
static struct context context;
static struct inventory_node info[NODES];
static struct fleet_node fleet_nodes[NODES];
static struct fleet fleet;
static struct unfetched_rules rules;
static struct unfetched found;
static char dir[] = "/tmp/test_unfetched.XXXXXX";
static const char *mine;
static int text_fd;

// ---- what the nodes answer, and how a fetch ends ------------------------------------------------

static struct node_run answers[RUNS_MAX];
static size_t answer_count;
static char asked[512];  // runs that were to be fetched, with a comma behind each
static const char *deaf; // its results cannot be fetched
static const char *half; // some of its results stay on the nodes
static const char *cut;  // a signal comes meanwhile
static bool work_wanted;

int test_ask(struct fleet *f, const char *run, struct node_runs *out,
             struct err *e) __asm__("fleet_runs_ask");
int test_bring(struct context *s, const char *id, const struct results_wish *wish, struct run *run,
               struct err *e) __asm__("results_bring");

int test_ask(struct fleet *f, const char *run, struct node_runs *out, struct err *e) {
    (void)f, (void)run, (void)e;
    *out = (struct node_runs){answers, answer_count, RUNS_MAX};
    return 0;
}

int test_bring(struct context *s, const char *id, const struct results_wish *wish, struct run *run,
               struct err *e) {
    size_t len = strlen(asked);
    snprintf(asked + len, sizeof asked - len, "%s,", id);
    is_uint(wish->kinds, RESULT_ALL, "all kinds of results are wanted");
    work_wanted = wish->work;
    if (cut && strcmp(id, cut) == 0)
        s->last_signal = SIGINT;
    if (deaf && strcmp(id, deaf) == 0)
        return err_set(e, ERR_NET, "the node is gone");
    run->fetched = true;
    run->left = half && strcmp(id, half) == 0 ? RESULT_STATE : 0;
    run->work_left = 0;
    return 0;
}

// ---- runs ---------------------------------------------------------------------------------------

// A run that is over and whose results are on its nodes only; the caller changes it.
static struct node_run *answer(const char *run, size_t node) {
    struct node_run *r = &answers[answer_count++];
    *r = (struct node_run){
        .run = run, .state = "finished", .owner = mine, .node_index = node, .over = true};
    return r;
}

static struct run record(const char *id) {
    static const char *command[] = {"true", NULL}, *nodes[] = {"node0", "node1"};
    return (struct run){.id = id,
                        .name = "job",
                        .cluster = "demo",
                        .provider = "local",
                        .created_ms = 1,
                        .command = command,
                        .command_count = 1,
                        .nodes = nodes,
                        .node_count = 2,
                        .nodes_min = 2,
                        .nodes_max = 2,
                        .nproc = "1",
                        .output_dir = "/x",
                        .s3 = "",
                        .version = "",
                        .types = "",
                        .state = "finished",
                        .wanted = RESULT_ALL,
                        .key = "",
                        .resumes = ""};
}

static void save(struct run r) {
    struct err e = {0};
    if (run_save(&context.cluster, &r, &e) < 0)
        bail_out("%s", e.text);
}

static void begin(void) {
    struct err e = {0};
    if (file_remove_tree(context.cluster.runs_dir, &e) < 0)
        bail_out("%s", e.text);
    answer_count = 0, asked[0] = 0;
    deaf = half = cut = NULL;
    context.last_signal = 0;
    rules = (struct unfetched_rules){.way = "dtctl down --force"};
    for (size_t i = 0; i < NODES; i++)
        fleet_nodes[i].failed = false;
}

static void find(void) {
    struct err e = {0};
    if (unfetched_find(&fleet, &rules, &found, &e) < 0)
        bail_out("%s", e.text);
}

static const char *fetched_list(void) {
    struct strbuf text = {0};
    for (size_t i = 0; i < found.fetched_count; i++)
        strbuf_addf(&text, "%s,", found.fetched[i]);
    const char *words = arena_strdup(&arena, strbuf_cstr(&text));
    strbuf_fini(&text);
    return words;
}

// "run:node:what:recorded" of each loss.
static const char *losses(void) {
    struct strbuf text = {0};
    for (size_t i = 0; i < found.count; i++)
        strbuf_addf(&text, "%s%s:%s:%s:%s", i ? " " : "", found.items[i].run, found.items[i].node,
                    found.items[i].what, found.items[i].recorded ? "here" : "unknown");
    const char *words = arena_strdup(&arena, strbuf_cstr(&text));
    strbuf_fini(&text);
    return words;
}

// ---- finding ------------------------------------------------------------------------------------

static void nothing(void) {
    begin();
    find();
    is_int((long long)found.count, 0, "without runs nothing would be lost");
    ok(!found.going, "no run is active");
}

static void over_and_not_here(void) {
    begin();
    struct run part = record("part"), back = record("back"), whole = record("whole");
    struct run rest = record("rest"), worked = record("worked"), none = record("none");
    static const char *lost[] = {"node1"};
    part.fetched = whole.fetched = back.fetched = rest.fetched = worked.fetched = true;
    part.left = none.left = RESULT_MODEL | RESULT_STATE, worked.work_left = 3;
    back.lost = rest.lost = lost, back.lost_count = rest.lost_count = 1;
    back.lost_kinds = rest.lost_kinds = RESULT_ALL, back.left = RESULT_MODEL;
    save(part), save(whole), save(back), save(rest), save(worked), save(none);
    answer("none", 0);
    answer("part", 1);
    answer("whole", 1);
    answer("whole", 0);
    answer("rest", 0);
    answer("worked", 0);
    answer("back", 0);
    answer("back", 1);
    answer("none", 1);
    answer("stranger", 2);
    answer("marked", 0)->fetched = true;
    answer("unowned", 3)->owner = "";
    answer("theirs", 0)->owner = "other";
    answer("theirs-active", 0)->owner = "other";
    answers[answer_count - 1].over = false;
    find();
    is_str(losses(),
           "none:node0:results:here part:node1:model and state:here worked:node0:results:here "
           "back:node1:results:here "
           "stranger:node2:results:unknown unowned:node3:results:unknown",
           "each run once: all of it, its kinds that are left, or that of a node that is back");
    is_str(fetched_list(), "whole,rest,",
           "a run is no loss when its results are here, but for those of lost nodes");
    ok(!found.going, "an active run of another cluster does not count");
    rules.machines_end = true;
    find();
    has_str(losses(), "theirs:node0:results:unknown",
            "where machines end, runs of others would be lost, too");
    is_str(found.going->run, "theirs-active", "where machines end, their active runs count");
}

static void active(void) {
    begin();
    answer("first", 2)->over = false;
    answer("second", 0)->over = false;
    find();
    is_str(found.going->run, "first", "the first active run is named");
    is_int((long long)found.count, 0, "an active run has no results yet");
}

// Nodes that do not answer: what they have is in the records alone.
static void silent(void) {
    static const char *far[] = {"node2", "node3"};
    static const bool gone[NODES] = {[3] = true};
    begin();
    struct run one = record("one"), two = record("two"), here = record("here");
    struct run made = record("made"), elsewhere = record("elsewhere");
    static const char *only_gone[] = {"node3"};
    one.nodes = two.nodes = here.nodes = made.nodes = far;
    two.nodes = only_gone, two.node_count = two.nodes_min = two.nodes_max = 1;
    made.state = "made";
    here.fetched = true;
    save(one), save(two), save(here), save(made), save(elsewhere);
    fleet_nodes[2].failed = fleet_nodes[3].failed = true;
    find();
    is_int((long long)found.count, 0, "where machines stay, a silent node loses nothing");
    rules.machines_end = true;
    find();
    is_str(losses(), "two:node3:results:here one:node2:results:here",
           "where machines end, recorded runs of silent nodes would be lost");
    is_str(fetched_list(), "", "the others are not said to be on silent nodes");
    rules.gone = gone;
    find();
    is_str(losses(), "one:node2:results:here", "a node that is gone has nothing left to lose");
}

// ---- words --------------------------------------------------------------------------------------

static void shown(const char *want, const char *what) {
    char text[4096] = "";
    if (ftruncate(text_fd, 0) < 0 || lseek(text_fd, 0, SEEK_SET) < 0)
        bail_out("no file for the screen");
    unfetched_show(&found);
    ssize_t len = pread(text_fd, text, sizeof text - 1, 0);
    text[len > 0 ? len : 0] = 0;
    is_str(text, want, "%s", what);
}

static void words(void) {
    begin();
    struct run part = record("part");
    part.fetched = true, part.left = RESULT_MODEL | RESULT_STATE;
    save(part), save(record("all"));
    answer("part", 0), answer("all", 0), answer("stranger", 0);
    answer("busy", 1)->over = false;
    answers[answer_count - 1].state = "running";
    find();
    shown("  busy is running\n"
          "  part: its model and state are only on the nodes, and would be fetched first\n"
          "  all: its results are only on the nodes, and would be fetched first\n"
          "  stranger: its results are only on the nodes, and this side has no record of it\n",
          "each loss has a line");
    rules.force = true;
    shown("  busy is running and would be ended\n"
          "  part: its model and state are only on the nodes, and would be lost\n"
          "  all: its results are only on the nodes, and would be lost\n"
          "  stranger: its results are only on the nodes, and would be lost\n",
          "with --force all of them would be lost");
    is_str(unfetched_names(&found), "part, all, stranger", "the losses are named");
    begin();
    for (int i = 0; i < 10; i++)
        answer(arena_printf(&arena, "r%d", i), 0);
    find();
    is_str(unfetched_names(&found), "r0, r1, r2, r3, r4, r5, r6, r7 and 2 more",
           "many names are folded");
}

// ---- settling -----------------------------------------------------------------------------------

static int settle(struct err *e) {
    err_clear(e);
    find();
    return unfetched_settle(&found, e);
}

static void two_runs(void) {
    begin();
    struct run worked = record("worked");
    worked.work_left = 2;
    save(record("plain")), save(worked);
    answer("plain", 0), answer("worked", 1);
}

static void brought(void) {
    struct err e = {0};
    two_runs();
    is_int(settle(&e), 0, "results that can be fetched are fetched");
    is_str(asked, "plain,worked,", "both runs are fetched");
    ok(work_wanted, "new files of the working folder are fetched with them");
    is_int((long long)found.count, 0, "nothing remains to be lost");
    is_str(fetched_list(), "plain,worked,", "both runs are on this side");
}

static void not_brought(void) {
    struct err e = {0};
    two_runs();
    deaf = "plain";
    is_int(settle(&e), -1, "results that cannot be fetched are a refusal");
    is_int(e.code, ERR_FAILED, "the refusal is a failure");
    is_str(e.text,
           "results of 1 run are only on the nodes and cannot be fetched: plain (try: dtctl fetch "
           "plain, or dtctl down --force)",
           "the refusal names the run and both ways out");
    is_str(asked, "plain,worked,", "the other run is fetched all the same");
    two_runs();
    half = "worked";
    is_int(settle(&e), -1, "results that are here in part are a refusal");
    has_str(e.text, "dtctl fetch worked", "the refusal names the run that has more");
    begin();
    answer("stranger", 0), answer("other", 0);
    is_int(settle(&e), -1, "runs without a record are a refusal");
    is_str(asked, "", "runs without a record cannot be fetched");
    has_str(e.text, "results of 2 runs", "the refusal counts them");
    has_str(e.text, "dtctl fetch --path runs/stranger, or",
            "files without a record can be fetched by path");
}

static void called_off(void) {
    struct err e = {0};
    two_runs();
    cut = "plain";
    is_int(settle(&e), -1, "a signal ends the fetching");
    is_int(e.code, ERR_INTERRUPTED, "a signal is no refusal");
    is_str(asked, "plain,", "nothing is fetched behind the signal");
}

static void forced(void) {
    struct err e = {0};
    two_runs();
    answer("busy", 1)->over = false;
    answers[answer_count - 1].state = "running";
    is_int(settle(&e), -1, "an active run is a refusal");
    is_int(e.code, ERR_BUSY, "the refusal says that the run is busy");
    has_str(e.text, "run 'busy' of cluster 'demo' in ", "the refusal names the run and its owner");
    has_str(e.text, "is running on node 'node1' (try: dtctl stop busy, or dtctl down --force)",
            "the refusal names the node and both ways out");
    is_str(asked, "", "nothing is fetched beside an active run");
    rules.force = true;
    is_int(settle(&e), 0, "--force permits all losses");
    is_str(asked, "", "--force fetches nothing");
}

int main(void) {
    struct err e = {0};
    text_fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    if (!mkdtemp(dir) || text_fd < 0)
        bail_out("no folder in /tmp");
    screen_init(&screen, text_fd, 2, SCREEN_PLAIN, true);
    context = (struct context){.arena = &arena, .config = &config, .screen = &screen};
    if (cluster_open(&context.cluster, &arena, dir, "demo", &e) < 0 ||
        cluster_owner_id(&context, &mine, &e) < 0)
        bail_out("%s", e.text);
    fleet = (struct fleet){.context = &context, .nodes = fleet_nodes, .count = NODES};
    for (size_t i = 0; i < NODES; i++) {
        info[i].name = arena_printf(&arena, "node%zu", i);
        fleet_nodes[i] = (struct fleet_node){.fleet = &fleet, .index = i, .info = &info[i]};
    }
    nothing();
    over_and_not_here();
    active();
    silent();
    words();
    brought();
    not_brought();
    called_off();
    forced();
    (void)file_remove_tree(dir, &e);
    arena_fini(&arena);
    return done_testing();
}
