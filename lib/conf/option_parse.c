// SPDX-License-Identifier: Apache-2.0
// Values from the text of flags, environment variables and defaults.
#include "conf/cli.h"
#include "conf/option_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int option_plain_name(const char *name, struct err *e) {
    if (str_is_name(name, OPTION_PLAIN_BYTES_MAX))
        return 0;
    return err_set(e, ERR_CONFIG,
                   "'%.100s' is not a valid name: use letters, digits, '.', '_' and '-', at most "
                   "%d, and a letter or digit first",
                   name, OPTION_PLAIN_BYTES_MAX);
}

size_t option_value_bytes(enum option_type type) {
    static const size_t sizes[] = {
#define X(name, c_type, text) [name] = sizeof(c_type),
        OPTION_TYPES(X)
#undef X
    };
    return sizes[type];
}

const char *option_type_text(enum option_type type) {
    static const char *const texts[] = {
#define X(name, c_type, text) [name] = text,
        OPTION_TYPES(X)
#undef X
    };
    return texts[type];
}

bool option_is_scalar(enum option_type type) {
    return type != OPTION_LIST && type != OPTION_PATHS && type != OPTION_MAP &&
           type != OPTION_RECORDS;
}

void option_value_unset(enum option_type type, void *dest) {
    memset(dest, 0, option_value_bytes(type));
    if (type == OPTION_STRING || type == OPTION_PATH)
        *(const char **)dest = "";
}

// ---- numbers ---------------------------------------------------------------------------------
static void format_number(struct strbuf *b, const struct option_row *r, double v) {
    if (r->type == OPTION_DURATION)
        option_format_duration(b, (int64_t)v);
    else if (r->type == OPTION_BYTES)
        option_format_bytes(b, (int64_t)v);
    else
        strbuf_addf(b, "%.15g", v);
}

int option_verify_bounds(const struct option_row *r, double v, struct err *e) {
    bool open = (r->marks & OPTION_OPEN_MAX) && v >= r->max;
    bool low = v<r->min, high = v> r->max || open;
    if ((r->min == 0 && r->max == 0) || (!low && !high))
        return 0;
    struct strbuf b = {0};
    format_number(&b, r, v);
    strbuf_addf(&b, " is %s ",
                low    ? "below the minimum"
                : open ? "not below the limit"
                       : "above the maximum");
    format_number(&b, r, low ? r->min : r->max);
    err_set(e, ERR_CONFIG, "%s", strbuf_cstr(&b));
    strbuf_fini(&b);
    return -1;
}

int option_verify_items(const struct option_row *r, size_t count, struct err *e) {
    if (count > OPTION_ITEMS_MAX)
        return err_set(e, ERR_CONFIG, "%zu items are above the maximum %d", count,
                       OPTION_ITEMS_MAX);
    if (count && r->items_min && count < r->items_min)
        return err_set(e, ERR_CONFIG, "%zu items are below the minimum %zu", count, r->items_min);
    if (count && r->items_max && count > r->items_max)
        return err_set(e, ERR_CONFIG, "%zu items are above the maximum %zu", count, r->items_max);
    return 0;
}

static int parse_bool(const char *text, bool *out, struct err *e) {
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1", NULL};
    for (int i = 0; words[i]; i++)
        if (strcasecmp(text, words[i]) == 0) {
            *out = i & 1;
            return 0;
        }
    return err_set(e, ERR_CONFIG, "'%.100s' is neither true nor false", text);
}

static int parse_int(const struct option_row *r, const char *text, int64_t *out, struct err *e) {
    if (str_parse_i64(text, INT64_MIN, INT64_MAX, out, e) < 0)
        return -1;
    return option_verify_bounds(r, (double)*out, e);
}

static int parse_real(const struct option_row *r, const char *text, double *out, struct err *e) {
    if (str_parse_f64(text, -HUGE_VAL, HUGE_VAL, out, e) < 0)
        return -1;
    if (!isfinite(*out))
        return err_set(e, ERR_CONFIG, "'%.100s' is not a finite number", text);
    return option_verify_bounds(r, *out, e);
}

static int parse_bytes(const struct option_row *r, const char *text, int64_t *out, struct err *e) {
    uint64_t v;
    if (str_parse_bytes(text, &v, e) < 0)
        return -1;
    *out = (int64_t)v;
    return option_verify_bounds(r, (double)*out, e);
}

static int parse_duration(const struct option_row *r, const char *text, int64_t *out,
                          struct err *e) {
    if (str_parse_duration_ms(text, out, e) < 0)
        return -1;
    return option_verify_bounds(r, (double)*out, e);
}

// ---- words -----------------------------------------------------------------------------------
int option_parse_choice(struct arena *a, const struct option_row *r, const char *text, int *index,
                        struct err *e) {
    struct strbuf all = {0};
    for (int i = 0; r->choices[i]; i++) {
        if (strcmp(text, r->choices[i]) == 0) {
            strbuf_fini(&all);
            *index = i;
            return 0;
        }
        strbuf_addf(&all, "%s%s", i ? ", " : "", r->choices[i]);
    }
    err_set(e, ERR_CONFIG, "'%.100s' is none of %s%s%s", text,
            r->type == OPTION_COUNT ? "a number, " : "", strbuf_cstr(&all),
            cli_nearest(a, text, r->choices));
    strbuf_fini(&all);
    return -1;
}

static int parse_count(struct arena *a, const struct option_row *r, const char *text, int64_t *out,
                       struct err *e) {
    int index;
    if ((text[0] >= '0' && text[0] <= '9') || text[0] == '-' || text[0] == '+')
        return parse_int(r, text, out, e);
    if (option_parse_choice(a, r, text, &index, e) < 0)
        return -1;
    *out = -1 - index;
    return 0;
}

static int parse_range(struct arena *a, const struct option_row *r, const char *text,
                       struct option_range *out, struct err *e) {
    *out = (struct option_range){0};
    if (!*text)
        return 0;
    const char *colon = strchr(text, ':');
    const char *first = colon ? arena_strndup(a, text, (size_t)(colon - text)) : text;
    if (parse_int(r, first, &out->min, e) < 0 ||
        parse_int(r, colon ? colon + 1 : text, &out->max, e) < 0)
        return e->code == ERR_FORMAT ? err_set(e, ERR_CONFIG, "'%.100s' is not N or MIN:MAX", text)
                                     : -1;
    if (out->min > out->max)
        return err_set(e, ERR_CONFIG, "'%.100s': the minimum is above the maximum", text);
    return 0;
}

bool option_is_address(const char *text) {
    return strstr(text, "://") || str_starts(text, "run:");
}

static int parse_string(struct arena *a, const struct option_row *r, const char *text,
                        const char **out, struct err *e) {
    *out = arena_strdup(a, text);
    return *text && r->check ? r->check(text, e) : 0;
}

// ---- lists of numbers --------------------------------------------------------------------------
static int parse_numbers(struct arena *a, const struct option_row *r, const char *text, void *dest,
                         struct err *e) {
    char **parts;
    size_t count = *text ? str_split(a, text, ',', &parts) : 0;
    if (option_verify_items(r, count, e) < 0)
        return -1;
    int64_t *ints = arena_new(a, int64_t, count + 1);
    double *reals = arena_new(a, double, count + 1);
    for (size_t i = 0; i < count; i++) {
        const char *part = parts[i] + strspn(parts[i], " ");
        int failed = r->type == OPTION_INTS ? parse_int(r, part, &ints[i], e)
                                            : parse_real(r, part, &reals[i], e);
        if (failed < 0)
            return -1;
    }
    if (r->type == OPTION_INTS)
        *(struct option_ints *)dest = (struct option_ints){ints, count};
    else
        *(struct option_reals *)dest = (struct option_reals){reals, count};
    return 0;
}

// ---- any type ----------------------------------------------------------------------------------
int option_parse_scalar(struct arena *a, const struct option_row *r, const char *text, void *dest,
                        struct err *e) {
    switch (r->type) {
    case OPTION_BOOL: return parse_bool(text, dest, e);
    case OPTION_INT: return parse_int(r, text, dest, e);
    case OPTION_REAL: return parse_real(r, text, dest, e);
    case OPTION_STRING:
    case OPTION_PATH: return parse_string(a, r, text, dest, e);
    case OPTION_DURATION: return parse_duration(r, text, dest, e);
    case OPTION_BYTES: return parse_bytes(r, text, dest, e);
    case OPTION_CHOICE: return option_parse_choice(a, r, text, dest, e);
    case OPTION_COUNT: return parse_count(a, r, text, dest, e);
    case OPTION_RANGE: return parse_range(a, r, text, dest, e);
    case OPTION_INTS:
    case OPTION_REALS: return parse_numbers(a, r, text, dest, e);
    default: break;
    }
    must(false); // lists, maps and records have their own ways
    return -1;
}

// Complaints of a TOML value inside a flag: the first one is the error.
static void fail_first(void *ctx, const struct toml *at, const char *name, const char *text) {
    struct err *e = ctx;
    (void)at;
    if (e->code == ERR_NONE)
        err_set(e, ERR_CONFIG, "%s%s%s", *name ? name : "", *name ? ": " : "", text);
}

static int parse_toml_text(struct arena *a, const struct option_row *r, const char *text,
                           void *dest, struct err *e) {
    struct toml *root;
    struct toml_error *x;
    const char *statement = arena_printf(a, "v=%s", text);
    int count = toml_parse_all(a, statement, strlen(statement), &root, &x);
    if (count || root->len != 1)
        return err_set(e, ERR_CONFIG, "'%.100s': %s", text,
                       count ? x->text : "more than one value");
    err_clear(e);
    struct option_reader rd = {.a = a, .fail = fail_first, .ctx = e};
    return option_read_toml(&rd, r, root->child, "", dest);
}

static bool is_toml(struct arena *a, const char *text) {
    struct toml *root;
    struct toml_error *x;
    const char *statement = arena_printf(a, "v=%s", text);
    return toml_parse_all(a, statement, strlen(statement), &root, &x) == 0 && root->len == 1;
}

int option_parse(struct arena *a, const struct option_row *r, const char *text, void *dest,
                 struct err *e) {
    bool numbers = r->type == OPTION_INTS || r->type == OPTION_REALS;
    if ((!option_is_scalar(r->type) || numbers) && (text[0] == '[' || text[0] == '{') &&
        (!(r->marks & OPTION_BRACKETS) || is_toml(a, text)))
        return parse_toml_text(a, r, text, dest, e);
    if (option_is_scalar(r->type))
        return option_parse_scalar(a, r, text, dest, e);
    option_value_unset(r->type, dest);
    char **parts;
    size_t count = *text ? option_split(a, text, &parts) : 0;
    if (option_verify_items(r, count, e) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (option_append(a, r, parts[i], dest, e) < 0)
            return -1;
    return 0;
}
