// SPDX-License-Identifier: Apache-2.0
// lex.c: words, numbers and signs of PTX.
#include "parse.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void parse_fail(struct parser *p, const char *fmt, ...) {
    va_list ap;
    int n = snprintf(p->text, PTX_TEXT_MAX, "line %u: ", p->line);
    va_start(ap, fmt);
    vsnprintf(p->text + n, (size_t)(PTX_TEXT_MAX - n), fmt, ap);
    va_end(ap);
    longjmp(p->failed, 1);
}

static bool starts(const struct parser *p, const char with[2]) {
    return p->end - p->s >= 2 && p->s[0] == with[0] && p->s[1] == with[1];
}

static void skip_blanks(struct parser *p) {
    while (p->s < p->end) {
        if (starts(p, "//")) {
            while (p->s < p->end && *p->s != '\n')
                p->s++;
        } else if (starts(p, "/*")) {
            while (p->s < p->end && !starts(p, "*/"))
                p->line += *p->s++ == '\n';
            p->s += p->s < p->end ? 2 : 0;
        } else if (isspace((unsigned char)*p->s)) {
            p->line += *p->s++ == '\n';
        } else {
            return;
        }
    }
}

static bool in_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

static void take(struct parser *p, size_t *n) {
    if (*n + 1 >= sizeof p->token)
        parse_fail(p, "a name of more than %zu bytes", sizeof p->token - 1);
    p->token[(*n)++] = *p->s++;
}

bool lex(struct parser *p) {
    size_t n = 0;
    skip_blanks(p);
    if (p->s >= p->end || *p->s == 0)
        return false;
    if (*p->s == '"') {
        do
            take(p, &n);
        while (p->s < p->end && *p->s != '"');
        p->s += p->s < p->end;
    } else if (in_word(*p->s) ||
               (*p->s == '-' && p->s + 1 < p->end && isdigit((unsigned char)p->s[1]))) {
        do {
            take(p, &n);
            while (starts(p, "::")) {
                take(p, &n);
                take(p, &n);
            }
        } while (p->s < p->end && in_word(*p->s));
    } else {
        take(p, &n);
    }
    p->token[n] = 0;
    return true;
}

bool lex_peek(struct parser *p, char sign) {
    skip_blanks(p);
    return p->s < p->end && *p->s == sign;
}

bool lex_number(const char *s, u64 *value) {
    bool negative = *s == '-';
    const char *digits = s + negative;
    char *end;
    if (!isdigit((unsigned char)*digits))
        return false;
    bool bits = digits[0] == '0' && digits[1] && strchr("fFdD", digits[1]);
    *value = bits ? strtoull(digits + 2, &end, 16) : strtoull(digits, &end, 0);
    if (*end == 'U')
        end++;
    if (*end)
        return false;
    if (negative && !bits)
        *value = -*value;
    return true;
}
