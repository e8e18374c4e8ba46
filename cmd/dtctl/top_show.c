// SPDX-License-Identifier: Apache-2.0
// Shows one look of `dtctl top`.
#include "top_show.h"

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

static void add_figures(struct strbuf *line, const struct node_sample *s, bool gpus) {
    char cpu[CELL_BYTES_MAX], memory[CELL_BYTES_MAX], gpu[CELL_BYTES_MAX], on_gpu[CELL_BYTES_MAX];
    char in[CELL_BYTES_MAX], sent[CELL_BYTES_MAX], read[CELL_BYTES_MAX], written[CELL_BYTES_MAX];
    char room[CELL_BYTES_MAX];
    int64_t used, all;
    double busy = node_sample_gpus(s, &used, &all);
    strbuf_addf(line, " %5s %14s", percent(cpu, s->cpu_percent),
                part(memory, s->memory_bytes, s->memory_limit_bytes));
    if (gpus)
        strbuf_addf(line, " %4d %5s %14s", s->gpu_count, percent(gpu, busy),
                    part(on_gpu, used < 0 ? -1 : used << 20, all < 0 ? -1 : all << 20));
    strbuf_addf(line, " %9s %9s %9s %9s %9s", amount(in, s->received_bytes_s, "/s"),
                amount(sent, s->sent_bytes_s, "/s"), amount(read, s->read_bytes_s, "/s"),
                amount(written, s->written_bytes_s, "/s"), amount(room, s->disk_free_bytes, ""));
}

static void add_metric(void *ctx, const char *name, double value) {
    struct strbuf *line = ctx;
    strbuf_addf(line, "%s%s %.6g", line->len ? "  " : "", name, value);
}

static const char *step_time(char out[CELL_BYTES_MAX], double ms) {
    snprintf(out, CELL_BYTES_MAX, ms < 10 ? "%.2f ms" : ms < 10000 ? "%.0f ms" : "%.3g ms", ms);
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
                l->ranks_running, l->ranks_running == 1 ? "" : "s", l->going, l->fleet->count,
                str_human_ms(took, l->elapsed_ms));
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
    strbuf_addf(&line, "%-*s %-9s %5s %14s", width, "NODE", "STATE", "CPU", "MEMORY");
    if (gpus)
        strbuf_addf(&line, " %4s %5s %14s", "GPUS", "BUSY", "GPU MEMORY");
    strbuf_addf(&line, " %9s %9s %9s %9s %9s", "RECEIVED", "SENT", "READ", "WRITTEN", "DISK FREE");
    add_line(s, &out, &line);
    for (size_t i = 0; i < l->fleet->count; i++) {
        const struct fleet_node *n = &l->fleet->nodes[i];
        const char *why = why_none(n, &l->looks[i]);
        strbuf_addf(&line, "%-*s %-9s", width, n->info->name, state_of(n, &l->looks[i]));
        if (why)
            strbuf_addf(&line, " %s", why);
        else
            add_figures(&line, &l->looks[i].sample, gpus);
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
