// SPDX-License-Identifier: Apache-2.0
// Values as TOML text.
#include "conf/option_value.h"

#include <string.h>

struct step {
    int64_t size;
    const char *unit;
};

// In the largest unit that divides v.
static void format_steps(struct strbuf *out, int64_t v, const struct step *steps) {
    while (v % steps->size || (v == 0 && steps[1].unit))
        steps++;
    strbuf_addf(out, "%lld%s", (long long)(v / steps->size), steps->unit);
}

void option_format_duration(struct strbuf *out, int64_t ms) {
    static const struct step steps[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"},
                                        {1000, "s"},     {1, "ms"},      {0, NULL}};
    if (ms == 0)
        strbuf_adds(out, "0s");
    else
        format_steps(out, ms, steps);
}

void option_format_bytes(struct strbuf *out, int64_t bytes) {
    static const struct step steps[] = {{1ll << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"},
                                        {1 << 10, "KiB"},   {1, ""},          {0, NULL}};
    format_steps(out, bytes, steps);
}

static void format_string(struct strbuf *out, const char *s) {
    toml_write_quoted(out, s, strlen(s));
}

static void format_quoted(struct strbuf *out, const struct option_row *r, int64_t v) {
    struct strbuf b = {0};
    if (r->type == OPTION_DURATION)
        option_format_duration(&b, v);
    else
        option_format_bytes(&b, v);
    format_string(out, strbuf_cstr(&b));
    strbuf_fini(&b);
}

static void format_range(struct strbuf *out, const struct option_range *v) {
    if (v->min == 0 && v->max == 0)
        strbuf_adds(out, "\"\"");
    else if (v->min == v->max)
        strbuf_addf(out, "%lld", (long long)v->min);
    else
        strbuf_addf(out, "\"%lld:%lld\"", (long long)v->min, (long long)v->max);
}

static void format_items(struct strbuf *out, const struct option_row *r, const void *value) {
    const struct option_list *list = value;
    const struct option_ints *ints = value;
    const struct option_reals *reals = value;
    size_t count = r->type == OPTION_INTS    ? ints->count
                   : r->type == OPTION_REALS ? reals->count
                                             : list->count;
    strbuf_addc(out, '[');
    for (size_t i = 0; i < count; i++) {
        strbuf_adds(out, i ? ", " : "");
        if (r->type == OPTION_INTS)
            strbuf_addf(out, "%lld", (long long)ints->items[i]);
        else if (r->type == OPTION_REALS)
            toml_write_real_value(out, reals->items[i]);
        else
            format_string(out, list->items[i]);
    }
    strbuf_addc(out, ']');
}

static void format_map(struct strbuf *out, const struct option_map *map) {
    strbuf_addc(out, '{');
    for (size_t i = 0; i < map->count; i++) {
        strbuf_adds(out, i ? ", " : " ");
        toml_write_key(out, map->items[i].name);
        strbuf_adds(out, " = ");
        format_string(out, map->items[i].value);
    }
    strbuf_adds(out, map->count ? " }" : "}");
}

static void format_record(struct strbuf *out, const struct option_record *rec, const char *element,
                          size_t first) {
    strbuf_addc(out, '{');
    for (size_t i = first; i < rec->count; i++) {
        strbuf_addf(out, "%s%s = ", i > first ? ", " : " ", rec->rows[i].key);
        option_format(out, &rec->rows[i], element + rec->rows[i].offset);
    }
    strbuf_adds(out, " }");
}

static void format_records(struct strbuf *out, const struct option_row *r,
                           const struct option_records *all) {
    const struct option_record *rec = r->record;
    strbuf_addc(out, rec->named ? '{' : '[');
    for (size_t i = 0; i < all->count; i++) {
        const char *element = (const char *)all->items + i * rec->size;
        strbuf_adds(out, i ? ", " : rec->named ? " " : "");
        if (rec->named) {
            toml_write_key(out, option_record_name(rec, element));
            strbuf_adds(out, " = ");
        }
        format_record(out, rec, element, rec->named ? 1 : 0);
    }
    strbuf_adds(out, !rec->named ? "]" : all->count ? " }" : "}");
}

void option_format(struct strbuf *out, const struct option_row *r, const void *value) {
    const int64_t *number = value;
    switch (r->type) {
    case OPTION_BOOL: strbuf_adds(out, *(const bool *)value ? "true" : "false"); break;
    case OPTION_INT: strbuf_addf(out, "%lld", (long long)*number); break;
    case OPTION_REAL: toml_write_real_value(out, *(const double *)value); break;
    case OPTION_STRING:
    case OPTION_PATH: format_string(out, *(const char *const *)value); break;
    case OPTION_DURATION:
    case OPTION_BYTES: format_quoted(out, r, *number); break;
    case OPTION_CHOICE: format_string(out, r->choices[*(const int *)value]); break;
    case OPTION_COUNT:
        if (*number < 0)
            format_string(out, r->choices[-1 - *number]);
        else
            strbuf_addf(out, "%lld", (long long)*number);
        break;
    case OPTION_RANGE: format_range(out, value); break;
    case OPTION_LIST:
    case OPTION_PATHS:
    case OPTION_INTS:
    case OPTION_REALS: format_items(out, r, value); break;
    case OPTION_MAP: format_map(out, value); break;
    case OPTION_RECORDS: format_records(out, r, value); break;
    }
}
