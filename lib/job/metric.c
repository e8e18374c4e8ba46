// SPDX-License-Identifier: Apache-2.0
// Metrics from worker lines.
#include "job/metric.h"

#include <math.h>
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

// Copies a bracket expression that begins at p ('['); returns what follows it.
static const char *translate_bracket(const char *p, struct strbuf *posix, struct err *e) {
    strbuf_addc(posix, *p++);
    if (*p == '^')
        strbuf_addc(posix, *p++);
    if (*p == ']')
        strbuf_addc(posix, *p++);
    while (*p && *p != ']') {
        if (p[0] == '[' && p[1] && strchr(":.=", p[1])) {
            const char *close = strstr(p + 2, p[1] == ':' ? ":]" : p[1] == '.' ? ".]" : "=]");
            if (!close)
                break;
            strbuf_add(posix, p, (size_t)(close + 2 - p));
            p = close + 2;
            continue;
        }
        if (*p != '\\' || !p[1]) {
            strbuf_addc(posix, *p++);
            continue;
        }
        int class = translate_class(p[1], true, posix, e);
        if (class < 0)
            return NULL;
        // An escaped character stands for itself; in POSIX brackets nothing is escaped.
        if (class == 0 && strchr("]^-", p[1])) {
            err_set(e, ERR_CONFIG, "'\\%c' inside brackets: put ']' first, '-' last", p[1]);
            return NULL;
        }
        if (class == 0)
            strbuf_addc(posix, p[1] == 't' ? '\t' : p[1]);
        p += 2;
    }
    if (*p != ']') {
        err_set(e, ERR_CONFIG, "'[' without ']'");
        return NULL;
    }
    strbuf_addc(posix, *p);
    return p + 1;
}

int metric_translate(const char *regex, struct strbuf *posix, size_t *group, struct err *e) {
    size_t groups = 0;
    *group = 0;
    if (strlen(regex) > METRIC_REGEX_BYTES_MAX)
        return err_set(e, ERR_CONFIG, "an expression is longer than %d bytes",
                       METRIC_REGEX_BYTES_MAX);
    for (const char *p = regex; *p;) {
        if (*p == '[') {
            p = translate_bracket(p, posix, e);
            if (!p)
                return -1;
        } else if (*p == '\\') {
            if (!p[1])
                return err_set(e, ERR_CONFIG, "ends with a backslash");
            if (p[1] >= '1' && p[1] <= '9')
                return err_set(e, ERR_CONFIG, "back-references are not supported");
            int class = translate_class(p[1], false, posix, e);
            if (class < 0)
                return -1;
            if (class == 0 && p[1] == 't')
                strbuf_addc(posix, '\t');
            else if (class == 0)
                strbuf_add(posix, p, 2);
            p += 2;
        } else if (*p == '(') {
            groups++;
            bool plain = p[1] != '?';
            if (!plain && p[2] != ':')
                return err_set(e, ERR_CONFIG, "of the (?…) forms only (?:…) is supported");
            if (plain && *group == 0)
                *group = groups;
            strbuf_addc(posix, '(');
            p += plain ? 1 : 3;
        } else if ((*p == '*' || *p == '+' || *p == '?' || *p == '}') && p[1] == '?') {
            return err_set(e, ERR_CONFIG, "'%c?' (as few as possible) is not supported", *p);
        } else {
            strbuf_addc(posix, *p++);
        }
    }
    if (*group == 0)
        return err_set(e, ERR_CONFIG, "has no group; put the number in (…)");
    if (*group >= METRIC_GROUPS_MAX)
        return err_set(e, ERR_CONFIG, "the value is not within the first %d groups",
                       METRIC_GROUPS_MAX - 1);
    return 0;
}

int metric_add(struct metric_set *set, struct arena *a, const char *name, const char *regex,
               struct err *e) {
    if (set->count == METRIC_COUNT_MAX)
        return err_set(e, ERR_CONFIG, "more than %d metrics", METRIC_COUNT_MAX);
    if (!str_is_name(name, METRIC_NAME_BYTES_MAX))
        return err_set(e, ERR_CONFIG, "metric '%.80s': use letters, digits, '.', '_', '-'", name);
    struct strbuf posix = {0};
    struct metric *m = &set->metrics[set->count];
    *m = (struct metric){.name = arena_strdup(a, name)};
    int result = metric_translate(regex, &posix, &m->group, e);
    if (result == 0) {
        int code = regcomp(&m->regex, strbuf_cstr(&posix), REG_EXTENDED);
        char why[128] = "";
        if (code) {
            regerror(code, &m->regex, why, sizeof why);
            result = err_set(e, ERR_CONFIG, "%s", why);
        }
    }
    strbuf_fini(&posix);
    if (result < 0)
        return err_wrap(e, "metric '%s': expression '%.200s'", name, regex);
    set->count++;
    return 0;
}

void metric_fini(struct metric_set *set) {
    for (size_t i = 0; i < set->count; i++)
        regfree(&set->metrics[i].regex);
    set->count = 0;
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

void metric_match(struct metric_set *set, const char *line, size_t len, metric_cb *cb, void *ctx) {
    char text[METRIC_LINE_BYTES_MAX + 1];
    if (len > METRIC_LINE_BYTES_MAX)
        len = METRIC_LINE_BYTES_MAX;
    memcpy(text, line, len);
    text[len] = 0;
    for (size_t i = 0; i < set->count; i++) {
        struct metric *m = &set->metrics[i];
        regmatch_t at[METRIC_GROUPS_MAX];
        double value = 0;
        if (regexec(&m->regex, text, METRIC_GROUPS_MAX, at, 0) != 0 || at[m->group].rm_so < 0 ||
            !read_value(text + at[m->group].rm_so, text + at[m->group].rm_eo, &value))
            continue;
        if (isfinite(value)) {
            m->first = m->count ? m->first : value;
            m->min = m->count ? fmin(m->min, value) : value;
            m->max = m->count ? fmax(m->max, value) : value;
            m->last = value;
            m->count++;
        }
        cb(ctx, m, value);
    }
}
