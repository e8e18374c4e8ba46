// SPDX-License-Identifier: Apache-2.0
// A head of attention with products of bfloat16 by AMX. All operands become rows and panels of
// words whose depth fills whole registers with zeros, so that tiles are loaded where they lie. A
// block of scores has whole tiles, too; what is beyond its rows and columns is no number of a head.
// Sums, and all between the products, are float.
#include <math.h>
#include <string.h>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/pack.h"

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
    size_t key, value, key_width, q, dy, q_width, dy_width, turned, p, ds, end;
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
    w.end = w.ds + (size_t)w.rows * w.stride;
    return w;
}

size_t attention_words_floats(const struct attention_job *job) {
    return parts_of(job).end;
}

// x[k][cols], or x[cols][k] transposed -> panels of `depth` words.
static void pack(const struct attention_job *job, int k, int cols, const float *x, ptrdiff_t stride,
                 int transposed, int depth, float *panels) {
    int nr = job->isa->tile_cols;
    size_t words = (size_t)pack_words(job->type, k) * nr, all = (size_t)depth * nr;
    for (int j = 0; j < cols; j += nr, panels += all) {
        struct panel_source src = {x + (transposed ? j * stride : j), stride, transposed, 0, k, 0};
        src.cols = cols - j < nr ? cols - j : nr;
        pack_panel(job->ctx, job->type, &src, panels);
        memset(panels + words, 0, (all - words) * sizeof *panels);
    }
}

// Rows x[m][n], `stride` apart -> words, `apart` from row to row; may be in place.
static void to_words(const struct attention_job *job, int m, int n, const float *x,
                     ptrdiff_t stride, int depth, float *words, ptrdiff_t apart) {
    size_t there = (size_t)pack_words(job->type, n);
    for (int r = 0; r < m; r++) {
        float *row = words + r * apart;
        job->type->convert((size_t)n, x + r * stride, row);
        memset(row + there, 0, ((size_t)depth - there) * sizeof *row);
    }
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
    ptrdiff_t wide = at.out_row;
    float *y = job->y + at.out, *lse = job->lse + at.lse, *scores = work + w.p;
    float *key = work + w.key, *value = work + w.key_width, *words = work + w.q;
    pack(job, s->d, job->keys, job->qkv + at.k, at.kv_row, 1, w.d, key);
    pack(job, job->keys, s->d, job->qkv + at.v, at.kv_row, 0, w.keys, value);
    for (int i = 0; i < s->t; i += job->queries) {
        int m = s->t - i < job->queries ? s->t - i : job->queries;
        float sum[queries_max];
        to_words(job, m, s->d, job->qkv + at.q + i * at.q_row, at.q_row, w.d, words, w.d + line);
        multiply_scores(job, &w, m, words, key, scores);
        for (int r = 0; r < m; r++) {
            sum[r] = job->isa->softmax(job->keys, job->scale, scores + (ptrdiff_t)r * w.stride,
                                       &lse[i + r]);
            lse[i + r] += logf(sum[r]);
        }
        to_words(job, m, job->keys, scores, w.stride, w.keys, scores, w.stride);
        attention_rows(job, &(struct rows_product){m, s->d, w.keys, scores, w.stride, value,
                                                   y + i * wide, wide, 0});
        for (int r = 0; r < m; r++) // cheaper than scaling the scores
            job->isa->scale((size_t)s->d, 1 / sum[r], y + (i + r) * wide);
    }
}

// One block of m queries from query i on, whose words lie in `work`; see backward_head.
static void backward_block(const struct attention_job *job, const struct parts *w, float *work,
                           const struct head_at *at, int i, int m) {
    const struct attention_shape *s = job->s;
    const struct cpu_isa *isa = job->isa;
    int apart = w->queries + line;
    ptrdiff_t wide = at->out_row, row = at->q_row;
    const float *dy = job->dy + at->out + i * wide, *y = job->y_in + at->out + i * wide;
    const float *lse = job->lse_in + at->lse + i;
    float *p = work + w->p, *ds = work + w->ds, *turned = work + w->turned;
    float *q_width = work + w->q_width, *dy_width = work + w->dy_width, beta = i > 0 ? 1 : 0;
    multiply_scores(job, w, m, work + w->q, work + w->key, p);
    multiply_scores(job, w, m, work + w->dy, work + w->value, ds);
    for (int r = 0; r < m; r++)
        isa->softmax_grad(job->keys, job->scale, lse[r],
                          isa->dot(s->d, dy + r * wide, y + r * wide), p + (ptrdiff_t)r * w->stride,
                          ds + (ptrdiff_t)r * w->stride);
    turn(job, w, m, p, turned);
    attention_rows(job, &(struct rows_product){job->keys, s->d, w->queries, turned, apart, dy_width,
                                               job->dqkv + at->v, at->kv_row, beta});
    turn(job, w, m, ds, turned);
    attention_rows(job, &(struct rows_product){job->keys, s->d, w->queries, turned, apart, q_width,
                                               job->dqkv + at->k, at->kv_row, beta});
    to_words(job, m, job->keys, ds, w->stride, w->keys, ds, w->stride);
    attention_rows(job, &(struct rows_product){m, s->d, w->keys, ds, w->stride, work + w->key_width,
                                               job->dqkv + at->q + i * row, row, 0});
}

void attention_words_backward(const struct attention_job *job, float *work, int64_t image,
                              int head) {
    const struct attention_shape *s = job->s;
    const struct parts w = parts_of(job);
    struct head_at at = head_at(s, image, head);
    const float *k = job->qkv + at.k, *v = job->qkv + at.v;
    pack(job, s->d, job->keys, k, at.kv_row, 1, w.d, work + w.key);
    pack(job, s->d, job->keys, v, at.kv_row, 1, w.d, work + w.value);
    pack(job, job->keys, s->d, k, at.kv_row, 0, w.keys, work + w.key_width);
    for (int i = 0; i < s->t; i += job->queries) {
        int m = s->t - i < job->queries ? s->t - i : job->queries;
        const float *q = job->qkv + at.q + i * at.q_row, *dy = job->dy + at.out + i * at.out_row;
        to_words(job, m, s->d, q, at.q_row, w.d, work + w.q, w.d + line);
        to_words(job, m, s->d, dy, at.out_row, w.d, work + w.dy, w.d + line);
        pack(job, m, s->d, q, at.q_row, 0, w.queries, work + w.q_width);
        pack(job, m, s->d, dy, at.out_row, 0, w.queries, work + w.dy_width);
        backward_block(job, &w, work, &at, i, m);
    }
}
