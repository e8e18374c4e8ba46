// SPDX-License-Identifier: Apache-2.0
// Runs nvidia-smi and keeps the newest figures of each GPU.
#include "agent/gpu_query.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "sys/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void take_line(struct gpu_query *q, int64_t now_ms) {
    struct host_gpu gpu;
    if (q->len > sizeof q->line || !host_counters_gpu(q->line, q->len, &gpu))
        return;
    q->gpus[gpu.index] = gpu;
    q->seen_ms[gpu.index] = now_ms;
    q->count = gpu.index >= q->count ? gpu.index + 1 : q->count;
    q->answered = true;
}

void gpu_query_take(struct gpu_query *q, const char *text, size_t len, int64_t now_ms) {
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n') {
            take_line(q, now_ms);
            q->len = 0;
        } else if (q->len < sizeof q->line) {
            q->line[q->len++] = text[i];
        } else {
            q->len = sizeof q->line + 1;
        }
    }
}

static void drain(struct gpu_query *q, int64_t now_ms) {
    char text[4096];
    ssize_t n;
    for (size_t sum = 0; q->fd >= 0 && sum < GPU_QUERY_READ_BYTES_MAX; sum += (size_t)n) {
        n = read(q->fd, text, sizeof text);
        if (n <= 0)
            break;
        gpu_query_take(q, text, (size_t)n, now_ms);
    }
}

void gpu_query_read(struct gpu_query *q, int64_t now_ms, struct node_sample *out) {
    const int64_t old_ms = 3 * q->every_ms + 2000;
    drain(q, now_ms);
    out->gpu_count = q->count;
    for (int i = 0; i < q->count; i++) {
        const struct host_gpu *g = &q->gpus[i];
        bool known = q->seen_ms[i] > 0 && now_ms - q->seen_ms[i] <= old_ms;
        out->gpus[i] =
            known ? (struct node_sample_gpu){g->percent, g->memory_mib, g->memory_limit_mib}
                  : (struct node_sample_gpu){-1, -1, -1};
    }
}

static void start(struct gpu_query *q);

static void on_again(struct timer *t) {
    start(container_of(t, struct gpu_query, again));
}

// A program that has never printed a figure is not there, or the node has no GPU.
static void on_end(struct child *c, int status) {
    struct gpu_query *q = container_of(c, struct gpu_query, child);
    drain(q, clock_mono_ms());
    close(q->fd);
    q->fd = -1;
    q->len = 0;
    if (!q->answered)
        return;
    log_warn("nvidia-smi has ended; GPUs are not sampled for a while", "status=%d",
             proc_status_code(status));
    timer_start(q->loop, &q->again, GPU_QUERY_AGAIN_MS, on_again);
}

// Variables of the run stay away from the program: no round waits for a process without them.
static void start(struct gpu_query *q) {
    static const char *const kept[] = {"PATH", "LD_LIBRARY_PATH"};
    char loop_ms[40], *env[3] = {NULL}, values[2][4096];
    const char *const argv[] = {"nvidia-smi",
                                "--query-gpu=index,utilization.gpu,memory.used,memory.total",
                                "--format=csv,noheader,nounits", loop_ms, NULL};
    int pipe_fds[2], count = 0;
    struct err e;
    snprintf(loop_ms, sizeof loop_ms, "--loop-ms=%lld", (long long)q->every_ms);
    for (int i = 0; i < 2; i++) {
        const char *value = env_get(q->env, kept[i]);
        int n = value ? snprintf(values[i], sizeof values[i], "%s=%s", kept[i], value) : -1;
        if (n > 0 && (size_t)n < sizeof values[i])
            env[count++] = values[i];
    }
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return;
    fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
    pid_t pid = proc_start(&(struct proc_spec){.argv = argv,
                                               .env = env,
                                               .in = -1,
                                               .out = pipe_fds[1],
                                               .err = -1,
                                               .cwd = "/",
                                               .new_session = true,
                                               .parent_death_signal = SIGKILL,
                                               .unawaited = true},
                           &e);
    close(pipe_fds[1]);
    q->fd = pipe_fds[0];
    if (pid > 0 && child_start(q->loop, &q->child, pid, on_end, &e) == 0)
        return;
    log_warn("GPUs are not sampled", "reason=\"%s\"", e.text);
    proc_kill_group(pid, SIGKILL);
    close(q->fd);
    q->fd = -1;
}

void gpu_query_open(struct gpu_query *q, struct loop *loop, char *const *env, int64_t every_ms) {
    *q = (struct gpu_query){.loop = loop, .env = env, .fd = -1};
    q->every_ms = every_ms > GPU_QUERY_MS_MIN ? every_ms : GPU_QUERY_MS_MIN;
    start(q);
}

void gpu_query_close(struct gpu_query *q) {
    if (!q->loop)
        return;
    timer_stop(&q->again);
    if (q->child.watch.loop) {
        proc_kill_group(q->child.pid, SIGKILL);
        kill(q->child.pid, SIGKILL); // before it has a group of its own
    }
    child_stop(&q->child);
    if (q->fd >= 0)
        close(q->fd);
    q->loop = NULL;
}
