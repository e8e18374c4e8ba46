// SPDX-License-Identifier: Apache-2.0
// TOML values, which follow '='. Arrays and inline tables recurse, to TOML_DEPTH_MAX.
#include "conf/toml_parser.h"

// Skips blanks, comments and line ends, which are allowed between the elements of an array.
static int skip_space(struct toml_parser *ps) {
    do {
        toml_parser_blanks(ps);
        if (toml_parser_comment(ps) < 0)
            return -1;
    } while (toml_parser_newline(ps));
    return 0;
}

static int read_array(struct toml_parser *ps, struct toml *node) {
    struct toml_pos open = toml_parser_pos(ps);
    node->type = TOML_ARRAY;
    node->made_by |= TOML_BY_VALUE;
    ps->p++;
    for (;;) {
        if (skip_space(ps) < 0)
            return -1;
        if (toml_parser_at(ps, ']'))
            break;
        struct toml *element = toml_parser_add(ps, node, NULL, TOML_BOOL, toml_parser_pos(ps));
        if (!element || toml_parser_value(ps, element) < 0 || skip_space(ps) < 0)
            return -1;
        if (toml_parser_at(ps, ']'))
            break;
        if (!toml_parser_at(ps, ','))
            return toml_parser_fail(ps, toml_parser_pos(ps),
                                    "expected ',' or ']' in the array that starts at %d:%d, "
                                    "found %s",
                                    open.line, open.column, toml_parser_found(ps));
        ps->p++;
    }
    ps->p++;
    return 0;
}

static int read_inline_table(struct toml_parser *ps, struct toml *node) {
    struct toml_pos open = toml_parser_pos(ps);
    node->type = TOML_TABLE;
    ps->p++;
    toml_parser_blanks(ps);
    bool more = !toml_parser_at(ps, '}');
    while (more) {
        toml_parser_blanks(ps);
        if (toml_parser_pair(ps, node) < 0)
            return -1;
        toml_parser_blanks(ps);
        more = toml_parser_at(ps, ',');
        if (!more && !toml_parser_at(ps, '}'))
            return toml_parser_fail(ps, toml_parser_pos(ps),
                                    "expected ',' or '}' in the inline table that starts at "
                                    "%d:%d, found %s",
                                    open.line, open.column, toml_parser_found(ps));
        ps->p += more;
    }
    ps->p++;
    node->made_by |= TOML_BY_VALUE;
    return 0;
}

int toml_parser_value(struct toml_parser *ps, struct toml *node) {
    if (toml_parser_at(ps, '"') || toml_parser_at(ps, '\'')) {
        node->type = TOML_STRING;
        return toml_parser_string(ps, true, &node->str, &node->len);
    }
    if (toml_parser_at(ps, '['))
        return read_array(ps, node);
    if (toml_parser_at(ps, '{'))
        return read_inline_table(ps, node);
    return toml_parser_number(ps, node);
}
