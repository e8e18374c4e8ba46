// SPDX-License-Identifier: Apache-2.0
// Values made of many elements: lists, maps and records.
#include "base/array.h"
#include "conf/cli.h"
#include "conf/option_value.h"

#include <string.h>

// Room for one more element and a zeroed one behind it. Arrays have 2^n places in the arena: with
// count + 1 of them in use (the zeroed one too), they are full when count + 1 is 2^n.
static void *grow(struct arena *a, void *items, size_t count, size_t size) {
    if (count & (count + 1))
        return items;
    char *more = arena_alloc(a, 1, _Alignof(max_align_t), (2 * (count + 1)) * size);
    if (count)
        memcpy(more, items, count * size);
    return more;
}

static int check_room(const struct option_row *r, size_t count, struct err *e) {
    size_t most = r->items_max ? r->items_max : OPTION_ITEMS_MAX;
    return count < most ? 0 : err_set(e, ERR_CONFIG, "more than %zu items", most);
}

int option_put_item(struct arena *a, const struct option_row *r, const char *text, void *dest,
                    struct err *e) {
    struct option_list *list = dest;
    if (check_room(r, list->count, e) < 0 || (r->check && r->check(text, e) < 0))
        return -1;
    list->items = grow(a, list->items, list->count, sizeof *list->items);
    list->items[list->count++] = arena_strdup(a, text);
    list->items[list->count] = NULL;
    return 0;
}

int option_put_pair(struct arena *a, const struct option_row *r, const char *name,
                    const char *value, size_t before, void *dest, struct err *e) {
    struct option_map *map = dest;
    size_t i = 0;
    if ((r->check_name && r->check_name(name, e) < 0) || (r->check && r->check(value, e) < 0))
        return -1;
    while (i < before && strcmp(map->items[i].name, name) != 0)
        i++;
    if (i >= before && check_room(r, map->count, e) < 0)
        return -1;
    if (i >= before) {
        map->items = grow(a, map->items, map->count, sizeof *map->items);
        i = map->count++;
    }
    map->items[i] = (struct option_pair){arena_strdup(a, name), arena_strdup(a, value)};
    return 0;
}

const char *option_record_name(const struct option_record *record, const void *element) {
    return *(const char *const *)((const char *)element + record->rows[0].offset);
}

void *option_new_record(struct arena *a, const struct option_record *record) {
    char *element = arena_alloc(a, 1, _Alignof(max_align_t), record->size);
    struct err e;
    for (size_t i = 0; i < record->count; i++) {
        const struct option_row *f = &record->rows[i];
        option_value_unset(f->type, element + f->offset);
        if (f->text)
            must(option_parse(a, f, f->text, element + f->offset, &e) == 0);
    }
    return element;
}

const struct option_row *option_find_field(const struct option_record *record, const char *key) {
    for (size_t i = record->named ? 1 : 0; i < record->count; i++)
        if (strcmp(record->rows[i].key, key) == 0)
            return &record->rows[i];
    return NULL;
}

const char *option_nearest_field(struct arena *a, const struct option_record *record,
                                 const char *key) {
    const char **names = arena_new(a, const char *, record->count + 1);
    size_t n = 0;
    for (size_t i = record->named ? 1 : 0; i < record->count; i++)
        names[n++] = record->rows[i].key;
    return str_nearest(key, names);
}

int option_put_record(struct arena *a, const struct option_row *r, const void *element,
                      size_t before, void *dest, struct err *e) {
    struct option_records *all = dest;
    size_t size = r->record->size, i = before;
    if (check_room(r, all->count, e) < 0)
        return -1;
    if (r->record->named)
        for (i = 0; i < before; i++)
            if (strcmp(option_record_name(r->record, (char *)all->items + i * size),
                       option_record_name(r->record, element)) == 0)
                break;
    if (i >= before) {
        all->items = grow(a, all->items, all->count, size);
        i = all->count++;
    }
    memcpy((char *)all->items + i * size, element, size);
    return 0;
}

static int append_pair(struct arena *a, const struct option_row *r, const char *text, void *dest,
                       struct err *e) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return err_set(e, ERR_CONFIG, "'%.100s' is not NAME=VALUE", text);
    const char *name = arena_strndup(a, text, (size_t)(equals - text));
    const struct option_map *map = dest;
    return option_put_pair(a, r, name, equals + 1, map->count, dest, e);
}

static int append_record(struct arena *a, const struct option_row *r, const char *text, void *dest,
                         struct err *e) {
    const struct option_record *rec = r->record;
    void *element = option_new_record(a, rec);
    if (!rec->from_text)
        return err_set(e, ERR_CONFIG, "'%.100s': only a file can give this", text);
    if (rec->from_text(a, text, element, e) < 0)
        return -1;
    if (rec->named && r->check_name && r->check_name(option_record_name(rec, element), e) < 0)
        return -1;
    const struct option_records *all = dest;
    return option_put_record(a, r, element, all->count, dest, e);
}

int option_append(struct arena *a, const struct option_row *r, const char *text, void *dest,
                  struct err *e) {
    if (r->type == OPTION_MAP)
        return append_pair(a, r, text, dest, e);
    if (r->type == OPTION_RECORDS)
        return append_record(a, r, text, dest, e);
    return option_put_item(a, r, text, dest, e);
}

// ---- the elements of one text, between commas ---------------------------------------------------

// Behind the partner of the bracket at p; NULL when it has none. Inside, only its own kind counts:
// a '{' in "[^{]" opens nothing.
static const char *behind_partner(const char *p) {
    const char open = *p, close = open == '[' ? ']' : open == '{' ? '}' : ')';
    int depth = 0;
    for (; *p; p++) {
        depth += (*p == open) - (*p == close);
        if (depth == 0)
            return p + 1;
        p += *p == '\\' && p[1];
    }
    return NULL;
}

// The end of the element that begins at p. A comma inside brackets belongs to it, as in
// "gpu[01,03].lab", "x([0-9]{1,3})", and so does one behind a backslash.
static const char *element_end(const char *p) {
    while (*p && *p != ',') {
        const char *behind = strchr("[{(", *p) ? behind_partner(p) : NULL;
        if (behind)
            p = behind;
        else
            p += *p == '\\' && p[1] ? 2 : 1;
    }
    return p;
}

// The closing quote of an element that is quoted as a whole, else NULL.
static const char *closing_quote(const char *p) {
    const char *end = *p == '"' || *p == '\'' ? strchr(p + 1, *p) : NULL;
    return end && (end[1] == ',' || !end[1]) ? end : NULL;
}

size_t option_split(struct arena *a, const char *text, char ***parts) {
    size_t count = 0, room = 0;
    *parts = NULL;
    for (const char *p = text;; p++) {
        const char *quote = closing_quote(p);
        const char *end = quote ? quote + 1 : element_end(p);
        array_grow_in(a, *parts, &room, count + 1);
        (*parts)[count++] = quote ? arena_strndup(a, p + 1, (size_t)(quote - p - 1))
                                  : arena_strndup(a, p, (size_t)(end - p));
        if (!*end)
            return count;
        p = end;
    }
}
