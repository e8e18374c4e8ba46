// SPDX-License-Identifier: Apache-2.0
// Writes and compares the records of inputs.
#include "run/inputs/input_record.h"

#include "sys/file.h"

#include <string.h>

static const char FILE_NAME[] = "inputs.json";

static void add_shares(const struct run_start *l, const struct run_start_input *in,
                       struct json_out *j) {
    char hex[HASH_HEX_BYTES];
    json_array(j, "shares");
    for (size_t n = 0; n < l->node_count; n++) {
        json_object(j, NULL);
        json_str(j, "node", l->run.nodes[n]);
        json_int(j, "files", (int64_t)in->share[n].files);
        if (in->samples)
            json_int(j, "samples", (int64_t)in->share[n].samples);
        json_int(j, "bytes", (int64_t)in->share[n].bytes);
        hash_hex(hex, in->share[n].digest);
        if (!in->samples)
            json_str(j, "digest", hex);
        json_end(j);
    }
    json_end(j);
}

void input_record_json(const struct run_start *l, struct json_out *j) {
    json_array(j, "inputs");
    char hex[HASH_HEX_BYTES];
    for (size_t i = 0; i < l->input_count; i++) {
        const struct run_start_input *in = &l->inputs[i];
        hash_hex(hex, in->digest); // of objects from a server: of their names, ETags and sizes
        json_object(j, NULL);
        json_str(j, "name", in->name);
        json_str(j, "source", in->config->source);
        json_str(j, "mode", in->share ? "sharded" : "replicated");
        json_int(j, "files", (int64_t)in->manifest->files);
        json_int(j, "bytes", (int64_t)in->manifest->bytes);
        json_str(j, "digest", hex);
        json_bool(j, "folder", in->is_folder);
        if (in->kept)
            json_str(j, "kept_from", in->kept);
        if (in->samples)
            json_int(j, "samples", (int64_t)in->samples);
        if (in->run)
            json_str(j, "run", in->run);
        if (in->elastic)
            json_int(j, "replicas", in->config->replicas);
        if (in->share)
            add_shares(l, in, j);
        json_end(j);
    }
    json_end(j);
}

int input_record_save(const struct run_start *l, struct err *e) {
    struct strbuf text = {0};
    struct json_out j;
    if (l->input_count == 0)
        return 0;
    json_open(&j, &text);
    json_object(&j, NULL);
    input_record_json(l, &j);
    json_end(&j);
    strbuf_adds(&text, "\n");
    int result = file_write_atomic(run_path(&l->context->cluster, &l->run, FILE_NAME),
                                   strbuf_cstr(&text), text.len, 0600, e);
    strbuf_fini(&text);
    return result;
}

// ---- the run before -----------------------------------------------------------------------------

static const struct json *read_record(struct run_start *l, const struct run *r) {
    struct arena *a = l->context->arena;
    struct err ignored = {0};
    struct json *record = NULL;
    char *text;
    size_t len;
    return file_read(a, run_path(&l->context->cluster, r, FILE_NAME), INPUT_RECORD_BYTES_MAX, &text,
                     &len, &ignored) == 0 &&
                   json_parse(a, text, len, &record, &ignored) == 0
               ? json_get(record, "inputs")
               : NULL;
}

static const struct json *find(const struct json *inputs, const char *name) {
    for (const struct json *x = inputs ? inputs->child : NULL; x; x = x->next)
        if (strcmp(json_get_str(x, "name", ""), name) == 0)
            return x;
    return NULL;
}

const struct json *input_record_before(struct run_start *l, const struct run *r, const char *name) {
    return find(read_record(l, r), name);
}

static int compare(struct run_start *l, const struct run *before, const struct json *inputs,
                   struct err *e) {
    char hex[HASH_HEX_BYTES];
    for (size_t i = 0; i < l->input_count; i++) {
        struct run_start_input *in = &l->inputs[i];
        const struct json *record = find(inputs, in->name);
        const char *old = record ? json_get_str(record, "digest", NULL) : NULL;
        hash_hex(hex, in->digest);
        if (old && strcmp(old, hex) == 0)
            in->same_as = before->id;
        if (!old || in->kept || in->same_as)
            continue;
        in->changed_since = before->id;
        if (in->config->on_change == CONFIG_CHANGE_REFUSE)
            return err_set(
                e, ERR_CONFIG,
                "input '%s': '%s' is not what run '%s' had, and on_change = refuse (try: "
                "the old files, or --set inputs.%s.on_change=resend)",
                in->name, in->config->source, before->id, in->name);
    }
    return 0;
}

int input_record_compare(struct run_start *l, struct err *e) {
    struct run_walk walk;
    struct run r;
    if (l->input_count == 0)
        return 0;
    if (run_walk_open(&walk, &l->context->cluster, e) < 0)
        return -1;
    while (run_walk_next(&walk, &r)) {
        const struct json *inputs = strcmp(r.name, l->run.name) == 0 ? read_record(l, &r) : NULL;
        if (inputs)
            return compare(l, &r, inputs, e);
    }
    return 0;
}
