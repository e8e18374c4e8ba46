// SPDX-License-Identifier: Apache-2.0
// Matches paths against ignore patterns.
#include "content/ignore.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

enum { IGNORE_STEPS_MAX = 100000 }; // per match: hostile patterns end as "no match"

// Matches "[a-z]" at p; *end is set behind it. Unclosed, it matches a literal '['.
static bool in_class(const char *p, char c, const char **end) {
    const char *start = p++;
    bool negated = *p == '!' || *p == '^', hit = false;
    p += negated;
    for (const char *first = p; *p && (*p != ']' || p == first); p++) {
        if (*p == '\\' && p[1])
            p++;
        unsigned char low = (unsigned char)*p, high = low;
        if (p[1] == '-' && p[2] && p[2] != ']') {
            p += 2;
            high = (unsigned char)*p;
        }
        hit |= (unsigned char)c >= low && (unsigned char)c <= high;
    }
    if (*p != ']') {
        *end = start + 1;
        return c == '[';
    }
    *end = p + 1;
    return hit != negated && c != '/';
}

static bool glob(const char *p, const char *s, int *steps) {
    for (; *p; s++) {
        if (++*steps > IGNORE_STEPS_MAX)
            return false;
        if (p[0] == '*' && p[1] == '*') {
            if (p[2] == '/') { // "**/": any number of folders, including none
                for (p += 3;; s++) {
                    if (glob(p, s, steps))
                        return true;
                    s = strchr(s, '/');
                    if (!s || *steps > IGNORE_STEPS_MAX)
                        return false;
                }
            }
            if (!p[2]) // "/**": everything inside
                return *s != '\0';
            p++;
        }
        if (*p == '*') {
            for (p++;; s++) {
                if (glob(p, s, steps))
                    return true;
                if (!*s || *s == '/' || *steps > IGNORE_STEPS_MAX)
                    return false;
            }
        }
        if (!*s)
            return false;
        if (*p == '[') {
            if (!in_class(p, *s, &p))
                return false;
            continue;
        }
        if (*p == '?' ? *s == '/' : (*p == '\\' && p[1] ? *++p : *p) != *s)
            return false;
        p++;
    }
    return !*s;
}

bool ignore_glob(const char *pattern, const char *path) {
    int steps = 0;
    return glob(pattern, path, &steps);
}

static int add_line(struct arena *a, struct ignore *ig, const char *base, const char *p, size_t len,
                    struct err *e) {
    if (len && p[len - 1] == '\r')
        len--;
    while (len && p[len - 1] == ' ' && !(len > 1 && p[len - 2] == '\\'))
        len--;
    if (!len || *p == '#')
        return 0;
    if (len > IGNORE_PATTERN_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "an ignore pattern of more than %d bytes",
                       IGNORE_PATTERN_BYTES_MAX);
    if (ig->count == IGNORE_PATTERNS_MAX)
        return err_set(e, ERR_LIMIT, "more than %d ignore patterns", IGNORE_PATTERNS_MAX);
    struct ignore_pattern n = {.base = base};
    if (*p == '!') {
        n.negated = true;
        p++;
        len--;
    }
    if (len && p[len - 1] == '/') {
        n.folder_only = true;
        len--;
    }
    n.tied = memchr(p, '/', len) != NULL;
    if (len && *p == '/') {
        p++;
        len--;
    }
    if (!len)
        return 0;
    n.text = arena_strndup(a, p, len);
    array_grow_in(a, ig->patterns, &ig->room, ig->count + 1);
    ig->patterns[ig->count++] = n;
    return 0;
}

int ignore_add(struct arena *a, struct ignore *ig, const char *base, const char *text, size_t len,
               struct err *e) {
    const char *end = text + len;
    base = arena_strdup(a, base);
    for (const char *p = text; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((nl ? nl : end) - p);
        if (!memchr(p, '\0', n) && add_line(a, ig, base, p, n, e) < 0)
            return -1;
        p += n + 1;
    }
    return 0;
}

bool ignore_match(const struct ignore *ig, const char *path, bool is_folder) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    for (size_t i = ig->count; i-- > 0;) {
        const struct ignore_pattern *n = &ig->patterns[i];
        size_t base_len = strlen(n->base);
        if (n->folder_only && !is_folder)
            continue;
        if (base_len && (strncmp(path, n->base, base_len) != 0 || path[base_len] != '/'))
            continue;
        const char *below = path + base_len + (base_len > 0);
        if (ignore_glob(n->text, n->tied ? below : name))
            return !n->negated;
    }
    return false;
}
