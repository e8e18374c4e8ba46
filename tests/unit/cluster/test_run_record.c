// SPDX-License-Identifier: Apache-2.0
// The record of a run: what is written is read again, what an older dtctl left out has a default,
// and runs lose their nodes.
#include "cluster/run_record.h"
#include "protocol/node_protocol.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <unistd.h>

static char dir[] = "/tmp/test_run_record.XXXXXX";
static struct arena a;
static struct err e;

#define HEAD   "id = \"r\"\nname = \"t\"\ncreated_ms = 7\noutput_dir = \"/o\"\n"
#define RECORD HEAD "command = [\"x\"]\nnodes = [\"n1\", \"n2\"]\n"

static int parse(const char *text, struct run *r) {
    e = (struct err){0};
    return run_parse(&a, text, strlen(text), "run.toml", r, &e);
}

static const char *format(const struct run *r) {
    struct strbuf text = {0};
    run_format(r, &text);
    const char *copy = arena_strdup(&a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return copy;
}

static struct run full(void) {
    static const char *command[] = {"a", "b c", NULL}, *nodes[] = {"n1", "n2", "n3", NULL};
    static const char *lost[] = {"n2", NULL};
    static struct option_pair metrics[] = {{"loss", "x (.*)"}}, tags[] = {{"k", "v"}};
    static struct option_pair settings[] = {{"lr", "1"}, {"seed", "2"}}, env[] = {{"E", "ab"}};
    return (struct run){.id = "r",
                        .name = "t",
                        .cluster = "c",
                        .provider = "aws",
                        .created_ms = 7,
                        .command = command,
                        .command_count = 2,
                        .native = true,
                        .nodes = nodes,
                        .node_count = 3,
                        .nodes_min = 2,
                        .nodes_max = 5,
                        .max_restarts = 4,
                        .nproc = "8",
                        .output_dir = "/o",
                        .s3 = "s3://b/p",
                        .uploaded = true,
                        .metrics = {metrics, 1},
                        .tags = {tags, 1},
                        .version = "1.2",
                        .types = "p5",
                        .settings = {settings, 2},
                        .env = {env, 1},
                        .state = "started",
                        .fetched = true,
                        .wanted = RESULT_LOGS | RESULT_STATE,
                        .left = RESULT_OUTPUT,
                        .lost = lost,
                        .lost_count = 1,
                        .lost_kinds = RESULT_MODEL,
                        .work_left = 3,
                        .bring_work = true,
                        .output_every_ms = 60000,
                        .merge = CONFIG_MERGE_RANK0,
                        .archive = CONFIG_ARCHIVE_TAR_ZST,
                        .archives = RUN_ARCHIVES_WHOLE,
                        .key = "ab",
                        .resumes = "q",
                        .exit_status = 9,
                        .push_ms = 11,
                        .setup_ms = 12,
                        .start_ms = 13,
                        .train_ms = 14,
                        .fetch_ms = 15,
                        .push_bytes = 16,
                        .fetch_bytes = 17};
}

static void test_round_trip(void) {
    struct run s = full(), r;
    const char *text = format(&s);
    is_int(parse(text, &r), 0, "a full record is written and read%s", e.text);
    is_str(format(&r), text, "the record that was read is written alike");
    ok(r.created_ms == 7 && r.native && r.nodes_min == 2 && r.nodes_max == 5 &&
           r.max_restarts == 4 && r.exit_status == 9,
       "the numbers of the run are read back");
    ok(r.fetched && r.uploaded && r.bring_work && r.work_left == 3 && r.output_every_ms == 60000,
       "the progress of the results is read back");
    ok(r.wanted == s.wanted && r.left == s.left && r.lost_kinds == s.lost_kinds,
       "the kinds of results are read back");
    ok(r.merge == s.merge && r.archive == s.archive && r.archives == s.archives,
       "the words are read back");
    ok(r.push_ms == 11 && r.setup_ms == 12 && r.start_ms == 13 && r.train_ms == 14 &&
           r.fetch_ms == 15 && r.push_bytes == 16 && r.fetch_bytes == 17,
       "the times and bytes are read back");
    ok(run_has_lost(&r, "n2") && !run_has_lost(&r, "n1") && !run_has_lost(&r, ""),
       "the lost node is read back");
    is_uint(r.settings.count, 2, "both settings are read back");
    is_str(r.settings.items[1].value, "2", "the second setting has its value");
    s = (struct run){.id = "r",
                     .name = "t",
                     .output_dir = "/o",
                     .command = r.command,
                     .cluster = "",
                     .provider = "",
                     .nodes = r.nodes,
                     .node_count = 1,
                     .nproc = "",
                     .state = ""};
    text = format(&s);
    for (size_t i = 0; i < 11; i++) {
        static const char *const keys[] = {"left = [",        "lost",    "s3",        "uploaded",
                                           "output_every_ms", "archive", "task_hash", "resumes",
                                           "version",         "types",   "[metrics]"};
        ok(!strstr(text, keys[i]), "an empty record has no key '%s'", keys[i]);
    }
}

static void test_defaults(void) {
    struct run r;
    is_int(parse(RECORD, &r), 0, "a record of the needed keys is read%s", e.text);
    ok(r.nodes_min == 2 && r.nodes_max == 2, "the run has its nodes at least and at most");
    ok(!r.native && !r.fetched && !r.uploaded && !r.bring_work, "all switches are off");
    is_int(r.max_restarts + r.exit_status + r.work_left + r.output_every_ms + r.push_ms +
               r.setup_ms + r.start_ms + r.train_ms + r.fetch_ms +
               (int64_t)(r.push_bytes + r.fetch_bytes + r.lost_count + r.metrics.count),
           0, "all numbers are 0");
    is_str(r.nproc, "auto", "the number of processes is not known");
    is_str(r.state, "made", "the run is made");
    ok(r.wanted == RESULT_ALL && r.left == 0 && r.lost_kinds == RESULT_ALL,
       "an older dtctl brought all kinds of results, and left none");
    ok(r.merge == CONFIG_MERGE_AUTO && r.archive == CONFIG_ARCHIVE_NONE &&
           r.archives == RUN_ARCHIVES_NONE,
       "an older dtctl made no archives");
    is_int(parse(RECORD "apart = true\n", &r), 0, "a record with folders apart is read");
    is_int(r.merge, CONFIG_MERGE_BY_NODE, "an older dtctl had a folder for each node");
    is_int(parse(RECORD "apart = true\nmerge = \"rank0\"\n", &r), 0, "a newer record is read");
    is_int(r.merge, CONFIG_MERGE_RANK0, "the newer key decides");
}

static void test_refused(void) {
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"name = \"t\"\n", "id"},
        {"id = \"r\"\n", "name"},
        {"id = \"r\"\nname = \"t\"\n", "created_ms"},
        {"id = \"r\"\nname = \"t\"\ncreated_ms = -1\n", "created_ms"},
        {"id = \"r\"\nname = \"t\"\ncreated_ms = 0\n", "output_dir"},
        {HEAD "command = 1\nnodes = [\"n\"]\n", "command"},
        {HEAD "command = [\"x\"]\n", "nodes"},
        {HEAD "command = [\"x\"]\nnodes = []\n", "expected 1 to 4096 names"},
        {HEAD "command = [\"x\"]\nnodes = [\"n\", \"../m\"]\n", "'../m' is no node name"},
        {HEAD "command = [\"x\"]\nnodes = [\"/n\"]\n", "'/n' is no node name"},
        {RECORD "lost = [\"n1\", \"../m\"]\n", "'../m' is no node name"},
        {RECORD "lost = 1\n", "lost"},
        {RECORD "fetch = [\"logs\", \"none\"]\n", "fetch"},
        {RECORD "left = [\"none\"]\n", "left"},
        {RECORD "lost_kinds = 7\n", "lost_kinds"},
        {RECORD "output_every_ms = -1\n", "output_every_ms is out of range"},
        {RECORD "output_every_ms = 86400001\n", "output_every_ms is out of range"},
    };
    struct run r;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        is_int(parse(rows[i].text, &r), -1, "the record is refused: %s", rows[i].why);
        has_str(e.text, rows[i].why, "the error has the reason");
        has_str(e.text, "run.toml", "the error names the file");
    }
    is_int(parse(RECORD "output_every_ms = 86400000\n", &r), 0, "a day is the longest interval");
    for (int count = RUN_NODES_MAX; count <= RUN_NODES_MAX + 1; count++) {
        struct strbuf text = {0};
        strbuf_adds(&text, HEAD "command = [\"x\"]\nnodes = [");
        for (int i = 0; i < count; i++)
            strbuf_addf(&text, "\"n%d\",", i);
        strbuf_adds(&text, "]\n");
        is_int(parse(strbuf_cstr(&text), &r), count > RUN_NODES_MAX ? -1 : 0,
               "the limit of nodes decides about %d", count);
        strbuf_fini(&text);
    }
}

static void test_names(void) {
    static const char *const rows[][2] = {
        {"train", "train"}, {"a b/c", "a-b-c"}, {"-._x", "x"},          {"", "run"},
        {"...", "run"},     {"\xc3\xa4x", "x"}, {"A.b_c-9", "A.b_c-9"}, {"x-", "x-"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        is_str(run_make_name(&a, rows[i][0]), rows[i][1], "'%s' becomes a name", rows[i][0]);
    char text[RUN_TASK_BYTES_MAX + 2];
    memset(text, 'n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    is_uint(strlen(run_make_name(&a, text)), RUN_TASK_BYTES_MAX, "a long name is cut");
    const char *id = run_make_id(&a, "t", 1700000000042);
    ok(strncmp(id, "t-20231114T221320Z-02a", 22) == 0 && strlen(id) == 25,
       "an id has name, time and milliseconds: %s", id);
    ok(strcmp(run_make_id(&a, "t", 1700000000999), run_make_id(&a, "t", 1700000001000)) < 0,
       "ids sort by time");
    is_str(run_node_dir(&a, "r", ""), "runs/r", "a run has its folder on a node");
    is_str(run_node_dir(&a, "r", "x"), "runs/r/x", "files are in the folder of the run");
}

static void test_near_paths(void) {
    if (chdir(dir) < 0)
        bail_out("no folder");
    const char *rows[][2] = {{"/a", "b/c"}, {"", NULL}, {"x/a", NULL}, {"/", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *end = rows[i][1] ? rows[i][1] : "";
        const char *path = arena_printf(&a, "%s%s%s", dir, rows[i][0], end);
        const char *want = rows[i][1] ? path + sizeof dir : path;
        is_str(run_near_path(&a, path), want, "'%s' is shown from here", path);
    }
    is_str(run_near_path(&a, "/tmp"), "/tmp", "a path above stays whole");
    if (chdir("/") < 0)
        bail_out("no root");
    is_str(run_near_path(&a, dir), dir, "a path stays whole in the root");
}

static void test_over(void) {
    static const char *const open[] = {"made", "started", "", "other"};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        ok(!run_is_over(&(struct run){.state = open[i]}), "'%s' is no end", open[i]);
    for (int i = 0; i <= NODE_LOST; i++) {
        const char *state = node_state_name((enum node_state)i);
        is_int(run_is_over(&(struct run){.state = state}),
               node_state_is_final((enum node_state)i) != 0, "'%s' decides about the end", state);
    }
    for (unsigned i = 0; i < 8; i++)
        is_int(run_is_all_here(
                   &(struct run){.fetched = i & 1, .left = i & 2, .work_left = i & 4 ? 1 : 0}),
               i == 1, "all is here when it is fetched and nothing is left: %u", i);
}

static struct run lose(const struct cluster *c, const char *node) {
    struct run r = {0};
    is_int(run_lose(c, "r", node, &e), 0, "the results of '%s' are lost%s", node, e.text);
    if (run_load(c, "r", &r, &e) < 0)
        bail_out("%s", e.text);
    return r;
}

static void test_lose(const struct cluster *c) {
    struct run r = full();
    r.lost_count = 0, r.left = 0;
    if (run_save(c, &r, &e) < 0)
        bail_out("%s", e.text);
    is_uint(lose(c, "n1").lost_count, 0, "a run whose results are all here loses nothing");
    r.fetched = false;
    if (run_save(c, &r, &e) < 0)
        bail_out("%s", e.text);
    is_uint(lose(c, "other").lost_count, 0, "a node of another run is not lost");
    r = lose(c, "n3");
    ok(r.lost_count == 1 && run_has_lost(&r, "n3") && r.lost_kinds == RESULT_ALL && !r.fetched,
       "one node is lost, with all kinds of results");
    r = lose(c, "n1");
    ok(r.lost_count == 2 && strcmp(r.lost[0], "n1") == 0 && strcmp(r.lost[1], "n3") == 0,
       "lost nodes are in the order of the nodes");
    is_uint(lose(c, "n1").lost_count, 2, "a node is lost once");
    is_str(r.state, "started", "a run that has a node is not lost");
    r = lose(c, "n2");
    ok(r.lost_count == 3 && r.fetched && r.left == 0 && r.work_left == 0,
       "nothing is left to fetch from no node");
    is_str(r.state, node_state_name(NODE_LOST), "the run is lost");
    r = full();
    r.lost_count = 0, r.state = node_state_name(NODE_FAILED);
    if (run_save(c, &r, &e) < 0)
        bail_out("%s", e.text);
    r = lose(c, "n1");
    is_uint(r.lost_kinds, RESULT_OUTPUT, "of a fetched run the kinds that were left are lost");
    r.left = RESULT_STATE;
    if (run_save(c, &r, &e) < 0)
        bail_out("%s", e.text);
    is_uint(lose(c, "other").lost_kinds, RESULT_OUTPUT, "a node of another run changes nothing");
    r = lose(c, "n2");
    is_uint(r.lost_kinds, RESULT_OUTPUT | RESULT_STATE, "kinds of several nodes are kept");
    is_str(lose(c, "n3").state, node_state_name(NODE_FAILED), "a run that is over stays as it is");
}

static void test_walk(const struct cluster *c) {
    struct run_walk w;
    struct run r = full();
    r.id = "s-20990101T000000Z-000000", r.cluster = "";
    if (run_save(c, &r, &e) < 0 ||
        file_make_dirs(cluster_run_dir(c, "u-20990101T000000Z-000000"), 0700, &e) < 0)
        bail_out("%s", e.text);
    is_int(run_walk_open(&w, c, &e), 0, "the runs are listed");
    size_t count = 0;
    while (run_walk_next(&w, &r))
        count++;
    is_uint(count, 2, "a run without a record is left out");
    is_int(run_load(c, "s-20990101T000000Z-000000", &r, &e), 0, "a run is loaded");
    is_str(r.cluster, "c", "a record without a cluster is of the one that has it");
    r.id = "r";
    struct strbuf text = {0};
    run_format(&r, &text);
    const char *path = file_join(&a, cluster_run_dir(c, "u-20990101T000000Z-000000"), "run.toml");
    if (file_write_atomic(path, text.data, text.len, 0600, &e) < 0)
        bail_out("%s", e.text);
    strbuf_fini(&text);
    is_int(run_load(c, "u-20990101T000000Z-000000", &r, &e), -1, "a foreign record is refused");
    has_str(e.text, "the record of another run, 'r'", "the error names the other run");
}

int main(void) {
    struct cluster c;
    if (!mkdtemp(dir) || cluster_open(&c, &a, dir, "c", &e) < 0)
        bail_out("no folder: %s", e.text);
    test_round_trip();
    test_defaults();
    test_refused();
    test_names();
    test_near_paths();
    test_over();
    test_lose(&c);
    test_walk(&c);
    cluster_close(&c);
    file_remove_tree(dir, &e);
    arena_fini(&a);
    return done_testing();
}
