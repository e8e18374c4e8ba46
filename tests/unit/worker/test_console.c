// SPDX-License-Identifier: Apache-2.0
// Standard output and standard error that never wait for their readers: order, room, readers that
// are slow or gone, and log lines. Each case is a process whose streams are pipes of the test.
#include "worker/console.h"

#include "base/log.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 20000, PIPE_BYTES = 4096, MIB = 1 << 20 };

static struct err e;
static int ends[3][2]; // pipes, by descriptor
static char text[3 * MIB];

// Runs a case in a process; its exit status is that of the case.
static pid_t start(int (*run)(void)) {
    for (int fd = 1; fd <= 2; fd++)
        if (pipe2(ends[fd], O_CLOEXEC) < 0 || fcntl(ends[fd][1], F_SETPIPE_SZ, PIPE_BYTES) < 0)
            bail_out("no pipes");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(WAIT_MS / 1000);
        for (int fd = 1; fd <= 2; fd++) {
            dup2(ends[fd][1], fd);
            close(ends[fd][0]);
        }
        _exit(run());
    }
    for (int fd = 1; fd <= 2; fd++)
        close(ends[fd][1]);
    return pid;
}

// All that comes until the stream ends.
static size_t read_all(int fd) {
    size_t len = 0;
    for (ssize_t n; (n = read(ends[fd][0], text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)n;
    text[len] = '\0';
    close(ends[fd][0]);
    return len;
}

static int finish(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// ---- cases --------------------------------------------------------------------------------------

static int in_order(void) {
    console_put(1, "before;", 7); // at once
    if (console_open(&e) < 0)
        return 9;
    bool empty = console_room(1) == CONSOLE_KEPT_BYTES_MAX;
    console_put(1, "one;", 4);
    console_put(2, "error;", 6);
    console_put(1, "two;", 4);
    log_warn("a warning", "n=%d", 1);
    console_close();
    console_put(1, "after;", 6);
    return !empty;
}

static void test_order(void) {
    pid_t pid = start(in_order);
    read_all(1);
    is_str(text, "before;one;two;after;", "output keeps its order");
    read_all(2);
    ok(strncmp(text, "error;", 6) == 0 && strstr(text, "a warning n=1"),
       "standard error has its own text and log lines");
    is_int(finish(pid), 0, "an empty queue has all of its room");
}

// The reader waits until the program ends the room.
static int much(void) {
    static char part[MIB / 2];
    memset(part, 'x', sizeof part);
    if (console_open(&e) < 0)
        return 9;
    console_put(1, part, sizeof part);
    size_t half = console_room(1);
    console_put(1, part, sizeof part);
    console_put(1, part, sizeof part);
    size_t none = console_room(1);
    // Bytes that the pipe and the thread have taken are not in the queue.
    bool good = half >= MIB / 2 && half <= MIB / 2 + PIPE_BYTES + (16 << 10) + 1 && none == 0 &&
                console_room(2) == CONSOLE_KEPT_BYTES_MAX;
    console_put(2, "!", 1);
    console_close();
    return !good;
}

static void test_room(void) {
    char byte;
    pid_t pid = start(much);
    ok(read(ends[2][0], &byte, 1) == 1, "a full stream holds up no other one");
    is_int(read_all(1), 3 * MIB / 2, "all output is written");
    ok(text[0] == 'x' && text[3 * MIB / 2 - 1] == 'x', "the output is that of the program");
    read_all(2);
    is_int(finish(pid), 0, "the room is the rest of the limit");
}

static int deaf(void) {
    struct pollfd gone = {.fd = 1};
    poll(&gone, 1, WAIT_MS);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    if (console_open(&e) < 0)
        return 9;
    console_put(1, "x", 1);
    for (int i = 0; i < 1000 && console_room(1) != CONSOLE_KEPT_BYTES_MAX; i++)
        usleep(1000);
    static char part[MIB];
    console_put(1, part, sizeof part);
    bool kept = console_room(1) != CONSOLE_KEPT_BYTES_MAX;
    console_put(2, "end", 3);
    console_close();
    return kept;
}

static void test_deaf(void) {
    pid_t pid = start(deaf);
    close(ends[1][0]);
    read_all(2);
    is_str(text, "end", "the other stream is written");
    is_int(finish(pid), 0, "output without a reader is dropped");
}

// Another process may have made the descriptor non-blocking.
static int unblocked(void) {
    static char part[MIB];
    memset(part, 'y', sizeof part);
    fcntl(1, F_SETFL, fcntl(1, F_GETFL) | O_NONBLOCK);
    console_put(1, part, sizeof part);
    if (console_open(&e) < 0)
        return 9;
    console_put(1, part, sizeof part);
    console_close();
    return 0;
}

static void test_unblocked(void) {
    pid_t pid = start(unblocked);
    is_int(read_all(1), 2 * MIB, "a descriptor that does not block is waited for");
    read_all(2);
    is_int(finish(pid), 0, "the program returns");
}

static int forked(void) {
    int status = 0;
    if (console_open(&e) < 0)
        return 9;
    pid_t pid = fork();
    if (pid == 0) {
        console_leave();
        console_put(1, "child;", 6);
        log_warn("of a child", NULL);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    console_put(1, "parent;", 7);
    console_close();
    return status;
}

static void test_forked(void) {
    pid_t pid = start(forked);
    read_all(1);
    is_str(text, "child;parent;", "a child writes at once");
    read_all(2);
    has_str(text, "of a child", "log lines of a child are written at once");
    is_int(finish(pid), 0, "the child ends");
}

int main(void) {
    test_order();
    test_room();
    test_deaf();
    test_unblocked();
    test_forked();
    return done_testing();
}
