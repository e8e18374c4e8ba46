// SPDX-License-Identifier: Apache-2.0
// Evidence about a worker's end. Workers run in their agent's memory cgroup, so its own path is
// theirs.
#include "worker/worker_postmortem.h"

#include "base/str.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNTER_BYTES_MAX = 4096 };

// ---- the memory cgroup ----

// The number after `name` in a file of "name number" lines; with name "" a file of one number.
static int64_t counter(const char *dir, const char *file, const char *name) {
    char path[EVIDENCE_PATH_BYTES_MAX + 64], text[COUNTER_BYTES_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    size_t len = strlen(name);
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        char *value = line + len + (len > 0), *end;
        if (strncmp(line, name, len) != 0 || (len && line[len] != ' '))
            continue;
        int64_t v = strtoll(value, &end, 10);
        return end > value ? v : -1;
    }
    return -1;
}

static int64_t kills(const char *dir) {
    int64_t v = counter(dir, "memory.events", "oom_kill"); // version 2
    return v >= 0 ? v : counter(dir, "memory.oom_control", "oom_kill");
}

static int64_t limit_bytes(const char *dir) {
    int64_t v = counter(dir, "memory.max", "");
    return v >= 0 ? v : counter(dir, "memory.limit_in_bytes", "");
}

// From /proc/self/cgroup: "4:memory:/path" (version 1) or "0::/path".
static void find_cgroup(struct worker_evidence *ev) {
    struct arena a = {0};
    char *text;
    size_t len;
    struct err e;
    ev->cgroup[0] = '\0';
    if (file_read(&a, "/proc/self/cgroup", 1 << 16, &text, &len, &e) == 0) {
        char **lines;
        size_t count = str_split(&a, text, '\n', &lines);
        for (size_t i = 0; i < count && !ev->cgroup[0]; i++) {
            const char *controller = strchr(lines[i], ':');
            const char *path = controller ? strchr(controller + 1, ':') : NULL;
            bool old = path && strncmp(controller, ":memory:", 8) == 0;
            if (path && (old || path == controller + 1))
                snprintf(ev->cgroup, sizeof ev->cgroup, "/sys/fs/cgroup%s%s", old ? "/memory" : "",
                         path + 1);
            if (kills(ev->cgroup) < 0) // the controller is absent
                ev->cgroup[0] = '\0';
        }
    }
    arena_fini(&a);
}

// ---- the kernel's log ----

static void read_log(struct worker_evidence *ev) {
    char record[KERNEL_LOG_RECORD_BYTES_MAX];
    for (int i = 0; ev->log_fd > 0 && i < EVIDENCE_RECORDS_MAX; i++) {
        ssize_t n = read(ev->log_fd, record, sizeof record);
        if (n < 0 && errno == EPIPE) // overwritten records: continue with the oldest one
            continue;
        if (n <= 0)
            return;
        if (ev->count < EVIDENCE_NOTES_MAX &&
            kernel_log_parse(record, (size_t)n, &ev->notes[ev->count]))
            ev->count++;
    }
}

void worker_evidence_begin(struct worker_evidence *ev) {
    if (ev->log_fd == 0)
        ev->log_fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (ev->log_fd > 0)
        lseek(ev->log_fd, 0, SEEK_END);
    ev->count = 0;
    find_cgroup(ev);
    ev->kills = ev->cgroup[0] ? kills(ev->cgroup) : -1;
}

void worker_evidence_end(struct worker_evidence *ev) {
    if (ev->log_fd > 0)
        close(ev->log_fd);
    ev->log_fd = 0;
}

// ---- the words ----

static void add_process(struct strbuf *out, const struct kernel_note *n, bool own) {
    if (!own && n->pid > 0)
        strbuf_addf(out, " of process %lld", (long long)n->pid);
    if (n->name[0])
        strbuf_addf(out, " (%s)", n->name);
}

static void add_note(struct strbuf *out, const struct kernel_note *n, bool own) {
    char size[STR_HUMAN_BYTES_MAX];
    if (out->len)
        strbuf_addc(out, '\n');
    if (n->kind == KERNEL_XID) {
        strbuf_addf(out, "Xid %d of GPU %s", n->xid, n->device);
        add_process(out, n, own);
        strbuf_addf(out, ": %s", n->text[0] ? n->text : "no words");
        return;
    }
    strbuf_addf(out, "out of memory: %s", own ? "the kernel killed it" : "the end");
    add_process(out, n, own);
    if (n->resident_kb > 0)
        strbuf_addf(out, " at %s", str_human_bytes(size, (uint64_t)n->resident_kb * 1024));
    strbuf_adds(out, n->in_cgroup ? ", at a cgroup's limit" : ", the whole machine was full");
}

static void add_kills(struct strbuf *out, const struct worker_evidence *ev) {
    int64_t now = ev->kills < 0 ? -1 : kills(ev->cgroup), limit;
    char size[STR_HUMAN_BYTES_MAX];
    if (now <= ev->kills)
        return;
    if (out->len)
        strbuf_addc(out, '\n');
    strbuf_addf(out, "out of memory: the kernel killed %lld of this round's processes",
                (long long)(now - ev->kills));
    limit = limit_bytes(ev->cgroup);
    if (limit >= 0 && limit < INT64_MAX / 2) // version 1 has a huge number for no limit
        strbuf_addf(out, "; their limit is %s", str_human_bytes(size, (uint64_t)limit));
}

const char *worker_evidence_about(struct worker_evidence *ev, struct arena *a, pid_t pid,
                                  int signal) {
    struct strbuf out = {0};
    bool found = false;
    read_log(ev);
    for (int own = 1; own >= 0; own--)
        for (int i = 0; i < ev->count; i++) {
            const struct kernel_note *n = &ev->notes[i];
            bool memory = n->kind == KERNEL_OUT_OF_MEMORY;
            if ((n->pid == pid && (!memory || signal == SIGKILL)) != own)
                continue;
            add_note(&out, n, own);
            found |= memory;
        }
    if (!found)
        add_kills(&out, ev);
    const char *text = arena_strdup(a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return text;
}
