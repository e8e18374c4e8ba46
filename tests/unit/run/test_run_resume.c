// SPDX-License-Identifier: Apache-2.0
// The state that a run resumes from: which checkpoint is the newest, which nodes get their folder
// back, and why an earlier run cannot be resumed. Nodes that still hold a state are a stand-in.
#include "run/run_start.h"

#include "base/bytes.h"
#include "run/results/results_bring.h"
#include "run/results/results_owner.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/run/plain_run.h"
#include "tests/unit/said.h"

#include <sys/stat.h>
#include <unistd.h>

static struct arena a;
static struct err e;
static struct screen screen;
static struct config config;
static struct context context = {.arena = &a, .config = &config, .screen = &screen};
static struct run_start start;
static struct run earlier;
static char root[] = "/tmp/test_run_resume.XXXXXX";
static int round_of; // each case has a folder of its own

static bool brings, bring_fails; // the nodes give their state

int results_bring(struct context *s, const char *id, const struct results_wish *wish,
                  struct run *run, struct err *err) {
    (void)s;
    ok(str_eq(id, earlier.id) && wish->kinds == RESULT_STATE, "the state of the run is asked for");
    if (bring_fails)
        return err_set(err, ERR_NET, "no node answers");
    run->left = brings ? 0 : RESULT_STATE;
    return 0;
}

// ---- files --------------------------------------------------------------------------------------

static void put(const char *path, const char *bytes, size_t len) {
    if (file_make_dirs(file_dir(&a, path), 0755, &e) < 0 ||
        file_write_atomic(path, bytes, len, 0644, &e) < 0)
        bail_out("%s", e.text);
}

static void checkpoint(const char *dir, const char *name, const char *meta) {
    const char *text = arena_printf(&a, "{\"__metadata__\":{%s}}", meta);
    size_t len = strlen(text);
    char *bytes = arena_new(&a, char, len + 8);
    bytes_store(bytes, len, 8);
    memcpy(bytes + 8, text, len);
    put(file_join(&a, file_join(&a, dir, name), "state.safetensors"), bytes, len + 8);
}

static const char *in_output(const char *path) {
    return file_join(&a, earlier.output_dir, path);
}

// ---- the newest checkpoint ----------------------------------------------------------------------

static int64_t step_of(const char *const *metas) {
    struct run_start_position p = {0};
    const char *dir = file_join(&a, root, arena_printf(&a, "positions%d", round_of++));
    for (int i = 0; metas[i]; i++)
        checkpoint(dir, arena_printf(&a, "checkpoint-%d", i), metas[i]);
    return run_start_find_checkpoint(dir, &p) ? p.step : -1;
}
#define STEP_OF(...) step_of((const char *const[]){__VA_ARGS__, NULL})

static void test_newest(void) {
    is_int(STEP_OF("\"step\":\"5\",\"epoch\":\"2\"", "\"step\":\"9\",\"epoch\":\"1\""), 5,
           "the later epoch is newer");
    is_int(STEP_OF("\"step\":\"9\",\"epoch\":\"1\"", "\"step\":\"5\",\"epoch\":\"2\""), 5,
           "the order of names does not matter");
    is_int(STEP_OF("\"step\":\"5\",\"consumed\":\"2\"", "\"step\":\"9\",\"consumed\":\"1\""), 5,
           "within an epoch more samples are newer");
    is_int(STEP_OF("\"step\":\"5\"", "\"step\":\"9\"", "\"step\":\"7\""), 9,
           "of equal samples the later step is newer");
    is_int(STEP_OF("\"epoch\":\"5\"", "\"step\":\"1\""), 1, "a file without a step does not count");
    is_int(STEP_OF("\"step\":\"x\""), 0, "a step that is no number is 0");
    is_int(STEP_OF(NULL), -1, "an absent folder has no checkpoint");
    const char *dir = file_join(&a, root, "damaged");
    struct run_start_position p;
    checkpoint(dir, "other-1", "\"step\":\"1\"");
    put(file_join(&a, dir, "checkpoint-1/state.safetensors"), "\4\0\0\0\0\0\0", 7);
    put(file_join(&a, dir, "checkpoint-2/state.safetensors"), "\4\0\0\0\0\0\0\0{}", 10);
    put(file_join(&a, dir, "checkpoint-3/state.safetensors"), "\2\0\0\0\0\0\0\0{x", 10);
    put(file_join(&a, dir, "checkpoint-4/state.safetensors"), "\1\0\100\0\0\0\0\0{}", 10);
    put(file_join(&a, dir, "checkpoint-5/other"), "x", 1);
    ok(!run_start_find_checkpoint(dir, &p), "damaged and other files are no checkpoints");
    checkpoint(dir, "checkpoint-0",
               "\"step\":\"6\",\"epoch\":\"2\",\"consumed\":\"3\",\"seed\":\"4\"");
    ok(run_start_find_checkpoint(dir, &p) && p.step == 6 && p.epoch == 2 && p.consumed == 3 &&
           p.seed == 4 && p.has_seed,
       "a whole one beside them counts");
}

// ---- a run and an earlier one -------------------------------------------------------------------

static const char *names[] = {"n0", "n1", "n2"};

// An earlier run of three nodes that has ended, and a run of two of them.
static void begin(bool native, const char *resume) {
    earlier = plain_run(arena_printf(&a, "task-%d", round_of));
    earlier.state = "finished";
    earlier.nodes = names;
    earlier.node_count = 3;
    earlier.nodes_min = earlier.nodes_max = 3;
    earlier.native = native;
    earlier.fetched = true;
    earlier.output_dir = file_join(&a, root, arena_printf(&a, "out%d", round_of++));
    start = (struct run_start){.context = &context,
                               .native = native,
                               .node_count = 2,
                               .resume_run = earlier.id,
                               .common = manifest_new()};
    start.run.id = "new-1";
    start.run.nodes = names;
    config.train.resume = resume;
    config.train.epochs = 3;
    config.train.seed = 4;
    config.train.resume_other = false;
    config.dry_run = brings = bring_fails = false;
    said_clear();
    err_clear(&e);
}

static void owned(void) {
    if (results_owner_set(earlier.output_dir, earlier.id, &e) < 0)
        bail_out("%s", e.text);
}

static int resume(void) {
    if (run_save(&context.cluster, &earlier, &e) < 0)
        bail_out("%s", e.text);
    err_clear(&e);
    return run_start_state(&start, &e);
}

// Paths of a manifest's files.
static const char *paths(const struct manifest *m) {
    const char *text = "";
    for (size_t i = 0; m && i < m->count; i++)
        if (m->entries[i].kind == MANIFEST_FILE)
            text = arena_printf(&a, "%s%s%s", text, *text ? " " : "", m->entries[i].path);
    return text;
}

static void end(void) {
    for (size_t i = 0; start.shards && i < start.node_count; i++)
        manifest_free(start.shards[i]);
    manifest_free(start.common);
}

static void test_command(void) {
    begin(false, "auto");
    owned();
    put(in_output("state/n0/one"), "1", 1);
    put(in_output("state/n1/.git/two"), "2", 1);
    put(in_output("state/n2/three"), "3", 1);
    is_int(resume(), 0, "a command's state is taken: %s", e.text);
    is_str(start.run.resumes, earlier.id, "the run resumes the earlier one");
    is_uint(start.resume_nodes, 2, "two nodes get their state back");
    is_str(paths(start.shards[0]), "runs/new-1/state/one", "the first node gets its own");
    is_str(paths(start.shards[1]), "runs/new-1/state/.git/two", "every file of the second, too");
    has_str(said(), "state of node n2 stays in", "the state of another node is named");
    ok(!strstr(said(), "node n1 stays"), "no state of these nodes stays");
    end();
    begin(false, "auto");
    owned();
    put(in_output("state/n1/two"), "2", 1);
    is_int(resume(), 0, "one node may have a state: %s", e.text);
    ok(start.resume_nodes == 1 && start.shards[0]->count == 0, "the other node gets none");
    is_str(said(), "", "a node without a state is not named");
    end();
    begin(false, "auto");
    owned();
    start.run.nodes = names + 1;
    put(in_output("state/n0/one"), "1", 1);
    put(in_output("state/n2/three"), "3", 1);
    is_int(resume(), 0, "a run may have other nodes: %s", e.text);
    is_str(paths(start.shards[1]), "runs/new-1/state/three", "a state goes by the node's name");
    has_str(said(), "state of node n0 stays in", "the state of the first node is named");
    end();
}

static void test_trainer(void) {
    begin(true, "auto");
    owned();
    checkpoint(in_output("state"), "checkpoint-1", "\"step\":\"6\",\"epoch\":\"3\",\"seed\":\"4\"");
    is_int(resume(), 0, "the trainer's state is taken: %s", e.text);
    is_int(start.resume_at.step, 6, "the position of the state is known");
    is_str(paths(start.common), "runs/new-1/state/checkpoint-1/state.safetensors",
           "every node gets it");
    end();
    begin(true, "auto");
    owned();
    checkpoint(in_output("state"), "checkpoint-1", "\"step\":\"6\",\"epoch\":\"4\"");
    is_int(resume(), -1, "a state behind the last epoch is refused");
    has_str(e.text, "is at epoch 4, train.epochs is 3", "the error has both epochs");
    ok(!start.resume_run, "the run does not resume it");
    end();
    begin(true, "auto");
    owned();
    checkpoint(in_output("state"), "checkpoint-1", "\"step\":\"6\",\"seed\":\"5\"");
    is_int(resume(), -1, "a state of another seed is refused");
    has_str(e.text, "with seed 5, train.seed is 4", "the error has both seeds");
    end();
    begin(true, "auto");
    config.train.resume_other = true;
    owned();
    checkpoint(in_output("state"), "checkpoint-1", "\"step\":\"6\",\"seed\":\"5\"");
    is_int(resume(), 0, "a state of another seed is taken when the user wants it");
    end();
    begin(true, "auto");
    owned();
    checkpoint(in_output("state"), "checkpoint-1", "\"step\":\"6\"");
    is_int(resume(), 0, "a state without a seed is taken");
    end();
}

// ---- what cannot be resumed ---------------------------------------------------------------------

// With `auto` the run begins anew; otherwise it is refused.
static void is_not_resumed(const char *want, bool noted, void (*change)(void)) {
    begin(true, "auto");
    owned();
    change();
    is_int(resume(), 0, "'%s': a run begins anew", want);
    ok(!start.resume_run && !start.run.resumes, "'%s': nothing is resumed", want);
    if (noted)
        has_str(said(), want, "'%s': the user reads why", want);
    else
        is_str(said(), "", "'%s': the user reads nothing", want);
    end();
    begin(true, "task");
    owned();
    change();
    is_int(resume(), -1, "'%s': the run that the user named is refused", want);
    has_str(e.text, arena_printf(&a, "run '%s' cannot be resumed: ", earlier.id),
            "'%s': the error names the run", want);
    has_str(e.text, want, "'%s': the error has the reason", want);
    is_int(e.code, ERR_CONFIG, "'%s': it is an error of the configuration", want);
    end();
}

static void active(void) {
    earlier.state = "started";
}

static void elsewhere(void) {
    earlier.fetched = false;
}

static void of_a_command(void) {
    earlier.native = false;
}

static void of_the_trainer(void) {
    start.native = false;
}

static void of_another_run(void) {
    if (results_owner_set(earlier.output_dir, "other-1", &e) < 0)
        bail_out("%s", e.text);
}

static void of_nobody(void) {
    unlink(in_output(OWNER_MARK));
    put(in_output("state/file"), "x", 1);
}

static void empty(void) {
    unlink(in_output(OWNER_MARK));
}

static void without_checkpoint(void) {
    put(in_output("state/file"), "x", 1);
}

static void on_nodes(void) {
    earlier.left = RESULT_STATE | RESULT_MODEL;
}

static void without_state_for_nodes(void) {
    start.native = earlier.native = false;
    put(in_output("state/n2/file"), "x", 1);
}

static void test_not_resumed(void) {
    is_not_resumed("it may still be running (try: dtctl fetch", true, active);
    is_not_resumed("its results are not here (try: dtctl fetch", true, elsewhere);
    is_not_resumed("it belongs to a command", true, of_a_command);
    is_not_resumed("it belongs to the native trainer", true, of_the_trainer);
    is_not_resumed("holds the results of run other-1", true, of_another_run);
    is_not_resumed("holds the results of no known run", true, of_nobody);
    is_not_resumed("it left no state", true, empty);
    is_not_resumed("it left no checkpoint", true, without_checkpoint);
    is_not_resumed("its state is on its nodes (try: dtctl fetch", true, on_nodes);
}

static void test_nodes_of_a_command(void) {
    begin(false, "auto");
    owned();
    without_state_for_nodes();
    is_int(resume(), 0, "a command without a state for its nodes begins anew");
    ok(!start.resume_run && !strstr(said(), "is not resumed"), "the user need not know");
    end();
    begin(false, "task");
    owned();
    without_state_for_nodes();
    is_int(resume(), -1, "a command whose user named the run is refused");
    has_str(e.text, "it left no state for these nodes", "the error has the reason");
    end();
}

static void test_brought(void) {
    begin(true, "auto");
    owned();
    on_nodes();
    brings = true;
    checkpoint(in_output("state"), "checkpoint-1", "\"step\":\"6\"");
    is_int(resume(), 0, "a state on the nodes comes here first: %s", e.text);
    is_str(start.run.resumes, earlier.id, "a state that came is taken");
    end();
    begin(true, "auto");
    owned();
    on_nodes();
    bring_fails = true;
    is_int(resume(), -1, "nodes that do not answer are an error");
    is_str(e.text, "no node answers", "the error is that of the nodes");
    end();
    begin(true, "auto");
    owned();
    on_nodes();
    config.dry_run = bring_fails = true;
    is_int(resume(), 0, "a dry run asks no node: %s", e.text);
    end();
    begin(true, "auto");
    start.resume_run = NULL;
    is_int(run_start_state(&start, &e), 0, "a run may resume none");
    end();
}

// ---- the folder for results ---------------------------------------------------------------------

static int output(const char *dir) {
    config.output_dir = dir;
    start.run.output_dir = dir;
    err_clear(&e);
    return run_start_output(&start, &e);
}

static void test_output(void) {
    const char *dir = file_join(&a, root, "results/new");
    begin(true, "auto");
    is_int(output(""), 0, "a run may have its own folder");
    config.dry_run = true;
    ok(output(dir) == 0 && !file_exists(dir), "a dry run makes no folder");
    config.dry_run = false;
    ok(output(dir) == 0 && file_exists(dir), "the folder is made");
    if (results_owner_set(dir, "new-1", &e) < 0)
        bail_out("%s", e.text);
    is_int(output(dir), 0, "a folder of this run is taken");
    if (results_owner_set(dir, earlier.id, &e) < 0)
        bail_out("%s", e.text);
    is_int(output(dir), 0, "a folder of the run that is resumed is taken");
    start.resume_run = NULL;
    is_int(output(dir), -1, "a folder of another run is refused");
    has_str(e.text, "results of two runs are not mixed", "the error has the reason");
    is_int(output(file_join(&a, dir, OWNER_MARK)), -1, "a file is no folder");
    is_int(e.code, ERR_CONFIG, "a file is an error of the configuration");
    end();
}

int main(void) {
    if (!mkdtemp(root))
        bail_out("mkdtemp");
    said_open(&screen);
    config_open(&config, &a, "dtctl", NULL);
    if (cluster_open(&context.cluster, &a, root, "c", &e) < 0)
        bail_out("%s", e.text);
    test_newest();
    test_command();
    test_trainer();
    test_not_resumed();
    test_nodes_of_a_command();
    test_brought();
    test_output();
    said_close(&screen);
    (void)file_remove_tree(root, &e);
    arena_fini(&a);
    return done_testing();
}
