// SPDX-License-Identifier: Apache-2.0
// Evidence about a worker's end: the kernel's notes, its own first, the counters of a simulated
// memory cgroup, and the launcher's copy of the error file.
#include "base/str.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "worker/error_file.h"
#include "worker/worker_postmortem.h"

#include <signal.h>
#include <unistd.h>

static struct arena a;
static char dir[] = "/tmp/dtctl-evidence-XXXXXX";
static struct err e;

static const char *put(const char *name, const char *text) {
    const char *path = file_join(&a, dir, name);
    if (file_write_atomic(path, text, strlen(text), 0644, &e) < 0)
        bail_out("%s", e.text);
    return path;
}

static void test_counters(void) {
    struct worker_evidence ev = {.log_fd = -1, .kills = 2};
    snprintf(ev.cgroup, sizeof ev.cgroup, "%s", dir);
    is_str(worker_evidence_about(&ev, &a, 7, SIGKILL), "", "no counters: nothing is known");
    put("memory.events", "low 0\noom 9\noom_kill_disable 8\noom_kill 2\n");
    is_str(worker_evidence_about(&ev, &a, 7, SIGKILL), "",
           "no more kills than before: no evidence");
    put("memory.events", "low 0\noom 9\noom_kill 5\nmax 1\n");
    is_str(worker_evidence_about(&ev, &a, 7, SIGKILL),
           "out of memory: the kernel killed 3 of this round's processes",
           "three more kills are evidence");
    put("memory.max", "max\n");
    ok(!strstr(worker_evidence_about(&ev, &a, 7, SIGKILL), "limit"),
       "without a limit none is named");
    put("memory.max", "1048576\n");
    ok(str_ends(worker_evidence_about(&ev, &a, 7, SIGKILL), "; their limit is 1.0 MB"),
       "the memory limit is named");
    ev.kills = -1;
    is_str(worker_evidence_about(&ev, &a, 7, SIGKILL), "",
           "a kill that was not counted is no evidence");
}

static void test_notes(void) {
    struct worker_evidence ev = {.log_fd = -1, .kills = -1, .count = 3};
    ev.notes[0] = (struct kernel_note){.kind = KERNEL_OUT_OF_MEMORY, .pid = 8, .resident_kb = 2048};
    ev.notes[1] = (struct kernel_note){.kind = KERNEL_XID, .pid = 7, .xid = 79};
    ev.notes[2] = (struct kernel_note){.kind = KERNEL_OUT_OF_MEMORY, .pid = 7, .in_cgroup = true};
    const char *text = worker_evidence_about(&ev, &a, 7, SIGKILL);
    ok(str_starts(text, "Xid 79 of GPU"), "the worker's own GPU errors come first: %s", text);
    const char *own = strstr(text, "the kernel killed it, at a cgroup's limit");
    const char *other = strstr(text, "the end of process 8 at ");
    ok(own && other && own < other, "GPU errors of other workers come second");
    ok(strstr(text, "the whole machine was full"),
       "the evidence names the level that was out of memory");
    text = worker_evidence_about(&ev, &a, 7, SIGSEGV);
    ok(!strstr(text, "the kernel killed it"), "another signal is not attributed to the kernel: %s",
       text);
}

static void test_error_file(void) {
    const char *to = file_join(&a, dir, "copy");
    char *text;
    size_t len;
    const char *from =
        put("from", "{\"message\":{\"errorCode\":1,\"message\":\"x\"},\"other\":[1]}");
    is_int(error_file_copy(from, to, 9, &e), 0, "the error file of a worker is copied");
    must(file_read(&a, to, 1000, &text, &len, &e) == 0);
    is_str(text, "{\"message\":{\"message\":\"x\",\"errorCode\":9},\"other\":[1]}",
           "the copied error file has the exit status");
    is_int(error_file_copy(put("from", "{\"message\":\"x\"}"), to, 9, &e), 0,
           "an error file of plain text is copied");
    must(file_read(&a, to, 1000, &text, &len, &e) == 0);
    is_str(text, "{\"message\":\"x\"}", "the file stays as it is");
    ok(error_file_copy(put("from", "[1]"), to, 9, &e) < 0 && e.code == ERR_FORMAT,
       "an error file that is no object is refused");
    ok(error_file_copy(put("from", "{"), to, 9, &e) < 0, "a truncated error file is refused");
    ok(error_file_copy("/nowhere", to, 9, &e) < 0 && e.code == ERR_NOT_FOUND,
       "an absent error file is not found");
}

int main(void) {
    if (!mkdtemp(dir))
        bail_out("no folder");
    test_counters();
    test_notes();
    test_error_file();
    file_remove_tree(dir, &e);
    arena_fini(&a);
    return done_testing();
}
