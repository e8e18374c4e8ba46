// SPDX-License-Identifier: Apache-2.0
// Lists the runs that the nodes hold.
#include "fleet/fleet_runs.h"

#include "base/array.h"
#include "base/log.h"
#include "protocol/node_protocol.h"

#include <string.h>

static bool is_final(const char *state) {
    for (int i = 0; i <= NODE_LOST; i++)
        if (strcmp(node_state_name((enum node_state)i), state) == 0)
            return node_state_is_final((enum node_state)i);
    return false;
}

static const char *name_or(struct arena *a, const struct json *j, const char *key) {
    const char *text = json_get_str(j, key, "");
    return str_is_name(text, 128) ? arena_strdup(a, text) : "?";
}

static void add(struct arena *a, struct node_runs *out, struct node_run item) {
    if (out->count == NODE_RUNS_MAX)
        return;
    array_grow_in(a, out->items, &out->room, out->count + 1);
    out->items[out->count++] = item;
}

static void parse_line(struct arena *a, const char *line, size_t node_index,
                       struct node_runs *out) {
    struct arena scratch = {0};
    struct json *j = NULL;
    struct err e = {0};
    if (!line[0] || json_parse(&scratch, line, strlen(line), &j, &e) < 0 || !json_get(j, "run")) {
        arena_fini(&scratch);
        return;
    }
    struct node_run r = {
        .run = name_or(a, j, "run"),
        .name = name_or(a, j, "name"),
        .node = name_or(a, j, "node"),
        .state = name_or(a, j, "state"),
        .node_index = node_index,
        .node_rank = (int)json_get_int(j, "node_rank", -1),
        .pid = (int)json_get_int(j, "pid", 0),
        .round = (int)json_get_int(j, "round", -1),
        .restarts = (int)json_get_int(j, "restarts", 0),
        .max_restarts = (int)json_get_int(j, "max_restarts", 0),
        .agent_starts = (int)json_get_int(j, "agent_starts", 0),
        .exit_status = (int)json_get_int(j, "exit_status", -1),
        .created_ms = json_get_int(j, "created_ms", 0),
        .updated_ms = json_get_int(j, "updated_ms", 0),
        .coordinator = json_get_bool(j, "coordinator", false),
        .owner = json_get_str(j, "owner", "")[0] ? name_or(a, j, "owner") : "",
        .fetched = json_get_bool(j, "fetched", false),
    };
    const char *reason = json_get_str(j, "reason", "");
    r.reason = str_printable(a, reason, strlen(reason));
    r.over = is_final(r.state);
    const struct json *workers = json_get(j, "workers");
    workers = workers && workers->type == JSON_ARRAY ? workers->child : NULL;
    for (const struct json *w = workers; w; w = w->next)
        r.ranks++;
    r.running = arena_new(a, int, (size_t)r.ranks + 1);
    for (const struct json *w = workers; w; w = w->next)
        if (strcmp(json_get_str(w, "state", ""), "running") == 0)
            r.running[r.ranks_running++] = (int)json_get_int(w, "rank", -1);
    add(a, out, r);
    arena_fini(&scratch);
}

void fleet_runs_parse(struct arena *a, const char *text, size_t len, size_t node_index,
                      struct node_runs *out) {
    char **lines = NULL;
    struct arena scratch = {0};
    size_t count = str_split(&scratch, arena_strndup(&scratch, text, len), '\n', &lines);
    for (size_t i = 0; i < count; i++)
        parse_line(a, lines[i], node_index, out);
    arena_fini(&scratch);
}

struct ask {
    const char *run;
    struct node_runs *out;
};

static void on_answer(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct ask *ask = n->work;
    struct err e = {0};
    if (fleet_answer(r, &e) == 0)
        fleet_runs_parse(n->fleet->context->arena, r->out, r->out_len, n->index, ask->out);
    if (e.code == ERR_NOT_FOUND)
        err_clear(&e);
    fleet_done(n, &e);
}

static int start_ask(struct fleet_node *n, struct err *e) {
    struct ask *ask = n->work;
    const char *rest =
        ask->run ? arena_printf(n->fleet->context->arena, "--run %s", ask->run) : NULL;
    return transport_collect(n->link, fleet_line(n, NODE_VERB_STATUS, rest), NULL, 0, on_answer, n,
                             e);
}

int fleet_runs_ask(struct fleet *f, const char *run, struct node_runs *out, struct err *e) {
    struct ask ask = {run, out};
    *out = (struct node_runs){0};
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = &ask;
    int result = fleet_each(f, NULL, start_ask, e);
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = NULL;
    return result;
}

static void on_marked(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct err e = {0};
    if (fleet_answer(r, &e) < 0)
        log_debug("cannot mark a run as fetched on a node", "node=%s reason=\"%s\"", n->info->name,
                  e.text);
    fleet_done(n, NULL);
}

static int start_mark(struct fleet_node *n, struct err *e) {
    const char *rest = n->work;
    if (!n->up) {
        fleet_done(n, NULL);
        return 0;
    }
    return transport_collect(n->link, fleet_line(n, NODE_VERB_FETCHED, rest), NULL, 0, on_marked, n,
                             e);
}

void fleet_runs_mark_fetched(struct fleet *f, const char *run) {
    struct err ignored = {0};
    char *rest = arena_printf(f->context->arena, "--run %s", run);
    for (size_t i = 0; i < f->count; i++) {
        f->nodes[i].work = rest;
        f->nodes[i].left_out = NULL;
    }
    fleet_each(f, NULL, start_mark, &ignored);
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = NULL;
}

// ---- the fleet of one run -----------------------------------------------------------------------

// A node that has left the cluster keeps its place, so that results of the others can be fetched.
static size_t add_absent(struct context *s, struct inventory *inv, const char *name) {
    struct inventory_node *nodes = arena_new(s->arena, struct inventory_node, inv->count + 1);
    if (inv->count > 0)
        memcpy(nodes, inv->nodes, inv->count * sizeof *nodes);
    nodes[inv->count] = (struct inventory_node){
        .name = name, .address = "", .host = "", .user = "", .root = "", .host_key = ""};
    inv->nodes = nodes;
    return inv->count++;
}

static void note_newest(struct context *s, const char *id, const char *text) {
    size_t runs = text ? cluster_task_runs(&s->cluster, id, text) : 0;
    if (runs > 1)
        screen_note(s->screen, "run '%s' is the newest of the %zu runs of task '%s'", id, runs,
                    text);
}

// The nodes of the cluster, or none if all of the run is on this side.
static int load_nodes(struct run_fleet *r, struct context *s, bool or_here, struct err *e) {
    bool here = or_here && run_is_over(&r->run) && r->run.fetched && r->run.left == 0;
    if (cluster_load(&s->cluster, &r->inventory, e) == 0)
        return 0;
    if (e->code != ERR_NOT_FOUND || !here)
        return -1;
    err_clear(e);
    r->inventory = (struct inventory){.name = s->cluster.name, .provider = r->run.provider};
    return 0;
}

static int open_run(struct run_fleet *r, struct context *s, const char *run, bool or_here,
                    struct err *e) {
    const char *id = NULL;
    struct err why = {0};
    *r = (struct run_fleet){0};
    if (cluster_find_run(&s->cluster, run, &id, e) < 0 ||
        run_load(&s->cluster, id, &r->run, e) < 0 || load_nodes(r, s, or_here, e) < 0)
        return -1;
    note_newest(s, id, run);
    size_t *indices = arena_new(s->arena, size_t, r->run.node_count);
    bool *absent = arena_new(s->arena, bool, r->run.node_count);
    for (size_t i = 0; i < r->run.node_count; i++) {
        int at = inventory_find(&r->inventory, r->run.nodes[i]);
        absent[i] = at < 0;
        indices[i] = at < 0 ? add_absent(s, &r->inventory, r->run.nodes[i]) : (size_t)at;
    }
    fleet_open(&r->fleet, s, &r->inventory, indices, r->run.node_count);
    for (size_t i = 0; i < r->run.node_count; i++) {
        r->fleet.nodes[i].absent = absent[i];
        err_set(&why, ERR_NOT_FOUND, "run '%s' was on it, and it is no longer in cluster '%s'", id,
                s->cluster.name);
        if (absent[i])
            fleet_fail(&r->fleet.nodes[i], &why);
    }
    return 0;
}

int fleet_runs_open(struct run_fleet *r, struct context *s, const char *run, struct err *e) {
    return open_run(r, s, run, false, e);
}

int fleet_runs_open_or_here(struct run_fleet *r, struct context *s, const char *run,
                            struct err *e) {
    return open_run(r, s, run, true, e);
}
