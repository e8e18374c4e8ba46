// SPDX-License-Identifier: Apache-2.0
// Samples the agent's host at intervals. A line of the file covers all the time since the line
// before it.
#include "agent/host_sampler.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"

#include <stdio.h>
#include <string.h>

// A counter that has become less was begun anew.
static int64_t rate(uint64_t before, uint64_t now, int64_t us) {
    double v = now >= before && us > 0 ? (double)(now - before) * 1e6 / (double)us : -1;
    return v >= 0 && v <= (double)NODE_SAMPLE_BYTES_MAX ? (int64_t)v : -1;
}

void host_sampler_figures(const struct host_reading *before, const struct host_reading *now,
                          int64_t us, struct node_sample *out) {
    node_sample_init(out);
    out->cpus = now->cpus;
    out->memory_bytes = now->memory_bytes;
    out->memory_limit_bytes = now->memory_limit_bytes;
    out->disk_free_bytes = now->disk_free_bytes;
    if (before->knows_cpu && now->knows_cpu && now->cpu.second > before->cpu.second &&
        now->cpu.first >= before->cpu.first) {
        double busy = 100 * (double)(now->cpu.first - before->cpu.first) /
                      (double)(now->cpu.second - before->cpu.second);
        out->cpu_percent = busy < 100 ? busy : 100;
    }
    if (before->knows_network && now->knows_network) {
        out->received_bytes_s = rate(before->network.first, now->network.first, us);
        out->sent_bytes_s = rate(before->network.second, now->network.second, us);
    }
    if (before->knows_disks && now->knows_disks) {
        out->read_bytes_s = rate(before->disks.first, now->disks.first, us);
        out->written_bytes_s = rate(before->disks.second, now->disks.second, us);
    }
}

static void add_gpus(struct host_sampler *s) {
    for (int i = 0; i < s->newest.gpu_count; i++) {
        if (s->newest.gpus[i].percent < 0)
            continue;
        s->gpu_sum[i] += s->newest.gpus[i].percent;
        s->gpu_times[i]++;
    }
}

static void write_line(struct host_sampler *s, const struct host_reading *now, int64_t us) {
    struct node_sample line;
    host_sampler_figures(&s->logged, now, us - s->logged_us, &line);
    line.time_ms = s->newest.time_ms;
    line.gpu_count = s->newest.gpu_count;
    for (int i = 0; i < line.gpu_count; i++) {
        line.gpus[i] = s->newest.gpus[i];
        if (s->gpu_times[i])
            line.gpus[i].percent = (int)(s->gpu_sum[i] / s->gpu_times[i]);
        s->gpu_sum[i] = s->gpu_times[i] = 0;
    }
    sample_log_add(&s->log, &line);
    s->logged = *now;
    s->logged_us = us;
}

static void on_timer(struct timer *t) {
    struct host_sampler *s = container_of(t, struct host_sampler, timer);
    struct host_reading now;
    timer_start(s->loop, t, s->every_ms, on_timer);
    int64_t us = clock_mono_ns() / 1000;
    host_reader_read(&s->reader, us, &now);
    host_sampler_figures(&s->last, &now, us - s->last_us, &s->newest);
    s->newest.time_ms = clock_wall_ms();
    gpu_query_read(&s->gpus, us / 1000, &s->newest);
    s->has_newest = true;
    s->last = now;
    s->last_us = us;
    add_gpus(s);
    // Half an interval early is in time: timers are never exact.
    int64_t due_ms = sample_log_every_ms(s->log.lines, s->every_ms) - s->every_ms / 2;
    if (s->log.lines == 0 || us - s->logged_us >= due_ms * 1000)
        write_line(s, &now, us);
}

void host_sampler_open(struct host_sampler *s, struct loop *loop, const char *run_dir,
                       char *const *env, int64_t every_ms) {
    char path[FILE_PATH_BYTES_MAX];
    struct err e;
    *s = (struct host_sampler){.every_ms = every_ms};
    if (every_ms <= 0 || !run_dir)
        return;
    s->loop = loop;
    snprintf(path, sizeof path, "%s/" NODE_SAMPLE_FILE, run_dir);
    if (sample_log_open(&s->log, path, &e) < 0)
        log_warn("samples of the node are not kept", "reason=\"%s\"", e.text);
    gpu_query_open(&s->gpus, loop, env, every_ms);
    host_reader_open(&s->reader, "/proc", "/sys/fs/cgroup", run_dir);
    s->last_us = s->logged_us = clock_mono_ns() / 1000;
    host_reader_read(&s->reader, s->last_us, &s->last);
    s->logged = s->last;
    timer_start(loop, &s->timer,
                every_ms < HOST_SAMPLER_FIRST_MS ? every_ms : HOST_SAMPLER_FIRST_MS, on_timer);
}

void host_sampler_close(struct host_sampler *s) {
    if (!s->loop)
        return;
    timer_stop(&s->timer);
    gpu_query_close(&s->gpus);
    host_reader_close(&s->reader);
    sample_log_close(&s->log);
    s->loop = NULL;
}

void host_sampler_answer(const struct host_sampler *s, struct json_out *j) {
    json_int(j, "every_ms", s->every_ms);
    if (!s->has_newest) {
        json_null(j, "sample");
        return;
    }
    json_object(j, "sample");
    node_sample_write(&s->newest, j);
    json_end(j);
}
