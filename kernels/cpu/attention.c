// SPDX-License-Identifier: Apache-2.0
// Attention: q, k, v -> y[n][t][heads][d], lse[n][heads][t]. A worker takes whole heads of an
// image. Scores exist for a block of queries at a time; backward computes them again (Dao and
// others 2022, without the tiles over keys: a block's scores stay in the cache).
#include <assert.h>
#include <math.h>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pieces.h"

// Tensors in bfloat16 become floats, a head at a time.
static int by_floats(const struct attention_job *job) {
    return job->s->store == KERNEL_BF16 && !job->type->spaced;
}

static struct attention_job job_of(const struct kernel_ctx *ctx, const struct attention_shape *s) {
    struct attention_job job = {.s = s, .ctx = ctx, .isa = ctx->isa, .work = (float *)ctx->work};
    job.type = &ctx->type[s->type == KERNEL_BF16 && ctx->type[KERNEL_BF16].spaced ? KERNEL_BF16
                                                                                  : KERNEL_FLOAT];
    job.keys = s->keys ? s->keys : s->t;
    job.stride = (int)div_up(job.keys, pad_floats) * pad_floats + pad_floats;
    job.queries = (int)clamp64(block_floats / job.stride, tile_rows_max, queries_max);
    job.scale = (float)(1 / sqrt((double)s->d));
    // Two panels with keys as columns, one with keys as depth, two blocks of scores.
    job.worker_floats = job.type->spaced ? attention_words_floats(&job)
                                         : 2 * panel_floats(job.isa, s->d, job.keys) +
                                               panel_floats(job.isa, job.keys, s->d) +
                                               2 * (size_t)job.queries * job.stride;
    job.head_floats = (size_t)div_up((int64_t)job.worker_floats, pad_floats) * pad_floats;
    // Of a head, q, k, v and their gradients, y and dy.
    size_t all = (size_t)(4 * (int64_t)s->t + 4 * (int64_t)job.keys) * (size_t)s->d;
    job.worker_floats = job.head_floats + (by_floats(&job) ? all : 0);
    job.worker_floats = (size_t)div_up((int64_t)job.worker_floats, pad_floats) * pad_floats;
    return job;
}

size_t cpu_attention_workspace(const struct kernel_ctx *ctx, const struct attention_shape *s) {
    return (size_t)ctx->workers * job_of(ctx, s).worker_floats * sizeof(float);
}

void attention_rows(const struct attention_job *job, const struct rows_product *p) {
    const struct cpu_type *type = job->type;
    int mr = type->tile_rows, nr = job->isa->tile_cols;
    const float *rows[tile_rows_max];
    float *out[tile_rows_max];
    for (int j = 0; j < p->n; j += nr) {
        struct rows_tile t = {.a = rows, .b = p->panels + (size_t)j * p->k, .segs = 1, .k = p->k};
        t.a_step = p->lda, t.c_step = p->ldc;
        t.out = (struct tile_out){.c = out, .cols = p->n - j < nr ? p->n - j : nr};
        t.out.alpha = 1, t.out.beta = p->beta;
        for (int i = 0; i < p->m; i += mr) {
            t.out.rows = p->m - i < mr ? p->m - i : mr;
            for (int r = 0; r < t.out.rows; r++) {
                rows[r] = p->a + (i + r) * p->lda;
                out[r] = p->c + (i + r) * p->ldc + j;
            }
            type->rows(&t);
        }
    }
}

// c[m][n] = a[m][k] * panels, rows lda and ldc apart.
static void multiply_rows(const struct attention_job *job, int m, int n, int k, const float *a,
                          ptrdiff_t lda, const float *panels, float *c, ptrdiff_t ldc) {
    attention_rows(job, &(struct rows_product){m, n, k, a, lda, panels, c, ldc, 0});
}

// c[m][n] = beta * c + a'[m][k] * b[k][n], rows of a, b and c lda, ldb and ldc apart.
static void multiply_cols(const struct cpu_isa *isa, int m, int n, int k, const float *a,
                          ptrdiff_t lda, const float *b, ptrdiff_t ldb, float *c, ptrdiff_t ldc,
                          float beta) {
    int mr = isa->type[KERNEL_FLOAT].tile_rows, nr = isa->tile_cols;
    int32_t a_at[queries_max];
    float *out[tile_rows_max];
    for (int p = 0; p < k; p++)
        a_at[p] = (int32_t)(p * lda);
    for (int i = 0; i < m; i += mr)
        for (int j = 0; j < n; j += nr) {
            struct cols_tile t = {.a = a + i, .b = b + j, .a_at = a_at, .b_step = ldb, .k = k};
            t.out = (struct tile_out){.c = out, .alpha = 1, .beta = beta};
            t.out.rows = m - i < mr ? m - i : mr;
            t.out.cols = n - j < nr ? n - j : nr;
            for (int r = 0; r < t.out.rows; r++)
                out[r] = c + (i + r) * ldc + j;
            isa->type[KERNEL_FLOAT].cols(&t);
        }
}

// Keys become columns of panels: the transpose of rows x[keys][d].
static void pack_tokens(const struct attention_job *job, const float *x, ptrdiff_t stride,
                        float *panels) {
    int nr = job->isa->tile_cols, t = job->keys, d = job->s->d;
    for (int j = 0; j < t; j += nr)
        job->isa->pack_transposed(d, t - j < nr ? t - j : nr, x + j * stride, stride,
                                  panels + (size_t)j * d);
}

// Keys become the depth of panels: rows x[keys][d] as they are.
static void pack_width(const struct attention_job *job, const float *x, ptrdiff_t stride,
                       float *panels) {
    int nr = job->isa->tile_cols, t = job->keys, d = job->s->d;
    for (int j = 0; j < d; j += nr)
        job->isa->pack_copied(t, d - j < nr ? d - j : nr, x + j, stride, panels + (size_t)j * t);
}

struct head_at head_at(const struct attention_shape *s, int64_t image, int head) {
    ptrdiff_t wide = (ptrdiff_t)s->heads * s->d, column = (ptrdiff_t)head * s->d;
    ptrdiff_t first = image * s->t * wide + column;
    struct head_at at = {.out = first, .out_row = wide};
    at.lse = (image * s->heads + head) * s->t;
    if (!s->keys) {
        at.q = first + 2 * image * s->t * wide, at.k = at.q + wide, at.v = at.k + wide;
        at.q_row = at.kv_row = 3 * wide;
        return at;
    }
    at.q = first, at.q_row = wide;
    at.k = (s->n * (ptrdiff_t)s->t + image * s->keys * 2) * wide + column;
    at.v = at.k + wide, at.kv_row = 2 * wide;
    return at;
}

static void forward_head(const struct attention_job *job, float *work, int64_t image, int head) {
    const struct attention_shape *s = job->s;
    struct head_at at = head_at(s, image, head);
    ptrdiff_t wide = at.out_row;
    const float *qkv = job->qkv, *q = qkv + at.q;
    float *y = (float *)job->y + at.out, *lse = job->lse + at.lse;
    float *keys = work, *values = keys + panel_floats(job->isa, s->d, job->keys);
    float *scores = values + panel_floats(job->isa, job->keys, s->d);
    pack_tokens(job, qkv + at.k, at.kv_row, keys);
    pack_width(job, qkv + at.v, at.kv_row, values);
    for (int i = 0; i < s->t; i += job->queries) {
        int m = s->t - i < job->queries ? s->t - i : job->queries;
        float sum[queries_max];
        multiply_rows(job, m, job->keys, s->d, q + i * at.q_row, at.q_row, keys, scores,
                      job->stride);
        for (int r = 0; r < m; r++) {
            sum[r] = job->isa->softmax(job->keys, job->scale, scores + (ptrdiff_t)r * job->stride,
                                       &lse[i + r]);
            lse[i + r] += logf(sum[r]);
        }
        multiply_rows(job, m, s->d, job->keys, scores, job->stride, values, y + i * wide, wide);
        for (int r = 0; r < m; r++) // cheaper than scaling the scores
            job->isa->scale((size_t)s->d, 1 / sum[r], y + (i + r) * wide);
    }
}

// A head whose tensors are bfloat16: all of it as floats, laid out as those of one image and one
// head with keys of their own.
struct float_head {
    struct attention_shape s;
    struct attention_job job;
    struct head_at at, to; // in the tensors, and here
    float *qkv, *y, *dy, *dqkv;
};

static void head_begin(const struct attention_job *job, float *work, int64_t image, int head,
                       struct float_head *f) {
    size_t q = (size_t)job->s->t * (size_t)job->s->d,
           kv = 2 * (size_t)job->keys * (size_t)job->s->d;
    f->s = *job->s;
    f->s.n = f->s.heads = 1, f->s.keys = job->keys, f->s.store = KERNEL_FLOAT;
    f->at = head_at(job->s, image, head), f->to = head_at(&f->s, 0, 0);
    f->qkv = work + job->head_floats, f->dqkv = f->qkv + q + kv;
    f->y = f->dqkv + q + kv, f->dy = f->y + q;
    f->job = *job;
    f->job.s = &f->s;
    f->job.qkv = f->qkv, f->job.dqkv = f->dqkv, f->job.y = f->y, f->job.y_in = f->y;
    f->job.dy = f->dy;
    f->job.lse = job->lse ? job->lse + f->at.lse : NULL;
    f->job.lse_in = job->lse_in ? job->lse_in + f->at.lse : NULL;
}

// Rows of one head: of a tensor from element `from` on, to y; and back.
static void widen_rows(const struct attention_job *job, int rows, const void *x, ptrdiff_t from,
                       ptrdiff_t step, float *y, ptrdiff_t y_step) {
    for (int r = 0; r < rows; r++)
        job->isa->widen((size_t)job->s->d, (const uint16_t *)x + from + r * step, y + r * y_step);
}

static void narrow_rows(const struct attention_job *job, int rows, const float *x, ptrdiff_t step,
                        void *y, ptrdiff_t to, ptrdiff_t y_step) {
    for (int r = 0; r < rows; r++)
        job->ctx->type[KERNEL_BF16].narrow((size_t)job->s->d, x + r * step,
                                           (uint16_t *)y + to + r * y_step);
}

static void widen_qkv(const struct attention_job *job, const struct float_head *f) {
    const struct head_at *at = &f->at, *to = &f->to;
    const void *x = job->qkv;
    widen_rows(job, job->s->t, x, at->q, at->q_row, f->qkv + to->q, to->q_row);
    widen_rows(job, job->keys, x, at->k, at->kv_row, f->qkv + to->k, to->kv_row);
    widen_rows(job, job->keys, x, at->v, at->kv_row, f->qkv + to->v, to->kv_row);
}

static void forward_stored(const struct attention_job *job, float *work, int64_t image, int head) {
    struct float_head f;
    head_begin(job, work, image, head, &f);
    widen_qkv(job, &f);
    forward_head(&f.job, work, 0, 0);
    narrow_rows(job, job->s->t, f.y, f.to.out_row, job->y, f.at.out, f.at.out_row);
}

// One worker's share.
static void heads_of(const struct attention_job *job, int worker, int workers,
                     void (*fn)(const struct attention_job *job, float *work, int64_t image,
                                int head)) {
    struct share mine = share_of((int64_t)job->s->n * job->s->heads, worker, workers);
    ctx_open_tiles(job->type);
    for (int64_t i = mine.begin; i < mine.end; i++)
        fn(job, job->work + (size_t)worker * job->worker_floats, i / job->s->heads,
           (int)(i % job->s->heads));
    ctx_close_tiles(job->type);
}

static void forward_heads(void *arg, int worker, int workers) {
    const struct attention_job *job = arg;
    heads_of(job, worker, workers,
             job->type->spaced ? attention_words_forward
             : by_floats(job)  ? forward_stored
                               : forward_head);
}

// qkv -> y[n][t][heads][d], lse[n][heads][t]
void cpu_attention_forward(struct kernel_ctx *ctx, const struct attention_shape *s, const void *qkv,
                           void *y, void *lse) {
    assert(cpu_attention_workspace(ctx, s) <= ctx->work_bytes);
    struct attention_job job = job_of(ctx, s);
    job.qkv = qkv, job.y = y, job.lse = lse;
    ctx_parallel(ctx, forward_heads, &job);
}

// With P = softmax(S): dV = P' dY, dP = dY V', dS = P * (dP - dy.y) / sqrt(d), dQ = dS K, dK = dS'
// Q.
static void backward_head(const struct attention_job *job, float *work, int64_t image, int head) {
    const struct attention_shape *s = job->s;
    const struct cpu_isa *isa = job->isa;
    struct head_at at = head_at(s, image, head);
    ptrdiff_t wide = at.out_row, row = at.q_row;
    const float *qkv = job->qkv, *q = qkv + at.q, *k = qkv + at.k, *v = qkv + at.v;
    const float *y = (const float *)job->y_in + at.out, *dy = (const float *)job->dy + at.out;
    const float *lse = job->lse_in + at.lse;
    float *dqkv = job->dqkv, *dq = dqkv + at.q, *dk = dqkv + at.k, *dv = dqkv + at.v;
    float *keys = work, *values = keys + panel_floats(isa, s->d, job->keys);
    float *depth = values + panel_floats(isa, s->d, job->keys);
    float *p = depth + panel_floats(isa, job->keys, s->d);
    float *ds = p + (size_t)job->queries * job->stride;
    pack_tokens(job, k, at.kv_row, keys);
    pack_tokens(job, v, at.kv_row, values);
    pack_width(job, k, at.kv_row, depth);
    for (int i = 0; i < s->t; i += job->queries) {
        int m = s->t - i < job->queries ? s->t - i : job->queries;
        float beta = i > 0 ? 1 : 0;
        multiply_rows(job, m, job->keys, s->d, q + i * row, row, keys, p, job->stride);
        multiply_rows(job, m, job->keys, s->d, dy + i * wide, wide, values, ds, job->stride);
        for (int r = 0; r < m; r++)
            isa->softmax_grad(job->keys, job->scale, lse[i + r],
                              isa->dot(s->d, dy + (i + r) * wide, y + (i + r) * wide),
                              p + (ptrdiff_t)r * job->stride, ds + (ptrdiff_t)r * job->stride);
        multiply_rows(job, m, s->d, job->keys, ds, job->stride, depth, dq + i * row, row);
        multiply_cols(isa, job->keys, s->d, m, ds, job->stride, q + i * row, row, dk, at.kv_row,
                      beta);
        multiply_cols(isa, job->keys, s->d, m, p, job->stride, dy + i * wide, wide, dv, at.kv_row,
                      beta);
    }
}

static void backward_stored(const struct attention_job *job, float *work, int64_t image, int head) {
    struct float_head f;
    head_begin(job, work, image, head, &f);
    const struct head_at *at = &f.at, *to = &f.to;
    widen_qkv(job, &f);
    widen_rows(job, job->s->t, job->y_in, at->out, at->out_row, f.y, to->out_row);
    widen_rows(job, job->s->t, job->dy, at->out, at->out_row, f.dy, to->out_row);
    backward_head(&f.job, work, 0, 0);
    void *y = job->dqkv;
    narrow_rows(job, job->s->t, f.dqkv + to->q, to->q_row, y, at->q, at->q_row);
    narrow_rows(job, job->keys, f.dqkv + to->k, to->kv_row, y, at->k, at->kv_row);
    narrow_rows(job, job->keys, f.dqkv + to->v, to->kv_row, y, at->v, at->kv_row);
}

static void backward_heads(void *arg, int worker, int workers) {
    const struct attention_job *job = arg;
    heads_of(job, worker, workers,
             job->type->spaced ? attention_words_backward
             : by_floats(job)  ? backward_stored
                               : backward_head);
}

// qkv, y and dy[n][t][heads][d], lse[n][heads][t] -> dqkv
void cpu_attention_backward(struct kernel_ctx *ctx, const struct attention_shape *s,
                            const void *qkv, const void *y, const void *lse, const void *dy,
                            void *dqkv) {
    assert(cpu_attention_workspace(ctx, s) <= ctx->work_bytes);
    struct attention_job job = job_of(ctx, s);
    job.qkv = qkv, job.y_in = y, job.lse_in = lse;
    job.dy = dy, job.dqkv = dqkv;
    ctx_parallel(ctx, backward_heads, &job);
}
