// SPDX-License-Identifier: Apache-2.0
// Describes a failed worker: its status, its error file, the last lines of its standard error,
// and whether the disk of its log was full.
// All of this is foreign text and only displayed.
#include "base/clock.h"
#include "sys/file.h"
#include "sys/proc.h"
#include "worker/error_file.h"
#include "worker/workers.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DISK_FULL_BYTES_MAX = 4096 };

const char *workers_tail(struct arena *a, const char *path) {
    if (!path)
        return "";
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (size <= 0)
        return "";
    char buf[WORKERS_TAIL_BYTES_MAX];
    size_t want = size < (off_t)sizeof buf ? (size_t)size : sizeof buf;
    ssize_t n = pread(fd, buf, want, size - (off_t)want);
    if (n <= 0)
        return "";
    const char *end = buf + n, *p = end;
    int lines = 0;
    while (p > buf && lines <= WORKERS_TAIL_LINES_MAX) {
        p--;
        if (*p == '\n' && p != end - 1 && ++lines == WORKERS_TAIL_LINES_MAX) {
            p++;
            break;
        }
    }
    char *copy = arena_strndup(a, p, (size_t)(end - p));
    for (char *c = copy; c < copy + (end - p); c++)
        if (*c == '\0')
            *c = ' ';
    return copy;
}

// With a full disk a worker cannot write its last lines, and the full disk is then the likely
// cause.
static const char *full_disk(struct arena *a, const char *dir) {
    uint64_t left;
    struct err e;
    if (!dir || file_disk_free(dir, &left, &e) < 0 || left >= DISK_FULL_BYTES_MAX)
        return "";
    return arena_printf(a, "No space left on device: the disk of '%s' is full", dir);
}

void workers_failure(struct workers *w, const struct worker *x, struct arena *a,
                     struct worker_failure *out) {
    *out = (struct worker_failure){
        .rank = x->rank,
        .local_rank = x->local_rank,
        .pid = x->pid,
        .status = x->status < 0 ? 127 : proc_status_code(x->status),
        .signal = x->status > 0 && WIFSIGNALED(x->status) ? WTERMSIG(x->status) : 0,
        .age_ms = clock_mono_ms() - x->ended_mono_ms,
        .wall_ms = x->ended_wall_ms,
        .host = w->config->host,
        .error_file = "",
        .message = x->text ? x->text : "",
        .tail = workers_tail(a, x->err_path),
    };
    out->evidence = worker_evidence_about(&w->evidence, a, x->pid, (int)out->signal);
    if (x->error_path && file_exists(x->error_path)) {
        out->error_file = x->error_path;
        if (!x->text)
            out->message = error_file_message(a, x->error_path);
    }
    const char *written =
        w->config->sagemaker && !x->text ? sagemaker_failure(w->config->sagemaker, a) : "";
    if (written[0])
        out->message = written;
    if (!out->message[0] && !out->tail[0])
        out->message = full_disk(a, x->dir);
}
