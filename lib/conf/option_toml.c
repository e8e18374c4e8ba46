// SPDX-License-Identifier: Apache-2.0
// Values from a TOML tree. Everything that is wrong is reported, each thing at its own place.
#include "conf/cli.h"
#include "conf/option_value.h"

#include <math.h>
#include <string.h>

static int complain(struct option_reader *rd, const struct toml *at, const char *name,
                    const char *text) {
    rd->fail(rd->ctx, at, name, text);
    return -1;
}

static int wrong_type(struct option_reader *rd, const struct toml *v, const char *name,
                      const char *want) {
    return complain(rd, v, name,
                    arena_printf(rd->a, "expected %s, found %s", want, toml_type_name(v->type)));
}

static const char *type_text(struct option_reader *rd, const struct option_row *r) {
    if (r->type != OPTION_CHOICE && r->type != OPTION_COUNT)
        return option_type_text(r->type);
    struct strbuf b = {0};
    strbuf_adds(&b, r->type == OPTION_COUNT ? "a number or one of " : "one of ");
    for (int i = 0; r->choices[i]; i++)
        strbuf_addf(&b, "%s\"%s\"", i ? ", " : "", r->choices[i]);
    const char *text = arena_strdup(rd->a, strbuf_cstr(&b));
    strbuf_fini(&b);
    return text;
}

// A path relative to the file's folder; "~" is expanded where the value enters a set.
static const char *path_of(struct option_reader *rd, const char *text) {
    if (rd->dir && *rd->dir && *text && *text != '/' && *text != '~')
        return arena_printf(rd->a, "%s/%s", rd->dir, text);
    return text;
}

// A string without NULs, or NULL after a complaint.
static const char *text_of(struct option_reader *rd, const struct toml *v, const char *name) {
    if (strlen(v->str) == v->len)
        return v->str;
    complain(rd, v, name, "the string contains a NUL");
    return NULL;
}

static int read_text(struct option_reader *rd, const struct option_row *r, const struct toml *v,
                     const char *name, void *dest) {
    struct err e;
    const char *text = text_of(rd, v, name);
    if (!text)
        return -1;
    if (r->type == OPTION_PATH && !((r->marks & OPTION_ADDRESS) && option_is_address(text)))
        text = path_of(rd, text);
    if (option_parse_scalar(rd->a, r, text, dest, &e) < 0)
        return complain(rd, v, name, e.text);
    return 0;
}

// Integers and floats for number types; durations without a unit are seconds, sizes bytes.
static int read_number(struct option_reader *rd, const struct option_row *r, const struct toml *v,
                       const char *name, void *dest) {
    struct err e;
    double number = v->real;
    if (r->type == OPTION_DURATION) {
        if (v->integer < 0 || v->integer > INT64_MAX / 1000)
            return complain(rd, v, name, "the duration is out of range");
        number *= 1000;
    }
    if (!isfinite(number))
        return complain(rd, v, name, "expected a finite number");
    if (option_verify_bounds(r, number, &e) < 0)
        return complain(rd, v, name, e.text);
    if (r->type == OPTION_REAL)
        *(double *)dest = number;
    else if (r->type == OPTION_RANGE)
        *(struct option_range *)dest = (struct option_range){v->integer, v->integer};
    else
        *(int64_t *)dest = r->type == OPTION_DURATION ? v->integer * 1000 : v->integer;
    return 0;
}

static int read_scalar(struct option_reader *rd, const struct option_row *r, const struct toml *v,
                       const char *name, void *dest) {
    static const unsigned takes[] = {
        [OPTION_BOOL] = 1u << TOML_BOOL,
        [OPTION_INT] = 1u << TOML_INT,
        [OPTION_REAL] = 1u << TOML_INT | 1u << TOML_REAL,
        [OPTION_STRING] = 1u << TOML_STRING,
        [OPTION_PATH] = 1u << TOML_STRING,
        [OPTION_DURATION] = 1u << TOML_STRING | 1u << TOML_INT,
        [OPTION_BYTES] = 1u << TOML_STRING | 1u << TOML_INT,
        [OPTION_CHOICE] = 1u << TOML_STRING | 1u << TOML_BOOL,
        [OPTION_COUNT] = 1u << TOML_STRING | 1u << TOML_INT,
        [OPTION_RANGE] = 1u << TOML_STRING | 1u << TOML_INT,
    };
    if (!(takes[r->type] & 1u << v->type))
        return wrong_type(rd, v, name, type_text(rd, r));
    if (v->type == TOML_STRING)
        return read_text(rd, r, v, name, dest);
    if (v->type == TOML_BOOL && r->type == OPTION_CHOICE) { // where true and false are two of it
        struct err e;
        const char *word = v->boolean ? "true" : "false";
        return option_parse_scalar(rd->a, r, word, dest, &e) < 0
                   ? wrong_type(rd, v, name, type_text(rd, r))
                   : 0;
    }
    if (v->type == TOML_BOOL) {
        *(bool *)dest = v->boolean;
        return 0;
    }
    return read_number(rd, r, v, name, dest);
}

// ---- lists -----------------------------------------------------------------------------------
static int read_item(struct option_reader *rd, const struct option_row *r, const struct toml *v,
                     const char *name, void *dest) {
    struct err e;
    if (v->type != TOML_STRING)
        return wrong_type(rd, v, name, "a string");
    const char *text = text_of(rd, v, name);
    if (!text)
        return -1;
    if (r->type == OPTION_PATHS)
        text = path_of(rd, text);
    if (option_put_item(rd->a, r, text, dest, &e) < 0)
        return complain(rd, v, name, e.text);
    return 0;
}

static int read_number_item(struct option_reader *rd, const struct option_row *r,
                            const struct toml *v, const char *name, size_t i, void *dest) {
    bool ints = r->type == OPTION_INTS;
    struct option_row one = {.type = ints ? OPTION_INT : OPTION_REAL, .min = r->min, .max = r->max};
    void *at = ints ? (void *)&((struct option_ints *)dest)->items[i]
                    : (void *)&((struct option_reals *)dest)->items[i];
    return read_scalar(rd, &one, v, name, at);
}

static int read_list(struct option_reader *rd, const struct option_row *r, const struct toml *v,
                     const char *name, void *dest) {
    struct err e;
    if (v->type != TOML_ARRAY)
        return wrong_type(rd, v, name, option_type_text(r->type));
    if (option_verify_items(r, v->len, &e) < 0)
        return complain(rd, v, name, e.text);
    option_value_unset(r->type, dest);
    if (r->type == OPTION_INTS)
        *(struct option_ints *)dest =
            (struct option_ints){arena_new(rd->a, int64_t, v->len + 1), v->len};
    if (r->type == OPTION_REALS)
        *(struct option_reals *)dest =
            (struct option_reals){arena_new(rd->a, double, v->len + 1), v->len};
    int result = 0;
    size_t i = 0;
    for (const struct toml *c = v->child; c; c = c->next, i++) {
        bool strings = r->type == OPTION_LIST || r->type == OPTION_PATHS;
        if ((strings ? read_item(rd, r, c, name, dest)
                     : read_number_item(rd, r, c, name, i, dest)) < 0)
            result = -1;
    }
    return result;
}

// ---- maps ------------------------------------------------------------------------------------
static const char *member_name(struct option_reader *rd, const char *name, const struct toml *c) {
    const char *part = str_printable(rd->a, c->key, c->key_len);
    return *name ? arena_printf(rd->a, "%s.%s", name, part) : part;
}

static int read_pair(struct option_reader *rd, const struct option_row *r, const struct toml *c,
                     const char *name, size_t before, void *dest) {
    struct err e;
    struct strbuf text = {0};
    if (strlen(c->key) != c->key_len)
        return complain(rd, c, name, "the name contains a NUL");
    if (c->type == TOML_STRING && !text_of(rd, c, name))
        return -1;
    if (c->type == TOML_STRING)
        strbuf_add(&text, c->str, c->len);
    else if (c->type == TOML_INT)
        strbuf_addf(&text, "%lld", (long long)c->integer);
    else if (c->type == TOML_REAL)
        toml_write_real_value(&text, c->real);
    else if (c->type == TOML_BOOL)
        strbuf_adds(&text, c->boolean ? "true" : "false");
    else
        return wrong_type(rd, c, name, "a string");
    int failed = option_put_pair(rd->a, r, c->key, strbuf_cstr(&text), before, dest, &e);
    strbuf_fini(&text);
    return failed < 0 ? complain(rd, c, name, e.text) : 0;
}

static int read_map(struct option_reader *rd, const struct option_row *r, const struct toml *v,
                    const char *name, void *dest) {
    if (v->type != TOML_TABLE)
        return wrong_type(rd, v, name, "a table of NAME = \"VALUE\"");
    int result = 0;
    size_t before = ((struct option_map *)dest)->count;
    for (const struct toml *c = v->child; c; c = c->next) {
        const char *member = member_name(rd, name, c);
        if (c->type == TOML_TABLE && rd->has_keys && rd->has_keys(rd->ctx, member))
            continue;
        if (read_pair(rd, r, c, member, before, dest) < 0)
            result = -1;
    }
    return result;
}

// ---- records ---------------------------------------------------------------------------------
static void unknown_field(struct option_reader *rd, const struct option_record *rec,
                          const struct toml *c, const char *name) {
    const struct toml at = {.line = c->key_line, .column = c->key_column};
    const char *near = option_nearest_field(rd->a, rec, c->key);
    complain(rd, &at, name,
             near ? arena_printf(rd->a, "unknown key (did you mean '%s'?)", near) : "unknown key");
}

static int read_fields(struct option_reader *rd, const struct option_record *rec,
                       const struct toml *v, const char *name, char *element) {
    int result = 0;
    for (const struct toml *c = v->child; c; c = c->next) {
        const char *field = member_name(rd, name, c);
        const struct option_row *f = option_find_field(rec, c->key);
        if (!f)
            unknown_field(rd, rec, c, field);
        if (!f || option_read_toml(rd, f, c, field, element + f->offset) < 0)
            result = -1;
    }
    for (size_t i = 0; i < rec->count; i++)
        if ((rec->rows[i].marks & OPTION_REQUIRED) && !toml_member(v, rec->rows[i].key))
            result =
                complain(rd, v, name, arena_printf(rd->a, "'%s' is missing", rec->rows[i].key));
    return result;
}

static int read_record(struct option_reader *rd, const struct option_row *r, const struct toml *v,
                       const char *name, size_t before, void *dest) {
    const struct option_record *rec = r->record;
    struct err e;
    char *element = option_new_record(rd->a, rec);
    if (v->type != TOML_TABLE)
        return wrong_type(rd, v, name, "a table");
    *(struct option_place *)(void *)(element + rec->place_offset) =
        (struct option_place){OPTION_FILE, rd->file, v->line, v->column};
    if (rec->named) {
        if (strlen(v->key) != v->key_len)
            return complain(rd, v, name, "the name contains a NUL");
        if (r->check_name && r->check_name(v->key, &e) < 0)
            return complain(rd, v, name, e.text);
        *(const char **)(void *)(element + rec->rows[0].offset) = v->key;
    }
    if (read_fields(rd, rec, v, name, element) < 0)
        return -1;
    if (option_put_record(rd->a, r, element, before, dest, &e) < 0)
        return complain(rd, v, name, e.text);
    return 0;
}

static int read_records(struct option_reader *rd, const struct option_row *r, const struct toml *v,
                        const char *name, void *dest) {
    bool named = r->record->named;
    if (v->type != (named ? TOML_TABLE : TOML_ARRAY))
        return wrong_type(rd, v, name, named ? "tables [NAME]" : "an array of tables");
    size_t before = ((struct option_records *)dest)->count;
    int result = 0;
    for (const struct toml *c = v->child; c; c = c->next)
        if (read_record(rd, r, c, named ? member_name(rd, name, c) : name, before, dest) < 0)
            result = -1;
    return result;
}

int option_read_toml(struct option_reader *rd, const struct option_row *r, const struct toml *v,
                     const char *name, void *dest) {
    switch (r->type) {
    case OPTION_LIST:
    case OPTION_PATHS:
    case OPTION_INTS:
    case OPTION_REALS: return read_list(rd, r, v, name, dest);
    case OPTION_MAP: return read_map(rd, r, v, name, dest);
    case OPTION_RECORDS: return read_records(rd, r, v, name, dest);
    default: return read_scalar(rd, r, v, name, dest);
    }
}
