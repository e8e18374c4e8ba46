// SPDX-License-Identifier: Apache-2.0
// The timers of PyTorch's FileTimerClient: requests, expiry, who is signalled, what is refused.
#include "worker/file_timer.h"

#include "base/clock.h"
#include "sys/file.h"
#include "sys/proc.h"
#include "tests/unit/said.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct arena arena;
static struct err e;
static struct loop *loop;
static struct file_timers timers;
static char dir[] = "/tmp/test_file_timer.XXXXXX";
static char scopes[2048]; // of what has expired, and the signal
static int expired;

static void on_expired(struct file_timers *t, const struct file_timer *x, int signal) {
    (void)t;
    size_t n = strlen(scopes);
    snprintf(scopes + n, sizeof scopes - n, "%s:%d ", x->scope, signal);
    expired++;
}

static void turn(int ms) { // of the loop
    for (int64_t until = clock_mono_ms() + ms; clock_mono_ms() < until;)
        loop_once(loop, (int)(until - clock_mono_ms()));
}

static void send_text(const char *text) {
    auto_close int fd = open(timers.path, O_WRONLY | O_NONBLOCK);
    if (fd < 0 || file_write_all(fd, text, strlen(text), &e) < 0)
        bail_out("cannot write into the FIFO");
    loop_once(loop, 0);
}

static void request(pid_t pid, const char *scope, double in_s, int signal) {
    double at = in_s < 0 ? -1 : (double)clock_wall_ms() / 1e3 + in_s;
    send_text(arena_printf(&arena,
                           "{\"version\": 1, \"pid\": %d, \"scope_id\": \"%s\", "
                           "\"expiration_time\": %.6f, \"signal\": %d}\n",
                           (int)pid, scope, at, signal));
}

static pid_t start_child(void) {
    const char *const argv[] = {"sleep", "100", NULL};
    pid_t pid = proc_start(
        &(struct proc_spec){.argv = argv, .env = environ, .in = -1, .out = -1, .err = -1}, &e);
    if (pid < 0)
        bail_out("%s", e.text);
    return pid;
}

static int end_of(pid_t pid, int options) { // its signal; 0: it runs
    int status = 0;
    return waitpid(pid, &status, options) == pid && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static int parse(const char *text) {
    struct file_timer_request r;
    return file_timer_parse(&arena, text, strlen(text), &r, &e);
}

static void test_parse(void) {
    struct file_timer_request r;
    static const char good[] = "{\"version\": 1, \"pid\": 77, \"scope_id\": \"a#1\", "
                               "\"expiration_time\": 12.5, \"signal\": 9}";
    is_int(file_timer_parse(&arena, good, sizeof good - 1, &r, &e), 0, "a request is parsed");
    ok(r.pid == 77 && r.signal == 9, "a request has process and signal");
    near(r.expires_s, 12.5, 0, "a request has its time");
    is_str(r.scope, "a#1", "a request has its scope");
    is_int(parse("{\"pid\":77,\"scope_id\":\"\",\"expiration_time\":-1,\"signal\":-3}"), 0,
           "a whole number and a negative signal are fine");
    is_int(parse("[]"), -1, "an array is refused");
    is_int(parse("{\"pid\":1,\"scope_id\":\"\",\"expiration_time\":1,\"signal\":9}"), -1,
           "a request for process 1 is refused");
    is_int(parse("{\"pid\":-7,\"scope_id\":\"\",\"expiration_time\":1,\"signal\":9}"), -1,
           "a request for a process group is refused");
    is_int(parse("{\"pid\":77,\"expiration_time\":1,\"signal\":9}"), -1,
           "a request without a scope is refused");
    is_int(parse("{\"pid\":77,\"scope_id\":\"\",\"expiration_time\":\"1\",\"signal\":9}"), -1,
           "a time that is text is refused");
    is_int(parse("{\"pid\":77,\"scope_id\":\"\",\"expiration_time\":1,\"signal\":999}"), -1,
           "an unknown signal is refused");
}

static void test_expiry(void) {
    pid_t a = start_child(), b = start_child();
    scopes[0] = '\0';
    request(a, "late", 100, SIGKILL);
    request(a, "soon", 0.05, SIGTERM);
    request(b, "done", 0.05, SIGKILL);
    request(b, "done", -1, 0);
    request(b, "moved", 0.05, SIGKILL);
    request(b, "moved", 100, SIGKILL);
    is_int(timers.count, 3, "three timers are left");
    turn(150);
    is_str(scopes, "soon:15 ", "one timer expires");
    is_int(end_of(a, 0), SIGTERM, "the timer's process gets the signal");
    is_int(end_of(b, WNOHANG), 0, "the other one lives");
    is_int(timers.count, 1, "all timers of a signalled process are removed");
    scopes[0] = '\0';
    request(b, "first", 20, 0);
    request(b, "second", 40, SIGKILL);
    turn(10);
    request(b, "third", 0, SIGINT);
    turn(100);
    is_str(scopes, "third:2 ", "an overdue timer expires at once");
    is_int(end_of(b, 0), SIGINT, "an overdue timer sends its signal");
    is_int(timers.count, 0, "no timer is left");
    b = start_child();
    scopes[0] = '\0';
    request(b, "silent", 0, 0);
    turn(20);
    is_str(scopes, "silent:0 ", "a timer without a signal is reported");
    is_int(end_of(b, WNOHANG), 0, "a timer without a signal ends no process");
    request(b, "left", 100, SIGKILL);
    file_timers_clear(&timers);
    is_int(timers.count, 0, "all can be forgotten");
    scopes[0] = '\0';
    file_timers_hold(&timers, true);
    request(b, "held", 0, SIGKILL);
    turn(50);
    is_str(scopes, "", "no timer is due while timers are held");
    is_int(end_of(b, WNOHANG), 0, "no process is ended while timers are held");
    file_timers_hold(&timers, false);
    turn(10);
    is_str(scopes, "held:9 ", "afterwards it is");
    is_int(end_of(b, 0), SIGKILL, "the process is ended after the hold");
}

static void test_others(void) {
    scopes[0] = '\0';
    uint64_t before = timers.refused;
    request(getppid(), "parent", 0, SIGKILL);
    request(getpid(), "self", 0, SIGKILL);
    is_int(timers.refused - before, 2, "only descendants are accepted");
    pid_t gone = start_child();
    request(gone, "gone", 0.03, SIGKILL);
    kill(gone, SIGTERM);
    is_int(end_of(gone, 0), SIGTERM, "a process ends by itself");
    turn(80);
    is_str(scopes, "gone:0 ", "a timer of an ended process sends no signal");
}

static void test_hostile(void) {
    char flood[3 * FILE_TIMER_LINE_BYTES_MAX];
    pid_t child = start_child();
    uint64_t before = timers.refused;
    send_text("not json\n\n{}\n");
    is_int(timers.refused - before, 3, "three lines are refused");
    memset(flood, 'x', sizeof flood);
    flood[sizeof flood - 1] = '\0';
    send_text(flood);
    send_text("\n");
    is_int(timers.refused - before, 4, "an endless line is one, too");
    request(child, "after", 100, SIGKILL);
    is_int(timers.count, 1, "the next line is heard");
    const char *half =
        arena_printf(&arena, "{\"version\": 1, \"pid\": %d, \"scope_id\"", (int)child);
    send_text(half);
    send_text(": \"half\", \"expiration_time\": 9e99, \"signal\": 9}\n");
    is_int(timers.count, 2, "a line may arrive in two parts");
    int64_t far = timers.list[1].due_ms - clock_mono_ms();
    ok(far > 0 && far < INT64_C(1) << 40, "a time beyond all bounds is far away");
    for (int i = 0; i < FILE_TIMERS_MAX + 10; i++)
        request(child, arena_printf(&arena, "s%d", i), 100, SIGKILL);
    is_int(timers.count, FILE_TIMERS_MAX, "the table has a limit");
    kill(child, SIGKILL);
    is_int(end_of(child, 0), SIGKILL, "the timer ends the process");
    child = start_child();
    timers.swept_ms -= FILE_TIMER_SWEEP_MS;
    request(child, "next", 100, SIGKILL);
    is_int(timers.count, 1, "an expired timer leaves room for another");
    kill(child, SIGKILL);
    end_of(child, 0);
}

// Warnings become rarer, since a program may write on and on.
static void test_warnings(void) {
    struct screen screen;
    said_open(&screen);
    timers.refused = 0;
    for (int i = 1; i <= 9; i++) {
        bool want = i == 1 || i == 2 || i == 4 || i == 8;
        said_clear();
        send_text("not json\n");
        ok((*said() != '\0') == want, "request %d that is refused is logged %s", i,
           want ? "now" : "with a later one");
        if (want)
            has_str(said(), arena_printf(&arena, " count=%d", i), "warning %d has their number", i);
    }
    said_close(&screen);
}

int main(void) {
    struct stat st;
    struct file_timers other;
    if (!mkdtemp(dir) || !(loop = loop_open(&e)))
        bail_out("cannot start");
    test_parse();
    char *path = file_join(&arena, dir, "fifo"), *file = file_join(&arena, dir, "file");
    mkfifo(path, 0666);
    is_int(file_timers_open(&timers, loop, path, on_expired, &e), 0,
           "a FIFO that was left behind is used again");
    ok(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600,
       "an old FIFO is replaced by one of the user's own");
    file_write_atomic(file, "x", 1, 0600, &e);
    is_int(file_timers_open(&other, loop, file, on_expired, &e), -1, "a file stays what it is");
    has_str(e.text, "no FIFO", "the error says that the file is no FIFO");
    test_expiry();
    test_others();
    test_hostile();
    test_warnings();
    file_timers_close(&timers);
    ok(!file_exists(path), "the FIFO goes at the end");
    file_timers_close(&timers);
    loop_close(loop);
    is_int(file_remove_tree(dir, &e), 0, "cleaned up");
    arena_fini(&arena);
    return done_testing();
}
