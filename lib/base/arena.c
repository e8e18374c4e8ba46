// SPDX-License-Identifier: Apache-2.0
// Allocates from chunks that grow, and frees all of them at once.
#include "base/arena.h"

#include "base/bounds_impl.h"
#include "base/err.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Bytes that no piece has are out of bounds, and so is a gap behind each piece.
enum { PIECE_ALIGN = BOUNDS_KNOWN ? 8 : 1, GAP_BYTES = BOUNDS_KNOWN ? 8 : 0 };
enum { BLOCK_BYTES_MIN = 16 * 1024 };

struct arena_block {
    struct arena_block *next;
    size_t size;
    _Alignas(max_align_t) char data[];
};

static void add_block(struct arena *a, size_t need) {
    // Doubling keeps the number of blocks logarithmic in the total.
    size_t size = BLOCK_BYTES_MIN;
    if (size < a->total_bytes)
        size = a->total_bytes;
    if (size < need)
        size = need;
    struct arena_block *b = calloc(1, sizeof *b + size);
    if (!b)
        err_out_of_memory(size);
    b->next = a->head;
    b->size = size;
    a->head = b;
    a->cur = b->data;
    a->end = b->data + size;
    a->total_bytes += size;
    BOUNDS_CLOSE(b->data, size);
}

void *arena_alloc(struct arena *a, size_t size, size_t align, size_t count) {
    if (count && size > (SIZE_MAX / 2) / count)
        err_out_of_memory(SIZE_MAX);
    size_t bytes = size * count + GAP_BYTES;
    align = align < PIECE_ALIGN ? PIECE_ALIGN : align;
    size_t pad = a->cur ? (size_t)(-(uintptr_t)a->cur & (align - 1)) : 0;
    if (!a->cur || (size_t)(a->end - a->cur) < bytes || (size_t)(a->end - a->cur) - bytes < pad) {
        add_block(a, bytes + align);
        pad = (size_t)(-(uintptr_t)a->cur & (align - 1));
    }
    void *p = a->cur + pad;
    a->cur += pad + bytes;
    BOUNDS_OPEN(p, bytes - GAP_BYTES);
    return p;
}

void *arena_memdup(struct arena *a, const void *p, size_t len) {
    void *q = arena_alloc(a, 1, _Alignof(max_align_t), len);
    if (len)
        memcpy(q, p, len);
    return q;
}

char *arena_strndup(struct arena *a, const char *s, size_t len) {
    char *q = arena_alloc(a, 1, 1, len + 1);
    if (len)
        memcpy(q, s, len);
    return q;
}

char *arena_strdup(struct arena *a, const char *s) {
    return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(struct arena *a, const char *fmt, va_list ap) {
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    must(n >= 0);
    char *s = arena_alloc(a, 1, 1, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, fmt, ap);
    return s;
}

char *arena_printf(struct arena *a, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *s = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return s;
}

void arena_reset(struct arena *a) {
    while (a->head) {
        struct arena_block *next = a->head->next;
        free(a->head);
        a->head = next;
    }
    *a = (struct arena){0};
}

void arena_fini(struct arena *a) {
    arena_reset(a);
}

void *heap_alloc(size_t bytes) {
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p)
        err_out_of_memory(bytes);
    return p;
}

void *heap_realloc(void *p, size_t bytes) {
    void *q = realloc(p, bytes ? bytes : 1);
    if (!q)
        err_out_of_memory(bytes);
    return q;
}

char *heap_strdup(const char *s) {
    size_t bytes = s ? strlen(s) + 1 : 0;
    return s ? memcpy(heap_alloc(bytes), s, bytes) : NULL;
}
