// SPDX-License-Identifier: Apache-2.0
// Objects that every node gets: who reads what, and what is read again.
#include "run/inputs/input_fanout.h"

#include "base/array.h"
#include "run/inputs/input_split.h"

#include <stdlib.h>
#include <string.h>

struct object {
    const char *path, *line; // line: of dtdata's list
};

struct input_fanout {
    struct manifest *files;
    struct object *objects; // in the order of the entries
    size_t room;
    const char *header;              // the first line of a list
    bool *came;                      // by entry: a node has read it
    struct input_remote_list *lists; // by node
    size_t nodes;
};

int input_fanout_add(struct run_start *l, const struct input_remote *from,
                     const struct manifest_entry *entry, const char *path, struct err *e) {
    struct manifest_entry copy = *entry;
    if (!l->shared) {
        l->shared = heap_alloc(sizeof *l->shared);
        *l->shared = (struct input_fanout){.files = manifest_new(), .header = from->header};
    }
    struct input_fanout *s = l->shared;
    copy.path = path;
    array_grow(s->objects, &s->room, s->files->count + 1);
    const struct input_remote_object *o = input_remote_find(from, entry->path);
    must(o);
    s->objects[s->files->count] = (struct object){path, o->line};
    return manifest_append(s->files, &copy, e);
}

struct manifest *input_fanout_files(const struct run_start *l) {
    return l->shared ? l->shared->files : NULL;
}

// ---- lists --------------------------------------------------------------------------------------

static void clear_lists(struct input_fanout *s) {
    for (size_t n = 0; n < s->nodes; n++) {
        strbuf_fini(s->lists[n].input);
        free((void *)s->lists[n].entries);
        s->lists[n].entries = NULL;
        s->lists[n].count = 0;
    }
}

// known: the line has the hash, so that a node which has the content reads nothing.
static void add_line(struct input_fanout *s, size_t node, size_t entry, bool known) {
    struct input_remote_list *list = &s->lists[node];
    const char *line = s->objects[entry].line;
    if (list->count == 0) {
        strbuf_adds(list->input, s->header);
        list->entries = heap_alloc(s->files->count * sizeof *list->entries);
    }
    ((size_t *)list->entries)[list->count++] = entry;
    if (known)
        input_remote_known_line(line, s->files->entries[entry].hash, list->input);
    else
        strbuf_adds(list->input, line);
}

// ---- reading ------------------------------------------------------------------------------------

// Splits what is unread among the nodes that can read. False: nothing is unread, or none can.
static bool split_unread(struct input_fanout *s, const struct fleet *f, struct arena *a) {
    size_t count = 0, total = s->files->count, readers = 0;
    uint64_t *sizes = arena_new(a, uint64_t, total);
    size_t *entries = arena_new(a, size_t, total), *owners = arena_new(a, size_t, total);
    bool *reads = arena_new(a, bool, f->count);
    for (size_t n = 0; n < f->count; n++) {
        reads[n] = !f->nodes[n].failed && !s->lists[n].why.code;
        readers += reads[n];
    }
    for (size_t i = 0; i < total; i++)
        if (!s->came[i]) {
            entries[count] = i;
            sizes[count++] = s->files->entries[i].size;
        }
    if (count == 0 || readers == 0)
        return false;
    input_split(sizes, count, reads, f->count, owners);
    for (size_t i = 0; i < count; i++)
        add_line(s, owners[i], entries[i], false);
    return true;
}

// Objects that no node could read fail every node, with the reason of a node that tried.
static void fail_unread(struct input_fanout *s, struct fleet *f) {
    const struct err *why = NULL;
    const char *who = "";
    size_t unread = 0;
    for (size_t i = 0; i < s->files->count; i++)
        unread += !s->came[i];
    for (size_t n = 0; n < f->count && !why; n++)
        if (s->lists[n].why.code || f->nodes[n].failed) {
            why = s->lists[n].why.code ? &s->lists[n].why : &f->nodes[n].err;
            who = f->nodes[n].info->name;
        }
    for (size_t n = 0; unread && why && n < f->count; n++) {
        struct err e = *why;
        if (f->nodes[n].failed)
            continue;
        if (s->lists[n].why.code)
            e = s->lists[n].why;
        else
            err_set(&e, why->code, "no node could read a part of the inputs; node '%s': %s", who,
                    why->text);
        fleet_fail(&f->nodes[n], &e);
    }
}

static int read_split(struct run_start *l, struct fleet *f, struct err *e) {
    struct input_fanout *s = l->shared;
    struct arena a = {0};
    int result = 0;
    for (int i = 0; result == 0 && i < INPUT_FANOUT_READS_MAX && split_unread(s, f, &a); i++) {
        result = input_remote_read(l, f, s->lists, e);
        clear_lists(s);
        arena_reset(&a);
    }
    arena_fini(&a);
    fail_unread(s, f);
    return result;
}

// Each node reads all.
static int read_all(struct run_start *l, struct fleet *f, struct err *e) {
    struct input_fanout *s = l->shared;
    for (size_t n = 0; n < f->count; n++)
        for (size_t i = 0; i < s->files->count; i++)
            add_line(s, n, i, false);
    int result = input_remote_read(l, f, s->lists, e);
    clear_lists(s);
    return result;
}

// ---- sharing ------------------------------------------------------------------------------------

// Nodes that got something from others learn whose content it is, and read what they still lack.
static int read_rest(struct run_start *l, struct fleet *f, const struct xfer_peers *peers,
                     struct err *e) {
    struct input_fanout *s = l->shared;
    size_t count = 0;
    for (size_t n = 0; n < f->count; n++)
        for (size_t i = 0; peers[n].lacked && i < s->files->count; i++, count++)
            add_line(s, n, i, true);
    int result = count ? input_remote_read(l, f, s->lists, e) : 0;
    clear_lists(s);
    return result;
}

static int share(struct run_start *l, struct fleet *f, struct err *e) {
    struct arena *a = l->context->arena;
    struct input_fanout *s = l->shared;
    struct xfer_peers *peers = arena_new(a, struct xfer_peers, f->count + 1);
    struct manifest **rest = arena_new(a, struct manifest *, f->count + 1);
    struct transfer_totals totals = {0};
    bool any = false;
    for (size_t n = 0; n < f->count; n++) {
        peers[n].lacks = arena_new(a, bool, s->files->count);
        s->lists[n].tolerant = false;
    }
    int result = fleet_share_manifest(f, "share", s->files, "", peers, &totals, e);
    l->passed_on += totals.bytes;
    if (result == 0)
        result = read_rest(l, f, peers, e);
    for (size_t n = 0; n < f->count; n++) {
        rest[n] = NULL;
        for (size_t i = 0; i < s->files->count && !rest[n]; i++)
            rest[n] = peers[n].lacks[i] ? s->files : NULL;
        any |= rest[n] != NULL;
    }
    return result == 0 && any ? fleet_send_manifests(f, "place", rest, "", XFER_MERGE, &l->sent, e)
                              : result;
}

// ---- around -------------------------------------------------------------------------------------

static int by_path(const void *x, const void *y) {
    return manifest_order(((const struct object *)x)->path, ((const struct object *)y)->path);
}

int input_fanout_send(struct run_start *l, struct fleet *f, struct err *e) {
    struct arena *a = l->context->arena;
    struct input_fanout *s = l->shared;
    bool shares = fleet_can_share(f);
    if (!s)
        return 0;
    if (manifest_sort(s->files, e) < 0)
        return -1;
    qsort(s->objects, s->files->count, sizeof *s->objects, by_path);
    s->came = arena_new(a, bool, s->files->count);
    s->lists = arena_new(a, struct input_remote_list, f->count + 1);
    s->nodes = f->count;
    for (size_t n = 0; n < f->count; n++)
        s->lists[n] = (struct input_remote_list){.input = arena_new(a, struct strbuf, 1),
                                                 .files = s->files,
                                                 .came = s->came,
                                                 .tolerant = shares};
    if (shares)
        return read_split(l, f, e) < 0 ? -1 : share(l, f, e);
    struct manifest **files = arena_new(a, struct manifest *, f->count + 1);
    for (size_t n = 0; n < f->count; n++)
        files[n] = s->files;
    return read_all(l, f, e) < 0
               ? -1
               : fleet_send_manifests(f, "place", files, "", XFER_MERGE, &l->sent, e);
}

void input_fanout_close(struct run_start *l) {
    if (!l->shared)
        return;
    manifest_free(l->shared->files);
    free(l->shared->objects);
    free(l->shared);
    l->shared = NULL;
}
