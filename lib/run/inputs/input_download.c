// SPDX-License-Identifier: Apache-2.0
// Objects are read on all nodes at once, and then put into place by their hashes.
#include "run/inputs/input_remote.h"

#include "run/inputs/input_fanout.h"
#include "run/inputs/input_get.h"

static void on_over(struct input_get *g, const struct err *e) {
    static const struct err none;
    bool ours = e->code && g->list->tolerant && e->code != ERR_NO_STATUS;
    if (ours)
        g->list->why = *e;
    fleet_done(g->node, ours ? &none : e);
}

static int start(struct fleet_node *n, struct err *e) {
    struct input_get *g = n->work;
    if (g->list->count)
        return input_get_begin(g, e);
    fleet_done(n, NULL);
    return 0;
}

static void show(const struct run_start *l) {
    char read[STR_HUMAN_BYTES_MAX], given[STR_HUMAN_BYTES_MAX];
    struct strbuf text = {0};
    strbuf_addf(&text, "inputs   nodes read %s", str_human_bytes(read, l->downloaded));
    if (l->passed_on)
        strbuf_addf(&text, " and gave each other %s", str_human_bytes(given, l->passed_on));
    if (l->again)
        strbuf_addf(&text, ", %llu request%s made again", (unsigned long long)l->again,
                    l->again == 1 ? " was" : "s were");
    screen_note(l->context->screen, "%s", strbuf_cstr(&text));
    strbuf_fini(&text);
}

int input_remote_read(struct run_start *l, struct fleet *f, struct input_remote_list *lists,
                      struct err *e) {
    struct input_get *all = arena_new(l->context->arena, struct input_get, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        all[i] = (struct input_get){.node = &f->nodes[i], .list = &lists[i], .on_over = on_over};
        f->nodes[i].work = &all[i];
    }
    int result = fleet_each_resumed(f, "download", start, e);
    for (size_t i = 0; i < f->count; i++) {
        l->downloaded += all[i].read;
        l->again += all[i].again;
        input_get_close(&all[i]); // the step was interrupted
        f->nodes[i].work = NULL;
    }
    return result;
}

// A copy that is sorted, since the lists that are sent have the order of the original.
static struct manifest *sorted_copy(const struct manifest *m, struct err *e) {
    struct manifest *copy = manifest_new();
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->count; i++)
        rc = manifest_append(copy, &m->entries[i], e);
    if (rc == 0 && manifest_sort(copy, e) == 0)
        return copy;
    manifest_free(copy);
    return NULL;
}

static int place_parts(struct run_start *l, struct fleet *f, const size_t *parts, struct err *e) {
    struct manifest **files = arena_new(l->context->arena, struct manifest *, f->count + 1);
    int result = 0;
    for (size_t i = 0; result == 0 && i < f->count; i++) {
        const struct manifest *m = parts[i] < f->count ? l->remote[parts[i]].files : NULL;
        if (!m || m->count == 0 || f->nodes[i].failed)
            continue;
        files[i] = sorted_copy(m, e);
        result = files[i] ? 0 : -1;
    }
    if (result == 0)
        result = fleet_send_manifests(f, "place", files, "", XFER_MERGE, &l->sent, e);
    for (size_t i = 0; i < f->count; i++)
        if (files[i])
            manifest_free(files[i]);
    return result;
}

int input_remote_send_parts(struct run_start *l, struct fleet *f, const size_t *parts,
                            struct err *e) {
    struct input_remote_list *lists =
        arena_new(l->context->arena, struct input_remote_list, f->count + 1);
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        struct run_start_remote *r = parts[i] < f->count ? &l->remote[parts[i]] : NULL;
        if (!r)
            continue;
        lists[i] = (struct input_remote_list){
            .input = &r->input, .files = r->files, .count = r->files->count};
        count += r->files->count;
    }
    if (count == 0)
        return 0;
    return input_remote_read(l, f, lists, e) < 0 ? -1 : place_parts(l, f, parts, e);
}

// Objects of which each node has its own part.
static int send_own(struct run_start *l, struct fleet *f, struct err *e) {
    size_t *parts = arena_new(l->context->arena, size_t, f->count);
    for (size_t i = 0; i < f->count; i++)
        parts[i] = i;
    int result = input_remote_send_parts(l, f, parts, e);
    for (size_t i = 0; result == 0 && i < f->count; i++) // a new machine may need them again
        result = manifest_sort(l->remote[i].files, e);
    return result;
}

int input_remote_send(struct run_start *l, struct fleet *f, struct err *e) {
    if (!l->remote && !l->shared)
        return 0;
    int result = l->remote && !l->elastic ? send_own(l, f, e) : 0; // else input_elastic_send
    if (result == 0)
        result = input_fanout_send(l, f, e);
    if (result == 0 && fleet_failures(f) == 0)
        show(l);
    return result;
}
