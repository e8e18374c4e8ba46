// SPDX-License-Identifier: Apache-2.0
// Literals that expressions need. An expression is read from the left; anything that is not a plain
// character ends a run of them, and the longest run counts. A quantifier takes its character out of
// the run, since it may stand for none (+: it stays, and the run ends behind it).
#include "follow/metric_literal.h"

#include <ctype.h>
#include <string.h>

struct reader {
    const char *at;
    char run[METRIC_LITERAL_BYTES_MAX];
    size_t run_len, best_len;
    char *best;
};

static void run_end(struct reader *r) {
    if (r->run_len > r->best_len) {
        memcpy(r->best, r->run, r->run_len);
        r->best_len = r->run_len;
    }
    r->run_len = 0;
}

static bool goes_on(char c) { // a byte of a character of UTF-8 but its first one
    return ((unsigned char)c & 0xc0) == 0x80;
}

static void drop_last(struct reader *r) {
    while (r->run_len && goes_on(r->run[--r->run_len]))
        ;
}

static void run_add(struct reader *r, char c) {
    if (r->run_len == sizeof r->run) {
        if (goes_on(c)) // half a character, of which a quantifier may follow
            drop_last(r);
        run_end(r);
    }
    r->run[r->run_len++] = c;
}

// After '[': passes over the class. False: it has no end.
static bool skip_class(const char **at) {
    const char *p = *at;
    p += *p == '^';
    p += *p == ']';
    for (; *p && *p != ']'; p++) {
        if (*p == '\\' && p[1] && p[1] != 'Q')
            p++;
        else if (*p == '\\')
            return false;
        else if (*p == '[' && p[1] == ':') { // [:alpha:]
            size_t n = strspn(p + 2, "^abcdefghijklmnopqrstuvwxyz");
            p += p[2 + n] == ':' && p[3 + n] == ']' ? n + 3 : 0;
        }
    }
    *at = p + 1;
    return *p == ']';
}

// After '(': whether the group has no options, no condition, no verb and no call.
static bool group_is_plain(const char *p) {
    return *p != '*' && (*p != '?' || (p[1] && strchr(":=!|>P<'#", p[1])));
}

// After '(': passes over the group, and those in it. False: it uses what is not read here.
static bool skip_group(const char **at) {
    const char *p = *at - 1;
    int depth = 0;
    do {
        char c = *p++;
        if (c == 0 || (c == '\\' && (*p == 0 || *p == 'Q')))
            return false;
        if (c == '\\')
            p++;
        else if (c == '[' && !skip_class(&p))
            return false;
        else if (c == ')')
            depth--;
        else if (c == '(' && !group_is_plain(p))
            return false;
        else if (c == '(' && p[0] == '?' && p[1] == '#') { // a comment ends at the next ')'
            p = strchr(p, ')');
            if (!p++)
                return false;
        } else if (c == '(')
            depth++;
    } while (depth);
    *at = p;
    return true;
}

// {n}, {n,}, {,m}, {n,m}, with blanks; else it is a character.
static size_t braces(const char *p) {
    size_t n = strspn(p, "0123456789, \t");
    return p[n] == '}' ? n + 1 : 0;
}

// One item of the expression; false: it uses what is not read here.
static bool read_item(struct reader *r) {
    char c = *r->at++;
    size_t n;
    switch (c) {
    case '|': return false;
    case '(':
        if (strncmp(r->at, "?#", 2) == 0) { // it is as if it were not there
            const char *end = strchr(r->at, ')');
            r->at = end ? end + 1 : r->at;
            return end != NULL;
        }
        run_end(r);
        return skip_group(&r->at);
    case '[': run_end(r); return skip_class(&r->at);
    case '.':
    case '^':
    case '$': run_end(r); return true;
    case '*':
    case '?':
        drop_last(r);
        run_end(r);
        return true;
    case '+': run_end(r); return true;
    case '{':
        n = braces(r->at);
        drop_last(r);
        run_end(r);
        r->at += n;
        return true;
    case '\\':
        c = *r->at++;
        if (!isalnum((unsigned char)c)) {
            run_add(r, c);
            return c != 0;
        }
        run_end(r);
        return strchr("dDsSwWbBAZzhHvVRtnrfae", c) != NULL;
    default: run_add(r, c); return true;
    }
}

size_t metric_literal(const char *regex, char literal[METRIC_LITERAL_BYTES_MAX]) {
    struct reader r = {.at = regex, .best = literal};
    while (*r.at)
        if (!read_item(&r))
            return 0;
    run_end(&r);
    return r.best_len;
}

// ---- pairs of bytes ----------------------------------------------------------------------------

static inline uint32_t hash_of(const char *pair) {
    return ((uint32_t)(unsigned char)pair[0] * 67 + (uint32_t)(unsigned char)pair[1] * 31) %
           METRIC_PAIRS_BITS;
}

void metric_pairs_of(struct metric_pairs *p, const char *line, size_t len) {
    memset(p, 0, sizeof *p);
    for (size_t i = 0; i + 1 < len; i++) {
        uint32_t h = hash_of(line + i);
        p->bits[h / 64] |= (uint64_t)1 << h % 64;
    }
}

bool metric_pairs_may_hold(const struct metric_pairs *p, const char *literal, size_t len) {
    for (size_t i = 0; i + 1 < len; i++) {
        uint32_t h = hash_of(literal + i);
        if (!(p->bits[h / 64] >> h % 64 & 1))
            return false;
    }
    return true;
}
