// SPDX-License-Identifier: Apache-2.0
// General matrix product. All workers pack B into panels. Each worker then computes a rectangle of
// C in blocks, and copies the block's part of A. With few rows of C a panel is rarely reused, so A
// is copied as a whole, and each worker packs B piece by piece. Where C is bfloat16 its sums stay
// in a buffer of floats until they have all terms.
#include <assert.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/share.h"

// A block of A is block_rows x block_depth (400 KB: half of a usual second-level cache); the pad
// keeps its rows from falling on the same cache sets.
enum {
    block_rows = 192,
    block_depth = 512,
    pad_words = 16,
    block_stride = block_depth + pad_words
};
enum { few_rows = 96 }; // of C

struct gemm_job {
    const struct gemm_args *g;
    const struct kernel_ctx *ctx;
    const struct cpu_type *type;
    int k_words;
    int depth;     // of a pass
    float *panels; // B: [panel][words of k][tile_cols]; with few rows: a piece per worker
    float *blocks; // one block of A per worker; with few rows: A, stride words from row to row
    float *sums;   // a block's part of a panel per worker
    int stride;
    int col_parts; // the workers form a grid of row parts x col_parts
};

static int is_flat(const struct gemm_args *g) {
    return g->m <= few_rows;
}

static size_t piece_words(const struct kernel_ctx *ctx) {
    return (size_t)block_depth * ctx->isa->tile_cols;
}

// From one copied row of A to the next: an odd number of cache lines, so that rows fall on all
// cache sets.
static int row_words(int64_t k_words) {
    return (int)(div_up(k_words, pad_words) | 1) * pad_words;
}

// Of a worker's block: that of a whole depth has fewer rows, but a tile's.
static size_t block_words(int k) {
    size_t deep = tile_rows_max * (size_t)row_words(k), usual = block_rows * block_stride;
    return deep > usual ? deep : usual;
}

// Sizes in words: of the panels, and of the blocks, which follow them.
static size_t panels_words(const struct kernel_ctx *ctx, const struct gemm_args *g) {
    if (is_flat(g))
        return (size_t)ctx->workers * piece_words(ctx);
    return pack_panels_words(ctx, &ctx->type[g->type], g->k, g->n);
}

static size_t blocks_words(const struct kernel_ctx *ctx, const struct gemm_args *g) {
    if (is_flat(g))
        return (size_t)div_up(g->m, tile_rows_max) * tile_rows_max * (size_t)row_words(g->k);
    return (size_t)ctx->workers * block_words(g->k);
}

static size_t sums_words(const struct kernel_ctx *ctx) {
    return (size_t)ctx->workers * block_rows * ctx->isa->tile_cols;
}

static size_t bytes_of(const struct kernel_ctx *ctx, int m, int n, int k) {
    struct gemm_args g = {.m = m, .n = n, .k = k};
    return (panels_words(ctx, &g) + blocks_words(ctx, &g) + sums_words(ctx)) * sizeof(float);
}

// A product with few rows can need more workspace than one with many. All types need the same.
size_t cpu_gemm_workspace(const struct kernel_ctx *ctx, enum kernel_type type, int m, int n,
                          int k) {
    (void)type;
    size_t all = bytes_of(ctx, m, n, k), few = bytes_of(ctx, m < few_rows ? m : few_rows, n, k);
    return all > few ? all : few;
}

// Rows [p0, p0 + depth) of one panel: up to tile_cols columns of op(B).
static void pack_b(const struct gemm_job *job, int64_t panel, int p0, int depth, float *dst) {
    const struct gemm_args *g = job->g;
    int nr = job->ctx->isa->tile_cols, first = (int)panel * nr;
    struct panel_source src = {.stride = g->ldb, .transposed = g->trans_b, .k = depth};
    src.cols = g->n - first < nr ? g->n - first : nr;
    ptrdiff_t at = g->trans_b ? (ptrdiff_t)first * g->ldb + p0 : (ptrdiff_t)p0 * g->ldb + first;
    panel_source_at(&src, g->b_store, g->b, at);
    pack_panel(job->ctx, job->type, &src, dst);
}

static void pack_panels(void *arg, int worker, int workers) {
    const struct gemm_job *job = arg;
    int nr = job->ctx->isa->tile_cols;
    struct share s = share_of(div_up(job->g->n, nr), worker, workers);
    for (int64_t i = s.begin; i < s.end; i++)
        pack_b(job, i, 0, job->g->k, job->panels + (size_t)i * job->k_words * nr);
}

// Copies columns [i0, i0 + rows) of A, depth [p0, p0 + depth), as rows.
static void turn_a(const struct gemm_job *job, int i0, int rows, int p0, int depth, int stride,
                   float *dst) {
    const struct gemm_args *g = job->g;
    int nr = job->ctx->isa->tile_cols;
    enum { lines = 16, run = 64 }; // of a piece that is transposed: whole lines of the source
    float piece[lines][run], line[lines];
    for (int i = 0; i < rows && job->type->turn; i += nr) {
        size_t at = (size_t)p0 * g->lda + i0 + i;
        int cols = rows - i < nr ? rows - i : nr;
        float *to = dst + (size_t)i * stride;
        if (g->a_store == KERNEL_BF16)
            job->type->turn16(depth, cols, (const uint16_t *)g->a + at, g->lda, to, stride);
        else
            job->type->turn(depth, cols, (const float *)g->a + at, g->lda, to, stride);
    }
    for (int i = 0; i < rows && !job->type->turn; i += lines)
        for (int p = 0; p < depth; p += run) {
            int n = depth - p < run ? depth - p : run, count = rows - i < lines ? rows - i : lines;
            for (int q = 0; q < n; q++) {
                const float *a = stored_read(job->ctx, g->a_store, (size_t)count, g->a,
                                             (int64_t)(p0 + p + q) * g->lda + i0 + i, line);
                for (int r = 0; r < count; r++)
                    piece[r][q] = a[r];
            }
            for (int r = 0; r < count; r++)
                pack_run(job->type, (size_t)n, piece[r],
                         dst + (size_t)(i + r) * stride + p / job->type->pair);
        }
}

// Copies rows [i0, i0 + rows) and depth [p0, p0 + depth) of op(A); rows stride words apart.
static void copy_a(const struct gemm_job *job, int i0, int rows, int p0, int depth, int stride,
                   float *dst) {
    const struct gemm_args *g = job->g;
    if (g->trans_a) {
        turn_a(job, i0, rows, p0, depth, stride, dst);
        return;
    }
    for (int i = 0; i < rows; i++)
        pack_stored_run(job->ctx, job->type, g->a_store, (size_t)depth, g->a,
                        (size_t)(i0 + i) * g->lda + p0, dst + (size_t)i * stride);
}

// Rows and depth of op(A) that lie at a, with stride words between rows, and the same rows of C
// from the panel's first column on, ldc apart.
struct a_block {
    const float *a;
    int stride, i0, rows, p0, depth;
    float *c;
    ptrdiff_t ldc;
};

static float *c_at(const struct gemm_job *job, int i0, int64_t panel) {
    return (float *)job->g->c + (size_t)i0 * job->g->ldc + panel * job->ctx->isa->tile_cols;
}

// One panel, whose first row is p0, against a block of A.
static void multiply_panel(const struct gemm_job *job, const struct a_block *block, int64_t panel,
                           const float *b) {
    const struct gemm_args *g = job->g;
    int mr = job->type->tile_rows, nr = job->ctx->isa->tile_cols, col = (int)panel * nr;
    int first = block->p0 == 0, last = block->p0 + block->depth == g->k;
    const float *a[tile_rows_max];
    float *c[tile_rows_max];
    struct rows_tile t = {.a = a, .segs = 1, .a_step = block->stride, .b = b, .c_step = block->ldc};
    t.k = (int)pack_words(job->type, block->depth);
    t.out = (struct tile_out){.c = c, .cols = g->n - col < nr ? g->n - col : nr};
    t.out.alpha = (float)g->alpha;
    t.out.beta = first ? (float)g->beta : 1;
    t.out.bias = g->bias && last ? (const float *)g->bias + col : NULL;
    t.out.relu = g->relu && last;
    uint16_t *bits = last && g->c_store == KERNEL_BF16
                         ? (uint16_t *)g->c + (size_t)block->i0 * g->ldc + col
                         : NULL;
    int once = bits && first && g->beta == 0; // all tiles of sums may have one place
    for (int i = 0; i < block->rows; i += mr) {
        float *sums = block->c + (once ? 0 : i) * block->ldc;
        t.out.rows = block->rows - i < mr ? block->rows - i : mr;
        for (int r = 0; r < t.out.rows; r++) {
            a[r] = block->a + (size_t)(i + r) * block->stride;
            c[r] = sums + r * block->ldc;
            if (bits)
                __builtin_prefetch(bits + (ptrdiff_t)(i + r) * g->ldc, 1);
        }
        job->type->rows(&t);
        if (bits)
            job->type->narrow_tile(t.out.rows, t.out.cols, sums, block->ldc,
                                   bits + (ptrdiff_t)i * g->ldc, g->ldc);
    }
}

// Sums of a block's rows of a panel begin as what they are added to.
static void load_sums(const struct gemm_job *job, const struct a_block *block, int64_t panel) {
    const struct gemm_args *g = job->g;
    int nr = job->ctx->isa->tile_cols, col = (int)panel * nr;
    int cols = g->n - col < nr ? g->n - col : nr;
    const uint16_t *c = g->from ? g->from : g->c;
    c += (size_t)block->i0 * g->ldc + col;
    if (g->beta != 0)
        job->ctx->isa->widen_tile(block->rows, cols, c, g->ldc, block->c, block->ldc);
}

// Rows of A whose whole depth a worker's block holds.
static int deep_rows(const struct gemm_job *job, int rows) {
    int64_t fit = (int64_t)(block_words(job->g->k) / (size_t)job->stride);
    int64_t most = clamp64(fit / tile_rows_max * tile_rows_max, 1, block_rows);
    return (int)clamp64(rows, 1, most);
}

// Rows [begin, end) and some panels of a C in bfloat16.
static void multiply_stored(const struct gemm_job *job, int begin, int end, struct share panels,
                            int worker) {
    const struct gemm_args *g = job->g;
    int nr = job->ctx->isa->tile_cols;
    float *copy = job->blocks + (size_t)worker * block_words(g->k);
    float *sums = job->sums + (size_t)worker * block_rows * nr;
    for (int i0 = begin, rows; i0 < end; i0 += rows) {
        rows = deep_rows(job, end - i0);
        copy_a(job, i0, rows, 0, g->k, job->stride, copy);
        for (int64_t j = panels.begin; j < panels.end; j++) {
            const float *b = job->panels + (size_t)j * job->k_words * nr;
            struct a_block block = {copy, job->stride, i0, rows, 0, 0, sums, nr};
            load_sums(job, &block, j);
            for (int p0 = 0; p0 < g->k; p0 += job->depth) {
                int skip = p0 / job->type->pair;
                block.a = copy + skip, block.p0 = p0;
                block.depth = g->k - p0 < job->depth ? g->k - p0 : job->depth;
                multiply_panel(job, &block, j, b + (size_t)skip * nr);
            }
        }
    }
}

static void multiply(void *arg, int worker, int workers) {
    const struct gemm_job *job = arg;
    const struct gemm_args *g = job->g;
    int nr = job->ctx->isa->tile_cols, mr = job->type->tile_rows;
    int col_parts = job->col_parts, row_parts = workers / col_parts;
    struct share tiles = share_of(div_up(g->m, mr), worker / col_parts, row_parts);
    struct share panels = share_of(div_up(g->n, nr), worker % col_parts, col_parts);
    int begin = (int)tiles.begin * mr, end = (int)clamp64(tiles.end * mr, 0, g->m);
    float *copy = job->blocks + (size_t)worker * block_words(g->k);
    if (panels.begin == panels.end)
        return;
    ctx_open_tiles(job->type);
    if (g->c_store == KERNEL_BF16)
        multiply_stored(job, begin, end, panels, worker);
    for (int p0 = 0; g->c_store == KERNEL_FLOAT && p0 < g->k; p0 += job->depth) {
        int depth = g->k - p0 < job->depth ? g->k - p0 : job->depth;
        size_t skip = (size_t)(p0 / job->type->pair) * nr;
        for (int i0 = begin; i0 < end; i0 += block_rows) {
            int rows = end - i0 < block_rows ? end - i0 : block_rows;
            copy_a(job, i0, rows, p0, depth, block_stride, copy);
            struct a_block block = {copy, block_stride, i0, rows, p0, depth, NULL, g->ldc};
            for (int64_t j = panels.begin; j < panels.end; j++) {
                block.c = c_at(job, i0, j);
                multiply_panel(job, &block, j, job->panels + (size_t)j * job->k_words * nr + skip);
            }
        }
    }
    ctx_close_tiles(job->type);
}

static void copy_all_a(void *arg, int worker, int workers) {
    const struct gemm_job *job = arg;
    // Turned rows are made in sets: zeros fill up the last one.
    int set = job->g->trans_a && job->type->turn ? tile_rows_max : 1;
    struct share s = share_of(div_up(job->g->m, set), worker, workers);
    int begin = (int)s.begin * set, end = (int)clamp64(s.end * set, 0, job->g->m);
    copy_a(job, begin, end - begin, 0, job->g->k, job->stride,
           job->blocks + (size_t)begin * job->stride);
}

static void multiply_flat(void *arg, int worker, int workers) {
    const struct gemm_job *job = arg;
    const struct gemm_args *g = job->g;
    float *piece = job->panels + (size_t)worker * piece_words(job->ctx);
    struct share panels = share_of(div_up(g->n, job->ctx->isa->tile_cols), worker, workers);
    ctx_open_tiles(job->type);
    float *sums = job->sums + (size_t)worker * block_rows * job->ctx->isa->tile_cols;
    for (int64_t j = panels.begin; j < panels.end; j++) {
        struct a_block block = {job->blocks, job->stride, 0, g->m, 0, 0, c_at(job, 0, j), g->ldc};
        if (g->c_store == KERNEL_BF16) {
            block.c = sums, block.ldc = job->ctx->isa->tile_cols;
            load_sums(job, &block, j);
        }
        for (int p0 = 0; p0 < g->k; p0 += job->depth) {
            block.a = job->blocks + p0 / job->type->pair, block.p0 = p0;
            block.depth = g->k - p0 < job->depth ? g->k - p0 : job->depth;
            pack_b(job, j, p0, block.depth, piece);
            multiply_panel(job, &block, j, piece);
        }
    }
    ctx_close_tiles(job->type);
}

// As much as fits into a block. Types that load tiles where they lie have equal passes of whole
// tiles: each pass reads and writes all of C.
static int depth_of(const struct cpu_type *type, int k) {
    enum { whole = 32 }; // numbers in a row of a tile
    if (!type->spaced)
        return block_depth;
    int64_t passes = div_up(k, (int64_t)block_depth * type->pair);
    return (int)div_up(div_up(k, passes), whole) * whole;
}

// Chooses the grid of workers whose largest part is smallest, and among equals the one with the
// fewest copies.
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
    assert(cpu_gemm_workspace(ctx, g->type, g->m, g->n, g->k) <= ctx->work_bytes);
    struct gemm_job job = {.g = g, .ctx = ctx, .type = &ctx->type[g->type]};
    job.k_words = (int)pack_words(job.type, g->k);
    job.depth = depth_of(job.type, g->k);
    job.panels = (float *)ctx->work;
    job.blocks = job.panels + panels_words(ctx, g);
    job.sums = job.blocks + blocks_words(ctx, g);
    job.stride = row_words(job.k_words);
    if (is_flat(g)) {
        ctx_parallel(ctx, copy_all_a, &job);
        ctx_parallel(ctx, multiply_flat, &job);
        return;
    }
    job.col_parts = best_col_parts(ctx->workers, div_up(g->m, job.type->tile_rows),
                                   div_up(g->n, ctx->isa->tile_cols));
    ctx_parallel(ctx, pack_panels, &job);
    ctx_parallel(ctx, multiply, &job);
}
