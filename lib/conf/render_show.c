// SPDX-License-Identifier: Apache-2.0
// `dtctl config show`: every value and where it came from.
#include "base/json.h"
#include "conf/option_value.h"
#include "conf/render.h"
#include "conf/render_row.h"

enum { ORIGIN_COLUMN = 44 };

static bool is_shown(const struct render_each *x, bool only_given) {
    return x->value && x->row->key && (!only_given || x->place->source != OPTION_DEFAULT);
}

void render_show(struct strbuf *out, const struct option_set *s, bool only_given) {
    struct arena a = {0};
    for (struct render_each x = {0}; render_next(&x, s);) {
        if (!is_shown(&x, only_given))
            continue;
        size_t from = out->len;
        strbuf_addf(out, "%s = ", x.row->key);
        option_format(out, x.row, x.value);
        size_t width = out->len - from;
        int pad = width < ORIGIN_COLUMN ? ORIGIN_COLUMN - (int)width : 1;
        strbuf_addf(out, "%*s# %s\n", pad, "", option_place_text(&a, x.place));
    }
    arena_fini(&a);
}

// ---- JSON ------------------------------------------------------------------------------------
static void json_items(struct json_out *j, const char *key, const struct option_row *r,
                       const void *value) {
    const struct option_list *list = value;
    const struct option_ints *ints = value;
    const struct option_reals *reals = value;
    json_array(j, key);
    if (r->type == OPTION_INTS)
        for (size_t i = 0; i < ints->count; i++)
            json_int(j, NULL, ints->items[i]);
    else if (r->type == OPTION_REALS)
        for (size_t i = 0; i < reals->count; i++)
            json_num(j, NULL, reals->items[i]);
    else
        for (size_t i = 0; i < list->count; i++)
            json_str(j, NULL, list->items[i]);
    json_end(j);
}

static void json_map(struct json_out *j, const char *key, const struct option_map *map) {
    json_object(j, key);
    for (size_t i = 0; i < map->count; i++)
        json_str(j, map->items[i].name, map->items[i].value);
    json_end(j);
}

// A value in the nearest form that JSON has; durations (ms) and sizes (bytes) are numbers.
static void json_scalar(struct json_out *j, const char *key, const struct option_row *r,
                        const void *value) {
    const int64_t *number = value;
    const struct option_range *range = value;
    switch (r->type) {
    case OPTION_BOOL: json_bool(j, key, *(const bool *)value); break;
    case OPTION_REAL: json_num(j, key, *(const double *)value); break;
    case OPTION_CHOICE: json_str(j, key, r->choices[*(const int *)value]); break;
    case OPTION_STRING:
    case OPTION_PATH: json_str(j, key, *(const char *const *)value); break;
    case OPTION_COUNT:
        if (*number < 0)
            json_str(j, key, r->choices[-1 - *number]);
        else
            json_int(j, key, *number);
        break;
    case OPTION_RANGE:
        json_object(j, key);
        json_int(j, "min", range->min);
        json_int(j, "max", range->max);
        json_end(j);
        break;
    default: json_int(j, key, *number); break;
    }
}

static void json_records(struct json_out *j, const char *key, const struct option_row *r,
                         const struct option_records *all) {
    json_array(j, key);
    for (size_t i = 0; i < all->count; i++) {
        const char *element = (const char *)all->items + i * r->record->size;
        json_object(j, NULL);
        for (size_t f = 0; f < r->record->count; f++)
            json_scalar(j, r->record->rows[f].key, &r->record->rows[f],
                        element + r->record->rows[f].offset);
        json_end(j);
    }
    json_end(j);
}

static void value_json(struct json_out *j, const char *key, const struct option_row *r,
                       const void *value) {
    if (r->type == OPTION_MAP)
        json_map(j, key, value);
    else if (r->type == OPTION_RECORDS)
        json_records(j, key, r, value);
    else if (r->type == OPTION_INTS || r->type == OPTION_REALS || !option_is_scalar(r->type))
        json_items(j, key, r, value);
    else
        json_scalar(j, key, r, value);
}

void render_show_json(struct strbuf *out, const struct option_set *s, bool only_given) {
    static const char *const sources[] = {"default", "recipe",      "file",
                                          "kept",    "environment", "flag"};
    struct json_out j;
    json_open(&j, out);
    json_array(&j, NULL);
    for (struct render_each x = {0}; render_next(&x, s);) {
        if (!is_shown(&x, only_given))
            continue;
        json_object(&j, NULL);
        json_str(&j, "key", x.row->key);
        value_json(&j, "value", x.row, x.value);
        json_str(&j, "source", sources[x.place->source]);
        if (x.place->name)
            json_str(&j, "name", x.place->name);
        if (x.place->source == OPTION_FILE || x.place->source == OPTION_KEPT) {
            json_int(&j, "line", x.place->line);
            json_int(&j, "column", x.place->column);
        }
        json_end(&j);
    }
    json_end(&j);
    strbuf_addc(out, '\n');
}
