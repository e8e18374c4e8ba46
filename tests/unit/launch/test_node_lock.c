// SPDX-License-Identifier: Apache-2.0
// One task of several on a node holds a name; the others wait for its end. Each is a process.
#include "launch/node_lock.h"

#include "base/clock.h"
#include "tests/tap.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_MS = 60000, OTHER_USER = 65534 };

static char name[64], other_name[64];
static struct err error;

static pid_t begin_child(void) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        bail_out("no process");
    return pid;
}

// A task that waits; it ends with 0 when the wait has ended well.
static pid_t wait_in_child(int come_ms_max) {
    pid_t pid = begin_child();
    if (pid == 0) {
        struct err e;
        _exit(node_lock_wait(name, come_ms_max, &e) == 0 ? 0 : 1);
    }
    return pid;
}

static bool has_ended(pid_t pid) {
    return waitpid(pid, NULL, WNOHANG) != 0;
}

// Until the process ignores SIGTERM.
static bool await_ignored(pid_t pid) {
    char path[64], line[256];
    unsigned long long ignored = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    for (int i = 0; i < 6000 && !(ignored >> (SIGTERM - 1) & 1); i++) {
        FILE *f = fopen(path, "re");
        while (f && fgets(line, sizeof line, f))
            if (sscanf(line, "SigIgn: %llx", &ignored) == 1)
                break;
        if (f)
            fclose(f);
        usleep(10000);
    }
    return ignored >> (SIGTERM - 1) & 1;
}

static void test_hold(void) {
    int fd = node_lock_hold(name, &error);
    ok(fd >= 0, "the first task holds the name: %s", error.text);
    is_int(node_lock_hold(name, &error), -1, "a second one does not");
    is_int(error.code, ERR_BUSY, "the node is busy");
    has_str(error.text, "another agent of this step runs on this node ('",
            "the error has the name");
    int other = node_lock_hold(other_name, &error);
    ok(other >= 0, "another name is free");
    node_lock_release(other, 0, LONG_MS);
    node_lock_release(fd, 0, LONG_MS);
    fd = node_lock_hold(name, &error);
    ok(fd >= 0, "the name is free after its release");
    close(fd);
}

static void test_wait(void) {
    int64_t began = clock_mono_ms();
    is_int(node_lock_wait(name, 100, &error), 0, "no task holds the name");
    ok(clock_mono_ms() - began >= 100, "a holder has its time to come");
    int fd = node_lock_hold(name, &error);
    pid_t pid = wait_in_child(0);
    ok(await_ignored(pid), "a task that has found the holder leaves signals to it");
    kill(pid, SIGTERM);
    usleep(50000);
    ok(!has_ended(pid), "a task waits while the holder lives");
    node_lock_release(fd, 1, LONG_MS);
    int status = -1;
    is_int(waitpid(pid, &status, 0), pid, "the end of the holder ends the waiting");
    is_int(status, 0, "the waiting has ended well");
    pid = wait_in_child(LONG_MS);
    usleep(50000);
    fd = node_lock_hold(name, &error);
    ok(fd >= 0, "the holder comes later");
    node_lock_release(fd, 1, LONG_MS);
    waitpid(pid, &status, 0);
    is_int(status, 0, "a task that was there before waits for it");
}

// A release waits for tasks that start later than the holder has ended.
static void test_late(void) {
    int fd = node_lock_hold(name, &error);
    pid_t pids[2] = {wait_in_child(LONG_MS), wait_in_child(LONG_MS)};
    int64_t began = clock_mono_ms();
    node_lock_release(fd, 2, LONG_MS);
    ok(clock_mono_ms() - began < LONG_MS, "a release ends when all tasks have come");
    for (int i = 0; i < 2; i++)
        waitpid(pids[i], NULL, 0);
    fd = node_lock_hold(name, &error);
    began = clock_mono_ms();
    node_lock_release(fd, 1, 150);
    ok(clock_mono_ms() - began >= 150, "a task that does not come has its time");
}

// The name of another user, whose hash is the same, is another one.
static void test_users(void) {
    if (geteuid() != 0) {
        skip(1, "only root can be another user");
        return;
    }
    int fd = node_lock_hold(name, &error), status = -1;
    pid_t pid = begin_child();
    if (pid == 0) {
        struct err e;
        if (setuid(OTHER_USER) < 0)
            _exit(2);
        int own = node_lock_hold(name, &e);
        _exit(own >= 0 ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    is_int(status, 0, "another user's tasks have a name of their own");
    close(fd);
}

int main(void) {
    snprintf(name, sizeof name, "test/%ld", (long)getpid());
    snprintf(other_name, sizeof other_name, "test/%ld/other", (long)getpid());
    test_hold();
    test_wait();
    test_late();
    test_users();
    return done_testing();
}
