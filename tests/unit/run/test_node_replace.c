// SPDX-License-Identifier: Apache-2.0
// Lost machines of a run are replaced by `dtctl up`, which is this program with the word "up". The
// clock is the test's.
#include "run/node_replace.h"

#include "run/monitor.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/said.h"
#include "tests/unit/turned_clock.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 4, TICK_MS = 500 };
enum { START_MS = TICK_MS + REPLACE_SETTLE_MS }; // from a loss to the start of `up`

static char folder[] = "/tmp/test_node_replace.XXXXXX";
static struct arena a;
static struct screen screen;
static struct config config;
static struct context context;
static struct inventory_node info[NODES];
static struct fleet_node fleet_nodes[NODES];
static struct fleet fleet;
static struct run run;
static struct follow follow;
static struct replace replace;
static struct strbuf noted, replaced; // events of the run; nodes with a new machine
static char *env[3];
static struct err error;

// ---- in place of the rest of the run ------------------------------------------------------------

void monitor_note(const struct context *s, const struct run *r, const char *kind, ...) {
    va_list ap;
    (void)s, (void)r;
    strbuf_addf(&noted, "%s", kind);
    va_start(ap, kind);
    for (const char *word = va_arg(ap, const char *); word; word = va_arg(ap, const char *))
        strbuf_addf(&noted, " %s", word);
    va_end(ap);
    strbuf_addc(&noted, ';');
}

void follow_replaced(struct follow_node *n) {
    strbuf_addf(&replaced, "%s=%s ", n->node->info->name, n->node->info->instance_id);
}

// ---- `dtctl up` ---------------------------------------------------------------------------------

static void ignore(int signal) {
    (void)signal;
}

// UP_DOES: a status to end with; "term": 0, at SIGTERM; "int": it ends by SIGINT; "deaf": not even
// by that.
static int be_up(int argc, char **argv) {
    const char *does = getenv("UP_DOES");
    struct sigaction at_term = {.sa_handler = ignore}, at_int = {.sa_handler = SIG_IGN};
    sigset_t none, term;
    if (!does)
        return 1;
    sigemptyset(&none);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    sigaction(SIGTERM, &at_term, NULL);
    if (str_eq(does, "deaf"))
        sigaction(SIGINT, &at_int, NULL);
    for (int i = 1; i < argc; i++)
        printf("%s%s", i == 1 ? "words:" : " ", argv[i]);
    printf("\n");
    fflush(stdout);
    fprintf(stderr, "group: %s\n", getpgrp() == getpid() ? "its own" : "another");
    printf("ready\n");
    fflush(stdout);
    if (strchr("0123456789", does[0]))
        return does[0] - '0';
    sigsuspend(&none);
    return 0;
}

static const char *log_text(void) {
    char *text = NULL;
    size_t len;
    struct err e = {0};
    return file_read(&a, run_path(&context.cluster, &run, "replace.log"), 65536, &text, &len, &e) ==
                   0
               ? text
               : "";
}

static bool is_making(void) {
    return replace.up.watch.loop != NULL;
}

static void await_end(void) {
    for (int i = 0; i < 600 && is_making(); i++)
        loop_once(context.loop, 50);
    if (is_making())
        bail_out("'up' does not end");
}

static void await_ready(void) {
    for (int i = 0; i < 600 && !strstr(log_text(), "ready\n"); i++)
        usleep(50000);
    if (!strstr(log_text(), "ready\n"))
        bail_out("'up' does not begin");
}

// ---- the run ------------------------------------------------------------------------------------

static void save(const char *id1, const char *id2) {
    struct inventory_node now[NODES];
    struct inventory inv = {.name = "c", .provider = "aws", .created = "", .nodes = now};
    memcpy(now, info, sizeof now);
    now[1].instance_id = id1;
    now[2].instance_id = id2;
    inv.count = NODES;
    if (cluster_create(&context.cluster, &error) < 0 ||
        cluster_save(&context.cluster, &inv, &error) < 0)
        bail_out("%s", error.text);
}

static void begin(const char *does) {
    for (size_t i = 0; i < NODES; i++) {
        info[i] = (struct inventory_node){.name = arena_printf(&a, "n%zu", i),
                                          .transport = INVENTORY_SSH,
                                          .host = "h",
                                          .address = "10.0.0.1",
                                          .root = ".dtctl",
                                          .arch = "",
                                          .dtrun = "",
                                          .instance_id = arena_printf(&a, "i-%zu", i),
                                          .instance_type = "",
                                          .zone = "",
                                          .purchase = "",
                                          .launched = "",
                                          .config_hash = ""};
        fleet_nodes[i] = (struct fleet_node){
            .fleet = &fleet, .index = i, .info = &info[i], .up = true, .ready = true};
        follow.nodes[i] = (struct follow_node){.follow = &follow, .node = &fleet_nodes[i]};
        follow.history.nodes[i] = (struct history_node){.name = info[i].name, .joined = true};
    }
    follow.over_ms = 0;
    follow.leave = follow.stopping = follow.awaits = false;
    env[0] = arena_printf(&a, "UP_DOES=%s", does);
    unlink(run_path(&context.cluster, &run, "replace.log"));
    save("i-1", "i-2");
    strbuf_clear(&noted);
    strbuf_clear(&replaced);
    said_clear();
    node_replace_init(&replace, &follow);
}

static void lose(size_t i) {
    follow.history.nodes[i].lost = true;
    fleet_nodes[i].up = false;
}

static void end_up(void) {
    await_ready();
    kill(replace.up.pid, SIGTERM);
    await_end();
}

static void test_when(void) {
    begin("term");
    ok(follow.awaits, "the run waits for machines that come");
    clock_turn(context.loop, 20000);
    is_str(said(), "", "nothing happens while all nodes are there");
    follow.history.nodes[1].lost = true; // the others continue without it
    clock_turn(context.loop, 20000);
    ok(!is_making(), "a node that answers is not gone");
    fleet_nodes[1].up = false;
    follow.nodes[1].restarting = true;
    clock_turn(context.loop, 20000);
    ok(!is_making(), "a node whose agent is being started is not gone");
    follow.nodes[1].restarting = false;
    follow.history.nodes[1].lost = false;
    clock_turn(context.loop, 20000);
    ok(!is_making(), "a node that is out of reach, but in the round, is not gone");
    follow.history.nodes[1].lost = true;
    clock_turn(context.loop, TICK_MS + REPLACE_SETTLE_MS - CLOCK_STEP_MS);
    ok(!is_making(), "others may be lost within some seconds");
    follow.history.nodes[1].lost = false;
    clock_turn(context.loop, TICK_MS + CLOCK_STEP_MS);
    follow.history.nodes[1].lost = true;
    clock_turn(context.loop, TICK_MS + REPLACE_SETTLE_MS - CLOCK_STEP_MS);
    ok(!is_making(), "a node that was back meanwhile is lost anew");
    follow.history.nodes[2].left = true;
    fleet_nodes[2].up = false;
    follow.history.nodes[3].joined = false;
    fleet_nodes[3].up = false;
    is_str(said(), "", "the user reads nothing so far");
    clock_turn(context.loop, CLOCK_STEP_MS);
    ok(is_making(), "`up` starts after these seconds");
    has_str(said(),
            arena_printf(&a, "n[1-3]: gone; dtctl up replaces them (log: %s)\n", replace.log_path),
            "the user reads which nodes are gone");
    is_str(strbuf_cstr(&noted), "replacing-nodes peers n[1-3];", "the run has an event");
    clock_turn(context.loop, 20000);
    end_up();
    is_str(strbuf_cstr(&noted), "replacing-nodes peers n[1-3];", "`up` runs once at a time");
    is_str(log_text(), "words:up -y -c c\ngroup: its own\nready\n",
           "`up` has the name of the cluster, and its words are in the log");
    node_replace_close(&replace);
    clock_turn(context.loop, 20000);
    ok(!is_making(), "nothing happens after the end");
}

static void test_file(void) {
    config.file = "other.toml";
    config.file_found = true;
    begin("0");
    lose(1);
    clock_turn(context.loop, START_MS);
    await_end();
    config.file_found = false;
    has_str(log_text(), "words:up -y -c c -f other.toml\n", "`up` has the file of the command");
    node_replace_close(&replace);
}

static void test_replaced(void) {
    begin("0");
    lose(1);
    save("j-1", "i-2");
    clock_turn(context.loop, START_MS);
    await_end();
    is_str(strbuf_cstr(&replaced), "n1=j-1 ", "the new machine has the place of the lost one");
    has_str(said(), "dtctl up has replaced 1 node\n", "the user reads of one node");
    has_str(strbuf_cstr(&noted), "nodes-replaced;", "the run has an event");
    strbuf_clear(&noted);
    lose(2);
    save("k-1", "k-2");
    clock_turn(context.loop, REPLACE_PAUSE_MS + REPLACE_SETTLE_MS - CLOCK_STEP_MS);
    ok(!is_making(), "the new machine has some seconds to join");
    clock_turn(context.loop, CLOCK_STEP_MS);
    ok(is_making(), "after these the next `up` starts");
    await_end();
    is_str(strbuf_cstr(&replaced), "n1=j-1 n1=k-1 n2=k-2 ", "both machines are new");
    has_str(said(), "dtctl up has replaced 2 nodes\n", "the user reads of two nodes");
    follow.history.nodes[1].lost = follow.history.nodes[2].lost = false;
    lose(3);
    fleet_nodes[1].up = true;
    save("l-1", "k-2");
    strbuf_clear(&replaced);
    clock_turn(context.loop, 20000);
    await_end();
    is_str(strbuf_cstr(&replaced), "", "a machine that is connected is no new one");
    node_replace_close(&replace);
}

// A node of the run that is in the cluster no more, and one that follows it there.
static void test_smaller(void) {
    begin("0");
    struct inventory_node last[] = {info[0], info[3]};
    struct inventory inv = {
        .name = "c", .provider = "aws", .created = "", .nodes = last, .count = 2};
    last[1].instance_id = "j-3";
    if (cluster_save(&context.cluster, &inv, &error) < 0)
        bail_out("%s", error.text);
    lose(1);
    lose(3);
    clock_turn(context.loop, START_MS);
    await_end();
    is_str(strbuf_cstr(&replaced), "n3=j-3 ", "a node without a machine stays lost");
    node_replace_close(&replace);
}

static void test_failures(void) {
    int64_t pause_ms = REPLACE_PAUSE_MS;
    begin("3");
    lose(1);
    save("j-1", "i-2");
    clock_turn(context.loop, START_MS);
    for (int i = 1; i < REPLACE_TRIES_MAX; i++, pause_ms *= 2) {
        await_end();
        has_str(said(),
                arena_printf(&a,
                             "dtctl up has not replaced a node that is gone exit_status=3 "
                             "log='%s' try=%d of=5\n",
                             replace.log_path, i),
                "the user reads of failure %d", i);
        clock_turn(context.loop, pause_ms + REPLACE_SETTLE_MS - CLOCK_STEP_MS);
        ok(!is_making(), "the pause after failure %d is twice as long as the one before", i);
        clock_turn(context.loop, CLOCK_STEP_MS);
        ok(is_making(), "the next try follows the pause");
    }
    await_end();
    has_str(said(), "try=5 of=5", "the last try has failed");
    clock_turn(context.loop, 16 * pause_ms);
    ok(!is_making(), "no further try follows");
    is_str(strbuf_cstr(&replaced), "", "the inventory of a failed `up` is not used");
    ok(!strstr(strbuf_cstr(&noted), "nodes-replaced"), "the run has no event of a new node");
    node_replace_close(&replace);
}

// A success lets failures before it be forgotten.
static void test_tries(void) {
    begin("3");
    lose(1);
    clock_turn(context.loop, START_MS);
    await_end();
    env[0] = arena_strdup(&a, "UP_DOES=0");
    save("j-1", "i-2");
    clock_turn(context.loop, REPLACE_PAUSE_MS + REPLACE_SETTLE_MS);
    await_end();
    is_str(strbuf_cstr(&replaced), "n1=j-1 ", "the second try has replaced the node");
    said_clear();
    clock_turn(context.loop, REPLACE_PAUSE_MS + REPLACE_SETTLE_MS);
    await_end();
    has_str(said(), "exit_status=0", "an `up` without a new machine is none that helps");
    has_str(said(), "try=1 of=5\n", "failures are counted from the last success on");
    said_clear();
    if (file_write_atomic(context.cluster.inventory_path, "x", 1, 0600, &error) < 0)
        bail_out("%s", error.text);
    clock_turn(context.loop, 20000);
    await_end();
    has_str(said(), "try=2 of=5 reason=", "an inventory that cannot be read is the reason");
    node_replace_close(&replace);
}

static void test_not_wanted(void) {
    begin("0");
    for (size_t i = 0; i < NODES; i++)
        lose(i);
    clock_turn(context.loop, 20000);
    ok(!is_making(), "a run that is lost on all nodes gets no machines");
    fleet_nodes[0].up = true;
    follow.nodes[0].over = true;
    clock_turn(context.loop, 20000);
    ok(!is_making(), "a run that is over on the nodes that are left gets none either");
    follow.nodes[0].over = false;
    clock_turn(context.loop, START_MS);
    ok(is_making(), "one node that continues needs the others");
    await_end();
    node_replace_close(&replace);
    for (int i = 0; i < 3; i++) {
        begin("0");
        lose(1);
        clock_turn(context.loop, 3000);
        follow.over_ms = i == 0;
        follow.leave = i == 1;
        follow.stopping = i == 2;
        clock_turn(context.loop, 20000);
        ok(!is_making(), "a run that ends gets no machines (%d)", i);
        node_replace_close(&replace);
    }
    begin("term");
    lose(1);
    save("j-1", "i-2");
    clock_turn(context.loop, START_MS);
    follow.stopping = true;
    end_up();
    is_str(strbuf_cstr(&replaced), "", "a run that ends meanwhile needs no new machine");
    node_replace_close(&replace);
}

static void test_no_log(void) {
    begin("0");
    lose(1);
    if (symlink("elsewhere", run_path(&context.cluster, &run, "replace.log")) < 0)
        bail_out("no link");
    clock_turn(context.loop, START_MS);
    ok(!is_making(), "without a log there is no `up`");
    has_str(said(), "dtctl up cannot be started for nodes that are gone reason=\"cannot write '",
            "the user reads why");
    said_clear();
    clock_turn(context.loop, 60000);
    is_str(said(), "", "`up` is not tried again");
    node_replace_close(&replace);
    unlink(run_path(&context.cluster, &run, "replace.log"));
}

static void pass_all(struct timer *t) {
    (void)t;
    clock_ahead_ms += REPLACE_STOP_MS_MAX;
}

static void test_close(void) {
    struct timer all = {0};
    struct replace none = {0};
    node_replace_close(&none);
    begin("int");
    lose(1);
    clock_turn(context.loop, START_MS);
    await_ready();
    pid_t pid = replace.up.pid;
    node_replace_close(&replace);
    is_int(waitpid(pid, NULL, WNOHANG), -1, "an `up` that is interrupted has ended, and is reaped");
    has_str(said(), "calling off dtctl up, which was replacing a node of this run …\n",
            "the user reads that it is called off");
    ok(!strstr(said(), "still undoing"), "`up` has ended in time");
    ok(!replace.follow, "nothing is followed any more");
    begin("deaf");
    lose(1);
    clock_turn(context.loop, START_MS);
    await_ready();
    pid = replace.up.pid;
    timer_start(context.loop, &all, 0, pass_all);
    node_replace_close(&replace);
    has_str(said(),
            arena_printf(&a, "dtctl up is still undoing an unfinished change log='%s'\n",
                         replace.log_path),
            "an `up` that takes too long is left alone");
    ok(!is_making(), "the end of `up` is not waited for");
    is_int(kill(pid, SIGKILL), 0, "`up` still works");
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv) {
    if (argc > 1)
        return be_up(argc, argv);
    if (!mkdtemp(folder) || cluster_open(&context.cluster, &a, folder, "c", &error) < 0)
        bail_out("no folder");
    clock_stop();
    config.cluster.name = "c";
    context.arena = &a;
    context.config = &config;
    context.screen = &screen;
    context.env = env;
    context.loop = loop_open(&error);
    said_open(&screen);
    run = (struct run){.id = "r", .name = "r", .node_count = NODES};
    if (!context.loop ||
        file_make_dirs(run_path(&context.cluster, &run, "nodes"), 0700, &error) < 0)
        bail_out("%s", error.text);
    fleet = (struct fleet){.context = &context, .nodes = fleet_nodes, .count = NODES};
    follow = (struct follow){.context = &context, .fleet = &fleet, .run = &run, .count = NODES};
    follow.nodes = arena_new(&a, struct follow_node, NODES);
    follow.history.nodes = arena_new(&a, struct history_node, NODES);
    test_when();
    test_file();
    test_replaced();
    test_smaller();
    test_failures();
    test_tries();
    test_not_wanted();
    test_no_log();
    test_close();
    said_close(&screen);
    loop_close(context.loop);
    cluster_close(&context.cluster);
    file_remove_tree(folder, &error);
    strbuf_fini(&noted);
    strbuf_fini(&replaced);
    arena_fini(&a);
    return done_testing();
}
