// SPDX-License-Identifier: Apache-2.0
// Parses and formats the text that names a model.
#include "conf/train_model.h"

#include "base/arena.h"
#include "base/str.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define WORDS(list, name, count, words)                                                            \
    const char *const words[count + 1] = {list(TRAIN_NAME_WORD)};
TRAIN_NAMES(WORDS)

static const struct {
    const char *fields, *text;
} models[TRAIN_MODELS] = {
#define X(constant, word, fields, text) [constant] = {fields, text},
    TRAIN_MODEL_NAMES(X)
#undef X
};

static const struct {
    int min, max;
    const char *text;
    const char *const *words; // NULL: a number
} fields[TRAIN_FIELDS] = {
#define X(constant, word, min, max, text)                                                          \
    [constant] = {min, max, text,                                                                  \
                  (constant) == TRAIN_FIELD_STEM   ? train_stem_words                              \
                  : (constant) == TRAIN_FIELD_POOL ? train_pool_words                              \
                                                   : NULL},
    TRAIN_FIELD_NAMES(X)
#undef X
};

const char *train_model_fields(enum train_model model) {
    return models[model].fields;
}

const char *train_model_text(enum train_model model) {
    return models[model].text;
}

const char *train_field_text(enum train_field field) {
    return fields[field].text;
}

static int find(const char *const *words, const char *text, size_t len) {
    for (int i = 0; words[i]; i++)
        if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0)
            return i;
    return -1;
}

// "a, b, c"
static const char *list(struct arena *a, const char *const *words) {
    const char *text = "";
    for (int i = 0; words[i]; i++)
        text = arena_printf(a, "%s%s%s", text, i ? ", " : "", words[i]);
    return text;
}

static const char *list_fields(struct arena *a, const struct train_model_spec *s) {
    const char *text = "";
    for (int i = 0; i < TRAIN_FIELDS; i++)
        if (s->has[i])
            text = arena_printf(a, "%s%s%s", text, *text ? ", " : "", train_field_words[i]);
    return text;
}

static int set_number(struct train_model_spec *s, int field, const char *text, struct err *e) {
    int64_t v;
    if (str_parse_i64(text, fields[field].min, fields[field].max, &v, e) < 0)
        return err_wrap(e, "model '%s': field '%s'", train_model_words[s->model],
                        train_field_words[field]);
    if (field != TRAIN_FIELD_HIDDEN) {
        s->value[field] = (int)v;
        return 0;
    }
    if (s->nhidden == TRAIN_HIDDEN_MAX)
        return err_set(e, ERR_CONFIG, "model '%s': more than %d hidden layers",
                       train_model_words[s->model], TRAIN_HIDDEN_MAX);
    s->hidden[s->nhidden++] = (int)v;
    return 0;
}

static int set_field(struct arena *a, struct train_model_spec *s, int field, const char *text,
                     struct err *e) {
    const char *const *words = fields[field].words;
    if (!words)
        return set_number(s, field, text, e);
    s->value[field] = find(words, text, strlen(text));
    return s->value[field] >= 0
               ? 0
               : err_set(e, ERR_CONFIG, "model '%s': field '%s' is '%.40s', not one of %s",
                         train_model_words[s->model], train_field_words[field], text,
                         list(a, words));
}

// Parses "dim=192,hidden=64,32": an element without '=' continues the field before. The defaults
// define the known fields.
static int set_fields(struct arena *a, struct train_model_spec *s, const char *text, bool defaults,
                      struct err *e) {
    char **parts;
    size_t count = str_split(a, text, ',', &parts);
    int field = -1;
    for (size_t i = 0; i < count; i++) {
        char *value = strchr(parts[i], '=');
        if (value || field != TRAIN_FIELD_HIDDEN)
            field = find(train_field_words, parts[i],
                         value ? (size_t)(value - parts[i]) : strlen(parts[i]));
        if (field < 0 || (!defaults && !s->has[field]))
            return err_set(e, ERR_CONFIG, "model '%s' has no field '%.*s', it has %s",
                           train_model_words[s->model], (int)strcspn(parts[i], "="), parts[i],
                           list_fields(a, s));
        if (!value && (field != TRAIN_FIELD_HIDDEN || str_eq(parts[i], "hidden")))
            return err_set(e, ERR_CONFIG, "model '%s': field '%s' has no value (try: %s=…)",
                           train_model_words[s->model], train_field_words[field],
                           train_field_words[field]);
        if (value && !defaults && s->given[field])
            return err_set(e, ERR_CONFIG, "model '%s': field '%s' is set twice",
                           train_model_words[s->model], train_field_words[field]);
        s->has[field] = true;
        s->given[field] = !defaults;
        if (value && field == TRAIN_FIELD_HIDDEN)
            s->nhidden = 0;
        if (set_field(a, s, field, value ? value + 1 : parts[i], e) < 0)
            return -1;
    }
    return 0;
}

static int parse(struct arena *a, struct train_model_spec *out, const char *text, struct err *e) {
    size_t word = strcspn(text, "("), len = strlen(text);
    int model = find(train_model_words, text, word);
    if (len >= TRAIN_MODEL_BYTES_MAX)
        return err_set(e, ERR_CONFIG, "a model of %zu letters, more than %d", len,
                       TRAIN_MODEL_BYTES_MAX - 1);
    if (model < 0)
        return err_set(e, ERR_CONFIG, "there is no model '%.*s', there are %s", (int)word, text,
                       list(a, train_model_words));
    out->model = (enum train_model)model;
    if (set_fields(a, out, models[model].fields, true, e) < 0)
        return -1;
    if (!text[word])
        return 0;
    if (text[len - 1] != ')')
        return err_set(e, ERR_CONFIG, "model '%.60s' does not end with ')'", text);
    const char *inner = arena_strndup(a, text + word + 1, len - word - 2);
    return *inner ? set_fields(a, out, inner, false, e) : 0;
}

int train_model_parse(struct train_model_spec *out, const char *text, struct err *e) {
    struct arena a = {0};
    *out = (struct train_model_spec){0};
    int r = parse(&a, out, text, e);
    arena_fini(&a);
    return r;
}

int train_model_check(const char *text, struct err *e) {
    struct train_model_spec s;
    return train_model_parse(&s, text, e);
}

static bool is_default(const struct train_model_spec *s, const struct train_model_spec *plain,
                       int field) {
    if (field != TRAIN_FIELD_HIDDEN)
        return s->value[field] == plain->value[field];
    return s->nhidden == plain->nhidden &&
           memcmp(s->hidden, plain->hidden, (size_t)s->nhidden * sizeof *s->hidden) == 0;
}

void train_model_format(const struct train_model_spec *s, char out[TRAIN_MODEL_BYTES_MAX]) {
    struct train_model_spec plain;
    struct strbuf b = {0};
    struct err ignored;
    strbuf_addf(&b, "%s", train_model_words[s->model]);
    size_t word = b.len;
    must(train_model_parse(&plain, train_model_words[s->model], &ignored) == 0);
    for (int i = 0; i < TRAIN_FIELDS; i++) {
        if (!s->has[i] || is_default(s, &plain, i))
            continue;
        strbuf_addf(&b, "%s%s=", b.len == word ? "(" : ",", train_field_words[i]);
        if (i == TRAIN_FIELD_HIDDEN)
            for (int j = 0; j < s->nhidden; j++)
                strbuf_addf(&b, "%s%d", j ? "," : "", s->hidden[j]);
        else if (fields[i].words)
            strbuf_addf(&b, "%s", fields[i].words[s->value[i]]);
        else
            strbuf_addf(&b, "%d", s->value[i]);
    }
    strbuf_addf(&b, "%s", b.len > word ? ")" : "");
    snprintf(out, TRAIN_MODEL_BYTES_MAX, "%s", strbuf_cstr(&b));
    strbuf_fini(&b);
}
