// SPDX-License-Identifier: Apache-2.0
// An agent whose run ends, for agent_shutdown.c and agent_preemption.c: workers, the connection,
// the coordinator and the rest of the agent are stand-ins that note what they are asked to do.
#ifndef TESTS_UNIT_AGENT_END_FAKE_H
#define TESTS_UNIT_AGENT_END_FAKE_H

#include "agent/agent_impl.h"

#include "base/clock.h"
#include "tests/tap.h"
#include "tests/unit/agent/done.h"
#include "tests/unit/turned_clock.h"
#include "worker/console.h"
#include "worker/error_file.h"

#include <signal.h>

enum { GRACE_MS = 40000, WORKERS = 2, DAY_MS = 1000000000 };

static struct err fault;
static struct loop *test_loop;
static struct agent agent;
static struct agent_config config;
static struct worker workers[WORKERS];
static struct wire_msg sent; // the last message
static notice_cb *noticed;
static bool idle, copies;

#define COORDINATOR ((struct coordinator *)(void *)&config)

// ---- stand-ins ----------------------------------------------------------------------------------

void agent_stop_workers(struct agent *a, int signal, int64_t grace_ms, const char *why) {
    (void)a;
    note("stop %d %d: %s;", signal, (int)grace_ms, why);
}

void agent_link_close(struct agent *a, const char *why) {
    (void)a;
    note("close: %s;", why);
}

void agent_write_status(struct agent *a) {
    note("status %s;", a->reason);
}

void agent_send(struct agent *a, const struct wire_msg *m) {
    (void)a;
    note("send %s: %s;", frame_name(m->type), m->reason);
    sent = *m;
}

void coordinator_end_run(struct coordinator *c, enum rendezvous_verdict verdict, const char *reason,
                         int signal, int64_t grace_ms) {
    if (c != COORDINATOR)
        bail_out("another coordinator");
    note("end run %s %d %d: %s;",
         verdict == VERDICT_STOPPED  ? "stopped"
         : verdict == VERDICT_FAILED ? "failed"
                                     : "otherwise",
         signal, (int)grace_ms, reason);
}

bool workers_is_idle(const struct workers *w) {
    return w == &agent.workers && idle;
}

void workers_signal(struct workers *w, int signal) {
    (void)w;
    note("signal %d;", signal);
}

bool worker_succeeded(const struct worker *x) {
    return x->ended && x->status == 0;
}

void console_put(int fd, const char *p, size_t len) {
    note("print %d%s;", fd, memmem(p, len, "train.py", 8) ? "" : " without a title");
}

int error_file_copy(const char *from, const char *to, int exit_code, struct err *e) {
    note("copy %s %s %d;", from, to, exit_code);
    return copies ? 0 : err_set(e, ERR_SYS, "no room");
}

int preemption_watch_start(struct notice_watch *w, struct loop *loop, const char *path,
                           notice_cb *cb, struct err *e) {
    (void)e;
    noticed = cb;
    note("watch %d %s;", w == &agent.notice_watch && loop == test_loop, path);
    return 0;
}

void preemption_watch_stop(struct notice_watch *w) {
    note("unwatch %d;", w == &agent.notice_watch);
}

const char *preemption_notice_word(enum notice_kind kind) {
#define X(code, word, ends) word,
    static const char *const words[] = {NOTICE_KINDS(X)};
#undef X
    return words[kind];
}

bool preemption_ends_node(enum notice_kind kind) {
#define X(code, word, ends) ends,
    static const bool all[] = {NOTICE_KINDS(X)};
#undef X
    return all[kind];
}

// ---- an agent -----------------------------------------------------------------------------------

static void begin(void) {
    timer_stop(&agent.time_limit);
    timer_stop(&agent.notice_leave);
    timer_stop(&agent.notice_signal);
    events_close(&agent.events);
    clock_ahead_ms += (1000 - clock_ahead_ms % 1000) % 1000; // deadlines are whole seconds
    config = (struct agent_config){
        .name = "n1", .title = "train.py", .coordinator = {.shutdown_timeout_ms = GRACE_MS}};
    agent = (struct agent){.config = &config,
                           .loop = test_loop,
                           .state = NODE_RUNNING,
                           .round = 4,
                           .restarts = 2,
                           .group_world = 2,
                           .begin_ms = clock_mono_ms()};
    agent.link.stage = CHANNEL_READY;
    agent.workers.list = workers;
    agent.workers.count = WORKERS;
    for (int i = 0; i < WORKERS; i++)
        workers[i] = (struct worker){.rank = i, .started_mono_ms = 1};
    if (events_open(&agent.events, NULL, "n1", &fault) < 0)
        bail_out("%s", fault.text);
    idle = copies = true;
    done[0] = '\0';
}

static void open_test(void) {
    test_loop = loop_open(&fault);
    if (!test_loop)
        bail_out("no loop: %s", fault.text);
    clock_stop();
    clock_day_ms = DAY_MS;
}

static int close_test(void) {
    begin();
    events_close(&agent.events);
    loop_close(test_loop);
    return done_testing();
}

#endif
