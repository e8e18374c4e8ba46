// SPDX-License-Identifier: Apache-2.0
// Descriptions of failed workers: exit statuses, signals, messages, and the last lines of their
// logs. Findings of the kernel and the disk are stand-ins.
#include "worker/workers.h"

#include "base/clock.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

enum { LINES = WORKERS_TAIL_LINES_MAX, TAIL = WORKERS_TAIL_BYTES_MAX };

static struct arena a;
static struct err e;
static struct workers w;
static struct workers_config config = {.host = "host1"};
static struct sagemaker tree;
static const char *written = "";
static char root[] = "/tmp/test_worker_failure.XXXXXX";

const char *worker_evidence_about(struct worker_evidence *ev, struct arena *arena, pid_t pid,
                                  int signal) {
    (void)ev;
    return arena_printf(arena, "pid %d signal %d", (int)pid, signal);
}

const char *sagemaker_failure(const struct sagemaker *s, struct arena *arena) {
    (void)s, (void)arena;
    return written;
}

static uint64_t disk_bytes = 1 << 30; // free
static bool disk_fails;

int statvfs(const char *restrict file, struct statvfs *restrict buf) {
    (void)file;
    *buf = (struct statvfs){.f_frsize = 1, .f_bavail = disk_bytes};
    return disk_fails ? -1 : 0;
}

static const char *put(const char *name, const char *text, size_t len) {
    const char *path = file_join(&a, root, name);
    if (file_write_atomic(path, text, len, 0600, &e) < 0)
        bail_out("%s", e.text);
    return path;
}

// ---- the last lines -----------------------------------------------------------------------------

static const char *lines(int first, int last, const char *end) {
    struct strbuf text = {0};
    for (int i = first; i <= last; i++)
        strbuf_addf(&text, "%d%s", i, i < last ? "\n" : end);
    const char *all = arena_strdup(&a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return all;
}

static const char *tail(const char *text, size_t len) {
    return workers_tail(&a, put("log", text, len));
}

static void test_tail(void) {
    is_str(workers_tail(&a, NULL), "", "a worker may have no log");
    is_str(workers_tail(&a, "/nowhere/log"), "", "a log may be absent");
    is_str(tail("", 0), "", "a log may be empty");
    is_str(tail("one", 3), "one", "a line may have no end");
    is_str(tail("one\ntwo\n", 8), "one\ntwo\n", "a short log is whole");
    is_str(tail("a\0b", 3), "a b", "zero bytes are spaces");
    for (int i = 0; i < 2; i++) {
        const char *end = i ? "\n" : "";
        const char *all = lines(1, LINES, end), *more = lines(1, LINES + 1, end);
        is_str(tail(all, strlen(all)), all, "all of the most lines are shown, end %d", i);
        is_str(tail(more, strlen(more)), lines(2, LINES + 1, end),
               "a further line leaves the first one out, end %d", i);
    }
    char *large = arena_new(&a, char, TAIL + 1);
    memset(large, 'x', TAIL + 1);
    large[0] = 'y';
    is_int(strlen(tail(large, TAIL)), TAIL, "a long line is shown");
    is_int(tail(large, TAIL)[0], 'y', "the line is whole");
    is_int(strlen(tail(large, TAIL + 1)), TAIL, "a longer line is cut");
    is_int(tail(large, TAIL + 1)[0], 'x', "the end of the line is shown");
}

// ---- failures -----------------------------------------------------------------------------------

static void test_statuses(void) {
    static const struct {
        int status, code, signal;
    } cases[] = {{-1, 127, 0},          {0, 0, 0},     {3 << 8, 3, 0}, {SIGKILL, 137, SIGKILL},
                 {SIGHUP, 129, SIGHUP}, {1 << 8, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct worker_failure f;
        struct worker x = {.rank = 5,
                           .local_rank = 1,
                           .pid = 70,
                           .status = cases[i].status,
                           .ended_mono_ms = clock_mono_ms() - 1000,
                           .ended_wall_ms = 9};
        workers_failure(&w, &x, &a, &f);
        ok(f.status == cases[i].code && f.signal == cases[i].signal, "status %zu is the shell's",
           i);
        ok(f.rank == 5 && f.local_rank == 1 && f.pid == 70 && f.wall_ms == 9 && f.age_ms >= 1000 &&
               f.age_ms < 60000 && strcmp(f.host, "host1") == 0,
           "failure %zu has its worker and its time", i);
        is_str(f.evidence, arena_printf(&a, "pid 70 signal %d", cases[i].signal),
               "failure %zu has its evidence", i);
    }
}

static void test_messages(void) {
    static const char error[] = "{\"message\": {\"message\": \"out of range\"}}";
    const char *error_file = put("error.json", error, strlen(error));
    const char *log = put("stderr.log", "last words\n", 11);
    struct worker x = {.status = 1 << 8, .err_path = log, .error_path = "/nowhere/error.json"};
    struct worker_failure f;
    workers_failure(&w, &x, &a, &f);
    is_str(f.error_file, "", "an error file that is absent is none");
    is_str(f.message, "", "a failure may have no message");
    is_str(f.tail, "last words\n", "a failure has the last lines");
    x.error_path = error_file;
    workers_failure(&w, &x, &a, &f);
    is_str(f.error_file, error_file, "a failure has its error file");
    is_str(f.message, "out of range", "the message is that of the error file");
    x.text = "its timer expired";
    workers_failure(&w, &x, &a, &f);
    is_str(f.message, "its timer expired", "the agent's reason counts before the error file");
    config.sagemaker = &tree;
    written = "by SageMaker's file";
    workers_failure(&w, &x, &a, &f);
    is_str(f.message, "its timer expired", "the agent's reason counts before SageMaker's");
    x.text = NULL;
    workers_failure(&w, &x, &a, &f);
    is_str(f.message, "by SageMaker's file", "SageMaker's file counts before the error file");
    written = "";
    workers_failure(&w, &x, &a, &f);
    is_str(f.message, "out of range", "an empty file of SageMaker does not count");
    config.sagemaker = NULL;
    written = "by SageMaker's file";
    workers_failure(&w, &x, &a, &f);
    is_str(f.message, "out of range", "without SageMaker's tree there is no file");
}

// Without any words of a worker, a full disk is the likely cause.
static void test_disk(void) {
    struct worker x = {.status = 1 << 8, .dir = "/logs"};
    struct worker_failure f;
    disk_bytes = 4095;
    workers_failure(&w, &x, &a, &f);
    is_str(f.message, "No space left on device: the disk of '/logs' is full",
           "a disk with less than a block is full");
    disk_bytes = 4096;
    workers_failure(&w, &x, &a, &f);
    is_str(f.message, "", "a disk with a block is not full");
    disk_bytes = 0;
    disk_fails = true;
    workers_failure(&w, &x, &a, &f);
    is_str(f.message, "", "a disk that is not known is not full");
    disk_fails = false;
    x.dir = NULL;
    workers_failure(&w, &x, &a, &f);
    is_str(f.message, "", "a worker may have no folder");
    x.dir = "/logs";
    x.err_path = put("some.log", "words\n", 6);
    workers_failure(&w, &x, &a, &f);
    is_str(f.message, "", "the words of a worker count before the disk");
    disk_bytes = 1 << 30;
}

int main(void) {
    if (!mkdtemp(root))
        bail_out("no folder");
    w.config = &config;
    test_tail();
    test_statuses();
    test_messages();
    test_disk();
    file_remove_tree(root, &e);
    arena_fini(&a);
    return done_testing();
}
