// SPDX-License-Identifier: Apache-2.0
// Inputs from earlier runs: the words of a source, the run that it means, and where its results
// are. Nothing is fetched: a dry run says what is not here.
#include "run/inputs/input_from_run.h"
#include "run/results/results_owner.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/test_input_from_run.XXXXXX";
static struct arena a;
static struct screen screen;
static struct context context;
static struct config config;
static struct err e;

#define R1 "t-20260101T000000Z-000001"
#define R2 "t-20260102T000000Z-000002"
#define R3 "t-20260103T000000Z-000003"
#define U1 "u-20260104T000000Z-000004"

static void put(const char *path) {
    if (file_make_dirs(file_dir(&a, path), 0755, &e) < 0 ||
        file_write_atomic(path, "x", 1, 0644, &e) < 0)
        bail_out("%s", e.text);
}

static const char *nodes[] = {"n0", "n1"}, *command[] = {"true", NULL};

// A run whose results, if it has any here, are files of its results folder, between blanks.
static struct run save(const char *id, const char *state, const char *files) {
    char **names;
    struct run r = {.id = id,
                    .name = arena_strndup(&a, id, 1),
                    .cluster = "c",
                    .provider = "local",
                    .command = command,
                    .command_count = 1,
                    .nodes = nodes,
                    .node_count = 2,
                    .nodes_min = 2,
                    .nodes_max = 2,
                    .nproc = "1",
                    .output_dir = file_join(&a, file_join(&a, folder, "results"), id),
                    .s3 = "",
                    .state = state,
                    .fetched = *files != '\0',
                    .wanted = RESULT_ALL};
    if (run_save(&context.cluster, &r, &e) < 0 ||
        (*files && results_owner_set(r.output_dir, id, &e) < 0))
        bail_out("%s", e.text);
    for (size_t n = *files ? str_split(&a, files, ' ', &names) : 0; n-- > 0;)
        put(file_join(&a, r.output_dir, names[n]));
    return r;
}

static void refused(const char *source, const char *why) {
    err_clear(&e);
    is_int(input_from_run_check(&context, source, &e), -1, "the source '%s' is refused", source);
    has_str(e.text, why, "the error says: %s", why);
}

static void test_words(void) {
    static const struct {
        const char *source, *task, *run;
    } good[] = {
        {"run:t/output", "t", ""}, {"run:t@x/model/a/b", "t", "x"}, {"run:a.b/source", "a.b", ""}};
    static const char *const bad[] = {"run:t",         "run:/output", "run:@x/output",
                                      "run:t@/output", "run:t/oput",  "run:t/output/../x",
                                      "rn:t/output"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const char *run = NULL, *task = input_from_run_task(&a, good[i].source, &run);
        is_str(task, good[i].task, "%s has its task", good[i].source);
        is_str(run, good[i].run, "%s has its run", good[i].source);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *run;
        is_str(input_from_run_task(&a, bad[i], &run), NULL, "%s is no such source", bad[i]);
    }
    refused("run:t", "is not run:TASK[@RUN]/PART[/SUB]");
    refused("run:t/outptu", "is none of output, model, state, source (did you mean 'output'?)");
    refused("run:t/output//x", "'/x' is not a path below a folder");
}

static void test_runs(void) {
    struct run r;
    refused("run:t/output", "cluster 'c' has no run of task 't'");
    save(R1, "failed", "");
    refused("run:t/output",
            "no run of task 't' has finished; the newest one, '" R1 "', is 'failed'");
    refused("run:t@" R1 "/output", "run '" R1 "' is 'failed', not finished");
    save(R2, "finished", "");
    save(R3, "failed", "");
    save(U1, "started", "");
    is_int(input_from_run_check(&context, "run:t/output", &e), 0, "a run has finished %s", e.text);
    is_int(input_from_run_check(&context, "run:u/output", &e), 0, "a run may finish");
    refused("run:u@" R2 "/output", "run '" R2 "' is one of task 't', not of 'u'");
    refused("run:t@nope/output", "'run:t@nope/output'");

    static const struct {
        const char *text, *id;
    } named[] = {
        {"t", R3}, {"t@" R1, R1}, {"", U1}, {R3, R3}, {"u-2026", U1},
    };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        is_int(input_from_run_named(&context, named[i].text, &r, &e), 0, "'%s' names a run %s",
               named[i].text, e.text);
        is_str(r.id, named[i].id, "'%s' is that run, however it ended", named[i].text);
    }
    static const char *const wrong[] = {"@" R1, "t@", "u@" R1, "nope"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        is_int(input_from_run_named(&context, wrong[i], &r, &e), -1, "'%s' names no run", wrong[i]);
}

static void found(const char *source, const char *path, const char *on_nodes) {
    struct input_from_run out;
    err_clear(&e);
    is_int(input_from_run_find(&context, source, &out, &e), 0, "%s is found %s", source, e.text);
    ok(out.path && str_ends(out.path, path), "%s is at %s", source, path);
    is_str(out.on_nodes, on_nodes, "%s has its folder on nodes", source);
    ok((out.ignore != NULL) == str_ends(source, "/output"), "the whole output leaves folders out");
}

static void lacks(const char *source, const char *why) {
    struct input_from_run out;
    err_clear(&e);
    is_int(input_from_run_find(&context, source, &out, &e), -1, "%s is not found", source);
    has_str(e.text, why, "the error says: %s", why);
}

static void test_places(void) {
    struct run r = save(R2, "finished", "o/x model/m n0/d/y state/n0/s n1/o/z");
    put(file_join(&a, run_path(&context.cluster, &r, "source"), "code"));
    found("run:t/output", "/results/" R2, R2 "/output");
    found("run:t/output/o", "/results/" R2 "/o", R2 "/output");
    found("run:t@" R2 "/model", "/results/" R2 "/model", R2 "/model");
    found("run:t/state/n0", "/results/" R2 "/state/n0", R2 "/state");
    found("run:t/source", "/runs/" R2 "/source", R2 "/work");
    lacks("run:t/output/gone", "run '" R2 "' left no output/gone");
    lacks("run:t/output/d", "left no output/d (try: run:t/output/n0/d)");
    lacks("run:u/output", "the results of run '" U1 "' are not here, and a dry run");
    lacks("run:t@" R3 "/source", "run '" R3 "'");
    r.archive = CONFIG_ARCHIVE_TAR_ZST;
    r.archives = RUN_ARCHIVES_BEGUN;
    r.left = RESULT_STATE;
    run_save(&context.cluster, &r, &e);
    struct input_from_run out;
    size_t count = 0;
    is_int(input_from_run_find(&context, "run:t/output", &out, &e), 0, "an output with archives");
    while (out.ignore && out.ignore[count])
        count++;
    is_uint(count, 6, "archives are no part of it");
    lacks("run:t/state", "are not here, and a dry run does not fetch them");
    r.left = 0;
    r.lost = nodes;
    r.lost_count = 1;
    run_save(&context.cluster, &r, &e);
    lacks("run:t/output", "the part of the results of run '" R2 "' that n0 had is lost");
}

int main(void) {
    if (!mkdtemp(folder) || cluster_open(&context.cluster, &a, folder, "c", &e) < 0)
        bail_out("no folder");
    config_open(&config, &a, "dtctl", NULL);
    config.dry_run = true;
    context.arena = &a;
    context.screen = &screen;
    context.config = &config;
    ok(input_from_run_is("run:x") && !input_from_run_is("runs/x"), "a source may be a run");
    test_words();
    test_runs();
    test_places();
    cluster_close(&context.cluster);
    file_remove_tree(folder, &e);
    arena_fini(&a);
    return done_testing();
}
