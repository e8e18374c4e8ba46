// SPDX-License-Identifier: Apache-2.0
// The table of kernels on a GPU: every operation goes to the queue of its context.
#include "gpu/gpu_impl.h"

static int open_context(struct kernel_ctx **out, const struct kernel_config *cfg) {
    struct gpu_context *ctx = NULL;
    int r = gpu_context_open(&ctx, cfg);
    *out = (struct kernel_ctx *)(void *)ctx;
    return r;
}

static void close_context(struct kernel_ctx *ctx) {
    gpu_context_close(gpu_context_of(ctx));
}

static int reserve(struct kernel_ctx *ctx, size_t bytes) {
    return gpu_context_reserve(gpu_context_of(ctx), bytes);
}

static const char *isa(const struct kernel_ctx *ctx) {
    return gpu_context_isa((const struct gpu_context *)(const void *)ctx);
}

static const char *failure(const struct kernel_ctx *ctx) {
    return gpu_context_failure((const struct gpu_context *)(const void *)ctx);
}

static void *mem_alloc(struct kernel_ctx *ctx, size_t bytes) {
    return gpu_context_alloc(gpu_context_of(ctx), bytes);
}

static void mem_free(struct kernel_ctx *ctx, void *p, size_t bytes) {
    (void)bytes;
    gpu_context_free(gpu_context_of(ctx), p);
}

static void mem_write(struct kernel_ctx *ctx, void *to, const void *from, size_t bytes) {
    gpu_context_write(gpu_context_of(ctx), to, from, bytes);
}

static void mem_read(struct kernel_ctx *ctx, void *to, const void *from, size_t bytes) {
    gpu_context_read(gpu_context_of(ctx), to, from, bytes);
}

static void *beside_begin(struct kernel_ctx *ctx, int queue) {
    return gpu_comm_stream_begin(gpu_context_of(ctx), queue);
}

static void beside_end(struct kernel_ctx *ctx, int queue, int mark) {
    gpu_comm_stream_end(gpu_context_of(ctx), queue, mark);
}

static void beside_await(struct kernel_ctx *ctx, int mark) {
    gpu_comm_stream_await(gpu_context_of(ctx), mark);
}

static int beside_done(struct kernel_ctx *ctx, int mark) {
    return gpu_comm_stream_done(gpu_context_of(ctx), mark);
}

static void while_waiting(struct kernel_ctx *ctx, int (*look)(void *arg), void *arg) {
    gpu_context_of(ctx)->look = look;
    gpu_context_of(ctx)->look_arg = arg;
}

static void narrow(struct kernel_ctx *ctx, size_t n, const void *x, void *bf16) {
    cuda_narrow(&gpu_context_of(ctx)->queue, n, x, bf16);
}

static void widen(struct kernel_ctx *ctx, size_t n, const void *bf16, void *y) {
    cuda_widen(&gpu_context_of(ctx)->queue, n, bf16, y);
}

// The driver's context belongs to the calling thread.
static void parallel(struct kernel_ctx *ctx, void (*fn)(void *arg, int worker, int workers),
                     void *arg) {
    (void)ctx;
    fn(arg, 0, 1);
}

static void image_normalize(struct kernel_ctx *ctx, const struct image_args *a) {
    gpu_context_image(gpu_context_of(ctx), a);
}

static int image_keep(struct kernel_ctx *ctx, const uint8_t *pixels, size_t bytes) {
    return gpu_context_image_keep(gpu_context_of(ctx), pixels, bytes);
}

static size_t gemm_workspace(const struct kernel_ctx *ctx, enum kernel_type type, int m, int n,
                             int k) {
    (void)ctx;
    return cuda_gemm_workspace(type, m, n, k);
}

static size_t conv2d_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    (void)ctx;
    return cuda_conv2d_workspace(s);
}

static size_t batchnorm_workspace(const struct kernel_ctx *ctx, int64_t rows, int channels) {
    (void)ctx;
    return cuda_batchnorm_workspace(rows, channels);
}

static size_t bias_workspace(const struct kernel_ctx *ctx, int64_t rows, int cols) {
    (void)ctx;
    return cuda_bias_workspace(rows, cols);
}

static size_t layernorm_workspace(const struct kernel_ctx *ctx, int64_t rows, int cols) {
    (void)ctx;
    return cuda_layernorm_workspace(rows, cols);
}

static size_t attention_workspace(const struct kernel_ctx *ctx, const struct attention_shape *s) {
    (void)ctx;
    return cuda_attention_workspace(s);
}

static void gemm(struct kernel_ctx *ctx, const struct gemm_args *a) {
    cuda_gemm(&gpu_context_of(ctx)->queue, a);
}

static void conv2d_forward(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                           const void *w, const void *bias, int relu, void *y) {
    cuda_conv2d_forward(&gpu_context_of(ctx)->queue, s, x, w, bias, relu, y);
}

static int conv2d_sums(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    return cuda_conv2d_sums(&((const struct gpu_context *)(const void *)ctx)->queue, s);
}

static void conv2d_forward_sums(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                                const void *w, const void *bias, void *y) {
    cuda_conv2d_forward_sums(&gpu_context_of(ctx)->queue, s, x, w, bias, y);
}

static void conv2d_backward_data(struct kernel_ctx *ctx, const struct conv2d_shape *s,
                                 const void *dy, const void *w, void *dx, int accumulate) {
    cuda_conv2d_backward_data(&gpu_context_of(ctx)->queue, s, dy, w, dx, accumulate);
}

static void conv2d_backward_weight(struct kernel_ctx *ctx, const struct conv2d_shape *s,
                                   const void *x, const void *dy, void *dw, int accumulate) {
    cuda_conv2d_backward_weight(&gpu_context_of(ctx)->queue, s, x, dy, dw, accumulate);
}

// An op that has tensors of one type: of reals, and of bfloat16.
#define OF_EACH_TYPE(op, params, ...)                                                              \
    static void op params {                                                                        \
        cuda_##op(&gpu_context_of(ctx)->queue, KERNEL_FLOAT, __VA_ARGS__);                         \
    }                                                                                              \
    static void bf16_##op params {                                                                 \
        cuda_##op(&gpu_context_of(ctx)->queue, KERNEL_BF16, __VA_ARGS__);                          \
    }
OF_EACH_TYPE(bias_backward,
             (struct kernel_ctx * ctx, int64_t rows, int cols, const void *dy, void *db,
              int accumulate),
             rows, cols, dy, db, accumulate)
OF_EACH_TYPE(first_token_forward,
             (struct kernel_ctx * ctx, int n, int t, int d, const void *x, void *y), n, t, d, x, y)
OF_EACH_TYPE(first_token_backward,
             (struct kernel_ctx * ctx, int n, int t, int d, const void *dy, void *dx), n, t, d, dy,
             dx)
OF_EACH_TYPE(avgpool_forward,
             (struct kernel_ctx * ctx, int n, int hw, int c, const void *x, void *y), n, hw, c, x,
             y)
OF_EACH_TYPE(avgpool_backward,
             (struct kernel_ctx * ctx, int n, int hw, int c, const void *dy, void *dx), n, hw, c,
             dy, dx)
OF_EACH_TYPE(relu_forward, (struct kernel_ctx * ctx, size_t n, const void *x, void *y), n, x, y)
OF_EACH_TYPE(relu_backward,
             (struct kernel_ctx * ctx, size_t n, const void *y, const void *dy, void *dx), n, y, dy,
             dx)
OF_EACH_TYPE(gelu_forward, (struct kernel_ctx * ctx, size_t n, const void *x, void *y), n, x, y)
OF_EACH_TYPE(gelu_backward,
             (struct kernel_ctx * ctx, size_t n, const void *x, const void *dy, void *dx), n, x, dy,
             dx)
OF_EACH_TYPE(add, (struct kernel_ctx * ctx, size_t n, const void *a, const void *b, void *y), n, a,
             b, y)
OF_EACH_TYPE(zero, (struct kernel_ctx * ctx, size_t n, void *x), n, x)

static void batchnorm_forward_train(struct kernel_ctx *ctx, const struct batchnorm_args *a) {
    cuda_batchnorm_forward_train(&gpu_context_of(ctx)->queue, a);
}

static void batchnorm_forward_eval(struct kernel_ctx *ctx, const struct batchnorm_args *a) {
    cuda_batchnorm_forward_eval(&gpu_context_of(ctx)->queue, a);
}

static void batchnorm_backward(struct kernel_ctx *ctx, const struct batchnorm_grad_args *a) {
    cuda_batchnorm_backward(&gpu_context_of(ctx)->queue, a);
}

static void layernorm_forward(struct kernel_ctx *ctx, const struct layernorm_args *a) {
    cuda_layernorm_forward(&gpu_context_of(ctx)->queue, a);
}

static void layernorm_backward(struct kernel_ctx *ctx, const struct layernorm_grad_args *a) {
    cuda_layernorm_backward(&gpu_context_of(ctx)->queue, a);
}

static void attention_forward(struct kernel_ctx *ctx, const struct attention_shape *s,
                              const void *qkv, void *y, void *lse) {
    cuda_attention_forward(&gpu_context_of(ctx)->queue, s, qkv, y, lse);
}

static void attention_backward(struct kernel_ctx *ctx, const struct attention_shape *s,
                               const void *qkv, const void *y, const void *lse, const void *dy,
                               void *dqkv) {
    cuda_attention_backward(&gpu_context_of(ctx)->queue, s, qkv, y, lse, dy, dqkv);
}

static void tokens_forward(struct kernel_ctx *ctx, const struct tokens_shape *s, const void *x,
                           const void *first, const void *pos, void *y) {
    cuda_tokens_forward(&gpu_context_of(ctx)->queue, s, x, first, pos, y);
}

static void tokens_backward(struct kernel_ctx *ctx, const struct tokens_shape *s, const void *dy,
                            void *dx, void *dfirst, void *dpos, int accumulate) {
    cuda_tokens_backward(&gpu_context_of(ctx)->queue, s, dy, dx, dfirst, dpos, accumulate);
}

static void maxpool_forward(struct kernel_ctx *ctx, const struct pool2d_shape *s, const void *x,
                            void *y, uint8_t *index) {
    cuda_maxpool_forward(&gpu_context_of(ctx)->queue, s, x, y, index);
}

static void maxpool_backward(struct kernel_ctx *ctx, const struct pool2d_shape *s, const void *dy,
                             const uint8_t *index, void *dx) {
    cuda_maxpool_backward(&gpu_context_of(ctx)->queue, s, dy, index, dx);
}

static void softmax_xent(struct kernel_ctx *ctx, const struct softmax_xent_args *a,
                         struct loss_totals *out) {
    cuda_softmax_xent(&gpu_context_of(ctx)->queue, a, out);
}

static void axpy(struct kernel_ctx *ctx, size_t n, double alpha, const void *x, void *y) {
    cuda_axpy(&gpu_context_of(ctx)->queue, n, alpha, x, y);
}

static void scale(struct kernel_ctx *ctx, size_t n, double alpha, void *x) {
    cuda_scale(&gpu_context_of(ctx)->queue, n, alpha, x);
}

static void sum_squares(struct kernel_ctx *ctx, size_t n, const void *x, double *out) {
    cuda_sum_squares(&gpu_context_of(ctx)->queue, n, x, out);
}

static void sgd(struct kernel_ctx *ctx, const struct sgd_args *a) {
    cuda_sgd(&gpu_context_of(ctx)->queue, a);
}

static void adam(struct kernel_ctx *ctx, const struct adam_args *a) {
    cuda_adam(&gpu_context_of(ctx)->queue, a);
}

static void read_start(struct kernel_ctx *ctx, int slot, const void *src, size_t bytes) {
    gpu_late_start(gpu_context_of(ctx), slot, src, bytes);
}

static void read_end(struct kernel_ctx *ctx, int slot, void *host_dst, size_t bytes) {
    gpu_late_end(gpu_context_of(ctx), slot, host_dst, bytes);
}

static void capture_begin(struct kernel_ctx *ctx) {
    gpu_capture_begin(gpu_context_of(ctx));
}

static void *capture_end(struct kernel_ctx *ctx, const char **why) {
    return gpu_capture_end(gpu_context_of(ctx), why);
}

static void replay(struct kernel_ctx *ctx, void *captured) {
    gpu_capture_replay(gpu_context_of(ctx), captured);
}

static void capture_free(struct kernel_ctx *ctx, void *captured) {
    gpu_capture_free(gpu_context_of(ctx), captured);
}

static void step_totals(struct kernel_ctx *ctx, const struct step_totals_args *a) {
    cuda_step_totals(&gpu_context_of(ctx)->queue, a);
}

static void step_judge(struct kernel_ctx *ctx, const struct step_judge_args *a) {
    cuda_step_judge(&gpu_context_of(ctx)->queue, a);
}

static const struct kernel_stored stored = {
    .bias_backward = bf16_bias_backward,
    .first_token_forward = bf16_first_token_forward,
    .first_token_backward = bf16_first_token_backward,
    .avgpool_forward = bf16_avgpool_forward,
    .avgpool_backward = bf16_avgpool_backward,
    .relu_forward = bf16_relu_forward,
    .relu_backward = bf16_relu_backward,
    .gelu_forward = bf16_gelu_forward,
    .gelu_backward = bf16_gelu_backward,
    .add = bf16_add,
    .zero = bf16_zero,
};

static int keeps_bf16(const struct kernel_ctx *ctx) {
    return gpu_context_keeps_bf16((const struct gpu_context *)(const void *)ctx);
}

const struct kernel_backend gpu_kernels = {
    .name = "cuda",
    .real_bytes = sizeof(float),
    .remote = 1,
    .gemm_acts = 1,
    .open = open_context,
    .close = close_context,
    .reserve = reserve,
    .isa = isa,
    .failure = failure,
    .bf16 = &stored,
    .keeps_bf16 = keeps_bf16,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .mem_write = mem_write,
    .mem_read = mem_read,
    .beside_begin = beside_begin,
    .beside_end = beside_end,
    .beside_await = beside_await,
    .beside_done = beside_done,
    .while_waiting = while_waiting,
    .read_start = read_start,
    .read_end = read_end,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .replay = replay,
    .capture_free = capture_free,
    .step_totals = step_totals,
    .step_judge = step_judge,
    .narrow = narrow,
    .widen = widen,
    .gemm_workspace = gemm_workspace,
    .conv2d_workspace = conv2d_workspace,
    .batchnorm_workspace = batchnorm_workspace,
    .bias_workspace = bias_workspace,
    .layernorm_workspace = layernorm_workspace,
    .attention_workspace = attention_workspace,
    .gemm = gemm,
    .conv2d_forward = conv2d_forward,
    .conv2d_sums = conv2d_sums,
    .conv2d_forward_sums = conv2d_forward_sums,
    .conv2d_backward_data = conv2d_backward_data,
    .conv2d_backward_weight = conv2d_backward_weight,
    .bias_backward = bias_backward,
    .batchnorm_forward_train = batchnorm_forward_train,
    .batchnorm_forward_eval = batchnorm_forward_eval,
    .batchnorm_backward = batchnorm_backward,
    .layernorm_forward = layernorm_forward,
    .layernorm_backward = layernorm_backward,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .tokens_forward = tokens_forward,
    .tokens_backward = tokens_backward,
    .first_token_forward = first_token_forward,
    .first_token_backward = first_token_backward,
    .maxpool_forward = maxpool_forward,
    .maxpool_backward = maxpool_backward,
    .avgpool_forward = avgpool_forward,
    .avgpool_backward = avgpool_backward,
    .softmax_xent = softmax_xent,
    .relu_forward = relu_forward,
    .relu_backward = relu_backward,
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .add = add,
    .axpy = axpy,
    .scale = scale,
    .zero = zero,
    .sum_squares = sum_squares,
    .sgd = sgd,
    .adam = adam,
    .parallel = parallel,
    .image_normalize = image_normalize,
    .image_keep = image_keep,
};
