// SPDX-License-Identifier: Apache-2.0
// Operations on flat buffers: elementwise, reductions, optimizers. x[n], y[n], without gaps.
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/share.h"

// Below this length an op is not worth waking the workers for.
enum { parallel_elements_min = 16 * 1024, line_floats = 16 };

struct flat_job;
typedef void flat_loop(const struct flat_job *j, size_t n, const float *a, const float *b,
                       float *out);

// out[i] from a[i] and b[i]; of floats also from out[i].
struct flat_job {
    const struct kernel_ctx *ctx;
    const struct cpu_isa *isa;
    flat_loop *loop;
    enum kernel_type store; // of all three
    size_t n;
    float alpha;
    const void *a, *b;
    void *out;
};

// A worker's part of n elements, whole cache lines but for the end.
static struct share lines_of(size_t n, int worker, int workers) {
    struct share s = share_of(div_up((int64_t)n, line_floats), worker, workers);
    s.begin *= line_floats;
    s.end = clamp64(s.end * line_floats, 0, (int64_t)n);
    return s;
}

static void run_part(void *arg, int worker, int workers) {
    const struct flat_job *j = arg;
    struct share s = lines_of(j->n, worker, workers);
    float a[stored_piece], b[stored_piece], out[stored_piece];
    int64_t most = j->store == KERNEL_FLOAT ? s.end - s.begin : stored_piece;
    for (int64_t at = s.begin; at < s.end; at += most) {
        size_t n = (size_t)clamp64(s.end - at, 0, most);
        float *to = stored_begin(j->store, j->out, at, out);
        j->loop(j, n, j->a ? stored_read(j->ctx, j->store, n, j->a, at, a) : NULL,
                j->b ? stored_read(j->ctx, j->store, n, j->b, at, b) : NULL, to);
        stored_end(j->ctx, j->store, n, to, j->out, at);
    }
}

static void run(struct kernel_ctx *ctx, flat_loop *loop, struct flat_job *job) {
    job->ctx = ctx;
    job->isa = ctx->isa;
    job->loop = loop;
    if (job->n < parallel_elements_min)
        run_part(job, 0, 1);
    else
        ctx_parallel(ctx, run_part, job);
}

static void relu_loop(const struct flat_job *j, size_t n, const float *a, const float *b,
                      float *out) {
    (void)b;
    j->isa->relu(n, a, out);
}

static void relu_grad_loop(const struct flat_job *j, size_t n, const float *a, const float *b,
                           float *out) {
    j->isa->relu_grad(n, a, b, out);
}

static void gelu_loop(const struct flat_job *j, size_t n, const float *a, const float *b,
                      float *out) {
    (void)b;
    j->isa->gelu(n, a, out);
}

static void gelu_grad_loop(const struct flat_job *j, size_t n, const float *a, const float *b,
                           float *out) {
    j->isa->gelu_grad(n, a, b, out);
}

static void add_loop(const struct flat_job *j, size_t n, const float *a, const float *b,
                     float *out) {
    j->isa->add(n, a, b, out);
}

static void axpy_loop(const struct flat_job *j, size_t n, const float *a, const float *b,
                      float *out) {
    (void)b;
    j->isa->axpy(n, j->alpha, a, out);
}

static void scale_loop(const struct flat_job *j, size_t n, const float *a, const float *b,
                       float *out) {
    (void)a, (void)b;
    j->isa->scale(n, j->alpha, out);
}

static void zero_loop(const struct flat_job *j, size_t n, const float *a, const float *b,
                      float *out) {
    (void)j, (void)a, (void)b;
    memset(out, 0, n * sizeof *out);
}

// Of each op, one for floats and one for bfloat16.
#define ONE_IN(name, loop)                                                                         \
    void cpu_##name(struct kernel_ctx *ctx, size_t n, const void *x, void *y) {                    \
        run(ctx, loop, &(struct flat_job){.n = n, .a = x, .out = y});                              \
    }                                                                                              \
    void cpu_bf16_##name(struct kernel_ctx *ctx, size_t n, const void *x, void *y) {               \
        run(ctx, loop, &(struct flat_job){.n = n, .store = KERNEL_BF16, .a = x, .out = y});        \
    }
#define TWO_IN(name, loop)                                                                         \
    void cpu_##name(struct kernel_ctx *ctx, size_t n, const void *a, const void *b, void *y) {     \
        run(ctx, loop, &(struct flat_job){.n = n, .a = a, .b = b, .out = y});                      \
    }                                                                                              \
    void cpu_bf16_##name(struct kernel_ctx *ctx, size_t n, const void *a, const void *b,           \
                         void *y) {                                                                \
        run(ctx, loop,                                                                             \
            &(struct flat_job){.n = n, .store = KERNEL_BF16, .a = a, .b = b, .out = y});           \
    }
ONE_IN(relu_forward, relu_loop)
TWO_IN(relu_backward, relu_grad_loop)
TWO_IN(add, add_loop)

static void gelu16_part(void *arg, int worker, int workers) {
    const struct flat_job *j = arg;
    struct share s = lines_of(j->n, worker, workers);
    const struct cpu_type *type = &j->ctx->type[KERNEL_BF16];
    const uint16_t *x = (const uint16_t *)j->a + s.begin;
    uint16_t *out = (uint16_t *)j->out + s.begin;
    if (j->b)
        type->gelu_grad16((size_t)(s.end - s.begin), x, (const uint16_t *)j->b + s.begin, out);
    else
        type->gelu16((size_t)(s.end - s.begin), x, out);
}

// With b it is the gradient.
static void run_gelu(struct kernel_ctx *ctx, struct flat_job job) {
    job.ctx = ctx;
    if (job.store == KERNEL_BF16 && ctx->type[KERNEL_BF16].gelu16)
        ctx_parallel(ctx, gelu16_part, &job);
    else
        run(ctx, job.b ? gelu_grad_loop : gelu_loop, &job);
}

void cpu_gelu_forward(struct kernel_ctx *ctx, size_t n, const void *x, void *y) {
    run_gelu(ctx, (struct flat_job){.n = n, .a = x, .out = y});
}

void cpu_bf16_gelu_forward(struct kernel_ctx *ctx, size_t n, const void *x, void *y) {
    run_gelu(ctx, (struct flat_job){.n = n, .store = KERNEL_BF16, .a = x, .out = y});
}

// x[n], dy[n] -> dx[n]
void cpu_gelu_backward(struct kernel_ctx *ctx, size_t n, const void *a, const void *b, void *y) {
    run_gelu(ctx, (struct flat_job){.n = n, .a = a, .b = b, .out = y});
}

void cpu_bf16_gelu_backward(struct kernel_ctx *ctx, size_t n, const void *a, const void *b,
                            void *y) {
    run_gelu(ctx, (struct flat_job){.n = n, .store = KERNEL_BF16, .a = a, .b = b, .out = y});
}

// y[n] += alpha * x[n]
void cpu_axpy(struct kernel_ctx *ctx, size_t n, double alpha, const void *x, void *y) {
    run(ctx, axpy_loop, &(struct flat_job){.n = n, .alpha = (float)alpha, .a = x, .out = y});
}

void cpu_scale(struct kernel_ctx *ctx, size_t n, double alpha, void *x) {
    run(ctx, scale_loop, &(struct flat_job){.n = n, .alpha = (float)alpha, .out = x});
}

void cpu_zero(struct kernel_ctx *ctx, size_t n, void *x) {
    run(ctx, zero_loop, &(struct flat_job){.n = n, .out = x});
}

void cpu_bf16_zero(struct kernel_ctx *ctx, size_t n, void *x) {
    run(ctx, zero_loop, &(struct flat_job){.n = n, .store = KERNEL_BF16, .out = x});
}

enum { square_parts = 256 }; // summed one by one, then in order: the same for any workers

struct square_job {
    const struct cpu_isa *isa;
    size_t n;
    const float *x;
    double part[square_parts];
};

static void square_rows(void *arg, int worker, int workers) {
    struct square_job *job = arg;
    struct share mine = share_of(square_parts, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        struct share s = lines_of(job->n, (int)i, square_parts);
        job->part[i] = job->isa->sum_squares((size_t)(s.end - s.begin), job->x + s.begin);
    }
}

// x[n] -> out[1]
void cpu_sum_squares(struct kernel_ctx *ctx, size_t n, const void *x, double *out) {
    struct square_job job = {.isa = ctx->isa, .n = n, .x = x};
    if (n < parallel_elements_min)
        square_rows(&job, 0, 1);
    else
        ctx_parallel(ctx, square_rows, &job);
    double sum = 0;
    for (int i = 0; i < square_parts; i++)
        sum += job.part[i];
    *out = sum;
}

struct sgd_job {
    const struct cpu_isa *isa;
    const struct sgd_args *a;
};

static void sgd_part(void *arg, int worker, int workers) {
    const struct sgd_job *job = arg;
    const struct sgd_args *a = job->a;
    for (size_t i = 0; i < a->nranges; i++) {
        const struct optim_range *r = &a->ranges[i];
        struct share s = lines_of(r->end - r->begin, worker, workers);
        size_t at = r->begin + (size_t)s.begin;
        struct sgd_step step = {.grad_scale = (float)a->grad_scale, .nesterov = a->nesterov};
        step.decay = (float)r->weight_decay;
        step.lr = (float)(a->lr * r->lr_scale);
        step.momentum = (float)a->momentum;
        job->isa->sgd((size_t)(s.end - s.begin), &step, (float *)a->p + at,
                      (const float *)a->g + at,
                      a->momentum != 0 ? (float *)a->momentum_buf + at : NULL);
    }
}

// g[begin..end), p, m -> p, m
void cpu_sgd(struct kernel_ctx *ctx, const struct sgd_args *a) {
    ctx_parallel(ctx, sgd_part, &(struct sgd_job){.isa = ctx->isa, .a = a});
}

struct adam_job {
    const struct cpu_isa *isa;
    const struct adam_args *a;
    double correct1, correct2; // bias corrections of this step
};

static void adam_part(void *arg, int worker, int workers) {
    const struct adam_job *job = arg;
    const struct adam_args *a = job->a;
    for (size_t i = 0; i < a->nranges; i++) {
        const struct optim_range *r = &a->ranges[i];
        struct share s = lines_of(r->end - r->begin, worker, workers);
        size_t at = r->begin + (size_t)s.begin;
        double lr = a->lr * r->lr_scale;
        struct adam_step step = {.grad_scale = (float)a->grad_scale, .eps = (float)a->eps};
        step.decay = a->decoupled ? 0 : (float)r->weight_decay;
        step.shrink = a->decoupled ? (float)(1 - lr * r->weight_decay) : 1;
        step.lr = (float)(lr / job->correct1);
        step.beta1 = (float)a->beta1;
        step.take1 = (float)(1 - a->beta1);
        step.beta2 = (float)a->beta2;
        step.take2 = (float)(1 - a->beta2);
        step.inv_sqrt_correct2 = (float)(1 / sqrt(job->correct2));
        job->isa->adam((size_t)(s.end - s.begin), &step, (float *)a->p + at,
                       (const float *)a->g + at, (float *)a->m + at, (float *)a->v + at);
    }
}

// g[begin..end), p, m, v -> p, m, v
void cpu_adam(struct kernel_ctx *ctx, const struct adam_args *a) {
    struct adam_job job = {.isa = ctx->isa, .a = a};
    job.correct1 = 1 - pow(a->beta1, (double)a->step);
    job.correct2 = 1 - pow(a->beta2, (double)a->step);
    ctx_parallel(ctx, adam_part, &job);
}
