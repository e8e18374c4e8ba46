// SPDX-License-Identifier: Apache-2.0
// TOML and configuration: any bytes parse or are refused; what was read can be written and reads
// back the same; the option tables take any tree, and what they took they can write and read.
#include "base/err.h"
#include "conf/config.h"
#include "conf/render.h"
#include "conf/toml.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void write_value(struct strbuf *out, const struct toml *v);

static void write_time(struct strbuf *out, const struct toml *v) {
    const struct toml_time *t = &v->time;
    if (v->type != TOML_LOCAL_TIME)
        strbuf_addf(out, "%04d-%02d-%02d", t->year, t->month, t->day);
    if (v->type != TOML_LOCAL_DATE)
        strbuf_addf(out, "%s%02d:%02d:%02d.%09d", v->type == TOML_LOCAL_TIME ? "" : "T", t->hour,
                    t->minute, t->second, t->nanosecond);
    int off = t->offset_minutes < 0 ? -t->offset_minutes : t->offset_minutes;
    if (v->type == TOML_DATETIME)
        strbuf_addf(out, "%c%02d:%02d", t->offset_minutes < 0 ? '-' : '+', off / 60, off % 60);
}

static void write_members(struct strbuf *out, const struct toml *v) {
    bool table = v->type == TOML_TABLE;
    strbuf_addc(out, table ? '{' : '[');
    for (const struct toml *c = v->child; c; c = c->next) {
        if (table) {
            toml_write_quoted(out, c->key, c->key_len);
            strbuf_addc(out, '=');
        }
        write_value(out, c);
        strbuf_adds(out, c->next ? "," : "");
    }
    strbuf_addc(out, table ? '}' : ']');
}

static void write_value(struct strbuf *out, const struct toml *v) {
    switch (v->type) {
    case TOML_STRING: toml_write_quoted(out, v->str, v->len); break;
    case TOML_INT: strbuf_addf(out, "%lld", (long long)v->integer); break;
    case TOML_REAL: toml_write_real_value(out, v->real); break;
    case TOML_BOOL: strbuf_adds(out, v->boolean ? "true" : "false"); break;
    case TOML_ARRAY:
    case TOML_TABLE: write_members(out, v); break;
    default: write_time(out, v); break;
    }
}

static void same(const struct toml *a, const struct toml *b) {
    must(a->type == b->type && a->len == b->len && a->boolean == b->boolean);
    must(a->integer == b->integer && memcmp(&a->time, &b->time, sizeof a->time) == 0);
    must(a->real == b->real || (a->real != a->real && b->real != b->real));
    if (a->type == TOML_STRING)
        must(memcmp(a->str, b->str, a->len) == 0);
    must(a->key_len == b->key_len && (!a->key || memcmp(a->key, b->key, a->key_len) == 0));
    const struct toml *d = b->child;
    for (const struct toml *c = a->child; c; c = c->next, d = d->next)
        same(c, d);
}

// A tree at the depth limit gets one deeper by being a value itself.
static void round_trip(struct arena *a, const struct toml *root) {
    struct strbuf out = {0};
    struct toml *again;
    struct err e;
    for (const struct toml *c = root->child; c; c = c->next) {
        toml_write_quoted(&out, c->key, c->key_len);
        strbuf_adds(&out, " = ");
        write_value(&out, c);
        strbuf_addc(&out, '\n');
    }
    must(toml_parse(a, "again", strbuf_cstr(&out), out.len, &again, &e) == 0);
    same(root, again);
    strbuf_fini(&out);
}

static void configure(struct arena *a, const char *text, size_t size) {
    struct config c, d;
    struct err e;
    struct strbuf out = {0}, again = {0};
    config_open(&c, a, "dtctl", NULL);
    option_set_file(&c.set, "fuzz.toml", text, size);
    if (option_set_finish(&c.set, &e) == 0) {
        render_init(&out, &c.set, NULL, NULL);
        config_open(&d, a, "dtctl", NULL);
        option_set_file(&d.set, "again.toml", strbuf_cstr(&out), out.len);
        must(option_set_finish(&d.set, &e) == 0);
        render_init(&again, &d.set, NULL, NULL);
        must(strcmp(strbuf_cstr(&out), strbuf_cstr(&again)) == 0);
    }
    strbuf_fini(&out);
    strbuf_fini(&again);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct arena a = {0};
    struct toml *root;
    struct toml_error *errors;
    char *text = arena_memdup(&a, data, size);
    int count = toml_parse_all(&a, text, size, &root, &errors);
    must((count == 0) == (errors == NULL));
    if (count == 0)
        round_trip(&a, root);
    configure(&a, text, size);
    arena_fini(&a);
    return 0;
}
