// SPDX-License-Identifier: Apache-2.0
// The TOML parser against the toml-test suite.
//
//     toml_cases DIR LIST   every case of LIST below DIR: TAP. valid/x.toml must give what x.json
//                           says, invalid/x.toml must be refused
//     toml_cases            a decoder as the suite wants it: TOML on standard input, the typed JSON
//                           on standard output, status 1 when it is not TOML 1.0
#include "base/json.h"
#include "conf/toml.h"
#include "tests/tap.h"

#include <errno.h>

enum { CASE_BYTES_MAX = 1 << 20 };

static int read_stream(struct arena *a, FILE *f, char **text, size_t *len) {
    *text = arena_alloc(a, 1, 1, CASE_BYTES_MAX + 1);
    *len = fread(*text, 1, CASE_BYTES_MAX, f);
    return ferror(f) || !feof(f) ? -1 : 0;
}

static int read_case(struct arena *a, const char *path, char **text, size_t *len) {
    FILE *f = fopen(path, "rb");
    if (!f)
        return -1;
    int r = read_stream(a, f, text, len);
    fclose(f);
    return r;
}

// ---- typed JSON ------------------------------------------------------------------------------
static void write_time(struct strbuf *b, const struct toml *v) {
    const struct toml_time *t = &v->time;
    if (v->type != TOML_LOCAL_TIME)
        strbuf_addf(b, "%04d-%02d-%02d", t->year, t->month, t->day);
    if (v->type == TOML_LOCAL_DATE)
        return;
    strbuf_addf(b, "%s%02d:%02d:%02d", v->type == TOML_LOCAL_TIME ? "" : "T", t->hour, t->minute,
                t->second);
    if (t->nanosecond)
        strbuf_addf(b, ".%09d", t->nanosecond);
    int off = t->offset_minutes;
    if (v->type == TOML_DATETIME && off == 0)
        strbuf_addc(b, 'Z');
    else if (v->type == TOML_DATETIME)
        strbuf_addf(b, "%c%02d:%02d", off < 0 ? '-' : '+', abs(off) / 60, abs(off) % 60);
}

static const char *const type_names[] = {
    [TOML_STRING] = "string",
    [TOML_INT] = "integer",
    [TOML_REAL] = "float",
    [TOML_BOOL] = "bool",
    [TOML_DATETIME] = "datetime",
    [TOML_LOCAL_DATETIME] = "datetime-local",
    [TOML_LOCAL_DATE] = "date-local",
    [TOML_LOCAL_TIME] = "time-local",
};

static void write_scalar(struct strbuf *out, const struct toml *v) {
    struct strbuf b;
    strbuf_init(&b, 0);
    if (v->type == TOML_STRING)
        strbuf_add(&b, v->str, v->len);
    else if (v->type == TOML_INT)
        strbuf_addf(&b, "%lld", (long long)v->integer);
    else if (v->type == TOML_REAL)
        toml_write_real_value(&b, v->real);
    else if (v->type == TOML_BOOL)
        strbuf_adds(&b, v->boolean ? "true" : "false");
    else
        write_time(&b, v);
    strbuf_addf(out, "{\"type\": \"%s\", \"value\": \"", type_names[v->type]);
    json_escape(out, strbuf_cstr(&b), b.len);
    strbuf_adds(out, "\"}");
    strbuf_fini(&b);
}

// Depth is bounded by TOML_DEPTH_MAX.
static void write_typed(struct strbuf *out, const struct toml *v) {
    if (v->type != TOML_ARRAY && v->type != TOML_TABLE) {
        write_scalar(out, v);
        return;
    }
    strbuf_addc(out, v->type == TOML_TABLE ? '{' : '[');
    for (const struct toml *c = v->child; c; c = c->next) {
        if (c->key) {
            strbuf_addc(out, '"');
            json_escape(out, c->key, c->key_len);
            strbuf_adds(out, "\": ");
        }
        write_typed(out, c);
        strbuf_adds(out, c->next ? ", " : "");
    }
    strbuf_addc(out, v->type == TOML_TABLE ? '}' : ']');
}

// ---- comparison ------------------------------------------------------------------------------
// Numbers and times by value: both texts are read as TOML.
static bool same_value(const char *got, const char *want, bool as_float) {
    struct arena a = {0};
    struct toml *g, *w;
    struct err e;
    char *gt = arena_printf(&a, "v = %s", got), *wt = arena_printf(&a, "v = %s", want);
    bool same = false;
    if (toml_parse(&a, "got", gt, strlen(gt), &g, &e) == 0 &&
        toml_parse(&a, "want", wt, strlen(wt), &w, &e) == 0) {
        g = g->child;
        w = w->child;
        same = (isnan(g->real) && isnan(w->real)) || g->real == w->real;
        if (!as_float)
            same = same && g->type == w->type && g->integer == w->integer &&
                   g->boolean == w->boolean && memcmp(&g->time, &w->time, sizeof g->time) == 0;
    }
    arena_fini(&a);
    return same;
}

static const char *typed(const struct json *v, const char *field) {
    const struct json *x = v->type == JSON_OBJECT && v->len == 2 ? json_get(v, field) : NULL;
    return x && x->type == JSON_STR ? x->str : NULL;
}

static bool same_typed(const struct json *got, const struct json *want) {
    const char *type = typed(want, "type"), *value = typed(want, "value");
    if (type && value) {
        const struct json *g = typed(got, "value") ? json_get(got, "value") : NULL;
        const struct json *w = json_get(want, "value");
        if (!g || !tap_same_str(typed(got, "type"), type))
            return false;
        if (strcmp(type, "string") != 0)
            return same_value(g->str, value, strcmp(type, "float") == 0);
        return g->len == w->len && memcmp(g->str, w->str, w->len) == 0;
    }
    if (got->type != want->type || got->len != want->len)
        return false;
    const struct json *g = got->child;
    for (const struct json *w = want->child; w; w = w->next, g = g->next) {
        const struct json *other = want->type == JSON_OBJECT ? json_get(got, w->key) : g;
        if (!other || !same_typed(other, w))
            return false;
    }
    return true;
}

static void check_valid(struct arena *a, const char *name, const char *path, const char *text,
                        size_t len) {
    struct toml *root;
    struct err e;
    struct json *got, *want;
    char *json;
    size_t json_len;
    if (toml_parse(a, name, text, len, &root, &e) < 0) {
        fail("%s", name);
        diag("%s", str_printable(a, e.text, strlen(e.text)));
        return;
    }
    char *expected = arena_printf(a, "%.*s.json", (int)strlen(path) - 5, path);
    if (read_case(a, expected, &json, &json_len) < 0) {
        fail("%s: cannot read %s: %s", name, expected, strerror(errno));
        return;
    }
    struct strbuf out;
    strbuf_init(&out, 0);
    write_typed(&out, root);
    if (json_parse(a, strbuf_cstr(&out), out.len, &got, &e) < 0 ||
        json_parse(a, json, json_len, &want, &e) < 0)
        fail("%s: %s", name, e.text);
    else if (!ok(same_typed(got, want), "%s", name))
        diag("got: %s", strbuf_cstr(&out));
    strbuf_fini(&out);
}

static void check_invalid(struct arena *a, const char *name, const char *text, size_t len) {
    struct toml *root;
    struct toml_error *x;
    int count = toml_parse_all(a, text, len, &root, &x);
    if (ok(count > 0 && x && x->line > 0 && x->column > 0 && x->text[0], "%s", name) && x)
        diag("%d:%d: %s", x->line, x->column, x->text);
}

static void check_case(const char *dir, const char *name) {
    struct arena a = {0};
    char *path = arena_printf(&a, "%s/%s", dir, name), *text;
    size_t len;
    if (read_case(&a, path, &text, &len) < 0)
        fail("%s: cannot read it: %s", name, strerror(errno));
    else if (str_starts(name, "valid/"))
        check_valid(&a, name, path, text, len);
    else
        check_invalid(&a, name, text, len);
    arena_fini(&a);
}

static int decode(void) {
    struct arena a = {0};
    char *text;
    size_t len;
    struct toml *root;
    struct err e;
    struct strbuf out;
    strbuf_init(&out, 0);
    int status = 1;
    if (read_stream(&a, stdin, &text, &len) < 0)
        fprintf(stderr, "cannot read all of standard input (at most %d bytes)\n", CASE_BYTES_MAX);
    else if (toml_parse(&a, "input", text, len, &root, &e) < 0)
        fprintf(stderr, "%s\n", e.text);
    else
        status = 0, write_typed(&out, root), puts(strbuf_cstr(&out));
    strbuf_fini(&out);
    arena_fini(&a);
    return status;
}

int main(int argc, char **argv) {
    if (argc == 1)
        return decode();
    if (argc != 3) {
        fprintf(stderr, "usage: toml_cases [DIR LIST]\n");
        return 2;
    }
    FILE *list = fopen(argv[2], "r");
    if (!list)
        bail_out("cannot open %s: %s", argv[2], strerror(errno));
    char line[512];
    while (fgets(line, sizeof line, list)) {
        line[strcspn(line, "\n")] = '\0';
        if (str_ends(line, ".toml"))
            check_case(argv[1], line);
    }
    fclose(list);
    return done_testing();
}
