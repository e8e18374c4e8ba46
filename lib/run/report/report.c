// SPDX-License-Identifier: Apache-2.0
// Reads the files of the runs of a report.
#include "run/report/report.h"

#include "provider/provider.h"
#include "sys/file.h"

#include <string.h>

void report_init(struct report_page *p, struct context *s, size_t runs) {
    *p = (struct report_page){.context = s,
                              .wanted = runs,
                              .compared = arena_new(s->arena, struct compare_run, runs),
                              .runs = arena_new(s->arena, struct report_run, runs)};
    report_series_init(p);
}

void report_end(struct report_page *p) {
    for (size_t i = 0; i < p->series_count; i++)
        plot_set_end(&p->series[i]);
}

static const struct json *trainer_of(const struct compare_run *c) {
    const struct json *trainer = c->summary ? json_get(c->summary, "trainer") : NULL;
    return trainer && trainer->type == JSON_OBJECT ? trainer : NULL;
}

// Of the machines that the run had, as far as the cluster still has them.
static int64_t cost_of(struct context *s, const struct report_run *r) {
    const struct run *run = &r->run->run;
    struct inventory all, own;
    struct err ignored = {0};
    if (cluster_load(&s->cluster, &all, &ignored) < 0 || !str_eq(all.provider, run->provider))
        return -1;
    own = all;
    own.nodes = arena_new(s->arena, struct inventory_node, all.count + 1);
    own.count = 0;
    for (size_t i = 0; i < run->node_count; i++)
        for (size_t k = 0; k < all.count; k++)
            if (str_eq(all.nodes[k].name, run->nodes[i]))
                own.nodes[own.count++] = all.nodes[k];
    return own.count == run->node_count ? provider_cost_mils(s, &own, report_whole_ms(r)) : -1;
}

int report_load(struct report_page *p, const struct run *r, struct err *e) {
    struct context *s = p->context;
    struct report_run *out = &p->runs[p->count];
    struct err why = {0};
    out->run = &p->compared[p->count];
    out->history.arena = s->arena;
    out->events = arena_new(s->arena, struct report_event, REPORT_EVENTS_HEAD + REPORT_EVENTS_TAIL);
    compare_load(s, r, s->arena, out->run);
    if (compare_load_events(s, r, &out->history, report_take_event, out, &why) < 0 &&
        why.code != ERR_NOT_FOUND)
        compare_add_problem(s, out->run, "%s", why.text);
    out->trainer = trainer_of(out->run);
    report_series_load(p, p->count++);
    out->cost_mils = cost_of(s, out);
    if (out->event_count == 0 && out->run->metrics.count == 0 &&
        file_is_absent(run_path(&s->cluster, r, "summary.json")))
        return err_set(e, ERR_NOT_FOUND,
                       "nothing of run '%s' but its record is on this computer (try: dtctl logs -f "
                       "%s, which brings its events and metrics)",
                       r->id, r->id);
    return 0;
}
