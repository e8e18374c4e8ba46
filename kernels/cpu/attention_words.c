// SPDX-License-Identifier: Apache-2.0
// A head of attention with products of bfloat16 by AMX. All operands become rows and panels of
// words whose depth fills whole registers with zeros, so that tiles are loaded where they lie. A
// block of scores has whole tiles, too; what is beyond its rows and columns is no number of a head.
// Sums, and all between the products, are float.
#include <math.h>
#include <string.h>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/pieces.h"

enum { line = 16, tile = tile_rows_max };

static int whole(int n, int by) {
    return (int)div_up(n, by) * by;
}

// Words of a depth of n numbers.
static int depth_of(const struct attention_job *job, int n) {
    return whole((int)pack_words(job->type, n), line);
}

// Where the parts of a worker's memory begin; floats or words. A block of scores becomes words in
// place: rows `stride` apart.
struct parts {
    int d, keys, queries; // depths
    int rows, stride;     // of a block
    size_t key, value, key_width, q, dy, q_width, dy_width, turned, p, ds;
    size_t out, dk, dv, rows_of_two, end; // where tensors are bfloat16: results, and two rows
};

static struct parts parts_of(const struct attention_job *job) {
    const struct cpu_isa *isa = job->isa;
    struct parts w = {.d = depth_of(job, job->s->d), .keys = depth_of(job, job->keys)};
    w.queries = depth_of(job, job->queries);
    w.rows = whole(job->queries, tile);
    w.stride = whole(job->keys, tile) + line;
    w.value = panel_floats(isa, w.d, job->keys);
    w.key_width = 2 * w.value;
    w.q = w.key_width + panel_floats(isa, w.keys, job->s->d);
    w.dy = w.q + (size_t)w.rows * (w.d + line);
    w.q_width = w.dy + (size_t)w.rows * (w.d + line);
    w.dy_width = w.q_width + panel_floats(isa, w.queries, job->s->d);
    w.turned = w.dy_width + panel_floats(isa, w.queries, job->s->d);
    w.p = w.turned + (size_t)whole(job->keys, tile) * (w.queries + line);
    w.ds = w.p + (size_t)w.rows * w.stride;
    w.out = w.ds + (size_t)w.rows * w.stride;
    size_t d = job->s->store == KERNEL_BF16 ? (size_t)job->s->d : 0;
    w.dk = w.out + (size_t)w.rows * d;
    w.dv = w.dk + (size_t)job->keys * d;
    w.rows_of_two = w.dv + (size_t)job->keys * d;
    w.end = w.rows_of_two + 2 * d;
    return w;
}

size_t attention_words_floats(const struct attention_job *job) {
    return parts_of(job).end;
}

// x[k][cols] from element `from` on, or x[cols][k] transposed -> panels of `depth` words.
static void pack(const struct attention_job *job, int k, int cols, const void *x, ptrdiff_t from,
                 ptrdiff_t stride, int transposed, int depth, float *panels) {
    int nr = job->isa->tile_cols;
    size_t words = (size_t)pack_words(job->type, k) * nr, all = (size_t)depth * nr;
    enum kernel_type store = job->s->store;
    for (int j = 0; j < cols; j += nr, panels += all) {
        const void *at = stored_at(store, x, from + (transposed ? j * stride : j));
        struct panel_source src = {.stride = stride, .transposed = transposed, .k = k};
        src.store = store, src.at = at, src.bits = at;
        src.cols = cols - j < nr ? cols - j : nr;
        pack_panel(job->ctx, job->type, &src, panels);
        memset(panels + words, 0, (all - words) * sizeof *panels);
    }
}

// Rows x[m][n] from element `from` on, `stride` apart -> words, `apart` from row to row; may be in
// place.
static void to_words(const struct attention_job *job, enum kernel_type store, int m, int n,
                     const void *x, ptrdiff_t from, ptrdiff_t stride, int depth, float *words,
                     ptrdiff_t apart) {
    size_t there = (size_t)pack_words(job->type, n);
    for (int r = 0; r < m; r++) {
        float *row = words + r * apart;
        pack_stored_run(job->ctx, job->type, store, (size_t)n, x, (size_t)(from + r * stride), row);
        memset(row + there, 0, ((size_t)depth - there) * sizeof *row);
    }
}

// Rows of d numbers of a result: where they are floats, and where they belong.
struct result {
    float *at;
    ptrdiff_t row;
    void *tensor;
    ptrdiff_t to, step;
};

static struct result result_of(const struct attention_job *job, void *tensor, ptrdiff_t to,
                               ptrdiff_t step, float *buffer) {
    if (job->s->store == KERNEL_BF16)
        return (struct result){buffer, job->s->d, tensor, to, step};
    return (struct result){(float *)tensor + to, step, tensor, to, step};
}

static void end_result(const struct attention_job *job, const struct result *r, int rows) {
    if (job->s->store == KERNEL_BF16)
        job->ctx->type[KERNEL_BF16].narrow_tile(rows, job->s->d, r->at, r->row,
                                                (uint16_t *)r->tensor + r->to, r->step);
}

// Columns of the scores x[m][keys] become rows of words.
static void turn(const struct attention_job *job, const struct parts *w, int m, const float *x,
                 float *words) {
    int nr = job->isa->tile_cols, apart = w->queries + line;
    size_t there = (size_t)pack_words(job->type, m);
    for (int j = 0; j < job->keys; j += nr) {
        float *rows = words + (size_t)j * apart;
        job->type->turn(m, nr, x + j, w->stride, rows, apart);
        for (int r = 0; r < nr && there < (size_t)w->queries; r++)
            memset(rows + (size_t)r * apart + there, 0, (w->queries - there) * sizeof *rows);
    }
}

// Scores of m queries, as words in rows, with all keys; whole tiles.
static void multiply_scores(const struct attention_job *job, const struct parts *w, int m,
                            const float *words, const float *panels, float *scores) {
    int n = whole(job->keys, line);
    attention_rows(job, &(struct rows_product){whole(m, line), n, w->d, words, w->d + line, panels,
                                               scores, w->stride, 0});
}

void attention_words_forward(const struct attention_job *job, float *work, int64_t image,
                             int head) {
    const struct attention_shape *s = job->s;
    const struct parts w = parts_of(job);
    struct head_at at = head_at(s, image, head);
    float *lse = job->lse + at.lse, *scores = work + w.p;
    float *key = work + w.key, *value = work + w.key_width, *words = work + w.q;
    pack(job, s->d, job->keys, job->qkv, at.k, at.kv_row, 1, w.d, key);
    pack(job, job->keys, s->d, job->qkv, at.v, at.kv_row, 0, w.keys, value);
    for (int i = 0; i < s->t; i += job->queries) {
        int m = s->t - i < job->queries ? s->t - i : job->queries;
        struct result y = result_of(job, job->y, at.out + i * at.out_row, at.out_row, work + w.out);
        float sum[queries_max];
        to_words(job, s->store, m, s->d, job->qkv, at.q + i * at.q_row, at.q_row, w.d, words,
                 w.d + line);
        multiply_scores(job, &w, m, words, key, scores);
        for (int r = 0; r < m; r++) {
            sum[r] = job->isa->softmax(job->keys, job->scale, scores + (ptrdiff_t)r * w.stride,
                                       &lse[i + r]);
            lse[i + r] += logf(sum[r]);
        }
        to_words(job, KERNEL_FLOAT, m, job->keys, scores, 0, w.stride, w.keys, scores, w.stride);
        attention_rows(
            job, &(struct rows_product){m, s->d, w.keys, scores, w.stride, value, y.at, y.row, 0});
        for (int r = 0; r < m; r++) // cheaper than scaling the scores
            job->isa->scale((size_t)s->d, 1 / sum[r], y.at + r * y.row);
        end_result(job, &y, m);
    }
}

// Of a block of queries: row r of dy times that of y.
static float dot_of(const struct attention_job *job, ptrdiff_t from, float *buffer) {
    size_t d = (size_t)job->s->d;
    const float *dy = stored_read(job->ctx, job->s->store, d, job->dy, from, buffer);
    return job->isa->dot((int)d, dy,
                         stored_read(job->ctx, job->s->store, d, job->y_in, from, buffer + d));
}

// One block of m queries from query i on, whose words lie in `work`; see backward_head.
static void backward_block(const struct attention_job *job, const struct parts *w, float *work,
                           const struct head_at *at, int i, int m, const struct result *dk,
                           const struct result *dv) {
    const struct attention_shape *s = job->s;
    int apart = w->queries + line;
    const float *lse = job->lse_in + at->lse + i;
    float *p = work + w->p, *ds = work + w->ds, *turned = work + w->turned;
    float *q_width = work + w->q_width, *dy_width = work + w->dy_width, beta = i > 0 ? 1 : 0;
    struct result dq = result_of(job, job->dqkv, at->q + i * at->q_row, at->q_row, work + w->out);
    multiply_scores(job, w, m, work + w->q, work + w->key, p);
    multiply_scores(job, w, m, work + w->dy, work + w->value, ds);
    for (int r = 0; r < m; r++)
        job->isa->softmax_grad(job->keys, job->scale, lse[r],
                               dot_of(job, at->out + (i + r) * at->out_row, work + w->rows_of_two),
                               p + (ptrdiff_t)r * w->stride, ds + (ptrdiff_t)r * w->stride);
    turn(job, w, m, p, turned);
    attention_rows(job, &(struct rows_product){job->keys, s->d, w->queries, turned, apart, dy_width,
                                               dv->at, dv->row, beta});
    turn(job, w, m, ds, turned);
    attention_rows(job, &(struct rows_product){job->keys, s->d, w->queries, turned, apart, q_width,
                                               dk->at, dk->row, beta});
    to_words(job, KERNEL_FLOAT, m, job->keys, ds, 0, w->stride, w->keys, ds, w->stride);
    attention_rows(job, &(struct rows_product){m, s->d, w->keys, ds, w->stride, work + w->key_width,
                                               dq.at, dq.row, 0});
    end_result(job, &dq, m);
}

void attention_words_backward(const struct attention_job *job, float *work, int64_t image,
                              int head) {
    const struct attention_shape *s = job->s;
    const struct parts w = parts_of(job);
    struct head_at at = head_at(s, image, head);
    struct result dk = result_of(job, job->dqkv, at.k, at.kv_row, work + w.dk);
    struct result dv = result_of(job, job->dqkv, at.v, at.kv_row, work + w.dv);
    pack(job, s->d, job->keys, job->qkv, at.k, at.kv_row, 1, w.d, work + w.key);
    pack(job, s->d, job->keys, job->qkv, at.v, at.kv_row, 1, w.d, work + w.value);
    pack(job, job->keys, s->d, job->qkv, at.k, at.kv_row, 0, w.keys, work + w.key_width);
    for (int i = 0; i < s->t; i += job->queries) {
        int m = s->t - i < job->queries ? s->t - i : job->queries;
        ptrdiff_t q = at.q + i * at.q_row, dy = at.out + i * at.out_row;
        to_words(job, s->store, m, s->d, job->qkv, q, at.q_row, w.d, work + w.q, w.d + line);
        to_words(job, s->store, m, s->d, job->dy, dy, at.out_row, w.d, work + w.dy, w.d + line);
        pack(job, m, s->d, job->qkv, q, at.q_row, 0, w.queries, work + w.q_width);
        pack(job, m, s->d, job->dy, dy, at.out_row, 0, w.queries, work + w.dy_width);
        backward_block(job, &w, work, &at, i, m, &dk, &dv);
    }
    end_result(job, &dk, job->keys);
    end_result(job, &dv, job->keys);
}
