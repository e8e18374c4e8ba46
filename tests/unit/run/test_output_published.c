// SPDX-License-Identifier: Apache-2.0
// Finished files and generations that come here while a run is active: the fetches, their folders,
// the removal of old ones, and disks of nodes that were replaced. Transfers are left out.
#include "run/results/output_published.h"

#include "run/monitor.h"
#include "run/results/state_published.h"
#include "tests/unit/fleet_cluster.h"

#include <stdarg.h>

#define DISK1 "11111111111111111111111111111111"
#define DISK2 "22222222222222222222222222222222"

static struct config config;
static struct run run;
static struct history_node places[2];
static struct follow follow;
static struct follow_node follow_nodes[2];
static struct publish all;
static struct publish_node x;
static const struct publish_kind *kind;
static int64_t every_ms;
static const char *noted;
static struct err e;

// ---- in place of publish.h and of the run's events ----------------------------------------------

void publish_open(struct publish *p, struct follow *f, const struct publish_kind *k, int64_t ms) {
    kind = k;
    every_ms = ms;
    *p = (struct publish){.kind = k, .follow = f, .lock = -1};
}

void publish_close(struct publish *p) {
    (void)p;
}

void monitor_note(const struct context *s, const struct run *r, const char *kind_word, ...) {
    va_list ap;
    const char *word;
    (void)s, (void)r;
    noted = kind_word;
    va_start(ap, kind_word);
    while ((word = va_arg(ap, const char *)))
        noted = arena_printf(&arena, "%s %s", noted, word);
    va_end(ap);
}

// ---- a run --------------------------------------------------------------------------------------

static void begin(void) {
    run = (struct run){.id = "r-1", .wanted = RESULT_ALL, .output_every_ms = 5000};
    follow = (struct follow){.context = &context,
                             .fleet = &fleet,
                             .run = &run,
                             .nodes = follow_nodes,
                             .count = 2,
                             .history = {.nodes = places, .node_count = 2, .round = 3}};
    for (size_t i = 0; i < 2; i++) {
        follow_nodes[i] = (struct follow_node){.follow = &follow, .node = &nodes[i], .index = i};
        places[i] = (struct history_node){.round = 3, .first_rank = (int)i};
    }
    if (file_remove_tree(run_path(&context.cluster, &run, ""), &e) < 0 ||
        file_make_dirs(run_path(&context.cluster, &run, ""), 0700, &e) < 0)
        bail_out("%s", e.text);
    x = (struct publish_node){.all = &all, .node = &follow_nodes[0]};
    err_clear(&e);
}

static const char *at(const char *path) {
    return run_path(&context.cluster, &run, path);
}

static void put(const char *path, const char *text, size_t len) {
    if (file_make_dirs(file_dir(&arena, at(path)), 0700, &e) < 0 ||
        file_write_atomic(at(path), text, len, 0600, &e) < 0)
        bail_out("%s", e.text);
}

static void put_text(const char *path, const char *text) {
    put(path, text, strlen(text));
}

static const char *text_of(const char *path) {
    char *text;
    size_t len;
    return file_read(&arena, at(path), 4096, &text, &len, &e) < 0 ? "absent" : text;
}

// The list of a node's files: its disk and two names.
#define LIST(disk) disk "\0output/a\0model/m"

static void put_files(const char *below) {
    static const char *const names[] = {"output/a", "output/gone", "model/m", "model/gone"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put_text(arena_printf(&arena, "%s/%s", below, names[i]), "x");
}

static const char *files_of(const char *below) {
    return arena_printf(&arena, "%s %s %s %s", text_of(arena_printf(&arena, "%s/output/a", below)),
                        text_of(arena_printf(&arena, "%s/output/gone", below)),
                        text_of(arena_printf(&arena, "%s/model/m", below)),
                        text_of(arena_printf(&arena, "%s/model/gone", below)));
}

// ---- output and model ---------------------------------------------------------------------------

static void test_open(void) {
    begin();
    output_published_open(&all, &follow);
    is_int(every_ms, 5000, "finished files come at the interval of the run");
    ok(str_eq(kind->what, "output") && str_eq(kind->option, " --closed") &&
           str_eq(kind->folder, "closed/") && kind->hashes && !kind->checks,
       "finished files are those of the folder 'closed'");
    run.wanted = RESULT_STATE | RESULT_LOGS;
    output_published_open(&all, &follow);
    is_int(every_ms, 0, "output and model that are not wanted do not come");
    run.wanted = RESULT_MODEL;
    output_published_open(&all, &follow);
    is_int(every_ms, 5000, "a model alone comes, too");
}

static void test_may(void) {
    int other = -1;
    begin();
    output_published_open(&all, &follow);
    if (output_published_stop(&context, &run, &other, &e) < 0)
        bail_out("%s", e.text);
    ok(!kind->may(&x) && all.lock < 0, "another dtctl may fetch the files");
    close(other);
    ok(kind->may(&x) && all.lock >= 0, "one of several dtctl fetches the files");
    ok(kind->may(&x), "the dtctl that has begun continues");
    run.merge = CONFIG_MERGE_RANK0;
    ok(kind->may(&x), "of rank 0 alone the node of rank 0 is asked");
    x.node = &follow_nodes[1];
    ok(!kind->may(&x), "of rank 0 alone no other node is asked");
    x.node = &follow_nodes[0];
    places[0].round = 2;
    ok(!kind->may(&x), "the node of rank 0 of an earlier round is not asked");
    close(all.lock);
}

static void test_keep(void) {
    struct arena a = {0};
    begin();
    output_published_open(&all, &follow);
    is_str(kind->dest(&x, &a, &e), at("live/n0"), "each node has a folder for its files");
    ok(file_exists(at("live/n0")), "the folder is made");
    ok(!output_published_has(&context, &run, "n0"), "a folder without files has nothing");
    put_files("live/n0");
    put("live/n0/list", LIST(DISK1), sizeof LIST(DISK1));
    is_int(kind->keep(&x, &e), 0, "files are kept: %s", e.text);
    is_str(text_of("live/n0/disk"), DISK1, "the disk of the files is known");
    ok(output_published_has(&context, &run, "n0"), "the node has files here");
    is_str(files_of("live/n0"), "x x x x", "the first files stay as they came");
    is_int(kind->keep(&x, &e), 0, "files are kept again");
    is_str(files_of("live/n0"), "x absent x absent", "files that the node has removed go");
    put_files("live/n0");
    put("live/n0/list", LIST(DISK2), sizeof LIST(DISK2));
    is_int(kind->keep(&x, &e), 0, "files of another disk are kept");
    is_str(files_of("live/n0"), "x x x x", "files of an earlier disk stay");
    is_str(text_of("live/n0/disk"), "mixed", "the files are of several disks");
    is_int(kind->keep(&x, &e), 0, "files of the other disk are kept again");
    is_str(files_of("live/n0"), "x x x x", "files of several disks stay from now on");
    put_text("live/n0/list", "no list");
    is_int(kind->keep(&x, &e), -1, "a list that is none is an error");
    kind->note(&x, "3", "77");
    is_str(noted, "output-published peer n0 files 3 bytes 77", "the run has an event");
    put_text("live/n1", "no folder");
    x.node = &follow_nodes[1];
    ok(!kind->dest(&x, &a, &e), "a folder that cannot be made is an error");
    arena_fini(&a);
}

static int move(unsigned kinds) {
    return output_published_move(&context, &run, "n0", kinds, at("part"), &e);
}

static void test_move(void) {
    begin();
    put_files("live/n0");
    put_text("live/n0/state/s", "x");
    is_int(move(RESULT_STATE | RESULT_LOGS), 0, "other kinds have not come: %s", e.text);
    ok(!file_exists(at("part")) && file_exists(at("live/n0/state/s")), "other kinds stay");
    is_int(move(RESULT_OUTPUT), 0, "output is moved: %s", e.text);
    is_str(files_of("part"), "x x absent absent", "output is in the part");
    is_int(move(RESULT_ALL), 0, "the rest is moved: %s", e.text);
    is_str(files_of("part"), "x x x x", "output and model are in the part");
    is_str(files_of("live/n0"), "absent absent absent absent", "nothing is left behind");
    put_text("live/n0/output/a", "later");
    is_int(move(RESULT_ALL), 0, "a part that is there is no error");
    is_str(text_of("part/output/a"), "x", "a part that is there stays");
    is_int(output_published_remove(&context, &run, &e), 0, "the rest can be removed");
    ok(!file_exists(at("live")), "nothing is left of all nodes");
}

static void test_settle(void) {
    static const struct {
        const char *disk, *about, *want;
    } rows[] = {{DISK1, "of the same disk", "x absent x absent"},
                {DISK2, "of another disk", "x x x x"},
                {"mixed", "of several disks", "x x x x"},
                {"", "of no disk", "x x x x"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin();
        put_files("part");
        put("part/list", LIST(DISK1), sizeof LIST(DISK1));
        if (*rows[i].disk)
            put_text("live/n0/disk", rows[i].disk);
        is_int(output_published_settle(&context, &run, "n0", at("part"), &e), 0,
               "a part %s is settled: %s", rows[i].about, e.text);
        is_str(files_of("part"), rows[i].want, "files that the node has removed go or stay, %s",
               rows[i].about);
    }
    put_text("live/n0/disk", DISK1);
    unlink(at("part/list"));
    is_int(output_published_settle(&context, &run, "n0", at("part"), &e), 0,
           "a part may have no list");
    is_str(files_of("part"), "x x x x", "without a list all files stay");
    put_text("part/list", "no list");
    is_int(output_published_settle(&context, &run, "n0", at("part"), &e), -1,
           "a part with a damaged list is an error");
}

// ---- generations of a state ---------------------------------------------------------------------

static void test_state(void) {
    struct arena a = {0};
    begin();
    config.state_every_ms = 7000;
    state_published_open(&all, &follow);
    is_int(every_ms, 7000, "generations come at the interval of the settings");
    ok(str_eq(kind->folder, "snapshot/") && !*kind->option && kind->checks && !kind->hashes,
       "generations are those of the folder 'snapshot'");
    kind->init(&x);
    is_int(x.number, 0, "the first generation has no number before it");
    for (int i = 1; i <= 3; i++) {
        put_text("published/n0/new/left", "over"); // of a transfer that was cut
        const char *to = kind->dest(&x, &a, &e);
        is_str(to, at("published/n0/new/state"), "generation %d has a folder", i);
        ok(!file_exists(at("published/n0/new/left")), "the folder of generation %d is empty", i);
        put_text("published/n0/new/state/s", arena_printf(&arena, "%d", i));
        is_int(kind->keep(&x, &e), 0, "generation %d is kept: %s", i, e.text);
        is_int(x.number, i, "generation %d has its number", i);
        is_str(state_published_newest(&context, &run, "n0"),
               at(arena_printf(&arena, "published/n0/%d", i)), "generation %d is the newest", i);
    }
    ok(!file_exists(at("published/n0/1")) && file_exists(at("published/n0/2")),
       "two generations are kept");
    x.number = 0;
    kind->init(&x);
    is_int(x.number, 3, "a later dtctl continues with the numbers");
    is_int(kind->keep(&x, &e), -1, "a generation that did not come cannot be kept");
    is_int(x.number, 3, "a generation that is not kept has no number");
    kind->note(&x, "1", "5");
    is_str(noted, "state-published peer n0 files 1 bytes 5", "the run has an event of its state");
    put_text("published/n1/1/state/s", "x");
    is_int(state_published_remove(&context, &run, "n0", &e), 0, "a node's generations are removed");
    ok(!state_published_newest(&context, &run, "n0") &&
           state_published_newest(&context, &run, "n1"),
       "the generations of other nodes stay");
    is_int(state_published_remove(&context, &run, NULL, &e), 0, "all generations are removed");
    ok(!file_exists(at("published")), "no generation is left");
    arena_fini(&a);
}

int main(void) {
    fleet_cluster_open();
    context.config = &config;
    fake_fleet_begin("", "", "");
    timer_stop(&turn);
    test_open();
    test_may();
    test_keep();
    test_move();
    test_settle();
    test_state();
    fake_fleet_end();
    fleet_cluster_close();
    return done_testing();
}
