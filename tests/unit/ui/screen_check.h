// SPDX-License-Identifier: Apache-2.0
// The bytes allowed on a terminal: newlines, tabs, well-formed text, colours that do not conceal,
// and the sequences of a live block.
#ifndef DTCTL_TESTS_SCREEN_CHECK_H
#define DTCTL_TESTS_SCREEN_CHECK_H

#include "base/str.h"

#include <stdbool.h>
#include <string.h>

// Length of ESC [ digits-and-semicolons and one of m, A, J, K at p; 0: it is none.
static inline size_t check_sequence(const char *p, size_t len) {
    size_t i = 2;
    if (len < 3 || p[0] != '\033' || p[1] != '[')
        return 0;
    while (i < len && p[i] && strchr("0123456789;", p[i]))
        i++;
    if (i == len || !p[i] || !strchr("mAJK", p[i]))
        return 0;
    return p[i] == 'm' && memcmp(p, "\033[8m", 4) == 0 ? 0 : i + 1;
}

// The first byte that drives a terminal; len: there is none.
static inline size_t check_screen(const char *p, size_t len) {
    char shown[STR_VISIBLE_BYTES_MAX];
    for (size_t i = 0; i < len;) {
        size_t n = check_sequence(p + i, len - i);
        if (!n && (p[i] == '\n' || (p[i] == '\r' && check_sequence(p + i + 1, len - i - 1))))
            n = 1; // a live block goes back to the line's beginning, and up
        if (!n) {
            n = str_visible(p + i, len - i, shown);
            if (strlen(shown) != n || memcmp(shown, p + i, n) != 0)
                return i;
        }
        i += n;
    }
    return len;
}

#endif
