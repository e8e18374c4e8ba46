// SPDX-License-Identifier: Apache-2.0
// The types of elements, and how a reduction combines them.
#ifndef COMM_ELEMENT_H
#define COMM_ELEMENT_H

#include <stddef.h>

enum { ELEMENT_SOURCES_MAX = 256 };

struct element {
    const char *name;
    size_t bytes;
    void (*add)(void *into, const void *from, size_t n);
    // a and b added and scaled into one or two places (second may be NULL). Places may be a or b.
    void (*sum2)(void *out, void *second, const void *a, const void *b, size_t n, double factor);
    void (*scale)(void *p, size_t n, double factor);
    // Types narrower than float: sums of several sources grow in float and are rounded once.
    void (*widen)(float *to, const void *from, size_t n);
    void (*narrow)(void *to, const float *from, size_t n);
};

extern const struct element element_byte, element_f32, element_f64, element_bf16;

// out[i] = factor * (((src[0][i] + src[1][i]) + src[2][i]) + …), always in that order, so the bits
// do not depend on who computes it. `second` gets a copy, or is NULL; it may be one of the sources.
void element_reduce(const struct element *t, void *out, void *second, const void *const *src,
                    int sources, size_t n, double factor);

#endif
