// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes base64.
#include "base/base64.h"

#include <stdint.h>

static int digit(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

long base64_decode(void *out, const char *text, size_t len) {
    unsigned char *o = out;
    if (len % 4 != 0)
        return -1;
    size_t pad = len && text[len - 1] == '=' ? 1 + (text[len - 2] == '=') : 0;
    for (size_t i = 0; i < len; i += 4) {
        uint32_t v = 0;
        for (size_t k = 0; k < 4; k++) {
            int d = i + k >= len - pad ? 0 : digit(text[i + k]);
            if (d < 0)
                return -1;
            v = v << 6 | (uint32_t)d;
        }
        size_t n = i + 4 == len ? 3 - pad : 3;
        for (size_t k = 0; k < n; k++)
            *o++ = (unsigned char)(v >> (16 - 8 * k));
    }
    return (long)(o - (unsigned char *)out);
}

void base64_encode(char *out, const void *p, size_t len) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *c = p;
    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        uint32_t v = (uint32_t)c[i] << 16;
        v |= n > 1 ? (uint32_t)c[i + 1] << 8 : 0;
        v |= n > 2 ? c[i + 2] : 0;
        for (size_t k = 0; k < 4; k++)
            *out++ = k <= n ? digits[v >> (18 - 6 * k) & 63] : '=';
    }
    *out = '\0';
}
