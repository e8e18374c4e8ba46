// SPDX-License-Identifier: Apache-2.0
// Parses and writes the header of safetensors files.
#include "nn/safetensors.h"

#include "base/json.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} types[SAFETENSORS_TYPES] = {
    [SAFETENSORS_BOOL] = {"BOOL", 1}, [SAFETENSORS_U8] = {"U8", 1},
    [SAFETENSORS_I8] = {"I8", 1},     [SAFETENSORS_I16] = {"I16", 2},
    [SAFETENSORS_U16] = {"U16", 2},   [SAFETENSORS_F16] = {"F16", 2},
    [SAFETENSORS_BF16] = {"BF16", 2}, [SAFETENSORS_I32] = {"I32", 4},
    [SAFETENSORS_U32] = {"U32", 4},   [SAFETENSORS_F32] = {"F32", 4},
    [SAFETENSORS_F64] = {"F64", 8},   [SAFETENSORS_I64] = {"I64", 8},
    [SAFETENSORS_U64] = {"U64", 8},
};

const char *safetensors_type_name(enum safetensors_type type) {
    return types[type].name;
}

size_t safetensors_type_bytes(enum safetensors_type type) {
    return types[type].bytes;
}

static int safetensors_type_find(const char *name) {
    for (int t = 0; t < SAFETENSORS_TYPES; t++)
        if (strcmp(types[t].name, name) == 0)
            return t;
    return -1;
}

static int parse_meta(struct arena *a, const struct json *j, struct safetensors_header *out,
                      struct err *e) {
    if (j->type != JSON_OBJECT)
        return err_set(e, ERR_FORMAT, "__metadata__ is not an object");
    out->meta = arena_new(a, struct safetensors_meta, j->len + 1);
    for (const struct json *m = j->child; m; m = m->next) {
        if (m->type != JSON_STR)
            return err_set(e, ERR_FORMAT, "__metadata__: the value of '%.64s' is not a string",
                           str_printable(a, m->key, strlen(m->key)));
        out->meta[out->meta_count++] = (struct safetensors_meta){m->key, m->str};
    }
    return 0;
}

static int parse_unsigned(const struct json *j, uint64_t *out) {
    if (j->type != JSON_INT || j->integer < 0)
        return -1;
    *out = (uint64_t)j->integer;
    return 0;
}

static int parse_shape(const struct json *j, struct safetensors_tensor *t, struct err *e) {
    const struct json *shape = json_get(j, "shape");
    if (!shape || shape->type != JSON_ARRAY)
        return err_set(e, ERR_FORMAT, "shape is missing or not an array");
    if (shape->len > SAFETENSORS_DIMS_MAX)
        return err_set(e, ERR_LIMIT, "%zu dimensions, more than %d", shape->len,
                       SAFETENSORS_DIMS_MAX);
    for (const struct json *d = shape->child; d; d = d->next)
        if (parse_unsigned(d, &t->dim[t->ndim++]) < 0)
            return err_set(e, ERR_FORMAT, "a dimension is not a non-negative whole number");
    return 0;
}

static int parse_tensor(const struct json *j, struct safetensors_tensor *t, struct err *e) {
    if (j->type != JSON_OBJECT)
        return err_set(e, ERR_FORMAT, "not an object");
    for (const struct json *m = j->child; m; m = m->next)
        if (!str_eq(m->key, "dtype") && !str_eq(m->key, "shape") && !str_eq(m->key, "data_offsets"))
            return err_set(e, ERR_FORMAT, "has a member other than dtype, shape, data_offsets");
    if (j->len != 3)
        return err_set(e, ERR_FORMAT, "needs dtype, shape and data_offsets, once each");
    int type = safetensors_type_find(json_get_str(j, "dtype", ""));
    if (type < 0)
        return err_set(e, ERR_FORMAT, "unknown dtype");
    t->type = (enum safetensors_type)type;
    if (parse_shape(j, t, e) < 0)
        return -1;
    const struct json *at = json_get(j, "data_offsets");
    if (!at || at->type != JSON_ARRAY || at->len != 2 || parse_unsigned(at->child, &t->begin) < 0 ||
        parse_unsigned(at->child->next, &t->end) < 0 || t->end < t->begin)
        return err_set(e, ERR_FORMAT, "data_offsets is not [begin, end]");
    uint64_t bytes = types[type].bytes;
    for (int i = 0; i < t->ndim; i++)
        if (__builtin_mul_overflow(bytes, t->dim[i], &bytes))
            return err_set(e, ERR_LIMIT, "shape overflows 64 bits");
    if (bytes != t->end - t->begin)
        return err_set(e, ERR_FORMAT, "shape and dtype need %llu bytes, data_offsets give %llu",
                       (unsigned long long)bytes, (unsigned long long)(t->end - t->begin));
    return 0;
}

static int by_name(const void *a, const void *b) {
    const struct safetensors_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int by_begin(const void *a, const void *b) {
    const struct safetensors_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end; // empty tensors first
}

static int check_names(struct arena *a, struct safetensors_header *h, struct err *e) {
    struct safetensors_tensor **sorted = arena_new(a, struct safetensors_tensor *, h->count + 1);
    for (size_t i = 0; i < h->count; i++)
        sorted[i] = &h->tensors[i];
    qsort(sorted, h->count, sizeof *sorted, by_name);
    for (size_t i = 1; i < h->count; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            return err_set(e, ERR_FORMAT, "tensor '%s' is listed twice",
                           str_printable(a, sorted[i]->name, strlen(sorted[i]->name)));
    return 0;
}

static int check_cover(struct arena *a, struct safetensors_header *h, uint64_t data_bytes,
                       struct err *e) {
    if (h->count)
        qsort(h->tensors, h->count, sizeof *h->tensors, by_begin);
    uint64_t at = 0;
    for (size_t i = 0; i < h->count; i++) {
        const struct safetensors_tensor *t = &h->tensors[i];
        if (t->begin != at)
            return err_set(e, ERR_FORMAT,
                           "tensor '%s' begins at %llu instead of %llu: hole or overlap",
                           str_printable(a, t->name, strlen(t->name)), (unsigned long long)t->begin,
                           (unsigned long long)at);
        at = t->end;
    }
    if (at != data_bytes)
        return err_set(e, ERR_FORMAT, "the header describes %llu bytes of data, the file has %llu",
                       (unsigned long long)at, (unsigned long long)data_bytes);
    return 0;
}

int safetensors_parse(struct arena *a, const char *json, size_t len, uint64_t data_bytes,
                      struct safetensors_header *out, struct err *e) {
    *out = (struct safetensors_header){0};
    if (len > SAFETENSORS_HEADER_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "header of %zu bytes, more than %d", len,
                       SAFETENSORS_HEADER_BYTES_MAX);
    if (len == 0 || json[0] != '{')
        return err_set(e, ERR_FORMAT, "the header is not a JSON object: not a safetensors file?");
    struct json *root;
    if (json_parse(a, json, len, &root, e) < 0)
        return err_wrap(e, "header");
    if (root->type != JSON_OBJECT)
        return err_set(e, ERR_FORMAT, "the header is not a JSON object");
    if (root->len > SAFETENSORS_TENSORS_MAX)
        return err_set(e, ERR_LIMIT, "%zu tensors, more than %d", root->len,
                       SAFETENSORS_TENSORS_MAX);
    out->tensors = arena_new(a, struct safetensors_tensor, root->len + 1);
    for (const struct json *m = root->child; m; m = m->next) {
        if (strcmp(m->key, "__metadata__") == 0) {
            if (out->meta)
                return err_set(e, ERR_FORMAT, "__metadata__ is listed twice");
            if (parse_meta(a, m, out, e) < 0)
                return -1;
            continue;
        }
        size_t name_len = strlen(m->key);
        char *shown = str_printable(a, m->key, name_len < 64 ? name_len : 64);
        if (name_len == 0 || name_len > SAFETENSORS_NAME_BYTES_MAX)
            return err_set(e, ERR_LIMIT, "tensor name '%s…' has %zu bytes, not 1 to %d", shown,
                           name_len, SAFETENSORS_NAME_BYTES_MAX);
        struct safetensors_tensor *t = &out->tensors[out->count++];
        t->name = m->key;
        if (parse_tensor(m, t, e) < 0)
            return err_wrap(e, "tensor '%s'", shown);
    }
    if (check_names(a, out, e) < 0)
        return -1;
    return check_cover(a, out, data_bytes, e);
}

const struct safetensors_tensor *safetensors_find(const struct safetensors_header *h,
                                                  const char *name) {
    for (size_t i = 0; i < h->count; i++)
        if (strcmp(h->tensors[i].name, name) == 0)
            return &h->tensors[i];
    return NULL;
}

const char *safetensors_get_meta(const struct safetensors_header *h, const char *key) {
    for (size_t i = 0; i < h->meta_count; i++)
        if (strcmp(h->meta[i].key, key) == 0)
            return h->meta[i].value;
    return NULL;
}
