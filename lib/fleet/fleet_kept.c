// SPDX-License-Identifier: Apache-2.0
// Lists and removes what nodes keep between runs.
#include "fleet/fleet_kept.h"

#include "base/array.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES_MAX = 255 };

const char *const kept_kind_names[] = {
    [KEPT_STATE] = "state", [KEPT_INPUT] = "input", [KEPT_ENVIRONMENT] = "environment"};
static const char *const DROP_FLAGS[] = {
    [KEPT_STATE] = "--run", [KEPT_INPUT] = "--input", [KEPT_ENVIRONMENT] = "--bundle"};
enum { KINDS = sizeof DROP_FLAGS / sizeof DROP_FLAGS[0] };

static void parse_line(struct arena *a, const char *line, size_t node_index, struct kept *out) {
    struct arena scratch = {0};
    struct json *j = NULL;
    struct err ignored = {0};
    if (line[0] && out->count < KEPT_ITEMS_MAX &&
        json_parse(&scratch, line, strlen(line), &j, &ignored) == 0) {
        const char *kind = json_get_str(j, "kind", ""), *name = json_get_str(j, "name", "");
        int64_t files = json_get_int(j, "files", -1), bytes = json_get_int(j, "bytes", -1);
        size_t k = 0;
        while (k < KINDS && strcmp(kind, kept_kind_names[k]) != 0)
            k++;
        if (k < KINDS && str_is_name(name, NAME_BYTES_MAX) && files >= 0 && bytes >= 0) {
            array_grow_in(a, out->items, &out->room, out->count + 1);
            out->items[out->count++] =
                (struct kept_item){.kind = (enum kept_kind)k,
                                   .name = arena_strdup(a, name),
                                   .node_index = node_index,
                                   .files = (uint64_t)files,
                                   .bytes = (uint64_t)bytes,
                                   .changed_ms = json_get_int(j, "changed_ms", 0)};
        }
    }
    arena_fini(&scratch);
}

void fleet_kept_parse(struct arena *a, const char *text, size_t len, size_t node_index,
                      struct kept *out) {
    struct arena scratch = {0};
    char **lines = NULL;
    size_t count = str_split(&scratch, arena_strndup(&scratch, text, len), '\n', &lines);
    for (size_t i = 0; i < count; i++)
        parse_line(a, lines[i], node_index, out);
    arena_fini(&scratch);
}

// ---- asking -------------------------------------------------------------------------------------

static void on_answer(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct err e = {0};
    if (fleet_answer(r, &e) == 0)
        fleet_kept_parse(n->fleet->context->arena, r->out, r->out_len, n->index, n->work);
    fleet_done(n, &e);
}

static int start_ask(struct fleet_node *n, struct err *e) {
    return transport_collect(n->link, fleet_line(n, NODE_VERB_KEPT, NULL), NULL, 0, on_answer, n,
                             e);
}

static int each(struct fleet *f, void *work, fleet_start *start, struct err *e) {
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = work;
    int result = fleet_each(f, NULL, start, e);
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = NULL;
    return result;
}

// By name and node, whichever node has answered first.
static int compare_items(const void *a, const void *b) {
    const struct kept_item *x = a, *y = b;
    int by_name = strcmp(x->name, y->name);
    return by_name ? by_name : (x->node_index > y->node_index) - (x->node_index < y->node_index);
}

int fleet_kept_ask(struct fleet *f, struct kept *out, struct err *e) {
    *out = (struct kept){0};
    int result = each(f, out, start_ask, e);
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, compare_items);
    return result;
}

// ---- removing -----------------------------------------------------------------------------------

struct drop {
    const struct kept *items;
    size_t *next; // by node: where to look for its next item
};

static int drop_next(struct fleet_node *n, struct err *e);

static void on_dropped(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct err e = {0};
    if (fleet_answer(r, &e) < 0 || drop_next(n, &e) < 0)
        fleet_done(n, &e);
}

static int drop_next(struct fleet_node *n, struct err *e) {
    const struct drop *d = n->work;
    size_t *i = &d->next[n->index];
    while (*i < d->items->count && d->items->items[*i].node_index != n->index)
        ++*i;
    if (*i == d->items->count) {
        fleet_done(n, NULL);
        return 0;
    }
    const struct kept_item *item = &d->items->items[(*i)++];
    const char *rest =
        arena_printf(n->fleet->context->arena, "%s %s", DROP_FLAGS[item->kind], item->name);
    return transport_collect(n->link, fleet_line(n, NODE_VERB_DROP, rest), NULL, 0, on_dropped, n,
                             e);
}

int fleet_kept_drop(struct fleet *f, const struct kept *items, struct err *e) {
    struct drop d = {items, arena_new(f->context->arena, size_t, f->count)};
    return each(f, &d, drop_next, e);
}
