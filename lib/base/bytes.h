// SPDX-License-Identifier: Apache-2.0
// Byte order by hand: bounded little-endian reads and writes for wire and file formats.
//
// A reader never runs past its end: a short read sets `bad` once and returns zeros from then on, so
// that a decoder reads every field and checks `bad` at the end.
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes_reader {
    const unsigned char *p, *end;
    bool bad;
};

static inline struct bytes_reader bytes_reader(const void *p, size_t len) {
    const unsigned char *c = p;
    return (struct bytes_reader){c, c ? c + len : c, false};
}

static inline size_t bytes_left(const struct bytes_reader *r) {
    return (size_t)(r->end - r->p);
}

// The next len bytes (valid as long as the source), or NULL and `bad`.
static inline const void *bytes_get(struct bytes_reader *r, size_t len) {
    if (r->bad || bytes_left(r) < len) {
        r->bad = true;
        return NULL;
    }
    const void *p = r->p;
    r->p += len;
    return p;
}

// Eight bytes spelled out: compilers make one load or store of these, and of a loop they do not.
static inline uint64_t bytes_load(const void *p, size_t width) {
    const unsigned char *c = p;
    if (width == 8)
        return (uint64_t)c[0] | (uint64_t)c[1] << 8 | (uint64_t)c[2] << 16 | (uint64_t)c[3] << 24 |
               (uint64_t)c[4] << 32 | (uint64_t)c[5] << 40 | (uint64_t)c[6] << 48 |
               (uint64_t)c[7] << 56;
    uint64_t v = 0;
    for (size_t i = 0; i < width; i++)
        v |= (uint64_t)c[i] << (8 * i);
    return v;
}

static inline void bytes_store(void *p, uint64_t v, size_t width) {
    unsigned char *c = p;
    if (width == 8) {
        c[0] = (unsigned char)v, c[1] = (unsigned char)(v >> 8);
        c[2] = (unsigned char)(v >> 16), c[3] = (unsigned char)(v >> 24);
        c[4] = (unsigned char)(v >> 32), c[5] = (unsigned char)(v >> 40);
        c[6] = (unsigned char)(v >> 48), c[7] = (unsigned char)(v >> 56);
        return;
    }
    for (size_t i = 0; i < width; i++)
        c[i] = (unsigned char)(v >> (8 * i));
}

static inline uint64_t bytes_get_uint(struct bytes_reader *r, size_t width) {
    const void *p = bytes_get(r, width);
    return p ? bytes_load(p, width) : 0;
}

static inline uint8_t bytes_u8(struct bytes_reader *r) {
    return (uint8_t)bytes_get_uint(r, 1);
}

static inline uint16_t bytes_u16(struct bytes_reader *r) {
    return (uint16_t)bytes_get_uint(r, 2);
}

static inline uint32_t bytes_u32(struct bytes_reader *r) {
    return (uint32_t)bytes_get_uint(r, 4);
}

static inline uint64_t bytes_u64(struct bytes_reader *r) {
    return bytes_get_uint(r, 8);
}

#endif
