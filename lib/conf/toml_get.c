// SPDX-License-Identifier: Apache-2.0
// Reading values out of a TOML tree.
#include "conf/toml.h"

#include <string.h>

const char *toml_type_name(enum toml_type type) {
    static const char *const names[] = {
        [TOML_STRING] = "a string",
        [TOML_INT] = "an integer",
        [TOML_REAL] = "a float",
        [TOML_BOOL] = "a boolean",
        [TOML_DATETIME] = "a date with a time",
        [TOML_LOCAL_DATETIME] = "a local date with a time",
        [TOML_LOCAL_DATE] = "a local date",
        [TOML_LOCAL_TIME] = "a local time",
        [TOML_ARRAY] = "an array",
        [TOML_TABLE] = "a table",
    };
    return names[type];
}

static const struct toml *find(const struct toml *table, const char *key, size_t len) {
    if (!table || table->type != TOML_TABLE)
        return NULL;
    for (const struct toml *c = table->child; c; c = c->next)
        if (c->key_len == len && memcmp(c->key, key, len) == 0)
            return c;
    return NULL;
}

const struct toml *toml_member(const struct toml *table, const char *key) {
    return find(table, key, strlen(key));
}

const struct toml *toml_get(const struct toml *table, const char *path) {
    for (;;) {
        size_t len = strcspn(path, ".");
        table = find(table, path, len);
        if (!table || !path[len])
            return table;
        path += len + 1;
    }
}

const struct toml *toml_first(const struct toml *table, const char *path) {
    const struct toml *v = toml_get(table, path);
    return v && (v->type == TOML_ARRAY || v->type == TOML_TABLE) ? v->child : NULL;
}

const char *toml_get_str(const struct toml *table, const char *path, const char *absent) {
    const struct toml *v = toml_get(table, path);
    return v && v->type == TOML_STRING ? v->str : absent;
}

int64_t toml_get_int(const struct toml *table, const char *path, int64_t absent) {
    const struct toml *v = toml_get(table, path);
    return v && v->type == TOML_INT ? v->integer : absent;
}

double toml_get_real(const struct toml *table, const char *path, double absent) {
    const struct toml *v = toml_get(table, path);
    return v && (v->type == TOML_REAL || v->type == TOML_INT) ? v->real : absent;
}

bool toml_get_bool(const struct toml *table, const char *path, bool absent) {
    const struct toml *v = toml_get(table, path);
    return v && v->type == TOML_BOOL ? v->boolean : absent;
}

static int wrong_type(const char *path, const struct toml *v, enum toml_type want, struct err *e) {
    return err_set(e, ERR_FORMAT, "line %d: '%s' is %s, not %s", v->line, path,
                   toml_type_name(v->type), toml_type_name(want));
}

int toml_need_str(const struct toml *table, const char *path, const char **out, struct err *e) {
    const struct toml *v = toml_get(table, path);
    if (!v)
        return err_set(e, ERR_FORMAT, "'%s' is missing", path);
    if (v->type != TOML_STRING)
        return wrong_type(path, v, TOML_STRING, e);
    if (strlen(v->str) != v->len)
        return err_set(e, ERR_FORMAT, "line %d: '%s' contains a NUL", v->line, path);
    *out = v->str;
    return 0;
}

int toml_need_int(const struct toml *table, const char *path, int64_t min, int64_t max,
                  int64_t *out, struct err *e) {
    const struct toml *v = toml_get(table, path);
    if (!v)
        return err_set(e, ERR_FORMAT, "'%s' is missing", path);
    if (v->type != TOML_INT)
        return wrong_type(path, v, TOML_INT, e);
    if (v->integer < min || v->integer > max)
        return err_set(e, ERR_FORMAT, "line %d: '%s': %lld is outside %lld to %lld", v->line, path,
                       (long long)v->integer, (long long)min, (long long)max);
    *out = v->integer;
    return 0;
}

int toml_need_strs(struct arena *a, const struct toml *table, const char *path, char ***out,
                   size_t *count, struct err *e) {
    const struct toml *v = toml_get(table, path);
    *count = 0;
    *out = arena_new(a, char *, 1);
    if (!v)
        return 0;
    if (v->type != TOML_ARRAY)
        return wrong_type(path, v, TOML_ARRAY, e);
    *out = arena_new(a, char *, v->len + 1);
    for (const struct toml *c = v->child; c; c = c->next) {
        if (c->type != TOML_STRING)
            return wrong_type(path, c, TOML_STRING, e);
        if (strlen(c->str) != c->len)
            return err_set(e, ERR_FORMAT, "line %d: '%s' contains a NUL", c->line, path);
        (*out)[(*count)++] = arena_strndup(a, c->str, c->len);
    }
    return 0;
}
