// SPDX-License-Identifier: Apache-2.0
// A run that is monitored to its end: signals, whose results are fetched, what is recorded, and the
// exit status. The test is the nodes, and turns the clock; no transfer takes place.
#include "base/bytes.h"
#include "base/clock.h"
#include "conf/result_kinds.h"
#include "run/monitor_impl.h"
#include "run/results/results.h"
#include "run/results/results_part.h"
#include "sys/file.h"
#include "tests/unit/fleet_cluster.h"
#include "tests/unit/run/plain_run.h"
#include "tests/unit/run/results_fake.h"

#include <signal.h>
#include <sys/file.h>

static const char *const NAMES[] = {"n0", "n1", "n2"};
static struct config config;
static struct run run;
static struct err error;

// ---- nodes --------------------------------------------------------------------------------------

static const char *ends[NODES]; // a header of a record; "!…": an error of that code; NULL: silent
static struct timer speaking;
static void (*act)(int number);
static int turns, marked;

static void speak_to(struct fake_run *r, size_t node) {
    const char *line = ends[node];
    unsigned char length[4];
    if (!strstr(r->line, "--node follow ")) {
        marked += strstr(r->line, "fetched") != NULL;
        fake_say(r, "{}\n", 3);
        fake_exit(r, 0);
    } else if (line && line[0] == '!') {
        line = arena_printf(&arena, "{\"event\":\"error\",\"code\":\"%s\",\"text\":\"why\"}\n",
                            line + 1);
        fake_say(r, line, strlen(line));
        fake_exit(r, 1);
    } else if (line) {
        line = arena_printf(&arena, "%s\n", line);
        bytes_store(length, strlen(line), sizeof length);
        fake_say(r, length, sizeof length);
        fake_say(r, line, strlen(line));
    }
}

static void speak(struct timer *t) {
    for (size_t i = 0; i < NODES; i++)
        for (struct fake_run *r = fake_runs; r; r = r->older)
            if (r->r.link == nodes[i].link && !r->is_closed && !r->r.ended)
                speak_to(r, i);
    if (act)
        act(++turns);
    clock_ahead_ms += 100;
    timer_start(context.loop, t, 0, speak);
}

static void begin(const char *n0, const char *n1, const char *n2) {
    fake_fleet_begin("", "", "");
    timer_stop(&turn);
    ends[0] = n0;
    ends[1] = n1;
    ends[2] = n2;
    run = plain_run("r-1");
    run.state = "started";
    run.nodes = (const char **)NAMES;
    run.node_count = run.nodes_min = run.nodes_max = NODES;
    run.output_dir = file_join(&arena, folder, "out");
    run.wanted = RESULT_LOGS | RESULT_OUTPUT;
    for (size_t i = 0; i < NODES; i++)
        nodes[i].ready = true;
    if (file_make_dirs(run_path(&context.cluster, &run, "left"), 0700, &error) < 0 ||
        run_save(&context.cluster, &run, &error) < 0)
        bail_out("%s", error.text);
    collected = turns = marked = 0;
    collect_is_part = collect_fails = false;
    act = NULL;
    said_clear();
}

static void end(void) {
    fake_fleet_end();
    file_remove_tree(run_path(&context.cluster, &run, ""), &error);
}

static const char *file_of(const char *name) {
    char *text;
    size_t len;
    struct err ignored = {0};
    return file_read(&arena, run_path(&context.cluster, &run, name), 1 << 20, &text, &len,
                     &ignored) < 0
               ? NULL
               : text;
}

static int status;

static int monitor(const struct monitor_options *o) {
    err_clear(&error);
    status = -2;
    timer_start(context.loop, &speaking, 0, speak);
    int result = monitor_run(&fleet, &run, o, &status, &error);
    timer_stop(&speaking);
    return result;
}

static const struct monitor_options ALL = {.only_rank = -1};
#define FINISHED "{\"end\":\"finished\",\"exit_status\":0}"
#define FAILED   "{\"end\":\"failed\",\"exit_status\":5}"
#define RUNNING  "{\"end\":\"running\"}"

// ---- the end of a run ---------------------------------------------------------------------------

static void test_finished(void) {
    begin(FINISHED, FINISHED, FINISHED);
    is_int(monitor(&ALL), 0, "a run that finishes is monitored: %s", error.text);
    is_int(status, 0, "a run that finishes has status 0");
    is_int(collected, 1, "the results of a run are fetched once");
    is_str(collect_gone, "000", "no part of a run that finishes is lost");
    is_int(marked, NODES, "all nodes learn that the results are here");
    struct run now;
    is_int(run_load(&context.cluster, "r-1", &now, &error), 0, "the record of the run can be read");
    is_str(now.state, "finished", "the record has the state of the run");
    ok(now.fetched && now.fetch_bytes == 77 && now.fetch_ms >= 300,
       "the record has the results, their bytes and their time");
    has_str(file_of("events.jsonl"), "\"kind\":\"fetched\",\"complete\":\"yes\"",
            "the event has whole results");
    const char *summary = file_of("summary.json");
    has_str(summary, "\"finished\"", "the summary has the state");
    has_str(said(), "finished", "the user reads of the end");
    end();
    begin(FINISHED, FINISHED, FINISHED);
    run.fetched = true;
    if (run_save(&context.cluster, &run, &error) < 0)
        bail_out("%s", error.text);
    is_int(monitor(&ALL), 0, "a run whose results are here is monitored");
    ok(collected == 0 && marked == 0, "results that are here are not fetched");
    ok(!strstr(file_of("events.jsonl") ? file_of("events.jsonl") : "", "fetched"),
       "results that are here have no new event");
    is_int(status, 0, "a run whose results are here has status 0");
    run.left = RESULT_LOGS;
    if (run_save(&context.cluster, &run, &error) < 0)
        bail_out("%s", error.text);
    is_int(monitor(&ALL), 0, "logs that were left on the nodes are monitored");
    ok(marked == NODES && !run.left, "logs that were left are here now");
    is_int(monitor(&(struct monitor_options){.only_rank = -1, .rest = true}), 0,
           "the rest of the results can be fetched");
    is_int(collected, 1, "the rest of the results is fetched");
    end();
}

static void test_json(void) {
    begin(FINISHED, FINISHED, FINISHED);
    notes.style = SCREEN_JSON;
    is_int(monitor(&ALL), 0, "a run is monitored for a program");
    notes.style = SCREEN_PLAIN;
    const char *event = strstr(said(), "{\"event\":\"summary\","),
               *summary = file_of("summary.json");
    has_str(event,
            arena_printf(&arena, "\"summary\",%.*s", (int)strcspn(summary + 1, "\n"), summary + 1),
            "the event has the whole summary");
    ok(!strstr(said(), "\n\n"), "the event is one line");
    end();
    begin(FINISHED, FINISHED, FINISHED);
    monitor(&ALL);
    ok(!strstr(said(), "\"event\""), "a person reads no event");
    end();
}

// The native trainer's figures, unless they are of an earlier run.
static void test_trainer(void) {
    static const struct {
        const char *text;
        bool native, is_taken;
        const char *about;
    } rows[] = {
        {"{\"run\":\"r-1\",\"final_loss\":0.25}", true, true, "the figures of the trainer"},
        {"{\"run\":\"r-0\",\"final_loss\":0.25}", true, false, "figures of an earlier run"},
        {"{\"run\":\"r-1\",\"final_loss\":0.25}", false, false, "figures of a command"},
        {"[\"final_loss\"]", true, false, "figures that are no object"},
        {"{\"run\":\"r-1\",\"final_loss\"", true, false, "figures that were cut"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin(FINISHED, FINISHED, FINISHED);
        run.native = rows[i].native;
        if (file_make_dirs(run.output_dir, 0700, &error) < 0 ||
            file_write_atomic(file_join(&arena, run.output_dir, "summary.json"), rows[i].text,
                              strlen(rows[i].text), 0600, &error) < 0)
            bail_out("%s", error.text);
        is_int(monitor(&ALL), 0, "a run with %s is monitored", rows[i].about);
        ok(!strstr(file_of("summary.json"), "\"final_loss\":0.25") == !rows[i].is_taken,
           "the summary has or lacks %s", rows[i].about);
        end();
    }
}

static void test_part(void) {
    begin(FINISHED, FINISHED, FINISHED);
    collect_is_part = true;
    is_int(monitor(&ALL), 0, "a run with missing results is monitored");
    is_int(status, err_status(ERR_SOME_FAILED), "a run with missing results has a status");
    has_str(file_of("events.jsonl"), "\"complete\":\"no\"", "the event has missing results");
    ok(!run.fetched && marked == 0, "nodes keep results that are missing");
    end();
    begin(FAILED, FINISHED, FAILED);
    collect_fails = true;
    is_int(monitor(&ALL), -1, "results that cannot be fetched are an error");
    is_str(error.text, "the run is over (finished); fetching its results: no room",
           "the error has the state of the run and the reason");
    end();
    begin(FAILED, FAILED, FAILED);
    monitor(&ALL);
    is_int(status, err_status(ERR_FAILED), "a run that fails has a status");
    is_str(run.state, "failed", "the state of a run that fails is kept");
    is_int(run.exit_status, 5, "the exit status of a run that fails is kept");
    has_str(said(), "failed", "the user reads of the failure");
    end();
}

// A node that does not know the run has lost its part, unless that was fetched.
static void test_gone(void) {
    begin(FINISHED, "!not-found", "!not-found");
    const char *mark = results_part_mark(&context, &run, "n2");
    if (file_write_atomic(mark, "", 0, 0600, &error) < 0)
        bail_out("%s", error.text);
    is_int(monitor(&ALL), 0, "a run with a node that has forgotten it is monitored");
    is_str(collect_gone, "010", "a part that was fetched before is not lost");
    is_str(nodes[1].err.text,
           "it does not have the run any more, and its part of the results is lost",
           "the node has the reason");
    end();
    begin(FINISHED, FINISHED, "!not-found");
    nodes[2].ready = false;
    nodes[2].absent = true;
    is_int(monitor(&ALL), 0, "a run with a node that has left is monitored");
    is_str(run.state, "finished", "a node that has left does not change the state");
    end();
    begin("!not-found", "!not-found", "!not-found");
    run.state = "finished";
    is_int(monitor(&ALL), 0, "a run that no node knows any more is monitored");
    is_str(run.state, "finished", "the recorded state of a run that no node knows is kept");
    is_str(collect_gone, "111", "all parts of a run that no node knows are lost");
    end();
    begin("!not-found", "!not-found", "!not-found");
    is_int(monitor(&ALL), 0, "an active run that no node knows is monitored");
    is_str(run.state, "lost", "an active run that no node knows is lost");
    is_int(status, err_status(ERR_NO_STATUS), "a lost run has no status");
    end();
    begin("!not-found", "!not-found", "!not-found");
    run.state = "made";
    is_int(monitor(&ALL), -1, "a run that was never started is an error");
    is_str(error.text, "run 'r-1' was never started: no node knows it", "the error says so");
    is_int(error.code, ERR_NOT_FOUND, "a run that was never started is not found");
    struct run now;
    run_load(&context.cluster, "r-1", &now, &error);
    ok(str_eq(now.state, "failed") && now.fetched && now.exit_status == err_status(ERR_FAILED),
       "a run that was never started is recorded as failed, without results");
    end();
}

static void test_until_now(void) {
    const struct monitor_options now = {.only_rank = -1, .until_now = true};
    begin(RUNNING, RUNNING, RUNNING);
    is_int(monitor(&now), 0, "the lines of an active run can be read");
    is_int(status, 0, "a run that goes on has status 0");
    is_int(collected, 0, "a run that goes on has no results yet");
    ok(!file_of("summary.json"), "a run that goes on has no summary");
    is_str(run.state, "started", "a run that goes on keeps its state");
    end();
}

static void put_event(size_t node, const char *text) {
    const char *dir = run_node_path(&context.cluster, &run, NAMES[node], "");
    const char *begin_of = file_join(&arena, dir, ".begin");
    if (file_make_dirs(dir, 0700, &error) < 0 ||
        file_write_atomic(file_join(&arena, dir, "events.jsonl"), text, strlen(text), 0600,
                          &error) < 0 ||
        file_write_atomic(begin_of, "{\"events.jsonl\":0}", 18, 0600, &error) < 0)
        bail_out("%s", error.text);
}

static void test_offline(void) {
    struct monitor_options o = {.only_rank = 3, .offline = true};
    begin(NULL, NULL, NULL);
    run.state = "finished";
    run.fetched = true;
    is_int(monitor(&o), 0, "a run without a known rank is read offline");
    is_int(fake_run_count(), 0, "no node is asked offline");
    is_int(status, 0, "a run that has finished has status 0 offline");
    put_event(1, "{\"kind\":\"round\",\"round\":0,\"nproc\":2,\"rank\":2}\n");
    is_int(monitor(&o), 0, "the highest rank of a run can be read");
    o.only_rank = 4;
    is_int(monitor(&o), -1, "a rank above the highest is an error");
    is_str(error.text, "run 'r-1' has no rank 4: its highest is 3",
           "the error has the highest rank");
    run.fetched = false;
    o.only_rank = -1;
    monitor(&o);
    is_int(status, err_status(ERR_SOME_FAILED), "results that are not here have a status offline");
    end();
}

// ---- another dtctl ------------------------------------------------------------------------------

static int other_fd = -1;

static void other_ends(int number) {
    if (strstr(said(), "another dtctl") && other_fd >= 0) {
        run.fetched = true;
        run.fetch_bytes = 5;
        struct run done = run;
        done.state = "finished";
        if (run_save(&context.cluster, &done, &error) < 0)
            bail_out("%s", error.text);
        run.fetched = false;
        close(other_fd);
        other_fd = -1;
    }
    (void)number;
}

static void test_other(void) {
    begin(FINISHED, FINISHED, FINISHED);
    if (run_lock(&context.cluster, "r-1", "a test", &other_fd, &error) < 0)
        bail_out("%s", error.text);
    act = other_ends;
    is_int(monitor(&ALL), 0, "a run whose results another dtctl fetches is monitored");
    has_str(said(), "another dtctl fetches the results of this run; waiting for it\n",
            "the user reads of the other dtctl");
    ok(!strstr(strstr(said(), "another dtctl") + 1, "another dtctl"), "the user reads of it once");
    is_int(collected, 0, "results that another dtctl has fetched are not fetched again");
    ok(run.fetched && run.fetch_bytes == 5, "the record of the other dtctl counts");
    end();
}

// ---- signals ------------------------------------------------------------------------------------

static int first_signal, second_signal, second_turn;

static void send_signals(int number) {
    if (context.on_signal && number == 3)
        context.on_signal(context.signal_ctx, context.last_signal = first_signal);
    if (context.on_signal && number == second_turn && second_signal)
        context.on_signal(context.signal_ctx, context.last_signal = second_signal);
}

// Monitors a run that is active. One turn is 100 ms.
static void monitor_signals(bool interactive, int first, int second, int second_after_ms) {
    const struct monitor_options o = {.only_rank = -1, .interactive = interactive};
    begin(NULL, NULL, NULL);
    first_signal = first;
    second_signal = second;
    second_turn = 3 + second_after_ms / 100;
    act = send_signals;
    is_int(monitor(&o), second == SIGINT && second_after_ms > 0 ? -1 : 0,
           "the run is left by signals %d and %d behind %d ms: %s", first, second, second_after_ms,
           error.text);
}

static void test_detach(void) {
    monitor_signals(false, SIGHUP, 0, 0);
    is_int(turns, 3, "a hang-up detaches at once");
    is_str(said(), "detached; the run continues\n  follow:  dtctl logs -f r-1\n",
           "the user reads how to follow the run again");
    has_str(file_of("events.jsonl"), "\"node\":\"operator\",\"kind\":\"left\"",
            "the event has the program that left");
    has_str(file_of("operator.jsonl"), "\"kind\":\"left\"", "the event is kept on this side");
    is_int(status, 0, "a program that detaches has status 0");
    end();
    monitor_signals(true, SIGINT, 0, 0);
    is_int(turns, 3 + MONITOR_SECOND_MS_MAX / 100, "Ctrl-C detaches when no second one comes");
    has_str(said(),
            "detached; the run continues (Ctrl-C again within 2 s stops it)\n"
            "  follow:  dtctl logs -f r-1\n  stop:    dtctl stop r-1\n",
            "the user reads what a second Ctrl-C does");
    is_int(fake_run_count(), NODES, "no node is asked to stop");
    end();
}

static int asked_to_stop(void) {
    int count = 0;
    for (const struct fake_run *r = fake_runs; r; r = r->older)
        count += strstr(r->line, "--node stop ") != NULL;
    return count;
}

// The nodes stop two seconds after the second signal.
static void stop_late(int number) {
    send_signals(number);
    for (size_t i = 0; number == second_turn + 20 && i < NODES; i++)
        ends[i] = "{\"end\":\"stopped\",\"exit_status\":1}";
}

static void monitor_stop(bool interactive, int second_after_ms) {
    const struct monitor_options o = {.only_rank = -1, .interactive = interactive};
    begin(NULL, NULL, NULL);
    first_signal = second_signal = SIGINT;
    second_turn = 3 + second_after_ms / 100;
    act = stop_late;
    is_int(monitor(&o), 0, "a run that two signals within %d ms stop is monitored",
           second_after_ms);
    ok(turns >= second_turn + 20, "the run is monitored to its end behind %d ms", second_after_ms);
    is_int(asked_to_stop(), NODES, "all nodes are asked to stop once, %d ms", second_after_ms);
    is_str(run.state, "stopped", "the run is stopped, %d ms", second_after_ms);
    is_int(collected, 1, "the results of a run that was stopped are fetched, %d ms",
           second_after_ms);
    has_str(file_of("events.jsonl"), "\"kind\":\"stop-asked\",\"by\":\"Ctrl-C\"",
            "the event has Ctrl-C, %d ms", second_after_ms);
    end();
}

static void test_stop(void) {
    monitor_signals(false, SIGTERM, SIGINT, MONITOR_SAME_MS_MAX + 100);
    is_int(asked_to_stop(), NODES,
           "without a terminal the first signal stops the run on all nodes");
    has_str(said(), "stopping the run on all nodes …", "the user reads that the run stops");
    has_str(file_of("events.jsonl"), "\"kind\":\"stop-asked\",\"by\":\"signal\"",
            "the event has the signal");
    is_int(turns, second_turn, "a later signal leaves the run that stops");
    has_str(error.text, "left the run 'r-1' while it stops", "the error has the state of the run");
    end();
    monitor_stop(false, MONITOR_SAME_MS_MAX);
    monitor_stop(true, MONITOR_SECOND_MS_MAX - 100);
    monitor_signals(true, SIGTERM, SIGINT, MONITOR_SAME_MS_MAX + 100);
    is_int(asked_to_stop(), NODES, "at a terminal SIGTERM stops the run");
    end();
    const struct monitor_options now = {.only_rank = -1, .until_now = true};
    begin(NULL, NULL, NULL);
    first_signal = SIGINT;
    second_signal = 0;
    act = send_signals;
    is_int(monitor(&now), -1, "a signal ends the reading of a run");
    is_str(error.text, "stopped by Ctrl-C before all of run 'r-1' was here",
           "the error has the signal");
    is_int(asked_to_stop(), 0, "the reading of a run does not stop the run");
    end();
}

int main(void) {
    fleet_cluster_open();
    context.config = &config;
    test_finished();
    test_trainer();
    test_json();
    test_part();
    test_gone();
    test_until_now();
    test_offline();
    test_other();
    test_detach();
    test_stop();
    fleet_cluster_close();
    return done_testing();
}
