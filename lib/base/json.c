// SPDX-License-Identifier: Apache-2.0
// The reader of json.h: recursive descent with a depth limit, RFC 8259.
#include "base/json.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    struct arena *a;
    const char *p, *end;
    int line;
    struct err *e;
};

static int parse_value(struct parser *s, struct json *v, int depth);

static int fail(struct parser *s, const char *what) {
    return err_set(s->e, ERR_FORMAT, "json: line %d: %s", s->line, what);
}

static void skip_space(struct parser *s) {
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->line += *s->p++ == '\n'; // no string has one
}

static bool take(struct parser *s, char c) {
    if (s->p < s->end && *s->p == c) {
        s->p++;
        return true;
    }
    return false;
}

static int parse_hex4(struct parser *s, unsigned *out) {
    unsigned v = 0;
    if (s->end - s->p < 4)
        return fail(s, "cut \\u escape");
    for (int i = 0; i < 4; i++) {
        int c = (unsigned char)s->p[i];
        if (!isxdigit(c))
            return fail(s, "bad \\u escape");
        v = v * 16 + (unsigned)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    }
    s->p += 4;
    *out = v;
    return 0;
}

static char *put_utf8(char *q, unsigned c) {
    if (c < 0x80) {
        *q++ = (char)c;
    } else if (c < 0x800) {
        *q++ = (char)(0xC0 | c >> 6);
        *q++ = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *q++ = (char)(0xE0 | c >> 12);
        *q++ = (char)(0x80 | (c >> 6 & 0x3F));
        *q++ = (char)(0x80 | (c & 0x3F));
    } else {
        *q++ = (char)(0xF0 | c >> 18);
        *q++ = (char)(0x80 | (c >> 12 & 0x3F));
        *q++ = (char)(0x80 | (c >> 6 & 0x3F));
        *q++ = (char)(0x80 | (c & 0x3F));
    }
    return q;
}

// After the backslash: one escape, written at *q.
static int parse_escape(struct parser *s, char **q) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (s->p >= s->end)
        return fail(s, "cut string");
    char c = *s->p++;
    const char *at = c ? strchr(from, c) : NULL;
    if (at) {
        *(*q)++ = to[at - from];
        return 0;
    }
    if (c != 'u')
        return fail(s, "unknown escape");
    unsigned code, low;
    if (parse_hex4(s, &code) < 0)
        return -1;
    if (code >= 0xD800 && code < 0xDC00) {
        if (!take(s, '\\') || !take(s, 'u') || parse_hex4(s, &low) < 0 || low < 0xDC00 ||
            low > 0xDFFF)
            return fail(s, "lone surrogate");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
        return fail(s, "lone surrogate");
    }
    *q = put_utf8(*q, code);
    return 0;
}

static int parse_string(struct parser *s, const char **out, size_t *len) {
    const char *close = s->p;
    while (close < s->end && *close != '"') // an upper bound for the decoded length
        close += *close == '\\' && s->end - close > 1 ? 2 : 1;
    if (close >= s->end)
        return fail(s, "cut string");
    char *buf = arena_alloc(s->a, 1, 1, (size_t)(close - s->p) + 1), *q = buf;
    while (*s->p != '"') {
        unsigned char c = (unsigned char)*s->p++;
        if (c == '\\') {
            if (parse_escape(s, &q) < 0)
                return -1;
        } else if (c < 0x20) {
            return fail(s, "control character in string");
        } else {
            *q++ = (char)c;
        }
        if (s->p >= s->end)
            return fail(s, "cut string");
    }
    s->p++;
    *q = '\0';
    *out = buf;
    *len = (size_t)(q - buf);
    return 0;
}

static int parse_number(struct parser *s, struct json *v) {
    const char *from = s->p;
    bool whole = true;
    take(s, '-');
    if (!take(s, '0')) {
        if (s->p >= s->end || !isdigit((unsigned char)*s->p))
            return fail(s, "unexpected character");
        while (s->p < s->end && isdigit((unsigned char)*s->p))
            s->p++;
    }
    if (take(s, '.')) {
        whole = false;
        const char *digits = s->p;
        while (s->p < s->end && isdigit((unsigned char)*s->p))
            s->p++;
        if (s->p == digits)
            return fail(s, "no digit after the point");
    }
    if (take(s, 'e') || take(s, 'E')) {
        whole = false;
        if (!take(s, '+'))
            take(s, '-');
        const char *digits = s->p;
        while (s->p < s->end && isdigit((unsigned char)*s->p))
            s->p++;
        if (s->p == digits)
            return fail(s, "no digit in the exponent");
    }
    char *text = arena_strndup(s->a, from, (size_t)(s->p - from));
    v->number = strtod(text, NULL);
    errno = 0;
    v->integer = whole ? strtoll(text, NULL, 10) : 0;
    bool minus_zero = v->integer == 0 && text[0] == '-'; // only a double can hold it
    v->type = whole && errno == 0 && !minus_zero ? JSON_INT : JSON_NUM;
    return 0;
}

static int parse_children(struct parser *s, struct json *v, char close, int depth) {
    struct json **tail = &v->child;
    skip_space(s);
    if (take(s, close))
        return 0;
    for (;;) {
        struct json *c = arena_new(s->a, struct json, 1);
        skip_space(s);
        if (v->type == JSON_OBJECT) {
            if (!take(s, '"'))
                return fail(s, "expected a member name");
            if (parse_string(s, &c->key, &c->key_len) < 0)
                return -1;
            skip_space(s);
            if (!take(s, ':'))
                return fail(s, "expected ':'");
        }
        if (parse_value(s, c, depth + 1) < 0)
            return -1;
        *tail = c;
        tail = &c->next;
        v->len++;
        skip_space(s);
        if (take(s, close))
            return 0;
        if (!take(s, ','))
            return fail(s, "expected ',' or the end of the list");
    }
}

static bool take_word(struct parser *s, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return false;
    s->p += n;
    return true;
}

static int parse_value(struct parser *s, struct json *v, int depth) {
    if (depth >= JSON_DEPTH_MAX)
        return err_set(s->e, ERR_LIMIT, "json: nested deeper than %d", JSON_DEPTH_MAX);
    skip_space(s);
    v->line = s->line;
    if (take(s, '{')) {
        v->type = JSON_OBJECT;
        return parse_children(s, v, '}', depth);
    }
    if (take(s, '[')) {
        v->type = JSON_ARRAY;
        return parse_children(s, v, ']', depth);
    }
    if (take(s, '"')) {
        v->type = JSON_STR;
        return parse_string(s, &v->str, &v->len);
    }
    if (take_word(s, "true") || take_word(s, "false")) {
        v->type = JSON_BOOL;
        v->boolean = s->p[-2] == 'u';
        return 0;
    }
    if (take_word(s, "null"))
        return 0;
    return parse_number(s, v);
}

int json_parse(struct arena *a, const char *text, size_t len, struct json **out, struct err *e) {
    struct parser s = {a, text, text + len, 1, e};
    struct json *v = arena_new(a, struct json, 1);
    if (parse_value(&s, v, 0) < 0)
        return -1;
    skip_space(&s);
    if (s.p != s.end)
        return fail(&s, "text after the value");
    *out = v;
    return 0;
}

const struct json *json_get(const struct json *object, const char *key) {
    const struct json *found = NULL;
    if (object && object->type == JSON_OBJECT)
        for (const struct json *c = object->child; c; c = c->next)
            if (strcmp(c->key, key) == 0)
                found = c;
    return found;
}

const char *json_get_str(const struct json *object, const char *key, const char *absent) {
    const struct json *v = json_get(object, key);
    return v && v->type == JSON_STR ? v->str : absent;
}

int64_t json_get_int(const struct json *object, const char *key, int64_t absent) {
    const struct json *v = json_get(object, key);
    return v && v->type == JSON_INT ? v->integer : absent;
}

double json_get_num(const struct json *object, const char *key, double absent) {
    const struct json *v = json_get(object, key);
    return v && (v->type == JSON_INT || v->type == JSON_NUM) ? v->number : absent;
}

bool json_get_bool(const struct json *object, const char *key, bool absent) {
    const struct json *v = json_get(object, key);
    return v && v->type == JSON_BOOL ? v->boolean : absent;
}
