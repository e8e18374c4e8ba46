// SPDX-License-Identifier: Apache-2.0
// The agent's watchdogs: workers stuck in the kernel, timers of workers, health checks, and GPUs
// that processes of the last round hold. Processes are stand-ins.
#include "agent/agent_impl.h"

#include "base/clock.h"
#include "sys/proc.h"
#include "tests/unit/agent/done.h"
#include "tests/unit/turned_clock.h"
#include "worker/gpu_holders.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORKERS = 3, STUCK_MS = 500, LOOK_MS = 100, PID = 0x7ffffff0, HELD_MS = 10000 };

static struct err fault;
static struct loop *test_loop;
static struct agent agent;
static struct agent_config config;
static struct worker workers[WORKERS];
static char states[WORKERS]; // of the processes; 0: there is none
static pid_t left;           // a stuck process of the round
static bool idle, held, refuses_timers, refuses_health;
static file_timer_cb *expired;

// ---- stand-ins ----------------------------------------------------------------------------------

int proc_look(pid_t pid, struct proc_facts *out) {
    *out = (struct proc_facts){.state = states[pid - PID]};
    return out->state ? 0 : -1;
}

const char *proc_signal_name(int signal) {
    return signal == SIGKILL ? "SIGKILL" : "SIGHUP";
}

// The kernel function in which a process waits; NULL: it is not known.
static const char *waits_in;

int test_open(const char *path, int flags, ...) __asm__("open");

int test_open(const char *path, int flags, ...) {
    int fd = -1;
    if (!str_starts(path, "/proc/21474836") || !str_ends(path, "/wchan"))
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
    if (waits_in && (fd = memfd_create("wchan", MFD_CLOEXEC)) >= 0 &&
        (write(fd, waits_in, strlen(waits_in)) < 0 || lseek(fd, 0, SEEK_SET) < 0))
        bail_out("no file in memory");
    return fd;
}

pid_t workers_stuck(const struct workers *w) {
    (void)w;
    return left;
}

bool workers_is_idle(const struct workers *w) {
    (void)w;
    return idle;
}

void workers_stop(struct workers *w, int signal, int64_t grace_ms) {
    (void)w;
    note("stop %d %d;", signal, (int)grace_ms);
}

void workers_abandon(struct workers *w) {
    (void)w;
    note("abandon;");
}

void workers_failure(struct workers *w, const struct worker *x, struct arena *a,
                     struct worker_failure *out) {
    (void)w, (void)a;
    *out = (struct worker_failure){.rank = x->rank, .age_ms = 7, .message = x->text};
}

void agent_end(struct agent *a, enum node_state state, const char *reason,
               const struct worker_failure *failures, int64_t count) {
    a->over = true;
    note("end %d %s", state == NODE_FAILED && (failures != NULL) == (count == 1), reason);
    if (failures)
        note(" %d %d %d %d", (int)failures->rank, (int)failures->status, (int)failures->age_ms,
             failures->wall_ms == clock_wall_ms() && strcmp(failures->message, reason) == 0);
    note(";");
}

void agent_round_gone(struct agent *a) {
    (void)a;
    note("gone;");
}

bool worker_devices_held(const char *root, const char *run, struct device_holder *out) {
    if (*root || strcmp(run, "r1") != 0)
        bail_out("another run");
    *out = (struct device_holder){.pid = 5, .name = "python", .device = "/dev/nvidia2"};
    return held;
}

int file_timers_open(struct file_timers *t, struct loop *loop, const char *path,
                     file_timer_cb *on_expired, struct err *e) {
    (void)t, (void)loop;
    note("timers %s;", path);
    expired = on_expired;
    return refuses_timers ? err_set(e, ERR_SYS, "no file") : 0;
}

void file_timers_close(struct file_timers *t) {
    (void)t;
    note("close timers;");
}

int health_open(struct health *h, struct loop *loop, int port, struct err *e) {
    (void)h, (void)loop;
    note("health %d;", port);
    return refuses_health ? err_set(e, ERR_NET, "in use") : 0;
}

void health_close(struct health *h) {
    (void)h;
    note("close health;");
}

// ---- an agent -----------------------------------------------------------------------------------

static void begin(void) {
    agent_stuck_close(&agent);
    agent_devices_close(&agent);
    events_close(&agent.events);
    arena_fini(&agent.workers.arena);
    config = (struct agent_config){.run = "r1", .stuck_ms_max = STUCK_MS, .health_port = -1};
    agent = (struct agent){.config = &config, .loop = test_loop, .round = 4};
    agent.workers.list = workers;
    agent.workers.count = WORKERS;
    for (int i = 0; i < WORKERS; i++) {
        workers[i] =
            (struct worker){.rank = 10 + i, .local_rank = i, .pid = PID + i, .running = true};
        states[i] = 'S';
    }
    if (events_open(&agent.events, NULL, "n1", &fault) < 0)
        bail_out("%s", fault.text);
    left = 0;
    idle = held = refuses_timers = refuses_health = false;
    done[0] = '\0';
}

// ---- stuck workers ------------------------------------------------------------------------------

static void test_stuck(void) {
    begin();
    agent_stuck_watch(&agent);
    clock_turn(test_loop, 1000);
    is_done("", "workers that sleep are not stuck");
    states[1] = states[2] = 'D';
    clock_turn(test_loop, STUCK_MS);
    states[1] = 'R';
    clock_turn(test_loop, LOOK_MS);
    is_done("end 1 rank 12 (pid 2147483634) has been in uninterruptible sleep for 0.5 s, in the "
            "kernel: no other worker can run here before that ends 12 1 0 1;",
            "a worker that is stuck for the limit fails");
    ok(agent.round_failed && !workers[1].stuck_mono_ms, "the round has failed with it");
    clock_turn(test_loop, 2 * STUCK_MS);
    is_done("", "a worker fails once");
    begin();
    agent_stuck_watch(&agent);
    states[0] = 'D';
    clock_turn(test_loop, STUCK_MS);
    states[0] = 'S';
    clock_turn(test_loop, LOOK_MS);
    states[0] = 'D';
    clock_turn(test_loop, STUCK_MS);
    is_done("", "the sleep of a worker must not be interrupted");
    states[0] = 0;
    clock_turn(test_loop, LOOK_MS);
    ok(!workers[0].stuck_mono_ms, "a process that is gone is not stuck");
    states[0] = 'D';
    workers[0].running = false;
    clock_turn(test_loop, 2 * STUCK_MS);
    is_done("", "a worker that has ended is not stuck");
    begin();
    states[0] = states[1] = 'D';
    agent_stuck_watch(&agent);
    clock_turn(test_loop, STUCK_MS + LOOK_MS);
    has_str(done, "end 1 rank 10 ", "the first of all stuck workers is named");
}

static void test_where(void) {
    static const struct {
        const char *kernel, *text;
    } rows[] = {{"nfs_wait.bit_2", "nfs_wait.bit_2"},
                {"a b\n\033[1m", "a?b???1m"},
                {"01", "01"},
                {"x", "x"},
                {"x234567890123456789012345678901234567890123456789012345678901234",
                 "x23456789012345678901234567890123456789012345678901234567890123"},
                {"", "the kernel"},
                {"0", "the kernel"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin();
        waits_in = rows[i].kernel;
        agent_stuck_watch(&agent);
        states[0] = 'D';
        clock_turn(test_loop, STUCK_MS + LOOK_MS);
        char want[160];
        snprintf(want, sizeof want, " s, in %s: no other worker can run here", rows[i].text);
        has_str(done, want, "a process in '%s' is in '%s'", i == 1 ? "a b" : rows[i].kernel,
                rows[i].text);
    }
    waits_in = NULL;
}

static void test_rest(void) {
    begin();
    for (int i = 0; i < WORKERS; i++)
        workers[i].running = false;
    left = PID - 1;
    agent_stuck_watch(&agent);
    clock_turn(test_loop, STUCK_MS);
    is_done("", "a process that workers have left behind has its time");
    clock_turn(test_loop, LOOK_MS);
    is_done("end 1 a process of round 4 (pid 2147483631) has been in uninterruptible sleep for 0.5 "
            "s, in "
            "the kernel: no other worker can run here before that ends;stop 9 0;",
            "the node fails then, and the rest is killed");
    clock_turn(test_loop, 900);
    is_done("", "killed processes have a second to end");
    clock_turn(test_loop, LOOK_MS);
    is_done("abandon;", "a process that cannot be killed is abandoned");
    left = 0;
    clock_turn(test_loop, LOOK_MS);
    ok(!agent.all_stuck_ms && !agent.killed_ms, "no process is left");
    begin();
    left = PID - 1;
    agent_stuck_watch(&agent);
    clock_turn(test_loop, 2 * STUCK_MS);
    is_done("", "other workers of the round run");
    agent.over = true;
    clock_turn(test_loop, STUCK_MS + LOOK_MS);
    is_done("stop 9 0;", "at the end of the run all workers have to end");
}

// The time counts from the moment at which the last worker was stuck.
static void test_since(void) {
    begin();
    agent.over = true;
    agent_stuck_watch(&agent);
    states[0] = 'D';
    clock_turn(test_loop, 200);
    states[1] = 'D';
    clock_turn(test_loop, 200);
    left = PID;
    clock_turn(test_loop, LOOK_MS);
    is_int(clock_mono_ms() - agent.all_stuck_ms, 200, "the last worker was stuck 200 ms before");
    clock_turn(test_loop, 200);
    is_done("", "the last worker has its time");
    clock_turn(test_loop, LOOK_MS);
    is_done("stop 9 0;", "all workers are killed after that");
}

static void test_watched(void) {
    begin();
    config.stuck_ms_max = 0;
    agent_stuck_watch(&agent);
    ok(!agent.stuck.loop, "without a limit there is no watch");
    config.stuck_ms_max = 1;
    agent_stuck_watch(&agent);
    ok(agent.stuck.loop, "the shortest limit is watched");
    idle = true;
    states[0] = 'D';
    clock_turn(test_loop, LOOK_MS);
    ok(!agent.stuck.loop && !workers[0].stuck_mono_ms, "the watch ends with the round");
    agent_stuck_watch(&agent);
    ok(!agent.stuck.loop, "without workers there is no watch");
}

// ---- timers and health checks -------------------------------------------------------------------

static void has_event(const char *want) {
    has_str(strbuf_cstr(&agent.events.line), want, "the event has %s", want);
}

static void test_timers(void) {
    struct file_timer x = {.pid = PID + 1, .scope = "step"};
    begin();
    config.timer_file = "/run/t";
    is_int(agent_watch_open(&agent, &fault), 0, "timers are watched");
    is_done("timers /run/t;", "timers have their file");
    expired(&agent.timers, &x, SIGKILL);
    is_str(workers[1].text, "its timer 'step' expired", "the worker's failure has the reason");
    ok(!workers[0].text && !workers[2].text, "the other workers have no reason");
    has_event("\"kind\":\"timer-expired\",\"round\":4,\"local_rank\":1,\"pid\":2147483633,"
              "\"scope\":\"step\",\"signal\":\"SIGKILL\"");
    x.pid = PID + 2;
    expired(&agent.timers, &x, 0);
    ok(!workers[2].text, "a timer without a signal ends no worker");
    has_event("\"local_rank\":2,\"pid\":2147483634,\"scope\":\"step\",\"signal\":null");
    x.pid = 5;
    expired(&agent.timers, &x, 1);
    has_event("\"local_rank\":null,\"pid\":5,\"scope\":\"step\",\"signal\":\"SIGHUP\"");
    x.pid = PID + 2;
    expired(&agent.timers, &x, SIGHUP);
    is_str(workers[2].text, "its timer 'step' expired", "the first of all signals ends a worker");
    workers[0].running = false;
    x.pid = PID;
    expired(&agent.timers, &x, SIGKILL);
    ok(!workers[0].text, "a worker that has ended is not the process");
    refuses_timers = true;
    is_int(agent_watch_open(&agent, &fault), -1, "timers may be refused");
    done[0] = '\0';
    agent_watch_close(&agent);
    is_done("close timers;close health;", "both watchdogs end");
}

static void test_health(void) {
    begin();
    is_int(agent_watch_open(&agent, &fault), 0, "watchdogs are optional");
    is_done("", "no watchdog is opened");
    config.health_port = 0;
    is_int(agent_watch_open(&agent, &fault), 0, "health checks may have any port");
    is_done("health 0;", "the port is opened");
    config.health_port = 4100;
    refuses_health = true;
    is_int(agent_watch_open(&agent, &fault), 0, "training needs no health checks");
    is_done("health 4100;", "the port was tried");
}

// ---- GPUs ---------------------------------------------------------------------------------------

static void test_devices(void) {
    begin();
    agent_devices_wait(&agent);
    is_done("gone;", "the round begins without held GPUs");
    held = true;
    agent_devices_wait(&agent);
    ok(agent_devices_waits(&agent), "a held GPU is waited for");
    clock_turn(test_loop, HELD_MS - 100);
    is_done("", "the process has its time");
    held = false;
    clock_turn(test_loop, 50);
    is_done("gone;", "the round begins when the GPU is free");
    ok(!agent_devices_waits(&agent), "nothing is waited for any more");
    held = true;
    agent_devices_wait(&agent);
    for (int i = 0; i < HELD_MS / 50 - 1; i++)
        clock_turn(test_loop, 50);
    is_done("", "the process has its time again");
    clock_turn(test_loop, 50);
    is_done(
        "end 1 /dev/nvidia2 is still held by python (pid 5) of this run, 10 s after its workers "
        "ended: end it, or restart the node;",
        "the node fails after that");
    ok(!agent_devices_waits(&agent), "the node waits no more");
    agent_devices_wait(&agent);
    is_done("gone;", "a run that is over waits for nothing");
}

int main(void) {
    test_loop = loop_open(&fault);
    if (!test_loop)
        bail_out("no loop: %s", fault.text);
    clock_stop();
    clock_day_ms = 1000000000;
    test_stuck();
    test_where();
    test_rest();
    test_since();
    test_watched();
    test_timers();
    test_health();
    test_devices();
    begin();
    events_close(&agent.events);
    loop_close(test_loop);
    return done_testing();
}
