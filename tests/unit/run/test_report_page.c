// SPDX-License-Identifier: Apache-2.0
// Whole pages of runs, from the files of their folders: a command that failed after a restart, a
// native training with samples of its nodes, a run that is active, and two runs side by side.
#include "run/report/report.h"

#include "tests/unit/expected.h"

#include <unistd.h>

enum { MADE_MS = 1000000000 }; // 1970-01-12T13:46:40Z

static char folder[] = "/tmp/test_report_page.XXXXXX";
static struct arena a;
static struct screen screen;
static struct context context;
static struct err e;
static struct strbuf out;

// ---- files of runs ------------------------------------------------------------------------------

static void put(const struct run *r, const char *name, const char *text) {
    const char *path = run_path(&context.cluster, r, name);
    if (file_make_dirs(file_dir(&a, path), 0700, &e) < 0 ||
        file_write_atomic(path, text, strlen(text), 0600, &e) < 0)
        bail_out("%s", e.text);
}

// Events in the order of their times: seconds after the run was made, node, kind, further members.
struct event {
    int at_s;
    const char *node, *kind, *members;
};

static void put_events(const struct run *r, const struct event *events, size_t count) {
    struct strbuf text = {0};
    for (size_t i = 0; i < count; i++)
        strbuf_addf(&text, "{\"time_ms\":%d,\"seq\":%zu,\"node\":\"%s\",\"kind\":\"%s\"%s%s}\n",
                    MADE_MS + 1000 * events[i].at_s, i, events[i].node, events[i].kind,
                    events[i].members[0] ? "," : "", events[i].members);
    put(r, "events.jsonl", strbuf_cstr(&text));
    strbuf_fini(&text);
}
#define PUT_EVENTS(r, events) put_events(r, events, sizeof(events) / sizeof *(events))

static const char *nodes[] = {"n0", "n1", "n2"};

static const struct run FAILED = {.id = "failed-1",
                                  .name = "failed",
                                  .cluster = "c",
                                  .provider = "local",
                                  .created_ms = MADE_MS,
                                  .command = (const char *[]){"sh", "-c", "a <b>", NULL},
                                  .command_count = 3,
                                  .nodes = nodes,
                                  .node_count = 3,
                                  .nodes_min = 2,
                                  .nodes_max = 3,
                                  .nproc = "2",
                                  .output_dir = "/o",
                                  .s3 = "",
                                  .version = "1.2",
                                  .types = "",
                                  .state = "failed",
                                  .wanted = RESULT_ALL,
                                  .key = "",
                                  .resumes = "",
                                  .exit_status = 7,
                                  .push_ms = 20000,
                                  .setup_ms = 10000,
                                  .start_ms = 5000,
                                  .train_ms = 60000,
                                  .fetch_ms = 2000,
                                  .push_bytes = 3 << 20,
                                  .fetch_bytes = 5 << 10};

static void put_failed(void) {
    static const struct event events[] = {
        {0, "dtctl", "made", ""},
        {20, "dtctl", "pushed", "\"bytes\":3145728"},
        {30, "dtctl", "prepared", ""},
        {32, "n0", "joined", "\"coordinator\":\"n0\""},
        {33, "n0", "round",
         "\"round\":0,\"restarts\":0,\"nodes\":[1,2,3],\"nproc\":2,\"rank\":0,\"world_size\":5"},
        {33, "n1", "round",
         "\"round\":0,\"restarts\":0,\"nodes\":[1,2,3],\"nproc\":2,\"rank\":2,\"world_size\":5"},
        {33, "n2", "round",
         "\"round\":0,\"restarts\":0,\"nodes\":[1,2,3],\"nproc\":1,\"rank\":4,\"world_size\":5"},
        {34, "n0", "workers-started", "\"round\":0,\"attempt\":0,\"pids\":[11,12]"},
        {35, "n1", "workers-started", "\"round\":0,\"attempt\":0,\"pids\":[13,14]"},
        {50, "n0", "node-lost", "\"peer\":\"n2\",\"silent_ms\":5000,\"reason\":\"it was silent\""},
        {50, "n0", "stopping", "\"round\":0,\"reason\":\"node <n2> was lost\""},
        {51, "n0", "worker-exited",
         "\"round\":0,\"rank\":0,\"local_rank\":0,\"status\":143,\"signal\":\"SIGTERM\",\"ms\":"
         "17000,\"reason\":\"stopped\""},
        {52, "n0", "restart", "\"round\":0,\"restarts\":1,\"max_restarts\":3,\"reason\":\"lost\""},
        {55, "n0", "round",
         "\"round\":1,\"restarts\":1,\"nodes\":2,\"nproc\":2,\"rank\":0,\"world_size\":4,"
         "\"reason\":\"lost\""},
        {55, "n1", "round",
         "\"round\":1,\"restarts\":1,\"nodes\":2,\"nproc\":2,\"rank\":2,\"world_size\":4"},
        {56, "n0", "workers-started", "\"round\":1,\"attempt\":1,\"pids\":[21,22]"},
        {57, "n1", "workers-started", "\"round\":1,\"attempt\":1,\"pids\":[23,24]"},
        {90, "n0", "worker-exited",
         "\"round\":1,\"rank\":0,\"local_rank\":0,\"status\":0,\"ms\":34000"},
        {91, "n0", "worker-exited",
         "\"round\":1,\"rank\":1,\"local_rank\":1,\"status\":7,\"ms\":35000"},
        {92, "n1", "notice", "\"peer\":\"n1\",\"reason\":\"spot-terminate\",\"left_ms\":120000"},
        {93, "n0", "failure",
         "\"peer\":\"n0\",\"round\":1,\"rank\":1,\"local_rank\":1,\"status\":7,\"root\":true,"
         "\"failed_ms\":1000091000,\"message\":\"\",\"tail\":\"Error: <x>\\nno y\","
         "\"evidence\":\"seen\",\"share\":0.5,\"whole\":false,\"none\":null"},
        {95, "n0", "failed", "\"exit_status\":7,\"rounds\":2,\"restarts\":1,\"ms\":60000"},
        {95, "n1", "failed", "\"exit_status\":7,\"reason\":\"rank 1 failed\""},
        {98, "dtctl", "fetched", ""},
    };
    static const char inputs[] =
        "{\"inputs\":[{\"name\":\"d\",\"mode\":\"sharded\",\"source\":\"/d\",\"files\":3,\"bytes\":"
        "300,\"digest\":\"00112233445566778899\",\"shares\":[{\"node\":\"n0\",\"files\":2,"
        "\"bytes\":2048},{\"node\":\"n1\",\"files\":1,\"samples\":4},7]},{\"name\":\"e\",\"mode\":"
        "\"replicated\",\"files\":1,\"bytes\":1},5]}";
    struct strbuf metrics = {0};
    for (int i = 0; i < 12; i++)
        for (int rank = 0; rank < 3; rank++)
            strbuf_addf(&metrics, "{\"time_ms\":%d,\"rank\":%d,\"name\":\"loss\",\"value\":%g}\n",
                        MADE_MS + 40000 + (i + 1) * (rank == 2 ? 4000 : 3000), rank,
                        5.0 / (i + 1) + rank);
    strbuf_adds(&metrics, "no line\n{\"time_ms\":1000041000,\"rank\":0,\"name\":\"loss\",\"value\":"
                          "null}\n{\"name\":\"odd\",\"value\":1}\n");
    put_events(&FAILED, events, sizeof events / sizeof *events);
    put(&FAILED, "inputs.json", inputs);
    put(&FAILED, "metrics.jsonl", strbuf_cstr(&metrics));
    put(&FAILED, "summary.json",
        "{\"run\":\"failed-1\",\"restarts\":1,\"world_size\":4,\"metrics\":{\"loss\":{\"count\":"
        "36}}}");
    strbuf_fini(&metrics);
}

static struct run native_run(void) {
    struct run r = FAILED;
    r.id = "native-1";
    r.name = "native";
    r.native = true;
    r.node_count = 1;
    r.command_count = 0;
    r.state = "finished";
    r.exit_status = 0;
    r.setup_ms = 0;
    r.push_bytes = 0;
    r.version = "";
    return r;
}

static void put_native(const struct run *r) {
    static const struct event events[] = {
        {0, "dtctl", "made", ""},
        {1, "dtctl", "pushed", ""},
        {2, "n0", "round",
         "\"round\":0,\"restarts\":0,\"nodes\":1,\"nproc\":1,\"rank\":0,\"world_size\":1"},
        {3, "n0", "workers-started", "\"round\":0,\"attempt\":0,\"pids\":[1]"},
        {60, "n0", "worker-exited",
         "\"round\":0,\"rank\":0,\"local_rank\":0,\"status\":0,"
         "\"ms\":57000"},
        {61, "n0", "finished", "\"exit_status\":0"},
        {100, "dtctl", "fetched", ""}, // later, by hand
    };
    struct strbuf text = {0};
    for (int step = 1; step <= 41; step += 10)
        strbuf_addf(&text,
                    "{\"event\":\"train\",\"step\":%d,\"epoch\":%d,\"loss\":%g,\"data_ms\":200,"
                    "\"compute_ms\":400,\"comm_exposed_ms\":%d}\n",
                    step, step / 20, 3000.0 / (step * step * step), step == 31 ? 900 : 300);
    strbuf_adds(&text, "{\"event\":\"train\",\"step\":31,\"data_ms\":100,\"compute_ms\":100,"
                       "\"comm_exposed_ms\":100}\n"
                       "{\"event\":\"eval\",\"step\":41,\"acc1\":0.75}\n"
                       "{\"time_ms\":1000050000,\"rank\":0,\"name\":\"loss\",\"value\":9}\n");
    PUT_EVENTS(r, events);
    put(r, "metrics.jsonl", strbuf_cstr(&text));
    put(r, "summary.json",
        "{\"run\":\"native-1\",\"restarts\":0,\"world_size\":1,\"images_per_s\":1234.5678,"
        "\"final_loss\":0.25,\"trainer\":{\"isa\":\"avx2\"}}");
    strbuf_clear(&text);
    for (int i = 0; i < 4; i++)
        strbuf_addf(&text,
                    "{\"time_ms\":%d,\"cpu_percent\":%d.5,\"memory_bytes\":%lld,\"received_bytes_s"
                    "\":%d,\"sent_bytes_s\":0,\"read_bytes_s\":null,\"gpu_percent\":[50,%d],"
                    "\"gpu_memory_mib\":[100,300],\"gpu_limit_mib\":[1000,1000]}\n",
                    MADE_MS + 20000 * i, 25 * i, (i + 1LL) << 30, i * 1000, 10 * i);
    strbuf_adds(&text, "{}\n");
    put(r, "nodes/n0/samples.jsonl", strbuf_cstr(&text));
    strbuf_fini(&text);
}

// ---- pages --------------------------------------------------------------------------------------

static void write_page(const struct run *runs, size_t count, const char *name) {
    static const char *cells[] = {"2", "1"};
    struct side_table settings = {.arena = &a, .heads = (const char *[]){"1", "2"}, .count = 2};
    struct side_table figures = settings;
    struct report_page p;
    struct strbuf page = {0};
    side_table_add(&settings, "nodes", cells);
    report_init(&p, &context, count);
    for (size_t i = 0; i < count; i++)
        if (report_load(&p, &runs[i], &e) < 0)
            bail_out("%s", e.text);
    report_write(&p, "9.9", &settings, &figures, &page);
    const char *body = strstr(strbuf_cstr(&page), "</head><body>\n");
    for (const char *at = body ? body : ""; *at;) { // the folder has another name each time
        const char *found = strstr(at, folder);
        size_t len = found ? (size_t)(found - at) : strlen(at);
        strbuf_add(&out, at, len);
        at += len + (found ? strlen(folder) : 0);
    }
    is_expected(&out, name);
    report_end(&p);
    strbuf_fini(&page);
}

int main(int argc, char **argv) {
    struct report_page p;
    (void)argv;
    expected_open("tests/unit/run/report_page.txt", argc);
    if (!mkdtemp(folder) || cluster_open(&context.cluster, &a, folder, "c", &e) < 0)
        bail_out("no folder");
    context.arena = &a;
    context.screen = &screen;
    struct run runs[] = {FAILED, native_run()};
    put_failed();
    put_native(&runs[1]);
    write_page(runs, 1, "a command that failed");
    write_page(&runs[1], 1, "a native training");
    write_page(runs, 2, "two runs");
    runs[1].id = "gone-1";
    report_init(&p, &context, 1);
    bool found = report_load(&p, &runs[1], &e) == 0;
    report_end(&p);
    ok(!found && e.code == ERR_NOT_FOUND, "a run without any file has no page");
    has_str(e.text, "nothing of run 'gone-1' but its record is on this computer",
            "the error says what is there");
    cluster_close(&context.cluster);
    file_remove_tree(folder, &e);
    strbuf_fini(&out);
    arena_fini(&a);
    return expected_end();
}
