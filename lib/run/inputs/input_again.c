// SPDX-License-Identifier: Apache-2.0
// Lists sources again, and brings their objects to a node that comes later.
#include "run/inputs/input_again.h"

#include "base/clock.h"
#include "base/str.h"
#include "run/inputs/input_fanout.h"
#include "run/inputs/input_lists.h"
#include "run/inputs/input_stream.h"

#include <stdlib.h>
#include <string.h>

// Shares of elastic inputs come from the other nodes.
static bool is_of(const struct run_start_input *in, bool streamed) {
    return in->remote && !in->elastic && config_input_is_streamed(in->config) == streamed;
}

// Has the part of the node in the input, with paths on the node. NULL: nothing was dealt.
static const struct manifest *part_of(const struct run_start *l, const struct run_start_input *in,
                                      size_t node) {
    return !in->share ? input_fanout_files(l) : l->remote ? l->remote[node].files : NULL;
}

bool input_again_has(const struct run_start *l, size_t node, bool streamed) {
    if (streamed)
        return l->streams && l->streams[node].input.len;
    for (size_t i = 0; i < l->input_count; i++) {
        const struct manifest *m = part_of(l, &l->inputs[i], node);
        if (is_of(&l->inputs[i], false) && m && m->count)
            return true;
    }
    return false;
}

static void clear(struct input_again_node *x) {
    if (x->files)
        manifest_free(x->files);
    x->files = NULL;
    strbuf_fini(&x->input);
    x->busy = x->waits = false;
}

static void over(struct input_again_node *x, const struct err *e) {
    clear(x);
    x->on_over(x, e);
}

// ---- objects that are read ----------------------------------------------------------------------

struct wanted {
    const struct manifest_entry *entry; // path: on the node
    const struct input_remote_object *object;
};

static int add_input(const struct input_again_node *x, const struct run_start_input *in,
                     struct wanted *wanted, size_t *count, struct err *e) {
    const struct manifest *m = part_of(x->all->launch, in, x->node->index);
    struct arena a = {0};
    const char *folder = input_lists_folder(&a, in);
    size_t len = strlen(folder);
    int result = 0;
    for (size_t i = 0; result == 0 && m && i < m->count; i++) {
        const struct manifest_entry *entry = &m->entries[i];
        if (strncmp(entry->path, folder, len) != 0 || entry->path[len] != '/')
            continue;
        const struct input_remote_object *o = input_remote_again(in, entry->path + len + 1, e);
        if (o)
            wanted[(*count)++] = (struct wanted){entry, o};
        else
            result = err_wrap(e, "input '%s'", in->name);
    }
    arena_fini(&a);
    return result;
}

static int by_hash(const void *x, const void *y) {
    return memcmp(((const struct wanted *)x)->entry->hash, ((const struct wanted *)y)->entry->hash,
                  HASH_BYTES);
}

// Content that several inputs have is read once.
static int make_list(struct input_again_node *x, struct err *e) {
    struct run_start *l = x->all->launch;
    struct arena a = {0};
    size_t room = 0, count = 0;
    int result = 0;
    for (size_t i = 0; i < l->input_count; i++) {
        const struct manifest *m = part_of(l, &l->inputs[i], x->node->index);
        room += m ? m->count : 0;
    }
    struct wanted *wanted = arena_new(&a, struct wanted, room + 1);
    for (size_t i = 0; result == 0 && i < l->input_count; i++)
        if (is_of(&l->inputs[i], false))
            result = add_input(x, &l->inputs[i], wanted, &count, e);
    qsort(wanted, count, sizeof *wanted, by_hash);
    for (size_t i = 0; i < l->input_count && x->input.len == 0; i++)
        if (is_of(&l->inputs[i], false))
            strbuf_adds(&x->input, l->inputs[i].again->header);
    for (size_t i = 0; result == 0 && i < count; i++) {
        if (i && by_hash(&wanted[i - 1], &wanted[i]) == 0)
            continue;
        input_remote_known_line(wanted[i].object->line, wanted[i].entry->hash, &x->input);
        result = manifest_append(x->files, wanted[i].entry, e);
    }
    arena_fini(&a);
    return result;
}

static void on_read(struct input_get *get, const struct err *e) {
    struct input_again_node *x = container_of(get, struct input_again_node, get);
    over(x, e);
}

static int read_objects(struct input_again_node *x, struct err *e) {
    char size[STR_HUMAN_BYTES_MAX];
    x->files = manifest_new();
    if (make_list(x, e) < 0)
        return -1;
    bool *known = arena_new(&x->files->arena, bool, x->files->count);
    memset(known, true, x->files->count * sizeof *known);
    x->list = (struct input_remote_list){
        .input = &x->input, .files = x->files, .came = known, .count = x->files->count};
    x->get = (struct input_get){.node = x->node, .list = &x->list, .on_over = on_read};
    if (input_get_begin(&x->get, e) < 0)
        return -1;
    screen_note(x->all->follow->context->screen, "%s reads %zu object%s of the inputs (%s)",
                x->node->info->name, x->files->count, str_plural(x->files->count),
                str_human_bytes(size, x->files->bytes));
    return 0;
}

// ---- objects that are streamed ------------------------------------------------------------------

static void on_serves(void *ctx, const struct transport_result *r) {
    struct input_again_node *x = ctx;
    struct err e = {0};
    if (!x->all->follow)
        return;
    // An earlier try may have started the server, which then waits for the agent.
    if (fleet_answer(r, &e) < 0 && e.code == ERR_BUSY)
        err_clear(&e);
    else if (e.code)
        err_wrap(&e, "streamed inputs");
    over(x, &e);
}

static int serve_objects(struct input_again_node *x, struct err *e) {
    const struct run_start *l = x->all->launch;
    return input_stream_again(l, x->node->index, &x->input, e) < 0
               ? err_wrap(e, "streamed inputs")
               : input_stream_serve(l, x->node, &x->input, on_serves, x, e);
}

// ---- lists --------------------------------------------------------------------------------------

static void on_listed(struct dtdata_beside *d, const struct strbuf *text, const struct err *e);

static bool is_fresh(const struct input_again_list *list) {
    return list->at_ms && clock_mono_ms() - list->at_ms < INPUT_AGAIN_FRESH_MS_MAX;
}

static void forget(struct input_again_list *list) {
    arena_reset(&list->arena);
    list->objects = (struct input_remote){.folder = false};
    list->in->again = NULL;
    list->at_ms = 0;
}

static int begin_list(struct input_again_list *list, struct err *e) {
    const char *args[] = {"list", list->in->source, NULL};
    const struct dtdata_call call = {
        .args = args, .bytes_max = INPUT_REMOTE_LIST_BYTES_MAX, .ms_max = INPUT_REMOTE_LIST_MS_MAX};
    forget(list);
    return dtdata_beside_start(&list->lister, list->all->follow->context, &call, on_listed, e);
}

// Goes on as far as the lists are there.
static int advance(struct input_again_node *x, struct err *e) {
    struct input_again *g = x->all;
    bool waits = false;
    for (size_t i = 0; i < g->launch->input_count; i++) {
        struct input_again_list *list = &g->lists[i];
        if (!is_of(list->in, x->streamed) || is_fresh(list))
            continue;
        waits = true;
        if (!dtdata_beside_runs(&list->lister) && begin_list(list, e) < 0)
            return err_wrap(e, "input '%s'", list->in->name);
    }
    x->waits = waits;
    if (waits)
        return 0;
    if (!x->node->up || !x->node->ready)
        return err_set(e, ERR_NET, "the node is out of reach");
    return x->streamed ? serve_objects(x, e) : read_objects(x, e);
}

static void on_listed(struct dtdata_beside *d, const struct strbuf *text, const struct err *e) {
    struct input_again_list *list = container_of(d, struct input_again_list, lister);
    struct input_again *g = list->all;
    struct err why = *e;
    if (!why.code &&
        input_remote_parse(&list->arena, strbuf_cstr(text), &list->objects, NULL, &why) == 0) {
        list->in->again = &list->objects;
        list->at_ms = clock_mono_ms();
    } else {
        forget(list);
        err_wrap(&why, "input '%s'", list->in->name);
    }
    for (size_t i = 0; i < g->follow->count; i++) {
        struct input_again_node *x = &g->nodes[i];
        struct err own = why;
        if (x->waits && is_of(list->in, x->streamed) && (own.code || advance(x, &own) < 0))
            over(x, &own);
    }
}

// ---- around -------------------------------------------------------------------------------------

int input_again_begin(struct input_again_node *x, bool streamed, struct err *e) {
    must(!x->busy);
    x->streamed = streamed;
    if (advance(x, e) == 0) {
        x->busy = true;
        return 0;
    }
    clear(x);
    return -1;
}

void input_again_open(struct input_again *g, struct run_start *l, struct follow *f) {
    struct arena *a = f->context->arena;
    *g = (struct input_again){.launch = l, .follow = f};
    g->lists = arena_new(a, struct input_again_list, l->input_count + 1);
    g->nodes = arena_new(a, struct input_again_node, f->count + 1);
    for (size_t i = 0; i < l->input_count; i++)
        g->lists[i] = (struct input_again_list){.all = g, .in = &l->inputs[i]};
    for (size_t i = 0; i < f->count; i++)
        g->nodes[i] = (struct input_again_node){.all = g, .node = f->nodes[i].node};
}

void input_again_close(struct input_again *g) {
    if (!g->follow)
        return;
    for (size_t i = 0; i < g->launch->input_count; i++) {
        dtdata_beside_stop(&g->lists[i].lister);
        g->lists[i].in->again = NULL;
        arena_fini(&g->lists[i].arena);
    }
    for (size_t i = 0; i < g->follow->count; i++) {
        input_get_close(&g->nodes[i].get);
        clear(&g->nodes[i]);
    }
    g->follow = NULL;
}
