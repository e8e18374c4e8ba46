// SPDX-License-Identifier: Apache-2.0
// Runs: names and ids, records written and read back, the newest of several.
#include "base/clock.h"
#include "cluster/run_record.h"
#include "run/run_start.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <unistd.h>

static void named(const char *want, const char *const *command) {
    struct arena a = {0};
    size_t n = 0;
    while (command[n])
        n++;
    is_str(run_start_task_name(&a, command, n), want, "'%s …' is called %s", command[0], want);
    arena_fini(&a);
}

#define NAMED(want, ...) named(want, (const char *const[]){__VA_ARGS__, NULL})

static void launches(const char *want, const char *const *command) {
    size_t n = 0;
    while (command[n])
        n++;
    is_str(run_start_launcher(command, n), want, "'%s %s …' starts %s", command[0],
           n > 1 ? command[1] : "", want ? want : "no group of its own");
}

#define LAUNCHES(want, ...) launches(want, (const char *const[]){__VA_ARGS__, NULL})

static void launchers(void) {
    LAUNCHES("torchrun", "torchrun", "--standalone", "--nproc-per-node=8", "train.py");
    LAUNCHES("torchrun", "/opt/venv/bin/torchrun", "train.py");
    LAUNCHES("torch.distributed.run", "python3", "-u", "-m", "torch.distributed.run", "train.py");
    LAUNCHES("accelerate", "accelerate", "launch", "train.py");
    LAUNCHES(NULL, "accelerate", "env");
    LAUNCHES(NULL, "torchrun", "--nnodes", "2", "--rdzv-endpoint=$MASTER_ADDR:29400", "train.py");
    LAUNCHES(NULL, "python3", "-m", "torch.distributed.launch", "--node_rank=1", "train.py");
    LAUNCHES(NULL, "python3", "torchrun.py");
    LAUNCHES(NULL, "python3", "-m");
}

static void ids(void) {
    struct arena a = {0};
    int64_t ms = 1767323045678; // 2026-01-02T03:04:05.678Z
    char *id = run_make_id(&a, "task", ms);
    is_mem(id, 21, "task-20260102T030405Z", 21, "an id has name and time");
    is_uint(strlen(id), 28, "an id ends with six digits");
    ok(strcmp(run_make_id(&a, "task", ms), run_make_id(&a, "task", ms + 1)) < 0,
       "a millisecond later sorts later");
    is_str(cluster_run_stamp(id) - 5, id, "the time is found again");
    ok(cluster_run_stamp("short") == NULL, "a short id has no time");
    is_str(run_make_name(&a, "..odd name/with\nthings"), "odd-name-with-things",
           "odd characters are replaced in names");
    is_str(run_make_name(&a, ""), "run", "an empty command gives the name 'run'");
    arena_fini(&a);
}

static void records(const char *dir) {
    struct arena a = {0};
    struct err e = {0};
    struct cluster c;
    const char *command[] = {"sh", "-c", "echo \"$X\"\n", NULL}, *nodes[] = {"n0", "n1", NULL};
    const char *run = NULL;
    struct option_pair metrics[] = {{"loss", "Loss ([0-9.]+)"}};
    struct option_pair tags[] = {{"cost center", "a:\"7\""}};
    struct run r = {.name = "t",
                    .cluster = "c",
                    .provider = "local",
                    .command = command,
                    .command_count = 3,
                    .nodes = nodes,
                    .node_count = 2,
                    .nodes_min = 1,
                    .nodes_max = 2,
                    .nproc = "auto",
                    .output_dir = "/out",
                    .state = "started",
                    .metrics = {metrics, 1},
                    .tags = {tags, 1},
                    .created_ms = 5},
               back;
    is_int(cluster_open(&c, &a, dir, "c", &e), 0, "the folder of a cluster opens %s", e.text);
    is_int(cluster_find_run(&c, NULL, &run, &e), -1, "no run is found yet");
    has_str(e.text, "dtctl train", "the error names the command 'dtctl train'");
    const char *first = run_make_id(&a, "t", 1767323045678),
               *second = run_make_id(&a, "a", 1767323045679);
    r.id = first;
    is_int(run_save(&c, &r, &e), 0, "a record is written %s", e.text);
    r.id = second;
    is_int(run_save(&c, &r, &e), 0, "a second record is written");
    is_int(run_load(&c, first, &back, &e), 0, "the record is read %s", e.text);
    is_str(back.command[2], "echo \"$X\"\n", "the record has the command unchanged");
    is_str(back.nodes[1], "n1", "the nodes are read back");
    is_str(back.metrics.items[0].value, "Loss ([0-9.]+)", "the metrics are read back");
    is_str(back.tags.items[0].name, "cost center", "the names of tags are read back");
    is_str(back.tags.items[0].value, "a:\"7\"", "the values of tags are read back");
    ok(!run_is_over(&back), "a new run is not over");
    back.state = "stopped";
    ok(run_is_over(&back), "a final state is");
    is_int(cluster_find_run(&c, NULL, &run, &e), 0, "the newest run is found");
    is_str(run, second, "the newest run is the later one, whatever its name");
    is_int(cluster_find_run(&c, "t", &run, &e), 0, "a run is found by the beginning of its name");
    is_str(run, first, "the beginning of a name finds its run");
    is_int(cluster_find_run(&c, "x", &run, &e), -1, "an unknown run is not found");
    char *path = file_join(&a, cluster_run_dir(&c, first), "run.toml");
    static const char *const broken[] = {"", "id = 5", "id = \"other\"\nname=\"t\"", "\xff",
                                         "id = 't'\nnodes = ['../x']"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        file_write_atomic(path, broken[i], strlen(broken[i]), 0600, &e);
        is_int(run_load(&c, first, &back, &e), -1, "a broken record is refused (%zu)", i);
    }
    arena_fini(&a);
}

#define RECORD                                                                                     \
    "id = 't'\nname = 't'\ncreated_ms = 1\noutput_dir = '/o'\ncommand = []\nnodes = ['n']\n"

static void results_in_records(void) {
    static const char older[] = RECORD "apart = true\n", bare[] = RECORD,
                      unknown[] = RECORD "left = ['statte']\n";
    const char *node = "n", *command = NULL;
    struct arena a = {0};
    struct err e = {0};
    struct strbuf text = {0};
    struct run back, r = {.id = "t",
                          .name = "t",
                          .cluster = "c",
                          .provider = "local",
                          .command = &command,
                          .nodes = &node,
                          .node_count = 1,
                          .nproc = "1",
                          .output_dir = "/o",
                          .state = "finished",
                          .fetched = true,
                          .wanted = RESULT_LOGS | RESULT_MODEL,
                          .left = RESULT_STATE,
                          .lost = &node,
                          .lost_count = 1,
                          .lost_kinds = RESULT_OUTPUT,
                          .merge = CONFIG_MERGE_RANK0,
                          .archive = CONFIG_ARCHIVE_TAR_ZST,
                          .archives = RUN_ARCHIVES_BEGUN};
    run_format(&r, &text);
    is_int(run_parse(&a, strbuf_cstr(&text), text.len, "r", &back, &e), 0,
           "the record is read back %s", e.text);
    strbuf_fini(&text);
    is_uint(back.wanted, r.wanted, "the record has the kinds that come by themselves");
    is_uint(back.left, r.left, "the record has the kinds that are on the nodes");
    is_uint(back.lost_kinds, r.lost_kinds, "the record has the kinds that are lost");
    is_int(back.merge, r.merge, "the record has the layout");
    is_int(back.archive, r.archive, "the record has the format of archives");
    is_int(back.archives, r.archives, "the record has what is there of them");
    ok(!run_is_all_here(&back), "with a kind on the nodes not all is here");
    back.left = 0;
    ok(run_is_all_here(&back), "without it all is here");
    back.work_left = 1;
    ok(!run_is_all_here(&back), "with files of working folders there not all is here");
    is_int(run_parse(&a, older, strlen(older), "r", &back, &e), 0, "an older record is read");
    is_uint(back.wanted, RESULT_ALL, "of an older run all kinds come");
    is_int(back.merge, CONFIG_MERGE_BY_NODE, "the layout of an older run is known");
    is_int(run_parse(&a, bare, strlen(bare), "r", &back, &e), 0, "a record without layout is read");
    is_int(back.merge, CONFIG_MERGE_AUTO, "the layout is auto then");
    is_int(run_parse(&a, unknown, strlen(unknown), "r", &back, &e), -1,
           "a record with an unknown kind is refused");
    has_str(e.text, "left: 'statte' is none of", "the error names the key and the kind");
    arena_fini(&a);
}

int main(void) {
    char dir[] = "/tmp/dtctl-launch-XXXXXX";
    struct err e = {0};
    if (!mkdtemp(dir))
        bail_out("no temporary folder");
    NAMED("train", "python3", "train.py", "--epochs", "3");
    NAMED("train", "/usr/bin/python3", "-u", "src/train.py");
    NAMED("sh", "sh", "-c", "echo $RANK");
    NAMED("job", "./job.sh");
    NAMED("python3", "python3");
    launchers();
    ids();
    records(dir);
    results_in_records();
    file_remove_tree(dir, &e);
    return done_testing();
}
