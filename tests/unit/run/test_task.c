// SPDX-License-Identifier: Apache-2.0
// The reuse key of a run: each decision changes its own part alone. An earlier run that is reused,
// and the reasons why none is.
#include "run/task.h"

#include "run/results/results_owner.h"
#include "run/task_files.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <unistd.h>

static char folder[] = "/tmp/test_task.XXXXXX";
static struct arena a;
static struct config config;
static struct context context = {.arena = &a, .config = &config};
static struct err e;

static const char *names[] = {"n0", "n1"};
static const char *words[3], *after_keys[2];
static struct config_input input_config[2];
static struct run_start_input inputs[2];
static struct job_pair env[8];

// ---- a run --------------------------------------------------------------------------------------

static struct run_start *make(const char *id) {
    static struct run_start l;
    words[0] = "python";
    words[1] = "x.py";
    for (int i = 0; i < 2; i++) {
        input_config[i] =
            (struct config_input){.order = "name", .deliver = "copy", .source = "set"};
        inputs[i] = (struct run_start_input){
            .name = i ? "second" : "first", .config = &input_config[i], .digest = {1}};
        after_keys[i] = i ? "2 key" : "1 key";
    }
    env[0] = (struct job_pair){"A", "1"};
    env[1] = (struct job_pair){"B", "2"};
    env[2] = (struct job_pair){"RUN", "differs"};
    config.output_s3 = "s3://bucket";
    config.compat_sagemaker = false;
    l = (struct run_start){.context = &context,
                           .run = {.id = id,
                                   .name = "task",
                                   .cluster = "c",
                                   .provider = "local",
                                   .command = words,
                                   .command_count = 2,
                                   .nproc = "4",
                                   .nodes = names,
                                   .node_count = 2,
                                   .nodes_min = 2,
                                   .nodes_max = 2,
                                   .wanted = RESULT_ALL,
                                   .version = "",
                                   .types = "",
                                   .resumes = "",
                                   .s3 = "",
                                   .output_dir = file_join(&a, folder, id)},
                           .inputs = inputs,
                           .input_count = 2,
                           .spec = {.env = env, .env_count = 3, .setup_hash = "abc"},
                           .own_env_count = 2,
                           .after_keys = after_keys,
                           .after_count = 2,
                           .common = manifest_new()};
    const char *work = run_node_dir(&a, id, "work");
    for (int i = 0; i < 2; i++) {
        struct manifest_entry x = {.path = file_join(&a, work, i ? "b" : "a"),
                                   .kind = i ? MANIFEST_LINK : MANIFEST_FILE,
                                   .mode = 0644,
                                   .target = "to",
                                   .hashed = true,
                                   .hash = {9}};
        if (manifest_append(l.common, &x, &e) < 0)
            bail_out("%s", e.text);
    }
    return &l;
}

// The parts of the key that differ from those of an unchanged run.
static const char *differing(void (*change)(struct run_start *l)) {
    static const char *const parts[] = {"command", "files",   "inputs", "setup",
                                        "env",     "outputs", "after"};
    const char *text = "";
    struct run_start *l = make("task-1");
    task_key(l);
    const char *before = l->run.key;
    manifest_free(l->common);
    l = make("task-2");
    if (change)
        change(l);
    task_key(l);
    manifest_free(l->common);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *x = task_key_part(&a, before, parts[i]);
        const char *y = task_key_part(&a, l->run.key, parts[i]);
        if (!x || !y || strlen(x) != 32)
            bail_out("a key without %s", parts[i]);
        if (strcmp(x, y) != 0)
            text = arena_printf(&a, "%s%s%s", text, *text ? " " : "", parts[i]);
    }
    return text;
}

// ---- what decides -------------------------------------------------------------------------------

#define CHANGE(name, what)                                                                         \
    static void name(struct run_start *l) {                                                        \
        (void)l;                                                                                   \
        what;                                                                                      \
    }
CHANGE(other_word, words[1] = "y.py")
CHANGE(first_word, words[0] = "sh")
CHANGE(joined_words, (words[0] = "pythonx.py", words[1] = ""))
CHANGE(other_processes, l->run.nproc = "5")
CHANGE(other_content, l->common->entries[0].hash[31] = 1)
CHANGE(other_mode, l->common->entries[1].mode = 0755)
CHANGE(other_target, l->common->entries[1].target = "there")
CHANGE(other_hash_of_link, l->common->entries[1].hash[0] = 1)
CHANGE(no_target_of_file, l->common->entries[0].target = "there")
CHANGE(outside_file, l->common->entries[1].path = "bin/program")
CHANGE(other_input, inputs[1].name = "third")
CHANGE(other_data, inputs[1].digest[31] = 1)
CHANGE(first_data, inputs[0].digest[0] = 2)
CHANGE(sharded, input_config[1].mode = CONFIG_SHARDED)
CHANGE(extracted, input_config[1].deliver = "extract")
CHANGE(streamed, input_config[1].deliver = "stream")
CHANGE(order_unused, input_config[1].order = "shuffle:1")
CHANGE(other_setup, (l->spec.setup = "make", l->spec.setup_hash = "def"))
CHANGE(setup_unused, l->spec.setup_hash = "def")
CHANGE(other_value, env[1].value = "3")
CHANGE(own_value, env[2].value = "again")
CHANGE(other_digest_key, l->digest_key[DIGEST_KEY_BYTES - 1] = 1)
CHANGE(bundled, l->spec.bundle_hash = "b")
CHANGE(work, l->run.bring_work = true)
CHANGE(merged, l->run.merge = 1)
CHANGE(archived, l->run.archive = 1)
CHANGE(fewer_kinds, l->run.wanted = RESULT_LOGS)
CHANGE(uploaded, l->run.s3 = "s3://bucket/task/1")
CHANGE(sagemaker, config.compat_sagemaker = true)
CHANGE(other_after, after_keys[1] = "3 key")
CHANGE(first_after, after_keys[0] = "3 key")
CHANGE(fewer_after, l->after_count = 1)
CHANGE(fewer_nodes, l->run.nodes_min = 1)

static void test_parts(void) {
    static const struct {
        const char *about, *parts;
        void (*change)(struct run_start *l);
    } cases[] = {
        {"nothing", "", NULL},
        {"a word of the command", "command", other_word},
        {"the first word of the command", "command", first_word},
        {"the bounds of words", "command", joined_words},
        {"the number of processes", "command", other_processes},
        {"the content of a file", "files", other_content},
        {"the mode of a link", "files", other_mode},
        {"the target of a link", "files", other_target},
        {"the hash of a link, which has none,", "", other_hash_of_link},
        {"the target of a file, which has none,", "", no_target_of_file},
        {"a file outside of the working folder", "files", outside_file},
        {"the name of an input", "inputs", other_input},
        {"the content of the second input", "inputs", other_data},
        {"the content of the first input", "inputs", first_data},
        {"sharding", "inputs", sharded},
        {"unpacking", "inputs", extracted},
        {"streaming", "", streamed},
        {"an order that does not count", "", order_unused},
        {"a setup", "setup", other_setup},
        {"the hash of no setup", "", setup_unused},
        {"a variable", "env", other_value},
        {"a variable of dtctl", "", own_value},
        {"the key of digests", "env", other_digest_key},
        {"an environment's archive", "env", bundled},
        {"files of the working folder", "outputs", work},
        {"merging", "outputs", merged},
        {"archives", "outputs", archived},
        {"the kinds of results", "outputs", fewer_kinds},
        {"a bucket", "outputs", uploaded},
        {"channels", "outputs", sagemaker},
        {"the second task before", "after", other_after},
        {"the first task before", "after", first_after},
        {"the number of tasks before", "after", fewer_after},
        {"the number of nodes", "", fewer_nodes},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_str(differing(cases[i].change), cases[i].parts, "%s changes %s", cases[i].about,
               *cases[i].parts ? cases[i].parts : "no part");
}

static void deal(struct run_start *l) {
    (void)l;
    input_config[1].mode = CONFIG_SHARDED;
}
CHANGE(deal_shard, (deal(l), input_config[1].shard = 1))
CHANGE(deal_unit, (deal(l), input_config[1].unit = 1))
CHANGE(deal_uneven, (deal(l), input_config[1].uneven = 1))
CHANGE(deal_order, (deal(l), input_config[1].order = "shuffle:1"))

CHANGE(other_kinds, l->run.wanted = RESULT_OUTPUT)

// The rules of a deal count for inputs that are dealt.
static void test_deals(void) {
    static void (*const changes[])(struct run_start *) = {
        deal, deal_shard, deal_unit, deal_uneven, deal_order, fewer_kinds, other_kinds};
    enum { CHANGES = sizeof changes / sizeof *changes };
    const char *keys[CHANGES];
    for (size_t i = 0; i < CHANGES; i++) {
        struct run_start *l = make("task-3");
        changes[i](l);
        task_key(l);
        keys[i] = l->run.key;
        manifest_free(l->common);
        for (size_t k = 0; k < i; k++)
            ok(strcmp(keys[k], keys[i]) != 0, "settings %zu and %zu differ", k, i);
    }
    ok(!task_key_part(&a, keys[0], "none") && !task_key_part(&a, "2 env=short", "env"),
       "a part that is absent or cut is none");
    ok(strncmp(keys[0], "2 command=", 10) == 0, "a key begins with its form");
}

// ---- an earlier run -----------------------------------------------------------------------------

static struct run earlier;

static void save(void) {
    if (run_save(&context.cluster, &earlier, &e) < 0)
        bail_out("%s", e.text);
}

// The earlier run is that of an unchanged task, with all its results here.
static struct run_start *begin(void (*change)(struct run_start *l)) {
    struct run_start *l = make("task-20260101T000000Z-000001");
    if (file_remove_tree(file_join(&a, folder, ".dtctl"), &e) < 0 ||
        cluster_open(&context.cluster, &a, folder, "c", &e) < 0)
        bail_out("%s", e.text);
    task_key(l);
    earlier = l->run;
    earlier.state = "finished";
    earlier.fetched = true;
    save();
    if (results_owner_set(earlier.output_dir, earlier.id, &e) < 0 || task_files_save(l, &e) < 0)
        bail_out("%s", e.text);
    manifest_free(l->common);
    l = make("task-20260102T000000Z-000002");
    if (change)
        change(l);
    task_key(l);
    return l;
}

static void is_not_reused(struct run_start *l, const char *want) {
    struct run out;
    const char *why = NULL;
    is_int(task_find_reusable(l, &out, &why, &e), 0, "no run is reused: %s", want);
    has_str(why ? why : "no reason", want, "the reason is '%s'", want);
    manifest_free(l->common);
}

static void test_reused(void) {
    struct run out;
    const char *why;
    struct run_start *l = begin(NULL);
    is_int(task_find_reusable(l, &out, &why, &e), 1, "an unchanged task is reused: %s",
           why ? why : "");
    is_str(out.id, earlier.id, "the earlier run is in its place");
    l->run.name = "other";
    is_int(task_find_reusable(l, &out, &why, &e), 0, "another task is not");
    ok(!why, "a task without a run needs no reason");
    manifest_free(l->common);
    is_not_reused(begin(other_word), "its command changed");
    is_not_reused(begin(other_content), "its files changed: 'a'");
    is_not_reused(begin(first_data), "its inputs changed");
    is_not_reused(begin(other_after), "a task before it changed");
    l = begin(NULL);
    l->run.key = arena_printf(&a, "3%s", l->run.key + 1);
    is_not_reused(l, "the form of keys changed");
}

static void test_not_here(void) {
    struct run_start *l = begin(NULL);
    struct run out;
    const char *why;
    earlier.fetched = false;
    save();
    is_not_reused(l, "its results are not here (try: dtctl fetch task-");
    l = begin(NULL);
    earlier.lost = names;
    earlier.lost_count = 1;
    earlier.lost_kinds = RESULT_LOGS;
    save();
    is_not_reused(l, "its results of node n0 are lost");
    l = begin(archived);
    earlier.archive = CONFIG_ARCHIVE_TAR_ZST;
    earlier.key = l->run.key;
    save();
    is_not_reused(l, "its archives are not written");
    l = begin(uploaded);
    earlier.s3 = "s3://bucket/task/1";
    earlier.key = l->run.key;
    save();
    is_not_reused(l, "its results are not in s3://bucket/task/1");
    l = begin(NULL);
    if (results_owner_set(earlier.output_dir, "other-1", &e) < 0)
        bail_out("%s", e.text);
    is_not_reused(l, "does not hold its results any more");
    l = begin(NULL);
    earlier.state = "started";
    save();
    is_int(task_find_reusable(l, &out, &why, &e), -1, "a run that may be active is waited for");
    is_int(e.code, ERR_BUSY, "the task is busy");
    earlier.state = "failed";
    save();
    is_int(task_find_reusable(l, &out, &why, &e), 0, "a run that failed is not reused");
    ok(!why, "a task that never finished needs no reason");
    manifest_free(l->common);
}

static void test_find(void) {
    struct run out;
    manifest_free(begin(NULL)->common);
    earlier.id = "task-20260103T000000Z-000003";
    earlier.state = "failed";
    save();
    ok(task_find(&context.cluster, "task", NULL, &out, &e) == 1 && strcmp(out.state, "failed") == 0,
       "the newest run of a task is found");
    ok(task_find(&context.cluster, "task", "finished", &out, &e) == 1 &&
           strcmp(out.state, "finished") == 0,
       "the newest run in a state is found");
    is_int(task_find(&context.cluster, "task", "lost", &out, &e), 0, "no run is in another state");
    is_int(task_find(&context.cluster, "tas", NULL, &out, &e), 0, "no run is of another task");
}

// ---- tasks before -------------------------------------------------------------------------------

static void test_env(void) {
    const char *after[] = {"task", "task"}, *absent[] = {"task", "none"};
    struct run_start *l = begin(NULL);
    l->after_count = 0;
    config.job.after = (struct option_list){.items = (void *)after, .count = 2};
    is_int(task_env(l, &e), 0, "tasks before a run are found: %s", e.text);
    ok(l->spec.env_count == 6 && strcmp(env[3].name, "DTCTL_TASK") == 0 &&
           strcmp(env[3].value, "task") == 0,
       "the run knows its task");
    for (int i = 4; i < 6; i++)
        ok(strcmp(env[i].name, "DTCTL_TASK_TASK") == 0 && strcmp(env[i].value, earlier.id) == 0,
           "the run knows the run of the task before it: %d", i - 4);
    ok(l->after_count == 2 && strcmp(l->after_keys[1], earlier.key) == 0, "the keys are kept");
    l->spec.env_count = 3;
    l->after_count = 0;
    config.job.after.items = (void *)absent;
    is_int(task_env(l, &e), -1, "a task without a run cannot come before");
    has_str(e.text, "task 'none' has no finished run on cluster 'c'", "the error names it");
    manifest_free(l->common);
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    config_open(&config, &a, "dtctl", NULL);
    test_parts();
    test_deals();
    test_reused();
    test_not_here();
    test_find();
    test_env();
    (void)file_remove_tree(folder, &e);
    arena_fini(&a);
    return done_testing();
}
