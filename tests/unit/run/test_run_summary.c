// SPDX-License-Identifier: Apache-2.0
// The outcome of runs as JSON and as the last screen: of the native trainer, of a command that has
// failed, and of a run of which little is known. The texts are in run_summary.txt.
#include "run/run_summary.h"

#include "base/json.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/expected.h"

#include <string.h>
#include <unistd.h>

enum { NODES = 3 };

static char folder[] = "/tmp/test_run_summary.XXXXXX";
static struct arena a;
static struct context context;
static struct inventory_node info[NODES];
static struct fleet_node fleet_nodes[NODES];
static struct history_round rounds[12];
static struct run run;
static struct follow follow;
static struct collect_result collect;
static struct summary summary;
static struct err error;

static void begin(void) {
    static const char *names[] = {"n0", "n1", "n2"}, *command[] = {"python", "train.py"};
    if (file_remove_tree(folder, &error) < 0 || file_make_dirs(folder, 0700, &error) < 0)
        bail_out("%s", error.text);
    run = (struct run){.id = "t-1",
                       .name = "t",
                       .cluster = "c",
                       .provider = "local",
                       .state = "finished",
                       .command = command,
                       .command_count = 2,
                       .nodes = names,
                       .node_count = NODES,
                       .output_dir = "/nowhere",
                       .s3 = "",
                       .created_ms = 1000,
                       .fetched = true};
    collect = (struct collect_result){0};
    follow.history.failure_count = 0;
    follow.history.rounds = NULL;
    follow.history.round_count = follow.history.round = follow.history.restarts = 0;
    follow.history.world_size = follow.history.nodes_in_round = 0;
    follow.metrics.count = 0;
    for (size_t i = 0; i < NODES; i++) {
        info[i].name = (char *)names[i];
        fleet_nodes[i].info = &info[i];
        follow.nodes[i] = (struct follow_node){.follow = &follow, .node = &fleet_nodes[i]};
        follow.history.nodes[i] = (struct history_node){.name = names[i]};
    }
    summary = (struct summary){.context = &context, .run = &run, .follow = &follow, .arena = &a};
}

// Rounds 0 … count - 1.
static void put_rounds(int count) {
    for (int i = 0; i < count; i++)
        rounds[i] = (struct history_round){.round = i,
                                           .restarts = i,
                                           .nodes = i % 2 + 1,
                                           .world_size = i % 2 ? 4 : 1,
                                           .reason = i ? "a worker failed" : "",
                                           .time_ms = 5000 + i * 1500,
                                           .next = i + 1 < count ? &rounds[i + 1] : NULL};
    follow.history.rounds = rounds;
    follow.history.round_count = count;
    follow.history.round = count - 1;
}

static void put(const char *path, const char *text) {
    if (file_make_dirs(file_dir(&a, path), 0700, &error) < 0 ||
        file_write_atomic(path, text, strlen(text), 0600, &error) < 0)
        bail_out("%s", error.text);
}

static const char *in_run(const char *name) {
    return run_path(&context.cluster, &run, name);
}

// A text without the temporary folder in it.
static void shown(struct strbuf *out, const char *name) {
    struct strbuf text = {0};
    for (const char *p = strbuf_cstr(out); *p;) {
        bool here = str_starts(p, folder);
        strbuf_addc(&text, here ? '~' : *p);
        p += here ? strlen(folder) : 1;
    }
    strbuf_addc(&text, '\n');
    strbuf_clear(out);
    is_expected(&text, name);
    strbuf_fini(&text);
}

static void show_screen(const char *name) {
    struct strbuf out = {0};
    run_summary_text(&summary, &out);
    shown(&out, arena_printf(&a, "%s, screen", name));
    run_summary_failure(&summary, &out);
    shown(&out, arena_printf(&a, "%s, failure", name));
    strbuf_fini(&out);
}

static void show_all(const char *name) {
    struct strbuf out = {0};
    run_summary_json(&summary, &out);
    shown(&out, arena_printf(&a, "%s, json", name));
    strbuf_fini(&out);
    show_screen(name);
}

static void test_bare(void) {
    begin();
    run.state = "lost";
    snprintf(follow.nodes[1].state, sizeof follow.nodes[1].state, "lost");
    snprintf(follow.nodes[2].state, sizeof follow.nodes[2].state, "lost");
    run.fetched = false;
    run.output_dir = "";
    show_all("bare");
}

static void test_native(void) {
    static struct option_pair tags[] = {{"team", "x"}, {"cost", "7"}};
    static const char trainer[] =
        "{\"images_per_s\":123.45,\"final_loss\":0.5,\"final_acc1\":91.25,"
        "\"steps\":300,\"epochs_done\":2}";
    struct json *j;
    begin();
    if (json_parse(&a, trainer, sizeof trainer - 1, &j, &error) < 0)
        bail_out("%s", error.text);
    run.native = true;
    run.tags = (struct option_map){tags, 2};
    run.output_dir = arena_printf(&a, "%s/out", folder);
    run.s3 = "s3://bucket/t";
    run.uploaded = true;
    run.resumes = "t-0";
    run.push_ms = 10;
    run.setup_ms = 1200;
    run.start_ms = 30;
    run.train_ms = 245000;
    run.fetch_ms = 50;
    run.push_bytes = 6000;
    run.fetch_bytes = 7000000;
    summary.trainer = j;
    summary.collect = &collect;
    put(in_run("metrics.jsonl"), "x");
    put(in_run("logs/n0/0.out"), "x");
    follow.metrics.count = 3;
    follow.metrics.metrics[0] = (struct metric){
        .name = "loss", .count = 5, .first = 2.5, .last = 0.5, .min = 0.25, .max = 3};
    follow.metrics.metrics[1] = (struct metric){.name = "none"};
    follow.metrics.metrics[2] =
        (struct metric){.name = "acc", .count = 1, .first = 7, .last = 7, .min = 7, .max = 7};
    follow.history.world_size = 1;
    follow.history.nodes_in_round = 1;
    follow.history.restarts = 1;
    put_rounds(2);
    follow.history.nodes[1].lost = true; // of the round before
    follow.history.nodes[1].gone_why = "no answer";
    follow.history.nodes[2].left = true;
    follow.history.nodes[0].round = 1;
    snprintf(follow.nodes[0].state, sizeof follow.nodes[0].state, "finished");
    follow.nodes[2].no_status = true;
    (void)err_set(&follow.nodes[2].err, ERR_NET, "gone");
    show_all("native");
}

// A command that has failed on n0, in the last of twelve rounds.
static void begin_command(void) {
    static const char *lost[] = {"n1", "n2"};
    static struct history_rank ranks[] = {
        {.rank = 4,
         .local_rank = 0,
         .started = true,
         .ended = true,
         .status = 139,
         .signal = "SIGSEGV",
         .ms = 77},
        {.rank = 5, .local_rank = 1, .started = true, .reason = "stopped"},
        {.rank = 6, .local_rank = 2}};
    begin();
    run.state = "failed";
    run.exit_status = 1;
    run.left = RESULT_STATE | RESULT_MODEL;
    run.lost = lost;
    run.lost_count = 2;
    run.lost_kinds = RESULT_ALL;
    run.work_left = 9;
    collect.collisions = (struct results_collisions){1, "log\033.txt"};
    collect.work_left = (struct work_left){.bytes = 1234, .names = {"a", "b"}, .name_count = 2};
    collect.work_left.kinds[2].files = 1;
    collect.work_left.kinds[2].bytes = 100;
    collect.work_left.kinds[3].files = 2;
    collect.work_left.kinds[3].bytes = 50;
    collect.work_left.kinds[0].files = 1000;
    summary.collect = &collect;
    follow.history.world_size = 8;
    follow.history.nodes_in_round = 2;
    follow.history.restarts = 11;
    put_rounds(12);
    follow.history.nodes[0].ranks = ranks;
    follow.history.nodes[0].rank_count = 3;
    follow.history.nodes[0].round = 11;
    follow.history.failure_count = 3;
    for (int i = 0; i < 3; i++)
        follow.history.failures[i] = (struct history_failure){.node = "n0",
                                                              .round = 11,
                                                              .rank = 4 + i,
                                                              .pid = 7,
                                                              .status = 139,
                                                              .signal = "SIGSEGV",
                                                              .message = "line 1\nline\t2\n",
                                                              .tail = "tail",
                                                              .evidence = "oom killer",
                                                              .root = i == 0};
    follow.history.nodes[1].why = "crash loop: 3 times in a minute";
    put(in_run("incoming/n2/output/f"), "x");
    put(in_run("logs/n0/4.err"), "x");
}

static void test_command(void) {
    begin_command();
    show_all("command");
    run.lost_count = 1;
    run.lost_kinds = RESULT_MODEL;
    run.work_left = 1;
    run.left = RESULT_LOGS;
    collect.collisions.apart = 2;
    collect.work_left.name_count = 1;
    follow.history.failure_count = 1;
    follow.history.failures[0].signal = NULL;
    follow.history.failures[0].evidence = follow.history.failures[0].message = NULL;
    struct strbuf tail = {0};
    for (int i = 0; i < 25; i++)
        strbuf_addf(&tail, "line %d\n", i);
    follow.history.failures[0].tail = arena_strdup(&a, strbuf_cstr(&tail));
    strbuf_fini(&tail);
    follow.history.nodes[1].why = "all is over";
    file_remove_tree(in_run("logs"), &error);
    show_screen("command, otherwise");
    follow.history.failure_count = 0;
    show_screen("command, without a failure");
}

int main(int argc, char **argv) {
    (void)argv;
    expected_open("tests/unit/run/run_summary.txt", argc);
    if (!mkdtemp(folder) || cluster_open(&context.cluster, &a, folder, "c", &error) < 0)
        bail_out("no folder");
    context.arena = &a;
    follow.context = &context;
    follow.run = &run;
    follow.count = follow.history.node_count = NODES;
    follow.nodes = arena_new(&a, struct follow_node, NODES);
    follow.history.nodes = arena_new(&a, struct history_node, NODES);
    test_bare();
    test_native();
    test_command();
    cluster_close(&context.cluster);
    file_remove_tree(folder, &error);
    arena_fini(&a);
    return expected_end();
}
