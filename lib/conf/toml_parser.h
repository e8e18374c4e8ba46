// SPDX-License-Identifier: Apache-2.0
// Private to the TOML parser: the state that toml.c (statements and tables) shares with
// toml_value.c (values), toml_string.c and toml_number.c. Nothing else includes it.
#ifndef CONF_TOML_PARSER_H
#define CONF_TOML_PARSER_H

#include "conf/toml.h"

struct toml_pos {
    int line, column;
};

struct toml_slot {
    const struct toml *parent;
    struct toml *node;
};

struct toml_parser {
    struct arena *a;
    const char *p, *end; // p only moves forward, but for the restart after an error
    const char *line_start;
    int line;
    const char *column_at; // columns are counted from here on, so that a long line costs once
    int column;

    struct toml *table; // the table that statements go to
    struct toml *stray; // takes values that belong to no table after an error; not in the tree

    struct toml_error *errors, *errors_last;
    int error_count;

    struct toml_slot *slots; // members of all tables by (parent, key): open addressing
    size_t slot_room, slot_count;

    struct strbuf text; // scratch for strings and numbers
};

// Records an error at pos; always -1.
int toml_parser_fail(struct toml_parser *ps, struct toml_pos pos, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
struct toml_pos toml_parser_pos(struct toml_parser *ps); // of ps->p

// Moves over spaces and tabs; over a line end (true if there was one).
void toml_parser_blanks(struct toml_parser *ps);
bool toml_parser_newline(struct toml_parser *ps);
int toml_parser_comment(struct toml_parser *ps); // to the line's end, if one starts here
bool toml_parser_at(const struct toml_parser *ps, char c);
// Describes the text at ps->p, for "expected …, found …".
const char *toml_parser_found(struct toml_parser *ps);

// A new node below parent (appended; key NULL in arrays). NULL after TOML_DEPTH_MAX was reported.
struct toml *toml_parser_add(struct toml_parser *ps, struct toml *parent, const struct toml *key,
                             enum toml_type type, struct toml_pos pos);
// One "key = value", also inside an inline table; members go to table.
int toml_parser_pair(struct toml_parser *ps, struct toml *table);

// toml_value.c: fills node from the value at ps->p.
int toml_parser_value(struct toml_parser *ps, struct toml *node);
// toml_string.c: at ps->p is a quote. Multi-line strings only where allowed (values, not keys).
int toml_parser_string(struct toml_parser *ps, bool multi_line, const char **str, size_t *len);
// toml_number.c: numbers, dates, times, booleans.
int toml_parser_number(struct toml_parser *ps, struct toml *node);
// The same for dates and times alone: s is the whole token. False with *why when it is none.
bool toml_number_time(const char *s, size_t len, struct toml *node, const char **why);

// Bits of `made_by`, with the depth above them.
enum {
    TOML_BY_HEADER = 1,    // [x]: may not be defined again
    TOML_BY_PARENT = 2,    // implied by [x.y]: may still be defined
    TOML_BY_DOTTED = 4,    // by x.y = …: grows only by dotted keys and sub-tables
    TOML_BY_VALUE = 8,     // {…} or […]: closed
    TOML_BY_ELEMENTS = 16, // [[x]]
    TOML_DEPTH_SHIFT = 8
};

#endif
