// SPDX-License-Identifier: Apache-2.0
// The setup of nodes as the operator sees it: the job that a node gets, its log, the tail of a
// failure, the limit of time. The nodes are in the test.
#include "run/run_setup.h"

#include "base/bytes.h"
#include "tests/unit/fleet_fake.h"
#include "tests/unit/said.h"
#include "tests/unit/turned_clock.h"

#include "sys/file.h"

static char folder[] = "/tmp/test_run_setup.XXXXXX";
static struct config config;
static struct run_start start;
static struct screen notes;
static struct node_setup setups[2];
static int overs;
static struct err e, over_err;

static void on_over(struct node_setup *s, const struct err *err) {
    ok(!s->run, "a setup that is over does not run");
    overs++;
    over_err = *err;
}

static void begin(void) {
    static const char *const command[] = {"true", NULL};
    fake_fleet_begin("", "", "");
    timer_stop(&turn); // the test answers by itself
    context.screen = &notes;
    start = (struct run_start){.context = &context,
                               .setup_dir = file_join(&arena, folder, "logs/setup")};
    job_spec_init(&start.spec);
    start.spec.run = "r-1";
    start.spec.name = "r";
    start.spec.workdir = "runs/r-1/work";
    start.spec.nproc_per_node = "1";
    start.spec.command = command;
    start.spec.command_count = 1;
    start.spec.has_key = true;
    start.spec.setup = "make";
    start.spec.setup_hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    config.setup.timeout_ms = 60000;
    overs = 0;
    over_err = (struct err){0};
    said_clear();
    for (size_t i = 0; i < NODES; i++)
        info[i].address = "127.0.0.1";
    for (size_t i = 0; i < 2; i++) {
        setups[i] = (struct node_setup){.node = &nodes[i], .start = &start, .on_over = on_over};
        if (node_setup_begin(&setups[i], &e) < 0)
            bail_out("%s", e.text);
    }
}

static void end(void) {
    for (size_t i = 0; i < 2; i++)
        node_setup_close(&setups[i]);
    fake_fleet_end();
}

static const char *log_of(const char *node) {
    const char *path = arena_printf(&arena, "%s/logs/setup/%s.log", folder, node);
    char *text;
    size_t len;
    return file_read(&arena, path, 1 << 20, &text, &len, &e) == 0 ? text : "absent";
}

static void answer(struct fake_run *r, const char *line) {
    fake_say(r, line, strlen(line));
}

static void test_begin(void) {
    begin();
    struct fake_run *second = fake_run(0), *first = fake_run(1);
    is_str(first->line, "/p --node setup --root /r --run r-1", "the node gets the verb");
    fake_take(first, SIZE_MAX);
    fake_take(second, SIZE_MAX);
    is_uint(bytes_load(first->got.data, 4), first->got.len - 4, "the length goes before the job");
    struct job_spec spec;
    is_int(job_spec_parse(&arena, first->got.data + 4, first->got.len - 4, &spec, &e), 0,
           "the job is read: %s", e.text);
    ok(str_eq(spec.node, "n0") && str_eq(spec.setup, "make") && !spec.has_key,
       "the job has the node and the script, and no key");
    is_int(job_spec_parse(&arena, second->got.data + 4, second->got.len - 4, &spec, &e), 0,
           "the second job is read");
    is_str(spec.node, "n1", "the second node has its own job");
    ok(!first->got_end, "the input stays open while the script runs");
    ok(*log_of("n0") == '\0' && *log_of("n1") == '\0', "each node has its log");
    end();
}

static void test_ran(void) {
    begin();
    struct fake_run *second = fake_run(0), *first = fake_run(1);
    fake_say_error(first, "building\n");
    fake_say_error(first, "done\n");
    fake_say_error(second, "other\n");
    answer(first, "{\"ran\":");
    answer(first, "true}\n");
    fake_exit(first, 0);
    ok(overs == 1 && over_err.code == ERR_NONE, "the first node is ready: %s", over_err.text);
    ok(setups[0].ran, "the script has run there");
    is_str(log_of("n0"), "building\ndone\n", "the log has the output of the node");
    is_str(log_of("n1"), "other\n", "the log of the second node has its own");
    answer(second, "{}\n");
    fake_exit(second, 0);
    ok(overs == 2 && !setups[1].ran, "the second node was ready before");
    is_str(said(), "", "the user reads nothing of scripts that succeed");
    clock_turn(context.loop, 70000);
    is_int(overs, 2, "no limit counts any more");
    end();
}

static void fail_with(struct fake_run *r) {
    answer(r, "{\"event\":\"error\",\"code\":\"failed\",\"text\":\"status 2\"}\n");
    fake_exit(r, 1);
}

static void test_tail(void) {
    begin();
    fake_say_error(fake_run(1), "one\r\n\ntwo\x1b\nlast");
    fail_with(fake_run(1));
    has_str(over_err.text, "status 2", "the error is that of the node");
    is_str(said(), "[n0 setup] one\n[n0 setup] two\\x1b\n[n0 setup] last\n",
           "the user reads the lines of a script that fails");
    said_clear();
    char *many = arena_new(&arena, char, SETUP_TAIL_BYTES_MAX + 2);
    memset(many, 'x', SETUP_TAIL_BYTES_MAX + 1);
    many[10] = '\n';
    fake_say_error(fake_run(0), many);
    fake_say_error(fake_run(0), "\nend\n");
    fail_with(fake_run(0));
    const char *first = said();
    is_uint(strcspn(first, "\n"), strlen("[n1 setup] ") + SETUP_TAIL_BYTES_MAX - 10,
            "the line that is cut is left out");
    has_str(first, "x\n[n1 setup] end\n", "the last line is shown");
    end();
    begin();
    memset(many, 'y', SETUP_TAIL_BYTES_MAX + 1);
    fake_say_error(fake_run(0), many);
    fail_with(fake_run(0));
    is_uint(strlen(said()), strlen("[n1 setup] \n") + SETUP_TAIL_BYTES_MAX,
            "a single line is shown as far as it goes");
    end();
}

static void test_limit(void) {
    begin();
    fake_say_error(fake_run(1), "so far\n");
    clock_turn(context.loop, 59900);
    is_int(overs, 0, "a script has its time");
    clock_turn(context.loop, 100);
    is_int(overs, 2, "scripts that take longer are stopped");
    ok(over_err.code == ERR_TIMEOUT && fake_run(0)->is_closed && fake_run(1)->is_closed,
       "both commands are closed");
    has_str(over_err.text, "longer than 60 s (setup.timeout)", "the error has the setting");
    has_str(said(), "[n0 setup] so far\n", "the user reads the output so far");
    end();
}

static void test_refused(void) {
    begin();
    end();
    begin();
    node_setup_close(&setups[0]);
    fake_refuses = 1;
    is_int(node_setup_begin(&setups[0], &e), -1, "a node may refuse the command");
    ok(!setups[0].run && !setups[0].log_fd, "nothing is left open");
    start.setup_dir = "/dev/null/logs";
    is_int(node_setup_begin(&setups[0], &e), -1, "a log that cannot be written is an error");
    end();
    is_int(overs, 0, "nothing calls back");
}

static void answer_all(struct timer *t) {
    (void)t;
    for (struct fake_run *r = fake_runs; r; r = r->older) {
        answer(r, r->r.link == nodes[1].link ? "{\"ran\":true}\n" : "{\"ran\":false}\n");
        fake_exit(r, 0);
    }
}

static void test_each(void) {
    begin();
    end();
    fake_fleet_begin("", "", "");
    timer_start(context.loop, &turn, 0, answer_all);
    is_int(node_setup_each(&start, &fleet, &e), 0, "every node is prepared: %s", e.text);
    is_int(fake_run_count(), NODES, "every node gets the command");
    for (size_t i = 0; i < NODES; i++)
        ok(!nodes[i].failed && !nodes[i].work, "node %zu is ready", i);
    fake_fleet_end();
    fake_fleet_begin("", "", "");
    start.spec.setup = NULL;
    ok(node_setup_each(&start, &fleet, &e) == 0 && fake_run_count() == 0,
       "without a script no node is asked");
    fake_fleet_end();
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    clock_stop();
    fake_fleet_init();
    said_open(&notes);
    config_open(&config, &arena, "dtctl", NULL);
    context.config = &config;
    test_begin();
    test_ran();
    test_tail();
    test_limit();
    test_refused();
    test_each();
    said_close(&notes);
    fake_fleet_fini();
    (void)file_remove_tree(folder, &e);
    return done_testing();
}
