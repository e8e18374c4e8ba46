// SPDX-License-Identifier: Apache-2.0
// `dtdata get` on all nodes at once: sends each its list, follows its answers, and then has the
// files put into place by their hashes.
#include "run/inputs/input_remote.h"

#include "fleet/embedded_files.h"
#include "run/inputs/input_fanout.h"
#include "sys/file.h"

#include <string.h>

struct download {
    struct fleet_node *node;
    struct input_remote_list *list;
    struct transport_run *run;
    size_t sent;         // bytes of the input
    struct strbuf line;  // of an answer that has begun
    struct strbuf words; // the last line, and what came on standard error
    size_t known;        // objects whose hash has come
    bool ended;          // the last line has come
    uint64_t read, again;
    struct arena scratch;
};

static void finish(struct download *d, const struct err *e) {
    static const struct err none;
    bool ours = e->code && d->list->tolerant && e->code != ERR_NO_STATUS;
    if (ours)
        d->list->why = *e;
    if (d->run)
        transport_run_close(d->run);
    d->run = NULL;
    strbuf_fini(&d->line);
    strbuf_fini(&d->words);
    arena_fini(&d->scratch);
    fleet_done(d->node, ours ? &none : e);
}

static void on_room(struct transport_run *r, void *ctx) {
    struct download *d = ctx;
    const struct strbuf *input = d->list->input;
    while (d->sent < input->len) {
        size_t n = transport_run_send(r, input->data + d->sent, input->len - d->sent);
        d->sent += n;
        if (n == 0)
            return;
    }
}

static int take_hash(struct download *d, const struct json *j, struct err *e) {
    int64_t i = json_get_int(j, "i", -1);
    const char *hex = json_get_str(j, "sha256", "");
    const struct input_remote_list *list = d->list;
    unsigned char hash[HASH_BYTES];
    if (i < 0 || (uint64_t)i >= list->count || !hash_is_hex(hex))
        return err_set(e, ERR_FORMAT, "dtdata answers with an object that it was not asked for");
    if (str_unhex(hash, HASH_BYTES, hex, e) < 0)
        return -1;
    size_t at = list->entries ? list->entries[i] : (size_t)i;
    struct manifest_entry *entry = &list->files->entries[at];
    d->known++;
    if (list->came && list->came[at] && memcmp(entry->hash, hash, HASH_BYTES) != 0)
        return err_set(e, ERR_HASH, "'%s' is another one than the node before has read",
                       entry->source);
    if (list->came)
        list->came[at] = true;
    memcpy(entry->hash, hash, HASH_BYTES);
    return 0;
}

static int take_line(struct download *d, struct err *e) {
    struct json *j;
    arena_reset(&d->scratch);
    if (json_parse(&d->scratch, d->line.data, d->line.len, &j, e) < 0)
        return -1;
    strbuf_clear(&d->words);
    strbuf_add(&d->words, d->line.data, d->line.len);
    if (json_get(j, "i"))
        return take_hash(d, j, e);
    if (json_get(j, "total"))
        fleet_amount(d->node, (uint64_t)json_get_int(j, "done", 0),
                     (uint64_t)json_get_int(j, "total", 0));
    if (json_get(j, "end")) {
        d->ended = true;
        d->read = (uint64_t)json_get_int(j, "read", 0);
        d->again = (uint64_t)json_get_int(j, "again", 0);
    }
    return 0;
}

static void on_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    struct download *d = ctx;
    struct err e = {0};
    (void)r;
    for (const char *c = p; len; c++, len--) {
        if (*c != '\n') {
            strbuf_addc(&d->line, *c);
            if (d->line.len <= INPUT_REMOTE_ANSWER_BYTES_MAX)
                continue;
            err_set(&e, ERR_LIMIT, "dtdata answers with a line of more than %d bytes",
                    INPUT_REMOTE_ANSWER_BYTES_MAX);
        }
        if (e.code || take_line(d, &e) < 0) {
            finish(d, &e);
            return;
        }
        strbuf_clear(&d->line);
    }
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct download *d = ctx;
    struct transport_result result = {
        .end = *end, .out = strbuf_cstr(&d->words), .out_len = d->words.len, .err_text = ""};
    struct err e = {0};
    (void)r;
    if (fleet_answer(&result, &e) == 0 && (!d->ended || d->known != d->list->count))
        err_set(&e, ERR_NO_STATUS, "dtdata ended without an answer");
    d->run = NULL;
    finish(d, &e);
}

static int start(struct fleet_node *n, struct err *e) {
    static const struct transport_run_events events = {
        .on_output = on_output, .on_room = on_room, .on_end = on_end};
    struct download *d = n->work;
    struct arena *a = n->fleet->context->arena;
    if (d->list->count == 0) {
        fleet_done(n, NULL);
        return 0;
    }
    // From its beginning, also when the connection was lost: the store has what came.
    *d = (struct download){.node = n, .list = d->list};
    if (!str_ends(strbuf_cstr(d->list->input), INPUT_REMOTE_END))
        strbuf_adds(d->list->input, INPUT_REMOTE_END);
    const char *program = file_join(a, n->facts.root, embedded_program_path(a, "dtdata"));
    struct transport_command command = {
        .line = arena_printf(a, "%s get %s", transport_path_word(a, program),
                             transport_path_word(a, file_join(a, n->facts.root, "cas")))};
    d->run = transport_run(n->link, &command, &events, d, e);
    if (!d->run)
        return -1;
    on_room(d->run, d);
    return 0;
}

static void release(struct download *d) {
    if (d->run)
        transport_run_close(d->run); // the step was interrupted
    strbuf_fini(&d->line);
    strbuf_fini(&d->words);
    arena_fini(&d->scratch);
    d->node->work = NULL;
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
    struct download *all = arena_new(l->context->arena, struct download, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        all[i] = (struct download){.node = &f->nodes[i], .list = &lists[i]};
        f->nodes[i].work = &all[i];
    }
    int result = fleet_each_resumed(f, "download", start, e);
    for (size_t i = 0; i < f->count; i++) {
        l->downloaded += all[i].read;
        l->again += all[i].again;
        release(&all[i]);
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
    size_t *parts = arena_new(l->context->arena, size_t, f->count + 1);
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
