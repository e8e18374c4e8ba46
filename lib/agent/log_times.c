// SPDX-License-Identifier: Apache-2.0
// Records the sizes of workers' logs over time.
#include "agent/log_times.h"

#include "base/clock.h"
#include "sys/file.h"

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

static struct stat look(const char *path) {
    struct stat st = {0};
    if (!path || stat(path, &st) < 0)
        st = (struct stat){0};
    return st;
}

static void write_line(const struct worker *x, const struct stat *out, const struct stat *err) {
    char path[FILE_PATH_BYTES_MAX], text[96];
    struct err ignored = {0}; // without it every line counts as new
    if ((size_t)snprintf(path, sizeof path, "%s/log-times", x->dir) >= sizeof path)
        return;
    int n = snprintf(text, sizeof text, "%lld %lld %lld\n", (long long)clock_wall_ms(),
                     (long long)out->st_size, (long long)err->st_size);
    file_append(path, text, (size_t)n, &ignored);
}

void log_times_note(const struct worker *x) {
    if (!x->dir)
        return;
    struct stat out = look(x->out_path), err = look(x->err_path);
    if (out.st_size > 0 || err.st_size > 0)
        write_line(x, &out, &err);
}

static int64_t pause_ms(const struct log_times *t) {
    return (int64_t)LOG_TIMES_MS << (t->ticks / LOG_TIMES_TICKS);
}

static void on_tick(struct timer *timer) {
    struct log_times *t = container_of(timer, struct log_times, tick);
    int64_t before_ms = clock_wall_ms() - 2 * pause_ms(t);
    for (int i = 0; i < t->workers->count; i++) {
        const struct worker *x = &t->workers->list[i];
        if (!x->dir || x->ended)
            continue;
        struct stat out = look(x->out_path), err = look(x->err_path);
        // One line more than needed after each growth; a file system may round its times.
        if ((int64_t)out.st_mtime * 1000 + 1000 >= before_ms ||
            (int64_t)err.st_mtime * 1000 + 1000 >= before_ms)
            write_line(x, &out, &err);
    }
    t->ticks++;
    timer_start(t->loop, &t->tick, pause_ms(t), on_tick);
}

void log_times_begin(struct log_times *t, struct loop *loop, const struct workers *w) {
    log_times_end(t);
    *t = (struct log_times){.loop = loop, .workers = w};
    timer_start(loop, &t->tick, LOG_TIMES_MS, on_tick);
}

void log_times_end(struct log_times *t) {
    timer_stop(&t->tick);
}
