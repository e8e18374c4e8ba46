// SPDX-License-Identifier: Apache-2.0
// TOML strings: basic, literal, and both over several lines. The text is known to be UTF-8.
#include "conf/toml_parser.h"

#include <string.h>

static bool is_triple(const struct toml_parser *ps, char quote) {
    return ps->end - ps->p >= 3 && ps->p[0] == quote && ps->p[1] == quote && ps->p[2] == quote;
}

static void add_utf8(struct strbuf *out, uint32_t c) {
    if (c < 0x80) {
        strbuf_addc(out, (char)c);
    } else if (c < 0x800) {
        strbuf_addc(out, (char)(0xC0 | c >> 6));
        strbuf_addc(out, (char)(0x80 | (c & 0x3F)));
    } else if (c < 0x10000) {
        strbuf_addc(out, (char)(0xE0 | c >> 12));
        strbuf_addc(out, (char)(0x80 | (c >> 6 & 0x3F)));
        strbuf_addc(out, (char)(0x80 | (c & 0x3F)));
    } else {
        strbuf_addc(out, (char)(0xF0 | c >> 18));
        strbuf_addc(out, (char)(0x80 | (c >> 12 & 0x3F)));
        strbuf_addc(out, (char)(0x80 | (c >> 6 & 0x3F)));
        strbuf_addc(out, (char)(0x80 | (c & 0x3F)));
    }
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

// The digits of \uXXXX or \UXXXXXXXX; ps->p is behind the letter.
static int read_unicode(struct toml_parser *ps, struct toml_pos pos, int digits) {
    uint32_t c = 0;
    for (int i = 0; i < digits; i++) {
        int d = ps->p < ps->end ? hex_digit(*ps->p) : -1;
        if (d < 0)
            return toml_parser_fail(ps, pos, "\\%c takes %d hexadecimal digits, found %s",
                                    digits == 4 ? 'u' : 'U', digits, toml_parser_found(ps));
        c = c << 4 | (uint32_t)d;
        ps->p++;
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return toml_parser_fail(ps, pos, "U+%04X is no Unicode scalar value", c);
    add_utf8(&ps->text, c);
    return 0;
}

// A backslash at a line's end: this line end and all blank space after it vanish.
static bool skip_line_end(struct toml_parser *ps) {
    toml_parser_blanks(ps);
    if (!toml_parser_newline(ps))
        return false;
    do
        toml_parser_blanks(ps);
    while (toml_parser_newline(ps));
    return true;
}

static int read_escape(struct toml_parser *ps, bool multi_line) {
    static const char names[] = "btnfr\"\\", values[] = "\b\t\n\f\r\"\\";
    struct toml_pos pos = toml_parser_pos(ps);
    ps->p++;
    if (ps->p == ps->end)
        return 0; // the caller sees that the string does not end
    char c = *ps->p;
    if (multi_line && strchr(" \t\r\n", c) && c) {
        if (skip_line_end(ps))
            return 0;
        return toml_parser_fail(ps, pos, "only a line end may follow this backslash");
    }
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        strbuf_addc(&ps->text, values[name - names]);
        ps->p++;
        return 0;
    }
    if (c != 'u' && c != 'U')
        return toml_parser_fail(ps, pos, "unknown escape: a backslash before %s",
                                toml_parser_found(ps));
    ps->p++;
    return read_unicode(ps, pos, c == 'u' ? 4 : 8);
}

// One character that is neither the quote nor an escape.
static int read_plain(struct toml_parser *ps, bool multi_line) {
    unsigned char c = (unsigned char)*ps->p;
    const char *from = ps->p;
    if (multi_line && toml_parser_newline(ps)) {
        strbuf_add(&ps->text, from, (size_t)(ps->p - from));
        return 0;
    }
    if (c == '\n' || c == '\r')
        return toml_parser_fail(ps, toml_parser_pos(ps),
                                c == '\n' || !multi_line
                                    ? "the string does not end before the line does"
                                    : "carriage return without a line feed in a string");
    if ((c < 0x20 && c != '\t') || c == 0x7F)
        return toml_parser_fail(ps, toml_parser_pos(ps),
                                "control character 0x%02x in a string: write it as \\u%04x", c, c);
    strbuf_addc(&ps->text, (char)c);
    ps->p++;
    return 0;
}

// At ps->p are quotes inside a multi-line string: ends it with its last three of up to five.
static bool at_multi_line_end(struct toml_parser *ps, char quote) {
    size_t n = 0;
    while (n < 5 && ps->p + n < ps->end && ps->p[n] == quote)
        n++;
    size_t inside = n >= 3 ? n - 3 : n;
    for (size_t i = 0; i < inside; i++)
        strbuf_addc(&ps->text, quote);
    ps->p += n;
    return n >= 3;
}

static int read_until_quote(struct toml_parser *ps, struct toml_pos open, char quote,
                            bool multi_line) {
    while (ps->p < ps->end) {
        if (*ps->p == quote) {
            if (multi_line && !at_multi_line_end(ps, quote))
                continue;
            ps->p += !multi_line;
            return 0;
        }
        int failed = *ps->p == '\\' && quote == '"' ? read_escape(ps, multi_line)
                                                    : read_plain(ps, multi_line);
        if (failed < 0)
            return -1;
    }
    return toml_parser_fail(ps, open, "this string has no end");
}

int toml_parser_string(struct toml_parser *ps, bool multi_line, const char **str, size_t *len) {
    struct toml_pos open = toml_parser_pos(ps);
    char quote = *ps->p;
    multi_line = is_triple(ps, quote) && multi_line;
    ps->p += multi_line ? 3 : 1;
    if (multi_line)
        toml_parser_newline(ps); // one right behind the opening quotes is not part of it
    strbuf_clear(&ps->text);
    if (read_until_quote(ps, open, quote, multi_line) < 0)
        return -1;
    *len = ps->text.len;
    *str = arena_strndup(ps->a, strbuf_cstr(&ps->text), *len);
    return 0;
}
