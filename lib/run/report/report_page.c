// SPDX-License-Identifier: Apache-2.0
// The page of a report. Each part has a share of the bytes of the page, and the plots have the
// rest.
#include "base/clock.h"
#include "run/report/html.h"
#include "run/report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    FACTS_BYTES_MAX = 20000,
    FAILURE_BYTES_MAX = 4000, // of a text, before it is escaped
    NODES_BYTES_MAX = 60000,
    INPUTS_BYTES_MAX = 60000,
    SETTINGS_BYTES_MAX = 100000,
    EVENTS_BYTES_MAX = 120000,
    SIDE_BYTES_MAX = 200000, // of each table of several runs
    RUNS_BYTES_MAX = 60000,
    COMMAND_BYTES_MAX = 4000,
    LISTED_MAX = 8, // ranks of a node with a status
};

static const char HEAD[] = REPORT_BEGIN
    "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
    "<meta name=\"referrer\" content=\"no-referrer\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n";

static const char STYLE[] =
    "<style>\n"
    "body{font:14px/1.45 system-ui,sans-serif;max-width:1100px;margin:1.5em auto;padding:0 1em;"
    "color:#1b1f24;background:#fff}\n"
    "h1{font-size:1.4em;overflow-wrap:anywhere}h2{font-size:1.15em;margin:1.6em 0 .5em}"
    "h3{font-size:1em;margin:0;overflow-wrap:anywhere}small{font-weight:normal;color:#667}\n"
    "table{border-collapse:collapse;font-size:13px}th,td{text-align:left;vertical-align:top;"
    "padding:.2em .8em .2em 0;border-bottom:1px solid #dde;overflow-wrap:anywhere;"
    "white-space:pre-wrap}th{white-space:nowrap}\n"
    ".wide{overflow-x:auto}pre{background:#f4f5f7;padding:.6em;overflow-x:auto;white-space:pre-"
    "wrap;"
    "overflow-wrap:anywhere}\n"
    ".verdict{font-size:1.1em;font-weight:600}.good{color:#1a7f37}.bad{color:#b3261e}.note,"
    "figcaption{color:#667;font-size:12px}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(480px,1fr));gap:1em}"
    "figure{margin:0}figure>svg{width:100%}polyline{fill:none;stroke-width:1.3;"
    "vector-effect:non-scaling-stroke;stroke-linecap:round;stroke-linejoin:round}\n"
    ".grid{stroke:#dde;stroke-width:8;fill:none}text{font-size:105px;fill:#556}"
    ".key{width:.7em;height:.7em}p span,figcaption span{margin-right:1em;white-space:nowrap}\n"
    ".line{width:100%;height:40px;background:#eee}.push{fill:#7fb2e5}.setup{fill:#b59fe0}"
    ".start{fill:#f0c75e}.restart{fill:#e08a4f}.round{fill:#4caf70}.broken{fill:#a9d3b5}"
    ".end{fill:#c9ccd1}.fetch{fill:#8aa0b8}\n"
    "</style>\n";

static void add_title(struct strbuf *out, const char *title) {
    strbuf_adds(out, HEAD);
    strbuf_adds(out, "<title>");
    html_cut(out, title, 200);
    strbuf_adds(out, "</title>\n");
    strbuf_adds(out, STYLE);
    strbuf_adds(out, "</head><body>\n<h1>");
    html_cut(out, title, 200);
    strbuf_adds(out, "</h1>\n");
}

// ---- verdict ------------------------------------------------------------------------------------

static void add_text_of(struct strbuf *out, const char *text) {
    size_t len = text ? strlen(text) : 0;
    if (len == 0)
        return;
    const char *from = len > FAILURE_BYTES_MAX ? text + len - FAILURE_BYTES_MAX : text;
    strbuf_addf(out, "<pre>%s", from > text ? "…" : "");
    html_text(out, from, strlen(from));
    strbuf_adds(out, "</pre>\n");
}

static void add_failure(struct strbuf *out, const struct report_run *r) {
    const struct history_failure *f = run_history_root(&r->history);
    if (!f) {
        for (size_t i = 0; i < r->history.node_count; i++)
            if (r->history.nodes[i].why) {
                strbuf_adds(out, "<p>");
                html_cut(out, r->history.nodes[i].why, FAILURE_BYTES_MAX);
                strbuf_adds(out, "</p>\n");
                return;
            }
        return;
    }
    strbuf_adds(out, "<p>");
    html_textf(out, "Rank %d on node '%s' failed first: ", f->rank, f->node);
    if (f->signal)
        html_textf(out, "ended by %s.", f->signal);
    else
        strbuf_addf(out, "exit status %d.", f->status);
    strbuf_adds(out, "</p>\n");
    add_text_of(out, f->evidence);
    add_text_of(out, f->message && f->message[0] ? f->message : f->tail);
}

static void add_verdict(struct strbuf *out, const struct report_run *r) {
    const struct compare_run *c = r->run;
    bool good = str_eq(c->run.state, "finished");
    strbuf_addf(out, "<p class=\"verdict %s\">", good ? "good" : c->active ? "" : "bad");
    html_text(out, c->run.state, strlen(c->run.state));
    if (c->active)
        strbuf_adds(out, ", not over, as far as this computer knows");
    else
        strbuf_addf(out, ", exit status %d", c->run.exit_status);
    strbuf_adds(out, "</p>\n");
    if (!good && !c->active)
        add_failure(out, r);
    for (size_t i = 0; i < c->problem_count; i++) {
        strbuf_adds(out, "<p class=\"note\">Not read: ");
        html_cut(out, c->problems[i], 400);
        strbuf_adds(out, "</p>\n");
    }
}

// ---- facts --------------------------------------------------------------------------------------

static void add_fact(struct html_table *t, const char *name, const char *value) {
    html_table_row(t, (const char *[]){name, value});
}

static void add_known(struct html_table *t, struct arena *a, const char *name, int n) {
    if (n >= 0)
        add_fact(t, name, arena_printf(a, "%d", n));
}

static const char *phases(struct arena *a, const struct run *r) {
    const struct {
        const char *name;
        int64_t ms;
        uint64_t bytes;
    } all[] = {{"push", r->push_ms, r->push_bytes},
               {"setup", r->setup_ms, 0},
               {"start", r->start_ms, 0},
               {"train", r->train_ms, 0},
               {"fetch", r->fetch_ms, r->fetch_bytes}};
    char age[STR_HUMAN_BYTES_MAX], size[STR_HUMAN_BYTES_MAX];
    const char *text = "";
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].ms <= 0)
            continue;
        text = arena_printf(a, "%s%s%s %s", text, text[0] ? ", " : "", all[i].name,
                            str_human_ms(age, all[i].ms));
        if (all[i].bytes)
            text = arena_printf(a, "%s (%s)", text, str_human_bytes(size, all[i].bytes));
    }
    return text;
}

static void add_facts(struct strbuf *out, const struct report_page *p, const struct report_run *r,
                      const char *version) {
    struct arena *a = p->context->arena;
    const struct compare_run *c = r->run;
    struct html_table t;
    const struct report_slow *slow = &p->slow;
    char when[CLOCK_ISO_BYTES], money[STR_MONEY_BYTES_MAX];
    html_table_open(&t, out, FACTS_BYTES_MAX, (const char *[]){"what", "value"}, 2);
    add_fact(&t, "task", c->run.name);
    add_fact(&t, "made", arena_printf(a, "%.19sZ", clock_iso(when, c->run.created_ms)));
    add_fact(&t, "cluster", arena_printf(a, "%s, provider %s", c->run.cluster, c->run.provider));
    add_known(&t, a, "nodes", (int)c->run.node_count);
    add_known(&t, a, "ranks", c->world_size);
    add_known(&t, a, "restarts", c->restarts);
    add_fact(&t, "times", phases(a, &c->run));
    if (r->cost_mils >= 0)
        add_fact(&t, "cost",
                 arena_printf(a,
                              "about %s by list price, of the machines of its nodes from making "
                              "the run to its end",
                              str_money(money, r->cost_mils)));
    for (size_t i = 0; i < COMPARE_RESULTS; i++)
        if (isfinite(c->results[i]))
            add_fact(&t, compare_results[i].name, arena_printf(a, "%.6g", c->results[i]));
    if (slow->metric)
        add_fact(&t, "slowest rank",
                 arena_printf(
                     a, "%lld: %.3g s between two values of %.100s, median of the ranks %.3g s",
                     (long long)slow->rank, slow->ms / 1000, slow->metric, slow->median_ms / 1000));
    add_fact(&t, "versions",
             arena_printf(a, "run by dtctl %s, page by dtctl %s%s%s",
                          c->run.version && c->run.version[0] ? c->run.version : "(not recorded)",
                          version, r->trainer ? ", kernels " : "",
                          r->trainer ? json_get_str(r->trainer, "isa", "?") : ""));
    html_table_close(&t);
}

// ---- nodes and data -----------------------------------------------------------------------------

static const char *statuses(struct arena *a, const struct history_node *n, int64_t *longest) {
    const char *text = "";
    int ended = 0, shown = 0;
    *longest = 0;
    for (int i = 0; i < n->rank_count; i++) {
        const struct history_rank *r = &n->ranks[i];
        ended += r->ended;
        *longest = r->ms > *longest ? r->ms : *longest;
        if (r->ended && r->status && shown++ < LISTED_MAX)
            text = arena_printf(a, "%s%srank %d: %s%d%s%s", text, text[0] ? ", " : "", r->rank,
                                r->signal ? r->signal : "", r->status, r->reason ? " " : "",
                                r->reason ? r->reason : "");
    }
    if (shown > LISTED_MAX)
        return arena_printf(a, "%s …", text);
    return shown || !ended ? text : ended == n->rank_count ? "all 0" : "0 so far";
}

static void add_nodes(struct strbuf *out, const struct report_page *p, const struct report_run *r) {
    static const char *const heads[] = {"node",        "ranks",        "state",
                                        "exit status", "longest rank", "remark"};
    struct arena *a = p->context->arena;
    struct html_table t;
    char age[STR_HUMAN_BYTES_MAX];
    if (r->history.round < 0)
        return;
    strbuf_adds(out, "<h2>Nodes and ranks</h2>\n");
    html_table_open(&t, out, NODES_BYTES_MAX, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < r->history.node_count; i++) {
        const struct history_node *n = &r->history.nodes[i];
        int64_t longest = 0;
        const char *status = statuses(a, n, &longest), *ranks = "-";
        if (n->rank_count == 1)
            ranks = arena_printf(a, "%d", n->first_rank);
        else if (n->rank_count > 1)
            ranks = arena_printf(a, "%d-%d", n->first_rank, n->first_rank + n->rank_count - 1);
        const char *state = n->state                      ? n->state
                            : n->lost                     ? "lost"
                            : n->left                     ? "left"
                            : n->round < 0                ? "never in a round"
                            : n->round < r->history.round ? "not in the last round"
                                                          : "-";
        const char *remark = n->gone_why ? n->gone_why : n->announced ? "preemption announced" : "";
        html_table_row(&t, (const char *[]){n->name, ranks, state, status,
                                            longest ? str_human_ms(age, longest) : "-", remark});
    }
    html_table_close(&t);
}

static const char *number_of(struct arena *a, const struct json *in, const char *key) {
    int64_t n = json_get_int(in, key, -1);
    return n < 0 ? "-" : arena_printf(a, "%lld", (long long)n);
}

static void add_share(struct html_table *t, struct arena *a, const struct json *in,
                      const struct json *share, const char *node) {
    char size[STR_HUMAN_BYTES_MAX];
    int64_t bytes = json_get_int(share, "bytes", -1);
    html_table_row(t, (const char *[]){json_get_str(in, "name", "-"), json_get_str(in, "mode", "-"),
                                       node, number_of(a, share, "files"),
                                       number_of(a, share, "samples"),
                                       bytes < 0 ? "-" : str_human_bytes(size, (uint64_t)bytes)});
}

static void add_inputs(struct strbuf *out, const struct report_page *p,
                       const struct report_run *r) {
    static const char *const heads[] = {"input", "mode", "node", "files", "samples", "size"};
    struct arena *a = p->context->arena;
    const struct json *list = r->run->inputs ? json_get(r->run->inputs, "inputs") : NULL;
    struct html_table t;
    if (!list || list->type != JSON_ARRAY || !list->child)
        return;
    strbuf_adds(out, "<h2>Data of each node</h2>\n");
    html_table_open(&t, out, INPUTS_BYTES_MAX, heads, sizeof heads / sizeof *heads);
    for (const struct json *in = list->child; in; in = in->next) {
        const struct json *shares = json_get(in, "shares");
        bool dealt = shares && shares->type == JSON_ARRAY;
        if (in->type != JSON_OBJECT)
            continue;
        for (const struct json *x = dealt ? shares->child : NULL; x; x = x->next)
            if (x->type == JSON_OBJECT)
                add_share(&t, a, in, x, json_get_str(x, "node", "-"));
        if (!dealt)
            add_share(&t, a, in, in, "each");
    }
    html_table_close(&t);
    strbuf_adds(out,
                "<p class=\"note\">As dealt when the run was made; later rounds may have dealt "
                "the files again.</p>\n");
}

// ---- settings and events ------------------------------------------------------------------------

static void add_settings(struct strbuf *out, const struct report_page *p,
                         const struct report_run *r) {
    const struct compare_settings *s = &r->run->settings;
    const struct run *run = &r->run->run;
    struct strbuf command = {0};
    struct html_table t;
    for (size_t i = 0; i < run->command_count; i++)
        strbuf_addf(&command, "%s%s", i ? " " : "",
                    str_shell_quote(p->context->arena, run->command[i]));
    strbuf_adds(out, "<h2>Command</h2>\n<pre>");
    html_cut(out, strbuf_cstr(&command), COMMAND_BYTES_MAX);
    strbuf_adds(out, "</pre>\n<h2>Settings</h2>\n");
    html_table_open(&t, out, SETTINGS_BYTES_MAX, (const char *[]){"setting", "value"}, 2);
    for (size_t i = 0; i < s->count; i++)
        if (!s->items[i].is_digest) // says something beside another run's alone
            html_table_row(&t, (const char *[]){s->items[i].name, s->items[i].value});
    html_table_close(&t);
    strbuf_fini(&command);
}

static void add_event(struct html_table *t, const struct report_run *r,
                      const struct report_event *v) {
    char age[STR_HUMAN_BYTES_MAX];
    int64_t ms = v->time_ms - r->times.first_ms;
    html_table_row(t,
                   (const char *[]){str_human_ms(age, ms > 0 ? ms : 0), v->node, v->kind, v->text});
}

static void add_events(struct strbuf *out, const struct report_run *r) {
    static const char *const heads[] = {"after", "node", "event", "members"};
    uint64_t head = r->event_count < REPORT_EVENTS_HEAD ? r->event_count : REPORT_EVENTS_HEAD;
    uint64_t rest = r->event_count - head;
    uint64_t tail = rest < REPORT_EVENTS_TAIL ? rest : REPORT_EVENTS_TAIL;
    struct html_table t;
    if (r->event_count == 0)
        return;
    strbuf_adds(out, "<h2>Events</h2>\n");
    html_table_open(&t, out, EVENTS_BYTES_MAX, heads, sizeof heads / sizeof *heads);
    for (uint64_t i = 0; i < head; i++)
        add_event(&t, r, &r->events[i]);
    for (uint64_t i = rest - tail; i < rest; i++)
        add_event(&t, r, &r->events[REPORT_EVENTS_HEAD + i % REPORT_EVENTS_TAIL]);
    html_table_close(&t);
    if (rest > tail)
        strbuf_addf(out,
                    "<p class=\"note\">%llu events between the first %d and the last %d are "
                    "left out; events.jsonl has all.</p>\n",
                    (unsigned long long)(rest - tail), REPORT_EVENTS_HEAD, REPORT_EVENTS_TAIL);
}

// ---- several runs -------------------------------------------------------------------------------

static void add_side_table(struct strbuf *out, const char *title, const struct side_table *t,
                           struct arena *a) {
    struct html_table html;
    const char **cells = arena_new(a, const char *, t->count + 1);
    if (t->row_count == 0)
        return;
    cells[0] = "";
    for (size_t i = 0; i < t->count; i++)
        cells[i + 1] = arena_printf(a, "run %s", t->heads[i]);
    strbuf_addf(out, "<h2>%s</h2>\n", title);
    html_table_open(&html, out, SIDE_BYTES_MAX, cells, t->count + 1);
    for (size_t r = 0; r < t->row_count; r++) {
        cells[0] = t->rows[r].label;
        memcpy(cells + 1, t->rows[r].cells, t->count * sizeof *cells);
        html_table_row(&html, cells);
    }
    html_table_close(&html);
}

static void add_runs(struct strbuf *out, const struct report_page *p) {
    static const char *const heads[] = {"run", "id", "made", "state", "productive", "not read"};
    struct arena *a = p->context->arena;
    struct html_table t;
    char when[CLOCK_ISO_BYTES];
    strbuf_adds(out, "<h2>Runs</h2>\n");
    html_table_open(&t, out, RUNS_BYTES_MAX, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < p->count; i++) {
        const struct compare_run *c = p->runs[i].run;
        bool exact = false;
        double share = report_productive(&p->runs[i], &exact);
        html_table_row(&t, (const char *[]){arena_printf(a, "%zu", i + 1), c->run.id,
                                            clock_iso(when, c->run.created_ms), c->run.state,
                                            share < 0 ? "-"
                                                      : arena_printf(a, "%s%.1f %%",
                                                                     exact ? "" : "all ranks ran ",
                                                                     share * 100),
                                            c->problem_count ? c->problems[0] : ""});
    }
    html_table_close(&t);
}

// ---- all of it ----------------------------------------------------------------------------------

// All plots by time have the same axis. A node's clock may be wrong: it ends with the last run.
static void share_time(struct report_page *p) {
    int64_t end = 0, last = 0;
    for (size_t i = 0; i < p->count; i++) {
        int64_t ms = report_whole_ms(&p->runs[i]);
        last = ms > last ? ms : last;
    }
    for (size_t i = 0; i < p->series_count; i++)
        end = p->series[i].time_end > end ? p->series[i].time_end : end;
    for (size_t i = 0; i < p->series_count; i++)
        p->series[i].time_end = last > 0 && end > last ? last : end;
}

static void add_plots(struct report_page *p, size_t other_bytes, struct strbuf *out) {
    share_time(p);
    for (size_t i = 0; i < p->series_count; i++) {
        size_t used = other_bytes + out->len;
        size_t left = used < REPORT_BYTES_MAX ? REPORT_BYTES_MAX - used : 0;
        plot_set_svg(&p->series[i], p->count, left / (p->series_count - i), out);
    }
}

void report_write(struct report_page *p, const char *version, const struct side_table *settings,
                  const struct side_table *figures, struct strbuf *out) {
    struct strbuf after = {0};
    if (p->count == 1) {
        const struct report_run *r = &p->runs[0];
        report_find_slow(p);
        add_title(out, r->run->run.id);
        add_verdict(out, r);
        report_hints(p, r, out);
        add_facts(out, p, r, version);
        report_time_line(r, out);
        add_nodes(&after, p, r);
        add_inputs(&after, p, r);
        add_settings(&after, p, r);
        add_events(&after, r);
    } else {
        char title[64];
        snprintf(title, sizeof title, "%zu runs", p->count);
        add_title(out, title);
        add_side_table(out, "What differs", settings, p->context->arena);
        add_runs(out, p);
        add_side_table(&after, "Figures", figures, p->context->arena);
        strbuf_addf(&after, "<p class=\"note\">Page by dtctl %s.</p>\n", version);
    }
    strbuf_adds(&after, "</body></html>\n");
    add_plots(p, out->len + after.len, out);
    strbuf_add(out, after.data, after.len);
    strbuf_fini(&after);
}
