// SPDX-License-Identifier: Apache-2.0
// TOML 1.0: bytes in, a tree out; and a writer for the files that dtctl makes itself.
//
//     struct toml *root;
//     if (toml_parse(&arena, "job.toml", text, len, &root, e) < 0)
//         return -1; // e: "job.toml:12:9: key 'id' is given twice (first at 11:1)"
//     const char *id = toml_get_str(root, "run.id", NULL);
//     for (const struct toml *n = toml_first(root, "node"); n; n = n->next) …
//
// The parser is pure: it reads no file and keeps no memory outside the arena, which owns the tree
// and every string in it. After an error it continues at the next statement, so that all errors of
// a file are found in one pass. Lines and columns count from 1, columns in characters (not bytes).
#ifndef CONF_TOML_H
#define CONF_TOML_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOML_TEXT_BYTES_MAX = 16 << 20,
    TOML_DEPTH_MAX = 96,  // tables and arrays inside each other, dotted keys included
    TOML_ERRORS_MAX = 100 // further ones are counted, not described
};

enum toml_type {
    TOML_STRING,
    TOML_INT,
    TOML_REAL,
    TOML_BOOL,
    TOML_DATETIME,       // with an offset from UTC
    TOML_LOCAL_DATETIME, // without one
    TOML_LOCAL_DATE,
    TOML_LOCAL_TIME,
    TOML_ARRAY,
    TOML_TABLE
};

struct toml_time {
    int year, month, day;     // month and day from 1
    int hour, minute, second; // second up to 60 (leap second)
    int nanosecond;           // further digits are cut off
    int offset_minutes;       // TOML_DATETIME only: local time minus UTC
};

struct toml {
    enum toml_type type;
    int line, column; // where the value (of a table: its header, key or brace) starts

    const char *key; // in a table; NULL in an array and for the root. NUL-terminated
    size_t key_len;  // keys may hold NULs
    int key_line, key_column;

    const char *str; // TOML_STRING: UTF-8, NUL-terminated, may hold NULs
    size_t len;      // bytes of str; number of elements or members
    int64_t integer;
    double real; // TOML_REAL, and TOML_INT converted
    bool boolean;
    struct toml_time time;

    struct toml *child, *next; // first element or member, in file order; sibling
    struct toml *last, *parent;
    unsigned made_by; // private to the parser
};

// One error of the text. The list is in file order.
struct toml_error {
    int line, column;
    const char *text;
    struct toml_error *next;
};

// name is for messages only. On errors (ERR_FORMAT) e holds one line per error, as many as fit.
int toml_parse(struct arena *a, const char *name, const char *text, size_t len, struct toml **root,
               struct err *e);
// The same with the errors as a list, and with what could be read as *root (never NULL) even when
// there are some. Returns the number of errors.
int toml_parse_all(struct arena *a, const char *text, size_t len, struct toml **root,
                   struct toml_error **errors);

const char *toml_type_name(enum toml_type type); // "an integer", "a table"

// Looks up a dotted path of plain keys ("run.nnodes_min"); NULL when absent.
const struct toml *toml_get(const struct toml *table, const char *path);
const struct toml *toml_member(const struct toml *table, const char *key); // key is not split
// First element or member of the container at path; NULL when absent, empty, or none.
const struct toml *toml_first(const struct toml *table, const char *path);
// Values with a default when absent or of another type.
const char *toml_get_str(const struct toml *table, const char *path, const char *absent);
int64_t toml_get_int(const struct toml *table, const char *path, int64_t absent);
double toml_get_real(const struct toml *table, const char *path, double absent);
bool toml_get_bool(const struct toml *table, const char *path, bool absent);
// Values that must be there: ERR_FORMAT names path, line and both types or bounds.
int toml_need_str(const struct toml *table, const char *path, const char **out, struct err *e);
int toml_need_int(const struct toml *table, const char *path, int64_t min, int64_t max,
                  int64_t *out, struct err *e);
// Array of strings -> NULL-terminated list in the arena; absent gives an empty one.
int toml_need_strs(struct arena *a, const struct toml *table, const char *path, char ***out,
                   size_t *count, struct err *e);

// ---- writer: statements onto a strbuf ----
// Keys are quoted when needed, strings escaped; the result always parses back to the same values.
// Text that is not UTF-8 is written with U+FFFD, since TOML cannot hold it.
void toml_write_key(struct strbuf *out, const char *key);
void toml_write_quoted(struct strbuf *out, const char *s, size_t len); // "…" with escapes
void toml_write_real_value(struct strbuf *out, double v); // shortest text that reads back the same
// Each writes a line "key = value".
void toml_write_str(struct strbuf *out, const char *key, const char *value);
void toml_write_int(struct strbuf *out, const char *key, int64_t value);
void toml_write_real(struct strbuf *out, const char *key, double value);
void toml_write_bool(struct strbuf *out, const char *key, bool value);
void toml_write_strs(struct strbuf *out, const char *key, const char *const *items, size_t count);
// A blank line (unless at the start) and a header: "[table]", "[table.name]" with name quoted when
// needed (name may be NULL), "[[table]]".
void toml_write_table(struct strbuf *out, const char *table, const char *name);
void toml_write_element(struct strbuf *out, const char *table);

#endif
