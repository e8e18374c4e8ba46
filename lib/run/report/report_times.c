// SPDX-License-Identifier: Apache-2.0
// When the parts of a run were, from its events and its record.
#include "base/clock.h"
#include "run/report/html.h"
#include "run/report/report.h"

#include <stdio.h>
#include <string.h>

enum {
    SEGMENTS_MAX = 2 * REPORT_ROUNDS_MAX + 8,
    LINE_WIDTH = 1000,
    FETCH_FOLLOWS_MS =
        5000, // a later fetch, of a run that was left alone, has no place in the line
};

// ---- events -------------------------------------------------------------------------------------

static void note_first(int64_t *at, int64_t time_ms) {
    if (time_ms > 0 && (*at == 0 || time_ms < *at))
        *at = time_ms;
}

static void note_last(int64_t *at, int64_t time_ms) {
    if (time_ms > *at)
        *at = time_ms;
}

static void note_round(struct report_times *t, const struct json *event, const char *kind,
                       int64_t time_ms) {
    int64_t round = json_get_int(event, "round", -1);
    if (round < 0 || round >= REPORT_ROUNDS_MAX)
        return;
    struct report_round *r = &t->rounds[round];
    t->round_count = (size_t)round >= t->round_count ? (size_t)round + 1 : t->round_count;
    if (str_eq(kind, "workers-started"))
        note_last(&r->started_ms, time_ms);
    else if (str_eq(kind, "failure") || str_eq(kind, "stopping"))
        note_first(&r->broke_ms, time_ms);
    else if (str_eq(kind, "worker-exited")) {
        note_first(&r->first_exit_ms, time_ms);
        note_last(&r->exited_ms, time_ms);
    }
}

static const struct {
    const char *kind;
    size_t offset;
} NOTES[] = {
    {"made", offsetof(struct report_times, made_ms)},
    {"pushed", offsetof(struct report_times, pushed_ms)},
    {"prepared", offsetof(struct report_times, prepared_ms)},
    {"fetched", offsetof(struct report_times, fetched_ms)},
};

static void add_member(struct strbuf *out, const struct json *v) {
    strbuf_addf(out, "%s%s=", out->len ? " " : "", v->key);
    switch (v->type) {
    case JSON_STR: strbuf_add(out, v->str, v->len); break;
    case JSON_INT: strbuf_addf(out, "%lld", (long long)v->integer); break;
    case JSON_NUM: strbuf_addf(out, "%g", v->number); break;
    case JSON_BOOL: strbuf_adds(out, v->boolean ? "true" : "false"); break;
    case JSON_NULL: strbuf_adds(out, "-"); break;
    case JSON_ARRAY:
    case JSON_OBJECT: strbuf_addf(out, "(%zu)", v->len); break;
    }
}

static void keep_event(struct report_run *r, const struct json *event, const char *kind,
                       int64_t time_ms) {
    static const char *const hidden[] = {"time_ms", "time", "seq", "node", "kind", "tail", NULL};
    struct strbuf text = {0};
    uint64_t n = r->event_count++;
    struct report_event *at =
        &r->events[n < REPORT_EVENTS_HEAD
                       ? n
                       : REPORT_EVENTS_HEAD + (n - REPORT_EVENTS_HEAD) % REPORT_EVENTS_TAIL];
    strbuf_init(&text, REPORT_EVENT_BYTES_MAX - 1);
    for (const struct json *v = event->child; v && !text.overflow; v = v->next) {
        bool shown = v->key != NULL;
        for (size_t i = 0; shown && hidden[i]; i++)
            shown = strcmp(hidden[i], v->key) != 0;
        if (shown)
            add_member(&text, v);
    }
    *at = (struct report_event){.time_ms = time_ms};
    snprintf(at->node, sizeof at->node, "%s", json_get_str(event, "node", ""));
    snprintf(at->kind, sizeof at->kind, "%s", kind);
    snprintf(at->text, sizeof at->text, "%s", strbuf_cstr(&text));
    strbuf_fini(&text);
}

void report_take_event(void *ctx, const struct json *event) {
    struct report_run *r = ctx;
    struct report_times *t = &r->times;
    const char *kind = json_get_str(event, "kind", "");
    int64_t time_ms = json_get_int(event, "time_ms", 0);
    time_ms = time_ms < 0 || time_ms > CURVE_PLACE_MAX ? 0 : time_ms;
    note_first(&t->first_ms, time_ms);
    note_last(&t->last_ms, time_ms);
    for (size_t i = 0; i < sizeof NOTES / sizeof *NOTES; i++)
        if (strcmp(NOTES[i].kind, kind) == 0)
            note_last((int64_t *)((char *)t + NOTES[i].offset), time_ms);
    note_round(t, event, kind, time_ms);
    keep_event(r, event, kind, time_ms);
}

// ---- sums ---------------------------------------------------------------------------------------

static int64_t began(const struct report_run *r) {
    return r->times.made_ms ? r->times.made_ms : r->run->run.created_ms;
}

// The end of the last node, or now while one may be active. The record can be older than the
// events.
static int64_t ended(const struct report_run *r) {
    int64_t last = 0;
    bool active = r->run->active && r->history.node_count == 0;
    for (size_t i = 0; i < r->history.node_count; i++) {
        const struct history_node *n = &r->history.nodes[i];
        last = n->ended_ms > last ? n->ended_ms : last;
        active |= r->run->active && !n->ended_ms && !n->lost && !n->left;
    }
    return active ? clock_wall_ms() : last ? last : r->times.last_ms;
}

int64_t report_whole_ms(const struct report_run *r) {
    int64_t ms = ended(r) - began(r);
    const struct run *x = &r->run->run;
    if (ms > 0)
        return ms;
    return x->push_ms + x->setup_ms + x->start_ms + x->train_ms + x->fetch_ms;
}

int64_t report_round_end(const struct report_run *r, size_t round) {
    const struct report_round *x = &r->times.rounds[round];
    if (x->broke_ms)
        return x->broke_ms;
    if (r->run->active && round + 1 == r->times.round_count)
        return ended(r);
    return x->exited_ms;
}

// The first failure, stop or exit of a rank.
static int64_t whole_round_end(const struct report_run *r, size_t round) {
    int64_t end = report_round_end(r, round), exit = r->times.rounds[round].first_exit_ms;
    return exit && exit < end ? exit : end;
}

int64_t report_running_ms(const struct report_run *r) {
    int64_t sum = 0;
    for (size_t i = 0; i < r->times.round_count; i++) {
        int64_t from = r->times.rounds[i].started_ms, to = whole_round_end(r, i);
        sum += from && to > from ? to - from : 0;
    }
    return sum;
}

double report_productive(const struct report_run *r, bool *exact) {
    double whole = (double)report_whole_ms(r), part = report_steps_ms(&r->steps, -1);
    *exact = r->steps.count > 0;
    if (!*exact)
        part = (double)report_running_ms(r);
    return whole > 0 && part > 0 ? (part < whole ? part / whole : 1) : -1;
}

// ---- the line -----------------------------------------------------------------------------------

struct segment {
    const char *name, *class;
    int64_t from, to;
};

static void add_segment(struct segment *all, size_t *count, const char *name, const char *class,
                        int64_t from, int64_t to) {
    if (from > 0 && to > from && *count < SEGMENTS_MAX)
        all[(*count)++] = (struct segment){name, class, from, to};
}

static size_t find_segments(const struct report_run *r, struct segment *all) {
    const struct report_times *t = &r->times;
    int64_t at = began(r), to = 0;
    size_t count = 0;
    add_segment(all, &count, "push", "push", at, t->pushed_ms);
    at = t->pushed_ms > at ? t->pushed_ms : at;
    if (r->run->run.setup_ms > 0)
        add_segment(all, &count, "setup", "setup", at, t->prepared_ms);
    at = r->run->run.setup_ms > 0 && t->prepared_ms > at ? t->prepared_ms : at;
    for (size_t i = 0; i < t->round_count; i++) {
        int64_t started = t->rounds[i].started_ms;
        to = report_round_end(r, i);
        if (!started)
            continue;
        add_segment(all, &count, i ? "restart" : "start", i ? "restart" : "start", at, started);
        add_segment(all, &count, "round", i + 1 < t->round_count ? "broken" : "round", started, to);
        at = to > at ? to : at;
    }
    int64_t end = ended(r), fetch = t->fetched_ms - r->run->run.fetch_ms;
    add_segment(all, &count, "end", "end", at, end);
    if (t->fetched_ms && fetch < end + FETCH_FOLLOWS_MS)
        add_segment(all, &count, "fetch", "fetch", fetch > end ? fetch : end, t->fetched_ms);
    return count;
}

static void add_rect(struct strbuf *out, const struct segment *s, int64_t from, int64_t whole) {
    char age[STR_HUMAN_BYTES_MAX];
    double x = (double)(s->from - from) / (double)whole * LINE_WIDTH;
    double width = (double)(s->to - s->from) / (double)whole * LINE_WIDTH;
    x = x < 0 ? 0 : x > LINE_WIDTH ? LINE_WIDTH : x;
    width = width > LINE_WIDTH - x ? LINE_WIDTH - x : width < 1 ? 1 : width;
    strbuf_addf(out, "<rect class=\"%s\" x=\"%.1f\" width=\"%.1f\" height=\"40\"><title>%s, %s",
                s->class, x, width, s->name, str_human_ms(age, s->to - s->from));
    strbuf_adds(out, "</title></rect>\n");
}

// The same words once, with the sum of their times.
static void add_sums(struct strbuf *out, const struct segment *all, size_t count) {
    char age[STR_HUMAN_BYTES_MAX];
    strbuf_adds(out, "<p>");
    for (size_t i = 0; i < count; i++) {
        int64_t sum = 0;
        size_t times = 0;
        bool seen = false;
        for (size_t k = 0; k < count; k++) {
            if (strcmp(all[k].class, all[i].class) != 0)
                continue;
            seen |= k < i;
            sum += all[k].to - all[k].from;
            times++;
        }
        if (seen)
            continue;
        strbuf_addf(out,
                    "<span><svg class=\"key\" viewBox=\"0 0 10 10\"><rect class=\"%s\" "
                    "width=\"10\" height=\"10\"/></svg> %s%s %s",
                    all[i].class, all[i].name,
                    str_eq(all[i].class, "broken") ? " that was followed by another" : "",
                    str_human_ms(age, sum));
        if (times > 1)
            strbuf_addf(out, " (%zu times)", times);
        strbuf_adds(out, "</span> ");
    }
    strbuf_adds(out, "</p>\n");
}

void report_time_line(const struct report_run *r, struct strbuf *out) {
    struct segment all[SEGMENTS_MAX];
    size_t count = find_segments(r, all);
    int64_t whole = count ? all[count - 1].to - began(r) : 0;
    bool exact = false;
    double share = report_productive(r, &exact);
    char age[STR_HUMAN_BYTES_MAX];
    if (count == 0 || whole <= 0)
        return;
    strbuf_addf(out,
                "<h2>Time line, %s</h2>\n<svg class=\"line\" viewBox=\"0 0 %d 40\" "
                "preserveAspectRatio=\"none\" role=\"img\">",
                str_human_ms(age, whole), LINE_WIDTH);
    for (size_t i = 0; i < count; i++)
        add_rect(out, &all[i], began(r), whole);
    strbuf_adds(out, "</svg>\n");
    add_sums(out, all, count);
    if (share >= 0 && exact)
        strbuf_addf(out,
                    "<p><b>Productive share of the time (ETTR): %.1f %%.</b> It is the time of the "
                    "steps that the result is made of, each counted once, divided by the time from "
                    "making the run to its end.</p>\n",
                    share * 100);
    else if (share >= 0)
        strbuf_addf(out,
                    "<p><b>All ranks ran in %.1f %% of the time</b> from making the run to its "
                    "end. The productive share (ETTR) is not known: only the native trainer says "
                    "which work was lost at a restart.</p>\n",
                    share * 100);
}
