// SPDX-License-Identifier: Apache-2.0
// Shows one look of `dtctl top`.
#include "top_show.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

// Why there are no figures of a node; NULL: there are.
static const char *why_none(const struct fleet_node *n, const struct node_look *look) {
    if (n->failed)
        return n->err.text;
    if (!look->run)
        return "the run is not on this node";
    if (look->run->over)
        return "its part of the run is over";
    if (look->silent)
        return "its agent does not answer";
    if (!look->knows_samples)
        return "its agent is of an older dtctl and takes no samples";
    if (look->every_ms == 0)
        return "it is not sampled (monitor.interval is 0)";
    return look->has_sample ? NULL : "there is no sample yet";
}

static const char *state_of(const struct fleet_node *n, const struct node_look *look) {
    return n->failed ? "no answer" : look->run ? look->run->state : "-";
}

// ---- JSON ---------------------------------------------------------------------------------------

static void json_metric(void *ctx, const char *name, double value) {
    json_num(ctx, name, value);
}

static void json_steps(struct json_out *j, const struct newest_steps *s) {
    if (s->records == 0) {
        json_null(j, "steps");
        return;
    }
    json_object(j, "steps");
    json_num(j, "step_ms", s->newest_ms);
    json_num(j, "least_ms", s->least_ms);
    json_num(j, "most_ms", s->most_ms);
    json_num(j, "wait_data_percent", s->data_percent);
    json_num(j, "wait_ranks_percent", s->comm_percent);
    json_end(j);
}

static void show_json(struct context *s, const struct top_look *l) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "top");
    json_str(&j, "run", l->run->id);
    json_str(&j, "name", l->run->name);
    json_str(&j, "state", l->state);
    json_str(&j, "reason", l->reason);
    json_int(&j, "nodes_going", (int64_t)l->going);
    json_int(&j, "ranks_running", l->ranks_running);
    json_int(&j, "round", l->round);
    json_int(&j, "restarts", l->restarts);
    json_int(&j, "elapsed_ms", l->elapsed_ms);
    if (l->cost_mils < 0)
        json_null(&j, "cost_usd");
    else
        json_num(&j, "cost_usd", (double)l->cost_mils / 1000);
    json_object(&j, "metrics");
    newest_metrics_each(l->metrics, json_metric, &j);
    json_end(&j);
    json_steps(&j, &l->metrics->steps);
    json_array(&j, "nodes");
    for (size_t i = 0; i < l->fleet->count; i++) {
        const struct fleet_node *n = &l->fleet->nodes[i];
        const char *why = why_none(n, &l->looks[i]);
        json_object(&j, NULL);
        json_str(&j, "node", n->info->name);
        json_str(&j, "state", n->failed || !l->looks[i].run ? NULL : l->looks[i].run->state);
        json_str(&j, "reason", why);
        if (why) {
            json_null(&j, "sample");
        } else {
            json_object(&j, "sample");
            node_sample_write(&l->looks[i].sample, &j);
            json_end(&j);
        }
        json_end(&j);
    }
    json_end(&j);
    screen_event_end(s->screen, &text, &j);
}

// ---- the table ----------------------------------------------------------------------------------

enum { CELL_BYTES_MAX = 40 };

static const char *percent(char out[CELL_BYTES_MAX], double v) {
    snprintf(out, CELL_BYTES_MAX, v < 0 ? "-" : "%.0f %%", v);
    return out;
}

static const char *amount(char out[CELL_BYTES_MAX], int64_t bytes, const char *unit) {
    char human[STR_HUMAN_BYTES_MAX];
    snprintf(out, CELL_BYTES_MAX, "%s%s", bytes < 0 ? "-" : str_human_bytes(human, (uint64_t)bytes),
             bytes < 0 ? "" : unit);
    return out;
}

// Both in the unit of the second one: "1.1/25.3 GB".
static const char *part(char out[CELL_BYTES_MAX], int64_t used, int64_t all) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    size_t u = 0;
    double unit = 1;
    if (used < 0 || all < 0)
        return "-";
    for (; (double)all / unit >= 999.5 && u + 1 < sizeof units / sizeof *units; u++)
        unit *= 1000;
    snprintf(out, CELL_BYTES_MAX, "%.1f/%.1f %s", (double)used / unit, (double)all / unit,
             units[u]);
    return out;
}

static void add_line(struct context *s, struct strbuf *out, struct strbuf *line) {
    if (s->screen->out_is_terminal)
        screen_fit(line, screen_columns(s->screen));
    strbuf_add(out, line->data, line->len);
    strbuf_addc(out, '\n');
    strbuf_clear(line);
}

// ---- columns ----

static const char *cpu_cell(char *out, const struct node_sample *s) {
    return percent(out, s->cpu_percent);
}

static const char *memory_cell(char *out, const struct node_sample *s) {
    return part(out, s->memory_bytes, s->memory_limit_bytes);
}

static const char *gpus_cell(char *out, const struct node_sample *s) {
    snprintf(out, CELL_BYTES_MAX, "%d", s->gpu_count);
    return out;
}

static const char *busy_cell(char *out, const struct node_sample *s) {
    int64_t used, all;
    return percent(out, node_sample_gpus(s, &used, &all));
}

static const char *gpu_memory_cell(char *out, const struct node_sample *s) {
    int64_t used, all;
    (void)node_sample_gpus(s, &used, &all);
    return part(out, used < 0 ? -1 : used << 20, all < 0 ? -1 : all << 20);
}

static const char *received_cell(char *out, const struct node_sample *s) {
    return amount(out, s->received_bytes_s, "/s");
}

static const char *sent_cell(char *out, const struct node_sample *s) {
    return amount(out, s->sent_bytes_s, "/s");
}

static const char *read_cell(char *out, const struct node_sample *s) {
    return amount(out, s->read_bytes_s, "/s");
}

static const char *written_cell(char *out, const struct node_sample *s) {
    return amount(out, s->written_bytes_s, "/s");
}

static const char *room_cell(char *out, const struct node_sample *s) {
    return amount(out, s->disk_free_bytes, "");
}

// A terminal that is too narrow has no column with the greatest number in `later`, and so on.
static const struct column {
    const char *head;
    int width, later;
    bool of_gpus;
    const char *(*cell)(char out[CELL_BYTES_MAX], const struct node_sample *s);
} COLUMNS[] = {
    {"CPU", 5, 0, false, cpu_cell},
    {"MEMORY", 14, 0, false, memory_cell},
    {"GPUS", 4, 5, true, gpus_cell},
    {"BUSY", 5, 0, true, busy_cell},
    {"GPU MEMORY", 14, 0, true, gpu_memory_cell},
    {"RECEIVED", 9, 2, false, received_cell},
    {"SENT", 9, 2, false, sent_cell},
    {"READ", 9, 4, false, read_cell},
    {"WRITTEN", 9, 3, false, written_cell},
    {"DISK FREE", 9, 1, false, room_cell},
};
enum { COLUMN_COUNT = sizeof COLUMNS / sizeof *COLUMNS, LATER_MAX = 5, STATE_WIDTH = 9 };

// The columns that are shown, by the greatest number in `later`.
static int columns_fit(int room, bool gpus) {
    for (int later = LATER_MAX; later > 0; later--) {
        int width = 0;
        for (size_t i = 0; i < COLUMN_COUNT; i++)
            if (COLUMNS[i].later <= later && (gpus || !COLUMNS[i].of_gpus))
                width += 1 + COLUMNS[i].width;
        if (width <= room)
            return later;
    }
    return 0;
}

// sample NULL: the heads.
static void add_cells(struct strbuf *line, const struct node_sample *sample, int later, bool gpus) {
    char cell[CELL_BYTES_MAX];
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        const struct column *c = &COLUMNS[i];
        if (c->later <= later && (gpus || !c->of_gpus))
            strbuf_addf(line, " %*s", c->width, sample ? c->cell(cell, sample) : c->head);
    }
}

// ---- the head ----

static void add_metric(void *ctx, const char *name, double value) {
    struct strbuf *line = ctx;
    strbuf_addf(line, "%s%s %.6g", line->len ? "  " : "", name, value);
}

static const char *step_time(char out[CELL_BYTES_MAX], double ms) {
    if (ms < 10000)
        snprintf(out, CELL_BYTES_MAX, ms < 10 ? "%.2f ms" : "%.0f ms", ms);
    else
        snprintf(out, CELL_BYTES_MAX, "%.1f s", ms / 1000);
    return out;
}

static void add_steps(struct strbuf *line, const struct newest_steps *s) {
    char newest[CELL_BYTES_MAX], least[CELL_BYTES_MAX], most[CELL_BYTES_MAX];
    if (s->records)
        strbuf_addf(line, "step %s, %s to %s; rank 0 waits %.0f %% for data, %.0f %% for ranks",
                    step_time(newest, s->newest_ms), step_time(least, s->least_ms),
                    step_time(most, s->most_ms), s->data_percent, s->comm_percent);
}

static void add_head(struct context *s, const struct top_look *l, struct strbuf *out,
                     struct strbuf *line) {
    char took[STR_HUMAN_BYTES_MAX], money[STR_MONEY_BYTES_MAX];
    strbuf_addf(line, "run %s  %s, %d rank%s on %zu of %zu nodes, %s", l->run->id, l->state,
                l->ranks_running, str_plural(l->ranks_running), l->going, l->fleet->count,
                str_human_ms(took, l->elapsed_ms));
    if (l->silent)
        strbuf_addf(line, ", %zu without an answer", l->silent);
    if (l->cost_mils >= 0)
        strbuf_addf(line, ", about %s", str_money(money, l->cost_mils));
    if (l->round > 0)
        strbuf_addf(line, ", round %d, %d of %d restarts", l->round, l->restarts,
                    l->run->max_restarts);
    if (l->reason[0])
        strbuf_addf(line, ": %s", l->reason);
    add_line(s, out, line);
    newest_metrics_each(l->metrics, add_metric, line);
    if (line->len)
        add_line(s, out, line);
    add_steps(line, &l->metrics->steps);
    if (line->len)
        add_line(s, out, line);
}

static void show_table(struct context *s, const struct top_look *l) {
    struct strbuf out = {0}, line = {0};
    bool gpus = false;
    int width = (int)strlen("NODE");
    for (size_t i = 0; i < l->fleet->count; i++) {
        int len = (int)strlen(l->fleet->nodes[i].info->name);
        width = len > width ? len : width;
        gpus |= l->looks[i].has_sample && l->looks[i].sample.gpu_count > 0;
    }
    add_head(s, l, &out, &line);
    int room = screen_columns(s->screen) - width - 1 - STATE_WIDTH;
    int later = s->screen->out_is_terminal ? columns_fit(room, gpus) : LATER_MAX;
    strbuf_addf(&line, "%-*s %-*s", width, "NODE", STATE_WIDTH, "STATE");
    add_cells(&line, NULL, later, gpus);
    add_line(s, &out, &line);
    for (size_t i = 0; i < l->fleet->count; i++) {
        const struct fleet_node *n = &l->fleet->nodes[i];
        const char *why = why_none(n, &l->looks[i]);
        strbuf_addf(&line, "%-*s %-*s", width, n->info->name, STATE_WIDTH,
                    state_of(n, &l->looks[i]));
        if (why)
            strbuf_addf(&line, " %s", why);
        else
            add_cells(&line, &l->looks[i].sample, later, gpus);
        add_line(s, &out, &line);
    }
    screen_out(s->screen, "%s", strbuf_cstr(&out));
    strbuf_fini(&out);
    strbuf_fini(&line);
}

void top_show(struct context *s, const struct top_look *l) {
    if (s->screen->style == SCREEN_JSON)
        show_json(s, l);
    else
        show_table(s, l);
}
