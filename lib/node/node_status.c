// SPDX-License-Identifier: Apache-2.0
// `dtrun --node status`: lists the runs of this node, or shows one.
#include "base/array.h"
#include "node/node_verb.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <stdlib.h>
#include <string.h>

enum { RUNS_MAX = 100000 };

struct run_entry {
    char *name;
    const char *owner;
    bool fetched;
    const struct json *status;
    enum node_state state;
    int64_t created_ms;
};

static int by_age(const void *pa, const void *pb) {
    const struct run_entry *a = pa, *b = pb;
    if (a->created_ms != b->created_ms)
        return a->created_ms < b->created_ms ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int print_run(const struct run_entry *r) {
    struct strbuf line = {0};
    struct json_out j;
    json_open(&j, &line);
    json_object(&j, NULL);
    if (!r->status) {
        json_str(&j, "run", r->name);
        json_str(&j, "state", node_state_name(r->state));
    }
    for (const struct json *v = r->status ? r->status->child : NULL; v; v = v->next) {
        if (strcmp(v->key, "state") == 0)
            json_str(&j, "state", node_state_name(r->state));
        else
            json_value(&j, v);
    }
    json_str(&j, "owner", r->owner);
    json_bool(&j, "fetched", r->fetched);
    json_end(&j);
    int rc = node_answer(&line);
    strbuf_fini(&line);
    return rc;
}

static struct run_entry look_at(struct arena *a, const struct node_args *args, const char *name) {
    struct run_entry r = {.name = arena_strdup(a, name),
                          .owner = node_run_owner(a, args, name),
                          .fetched = node_run_is_fetched(a, args, name)};
    r.status = node_run_state(a, node_run_dir(a, args, name), &r.state, NULL);
    r.created_ms = r.status ? json_get_int(r.status, "created_ms", 0) : 0;
    return r;
}

static int list_runs(struct arena *a, const struct node_args *args, struct run_entry **out,
                     size_t *count, struct err *e) {
    struct file_entries in = file_entries_open(file_join(a, args->root, "runs"));
    size_t room = 0;
    while (*count < RUNS_MAX && file_entries_next(&in)) {
        if (!node_is_run(a, args, in.name))
            continue;
        array_grow(*out, &room, *count + 1);
        (*out)[(*count)++] = look_at(a, args, in.name);
    }
    if (*count)
        qsort(*out, *count, sizeof **out, by_age);
    return file_entries_close(&in, 0, e);
}

int node_status(const struct node_call *c) {
    struct arena a = {0};
    struct node_args args;
    struct err e;
    struct run_entry *list = NULL;
    size_t count = 0;
    int rc = 0;
    if (node_args(&a, c, false, &args, &e) < 0)
        return node_fail(&e);
    if (args.run && !node_is_run(&a, &args, args.run)) {
        err_set(&e, ERR_NOT_FOUND, "run '%s' is not known on this node", args.run);
        rc = node_fail(&e);
    } else if (args.run) {
        struct run_entry one = look_at(&a, &args, args.run);
        rc = print_run(&one) < 0;
    } else {
        rc = list_runs(&a, &args, &list, &count, &e) < 0 ? node_fail(&e) : 0;
    }
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = print_run(&list[i]) < 0;
    free(list);
    arena_fini(&a);
    return rc;
}
