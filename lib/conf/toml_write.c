// SPDX-License-Identifier: Apache-2.0
// Writing TOML: keys, strings and numbers so that the parser gives back the same values.
#include "conf/toml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_bare_key(const char *s) {
    static const char bare[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return *s && strspn(s, bare) == strlen(s);
}

void toml_write_quoted(struct strbuf *out, const char *s, size_t len) {
    static const char special[] = "\"\\\b\t\n\f\r", letter[] = "\"\\btnfr";
    strbuf_addc(out, '"');
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)s[i];
        const char *at = c ? strchr(special, c) : NULL;
        size_t n = str_utf8((const unsigned char *)s + i, len - i);
        if (at)
            strbuf_addf(out, "\\%c", letter[at - special]);
        else if (c < 0x20 || c == 0x7F)
            strbuf_addf(out, "\\u%04X", c);
        else if (n == 0)
            strbuf_adds(out, "\xEF\xBF\xBD");
        else
            strbuf_add(out, s + i, n);
        i += n ? n : 1;
    }
    strbuf_addc(out, '"');
}

void toml_write_key(struct strbuf *out, const char *key) {
    if (is_bare_key(key))
        strbuf_adds(out, key);
    else
        toml_write_quoted(out, key, strlen(key));
}

void toml_write_real_value(struct strbuf *out, double v) {
    char s[40];
    if (!isfinite(v)) {
        strbuf_adds(out, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, v);
        if (strtod(s, NULL) == v)
            break;
    }
    strbuf_adds(out, s);
    if (!strpbrk(s, ".e"))
        strbuf_adds(out, ".0");
}

static void begin(struct strbuf *out, const char *key) {
    toml_write_key(out, key);
    strbuf_adds(out, " = ");
}

void toml_write_str(struct strbuf *out, const char *key, const char *value) {
    begin(out, key);
    toml_write_quoted(out, value, strlen(value));
    strbuf_addc(out, '\n');
}

void toml_write_int(struct strbuf *out, const char *key, int64_t value) {
    begin(out, key);
    strbuf_addf(out, "%lld\n", (long long)value);
}

void toml_write_real(struct strbuf *out, const char *key, double value) {
    begin(out, key);
    toml_write_real_value(out, value);
    strbuf_addc(out, '\n');
}

void toml_write_bool(struct strbuf *out, const char *key, bool value) {
    begin(out, key);
    strbuf_adds(out, value ? "true\n" : "false\n");
}

void toml_write_strs(struct strbuf *out, const char *key, const char *const *items, size_t count) {
    begin(out, key);
    strbuf_addc(out, '[');
    for (size_t i = 0; i < count; i++) {
        strbuf_adds(out, i ? ", " : "");
        toml_write_quoted(out, items[i], strlen(items[i]));
    }
    strbuf_adds(out, "]\n");
}

static void header(struct strbuf *out, const char *open, const char *table, const char *name,
                   const char *close) {
    strbuf_adds(out, out->len ? "\n" : "");
    strbuf_adds(out, open);
    strbuf_adds(out, table);
    if (name) {
        strbuf_addc(out, '.');
        toml_write_key(out, name);
    }
    strbuf_adds(out, close);
}

void toml_write_table(struct strbuf *out, const char *table, const char *name) {
    header(out, "[", table, name, "]\n");
}

void toml_write_element(struct strbuf *out, const char *table) {
    header(out, "[[", table, NULL, "]]\n");
}
