// SPDX-License-Identifier: Apache-2.0
// New files in a run's working folders.
#include "run/work_left.h"

#include "base/log.h"

#include <string.h>

struct ask {
    const struct run *run;
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

static void on_answer(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct ask *ask = n->work;
    struct arena scratch = {0};
    struct json *j = NULL;
    struct err e = {0};
    if (fleet_answer(r, &e) == 0 && json_parse(&scratch, r->out, r->out_len, &j, &e) == 0)
        add(n->fleet->context->arena, j, ask->out);
    arena_fini(&scratch);
    if (e.code && !ask->run->bring_work) {
        log_warn("cannot list the new files of a working folder", "node=%s reason=\"%s\"",
                 n->info->name, e.text);
        err_clear(&e);
    }
    fleet_done(n, &e);
}

static int start(struct fleet_node *n, struct err *e) {
    struct ask *ask = n->work;
    const char *rest = arena_printf(n->fleet->context->arena, "--run %s%s", ask->run->id,
                                    ask->run->bring_work ? " --gather" : "");
    return transport_collect(n->link, fleet_line(n, "left", rest), NULL, 0, on_answer, n, e);
}

int work_left_ask(struct fleet *f, const struct run *run, struct work_left *out, struct err *e) {
    struct ask ask = {run, out};
    *out = (struct work_left){0};
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = &ask;
    int result = fleet_each(f, NULL, start, e);
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = NULL;
    return result;
}
