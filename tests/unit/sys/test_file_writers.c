// SPDX-License-Identifier: Apache-2.0
// Writers of a file, by every way to open it.
#include "sys/file.h"
#include "sys/file_writers.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/test-writers-XXXXXX", path[64], other[64];

// A process of its own has the file open, or only mapped, until ended().
static pid_t opened(const char *name, int flags, bool mapped) {
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC) < 0)
        bail_out("pipe");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = open(name, flags | O_CLOEXEC);
        if (mapped && mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED)
            close(fd);
        (void)!write(ready[1], "", 1);
        pause();
        _exit(0);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        bail_out("the writer has ended");
    close(ready[0]);
    return pid;
}

static void ended(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void test_one(const char *name, int flags, bool mapped, int want, const char *what) {
    pid_t pid = opened(name, flags, mapped);
    is_int(file_writers(path), want, "%s", what);
    ended(pid);
    is_int(file_writers(path), FILE_WRITERS_NONE, "none later");
}

int main(void) {
    struct err e = {0};
    sigaction(SIGIO, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    if (!mkdtemp(dir))
        bail_out("mkdtemp");
    snprintf(path, sizeof path, "%s/file", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    if (file_append(path, "text", 4, &e) < 0 || link(path, other) < 0)
        bail_out("%s", e.text);
    is_int(file_writers(path), FILE_WRITERS_NONE, "a closed file has no writer");
    is_int(file_writers(dir), FILE_WRITERS_NONE, "a folder has none");
    test_one(path, O_RDONLY, false, FILE_WRITERS_NONE, "who reads does not write");
    test_one(path, O_WRONLY | O_APPEND, false, FILE_WRITERS_APPEND, "O_APPEND");
    test_one(path, O_RDWR | O_APPEND, false, FILE_WRITERS_APPEND, "O_APPEND, and reads");
    test_one(path, O_WRONLY, false, FILE_WRITERS_ANY, "without O_APPEND");
    test_one(path, O_RDWR, false, FILE_WRITERS_ANY, "without O_APPEND, and reads");
    test_one(path, O_RDWR, true, FILE_WRITERS_ANY, "a mapped file without a descriptor");
    test_one(other, O_WRONLY | O_APPEND, false, FILE_WRITERS_ANY, "by another name");

    pid_t append = opened(path, O_WRONLY | O_APPEND, false);
    pid_t more = opened(path, O_WRONLY | O_APPEND, false);
    is_int(file_writers(path), FILE_WRITERS_APPEND, "two that append");
    ended(more);
    pid_t any = opened(path, O_WRONLY, false);
    is_int(file_writers(path), FILE_WRITERS_ANY, "one that appends, and one that does not");
    ended(any);
    is_int(file_writers(path), FILE_WRITERS_APPEND, "one that appends is left");
    ended(append);
    file_remove_tree(dir, &e);
    return done_testing();
}
