// SPDX-License-Identifier: Apache-2.0
// Lists of the files that nodes have of copied inputs.
#include "run/inputs/input_lists.h"

#include "base/json.h"
#include "run/inputs/input_fanout.h"
#include "run/inputs/input_keep.h"
#include "sys/file.h"

#include <string.h>

bool input_lists_has(const struct run_start_input *in) {
    return !in->elastic && !config_input_is_streamed(in->config);
}

// ---- one list -----------------------------------------------------------------------------------

// The index of a path in the whole input, which is sorted; -1: none of it.
static int64_t find(const struct manifest *m, const char *path) {
    size_t i = manifest_lower_bound(m, path);
    return i < m->count && strcmp(m->entries[i].path, path) == 0 ? (int64_t)i : -1;
}

size_t input_lists_number(struct run_start *l, struct run_start_input *in, size_t entry) {
    size_t count = 0;
    if (!in->numbers) {
        in->numbers = arena_new(l->context->arena, size_t, in->manifest->count);
        for (size_t i = 0; i < in->manifest->count; i++) {
            in->numbers[i] = count;
            count += in->manifest->entries[i].kind != MANIFEST_FOLDER;
        }
    }
    return in->numbers[entry];
}

static void add_line(struct run_start *l, struct strbuf *text, struct run_start_input *in,
                     const char *path, const struct manifest_entry *entry) {
    char hex[HASH_HEX_BYTES];
    struct json_out j;
    int64_t index = find(in->manifest, path);
    if (entry->kind != MANIFEST_FILE || index < 0)
        return;
    hash_hex(hex, entry->hash);
    json_open(&j, text);
    json_object(&j, NULL);
    json_str(&j, "path", path);
    json_int(&j, "size", (int64_t)entry->size);
    json_str(&j, "sha256", hex);
    json_int(&j, "index", (int64_t)input_lists_number(l, in, (size_t)index));
    json_end(&j);
    strbuf_addc(text, '\n');
}

const char *input_lists_folder(struct arena *a, const struct run_start_input *in) {
    bool file = in->remote && !in->remote->folder;
    return file ? file_dir(a, in->path) : in->path;
}

// The files of the input on the node, with their paths there; NULL: those of in->manifest.
static const struct manifest *placed(struct run_start *l, const struct run_start_input *in,
                                     size_t node) {
    if (in->held)
        return in->share ? input_keep_shard(l, node) : NULL;
    if (!in->remote)
        return in->share ? l->shards[node] : NULL;
    return in->share ? l->remote[node].files : input_fanout_files(l);
}

static void make_list(struct run_start *l, struct run_start_input *in, size_t node,
                      struct strbuf *text) {
    struct arena a = {0};
    const struct manifest *m = placed(l, in, node);
    const char *folder = input_lists_folder(&a, in);
    size_t len = strlen(folder);
    for (size_t i = 0; !m && i < in->manifest->count; i++)
        add_line(l, text, in, in->manifest->entries[i].path, &in->manifest->entries[i]);
    for (size_t i = 0; m && i < m->count; i++) {
        const char *path = m->entries[i].path;
        if (strncmp(path, folder, len) == 0 && path[len] == '/')
            add_line(l, text, in, path + len + 1, &m->entries[i]);
    }
    arena_fini(&a);
}

// ---- all of them --------------------------------------------------------------------------------

static int add_node(struct run_start *l, size_t node, struct err *e) {
    struct arena *a = l->context->arena;
    struct strbuf text = {0};
    struct manifest *m = l->listed[node] = manifest_new();
    int result = 0;
    for (size_t i = 0; result == 0 && i < l->input_count; i++) {
        struct run_start_input *in = &l->inputs[i];
        if (!input_lists_has(in))
            continue;
        strbuf_clear(&text);
        make_list(l, in, node, &text);
        const char *path = job_input_list(a, run_node_dir(a, l->run.id, ""), in->name);
        result = manifest_add_bytes(m, path, arena_strndup(a, strbuf_cstr(&text), text.len),
                                    text.len, 0644, e);
    }
    strbuf_fini(&text);
    if (result == 0 && manifest_sort(m, e) < 0)
        return -1;
    return result == 0 ? manifest_hash(m, NULL, NULL, NULL, e) : -1;
}

int input_lists_send(struct run_start *l, struct fleet *f, struct err *e) {
    bool any = false;
    struct transfer_totals totals = {0};
    for (size_t i = 0; i < l->input_count; i++)
        any |= input_lists_has(&l->inputs[i]);
    if (!any)
        return 0;
    l->listed = arena_new(l->context->arena, struct manifest *, l->node_count + 1);
    for (size_t n = 0; n < l->node_count; n++)
        if (add_node(l, n, e) < 0)
            return -1;
    return fleet_send_manifests(f, NULL, l->listed, "", XFER_MERGE, &totals, e);
}

void input_lists_close(struct run_start *l) {
    for (size_t n = 0; l->listed && n < l->node_count; n++)
        if (l->listed[n])
            manifest_free(l->listed[n]);
    l->listed = NULL;
}
