// SPDX-License-Identifier: Apache-2.0
// The expression of a metric.
#include "conf/metric_expression.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    char letter;
    const char *in_bracket, *alone;
} CLASSES[] = {
    {'d', "0-9", "[0-9]"},
    {'D', NULL, "[^0-9]"},
    {'w', "[:alnum:]_", "[[:alnum:]_]"},
    {'W', NULL, "[^[:alnum:]_]"},
    {'s', "[:space:]", "[[:space:]]"},
    {'S', NULL, "[^[:space:]]"},
};

// \d and its like at p (after the backslash). Returns 1 when it was one, 0 when not, -1 if refused.
static int translate_class(char letter, bool in_bracket, struct strbuf *posix, struct err *e) {
    for (size_t i = 0; i < sizeof CLASSES / sizeof CLASSES[0]; i++) {
        if (CLASSES[i].letter != letter)
            continue;
        const char *text = in_bracket ? CLASSES[i].in_bracket : CLASSES[i].alone;
        if (!text)
            return err_set(e, ERR_CONFIG, "'\\%c' cannot stand inside brackets", letter);
        strbuf_adds(posix, text);
        return 1;
    }
    return 0;
}

// In POSIX brackets nothing is escaped: what people escape has a place where it stands for itself.
struct bracket {
    struct strbuf items;
    bool close, caret, dash;
};

// An escaped character at p (the backslash). Returns -1 when it cannot be had in POSIX.
static int translate_escaped(struct bracket *b, const char *p, struct err *e) {
    char c = p[1];
    bool special = strchr("]^-", c) != NULL;
    bool in_range = (b->items.len > 1 && b->items.data[b->items.len - 1] == '-') ||
                    (p[2] == '-' && p[3] && p[3] != ']');
    if (special && in_range)
        return err_set(e, ERR_CONFIG, "'\\%c' cannot be the end of a range", c);
    if (!special)
        strbuf_addc(&b->items, c == 't' ? '\t' : c);
    b->close |= c == ']';
    b->caret |= c == '^';
    b->dash |= c == '-';
    return 0;
}

static void add_bracket(const struct bracket *b, bool negated, struct strbuf *posix) {
    bool caret_alone = b->caret && !negated && !b->close && b->items.len == 0;
    if (caret_alone && !b->dash) {
        strbuf_adds(posix, "\\^");
        return;
    }
    strbuf_adds(posix, negated ? "[^" : "[");
    strbuf_adds(posix, b->close ? "]" : "");
    strbuf_adds(posix, strbuf_cstr(&b->items));
    strbuf_adds(posix, caret_alone ? "-^" : b->caret ? "^" : "");
    strbuf_adds(posix, b->dash && !caret_alone ? "-]" : "]");
}

// What stands between '[' and ']' from p on; returns the place of the closing bracket.
static const char *read_bracket(const char *p, struct bracket *b, struct err *e) {
    const char *begin = p;
    while (*p && (*p != ']' || p == begin)) {
        if (p[0] == '[' && p[1] && strchr(":.=", p[1])) {
            const char *close = strstr(p + 2, p[1] == ':' ? ":]" : p[1] == '.' ? ".]" : "=]");
            if (!close)
                break;
            strbuf_add(&b->items, p, (size_t)(close + 2 - p));
            p = close + 2;
            continue;
        }
        if (*p == ']') { // the first one stands for itself, as in POSIX
            b->close = true;
            p++;
            continue;
        }
        if (*p != '\\' || !p[1]) {
            strbuf_addc(&b->items, *p++);
            continue;
        }
        int class = translate_class(p[1], true, &b->items, e);
        if (class < 0 || (class == 0 && translate_escaped(b, p, e) < 0))
            return NULL;
        p += 2;
    }
    if (*p == ']')
        return p;
    err_set(e, ERR_CONFIG, "'[' without ']'");
    return NULL;
}

// A bracket expression that begins at p ('['); returns what follows it.
static const char *translate_bracket(const char *p, struct strbuf *posix, struct err *e) {
    struct bracket b = {0};
    bool negated = p[1] == '^';
    const char *end = read_bracket(p + 1 + negated, &b, e);
    if (end)
        add_bracket(&b, negated, posix);
    strbuf_fini(&b.items);
    return end ? end + 1 : NULL;
}

// "(.*?)c" at the end of an expression is "([^c]*)c". Returns what follows it, or p.
static const char *translate_lazy(const char *p, struct strbuf *posix) {
    static const char form[] = "(.*?)";
    const char *c = p + strlen(form);
    if (!str_starts(p, form))
        return p;
    if (*c == '\\' && ispunct((unsigned char)c[1]))
        c++;
    else if (!*c || strchr("\\^$.[]|()*+?{}", *c))
        return p;
    if (c[1] || *c == '^' || (unsigned char)*c >= 0x80)
        return p;
    strbuf_addf(posix, "([^%c]*)%s%c", *c, ispunct((unsigned char)*c) ? "\\" : "", *c);
    return c + 1;
}

static const char *translate_group(const char *p, struct strbuf *posix, size_t *groups,
                                   size_t *value, struct err *e) {
    bool plain = p[1] != '?';
    ++*groups;
    if (plain && *value == 0)
        *value = *groups;
    const char *after = translate_lazy(p, posix);
    if (after != p)
        return after;
    if (!plain && p[2] != ':') {
        err_set(e, ERR_CONFIG, "of the (?…) forms only (?:…) is supported");
        return NULL;
    }
    strbuf_addc(posix, '(');
    return p + (plain ? 1 : 3);
}

static const char *translate_backslash(const char *p, struct strbuf *posix, struct err *e) {
    if (!p[1])
        err_set(e, ERR_CONFIG, "ends with a backslash");
    else if (p[1] >= '1' && p[1] <= '9')
        err_set(e, ERR_CONFIG, "back-references are not supported");
    else if (isalpha((unsigned char)p[1]) && !strchr("dDwWsStbB", p[1]))
        err_set(e, ERR_CONFIG, "'\\%c' is not supported", p[1]);
    else {
        int class = translate_class(p[1], false, posix, e);
        if (class == 0 && p[1] == 't')
            strbuf_addc(posix, '\t');
        else if (class == 0)
            strbuf_add(posix, p, 2);
        return p + 2;
    }
    return NULL;
}

// People's expression to a POSIX one; *value is the group to read.
static int translate(const char *text, struct strbuf *posix, size_t *value, struct err *e) {
    size_t groups = 0;
    *value = 0;
    if (strlen(text) > METRIC_REGEX_BYTES_MAX)
        return err_set(e, ERR_CONFIG, "it is longer than %d bytes", METRIC_REGEX_BYTES_MAX);
    for (const char *p = text; p && *p;) {
        if (*p == '[')
            p = translate_bracket(p, posix, e);
        else if (*p == '\\')
            p = translate_backslash(p, posix, e);
        else if (*p == '(')
            p = translate_group(p, posix, &groups, value, e);
        else if (strchr("*+?}", *p) && (p[1] == '?' || p[1] == '+'))
            return err_set(e, ERR_CONFIG,
                           "'%.2s' (%s) is supported only as (.*?) before one last character "
                           "(try: [^;]* for all up to ';')",
                           p, p[1] == '?' ? "as few as possible" : "without going back");
        else
            strbuf_addc(posix, *p++);
        if (!p)
            return -1;
    }
    if (*value == 0)
        return err_set(e, ERR_CONFIG, "it has no group (try: put the number between parentheses)");
    if (*value >= METRIC_GROUPS_MAX)
        return err_set(e, ERR_CONFIG, "the value is not within the first %d groups",
                       METRIC_GROUPS_MAX - 1);
    return 0;
}

int metric_expression_compile(struct metric_expression *x, const char *text, struct err *e) {
    struct strbuf posix = {0};
    *x = (struct metric_expression){0};
    int result = translate(text, &posix, &x->group, e);
    int code = result == 0 ? regcomp(&x->regex, strbuf_cstr(&posix), REG_EXTENDED) : 0;
    if (code) {
        char why[128] = "";
        regerror(code, &x->regex, why, sizeof why);
        result = err_set(e, ERR_CONFIG, "%s", why);
    }
    strbuf_fini(&posix);
    return result < 0 ? err_wrap(e, "expression '%.200s'", text) : 0;
}

void metric_expression_fini(struct metric_expression *x) {
    regfree(&x->regex);
}

// The number in the text between from and to; false when it is none.
static bool read_value(const char *from, const char *to, double *value) {
    char text[64];
    size_t len = (size_t)(to - from);
    if (len == 0 || len >= sizeof text)
        return false;
    memcpy(text, from, len);
    text[len] = 0;
    char *end = NULL;
    *value = strtod(text, &end);
    return end == text + len;
}

bool metric_expression_find(const struct metric_expression *x, const char *line, double *value) {
    regmatch_t at[METRIC_GROUPS_MAX];
    return regexec(&x->regex, line, METRIC_GROUPS_MAX, at, 0) == 0 && at[x->group].rm_so >= 0 &&
           read_value(line + at[x->group].rm_so, line + at[x->group].rm_eo, value);
}

int metric_expression_check_name(const char *name, struct err *e) {
    size_t len = strlen(name);
    bool fine = len && len <= METRIC_NAME_BYTES_MAX && isalnum((unsigned char)name[0]);
    for (size_t i = 0; i < len; i++)
        fine = fine && (isalnum((unsigned char)name[i]) || strchr("._-:/@", name[i]));
    if (fine)
        return 0;
    return err_set(e, ERR_CONFIG,
                   "'%.100s' is not a valid name of a metric; use letters, digits, '.', '_', '-', "
                   "':', '/', '@', at most %d, the first a letter or digit",
                   name, METRIC_NAME_BYTES_MAX);
}

int metric_expression_check(const char *text, struct err *e) {
    struct metric_expression x;
    if (metric_expression_compile(&x, text, e) < 0)
        return -1;
    metric_expression_fini(&x);
    return 0;
}
