// SPDX-License-Identifier: Apache-2.0
// General matrix product: B packed once into panels by all workers, then every worker takes a
// rectangle of C and walks it in blocks whose part of A is copied next to it.
#include <assert.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/share.h"

// A block of A is block_rows x block_depth floats (400 KB: half of a usual second-level cache);
// the pad keeps its rows from falling on the same cache sets.
enum { block_rows = 192, block_depth = 512, block_stride = block_depth + 16 };

struct gemm_job {
    const struct gemm_args *g;
    const struct cpu_isa *isa;
    float *panels; // B: [panel][k][tile_cols]
    float *blocks; // one block of A per worker
    int col_parts; // the workers form a grid of row parts x col_parts
};

static size_t panels_size(const struct cpu_isa *isa, int n, int k) {
    return (size_t)div_up(n, isa->tile_cols) * isa->tile_cols * (size_t)k;
}

size_t cpu_gemm_workspace(const struct kernel_ctx *ctx, int m, int n, int k) {
    (void)m;
    size_t block = (size_t)block_rows * block_stride;
    return (panels_size(ctx->isa, n, k) + (size_t)ctx->workers * block) * sizeof(float);
}

// One panel is up to tile_cols columns of op(B).
static void pack_b_panel(const struct gemm_job *job, int panel) {
    const struct gemm_args *g = job->g;
    int nr = job->isa->tile_cols, first = panel * nr, cols = g->n - first < nr ? g->n - first : nr;
    float *dst = job->panels + (size_t)panel * g->k * nr;
    const float *b = g->b;
    if (g->trans_b)
        job->isa->pack_transposed(g->k, cols, b + (size_t)first * g->ldb, g->ldb, dst);
    else
        job->isa->pack_copied(g->k, cols, b + first, g->ldb, dst);
}

static void pack_b(void *arg, int worker, int workers) {
    const struct gemm_job *job = arg;
    struct share s = share_of(div_up(job->g->n, job->isa->tile_cols), worker, workers);
    for (int64_t i = s.begin; i < s.end; i++)
        pack_b_panel(job, (int)i);
}

// Copies rows [i0, i0 + rows) and depth [p0, p0 + depth) of op(A), transposing when needed.
static void copy_a_block(const struct gemm_args *g, int i0, int rows, int p0, int depth,
                         float *dst) {
    const float *a = g->a;
    if (!g->trans_a) {
        for (int i = 0; i < rows; i++)
            memcpy(dst + (size_t)i * block_stride, a + (size_t)(i0 + i) * g->lda + p0,
                   (size_t)depth * sizeof(float));
        return;
    }
    enum { step = 16 }; // rows at a time: one line of the source
    for (int i = 0; i < rows; i += step)
        for (int p = 0; p < depth; p++) {
            const float *s = a + (size_t)(p0 + p) * g->lda + i0 + i;
            float *d = dst + (size_t)i * block_stride + p;
            for (int q = 0; q < step && i + q < rows; q++)
                d[q * block_stride] = s[q];
        }
}

// All panels [panel0, panel1) against one copied block of A.
static void multiply_block(const struct gemm_job *job, const float *block, int i0, int rows, int p0,
                           int depth, struct share panels) {
    const struct gemm_args *g = job->g;
    int mr = job->isa->tile_rows, nr = job->isa->tile_cols;
    int first = p0 == 0, last = p0 + depth == g->k;
    const float *a[tile_rows_max];
    float *c[tile_rows_max];
    for (int64_t j = panels.begin; j < panels.end; j++) {
        int col = (int)j * nr;
        struct rows_tile t = {.a = a, .segs = 1, .k = depth};
        t.b = job->panels + ((size_t)j * g->k + p0) * nr;
        t.out = (struct tile_out){.c = c, .cols = g->n - col < nr ? g->n - col : nr};
        t.out.alpha = (float)g->alpha;
        t.out.beta = first ? (float)g->beta : 1;
        t.out.bias = g->bias && last ? (const float *)g->bias + col : NULL;
        t.out.relu = g->relu && last;
        for (int i = 0; i < rows; i += mr) {
            t.out.rows = rows - i < mr ? rows - i : mr;
            for (int r = 0; r < t.out.rows; r++) {
                a[r] = block + (size_t)(i + r) * block_stride;
                c[r] = (float *)g->c + (size_t)(i0 + i + r) * g->ldc + col;
            }
            job->isa->rows(&t);
        }
    }
}

static void multiply(void *arg, int worker, int workers) {
    const struct gemm_job *job = arg;
    const struct gemm_args *g = job->g;
    int col_parts = job->col_parts, row_parts = workers / col_parts, mr = job->isa->tile_rows;
    struct share tiles = share_of(div_up(g->m, mr), worker / col_parts, row_parts);
    struct share panels =
        share_of(div_up(g->n, job->isa->tile_cols), worker % col_parts, col_parts);
    int begin = (int)tiles.begin * mr, end = (int)clamp64(tiles.end * mr, 0, g->m);
    float *block = job->blocks + (size_t)worker * block_rows * block_stride;
    if (panels.begin == panels.end)
        return;
    for (int p0 = 0; p0 < g->k; p0 += block_depth) {
        int depth = g->k - p0 < block_depth ? g->k - p0 : block_depth;
        for (int i0 = begin; i0 < end; i0 += block_rows) {
            int rows = end - i0 < block_rows ? end - i0 : block_rows;
            copy_a_block(g, i0, rows, p0, depth, block);
            multiply_block(job, block, i0, rows, p0, depth, panels);
        }
    }
}

// The grid of workers with the smallest largest part; among equals, the one with the fewest copies.
static int best_col_parts(int workers, int64_t tiles, int64_t panels) {
    int best = 1;
    int64_t best_cost = INT64_MAX;
    for (int d = 1; d <= workers; d++) {
        if (workers % d != 0)
            continue;
        int64_t rows = div_up(tiles, workers / d), cols = div_up(panels, d);
        int64_t cost = rows * cols * 16 + rows;
        if (cost < best_cost) {
            best_cost = cost;
            best = d;
        }
    }
    return best;
}

// op(a)[m][k], op(b)[k][n] -> c[m][n]
void cpu_gemm(struct kernel_ctx *ctx, const struct gemm_args *g) {
    assert(g->m >= 0 && g->n >= 0 && g->k > 0);
    assert(cpu_gemm_workspace(ctx, g->m, g->n, g->k) <= ctx->work_bytes);
    struct gemm_job job = {.g = g, .isa = ctx->isa, .panels = (float *)ctx->work};
    job.blocks = job.panels + panels_size(ctx->isa, g->n, g->k);
    job.col_parts = best_col_parts(ctx->workers, div_up(g->m, ctx->isa->tile_rows),
                                   div_up(g->n, ctx->isa->tile_cols));
    ctx_parallel(ctx, pack_b, &job);
    ctx_parallel(ctx, multiply, &job);
}
