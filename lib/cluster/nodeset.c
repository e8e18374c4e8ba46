// SPDX-License-Identifier: Apache-2.0
// Node sets: a template of literal text and number brackets, expanded in order.
#include "cluster/nodeset.h"

#include "base/array.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct range {
    unsigned first, last;
    int width; // pad to this many digits
};

struct bracket {
    struct range *ranges;
    size_t count;
    size_t total; // numbers in all ranges
};

struct template {
    char *literal[NODESET_BRACKETS_MAX + 1]; // text before bracket i; the last one ends the host
    struct bracket bracket[NODESET_BRACKETS_MAX];
    size_t bracket_count;
    size_t total; // product
};

static bool is_space_or_comma(char c) {
    return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_host_char(char c) {
    return isalnum((unsigned char)c) || c == '.' || c == '-' || c == '_';
}

static bool is_user_char(char c) {
    return isalnum((unsigned char)c) || strchr("._-+$\\", c) != NULL;
}

static int bad(struct err *e, const char *set, size_t set_len, const char *why) {
    return err_set(e, ERR_CONFIG, "node set '%.*s': %s", (int)(set_len < 120 ? set_len : 120), set,
                   why);
}

// Reads one number of at most NODESET_DIGITS_MAX digits. Returns the number of digits, or 0.
static int read_number(const char *s, const char *end, unsigned *out) {
    int n = 0;
    unsigned v = 0;
    while (s + n < end && isdigit((unsigned char)s[n])) {
        if (n == NODESET_DIGITS_MAX)
            return 0;
        v = v * 10 + (unsigned)(s[n] - '0');
        n++;
    }
    *out = v;
    return n;
}

// Parses "01-04,07" between s and end.
static int parse_bracket(struct arena *a, const char *s, const char *end, struct bracket *b,
                         const char **why) {
    size_t room = 1;
    for (const char *c = s; c < end; c++)
        room += *c == ',';
    b->ranges = arena_new(a, struct range, room);
    while (s < end) {
        struct range *r = &b->ranges[b->count];
        int digits = read_number(s, end, &r->first);
        *why = "brackets hold numbers and ranges such as [1-4,07], of at most 9 digits";
        if (digits == 0)
            return -1;
        r->width = digits;
        r->last = r->first;
        s += digits;
        if (s < end && *s == '-') {
            int more = read_number(s + 1, end, &r->last);
            if (more == 0)
                return -1;
            s += 1 + more;
            *why = "a range runs from low to high";
            if (r->last < r->first)
                return -1;
        }
        if (s < end && *s != ',')
            return -1;
        *why = "a bracket ends with a comma";
        if (s < end && ++s == end)
            return -1;
        size_t n = (size_t)(r->last - r->first) + 1;
        *why = "more nodes than the limit of 4096";
        if (n > NODESET_NODES_MAX || b->total + n > NODESET_NODES_MAX)
            return -1;
        b->total += n;
        b->count++;
    }
    *why = "empty brackets";
    return b->count ? 0 : -1;
}

// Parses a host or name template up to end.
static int parse_template(struct arena *a, const char *s, const char *end, struct template *t,
                          const char **why) {
    t->total = 1;
    const char *from = s;
    while (s < end) {
        if (*s != '[') {
            *why = "a host has only letters, digits, '.', '-', '_' and brackets";
            if (!is_host_char(*s++))
                return -1;
            continue;
        }
        const char *close = memchr(s, ']', (size_t)(end - s));
        *why = "'[' without ']'";
        if (!close)
            return -1;
        *why = "more than 4 brackets";
        if (t->bracket_count == NODESET_BRACKETS_MAX)
            return -1;
        t->literal[t->bracket_count] = arena_strndup(a, from, (size_t)(s - from));
        struct bracket *b = &t->bracket[t->bracket_count++];
        if (parse_bracket(a, s + 1, close, b, why) < 0)
            return -1;
        *why = "more nodes than the limit of 4096";
        if (t->total > NODESET_NODES_MAX / b->total)
            return -1;
        t->total *= b->total;
        from = s = close + 1;
    }
    t->literal[t->bracket_count] = arena_strndup(a, from, (size_t)(end - from));
    return 0;
}

// The index-th text of the template.
static const char *expand(struct arena *a, const struct template *t, size_t index) {
    size_t pick[NODESET_BRACKETS_MAX] = {0};
    for (size_t i = t->bracket_count; i-- > 0;) {
        pick[i] = index % t->bracket[i].total;
        index /= t->bracket[i].total;
    }
    struct strbuf out = {0};
    for (size_t i = 0; i < t->bracket_count; i++) {
        strbuf_adds(&out, t->literal[i]);
        const struct range *r = t->bracket[i].ranges;
        size_t left = pick[i];
        while (left > r->last - r->first) {
            left -= (size_t)(r->last - r->first) + 1;
            r++;
        }
        strbuf_addf(&out, "%0*u", r->width, r->first + (unsigned)left);
    }
    strbuf_adds(&out, t->literal[t->bracket_count]);
    const char *text = arena_strndup(a, strbuf_cstr(&out), out.len);
    strbuf_fini(&out);
    return text;
}

static int check_host(const char *host, const char **why) {
    size_t len = strlen(host);
    *why = "the host is empty";
    if (len == 0)
        return -1;
    *why = "a host is longer than 255 bytes";
    if (len > NODESET_HOST_BYTES_MAX)
        return -1;
    *why = "a host begins with a letter or a digit"; // otherwise ssh could take it as an option
    return isalnum((unsigned char)host[0]) ? 0 : -1;
}

static void append(struct arena *a, struct nodeset *out, size_t *room, struct nodeset_login login) {
    array_grow_in(a, out->logins, room, out->count + 1);
    out->logins[out->count++] = login;
}

// Parses ":2222", or nothing, up to end.
static int parse_port(const char *s, const char *end, int *port, const char **why) {
    *port = 0;
    if (s == end)
        return 0;
    unsigned v = 0;
    *why = "a port is a number from 1 to 65535 after ':'";
    if (*s != ':' || read_number(s + 1, end, &v) != (int)(end - s - 1) || v < 1 || v > 65535)
        return -1;
    *port = (int)v;
    return 0;
}

static int parse_v6(struct arena *a, const char *s, const char *close, struct nodeset_login *login,
                    const char **why) {
    *why = "not an IPv6 address in brackets";
    size_t len = (size_t)(close - s - 1);
    if (len < 2 || len > 63)
        return -1;
    for (const char *c = s + 1; c < close; c++)
        if (!isxdigit((unsigned char)*c) && *c != ':' && *c != '.' && *c != '%' &&
            !(isalnum((unsigned char)*c) && memchr(s, '%', (size_t)(c - s))))
            return -1;
    login->host = arena_strndup(a, s + 1, len);
    return 0;
}

// Parses one set between s and end.
static int parse_set(struct arena *a, const char *s, const char *end, struct nodeset *out,
                     size_t *room, const char **why) {
    struct nodeset_login login = {0};
    const char *at = NULL;
    for (const char *c = s; c < end; c++)
        if (*c == '@')
            at = c;
    if (at) {
        *why = "a user has only letters, digits and ._-+$\\, at most 64 bytes, and no '-' first";
        if (at == s || at - s > NODESET_USER_BYTES_MAX || *s == '-')
            return -1;
        for (const char *c = s; c < at; c++)
            if (!is_user_char(*c))
                return -1;
        login.user = arena_strndup(a, s, (size_t)(at - s));
        s = at + 1;
    }
    const char *open = s < end ? memchr(s, '[', (size_t)(end - s)) : NULL;
    *why = "'[' without ']'";
    if (open && !memchr(open, ']', (size_t)(end - open)))
        return -1;
    const char *close = s < end && *s == '[' ? memchr(s, ']', (size_t)(end - s)) : NULL;
    if (close && memchr(s, ':', (size_t)(close - s))) {
        if (parse_v6(a, s, close, &login, why) < 0 ||
            parse_port(close + 1, end, &login.port, why) < 0)
            return -1;
        append(a, out, room, login);
        return 0;
    }
    const char *colon = memchr(s, ':', (size_t)(end - s));
    if (parse_port(colon ? colon : end, end, &login.port, why) < 0)
        return -1;
    struct template t = {0};
    if (parse_template(a, s, colon ? colon : end, &t, why) < 0)
        return -1;
    *why = "more nodes than the limit of 4096";
    if (out->count + t.total > NODESET_NODES_MAX)
        return -1;
    for (size_t i = 0; i < t.total; i++) {
        login.host = expand(a, &t, i);
        if (check_host(login.host, why) < 0)
            return -1;
        append(a, out, room, login);
    }
    return 0;
}

// The end of the set at s: a comma or white space outside brackets.
static const char *set_end(const char *s) {
    int depth = 0;
    while (*s && (depth > 0 || !is_space_or_comma(*s))) {
        depth += (*s == '[') - (*s == ']');
        s++;
    }
    return s;
}

static int compare_logins(const void *x, const void *y) {
    const struct nodeset_login *a = *(const struct nodeset_login *const *)x;
    const struct nodeset_login *b = *(const struct nodeset_login *const *)y;
    int c = strcmp(a->host, b->host);
    if (c == 0)
        c = strcmp(a->user ? a->user : "", b->user ? b->user : "");
    return c ? c : a->port - b->port;
}

static int check_duplicates(const struct nodeset *set, struct err *e) {
    if (set->count < 2)
        return 0;
    struct arena scratch = {0};
    const struct nodeset_login **sorted =
        arena_new(&scratch, const struct nodeset_login *, set->count);
    for (size_t i = 0; i < set->count; i++)
        sorted[i] = &set->logins[i];
    qsort(sorted, set->count, sizeof(sorted[0]), compare_logins);
    int result = 0;
    for (size_t i = 1; i < set->count && result == 0; i++)
        if (compare_logins(&sorted[i - 1], &sorted[i]) == 0)
            result = err_set(e, ERR_CONFIG, "node '%s' is listed twice", sorted[i]->host);
    arena_fini(&scratch);
    return result;
}

static int parse_into(struct arena *a, const char *text, struct nodeset *out, size_t *room,
                      struct err *e) {
    if (strlen(text) > NODESET_TEXT_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "a node set is longer than %d bytes", NODESET_TEXT_BYTES_MAX);
    size_t before = out->count;
    const char *s = text;
    for (;;) {
        while (is_space_or_comma(*s))
            s++;
        if (!*s)
            break;
        const char *end = set_end(s), *why = "";
        if (parse_set(a, s, end, out, room, &why) < 0)
            return bad(e, s, (size_t)(end - s), why);
        s = end;
    }
    if (out->count == before)
        return err_set(e, ERR_CONFIG, "a node set is empty; write user@host[:port]");
    return 0;
}

int nodeset_parse(struct arena *a, const char *text, struct nodeset *out, struct err *e) {
    return nodeset_parse_list(a, &text, 1, out, e);
}

int nodeset_parse_list(struct arena *a, const char *const *texts, size_t count, struct nodeset *out,
                       struct err *e) {
    *out = (struct nodeset){0};
    size_t room = 0;
    for (size_t i = 0; i < count; i++)
        if (parse_into(a, texts[i], out, &room, e) < 0)
            return -1;
    return check_duplicates(out, e);
}

int nodeset_parse_names(struct arena *a, const char *text, char ***names, size_t *count,
                        struct err *e) {
    struct nodeset set = {0};
    if (nodeset_parse(a, text, &set, e) < 0)
        return -1;
    *names = arena_new(a, char *, set.count + 1);
    *count = set.count;
    for (size_t i = 0; i < set.count; i++) {
        if (set.logins[i].user || set.logins[i].port)
            return err_set(e, ERR_USAGE, "'%s': nodes are chosen by name, without user and port",
                           text);
        (*names)[i] = arena_strdup(a, set.logins[i].host);
    }
    return 0;
}

// ---- folding ----------------------------------------------------------------------------------

static int compare_names(const void *x, const void *y) {
    return str_natural_cmp(*(const char *const *)x, *(const char *const *)y);
}

// The position of the last run of digits in a name; length 0 when there is none or it is too long.
static size_t last_digits(const char *name, size_t *len) {
    size_t end = strlen(name);
    while (end > 0 && !isdigit((unsigned char)name[end - 1]))
        end--;
    size_t at = end;
    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    *len = end - at <= NODESET_DIGITS_MAX ? end - at : 0;
    return at;
}

// True when b follows a in a bracket: same surrounding text, number one higher, same padding.
static bool follows(const char *a, const char *b) {
    size_t a_len = 0, b_len = 0;
    size_t a_at = last_digits(a, &a_len), b_at = last_digits(b, &b_len);
    if (!a_len || !b_len || a_at != b_at || strncmp(a, b, a_at) != 0 ||
        strcmp(a + a_at + a_len, b + b_at + b_len) != 0)
        return false;
    if (a_len != b_len && (a[a_at] == '0' || b[b_at] == '0'))
        return false;
    return strtoul(b + b_at, NULL, 10) == strtoul(a + a_at, NULL, 10) + 1;
}

char *nodeset_fold(struct arena *a, const char **names, size_t count) {
    qsort(names, count, sizeof names[0], compare_names);
    struct strbuf out = {0};
    for (size_t i = 0; i < count;) {
        size_t run = 1;
        while (i + run < count && follows(names[i + run - 1], names[i + run]))
            run++;
        if (out.len)
            strbuf_addc(&out, ',');
        if (run == 1) {
            strbuf_adds(&out, names[i]);
        } else {
            size_t first_len = 0, last_len = 0;
            const char *first = names[i], *last = names[i + run - 1];
            size_t at = last_digits(first, &first_len), last_at = last_digits(last, &last_len);
            strbuf_addf(&out, "%.*s[%.*s-%.*s]%s", (int)at, first, (int)first_len, first + at,
                        (int)last_len, last + last_at, first + at + first_len);
        }
        i += run;
    }
    char *text = arena_strndup(a, strbuf_cstr(&out), out.len);
    strbuf_fini(&out);
    return text;
}
