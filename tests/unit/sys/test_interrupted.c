// SPDX-License-Identifier: Apache-2.0
// Calls of sys that a signal interrupts continue: a program with timers and children loses nothing.
#include "base/clock.h"
#include "sys/file.h"
#include "sys/net.h"
#include "sys/proc.h"
#include "tests/tap.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PIECES = 12,
    PIECE_BYTES = 5,
    ALL_BYTES = PIECES * PIECE_BYTES,
    PAUSE_MS = 12,
    TICK_MS = 5,
    STARTS_MS = 400
};

static volatile sig_atomic_t signals;

static void on_alarm(int number) {
    (void)number;
    signals++;
}

// Without SA_RESTART, so that every wait sees the signal. A child has no timer. The kernel begins a
// fork anew at each signal, so a tick has to be longer than a fork.
static void interrupt(void) {
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval timer = {{0, TICK_MS * 1000}, {0, TICK_MS * 1000}};
    if (sigaction(SIGALRM, &action, NULL) < 0 || setitimer(ITIMER_REAL, &timer, NULL) < 0)
        bail_out("setitimer");
}

// Forks a child that writes PIECES pieces to the first descriptor with pauses, or reads so slowly.
static pid_t slow_peer(int fd, int other, bool reads) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    close(other);
    char piece[1 << 16] = "abcd\n";
    for (int i = 0; reads || i < PIECES; i++) {
        poll(NULL, 0, PAUSE_MS);
        if ((reads ? read(fd, piece, sizeof piece) : write(fd, piece, PIECE_BYTES)) <= 0)
            break;
    }
    _exit(0);
}

static void end_peer(pid_t pid, int fd) {
    int status = -1;
    close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the peer ends");
}

static bool is_all(const char *p) {
    bool same = true;
    for (int i = 0; i < ALL_BYTES; i++)
        same &= p[i] == "abcd\n"[i % PIECE_BYTES];
    return same;
}

static void test_programs(void) {
    const char *missing[] = {"/nonexistent/program", NULL};
    const char *slow[] = {"/bin/sh", "-c",
                          "sleep 0.05; echo a; sleep 0.05; echo b; exec >&-; "
                          "sleep 0.05; exit 7",
                          NULL};
    struct proc_spec spec = {.argv = missing, .env = environ, .in = -1, .out = -1, .err = 2};
    struct err e;
    int refused = 0, starts = 0, status = -1;
    for (int64_t end_ms = clock_mono_ms() + STARTS_MS; clock_mono_ms() < end_ms; starts++)
        refused += proc_start(&spec, &e) < 0 && e.code == ERR_NOT_FOUND;
    is_int(refused, starts, "a program that cannot be started is an error every time");
    spec.argv = slow;
    for (int timeout_ms = -1; timeout_ms < 60000; timeout_ms += 60000) {
        char *out = NULL;
        is_int(proc_run(&spec, &out, 100, timeout_ms, &status, &e), 0, "a slow program runs");
        is_str(out, "a\nb\n", "all output is collected");
        is_int(proc_status_code(status), 7, "the exit status is returned");
        free(out);
    }
}

static void test_files(void) {
    char got[ALL_BYTES + 1] = "";
    int ends[2];
    struct err e;
    if (pipe(ends) < 0)
        bail_out("pipe");
    pid_t peer = slow_peer(ends[1], ends[0], false);
    close(ends[1]);
    is_int(file_read_all(ends[0], got, ALL_BYTES, &e), 0, "a slow pipe is read whole");
    ok(is_all(got), "bytes of a slow pipe arrive in order");
    end_peer(peer, ends[0]);

    static char large[1 << 19];
    if (pipe(ends) < 0)
        bail_out("pipe");
    peer = slow_peer(ends[0], ends[1], true);
    close(ends[0]);
    is_int(file_write_all(ends[1], large, sizeof large, &e), 0, "a slow pipe takes all");
    end_peer(peer, ends[1]);

    if (pipe(ends) < 0)
        bail_out("pipe");
    peer = slow_peer(ends[1], ends[0], false);
    close(ends[1]);
    struct arena a = {0};
    char *data = NULL;
    size_t len = 0;
    is_int(file_read_piped(&a, arena_printf(&a, "/dev/fd/%d", ends[0]), 1000, &data, &len, &e), 0,
           "a named pipe is read whole");
    ok(len == ALL_BYTES && is_all(data), "a named pipe gives all bytes");
    end_peer(peer, ends[0]);
    arena_fini(&a);
}

static void test_sockets(int timeout_ms) {
    static char large[1 << 20];
    char got[ALL_BYTES + 1] = "";
    int ends[2];
    struct err e;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        bail_out("socketpair");
    pid_t peer = slow_peer(ends[1], ends[0], false);
    close(ends[1]);
    is_int(net_recv_all(ends[0], got, ALL_BYTES, timeout_ms, &e), 0, "a slow socket is read whole");
    ok(is_all(got), "a slow socket's bytes arrive in order");
    end_peer(peer, ends[0]);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        bail_out("socketpair");
    peer = slow_peer(ends[1], ends[0], true);
    close(ends[1]);
    is_int(net_send_all(ends[0], large, sizeof large, timeout_ms, &e), 0,
           "a slow socket takes all");
    end_peer(peer, ends[0]);
}

int main(void) {
    interrupt();
    test_programs();
    test_files();
    test_sockets(-1);
    test_sockets(60000);
    ok(signals > 20, "the timer has interrupted (%d signals)", (int)signals);
    return done_testing();
}
