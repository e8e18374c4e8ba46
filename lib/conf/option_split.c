// SPDX-License-Identifier: Apache-2.0
// A list in one text: elements between commas.
#include "base/array.h"
#include "conf/option_value.h"

#include <string.h>

// Behind the partner of the bracket at p; NULL when it has none. Inside, only its own kind counts:
// a '{' in "[^{]" opens nothing.
static const char *behind_partner(const char *p) {
    const char open = *p, close = open == '[' ? ']' : open == '{' ? '}' : ')';
    int depth = 0;
    for (; *p; p++) {
        depth += (*p == open) - (*p == close);
        if (depth == 0)
            return p + 1;
        p += *p == '\\' && p[1];
    }
    return NULL;
}

// The end of the element that begins at p. A comma inside brackets belongs to it, as in
// "gpu[01,03].lab", "x([0-9]{1,3})", and so does one behind a backslash.
static const char *element_end(const char *p) {
    while (*p && *p != ',') {
        const char *behind = strchr("[{(", *p) ? behind_partner(p) : NULL;
        if (behind)
            p = behind;
        else
            p += *p == '\\' && p[1] ? 2 : 1;
    }
    return p;
}

// The closing quote of an element that is quoted as a whole, else NULL.
static const char *closing_quote(const char *p) {
    const char *end = *p == '"' || *p == '\'' ? strchr(p + 1, *p) : NULL;
    return end && (end[1] == ',' || !end[1]) ? end : NULL;
}

size_t option_split(struct arena *a, const char *text, char ***parts) {
    size_t count = 0, room = 0;
    *parts = NULL;
    for (const char *p = text;; p++) {
        const char *quote = closing_quote(p);
        const char *end = quote ? quote + 1 : element_end(p);
        array_grow_in(a, *parts, &room, count + 1);
        (*parts)[count++] = quote ? arena_strndup(a, p + 1, (size_t)(quote - p - 1))
                                  : arena_strndup(a, p, (size_t)(end - p));
        if (!*end)
            return count;
        p = end;
    }
}
