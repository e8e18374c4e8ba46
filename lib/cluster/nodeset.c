// SPDX-License-Identifier: Apache-2.0
// Node sets: users and ports around lists of hosts.
#include "cluster/nodeset.h"

#include "base/array.h"
#include "base/hostlist.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_space_or_comma(char c) {
    return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_user_char(char c) {
    return isalnum((unsigned char)c) || strchr("._-+$\\", c) != NULL;
}

static int bad(struct err *e, const char *set, size_t set_len, const char *why) {
    return err_set(e, ERR_CONFIG, "node set '%.*s': %s", (int)(set_len < 120 ? set_len : 120), set,
                   why);
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
    if (*s != ':' || hostlist_number(s + 1, end, &v) != (int)(end - s - 1) || v < 1 || v > 65535)
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
    *why = "an IPv6 address stands in brackets, such as [fd00::1] or [fd00::1]:22";
    if (colon && memchr(colon + 1, ':', (size_t)(end - colon - 1)))
        return -1;
    if (parse_port(colon ? colon : end, end, &login.port, why) < 0)
        return -1;
    struct hostlist list;
    *why = hostlist_parse(a, s, colon ? colon : end, "", NODESET_NODES_MAX, &list);
    if (!*why && out->count + list.count > NODESET_NODES_MAX)
        *why = "more nodes than the limit of 4096";
    for (size_t i = 0; !*why && i < list.count; i++) {
        login.host = hostlist_name(a, &list, i);
        *why = hostlist_check_name(login.host);
        append(a, out, room, login);
    }
    return *why ? -1 : 0;
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
        const char *end = hostlist_end(s), *why = "";
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
    *len = end - at <= HOSTLIST_DIGITS_MAX ? end - at : 0;
    return at;
}

// True when b follows a in a bracket: same surrounding text, number one higher, same padding.
static bool follows(const char *a, const char *b) {
    size_t a_len = 0, b_len = 0;
    size_t a_at = last_digits(a, &a_len), b_at = last_digits(b, &b_len);
    if (a_at != b_at || strncmp(a, b, a_at) != 0 || strcmp(a + a_at + a_len, b + b_at + b_len) != 0)
        return false;
    if (a_len != b_len && (a[a_at] == '0' || b[b_at] == '0'))
        return false;
    return strtoul(b + b_at, NULL, 10) == strtoul(a + a_at, NULL, 10) + 1;
}

char *nodeset_fold(struct arena *a, const char **names, size_t count) {
    if (count)
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
