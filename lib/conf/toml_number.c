// SPDX-License-Identifier: Apache-2.0
// TOML values that are one word: booleans, integers, floats, dates and times.
#include "conf/toml_parser.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES_MAX = 400 }; // shown and parsed; a longer number makes no sense

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// ---- dates and times (RFC 3339) ----------------------------------------------------------------
// Exactly n digits at *s.
static bool take_digits(const char **s, const char *end, int n, int *out) {
    *out = 0;
    for (int i = 0; i < n; i++, ++*s) {
        if (*s >= end || !is_digit(**s))
            return false;
        *out = *out * 10 + (**s - '0');
    }
    return true;
}

static bool take(const char **s, const char *end, char c) {
    if (*s >= end || **s != c)
        return false;
    ++*s;
    return true;
}

static int days_in(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

static bool take_date(const char **s, const char *end, struct toml_time *t) {
    return take_digits(s, end, 4, &t->year) && take(s, end, '-') &&
           take_digits(s, end, 2, &t->month) && take(s, end, '-') &&
           take_digits(s, end, 2, &t->day) && t->month >= 1 && t->month <= 12 && t->day >= 1 &&
           t->day <= days_in(t->year, t->month);
}

static bool take_clock(const char **s, const char *end, struct toml_time *t) {
    if (!take_digits(s, end, 2, &t->hour) || !take(s, end, ':') ||
        !take_digits(s, end, 2, &t->minute) || !take(s, end, ':') ||
        !take_digits(s, end, 2, &t->second) || t->hour > 23 || t->minute > 59 || t->second > 60)
        return false;
    if (!take(s, end, '.'))
        return true;
    const char *from = *s;
    for (int unit = 100000000; *s < end && is_digit(**s); ++*s, unit /= 10)
        t->nanosecond += (**s - '0') * unit;
    return *s > from;
}

static bool take_offset(const char **s, const char *end, struct toml_time *t) {
    if (take(s, end, 'Z') || take(s, end, 'z'))
        return true;
    bool minus = *s < end && **s == '-';
    int hours, minutes;
    if ((!take(s, end, '+') && !take(s, end, '-')) || !take_digits(s, end, 2, &hours) ||
        !take(s, end, ':') || !take_digits(s, end, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    t->offset_minutes = (hours * 60 + minutes) * (minus ? -1 : 1);
    return true;
}

bool toml_number_time(const char *s, size_t len, struct toml *node, const char **why) {
    const char *end = s + len;
    struct toml_time *t = &node->time;
    *t = (struct toml_time){0};
    *why = "is no time: write it as 07:32:00 (hours to 23, minutes to 59)";
    if (len > 2 && s[2] == ':') {
        node->type = TOML_LOCAL_TIME;
        return take_clock(&s, end, t) && s == end;
    }
    node->type = TOML_LOCAL_DATE;
    *why = "is no date: write it as 1979-05-27, and one that the calendar has";
    if (!take_date(&s, end, t))
        return false;
    if (s == end)
        return true;
    node->type = TOML_LOCAL_DATETIME;
    *why = "is no date with a time: write it as 1979-05-27T07:32:00Z";
    if ((!take(&s, end, 'T') && !take(&s, end, 't') && !take(&s, end, ' ')) ||
        !take_clock(&s, end, t))
        return false;
    if (s == end)
        return true;
    node->type = TOML_DATETIME;
    return take_offset(&s, end, t) && s == end;
}

// ---- numbers ---------------------------------------------------------------------------------
// Copies s without its underscores; each must stand between two digits of the base.
static const char *strip(const char *s, char *out, bool hex) {
    char *o = out;
    for (const char *p = s; *p; p++) {
        if (*p != '_') {
            *o++ = *p;
            continue;
        }
        bool before = p > s && (hex ? strchr("+-.", p[-1]) == NULL : is_digit(p[-1]));
        bool after = hex ? p[1] != '\0' && !strchr("+-.", p[1]) : is_digit(p[1]);
        if (!before || !after || p[-1] == '_')
            return "has an underscore that is not between two digits";
    }
    *o = '\0';
    return NULL;
}

static const char *read_based(const char *s, struct toml *node) {
    static const char digits[] = "0123456789abcdef";
    char plain[WORD_BYTES_MAX + 1];
    int base = s[1] == 'x' ? 16 : s[1] == 'o' ? 8 : 2;
    const char *why = strip(s + 2, plain, true);
    if (why)
        return why;
    uint64_t v = 0;
    for (const char *p = plain; *p; p++) {
        char c = *p >= 'A' && *p <= 'F' ? (char)(*p + 32) : *p;
        const char *d = strchr(digits, c);
        if (!d || d - digits >= base)
            return "has a digit that its base does not have";
        if (v > (uint64_t)INT64_MAX / (unsigned)base)
            return "does not fit in 64 bits";
        v = v * (unsigned)base + (uint64_t)(d - digits);
        if (v > INT64_MAX)
            return "does not fit in 64 bits";
    }
    if (!plain[0])
        return "has no digits";
    node->type = TOML_INT;
    node->integer = (int64_t)v;
    node->real = (double)v;
    return NULL;
}

static size_t count_digits(const char *s) {
    size_t n = 0;
    while (is_digit(s[n]))
        n++;
    return n;
}

// Integers and floats in decimal: [+-] digits [. digits] [e [+-] digits].
static const char *read_decimal(const char *s, struct toml *node) {
    char plain[WORD_BYTES_MAX + 1];
    const char *why = strip(s, plain, false);
    if (why)
        return why;
    const char *p = plain + (*plain == '+' || *plain == '-');
    size_t n = count_digits(p);
    if (n == 0)
        return "is no value: strings need quotes";
    if (n > 1 && p[0] == '0')
        return "has a leading zero";
    p += n;
    errno = 0;
    if (!*p) {
        node->type = TOML_INT;
        node->integer = strtoll(plain, NULL, 10);
        node->real = (double)node->integer;
        return errno ? "does not fit in 64 bits" : NULL;
    }
    if (*p == '.') {
        n = count_digits(++p);
        if (n == 0)
            return "has no digit behind its point";
        p += n;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '+' || *p == '-';
        n = count_digits(p);
        if (n == 0)
            return "has no digit in its exponent";
        p += n;
    }
    if (*p)
        return "is no number";
    node->type = TOML_REAL;
    node->real = strtod(plain, NULL);
    return isinf(node->real) ? "is too large for a 64-bit float" : NULL;
}

static bool read_word(const char *s, struct toml *node) {
    if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0) {
        node->type = TOML_BOOL;
        node->boolean = s[0] == 't';
        return true;
    }
    const char *p = s + (*s == '+' || *s == '-');
    bool inf = strcmp(p, "inf") == 0;
    if (!inf && strcmp(p, "nan") != 0)
        return false;
    node->type = TOML_REAL;
    node->real = inf ? (double)INFINITY : (double)NAN;
    if (*s == '-')
        node->real = -node->real;
    return true;
}

static const char *read_any(const char *s, size_t len, struct toml *node) {
    const char *why;
    if (read_word(s, node))
        return NULL;
    if ((len > 2 && is_digit(s[0]) && is_digit(s[1]) && s[2] == ':') ||
        (len > 4 && count_digits(s) == 4 && s[4] == '-'))
        return toml_number_time(s, len, node, &why) ? NULL : why;
    if (s[0] == '0' && (s[1] == 'x' || s[1] == 'o' || s[1] == 'b'))
        return read_based(s, node);
    return read_decimal(s, node);
}

static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("+-._:", c)) || ((unsigned char)c >= 0x80);
}

// Length of the word at ps->p; a date takes the time behind a single space along.
static size_t word_length(const struct toml_parser *ps) {
    const char *p = ps->p;
    while (p < ps->end && is_word(*p))
        p++;
    if (p - ps->p == 10 && ps->p[4] == '-' && ps->end - p > 3 && *p == ' ' && is_digit(p[1]) &&
        is_digit(p[2]) && p[3] == ':')
        for (p++; p < ps->end && is_word(*p);)
            p++;
    return (size_t)(p - ps->p);
}

int toml_parser_number(struct toml_parser *ps, struct toml *node) {
    struct toml_pos pos = toml_parser_pos(ps);
    size_t len = word_length(ps);
    if (len == 0)
        return toml_parser_fail(ps, pos, "expected a value, found %s", toml_parser_found(ps));
    if (len > WORD_BYTES_MAX)
        return toml_parser_fail(ps, pos, "a number of %zu characters; the maximum is %d", len,
                                WORD_BYTES_MAX);
    char word[WORD_BYTES_MAX + 1];
    memcpy(word, ps->p, len);
    word[len] = '\0';
    const char *why = read_any(word, len, node);
    if (why)
        return toml_parser_fail(ps, pos, "'%.64s%s' %s", word, len > 64 ? "…" : "", why);
    ps->p += len;
    return 0;
}
