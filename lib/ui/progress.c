// SPDX-License-Identifier: Apache-2.0
// Progress rows.
#include "ui/progress.h"

#include <stdlib.h>
#include <string.h>

enum { BAR_CELLS = 20, NAME_CELLS_MAX = 24 };

void progress_init(struct progress *p, struct arena *a, struct screen *s, const char *operation,
                   const char *const *names, size_t count, int64_t now_ms) {
    *p = (struct progress){.arena = a, .screen = s, .operation = operation, .count = count};
    p->rows = arena_new(a, struct progress_row, count ? count : 1);
    p->started_ms = now_ms;
    p->drawn_ms = now_ms - PROGRESS_DRAW_MS;
    for (size_t i = 0; i < count; i++) {
        p->rows[i].name = names[i];
        p->rows[i].state = "";
        p->rows[i].reported_ms = now_ms;
    }
}

void progress_set(struct progress *p, size_t row, uint64_t done, uint64_t total) {
    struct progress_row *r = &p->rows[row];
    r->done = done;
    r->total = total;
    r->state = "";
}

void progress_state(struct progress *p, size_t row, const char *state) {
    if (strcmp(p->rows[row].state, state) != 0)
        p->rows[row].state = arena_strdup(p->arena, state);
}

void progress_end(struct progress *p, size_t row, bool ok, const char *state) {
    struct progress_row *r = &p->rows[row];
    if (r->ended)
        return;
    progress_state(p, row, state);
    r->ended = true;
    r->failed = !ok;
}

static void sample(struct progress_row *r, int64_t now_ms) {
    size_t n = r->sample_count;
    size_t last = (n - 1) % PROGRESS_RATE_SAMPLES;
    if (n > 0 && now_ms - r->sample[last].at_ms < PROGRESS_RATE_SAMPLE_MS)
        return;
    r->sample[n % PROGRESS_RATE_SAMPLES].at_ms = now_ms;
    r->sample[n % PROGRESS_RATE_SAMPLES].done = r->done;
    r->sample_count++;
}

double progress_rate(const struct progress_row *r) {
    if (r->sample_count < 2)
        return 0;
    size_t last = (r->sample_count - 1) % PROGRESS_RATE_SAMPLES;
    size_t first =
        r->sample_count <= PROGRESS_RATE_SAMPLES ? 0 : r->sample_count % PROGRESS_RATE_SAMPLES;
    int64_t ms = r->sample[last].at_ms - r->sample[first].at_ms;
    uint64_t from = r->sample[first].done, to = r->sample[last].done;
    return ms > 0 && to > from ? (double)(to - from) * 1000.0 / (double)ms : 0;
}

void progress_format(const struct progress *p, const struct progress_row *r, int columns,
                     struct strbuf *out) {
    struct strbuf line = {0};
    size_t width = 0;
    for (size_t i = 0; i < p->count; i++) {
        size_t len = strlen(p->rows[i].name);
        width = len > width ? len : width;
    }
    width = width > NAME_CELLS_MAX ? NAME_CELLS_MAX : width;
    strbuf_addf(&line, "%s  %-*s  ", p->operation, (int)width, r->name);
    if (r->state[0]) {
        strbuf_addf(&line, "%s%s", r->failed ? "failed: " : "", r->state);
    } else {
        char done[STR_HUMAN_BYTES_MAX], total[STR_HUMAN_BYTES_MAX], rate[STR_HUMAN_BYTES_MAX];
        char left[STR_HUMAN_BYTES_MAX];
        if (r->total) {
            uint64_t shown = r->done < r->total ? r->done : r->total;
            int cells = (int)((double)shown / (double)r->total * BAR_CELLS);
            strbuf_addf(&line, "[%.*s%.*s] ", cells, "####################", BAR_CELLS - cells,
                        "                    ");
        }
        strbuf_addf(&line, "%9s", str_human_bytes(done, r->done));
        if (r->total)
            strbuf_addf(&line, " of %s", str_human_bytes(total, r->total));
        double speed = progress_rate(r);
        if (speed >= 1)
            strbuf_addf(&line, "  %s/s", str_human_bytes(rate, (uint64_t)speed));
        if (speed >= 1 && r->total > r->done)
            strbuf_addf(&line, "  %s left",
                        str_human_ms(left, (int64_t)((double)(r->total - r->done) / speed * 1000)));
    }
    // Cut the row, since a wrapped row would break the drawing; bytes are at least as many as
    // cells.
    size_t fit = columns > 1 ? (size_t)columns - 1 : line.len;
    strbuf_add(out, strbuf_cstr(&line), line.len < fit ? line.len : fit);
    strbuf_fini(&line);
}

static void report_json(struct progress *p, const struct progress_row *r) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "progress");
    json_str(&j, "operation", p->operation);
    json_str(&j, "node", r->name);
    json_int(&j, "bytes", (int64_t)r->done);
    json_int(&j, "bytes_total", (int64_t)r->total);
    json_num(&j, "bytes_per_second", progress_rate(r));
    json_str(&j, "state", r->ended ? (r->failed ? "failed" : "done") : "running");
    if (r->state[0])
        json_str(&j, "text", r->state);
    screen_event_end(p->screen, &text, &j);
}

static bool moved_nothing(const struct progress_row *r) {
    return r->ended && !r->failed && r->total == 0;
}

static void report(struct progress *p, struct progress_row *r, int64_t now_ms) {
    r->reported_ms = now_ms;
    r->reported = r->ended;
    // A short operation without data prints no line.
    if (moved_nothing(r) && now_ms - p->started_ms < PROGRESS_PLAIN_MS)
        return;
    if (p->screen->style == SCREEN_JSON) {
        report_json(p, r);
        return;
    }
    struct strbuf line = {0};
    progress_format(p, r, 0, &line);
    screen_note(p->screen, "%s", strbuf_cstr(&line));
    strbuf_fini(&line);
}

// Draws as many rows as the terminal has room for, active ones first.
static void draw(struct progress *p) {
    struct strbuf block = {0};
    int columns = screen_columns(p->screen);
    size_t room = (size_t)screen_rows(p->screen) / 2, shown = 0, ended = 0;
    uint64_t done = 0, total = 0;
    room = room < 1 ? 1 : room;
    bool all = p->count <= room;
    for (size_t i = 0; i < p->count; i++) {
        struct progress_row *r = &p->rows[i];
        ended += r->ended;
        done += r->done;
        total += r->total;
        if ((!all && r->ended && !r->failed) || shown >= room)
            continue;
        progress_format(p, r, columns, &block);
        strbuf_addc(&block, '\n');
        shown++;
    }
    if (!all) {
        char a[STR_HUMAN_BYTES_MAX], b[STR_HUMAN_BYTES_MAX];
        strbuf_addf(&block, "%s: %zu of %zu nodes done, %s of %s\n", p->operation, ended, p->count,
                    str_human_bytes(a, done), str_human_bytes(b, total));
    }
    screen_live(p->screen, strbuf_cstr(&block));
    strbuf_fini(&block);
}

void progress_show(struct progress *p, int64_t now_ms) {
    for (size_t i = 0; i < p->count; i++)
        if (!p->rows[i].ended)
            sample(&p->rows[i], now_ms);
    if (p->screen->style == SCREEN_TERMINAL && !p->screen->quiet) {
        if (now_ms - p->drawn_ms < PROGRESS_DRAW_MS)
            return;
        p->drawn_ms = now_ms;
        draw(p);
        return;
    }
    for (size_t i = 0; i < p->count; i++) {
        struct progress_row *r = &p->rows[i];
        if ((r->ended && !r->reported) ||
            (!r->ended && now_ms - r->reported_ms >= PROGRESS_PLAIN_MS))
            report(p, r, now_ms);
    }
}

void progress_fini(struct progress *p, int64_t now_ms) {
    p->drawn_ms = now_ms - PROGRESS_DRAW_MS;
    progress_show(p, now_ms);
    bool worth = false;
    for (size_t i = 0; i < p->count; i++)
        worth |= !moved_nothing(&p->rows[i]);
    if (worth)
        screen_keep(p->screen);
    else
        screen_erase(p->screen);
}
