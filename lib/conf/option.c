// SPDX-License-Identifier: Apache-2.0
// Sets of options: rows bound to structs, filled from defaults, a file, the environment and flags.
#include "conf/option.h"

#include "base/env.h"
#include "base/name_map.h"
#include "conf/cli.h"
#include "conf/option_value.h"

#include <stdio.h>
#include <string.h>

void option_set_init(struct option_set *s, struct arena *a, const char *program,
                     const char *env_prefix, char *const *env) {
    *s = (struct option_set){.arena = a, .program = program, .env_prefix = env_prefix, .env = env};
}

size_t option_set_row_count(const struct option_set *s) {
    size_t count = 0;
    for (size_t t = 0; t < s->table_count; t++)
        count += s->tables[t].table->count;
    return count;
}

void option_set_add(struct option_set *s, const struct option_table *table, void *target) {
    must(s->table_count < OPTION_TABLES_MAX);
    struct option_bound *b = &s->tables[s->table_count++];
    *b = (struct option_bound){table, target,
                               arena_new(s->arena, struct option_place, table->count)};
    for (size_t i = 0; i < table->count && target; i++) {
        const struct option_row *r = &table->rows[i];
        void *dest = (char *)target + r->offset;
        struct err e;
        option_value_unset(r->type, dest);
        if (r->text && option_parse(s->arena, r, r->text, dest, &e) < 0) {
            fprintf(stderr, "%s: %s\n", option_row_name(r), e.text);
            must(false); // every default parses
        }
        option_expand_home(s, r, dest);
    }
}

// ---- problems --------------------------------------------------------------------------------
static void add_problem(struct option_set *s, struct option_place place, const char *text) {
    if (s->problem_count++ >= OPTION_PROBLEMS_MAX)
        return;
    struct option_problem *p = arena_new(s->arena, struct option_problem, 1);
    *p = (struct option_problem){place, str_printable(s->arena, text, strlen(text)), NULL};
    // Those of one file by line; everything else in order of discovery.
    struct option_problem **at = &s->problems;
    while (*at && !(place.source == OPTION_FILE && (*at)->place.source == OPTION_FILE &&
                    str_eq((*at)->place.name, place.name) && (*at)->place.line > place.line))
        at = &(*at)->next;
    p->next = *at;
    *at = p;
}

void option_problem(struct option_set *s, struct option_place place, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    add_problem(s, place, arena_vprintf(s->arena, fmt, ap));
    va_end(ap);
}

bool option_take_variable(struct option_set *s, struct name_map *taken, struct option_place place,
                          const char *what, const char *name, const char *variable) {
    const char *other = name_map_find(taken, variable);
    if (other)
        option_problem(s, place, "%s '%s' and '%s' would both have the variable %s", what, other,
                       name, variable);
    else
        name_map_put(taken, variable, arena_strdup(s->arena, name));
    return !other;
}

const char *option_place_text(struct arena *a, const struct option_place *p) {
    if (p->source == OPTION_FILE || p->source == OPTION_KEPT)
        return arena_printf(a, "%s:%d:%d", p->name, p->line, p->column);
    return p->source == OPTION_DEFAULT ? "default" : p->name;
}

const char *option_problem_line(struct arena *a, const struct option_problem *p) {
    if (!p->place.name)
        return p->text;
    return arena_printf(a, "%s: %s", option_place_text(a, &p->place), p->text);
}

int option_set_finish(struct option_set *s, struct err *e) {
    if (s->problem_count == 0)
        option_verify_rules(s);
    if (s->problem_count == 0)
        return 0;
    struct strbuf b;
    strbuf_init(&b, ERR_TEXT_BYTES_MAX - 64);
    bool usage = true;
    int shown = 0;
    for (const struct option_problem *p = s->problems; p; p = p->next) {
        usage = usage && p->place.source == OPTION_FLAG;
        const char *line = option_problem_line(s->arena, p);
        if (b.overflow || b.len + strlen(line) + 1 > b.cap_max) {
            b.overflow = true;
            continue;
        }
        strbuf_addf(&b, "%s%s", shown++ ? "\n" : "", line);
    }
    b.cap_max = 0;
    if (shown < s->problem_count)
        strbuf_addf(&b, "\nand %d more", s->problem_count - shown);
    err_set_lines(e, usage ? ERR_USAGE : ERR_CONFIG, strbuf_cstr(&b));
    strbuf_fini(&b);
    return -1;
}

// ---- rows ------------------------------------------------------------------------------------
const char *option_row_name(const struct option_row *r) {
    return r->key ? r->key : r->flag ? r->flag : "?";
}

bool option_row_has_verb(const struct option_row *r, const char *verb) {
    if (!r->verbs || strcmp(r->verbs, "*") == 0)
        return true;
    size_t len = verb ? strlen(verb) : 0;
    for (const char *p = r->verbs; verb && (p = strstr(p, verb)); p += len)
        if ((p == r->verbs || p[-1] == ' ') && (p[len] == ' ' || !p[len]))
            return true;
    return false;
}

const char *option_row_env(struct arena *a, const struct option_set *s,
                           const struct option_row *r) {
    const char *base = r->key ? r->key : r->flag;
    if (r->env || (r->marks & OPTION_NO_ENV) || !base || !s->env_prefix)
        return r->env;
    return env_variable(a, s->env_prefix, base);
}

const struct option_row *option_find(const struct option_set *s, const char *key,
                                     struct option_bound const **bound) {
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const struct option_row *r = &s->tables[t].table->rows[i];
            if (r->key && strcmp(r->key, key) == 0) {
                if (bound)
                    *bound = &s->tables[t];
                return r;
            }
        }
    return NULL;
}

const struct option_place *option_place(const struct option_set *s, const char *key) {
    const struct option_bound *b;
    const struct option_row *r = option_find(s, key, &b);
    must(r != NULL);
    return &b->places[r - b->table->rows];
}

bool option_given(const struct option_set *s, const char *key) {
    return option_place(s, key)->source != OPTION_DEFAULT;
}

const char *option_nearest_key(const struct option_set *s, const char *key) {
    size_t count = 0, n = 0;
    for (size_t t = 0; t < s->table_count; t++)
        count += s->tables[t].table->count;
    const char **names = arena_new(s->arena, const char *, count + 1);
    const char *last = strrchr(key, '.');
    last = last ? last + 1 : key;
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const char *name = s->tables[t].table->rows[i].key;
            const char *dot = name ? strrchr(name, '.') : NULL;
            if (dot && strcmp(dot + 1, last) == 0) // the right key in the wrong table
                return arena_printf(s->arena, " (did you mean '%s'?)", name);
            if (name)
                names[n++] = name;
        }
    return cli_nearest(s->arena, key, names);
}

static const char *expand_path(const struct option_set *s, const char *path) {
    const char *home = env_get(s->env, "HOME");
    if (!home || path[0] != '~' || (path[1] && path[1] != '/'))
        return path;
    return arena_printf(s->arena, "%s%s", home, path + 1);
}

void option_expand_home(const struct option_set *s, const struct option_row *r, void *value) {
    if (r->type == OPTION_PATH) {
        *(const char **)value = expand_path(s, *(const char **)value);
    } else if (r->type == OPTION_PATHS) {
        struct option_list *list = value;
        for (size_t i = 0; i < list->count; i++)
            list->items[i] = expand_path(s, list->items[i]);
    } else if (r->type == OPTION_RECORDS) {
        struct option_records *all = value;
        for (size_t i = 0; i < all->count * r->record->count; i++) {
            const struct option_row *field = &r->record->rows[i % r->record->count];
            char *element = (char *)all->items + i / r->record->count * r->record->size;
            option_expand_home(s, field, element + field->offset);
        }
    }
}

// ---- values ----------------------------------------------------------------------------------
// One flag of a list starts a new list, the next one adds to it; maps and records always grow.
static int apply_element(struct option_set *s, const struct option_row *r, const char *text,
                         bool fresh, void *dest, struct err *e) {
    bool starts = fresh && (r->type == OPTION_LIST || r->type == OPTION_PATHS);
    if (starts)
        option_value_unset(r->type, dest);
    if (starts && strcmp(text, "[]") == 0) // the list without elements, as --set and files have it
        return 0;
    return option_append(s->arena, r, text, dest, e);
}

// Environment and --set give the whole list at once. Maps and named records are merged with those
// that are set already.
static int apply_whole(struct option_set *s, const struct option_row *r, const char *text,
                       void *dest, struct err *e) {
    bool merge = r->type == OPTION_MAP || (r->type == OPTION_RECORDS && r->record->named);
    if (!merge || text[0] == '{')
        return option_parse(s->arena, r, text, dest, e);
    char **parts;
    size_t count = option_split(s->arena, text, &parts);
    for (size_t i = 0; i < count; i++) {
        if (option_append(s->arena, r, parts[i], dest, e) == 0)
            continue;
        if (i > 0 && !strchr(parts[i], '='))
            err_set(
                e, ERR_CONFIG,
                "'%.100s' is not NAME=VALUE (try: '\"%.100s,%.100s\"' where the comma belongs to "
                "the value)",
                parts[i], parts[i - 1], parts[i]);
        return -1;
    }
    return 0;
}

void option_apply(struct option_set *s, const struct option_bound *b, const struct option_row *r,
                  const char *text, bool element, struct option_place place) {
    struct option_place *known = &b->places[r - b->table->rows];
    void *dest = (char *)b->target + r->offset;
    struct err e;
    if (!b->target)
        return;
    if (r->marks & OPTION_UNSERVED) {
        option_problem(s, place, "torchrun knows this, %s does not serve it", s->program);
        return;
    }
    bool fresh = known->source != OPTION_FLAG;
    int failed = element && !option_is_scalar(r->type) ? apply_element(s, r, text, fresh, dest, &e)
                                                       : apply_whole(s, r, text, dest, &e);
    option_expand_home(s, r, dest);
    if (failed < 0)
        add_problem(s, place, e.text);
    else
        *known = place;
}

// ---- --set ------------------------------------------------------------------------------------
// The hint for an unknown TABLE.KEY or TABLE.NAME.FIELD where the table, too, may be mistyped.
static const char *nearest_for_set(const struct option_set *s, const char *key) {
    const char *near = option_nearest_key(s, key), *dot = strchr(key, '.');
    const char *last = strrchr(key, '.');
    if (*near || dot == last)
        return near;
    const char *table = arena_strndup(s->arena, key, (size_t)(dot - key));
    size_t count = 0, n = 0;
    for (size_t t = 0; t < s->table_count; t++)
        count += s->tables[t].table->count;
    const char **names = arena_new(s->arena, const char *, count + 1);
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const struct option_row *r = &s->tables[t].table->rows[i];
            if (r->key && r->type == OPTION_RECORDS && r->record->named)
                names[n++] = r->key;
        }
    const char *records = str_nearest(table, names);
    const struct option_row *r = records ? option_find(s, records, NULL) : NULL;
    const char *field = r ? option_nearest_field(s->arena, r->record, last + 1) : NULL;
    return !field ? ""
                  : arena_printf(s->arena, " (did you mean '%s%.*s.%s'?)", records,
                                 (int)(last - dot), dot, field);
}

// The hint for TABLE.KEY where the table is a map: a key of a table among its names, else `form`.
static const char *hint_below(const struct option_set *s, const char *table, const char *key,
                              const char *form) {
    const char *near = option_nearest_key(s, key);
    return str_starts(near, arena_printf(s->arena, " (did you mean '%s.", table)) ? near : form;
}

static const char *nearest_record(const struct option_set *s, const struct option_row *r,
                                  const struct option_records *all, const char *name) {
    const char **names = arena_new(s->arena, const char *, all->count + 1);
    for (size_t i = 0; i < all->count; i++)
        names[i] = option_record_name(r->record, (char *)all->items + i * r->record->size);
    const char *near = cli_nearest(s->arena, name, names);
    return *near || !r->flag
               ? near
               : arena_printf(s->arena, " (try first: --%s %.100s=VALUE)", r->flag, name);
}

// --set TABLE.NAME.FIELD=VALUE: a field of a named record that is there already.
static void set_field(struct option_set *s, const struct option_bound *b,
                      const struct option_row *r, const char *name, const char *text,
                      struct option_place place) {
    struct option_records *all = (void *)((char *)b->target + r->offset);
    const char *dot = strrchr(name, '.');
    const char *record = dot ? arena_strndup(s->arena, name, (size_t)(dot - name)) : "";
    const struct option_row *field = dot ? option_find_field(r->record, dot + 1) : NULL;
    struct err e;
    if (!field) {
        const char *near = option_nearest_field(s->arena, r->record, dot ? dot + 1 : name);
        option_problem(s, place, "unknown key '%.100s.%.100s'%s", r->key, name,
                       !near ? ""
                             : arena_printf(s->arena, " (did you mean '%s.%.100s.%s'?)", r->key,
                                            dot ? record : "NAME", near));
        return;
    }
    for (size_t i = 0; i < all->count; i++) {
        char *element = (char *)all->items + i * r->record->size;
        if (strcmp(option_record_name(r->record, element), record) != 0)
            continue;
        if (option_parse(s->arena, field, text, element + field->offset, &e) < 0)
            add_problem(s, place, e.text);
        option_expand_home(s, field, element + field->offset);
        return;
    }
    option_problem(s, place, "there is no [%s.%.100s] before it%s", r->key, record,
                   nearest_record(s, r, all, record));
}

void option_set_text(struct option_set *s, const char *assignment, struct option_place place) {
    const char *equals = strchr(assignment, '=');
    if (!equals) {
        option_problem(s, place, "'%.100s' is not KEY=VALUE", assignment);
        return;
    }
    const char *key = arena_strndup(s->arena, assignment, (size_t)(equals - assignment));
    const struct option_bound *b;
    const struct option_row *r = option_find(s, key, &b);
    const char *dot = strchr(key, '.');
    const char *table = dot ? arena_strndup(s->arena, key, (size_t)(dot - key)) : "";
    const struct option_bound *map_bound = NULL;
    const struct option_row *map = option_find(s, table, &map_bound);
    struct option_place keyed = {place.source, arena_printf(s->arena, "%s %s", place.name, key), 0,
                                 0};
    if (!r && dot && map && map->type == OPTION_RECORDS && map->record->named && map_bound->target)
        set_field(s, map_bound, map, dot + 1, equals + 1, keyed);
    else if (!r && map && !option_is_scalar(map->type))
        option_problem(
            s, place, "unknown key '%.100s'%s", key,
            hint_below(s, table, key,
                       arena_printf(s->arena, " (try: %s=%s=%.100s)", table, dot + 1, equals + 1)));
    else if (!r)
        option_problem(s, place, "unknown key '%.100s'%s", key, nearest_for_set(s, key));
    else
        option_apply(s, b, r, equals + 1, false, keyed);
}
