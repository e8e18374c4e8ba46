// SPDX-License-Identifier: Apache-2.0
// Files of a run that stay on its nodes.
#include "run/results/work_left.h"

#include "base/log.h"

#include <string.h>

struct ask {
    const struct run *run;
    int rank0;
    struct work_left *out;
};

static void add(struct arena *a, const struct json *j, struct work_left *out) {
    const struct json *names = json_get(j, "names");
    int64_t files = json_get_int(j, "files", 0), bytes = json_get_int(j, "bytes", 0);
    if (files <= 0 || files > INT32_MAX || bytes < 0 || bytes > INT64_MAX / 4096)
        return;
    out->files += files;
    out->bytes += bytes;
    for (const struct json *v = names && names->type == JSON_ARRAY ? names->child : NULL;
         v && out->name_count < WORK_LEFT_NAMES_MAX; v = v->next) {
        bool known = v->type != JSON_STR;
        for (size_t i = 0; i < out->name_count && !known; i++)
            known = strcmp(out->names[i], v->str) == 0;
        if (!known)
            out->names[out->name_count++] = arena_strdup(a, v->str);
    }
}

static bool counts_kinds(const struct run *run) {
    return run->bring != RESULT_ALL || run->left;
}

// wanted: the kinds that count.
static void add_kinds(const struct run *run, const struct json *j, unsigned wanted,
                      struct work_left *out) {
    const struct json *kinds = json_get(j, "kinds");
    for (int i = 0; i < RESULT_KINDS; i++) {
        const struct json *k = kinds ? json_get(kinds, result_kind_name(i)) : NULL;
        int64_t files = k ? json_get_int(k, "files", -1) : -1;
        int64_t bytes = k ? json_get_int(k, "bytes", -1) : -1;
        if (files < 0 || files > INT32_MAX || bytes < 0 || bytes > INT64_MAX / RUN_NODES_MAX) {
            out->kinds_unknown = true;
            return;
        }
        if (!(wanted & 1U << i))
            continue;
        if (!run->native) {
            out->kinds[i].files += files;
            out->kinds[i].bytes += bytes;
        } else if (files > out->kinds[i].files) { // every node has the same
            out->kinds[i].files = files;
            out->kinds[i].bytes = bytes;
        }
    }
}

unsigned work_left_kinds(const struct work_left *w, unsigned kinds) {
    unsigned left = 0;
    for (int i = 0; i < RESULT_KINDS; i++)
        if (w->kinds_unknown || w->kinds[i].files)
            left |= kinds & 1U << i;
    return left;
}

static void on_answer(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct ask *ask = n->work;
    struct arena scratch = {0};
    struct json *j = NULL;
    struct err e = {0};
    if (fleet_answer(r, &e) == 0 && json_parse(&scratch, r->out, r->out_len, &j, &e) == 0) {
        bool counts = ask->rank0 < 0 || (size_t)ask->rank0 == n->index;
        unsigned wanted = counts ? RESULT_ALL : RESULT_ALL & ~(RESULT_OUTPUT | RESULT_MODEL);
        if (!ask->run->native && counts) // the trainer has no working folder
            add(n->fleet->context->arena, j, ask->out);
        if (counts_kinds(ask->run))
            add_kinds(ask->run, j, wanted, ask->out);
    }
    arena_fini(&scratch);
    ask->out->kinds_unknown |= e.code != ERR_NONE;
    if (e.code == ERR_NOT_FOUND) {
        ask->out->gone[n->index] = true;
        err_clear(&e);
    } else if (e.code && !ask->run->bring_work) {
        log_warn("cannot list the new files of a working folder", "node=%s reason=\"%s\"",
                 n->info->name, e.text);
        err_clear(&e);
    }
    fleet_done(n, &e);
}

static int start(struct fleet_node *n, struct err *e) {
    struct ask *ask = n->work;
    const char *rest = arena_printf(n->fleet->context->arena, "--run %s%s%s", ask->run->id,
                                    ask->run->bring_work ? " --gather" : "",
                                    counts_kinds(ask->run) ? " --kinds" : "");
    return transport_collect(n->link, fleet_line(n, NODE_VERB_WORK_LEFT, rest), NULL, 0, on_answer,
                             n, e);
}

int work_left_ask(struct fleet *f, const struct run *run, int rank0, struct work_left *out,
                  struct err *e) {
    struct ask ask = {run, rank0, out};
    *out = (struct work_left){.gone = arena_new(f->context->arena, bool, f->count)};
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = &ask;
    int result = fleet_each(f, NULL, start, e);
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = NULL;
    return result;
}
