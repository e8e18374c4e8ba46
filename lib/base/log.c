// SPDX-License-Identifier: Apache-2.0
// Writes log lines, and limits how many of one kind are written.
#include "base/log.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    char role[64];
    enum log_level level;
    enum log_style style;
    void (*sink)(const char *line, size_t len);
} state = {"", LOG_INFO, LOG_PLAIN, NULL};

void log_open(const char *role, enum log_level level, enum log_style style) {
    snprintf(state.role, sizeof state.role, "%s", role);
    state.level = level;
    state.style = style;
}

void log_sink(void (*sink)(const char *line, size_t len)) {
    state.sink = sink;
}

enum log_level log_level(void) {
    return state.level;
}

void log_write(enum log_level level, const char *message, const char *fmt, ...) {
    static const char *const names[] = {"error", "warning", "info", "debug"};
    if (level > state.level)
        return;
    int saved = errno;
    struct arena a = {0};
    struct strbuf line = {0};
    va_list ap;
    va_start(ap, fmt);
    const char *pairs = fmt ? arena_vprintf(&a, fmt, ap) : "";
    va_end(ap);
    if (state.style == LOG_STAMPED) {
        char stamp[CLOCK_ISO_BYTES];
        strbuf_addf(&line, "%s %s %s ", clock_iso(stamp, clock_wall_ms()), state.role,
                    names[level]);
    } else {
        if (state.role[0])
            strbuf_addf(&line, "%s: ", state.role);
        if (level != LOG_INFO)
            strbuf_addf(&line, "%s: ", names[level]);
    }
    strbuf_adds(&line, str_printable(&a, message, strlen(message)));
    if (pairs[0])
        strbuf_addf(&line, " %s", str_printable(&a, pairs, strlen(pairs)));
    strbuf_addc(&line, '\n');
    // One write, so that lines of several processes on one file do not mix.
    ssize_t ignored = state.sink ? 0 : write(STDERR_FILENO, line.data, line.len);
    (void)ignored;
    if (state.sink)
        state.sink(line.data, line.len);
    strbuf_fini(&line);
    arena_fini(&a);
    errno = saved;
}

bool log_admits(struct log_limit *l) {
    int64_t now = clock_mono_ms();
    int untold = l->count - LOG_LIMIT_LINES;
    if (l->count == 0 || now - l->since_ms >= LOG_LIMIT_MS) {
        *l = (struct log_limit){.since_ms = now};
        if (untold > 0)
            log_warn("similar lines were not logged", "count=%d", untold);
    }
    return l->count++ < LOG_LIMIT_LINES;
}
