// SPDX-License-Identifier: Apache-2.0
// Asks the nodes of a run for their samples. The answers are bytes of nodes: figures outside their
// bounds are unknown.
#include "fleet/fleet_samples.h"

#include <string.h>

enum { EVERY_MS_MAX = 24 * 3600 * 1000 };

static struct tail_text tail_of(struct arena *a, const struct json *tails, const char *key) {
    const struct json *v = json_get(tails, key);
    if (!v || v->type != JSON_STR)
        return (struct tail_text){"", 0};
    return (struct tail_text){arena_strndup(a, v->str, v->len), v->len};
}

void fleet_samples_parse(struct arena *a, const char *text, size_t len, size_t node_index,
                         struct node_look *out) {
    struct node_runs runs = {0};
    struct json *j = NULL;
    struct err ignored = {0};
    struct arena scratch = {0};
    const char *end = memchr(text, '\n', len);
    size_t line = end ? (size_t)(end - text) : len;
    *out = (struct node_look){.out.text = "", .err.text = "", .metrics.text = ""};
    fleet_runs_parse(a, text, line, node_index, &runs);
    if (runs.count == 1 && json_parse(&scratch, text, line, &j, &ignored) == 0) {
        const struct json *every = json_get(j, "every_ms"), *tails = json_get(j, "tail");
        int64_t every_ms = json_get_int(j, "every_ms", -1);
        out->run = runs.items;
        out->silent = json_get_bool(j, "silent", false);
        out->knows_samples = every && every_ms >= 0 && every_ms <= EVERY_MS_MAX;
        out->every_ms = out->knows_samples ? every_ms : 0;
        out->has_sample = node_sample_read(json_get(j, "sample"), &out->sample);
        out->out = tail_of(a, tails, "stdout");
        out->err = tail_of(a, tails, "stderr");
        out->metrics = tail_of(a, tails, "metrics");
    }
    arena_fini(&scratch);
}

struct ask {
    const char *run;
    struct node_look *looks;
};

static void on_answer(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct ask *ask = n->work;
    struct err e = {0};
    if (fleet_answer(r, &e) == 0)
        fleet_samples_parse(n->fleet->context->arena, r->out, r->out_len, n->index,
                            &ask->looks[n->index]);
    if (e.code == ERR_NOT_FOUND)
        err_clear(&e);
    fleet_done(n, &e);
}

static int start_ask(struct fleet_node *n, struct err *e) {
    const struct ask *ask = n->work;
    const char *rest = arena_printf(n->fleet->context->arena, "--run %s --sample", ask->run);
    return transport_collect(n->link, fleet_line(n, NODE_VERB_STATUS, rest), NULL, 0, on_answer, n,
                             e);
}

int fleet_samples_ask(struct fleet *f, const char *run, struct node_look *looks, struct err *e) {
    struct ask ask = {run, looks};
    for (size_t i = 0; i < f->count; i++) {
        looks[i] = (struct node_look){0};
        f->nodes[i].work = &ask;
    }
    int result = fleet_each(f, NULL, start_ask, e);
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = NULL;
    return result;
}
