// SPDX-License-Identifier: Apache-2.0
// Looks of `dtctl top`, compared with top_show.txt: nodes with and without figures, with GPUs and
// without, wide and narrow terminals, and JSON.
#include "cmd/dtctl/top_show.h"

#include "fleet/fleet_runs.h"
#include "tests/tap.h"
#include "tests/unit/expected.h"
#include "tests/unit/said.h"

#include <sys/ioctl.h>

enum { NODES = 8 };

static struct arena a;
static struct screen screen;
static struct context context = {.arena = &a, .screen = &screen};
static struct run run = {.id = "task-1", .name = "task", .max_restarts = 3};
static struct inventory_node info[NODES];
static struct fleet_node nodes[NODES];
static struct fleet fleet = {.context = &context, .nodes = nodes, .count = NODES};
static struct node_run here = {.state = "running"}, over = {.state = "finished", .over = true};
static struct node_look looks[NODES];
static struct newest_metrics metrics;
static struct top_look look = {
    .run = &run, .fleet = &fleet, .looks = looks, .metrics = &metrics, .reason = ""};

static int columns; // of the terminal

int test_ioctl(int fd, unsigned long request, ...) __asm__("ioctl");

int test_ioctl(int fd, unsigned long request, ...) {
    va_list ap;
    va_start(ap, request);
    struct winsize *size = va_arg(ap, struct winsize *);
    va_end(ap);
    (void)fd;
    if (request != TIOCGWINSZ || !columns)
        return -1;
    *size = (struct winsize){.ws_row = 24, .ws_col = (unsigned short)columns};
    return 0;
}

static void make_nodes(void) {
    for (size_t i = 0; i < NODES; i++) {
        info[i].name = arena_printf(&a, "n%zu", i);
        nodes[i] = (struct fleet_node){.fleet = &fleet, .index = i, .info = &info[i]};
        looks[i] = (struct node_look){
            .run = &here, .knows_samples = true, .every_ms = 1000, .has_sample = true};
        node_sample_init(&looks[i].sample);
    }
    looks[0].sample = (struct node_sample){.cpu_percent = 12.4,
                                           .cpus = 4,
                                           .time_ms = 5,
                                           .memory_bytes = 1100000000,
                                           .memory_limit_bytes = 25300000000,
                                           .received_bytes_s = 999,
                                           .sent_bytes_s = 1000,
                                           .read_bytes_s = 0,
                                           .written_bytes_s = -1,
                                           .disk_free_bytes = 5000000000000};
    info[1].name = "a-longer-name";
    nodes[2].failed = true;
    (void)err_set(&nodes[2].err, ERR_NET, "it does not answer");
    looks[3].run = NULL;
    looks[4].run = &over;
    looks[5].silent = true;
    looks[6].knows_samples = false;
    looks[7].every_ms = 0;
}

static void add_gpus(struct node_sample *s, int count) {
    s->gpu_count = count;
    for (int i = 0; i < count; i++)
        s->gpus[i] = (struct node_sample_gpu){
            .percent = 10 * (i + 1), .memory_mib = 1024 * (i + 1), .memory_limit_mib = 40960};
}

// Compares the output since the last call, without the times of events.
static void is_said(const char *name) {
    struct strbuf text = {0};
    const char *mark = "\"time_ms\":";
    for (const char *p = said(); *p;) {
        bool event = strncmp(p, mark, strlen(mark)) == 0 && p[strlen(mark)] != '5';
        if (event) {
            strbuf_addf(&text, "%s?", mark);
            p += strlen(mark);
            p += strspn(p, "0123456789");
        } else
            strbuf_addc(&text, *p++);
    }
    said_clear();
    is_expected(&text, name);
    strbuf_fini(&text);
}

static void show(const char *name) {
    top_show(&context, &look);
    is_said(name);
}

static void test_plain(void) {
    look.state = "running";
    look.going = 7;
    look.ranks_running = 1;
    look.elapsed_ms = 61000;
    look.cost_mils = -1;
    show("without GPUs");
    add_gpus(&looks[0].sample, 2);
    look.silent = 1;
    look.ranks_running = 4;
    look.cost_mils = 12345;
    look.round = 2;
    look.restarts = 1;
    look.reason = "a node was lost";
    metrics.steps = (struct newest_steps){.records = 1,
                                          .newest_ms = 9.994,
                                          .least_ms = 10,
                                          .most_ms = 10000,
                                          .data_percent = 3.4,
                                          .comm_percent = 60};
    metrics.records[0].known = true;
    metrics.records[0].value = 0.125;
    metrics.records[2].known = true;
    metrics.records[2].value = 77;
    show("with GPUs");
    looks[1].has_sample = false;
    look.silent = 0;
    metrics.steps.records = 0;
    show("without a sample");
    looks[1].has_sample = true;
    looks[0].sample.gpu_count = 0;
    looks[1].sample = (struct node_sample){.memory_limit_bytes = 999500000, .gpu_count = 1};
    looks[3].run = looks[4].run = looks[5].run = looks[6].run = &here;
    for (size_t i = 3; i < NODES; i++)
        looks[i] = (struct node_look){
            .run = &here, .knows_samples = true, .every_ms = 1, .has_sample = true};
    looks[3].sample = (struct node_sample){.memory_bytes = 5, .memory_limit_bytes = -1};
    looks[4].sample = (struct node_sample){.memory_bytes = -1, .memory_limit_bytes = 5};
    looks[5].sample = (struct node_sample){.memory_bytes = 1, .memory_limit_bytes = 999499999};
    looks[6].sample = (struct node_sample){.memory_limit_bytes = 1000000000000000000};
    look.cost_mils = 0;
    look.round = 1;
    show("figures at their limits");
    make_nodes();
    add_gpus(&looks[0].sample, 2);
}

static void test_widths(void) {
    screen.out_is_terminal = true;
    for (columns = 130; columns >= 64; columns--) {
        static char before[256]; // the heads, which end with a line
        top_show(&context, &look);
        const char *now = strstr(said(), "NODE");
        size_t len = strcspn(now, "\n");
        bool same = strlen(before) == len && strncmp(before, now, len) == 0;
        snprintf(before, sizeof before, "%.*s", (int)len, now);
        if (same)
            said_clear();
        else
            is_said(arena_printf(&a, "%d columns", columns));
    }
    columns = 0;
    screen.out_is_terminal = false;
}

static void test_json(void) {
    screen_fini(&screen);
    screen_init(&screen, said_fd, said_fd, SCREEN_JSON, false);
    metrics.steps.records = 1;
    show("JSON");
    look.cost_mils = -1;
    metrics.steps.records = 0;
    fleet.count = 1;
    show("JSON of one node");
}

int main(int argc, char **argv) {
    struct option_map none = {0};
    (void)argv;
    said_open(&screen);
    expected_open("tests/unit/cmd/top_show.txt", argc);
    newest_metrics_open(&metrics, &a, &none);
    make_nodes();
    test_plain();
    test_widths();
    test_json();
    newest_metrics_close(&metrics);
    said_close(&screen);
    arena_fini(&a);
    return expected_end();
}
