// SPDX-License-Identifier: Apache-2.0
// Arenas: memory with one lifetime. Allocation never fails (out of memory aborts in err.c) and
// returns zeroed memory; everything is freed at once by arena_fini or arena_reset.
//
//     struct arena a = {0};
//     struct node *nodes = arena_new(&a, struct node, count);
//     arena_fini(&a);
//
// An arena may be zero-initialised. Not thread-safe: one owner at a time.
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *head; // newest block first
    char *cur, *end;          // free part of the newest block
    size_t total_bytes;       // sum of all blocks
};

void *arena_alloc(struct arena *a, size_t size, size_t align, size_t count);
#define arena_new(a, T, n) ((T *)arena_alloc((a), sizeof(T), _Alignof(T), (n)))

// NUL-terminated copies.
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t len);
void *arena_memdup(struct arena *a, const void *p, size_t len);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(struct arena *a, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

void arena_reset(struct arena *a); // frees all, ready for reuse
void arena_fini(struct arena *a);

// Plain heap memory that aborts when there is none; for buffers with a lifetime of their own.
void *heap_alloc(size_t bytes); // zeroed
void *heap_realloc(void *p, size_t bytes);
char *heap_strdup(const char *s); // NULL stays NULL

#endif
