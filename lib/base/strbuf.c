// SPDX-License-Identifier: Apache-2.0
// The growable buffer of str.h.
#include "base/bounds_impl.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void strbuf_init(struct strbuf *b, size_t cap_max) {
    *b = (struct strbuf){.cap_max = cap_max};
}

void strbuf_fini(struct strbuf *b) {
    free(b->data);
    *b = (struct strbuf){0};
}

void strbuf_clear(struct strbuf *b) {
    size_t len = b->len;
    b->len = 0;
    b->overflow = false;
    if (!b->data)
        return;
    b->data[0] = '\0';
    BOUNDS_CLOSE(b->data + 1, len);
}

// Room for len more bytes and the NUL; false when that would pass the cap.
static bool reserve(struct strbuf *b, size_t len) {
    if (b->cap_max && (len > b->cap_max || b->len > b->cap_max - len)) {
        b->overflow = true;
        return false;
    }
    size_t bytes = b->len + len + 1;
    if (bytes > b->room) {
        size_t room = b->room ? b->room : 64;
        while (room < bytes)
            room *= 2;
        b->data = heap_realloc(b->data, room);
        b->room = room;
        BOUNDS_CLOSE(b->data + bytes, room - bytes);
    }
    BOUNDS_OPEN(b->data + b->len, len + 1);
    return true;
}

void strbuf_add(struct strbuf *b, const void *p, size_t len) {
    if (!reserve(b, len))
        return;
    if (len)
        memcpy(b->data + b->len, p, len);
    b->len += len;
    b->data[b->len] = '\0';
}

char *strbuf_reserve(struct strbuf *b, size_t len) {
    must(reserve(b, len));
    return b->data + b->len;
}

void strbuf_adds(struct strbuf *b, const char *s) {
    strbuf_add(b, s, strlen(s));
}

void strbuf_addc(struct strbuf *b, char c) {
    strbuf_add(b, &c, 1);
}

void strbuf_vaddf(struct strbuf *b, const char *fmt, va_list ap) {
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    must(n >= 0);
    if (!reserve(b, (size_t)n))
        return;
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    b->len += (size_t)n;
}

void strbuf_addf(struct strbuf *b, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(b, fmt, ap);
    va_end(ap);
}

void strbuf_consume(struct strbuf *b, size_t len) {
    must(len <= b->len);
    if (len == 0)
        return;
    b->len -= len;
    memmove(b->data, b->data + len, b->len);
    b->data[b->len] = '\0';
    BOUNDS_CLOSE(b->data + b->len + 1, len);
}

const char *strbuf_cstr(const struct strbuf *b) {
    return b->data ? b->data : "";
}
