// SPDX-License-Identifier: Apache-2.0
// A pattern is literal text with brackets between; the i-th name picks a number of each bracket.
#include "base/hostlist.h"

#include "base/str.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool is_name_byte(char c, const char *also) {
    return isalnum((unsigned char)c) || (c && (strchr(".-_", c) || strchr(also, c)));
}

int hostlist_number(const char *s, const char *end, unsigned *out) {
    int n = 0;
    unsigned v = 0;
    while (s + n < end && isdigit((unsigned char)s[n])) {
        if (n == HOSTLIST_DIGITS_MAX)
            return 0;
        v = v * 10 + (unsigned)(s[n] - '0');
        n++;
    }
    *out = v;
    return n;
}

static const char *too_many(struct arena *a, size_t names_max) {
    return arena_printf(a, "more nodes than the limit of %zu", names_max);
}

// A number or a range at s; *end is behind it. Returns NULL, or why not.
static const char *parse_range(const char **s, const char *end, struct hostlist_range *r) {
    static const char form[] =
        "brackets hold numbers and ranges such as [1-4,07], of at most 9 digits";
    int digits = hostlist_number(*s, end, &r->first);
    if (digits == 0)
        return form;
    r->width = digits;
    r->last = r->first;
    *s += digits;
    if (*s == end || **s != '-')
        return NULL;
    digits = hostlist_number(*s + 1, end, &r->last);
    *s += 1 + digits;
    return digits == 0 ? form : r->last < r->first ? "a range runs from low to high" : NULL;
}

// Parses "01-04,07" between s and end into the next bracket.
static const char *parse_bracket(struct arena *a, const char *s, const char *end, size_t names_max,
                                 struct hostlist *out) {
    size_t i = out->bracket_count++, room = 1;
    for (const char *c = s; c < end; c++)
        room += *c == ',';
    struct hostlist_range *ranges = arena_new(a, struct hostlist_range, room);
    out->bracket[i].ranges = ranges;
    if (s == end)
        return "empty brackets";
    for (;;) {
        struct hostlist_range *r = &ranges[out->bracket[i].count++];
        const char *why = parse_range(&s, end, r);
        if (why)
            return why;
        size_t numbers = (size_t)(r->last - r->first) + 1;
        if (numbers > names_max || out->bracket[i].total + numbers > names_max)
            return too_many(a, names_max);
        out->bracket[i].total += numbers;
        if (s == end)
            return NULL;
        if (*s++ != ',')
            return "between numbers belongs a comma";
        if (s == end)
            return "a bracket ends with a comma";
    }
}

const char *hostlist_parse(struct arena *a, const char *s, const char *end, const char *also,
                           size_t names_max, struct hostlist *out) {
    const char *from = s, *why;
    *out = (struct hostlist){.count = 1};
    while (s < end) {
        if (is_name_byte(*s, also)) {
            s++;
            continue;
        }
        if (*s != '[')
            return "a host has only letters, digits, '.', '-', '_' and brackets";
        const char *close = memchr(s, ']', (size_t)(end - s));
        if (!close)
            return "'[' without ']'";
        if (out->bracket_count == HOSTLIST_BRACKETS_MAX)
            return "more than 4 brackets";
        out->literal[out->bracket_count] = arena_strndup(a, from, (size_t)(s - from));
        why = parse_bracket(a, s + 1, close, names_max, out);
        if (why)
            return why;
        size_t numbers = out->bracket[out->bracket_count - 1].total;
        if (out->count > names_max / numbers)
            return too_many(a, names_max);
        out->count *= numbers;
        from = s = close + 1;
    }
    out->literal[out->bracket_count] = arena_strndup(a, from, (size_t)(end - from));
    return NULL;
}

char *hostlist_name(struct arena *a, const struct hostlist *list, size_t i) {
    size_t pick[HOSTLIST_BRACKETS_MAX] = {0};
    for (size_t k = list->bracket_count; k-- > 0;) {
        pick[k] = i % list->bracket[k].total;
        i /= list->bracket[k].total;
    }
    struct strbuf out = {0};
    for (size_t k = 0; k < list->bracket_count; k++) {
        strbuf_adds(&out, list->literal[k]);
        const struct hostlist_range *r = list->bracket[k].ranges;
        size_t left = pick[k];
        while (left > r->last - r->first) {
            left -= (size_t)(r->last - r->first) + 1;
            r++;
        }
        strbuf_addf(&out, "%0*u", r->width, r->first + (unsigned)left);
    }
    strbuf_adds(&out, list->literal[list->bracket_count]);
    char *text = arena_strndup(a, strbuf_cstr(&out), out.len);
    strbuf_fini(&out);
    return text;
}

const char *hostlist_check_name(const char *name) {
    size_t len = strlen(name);
    if (len == 0)
        return "the host is empty";
    if (len > HOSTLIST_NAME_BYTES_MAX)
        return "a host is longer than 255 bytes";
    return isalnum((unsigned char)name[0]) ? NULL : "a host begins with a letter or a digit";
}

static bool is_space_or_comma(char c) {
    return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

const char *hostlist_end(const char *s) {
    int depth = 0;
    while (*s && (depth > 0 || !is_space_or_comma(*s))) {
        depth += (*s == '[') - (*s == ']');
        s++;
    }
    return s;
}
