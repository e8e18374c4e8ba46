// SPDX-License-Identifier: Apache-2.0
// Formats failure reports in torchrun's layout, for people and scripts that know it.
#include "agent/failure_report.h"

#include "sys/proc.h"

#include <string.h>
#include <time.h>

enum { WIDTH_MAX = 60, SHOWN_MAX = 16 };

int failure_report_exit_code(const struct worker_failure *f) {
    return f->signal > 0 ? -(int)f->signal : (int)f->status;
}

static void add_time(struct strbuf *out, int64_t wall_ms) {
    char text[32];
    time_t t = (time_t)(wall_ms / 1000);
    struct tm tm;
    localtime_r(&t, &tm);
    strftime(text, sizeof text, "%Y-%m-%d_%H:%M:%S", &tm);
    strbuf_adds(out, text);
}

void failure_report_event(struct events *ev, const struct worker_failure *f, int64_t round,
                          bool is_root) {
    struct json_out *j = events_begin(ev, EVENT_FAILURE);
    json_str(j, "peer", f->node);
    json_int(j, "round", round);
    json_int(j, "rank", f->rank);
    json_int(j, "local_rank", f->local_rank);
    json_int(j, "pid", f->pid);
    json_int(j, "status", f->status);
    json_str(j, "signal", f->signal ? proc_signal_name((int)f->signal) : NULL);
    json_int(j, "failed_ms", f->wall_ms);
    json_str(j, "message", f->message);
    json_str(j, "tail", f->tail);
    json_str(j, "evidence", f->evidence);
    json_bool(j, "root", is_root);
    events_end(ev);
}

// Appends foreign text, indented, with control characters made visible.
static void add_block(struct strbuf *out, const char *text) {
    struct arena a = {0};
    while (*text) {
        size_t len = strcspn(text, "\n");
        strbuf_addf(out, "    %s\n", str_printable(&a, text, len));
        text += len + (text[len] == '\n');
    }
    arena_fini(&a);
}

static void add_cause(struct strbuf *out, const struct worker_failure *f) {
    strbuf_adds(out, "  traceback : ");
    if (f->message[0]) {
        strbuf_addc(out, '\n');
        add_block(out, f->message);
    } else if (f->signal > 0) {
        strbuf_addf(out, "Signal %d (%s) received by PID %d\n", (int)f->signal,
                    proc_signal_name((int)f->signal), (int)f->pid);
    } else {
        strbuf_adds(out, "To enable traceback see: "
                         "https://pytorch.org/docs/stable/elastic/errors.html\n");
    }
}

// One finding per line; further ones below the first.
static void add_evidence(struct strbuf *out, const char *text) {
    const char *label = "  evidence  : ";
    struct arena a = {0};
    while (*text) {
        size_t len = strcspn(text, "\n");
        strbuf_addf(out, "%s%s\n", label, str_printable(&a, text, len));
        label = "              ";
        text += len + (text[len] == '\n');
    }
    arena_fini(&a);
}

static void add_failure(struct strbuf *out, int index, const struct worker_failure *f, bool tail) {
    strbuf_addf(out, "[%d]:\n  time      : ", index);
    add_time(out, f->wall_ms);
    strbuf_addf(out, "\n  host      : %s\n", f->host);
    strbuf_addf(out, "  rank      : %d (local_rank: %d)\n", (int)f->rank, (int)f->local_rank);
    strbuf_addf(out, "  exitcode  : %d (pid: %d)\n", failure_report_exit_code(f), (int)f->pid);
    strbuf_addf(out, "  error_file: %s\n", f->error_file[0] ? f->error_file : "<N/A>");
    add_cause(out, f);
    add_evidence(out, f->evidence);
    if (tail && f->tail[0]) {
        strbuf_adds(out, "  last lines of its standard error:\n");
        add_block(out, f->tail);
    }
}

static void add_rule(struct strbuf *out, char c, size_t width) {
    for (size_t i = 0; i < width; i++)
        strbuf_addc(out, c);
    strbuf_addc(out, '\n');
}

static size_t widest(const char *text) {
    size_t width = 0;
    while (*text) {
        size_t len = strcspn(text, "\n");
        if (len > width)
            width = len;
        text += len + (text[len] == '\n');
    }
    return width < WIDTH_MAX ? width : WIDTH_MAX;
}

void failure_report_print(struct strbuf *out, const char *title,
                          const struct worker_failure *failures, int64_t count) {
    struct strbuf others = {0}, root = {0}, name = {0};
    for (int64_t i = 1; i < count && i <= SHOWN_MAX; i++)
        add_failure(&others, (int)i, &failures[i], false);
    if (count > SHOWN_MAX + 1)
        strbuf_addf(&others, "  and %d more\n", (int)count - SHOWN_MAX - 1);
    if (count <= 1)
        strbuf_adds(&others, "  <NO_OTHER_FAILURES>\n");
    add_failure(&root, 0, &failures[0], true);
    strbuf_addf(&name, "%s FAILED\n", title);
    size_t width = widest(strbuf_cstr(&root)), other = widest(strbuf_cstr(&others));
    width = other > width ? other : width;
    other = widest(strbuf_cstr(&name));
    width = other > width ? other : width;
    add_rule(out, '=', width);
    strbuf_adds(out, strbuf_cstr(&name));
    add_rule(out, '-', width);
    strbuf_addf(out, "Failures:\n%s", strbuf_cstr(&others));
    add_rule(out, '-', width);
    strbuf_addf(out, "Root Cause (first observed failure):\n%s", strbuf_cstr(&root));
    add_rule(out, '=', width);
    strbuf_fini(&others);
    strbuf_fini(&root);
    strbuf_fini(&name);
}
