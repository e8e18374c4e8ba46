// SPDX-License-Identifier: Apache-2.0
// Collects the lists of streamed inputs, and starts the programs that serve them.
#include "run/inputs/input_stream.h"

#include "base/clock.h"
#include "data/shard_index.h"
#include "fleet/embedded_files.h"
#include "protocol/source_frames.h"
#include "run/dtdata.h"
#include "run/inputs/input_lists.h"
#include "run/inputs/input_remote.h"
#include "run/inputs/input_source.h"
#include "sys/file.h"

#include <string.h>

bool input_stream_is_index(const struct manifest_entry *entry) {
    return entry->kind == MANIFEST_FILE && strcmp(file_base(entry->path), SHARD_INDEX_FILE) == 0;
}

static bool has_index(const struct manifest *m, const char *path) {
    size_t dir = (size_t)(file_base(path) - path);
    for (size_t i = 0; i < m->count; i++) {
        const char *other = m->entries[i].path;
        if (input_stream_is_index(&m->entries[i]) && (size_t)(file_base(other) - other) == dir &&
            memcmp(other, path, dir) == 0)
            return true;
    }
    return false;
}

// The native trainer reads shards of the top, or of a folder like train, by the index beside them.
static int check_native(const struct run_start_input *in, struct err *e) {
    const struct manifest *m = in->manifest;
    const char *checked = NULL; // a path in the folder that was looked at last
    for (size_t i = 0; i < m->count; i++) {
        const char *path = m->entries[i].path, *base = file_base(path), *slash = strchr(path, '/');
        bool same = checked && file_base(checked) - checked == base - path &&
                    memcmp(checked, path, (size_t)(base - path)) == 0;
        if (!str_ends(path, ".tar") || same || (slash && slash + 1 != base))
            continue;
        checked = path;
        if (!has_index(m, path))
            return err_set(e, ERR_CONFIG,
                           "deliver = %s: the native trainer reads '%s' by the file '%.*s%s', "
                           "and '%s' has none " SHARD_INDEX_TRY,
                           in->config->deliver, path, (int)(base - path), path, SHARD_INDEX_FILE,
                           in->source);
    }
    return checked ? 0
                   : err_set(e, ERR_CONFIG,
                             "deliver = %s: the native trainer reads webdataset shards (.tar) as "
                             "they come, and '%s' has none (try: dtctl data pack, or deliver = "
                             "copy)",
                             in->config->deliver, in->source);
}

// Entries of a folder here that have no content of their own.
static int check_links(const struct run_start_input *in, struct err *e) {
    const struct manifest *m = in->manifest;
    for (size_t i = 0; i < m->count; i++)
        if (m->entries[i].kind == MANIFEST_LINK)
            return err_set(e, ERR_CONFIG,
                           "deliver = %s: '%s' is a symbolic link, and files alone are streamed "
                           "(try: exclude, or deliver = copy)",
                           in->config->deliver, m->entries[i].path);
    return 0;
}

int input_stream_check(const struct run_start *l, const struct run_start_input *in, struct err *e) {
    uint64_t cache_max = (uint64_t)in->config->cache_max;
    char limit[STR_HUMAN_BYTES_MAX], size[STR_HUMAN_BYTES_MAX];
    if ((l->native && check_native(in, e) < 0) || check_links(in, e) < 0)
        return -1;
    for (size_t i = 0; cache_max && i < in->manifest->count; i++)
        if (in->manifest->entries[i].size > cache_max)
            return err_set(e, ERR_CONFIG, "cache_max = %s does not hold '%s', which has %s",
                           str_human_bytes(limit, cache_max), in->manifest->entries[i].path,
                           str_human_bytes(size, in->manifest->entries[i].size));
    return 0;
}

const char *input_stream_path(const struct run_start *l, const struct run_start_input *in) {
    struct arena *a = l->context->arena;
    return run_node_dir(a, l->run.id, arena_printf(a, "stream/%s", in->name));
}

// ---- the lists ----------------------------------------------------------------------------------

// from: the list that has the objects; NULL: they are files of this computer.
static void begin_input(struct strbuf *out, const struct run_start_input *in,
                        const struct input_remote *from) {
    struct json_out j;
    if (!out->len)
        strbuf_adds(out, SOURCE_CLOCK_LINE);
    strbuf_adds(out, from ? from->header : "");
    json_open(&j, out);
    json_object(&j, NULL);
    json_str(&j, "input", in->name);
    json_int(&j, "window", in->config->window);
    json_int(&j, "cache_max", in->config->cache_max);
    json_int(&j, "ends", from ? from->ends_ms : 0);
    json_end(&j);
    strbuf_addc(out, '\n');
}

// A file of this computer, which has no address: its name on the nodes is its SHA-256.
static int add_file(struct run_start *l, struct run_start_stream *x, struct run_start_input *in,
                    const struct manifest_entry *entry, struct err *e) {
    size_t at = (size_t)(entry - in->manifest->entries);
    char hex[HASH_HEX_BYTES];
    struct json_out j;
    if (!in->files)
        in->files = arena_new(l->context->arena, int64_t, in->manifest->count);
    if (!in->files[at]) { // numbers of files begin with 0, and those kept here with 1
        int64_t number = input_source_add(&l->sources, &l->source_count, entry, e);
        if (number < 0)
            return -1;
        in->files[at] = number + 1;
    }
    hash_hex(hex, entry->hash);
    json_open(&j, &x->input);
    json_object(&j, NULL);
    json_int(&j, "index", (int64_t)input_lists_number(l, in, at));
    json_str(&j, "path", entry->path);
    json_str(&j, "name", entry->path);
    json_int(&j, "file", in->files[at] - 1);
    json_int(&j, "size", (int64_t)entry->size);
    json_str(&j, "etag", hex);
    json_str(&j, "id", hex);
    json_str(&j, "sha256", hex);
    json_end(&j);
    strbuf_addc(&x->input, '\n');
    return 0;
}

int input_stream_add(struct run_start *l, size_t node, struct run_start_input *in,
                     const struct manifest_entry *entry, struct err *e) {
    if (!l->streams)
        l->streams = arena_new(l->context->arena, struct run_start_stream, l->node_count + 1);
    struct run_start_stream *x = &l->streams[node];
    if (x->newest != in)
        begin_input(&x->input, in, in->remote);
    x->newest = in;
    if (++x->objects > INPUT_STREAM_OBJECTS_MAX)
        return err_set(e, ERR_LIMIT, "a node would have more than %d streamed objects",
                       INPUT_STREAM_OBJECTS_MAX);
    if (!in->remote)
        return add_file(l, x, in, entry, e);
    const struct input_remote_object *o = input_remote_find(in->remote, entry->path);
    must(o);
    input_remote_numbered_line(o->line, entry - in->manifest->entries, &x->input);
    return 0;
}

// ---- the list of a node that comes later --------------------------------------------------------

static const struct run_start_input *input_named(const struct run_start *l, const char *name) {
    for (size_t i = 0; i < l->input_count; i++)
        if (strcmp(l->inputs[i].name, name) == 0)
            return &l->inputs[i];
    return NULL;
}

// Lines of a server's objects get new addresses, those of files of this computer stay.
static int renew_line(const struct run_start *l, const struct json *j, const char *line, size_t len,
                      const struct run_start_input **in, struct strbuf *out, struct err *e) {
    const char *name = json_get_str(j, "input", NULL);
    if (name) {
        *in = input_named(l, name);
        must(*in);
        begin_input(out, *in, (*in)->remote ? (*in)->again : NULL);
        return 0;
    }
    if (json_get(j, "ca") || json_get(j, "now")) // begin_input writes them
        return 0;
    if (!*in || !(*in)->remote || !json_get(j, "path")) {
        strbuf_add(out, line, len);
        return 0;
    }
    const struct input_remote_object *o = input_remote_again(*in, json_get_str(j, "path", ""), e);
    if (o)
        input_remote_numbered_line(o->line, json_get_int(j, "index", -1), out);
    return o ? 0 : -1;
}

int input_stream_again(const struct run_start *l, size_t node, struct strbuf *out, struct err *e) {
    const struct strbuf *text = &l->streams[node].input;
    const struct run_start_input *in = NULL;
    struct arena scratch = {0};
    int result = 0;
    for (size_t at = 0; result == 0 && at < text->len;) {
        const char *line = text->data + at, *end = memchr(line, '\n', text->len - at);
        struct json *j;
        must(end);
        size_t len = (size_t)(end + 1 - line);
        result = json_parse(&scratch, line, len - 1, &j, e);
        if (result == 0)
            result = renew_line(l, j, line, len, &in, out, e);
        arena_reset(&scratch);
        at += len;
    }
    arena_fini(&scratch);
    return result;
}

// ---- the programs -------------------------------------------------------------------------------

static void on_answer(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct err e = {0};
    if (fleet_answer(r, &e) < 0)
        err_wrap(&e, "streamed inputs");
    fleet_done(n, &e);
}

int input_stream_serve(const struct run_start *l, struct fleet_node *n, struct strbuf *input,
                       transport_collect_cb *done, void *ctx, struct err *e) {
    struct arena *a = n->fleet->context->arena;
    const char *program = file_join(a, n->facts.root, embedded_program_path(a, DTDATA_PROGRAM));
    const char *run_dir = file_join(a, n->facts.root, run_node_dir(a, l->run.id, ""));
    const char *line = arena_printf(a, "%s serve %s %s", transport_path_word(a, program),
                                    transport_path_word(a, file_join(a, n->facts.root, "cas")),
                                    transport_path_word(a, run_dir));
    source_clock_set(input->data, clock_wall_ms());
    return transport_collect(n->link, line, strbuf_cstr(input), input->len, done, ctx, e);
}

static int start(struct fleet_node *n, struct err *e) {
    struct run_start *l = n->work;
    return input_stream_serve(l, n, &l->streams[n->index].input, on_answer, n, e);
}

int input_stream_start(struct run_start *l, struct fleet *f, struct err *e) {
    if (!l->streams)
        return 0;
    if (l->source_count && input_source_save(l->context, &l->run, &l->sources, e) < 0)
        return -1;
    for (size_t i = 0; i < f->count; i++) {
        f->nodes[i].work = l;
        strbuf_adds(&l->streams[i].input, INPUT_REMOTE_END);
    }
    int result = fleet_each(f, "stream", start, e);
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = NULL;
    return result;
}

void input_stream_close(struct run_start *l) {
    for (size_t n = 0; l->streams && n < l->node_count; n++)
        strbuf_fini(&l->streams[n].input);
    l->streams = NULL;
    strbuf_fini(&l->sources);
}
