// SPDX-License-Identifier: Apache-2.0
// Files that the nodes of an active run have finished come here at an interval. The nodes are in
// the test, transfers are a stand-in, and the clock is the test's.
#include "run/results/publish.h"

#include "tests/tap.h"
#include "tests/unit/said.h"
#include "tests/unit/transport_fake.h"
#include "tests/unit/turned_clock.h"
#include "xfer/xfer_impl.h"

#include <unistd.h>

enum { NODES = 3, EVERY_MS = 2000 };

#define D1 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define D2 "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

static struct arena a;
static struct screen screen;
static struct context context;
static struct inventory_node info[NODES];
static struct fleet_node fleet_nodes[NODES];
static struct fleet fleet;
static struct run run;
static struct follow follow;
static struct publish publish;
static struct publish_kind kind; // what the tests change of it
static struct err error;

// ---- transfers without a network ----------------------------------------------------------------

static struct {
    int begun, cancelled;
    const char *words; // of the newest
    void *ctx;
    const struct xfer_events *events;
    bool refuses;
} transfer;

static struct xfer one; // each transfer

static void on_cancel(struct xfer *x) {
    transfer.cancelled += x == &one;
}

static void on_destroy(struct xfer *x) {
    (void)x;
}

struct xfer *xfer_fetch(struct transport_link *l, const struct xfer_fetch_spec *spec,
                        const struct xfer_events *events, void *ctx, struct err *e) {
    (void)l;
    if (transfer.refuses) {
        (void)err_set(e, ERR_NET, "no room");
        return NULL;
    }
    transfer.begun++;
    transfer.words = arena_printf(&a, "%s %s %s%s to %s, hashes %s", spec->program, spec->root,
                                  spec->paths[0], spec->paths[1] ? " and more" : "", spec->dest,
                                  spec->hash_cache_path ? spec->hash_cache_path : "-");
    transfer.ctx = ctx;
    transfer.events = events;
    one = (struct xfer){.stop = on_cancel, .destroy = on_destroy};
    return &one;
}

static void end_transfer(const char *why) {
    struct err e = {0};
    if (why)
        (void)err_set(&e, ERR_NET, "%s", why);
    transfer.events->on_end(&one, transfer.ctx, &e,
                            &(struct xfer_progress){.files_total = 7, .bytes_total = 70});
}

// ---- the kind -----------------------------------------------------------------------------------

static int inits, keeps;
static bool is_full, may_now;
static const char *noted;

static void init(struct publish_node *x) {
    x->number = 100 + inits++;
}

static bool may(struct publish_node *x) {
    (void)x;
    return may_now;
}

static const char *dest(struct publish_node *x, struct arena *arena, struct err *e) {
    if (is_full)
        (void)err_set(e, ERR_SYS, "no space");
    return is_full ? NULL : arena_printf(arena, "/here/%s", x->node->node->info->name);
}

static int keep(struct publish_node *x, struct err *e) {
    keeps++;
    return x->number < 100 ? err_set(e, ERR_SYS, "cannot be kept") : 0;
}

static void note(const struct publish_node *x, const char *files, const char *bytes) {
    noted = arena_printf(&a, "%s %s %s", x->node->node->info->name, files, bytes);
}

// ---- nodes --------------------------------------------------------------------------------------

static void begin(void) {
    inits = keeps = 0;
    is_full = may_now = false;
    noted = "";
    memset(&transfer, 0, sizeof transfer);
    run.native = false;
    for (size_t i = 0; i < NODES; i++) {
        info[i].name = arena_printf(&a, "n%zu", i);
        fleet_nodes[i] = (struct fleet_node){.fleet = &fleet,
                                             .index = i,
                                             .info = &info[i],
                                             .up = i == 0,
                                             .ready = true,
                                             .facts = {.program = "/p", .root = "/r"},
                                             .link = fake_link(context.loop, NULL, NULL)};
        follow.nodes[i] =
            (struct follow_node){.follow = &follow, .node = &fleet_nodes[i], .index = i};
    }
    kind = (struct publish_kind){.what = "state",
                                 .option = " --closed",
                                 .folder = "snapshot/",
                                 .checks = true,
                                 .failures_max = 1,
                                 .init = init,
                                 .dest = dest,
                                 .keep = keep,
                                 .note = note};
    said_clear();
    publish_open(&publish, &follow, &kind, EVERY_MS);
}

static void end(void) {
    publish_close(&publish);
    for (size_t i = 0; i < NODES; i++)
        transport_close(fleet_nodes[i].link);
    fake_free_all();
}

static void turn(int64_t ms) {
    clock_turn(context.loop, ms);
}

// The newest command is answered by a line. "!…": the node ends with an error.
static void answer(const char *line) {
    struct fake_run *r = fake_run(0);
    bool fails = line[0] == '!';
    const char *text = fails ? arena_printf(&a,
                                            "{\"event\":\"error\",\"code\":\"not-found\","
                                            "\"text\":\"%s\"}\n",
                                            line + 1)
                             : arena_printf(&a, "%s\n", line);
    fake_say(r, text, strlen(text));
    fake_exit(r, fails);
}

static const char *command(void) {
    return fake_run(0) ? fake_run(0)->line : "";
}

#define SNAPSHOT                                                                                   \
    "/p --node snapshot --root /r --run r1"                                                        \
    " --closed"
#define WHOLE(digest)                                                                              \
    "{\"new\":true,\"whole\":true,\"digest\":\"" digest "\",\"files\":3,\"bytes\":30}"
#define BUSY "{\"new\":true,\"whole\":false,\"reason\":\"model.bin grows\"}"
#define OLD  "{\"new\":false}"

// All of a generation comes.
static void bring(void) {
    answer(WHOLE(D1));
    end_transfer(NULL);
    answer("{\"whole\":true}");
}

static void test_comes(void) {
    begin();
    is_int(inits, NODES, "the kind prepares each node");
    turn(EVERY_MS - CLOCK_STEP_MS);
    is_int(fake_run_count(), 0, "no node is asked before the interval is over");
    turn(CLOCK_STEP_MS);
    is_str(command(), SNAPSHOT, "the node in reach is asked for a generation");
    turn(10 * EVERY_MS);
    is_int(fake_run_count(), 1, "a node is asked once at a time");
    answer(WHOLE(D1));
    is_str(transfer.words, "/p /r runs/r1/snapshot/ to /here/n0, hashes -",
           "the files of the generation are fetched");
    turn(10 * EVERY_MS);
    is_int(fake_run_count(), 1, "the node is not asked while files come");
    end_transfer(NULL);
    is_str(command(), SNAPSHOT " --again --known " D1,
           "the node is asked whether they have stayed as they were");
    is_int(keeps, 0, "until then they are not kept");
    answer("{\"whole\":true}");
    is_int(keeps, 1, "files that stayed are kept");
    is_int(publish.kept, 1, "generations that are kept are counted");
    is_str(noted, "n0 3 30", "the event has the files and bytes of the generation");
    turn(EVERY_MS - CLOCK_STEP_MS);
    is_int(fake_run_count(), 2, "the next question waits for an interval");
    turn(CLOCK_STEP_MS);
    is_str(command(), SNAPSHOT " --known " D1, "the node learns what is here");
    answer(OLD);
    is_int(transfer.begun, 1, "nothing is fetched a second time");
    turn(EVERY_MS);
    is_int(fake_run_count(), 4, "the node is asked again an interval later");
    is_str(said(), "", "the user reads nothing");
    end();
}

static void test_without_check(void) {
    begin();
    kind.checks = false;
    kind.hashes = true;
    turn(EVERY_MS);
    answer(WHOLE(D1));
    is_str(transfer.words, "/p /r runs/r1/snapshot/ to /here/n0, hashes /cluster/hashes",
           "hashes of files that stay are cached");
    end_transfer(NULL);
    is_int(fake_run_count(), 1, "the node is not asked about files that do not change");
    is_int(keeps, 1, "the files are kept");
    is_str(noted, "n0 7 70", "the event has what came this time");
    noted = "";
    turn(EVERY_MS);
    answer(WHOLE(D2));
    transfer.events->on_end(&one, transfer.ctx, &(struct err){0}, &(struct xfer_progress){0});
    is_str(noted, "", "there is no event when nothing came");
    is_int(publish.kept, 2, "the newest files are here");
    end();
}

static void test_busy(void) {
    begin();
    turn(EVERY_MS);
    answer(BUSY);
    turn(PUBLISH_BUSY_MS - CLOCK_STEP_MS);
    is_int(fake_run_count(), 1, "a node that writes has a second to end");
    turn(CLOCK_STEP_MS);
    is_int(fake_run_count(), 2, "the node is asked again after it");
    answer(WHOLE(D1));
    end_transfer(NULL);
    answer("{\"whole\":false,\"reason\":\"changed\"}");
    is_int(keeps, 0, "files that have changed while they came are not kept");
    turn(PUBLISH_BUSY_MS);
    is_str(command(), SNAPSHOT, "the files are asked for again");
    for (int64_t ms = EVERY_MS + 2 * PUBLISH_BUSY_MS; ms < PUBLISH_LATE * EVERY_MS;
         ms += PUBLISH_BUSY_MS) {
        answer(BUSY);
        turn(PUBLISH_BUSY_MS);
    }
    answer(BUSY);
    is_str(said(), "", "the user reads nothing for ten intervals");
    turn(PUBLISH_BUSY_MS);
    answer(BUSY);
    has_str(said(),
            "warning: results of a node are never whole for a second node=n0 kind=state "
            "seconds=21 reason=\"model.bin grows\"\n",
            "the user reads which file is busy");
    said_clear();
    turn(PUBLISH_BUSY_MS);
    answer(BUSY);
    is_str(said(), "", "the user reads it once");
    turn(PUBLISH_BUSY_MS);
    bring();
    is_int(keeps, 1, "the files are whole at last");
    for (int i = 0; i < PUBLISH_LATE + 1; i++) {
        turn(EVERY_MS);
        answer(OLD);
    }
    turn(EVERY_MS);
    answer(BUSY);
    is_str(said(), "", "the time counts from the last answer that all is here");
    for (int i = 0; i < PUBLISH_LATE * EVERY_MS / PUBLISH_BUSY_MS; i++) {
        turn(PUBLISH_BUSY_MS);
        answer(BUSY);
    }
    has_str(said(), "never whole for a second", "after a success the user reads it once more");
    end();
}

// An answer that leaves something out says no.
static void test_short_answers(void) {
    begin();
    turn(EVERY_MS);
    answer("{\"whole\":true,\"digest\":\"" D1 "\"}");
    turn(PUBLISH_BUSY_MS);
    is_int(fake_run_count(), 1, "files that are not called new are not");
    turn(EVERY_MS - PUBLISH_BUSY_MS);
    answer("{\"new\":true,\"digest\":\"" D1 "\"}");
    is_int(transfer.begun, 0, "files that are not called whole are not");
    turn(PUBLISH_BUSY_MS);
    answer(WHOLE(D1));
    end_transfer(NULL);
    answer("{}");
    is_int(keeps, 0, "files are kept when the node has said so alone");
    turn(PUBLISH_BUSY_MS);
    is_int(fake_run_count(), 5, "the node is asked again");
    end();
}

static const char *const WARNING = "warning: results of a node cannot be fetched while the run is "
                                   "active node=n0 kind=state reason=\"";

static void test_failures(void) {
    begin();
    turn(EVERY_MS);
    answer("!gone");
    is_str(said(), "", "one failure in a row may be");
    turn(EVERY_MS - CLOCK_STEP_MS);
    is_int(fake_run_count(), 1, "after a failure an interval passes");
    turn(CLOCK_STEP_MS);
    answer("{\"new\":");
    has_str(said(), WARNING, "of the second one the user reads");
    said_clear();
    turn(EVERY_MS);
    answer("!gone");
    is_str(said(), "", "the user reads it once");
    turn(EVERY_MS);
    bring();
    is_int(publish.kept, 1, "a later try brings the files");
    turn(EVERY_MS);
    answer("!gone");
    is_str(said(), "", "failures are counted from the last success on");
    turn(EVERY_MS);
    answer("!gone");
    has_str(said(), arena_printf(&a, "%sgone\"", WARNING), "the next two are news again");
    end();
}

// Each of these is a failure, with its reason.
static void test_reasons(void) {
    static const struct {
        const char *answer, *why;
    } cases[] = {
        {"!no such run", "no such run"},
        {"{\"new\":true,\"whole\":true}", "its answer has no digest"},
        {"{\"new\":true,\"whole\":true,\"digest\":\"0123\"}", "its answer has no digest"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin();
        kind.failures_max = 0;
        turn(EVERY_MS);
        answer(cases[i].answer);
        has_str(said(), arena_printf(&a, "%s%s\"", WARNING, cases[i].why), "%s: the user reads why",
                cases[i].why);
        is_int(transfer.begun, 0, "nothing is fetched");
        turn(EVERY_MS);
        is_int(fake_run_count(), 2, "the node is asked again");
        end();
    }
}

static void test_transfers(void) {
    for (int i = 0; i < 5; i++) {
        static const char *const why[] = {"no space", "no room", "reset", "cannot be kept",
                                          "node n1: no more commands"};
        begin();
        kind.failures_max = 0;
        is_full = i == 0;
        transfer.refuses = i == 1;
        publish.nodes[0].number = i == 3 ? 1 : 100;
        turn(EVERY_MS);
        answer(WHOLE(D1));
        fake_refuses = i == 4;
        if (i > 1)
            end_transfer(i == 2 ? "reset" : NULL);
        if (i == 3)
            answer("{\"whole\":true}");
        has_str(said(), arena_printf(&a, "%s%s", WARNING, why[i]), "%s: the user reads why",
                why[i]);
        is_int(publish.kept, 0, "nothing counts as kept");
        is_str(noted, "", "there is no event");
        turn(EVERY_MS);
        is_str(command(), SNAPSHOT, "the node is asked again, as before");
        end();
    }
    begin();
    kind.failures_max = 0;
    fake_refuses = 1;
    turn(EVERY_MS);
    has_str(said(), "no more commands", "a question that cannot be asked is a failure");
    turn(EVERY_MS);
    is_int(fake_run_count(), 1, "the question is asked later");
    fleet_nodes[0].up = false;
    said_clear();
    publish.nodes[0].warned = false;
    answer("!lost");
    is_str(said(), "", "the loss of a node is no news");
    is_int(publish.nodes[0].failures, 1, "the loss of a node is no failure of its files");
    end();
}

static void test_who(void) {
    begin();
    fleet_nodes[1].up = true;
    turn(EVERY_MS);
    is_int(fake_run_count(), 2, "each node has files of its own");
    end();
    begin();
    run.native = true;
    fleet_nodes[1].up = true;
    fleet_nodes[2].up = true;
    turn(EVERY_MS);
    is_int(fake_run_count(), 1, "one node gives what all have");
    ok(fake_run(0)->r.link == fleet_nodes[0].link, "the first node is asked");
    fleet_nodes[0].up = false;
    turn(EVERY_MS);
    is_int(fake_run_count(), 2, "when it is lost another one takes its place");
    ok(fake_run(0)->r.link == fleet_nodes[1].link, "the next node is asked");
    end();
    for (int i = 0; i < 4; i++) {
        begin();
        fleet_nodes[0].up = i != 0;
        fleet_nodes[0].ready = i != 1;
        follow.nodes[0].over = i == 2;
        kind.may = i == 3 ? may : NULL;
        turn(3 * EVERY_MS);
        is_int(fake_run_count(), 0, "a node that is not there is not asked (%d)", i);
        fleet_nodes[0].up = fleet_nodes[0].ready = may_now = true;
        follow.nodes[0].over = false;
        turn(EVERY_MS);
        is_int(fake_run_count(), 1, "once it is back it is asked");
        end();
    }
}

static void test_close(void) {
    begin();
    turn(EVERY_MS);
    publish_close(&publish);
    answer(WHOLE(D1));
    is_int(transfer.begun, 0, "an answer after the end has no effect");
    turn(10 * EVERY_MS);
    is_int(fake_run_count(), 1, "after the end no node is asked");
    is_int(transfer.cancelled, 0, "there is no transfer to drop");
    publish_close(&publish);
    end();
    begin();
    char byte;
    int ends[2];
    if (pipe(ends) < 0)
        bail_out("no pipe");
    publish.lock = ends[1];
    turn(EVERY_MS);
    answer(WHOLE(D1));
    publish_close(&publish);
    is_int(transfer.cancelled, 1, "a transfer is dropped");
    is_int(read(ends[0], &byte, 1), 0, "the lock is released");
    close(ends[0]);
    end();
    is_int(transfer.cancelled, 1, "a transfer is dropped once");
    publish_open(&publish, &follow, &kind, 0);
    turn(EVERY_MS);
    ok(!publish.follow && fake_run_count() == 0, "without an interval nothing comes");
    is_int(publish.lock, -1, "there is no lock");
    publish_close(&publish);
    kind.init = NULL;
    publish_open(&publish, &follow, &kind, EVERY_MS);
    publish_close(&publish);
    ok(!publish.follow, "a kind may prepare nothing");
}

int main(void) {
    clock_stop();
    context.arena = &a;
    context.screen = &screen;
    context.cluster.dir = "/cluster";
    context.loop = loop_open(&error);
    if (!context.loop)
        bail_out("%s", error.text);
    said_open(&screen);
    run = (struct run){.id = "r1", .name = "r", .node_count = NODES};
    fleet = (struct fleet){.context = &context, .nodes = fleet_nodes, .count = NODES};
    follow = (struct follow){.context = &context, .fleet = &fleet, .run = &run, .count = NODES};
    follow.nodes = arena_new(&a, struct follow_node, NODES);
    test_comes();
    test_without_check();
    test_busy();
    test_short_answers();
    test_failures();
    test_reasons();
    test_transfers();
    test_who();
    test_close();
    said_close(&screen);
    loop_close(context.loop);
    arena_fini(&a);
    return done_testing();
}
