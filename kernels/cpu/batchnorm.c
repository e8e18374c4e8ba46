// SPDX-License-Identifier: Apache-2.0
// Batch normalisation and column sums. Rows are cut into blocks by shape alone; each block gives
// its own sums, and one place adds them up in order and in double.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/share.h"

// A block of 64 KB is read twice for its moments, the second time from the cache. Never more than
// blocks_max blocks, which bounds the workspace.
enum {
    block_floats = 16 * 1024,
    block_rows_min = 16,
    blocks_max = 512,
    vectors = 4,
    lanes = 16, // columns whose blocks are added up at a time: a line of each
};

struct norm_job {
    const struct norm_loops *loops;
    enum kernel_type store;
    int64_t rows, block_rows, blocks;
    int cols;
    const void *x;      // moments and column sums
    float *sum, *other; // [blocks][cols] each
    const struct batchnorm_args *forward;
    const struct batchnorm_grad_args *back;
    float *scale, *shift, *slope; // per column
    struct bn_span span;          // whole matrices; a block takes its rows
    void (*step)(const struct bn_span *s);
};

static int64_t fit_of(int cols) {
    return block_floats / cols > block_rows_min ? block_floats / cols : block_rows_min;
}

static int64_t block_rows_of(int64_t rows, int cols) {
    int64_t fit = fit_of(cols), most = div_up(rows, blocks_max);
    return fit > most ? fit : most;
}

static int64_t blocks_of(int64_t rows, int cols) {
    return div_up(rows, block_rows_of(rows, cols));
}

size_t cpu_batchnorm_workspace(const struct kernel_ctx *ctx, int64_t rows, int channels) {
    int64_t blocks = clamp64(div_up(rows, fit_of(channels)), 0, blocks_max); // of any fewer rows
    (void)ctx;
    return (size_t)(2 * blocks + vectors) * channels * sizeof(float);
}

static struct norm_job norm_job_of(struct kernel_ctx *ctx, enum kernel_type store, int64_t rows,
                                   int cols) {
    assert(rows > 0 && cols > 0 && cpu_batchnorm_workspace(ctx, rows, cols) <= ctx->work_bytes);
    struct norm_job job = {.loops = &ctx->isa->norm[store], .store = store};
    job.rows = rows, job.cols = cols;
    job.block_rows = block_rows_of(rows, cols);
    job.blocks = blocks_of(rows, cols);
    job.sum = (float *)ctx->work + (size_t)vectors * cols;
    job.other = job.sum + job.blocks * cols;
    return job;
}

// Vectors of one value per column, at the start of the workspace.
static float *column_vector(struct kernel_ctx *ctx, int cols, int i) {
    return (float *)ctx->work + (size_t)i * cols;
}

static int64_t rows_in_block(const struct norm_job *job, int64_t b) {
    return clamp64(job->rows - b * job->block_rows, 0, job->block_rows);
}

static const void *block_at(const struct norm_job *job, int64_t b) {
    return stored_at(job->store, job->x, b * job->block_rows * job->cols);
}

static void sum_blocks(void *arg, int worker, int workers) {
    const struct norm_job *job = arg;
    struct share mine = share_of(job->blocks, worker, workers);
    for (int64_t b = mine.begin; b < mine.end; b++)
        job->loops->column_sums(rows_in_block(job, b), job->cols, block_at(job, b),
                                job->sum + b * job->cols);
}

static void moment_blocks(void *arg, int worker, int workers) {
    const struct norm_job *job = arg;
    struct share mine = share_of(job->blocks, worker, workers);
    for (int64_t b = mine.begin; b < mine.end; b++)
        job->loops->column_moments(rows_in_block(job, b), job->cols, block_at(job, b),
                                   job->sum + b * job->cols, job->other + b * job->cols);
}

static void *skip(const struct norm_job *job, const void *p, int64_t from) {
    return p ? (void *)stored_at(job->store, p, from) : NULL;
}

static struct bn_span span_rows(const struct norm_job *job, int64_t from, int64_t rows) {
    const struct bn_span *all = &job->span;
    struct bn_span s = *all;
    int64_t at = from * all->cols;
    s.rows = rows;
    s.x = skip(job, all->x, at);
    s.y = skip(job, all->y, at);
    s.dy = skip(job, all->dy, at);
    s.residual = skip(job, all->residual, at);
    s.out = skip(job, all->out, at);
    s.out2 = skip(job, all->out2, at);
    return s;
}

static void grad_sum_blocks(void *arg, int worker, int workers) {
    const struct norm_job *job = arg;
    struct share mine = share_of(job->blocks, worker, workers);
    for (int64_t b = mine.begin; b < mine.end; b++) {
        struct bn_span s = span_rows(job, b * job->block_rows, rows_in_block(job, b));
        s.out = job->sum + b * job->cols;
        s.out2 = job->other + b * job->cols;
        job->loops->bn_grad_sums(&s);
    }
}

// One pass over all rows with job->step.
static void apply(void *arg, int worker, int workers) {
    const struct norm_job *job = arg;
    struct share mine = share_of(job->rows, worker, workers);
    struct bn_span s = span_rows(job, mine.begin, mine.end - mine.begin);
    job->step(&s);
}

// Columns [from, from + count), at most `lanes`.
struct columns {
    int from, count;
};

static void total_of(const struct norm_job *job, const float *blocks, struct columns c,
                     double *sum) {
    memset(sum, 0, lanes * sizeof *sum);
    for (int64_t b = 0; b < job->blocks; b++)
        for (int i = 0; i < c.count; i++)
            sum[i] += (double)blocks[b * job->cols + c.from + i];
}

// Calls fn for a worker's columns.
static void each_columns(const struct norm_job *job, int worker, int workers,
                         void (*fn)(const struct norm_job *job, struct columns c)) {
    struct share mine = share_of(div_up(job->cols, lanes), worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++)
        fn(job, (struct columns){(int)i * lanes, (int)clamp64(job->cols - i * lanes, 0, lanes)});
}

static void sum_columns(struct kernel_ctx *ctx, enum kernel_type store, int64_t rows, int cols,
                        const void *dy, float *db, int accumulate) {
    struct norm_job job = norm_job_of(ctx, store, rows, cols);
    job.x = dy;
    ctx_parallel(ctx, sum_blocks, &job);
    for (int c = 0; c < cols; c += lanes) {
        double sum[lanes];
        int count = (int)clamp64(cols - c, 0, lanes);
        total_of(&job, job.sum, (struct columns){c, count}, sum);
        for (int i = 0; i < count; i++)
            db[c + i] = (float)(sum[i] + (accumulate ? (double)db[c + i] : 0));
    }
}

// dy[rows][cols] -> db[cols]
void cpu_bias_backward(struct kernel_ctx *ctx, int64_t rows, int cols, const void *dy, void *db,
                       int accumulate) {
    sum_columns(ctx, KERNEL_FLOAT, rows, cols, dy, db, accumulate);
}

void cpu_bf16_bias_backward(struct kernel_ctx *ctx, int64_t rows, int cols, const void *dy,
                            void *db, int accumulate) {
    sum_columns(ctx, KERNEL_BF16, rows, cols, dy, db, accumulate);
}

// Means and biased variances from the blocks' moments (Chan, Golub, LeVeque 1979).
static void combine_moments(const struct norm_job *job, struct columns c, double *mean,
                            double *var) {
    double sum[lanes] = {0}, square[lanes] = {0};
    for (int64_t b = 0; b < job->blocks; b++)
        for (int i = 0; i < c.count; i++)
            sum[i] += (double)job->sum[b * job->cols + c.from + i] * (double)rows_in_block(job, b);
    for (int i = 0; i < c.count; i++)
        mean[i] = sum[i] / (double)job->rows;
    for (int64_t b = 0; b < job->blocks; b++)
        for (int i = 0; i < c.count; i++) {
            int64_t at = b * job->cols + c.from + i;
            double d = (double)job->sum[at] - mean[i];
            square[i] += (double)job->other[at] + d * d * (double)rows_in_block(job, b);
        }
    // An infinite variance would normalise everything to 0 and hide the overflow.
    for (int i = 0; i < c.count; i++)
        var[i] = isfinite(square[i]) ? square[i] / (double)job->rows : (double)NAN;
}

static struct bn_span forward_span(const struct batchnorm_args *a, const float *mean,
                                   const float *scale) {
    struct bn_span s = {.rows = a->rows, .cols = a->channels, .x = a->x, .residual = a->residual};
    s.mean = mean;
    s.scale = scale;
    s.shift = a->beta;
    s.out = a->y;
    s.relu = a->relu;
    return s;
}

static void learn_columns(const struct norm_job *job, struct columns c) {
    const struct batchnorm_args *a = job->forward;
    float *save_mean = a->save_mean, *save_invstd = a->save_invstd;
    float *running_mean = a->running_mean, *running_var = a->running_var;
    double keep = 1 - a->momentum, rows = (double)a->rows, mean[lanes], var[lanes];
    combine_moments(job, c, mean, var);
    for (int i = 0, at = c.from; i < c.count; i++, at++) {
        // Of one value there is no variance to learn from.
        double unbiased = a->rows > 1 ? var[i] * rows / (rows - 1) : (double)running_var[at];
        double invstd = 1 / sqrt(var[i] + a->eps);
        save_mean[at] = (float)mean[i];
        save_invstd[at] = (float)invstd;
        job->scale[at] = (float)(invstd * (double)((const float *)a->gamma)[at]);
        running_mean[at] = (float)(keep * (double)running_mean[at] + a->momentum * mean[i]);
        running_var[at] = (float)(keep * (double)running_var[at] + a->momentum * unbiased);
    }
}

static void learn(void *arg, int worker, int workers) {
    each_columns(arg, worker, workers, learn_columns);
}

// x[rows][c], residual[rows][c] -> y[rows][c], save_mean[c], save_invstd[c], running_*[c]
void cpu_batchnorm_forward_train(struct kernel_ctx *ctx, const struct batchnorm_args *a) {
    struct norm_job job = norm_job_of(ctx, a->store, a->rows, a->channels);
    job.scale = column_vector(ctx, a->channels, 0);
    job.x = a->x;
    job.forward = a;
    ctx_parallel(ctx, moment_blocks, &job);
    ctx_parallel(ctx, learn, &job);
    job.span = forward_span(a, a->save_mean, job.scale);
    job.step = job.loops->bn_apply;
    ctx_parallel(ctx, apply, &job);
}

// x[rows][c], running_*[c] -> y[rows][c]
void cpu_batchnorm_forward_eval(struct kernel_ctx *ctx, const struct batchnorm_args *a) {
    struct norm_job job = norm_job_of(ctx, a->store, a->rows, a->channels);
    float *scale = column_vector(ctx, a->channels, 0);
    const float *var = a->running_var, *gamma = a->gamma;
    for (int c = 0; c < a->channels; c++)
        scale[c] = (float)((double)gamma[c] / sqrt((double)var[c] + a->eps));
    job.span = forward_span(a, a->running_mean, scale);
    job.step = job.loops->bn_apply;
    ctx_parallel(ctx, apply, &job);
}

static void grad_columns(const struct norm_job *job, struct columns c) {
    const struct batchnorm_grad_args *a = job->back;
    const float *invstd = a->save_invstd, *gamma = a->gamma;
    float *dgamma = a->dgamma, *dbeta = a->dbeta;
    double sum[lanes], dot[lanes], rows = (double)a->rows;
    total_of(job, job->sum, c, sum);
    total_of(job, job->other, c, dot);
    for (int i = 0, at = c.from; i < c.count; i++, at++) {
        double inv = (double)invstd[at];
        job->scale[at] = (float)((double)gamma[at] * inv);
        job->shift[at] = (float)(sum[i] / rows);
        job->slope[at] = (float)(dot[i] * inv * inv / rows);
        dgamma[at] = (float)(dot[i] * inv + (a->accumulate ? (double)dgamma[at] : 0));
        dbeta[at] = (float)(sum[i] + (a->accumulate ? (double)dbeta[at] : 0));
    }
}

static void grad(void *arg, int worker, int workers) {
    each_columns(arg, worker, workers, grad_columns);
}

// x[rows][c], y[rows][c], dy[rows][c] -> dx[rows][c], dresidual[rows][c], dgamma[c], dbeta[c]
// dx = gamma * invstd * (dz - mean(dz) - xhat * mean(dz * xhat)) [Ioffe and Szegedy 2015], with
// xhat = (x - mean) * invstd taken apart into the vectors scale, shift and slope.
void cpu_batchnorm_backward(struct kernel_ctx *ctx, const struct batchnorm_grad_args *a) {
    struct norm_job job = norm_job_of(ctx, a->store, a->rows, a->channels);
    job.scale = column_vector(ctx, a->channels, 0);
    job.shift = column_vector(ctx, a->channels, 1);
    job.slope = column_vector(ctx, a->channels, 2);
    job.back = a;
    job.span = (struct bn_span){.rows = a->rows, .cols = a->channels, .x = a->x, .y = a->y};
    job.span.dy = a->dy;
    job.span.mean = a->save_mean;
    job.span.relu = a->relu;
    ctx_parallel(ctx, grad_sum_blocks, &job);
    ctx_parallel(ctx, grad, &job);
    job.span.scale = job.scale;
    job.span.shift = job.shift;
    job.span.slope = job.slope;
    job.span.out = a->dx;
    job.span.out2 = a->dresidual;
    job.step = job.loops->bn_grad_apply;
    ctx_parallel(ctx, apply, &job);
}
