// SPDX-License-Identifier: Apache-2.0
// Lists objects by the dtdata that dtctl carries, and collects what each node has to read.
#include "run/inputs/input_remote.h"

#include "fleet/embedded_files.h"
#include "run/dtdata.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

bool input_remote_is(const char *source) {
    return str_starts(source, "s3://") || str_starts(source, "https://");
}

// ---- the list -----------------------------------------------------------------------------------

static int by_path(const void *x, const void *y) {
    return strcmp(((const struct input_remote_object *)x)->path,
                  ((const struct input_remote_object *)y)->path);
}

static int add_object(struct arena *a, struct input_remote *r, const struct json *j,
                      const char *line, struct manifest *m, struct err *e) {
    const char *path = json_get_str(j, "path", ""), *id = json_get_str(j, "id", "");
    const char *name = json_get_str(j, "name", "");
    int64_t size = json_get_int(j, "size", -1);
    struct manifest_entry entry = {
        .path = path, .size = (uint64_t)size, .mode = 0644, .kind = MANIFEST_FILE, .hashed = true};
    if (size < 0 || !file_is_safe_relative(path, strlen(path)) || !hash_is_hex(id) ||
        str_unhex(entry.hash, HASH_BYTES, id, e) < 0)
        return err_set(e, ERR_FORMAT, "the list of objects has a line that is none");
    // Never read here; an error that names it would name the object.
    entry.source = arena_strdup(a, name);
    r->objects[r->count++] =
        (struct input_remote_object){arena_strdup(a, path), entry.source, line, {0}};
    memcpy(r->objects[r->count - 1].id, entry.hash, HASH_BYTES);
    return m ? manifest_append(m, &entry, e) : 0;
}

int input_remote_parse(struct arena *a, const char *text, struct input_remote *r,
                       struct manifest *m, struct err *e) {
    struct arena scratch = {0};
    size_t lines = 0;
    bool ended = false;
    int result = 0;
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        lines++;
    r->objects = arena_new(a, struct input_remote_object, lines + 1);
    for (const char *line = text, *end; result == 0 && !ended && (end = strchr(line, '\n'));
         line = end + 1) {
        struct json *j;
        arena_reset(&scratch);
        const char *own = arena_strndup(a, line, (size_t)(end + 1 - line));
        if (json_parse(&scratch, line, (size_t)(end - line), &j, e) < 0)
            result = -1;
        else if (json_get(j, "end"))
            ended = true;
        else if (!r->header) {
            r->header = own;
            r->folder = json_get_bool(j, "folder", false);
            r->ends_ms = json_get_int(j, "ends", 0);
        } else
            result = add_object(a, r, j, own, m, e);
    }
    arena_fini(&scratch);
    if (result == 0 && !ended)
        result = err_set(e, ERR_FORMAT, "the list of objects was cut off");
    qsort(r->objects, r->count, sizeof *r->objects, by_path);
    return result;
}

int input_remote_list(struct context *s, const char *source, struct input_remote **out,
                      struct manifest *m, struct err *e) {
    const char *args[] = {"list", source, NULL};
    char *text = NULL;
    *out = arena_new(s->arena, struct input_remote, 1);
    const struct dtdata_call call = {
        .args = args, .bytes_max = INPUT_REMOTE_LIST_BYTES_MAX, .ms_max = INPUT_REMOTE_LIST_MS_MAX};
    int result = dtdata_run(s, &call, &text, e);
    if (result == 0)
        result = input_remote_parse(s->arena, text, *out, m, e);
    free(text);
    return result;
}

// ---- what a node reads --------------------------------------------------------------------------

int input_remote_add_program(struct run_start *l, struct err *e) {
    bool has = l->has_dtdata;
    l->has_dtdata = true;
    return has ? 0 : embedded_add_program(l->common, l->context->arena, DTDATA_PROGRAM, e);
}

const struct input_remote_object *input_remote_find(const struct input_remote *from,
                                                    const char *path) {
    struct input_remote_object key = {.path = path};
    return from->count ? bsearch(&key, from->objects, from->count, sizeof key, by_path) : NULL;
}

// Without an ETag an object cannot be recognized: its size is compared.
static bool is_same(const struct input_remote_object *x, const struct input_remote_object *y) {
    struct arena a = {0};
    struct json *j, *k;
    struct err ignored;
    bool same = memcmp(x->id, y->id, HASH_BYTES) == 0;
    if (!same && json_parse(&a, x->line, strlen(x->line), &j, &ignored) == 0 &&
        json_parse(&a, y->line, strlen(y->line), &k, &ignored) == 0)
        same = !json_get_str(j, "etag", "")[0] && !json_get_str(k, "etag", "")[0] &&
               json_get_int(j, "size", -1) == json_get_int(k, "size", -2);
    arena_fini(&a);
    return same;
}

const struct input_remote_object *input_remote_again(const struct run_start_input *in,
                                                     const char *path, struct err *e) {
    const struct input_remote_object *old = input_remote_find(in->remote, path);
    const struct input_remote_object *now = input_remote_find(in->again, path);
    must(old);
    if (now && is_same(old, now))
        return now;
    err_set(e, now ? ERR_HASH : ERR_NOT_FOUND,
            "'%.300s' %s since the run began, and a new node needs it as it was (try: put it back, "
            "or start a new run)",
            old->name, now ? "has changed" : "was removed");
    return NULL;
}

void input_remote_known_line(const char *line, const unsigned char hash[HASH_BYTES],
                             struct strbuf *out) {
    char hex[HASH_HEX_BYTES];
    size_t len = strlen(line);
    must(str_ends(line, "}\n"));
    hash_hex(hex, hash);
    strbuf_add(out, line, len - 2);
    strbuf_addf(out, ",\"sha256\":\"%s\"}\n", hex);
}

void input_remote_numbered_line(const char *line, int64_t number, struct strbuf *out) {
    must(str_starts(line, "{"));
    strbuf_addf(out, "{\"index\":%lld,%s", (long long)number, line + 1);
}

int input_remote_add(struct run_start *l, size_t node, const struct input_remote *from,
                     const struct manifest_entry *entry, const char *path, struct err *e) {
    struct manifest_entry copy = *entry;
    if (!l->remote) {
        l->remote = arena_new(l->context->arena, struct run_start_remote, l->node_count + 1);
        for (size_t n = 0; n < l->node_count; n++)
            l->remote[n].files = manifest_new();
    }
    struct run_start_remote *r = &l->remote[node];
    const struct input_remote_object *o = input_remote_find(from, entry->path);
    must(o);
    copy.path = path;
    if (r->input.len == 0)
        strbuf_adds(&r->input, from->header);
    strbuf_adds(&r->input, o->line);
    return manifest_append(r->files, &copy, e);
}

void input_remote_close(struct run_start *l) {
    for (size_t n = 0; l->remote && n < l->node_count; n++) {
        manifest_free(l->remote[n].files);
        strbuf_fini(&l->remote[n].input);
    }
    l->remote = NULL;
}
