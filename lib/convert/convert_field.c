// SPDX-License-Identifier: Apache-2.0
// Walks a tree, or the flags of a command line, by a table of fields.
#include "convert/convert_field.h"

#include <string.h>

const char *convert_field_text(struct arena *a, const struct json *v) {
    switch (v->type) {
    case JSON_BOOL: return v->boolean ? "true" : "false";
    case JSON_INT: return arena_printf(a, "%lld", (long long)v->integer);
    case JSON_NUM: return arena_printf(a, "%.15g", v->number);
    case JSON_STR: return v->str;
    default: return NULL;
    }
}

bool convert_field_set(struct convert_walk *w, const char *key, const char *text) {
    return convert_draft_set(w->draft, w->from, key, text);
}

bool convert_field_seconds(struct convert_walk *w, const char *key, int64_t seconds) {
    int64_t unit = seconds % 3600 == 0 ? 3600 : seconds % 60 == 0 ? 60 : 1;
    return convert_field_set(w, key,
                             arena_printf(w->draft->arena, "%lld%c", (long long)(seconds / unit),
                                          unit == 3600 ? 'h'
                                          : unit == 60 ? 'm'
                                                       : 's'));
}

void convert_field_pair(struct convert_walk *w, const char *table, const char *path,
                        const struct json *member) {
    struct convert_from from = {member->line,
                                arena_printf(w->draft->arena, "%s.%s", path, member->key)};
    const char *text = convert_field_text(w->draft->arena, member);
    if (text)
        convert_draft_pair(w->draft, from, table, member->key, text);
    else
        convert_draft_note(w->draft, from, "left out: %s",
                           member->type == JSON_NULL ? "it has no value here"
                                                     : "a single value is expected");
}

void convert_field_others(struct convert_walk *w, const struct json *v, const char *const *names) {
    for (const struct json *c = v->child; v->type == JSON_OBJECT && c; c = c->next) {
        const char *const *name = names;
        while (*name && strcmp(*name, c->key) != 0)
            name++;
        if (!*name)
            convert_draft_note(w->draft,
                               (struct convert_from){c->line, arena_printf(w->draft->arena, "%s.%s",
                                                                           w->from.name, c->key)},
                               "left out: dtctl does not know this field");
    }
}

static const struct convert_field *find(const struct convert_field *fields, const char *name) {
    for (; fields->name; fields++)
        if (strcmp(fields->name, name) == 0)
            return fields;
    return NULL;
}

// ---- trees --------------------------------------------------------------------------------------

// True when a row is below the path.
static bool is_known_inside(const struct convert_field *fields, const char *path) {
    size_t len = strlen(path);
    for (; fields->name; fields++)
        if (strncmp(fields->name, path, len) == 0 &&
            (fields->name[len] == '.' || fields->name[len] == '['))
            return true;
    return false;
}

// A field that is off is not missed.
static bool is_empty(const struct json *v) {
    return v->type == JSON_NULL || (v->type == JSON_BOOL && !v->boolean) ||
           (v->type != JSON_BOOL && v->type != JSON_INT && v->type != JSON_NUM && v->len == 0);
}

// Calls the row's own function. A value of a type that it does not read becomes a note; null is no
// value.
static enum convert_next take_own(struct convert_walk *w, const struct json *v) {
    static const char *const words[] = {
        [JSON_BOOL] = "true or false", [JSON_INT] = "a whole number", [JSON_STR] = "a text",
        [JSON_ARRAY] = "a list",       [JSON_OBJECT] = "a mapping",   [JSON_NUM] = "a number",
        [JSON_NULL] = "nothing"};
    unsigned types = w->field->types ? w->field->types : CONVERT_SINGLE;
    size_t first = 0;
    if (v->type == JSON_NULL) {
        convert_draft_needless(w->draft, w->from);
        return CONVERT_DONE;
    }
    if (types & 1U << v->type)
        return w->field->take(w, v);
    while (!(types >> first & 1U))
        first++;
    convert_draft_note(w->draft, w->from, "left out: %s is expected",
                       (types & CONVERT_SINGLE) == CONVERT_SINGLE ? "a single value"
                                                                  : words[first]);
    return CONVERT_DONE;
}

static void take_plain(struct convert_walk *w, const struct json *v) {
    const struct convert_field *f = w->field;
    const char *text = convert_field_text(w->draft->arena, v);
    if (!f->key && !is_empty(v))
        convert_draft_note(w->draft, w->from, "%s", f->text);
    else if (!f->key || !*f->key || v->type == JSON_NULL)
        convert_draft_needless(w->draft, w->from);
    if (!f->key || !*f->key || v->type == JSON_NULL)
        return;
    if (text)
        convert_field_set(w, f->key, text);
    else
        convert_draft_note(w->draft, w->from, "left out: a single value is expected");
}

static void walk(struct convert_walk *w, const char *path, const struct json *v, const char *advice,
                 int depth);

static void walk_children(struct convert_walk *w, const char *path, const struct json *v,
                          const char *advice, int depth) {
    struct arena *a = w->draft->arena;
    for (const struct json *c = v->child; c; c = c->next) {
        const char *inner = v->type == JSON_ARRAY ? arena_printf(a, "%s[]", path)
                            : *path               ? arena_printf(a, "%s.%s", path, c->key)
                                                  : c->key;
        walk(w, inner, c, advice, depth + 1);
    }
}

// advice: of the nearest row above that has one, for values without a row.
static void walk(struct convert_walk *w, const char *path, const struct json *v, const char *advice,
                 int depth) {
    bool inside = (v->type == JSON_ARRAY || v->type == JSON_OBJECT) && depth < JSON_DEPTH_MAX &&
                  strlen(path) < CONVERT_PATH_BYTES_MAX && is_known_inside(w->fields, path);
    const struct convert_field *f = find(w->fields, path);
    w->from = (struct convert_from){v->line, path};
    w->field = f;
    if (f && f->take && take_own(w, v) == CONVERT_DONE)
        return;
    if (inside)
        walk_children(w, path, v, f && !f->key ? f->text : advice, depth);
    else if (f && !f->take)
        take_plain(w, v);
    else if (!is_empty(v))
        convert_draft_note(w->draft, w->from, "%s",
                           advice ? advice : "left out: dtctl does not know this field");
    else
        convert_draft_needless(w->draft, w->from);
}

void convert_field_tree(struct convert_walk *w, const struct json *root) {
    walk_children(w, "", root, NULL, 0);
}

// ---- flags --------------------------------------------------------------------------------------

// "--nproc_per_node" and "-nproc-per-node" are "--nproc-per-node".
static const struct convert_field *find_long(struct convert_walk *w, const char *word, size_t len,
                                             size_t dashes) {
    char *name = arena_printf(w->draft->arena, "--%.*s", (int)(len - dashes), word + dashes);
    for (char *p = name; *p; p++)
        *p = *p == '_' ? '-' : *p;
    return find(w->fields, name);
}

static const struct convert_field *find_short(const struct convert_field *fields, char letter) {
    for (; fields->name; fields++)
        if (fields->letter == letter)
            return fields;
    return NULL;
}

struct flag {
    const struct convert_field *field;
    const char *value; // behind '=' or the letter; NULL: none
};

static struct flag flag_of(struct convert_walk *w, const char *word) {
    struct flag f = {0};
    size_t len = strcspn(word, "="), dashes = strspn(word, "-");
    dashes = dashes > 2 ? 2 : dashes;
    if (len < dashes)
        return f;
    f.field = find_long(w, word, len, dashes);
    f.value = word[len] ? word + len + 1 : NULL;
    if (!f.field && dashes == 1 && word[1]) {
        f.field = find_short(w->fields, word[1]);
        f.value = word[2] ? word + 2 + (word[2] == '=') : NULL;
    }
    return f;
}

static void take_flag(struct convert_walk *w, int line, const char *word, const char *value) {
    struct json v = {.type = JSON_STR, .line = line, .str = value ? value : "true"};
    v.len = strlen(v.str);
    w->from = (struct convert_from){
        line, value ? arena_printf(w->draft->arena, "%s=%s", w->field->name, value) : word};
    if (w->field->take)
        w->field->take(w, &v);
    else
        take_plain(w, &v);
}

size_t convert_field_flags(struct convert_walk *w, int line, const char *const *words,
                           size_t count) {
    struct arena *a = w->draft->arena;
    size_t i = 0;
    while (i < count && words[i][0] == '-' && words[i][1]) {
        const char *word = words[i++];
        if (strcmp(word, "--") == 0)
            break;
        struct flag f = flag_of(w, word);
        w->field = f.field;
        if (!f.field) {
            convert_draft_note(w->draft, (struct convert_from){line, word},
                               "left out: dtctl does not know this flag");
            continue;
        }
        if (f.field->words == 'v') {
            f.value = i + 1 < count ? arena_printf(a, "%s=%s", words[i], words[i + 1]) : NULL;
            i = i + 2 < count ? i + 2 : count;
        } else if (f.field->words == '=' && !f.value && i < count) {
            f.value = words[i++];
        } else if (f.field->words == 0 && f.value && word[1] != '-' && !strchr(word, '=')) {
            f.value = NULL; // letters in one word: "-lu"
        }
        if (f.field->words == '=' && !f.value)
            convert_draft_note(w->draft, (struct convert_from){line, word},
                               "left out: it has no value");
        else
            take_flag(w, line, word, f.value);
    }
    return i;
}
