// SPDX-License-Identifier: Apache-2.0
// JSON: a writer onto a strbuf and a small bounded reader (RFC 8259).
//
//     struct json_out j; json_open(&j, &buf);
//     json_object(&j); json_str(&j, "event", "started"); json_int(&j, "pid", pid); json_end(&j);
//
// Reader: a tree in an arena; depth and size are limited; duplicate keys: the last wins on lookup.
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { JSON_DEPTH_MAX = 64 };

struct json_out {
    struct strbuf *out;
    int depth;
    char close[JSON_DEPTH_MAX];
    bool first[JSON_DEPTH_MAX];
};

void json_open(struct json_out *j, struct strbuf *out);
// key is NULL for the root and for array elements.
void json_object(struct json_out *j, const char *key);
void json_array(struct json_out *j, const char *key);
void json_end(struct json_out *j); // closes the innermost object or array
void json_str(struct json_out *j, const char *key, const char *value); // NULL value -> null
void json_strn(struct json_out *j, const char *key, const char *value, size_t len);
void json_int(struct json_out *j, const char *key, int64_t value);
void json_num(struct json_out *j, const char *key, double value); // not finite -> null
void json_bool(struct json_out *j, const char *key, bool value);
void json_null(struct json_out *j, const char *key);
// A tree that was read, under its own key.
struct json;
void json_value(struct json_out *j, const struct json *v);
// Invalid UTF-8 is replaced by U+FFFD so that the output is always valid JSON.
void json_escape(struct strbuf *out, const char *s, size_t len);

enum json_type { JSON_NULL, JSON_BOOL, JSON_INT, JSON_NUM, JSON_STR, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_type type;
    int line; // where the value begins, from 1
    bool boolean;
    int64_t integer;    // JSON_INT (fits in 64 bits, no fraction or exponent)
    double number;      // JSON_INT and JSON_NUM
    const char *str;    // JSON_STR, NUL-terminated, may hold NULs: see len
    size_t len;         // bytes of str, or number of elements
    struct json *child; // first element or member
    struct json *next;  // sibling
    const char *key;    // member name, NUL-terminated, may hold NULs; NULL in arrays
    size_t key_len;     // bytes of key
};

// Parses the whole text; trailing white space only. All memory is in the arena.
int json_parse(struct arena *a, const char *text, size_t len, struct json **out, struct err *e);
const struct json *json_get(const struct json *object, const char *key); // NULL if absent
// Values with a default when absent or of another type.
const char *json_get_str(const struct json *object, const char *key, const char *absent);
int64_t json_get_int(const struct json *object, const char *key, int64_t absent);
double json_get_num(const struct json *object, const char *key, double absent);
bool json_get_bool(const struct json *object, const char *key, bool absent);

#endif
