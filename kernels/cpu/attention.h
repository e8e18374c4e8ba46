// SPDX-License-Identifier: Apache-2.0
// Shared by the two ways of attention: with products in float (attention.c), and of words of
// bfloat16 that lie where AMX loads them (attention_words.c).
#ifndef DTCTL_KERNELS_CPU_ATTENTION_H
#define DTCTL_KERNELS_CPU_ATTENTION_H

#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/share.h"

enum {
    queries_max = 96,         // of a block
    block_floats = 64 * 1024, // of scores: 256 KB
    pad_floats = 16
};

struct attention_job {
    const struct attention_shape *s;
    const struct kernel_ctx *ctx;
    const struct cpu_isa *isa;
    const struct cpu_type *type;
    int keys;                    // per image
    const void *qkv, *y_in, *dy; // of type s->store, as y and dqkv
    void *y, *dqkv;
    const float *lse_in;
    float *lse;
    float *work;                       // of all workers
    size_t head_floats, worker_floats; // head_floats: in front of a head of floats (attention.c)
    int queries, stride;               // of a block of scores: rows, and floats from row to row
    float scale;
};

// Floats of a panel of `cols` columns and depth k.
static inline size_t panel_floats(const struct cpu_isa *isa, int k, int cols) {
    return (size_t)div_up(cols, isa->tile_cols) * isa->tile_cols * (size_t)k;
}

// Where the rows of one head of an image lie: from the start of qkv, of y or dy, and of lse.
struct head_at {
    ptrdiff_t q, k, v, q_row, kv_row;
    ptrdiff_t out, out_row, lse;
};
struct head_at head_at(const struct attention_shape *s, int64_t image, int head);

// c[m][n] = a[m][k] * panels + beta * c, k in words, rows lda and ldc apart.
struct rows_product {
    int m, n, k;
    const float *a;
    ptrdiff_t lda;
    const float *panels;
    float *c;
    ptrdiff_t ldc;
    float beta;
};
void attention_rows(const struct attention_job *job, const struct rows_product *p);

// With products of words; `work` has so many floats.
size_t attention_words_floats(const struct attention_job *job);
void attention_words_forward(const struct attention_job *job, float *work, int64_t image, int head);
void attention_words_backward(const struct attention_job *job, float *work, int64_t image,
                              int head);

#endif
