// SPDX-License-Identifier: Apache-2.0
// The writer of json.h.
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_open(struct json_out *j, struct strbuf *out) {
    *j = (struct json_out){.out = out};
}

// Comma and key before a value.
static void lead(struct json_out *j, const char *key) {
    if (j->depth > 0) {
        if (!j->first[j->depth - 1])
            strbuf_addc(j->out, ',');
        j->first[j->depth - 1] = false;
    }
    if (key) {
        strbuf_addc(j->out, '"');
        json_escape(j->out, key, strlen(key));
        strbuf_adds(j->out, "\":");
    }
}

static void nest(struct json_out *j, const char *key, char open, char close) {
    lead(j, key);
    must(j->depth < JSON_DEPTH_MAX);
    strbuf_addc(j->out, open);
    j->close[j->depth] = close;
    j->first[j->depth] = true;
    j->depth++;
}

void json_object(struct json_out *j, const char *key) {
    nest(j, key, '{', '}');
}

void json_array(struct json_out *j, const char *key) {
    nest(j, key, '[', ']');
}

void json_end(struct json_out *j) {
    must(j->depth > 0);
    j->depth--;
    strbuf_addc(j->out, j->close[j->depth]);
}

void json_strn(struct json_out *j, const char *key, const char *value, size_t len) {
    lead(j, key);
    strbuf_addc(j->out, '"');
    json_escape(j->out, value, len);
    strbuf_addc(j->out, '"');
}

void json_str(struct json_out *j, const char *key, const char *value) {
    if (value)
        json_strn(j, key, value, strlen(value));
    else
        json_null(j, key);
}

void json_int(struct json_out *j, const char *key, int64_t value) {
    lead(j, key);
    strbuf_addf(j->out, "%lld", (long long)value);
}

void json_num(struct json_out *j, const char *key, double value) {
    if (!isfinite(value)) {
        json_null(j, key);
        return;
    }
    lead(j, key);
    // The shortest form that reads back as the same number.
    char text[32];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    strbuf_adds(j->out, text);
}

void json_bool(struct json_out *j, const char *key, bool value) {
    lead(j, key);
    strbuf_adds(j->out, value ? "true" : "false");
}

void json_null(struct json_out *j, const char *key) {
    lead(j, key);
    strbuf_adds(j->out, "null");
}

void json_value(struct json_out *j, const struct json *v) {
    switch (v->type) {
    case JSON_NULL: json_null(j, v->key); break;
    case JSON_BOOL: json_bool(j, v->key, v->boolean); break;
    case JSON_INT: json_int(j, v->key, v->integer); break;
    case JSON_NUM: json_num(j, v->key, v->number); break;
    case JSON_STR: json_strn(j, v->key, v->str, v->len); break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        v->type == JSON_ARRAY ? json_array(j, v->key) : json_object(j, v->key);
        for (const struct json *c = v->child; c; c = c->next)
            json_value(j, c);
        json_end(j);
        break;
    }
}

// JSON is shown on terminals, too.
static bool drives_terminal(const char *p, size_t left) {
    char shown[STR_VISIBLE_BYTES_MAX];
    return str_visible(p, left, shown) == 0 || shown[0] != p[0] || *p == '\t';
}

void json_escape(struct strbuf *out, const char *s, size_t len) {
    const unsigned char *p = (const unsigned char *)s;
    for (size_t i = 0; i < len;) {
        size_t n = str_utf8(p + i, len - i);
        if (p[i] == '"' || p[i] == '\\') {
            strbuf_addc(out, '\\');
            strbuf_addc(out, (char)p[i]);
            n = 1;
        } else if (p[i] == '\n') {
            strbuf_adds(out, "\\n");
            n = 1;
        } else if (n && drives_terminal(s + i, len - i)) {
            unsigned c = n == 1 ? p[i]
                         : n == 2
                             ? (p[i] & 0x1Fu) << 6 | (p[i + 1] & 0x3Fu)
                             : (p[i] & 0x0Fu) << 12 | (p[i + 1] & 0x3Fu) << 6 | (p[i + 2] & 0x3Fu);
            strbuf_addf(out, "\\u%04x", c);
        } else if (n == 0) {
            strbuf_adds(out, "\xEF\xBF\xBD"); // U+FFFD
            n = 1;
        } else {
            strbuf_add(out, p + i, n);
        }
        i += n;
    }
}
