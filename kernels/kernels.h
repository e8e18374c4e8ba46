// SPDX-License-Identifier: Apache-2.0
// Training kernels: one table of functions per backend, one context per process.
//
// Backends
//   kernels_cpu            float, packed GEMM core, best instruction set chosen when opened
//   kernels_reference      float, plain loops, what tests compare the others with
//   kernels_reference_f64  the same loops in double, for finite-difference gradient checks
// All have the same table, so code written for one drives the others. Buffers of numbers are `void
// *` to elements of real_bytes: float, or double for kernels_reference_f64. A tensor of n elements
// takes n * backend->real_bytes bytes. Scalars are double.
//
// Layouts
//   activation  NHWC: x[n][h][w][c], no gaps           conv weight    w[out][kh][kw][in]
//   matrix      row-major with a leading dimension     linear weight  w[out][in]
//   batch norm, bias: a matrix of rows = n*h*w and cols = channels
//   image       bytes, HWC                             label          int32, 0 .. classes-1
// torchvision's OIHW and our out,kh,kw,in differ only in the order on disk.
//
// Rules
//   - Ops enqueue: on a CPU they are done when they return, elsewhere later, in the order of the
//     calls. Every buffer of an op, its results too, is memory of the backend; mem_read waits for
//     what was enqueued before.
//   - Ops never allocate and never fail: a wrong shape is a programming error (assert). All memory
//     is planned before the first step: ask the *_workspace function of every shape that will run,
//     and give the maximum to kernel_ctx_reserve once.
//   - Outputs may not overlap inputs unless the op says so; out of place otherwise.
//   - `accumulate` nonzero adds to the output, zero overwrites it (its old content is never read,
//     so it may be uninitialised memory).
//   - Results do not depend on the number of threads, and repeat bit for bit with the same
//     backend, instruction set and shapes.
//   - A context is used by one thread at a time, which opens and closes it.
//   - kernels_cpu takes denormal numbers for zero, from open to close, in the caller's arithmetic
//     too.
//   - Finite data is assumed: products with padding are skipped, so inf * 0 makes no NaN there.
//     In Winograd's form an infinity makes NaN of all outputs of its tile.
#ifndef DTCTL_KERNELS_KERNELS_H
#define DTCTL_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/step.h"
#include "kernels/stored.h"

// The type in which the two operands of a product are multiplied. Sums are always reals, and so
// are buffers without a type of storage (stored.h). With KERNEL_BF16 both operands are rounded to
// bfloat16 (to nearest, ties to even) before the product, with KERNEL_HALF to IEEE half precision,
// above 65504 to infinity, and with KERNEL_TF32 to ten bits of fraction (to nearest, ties away from
// zero). kernels_cpu has neither KERNEL_HALF nor KERNEL_TF32. Terms added to a product (bias, beta
// * C) are not rounded.
enum kernel_type { KERNEL_FLOAT, KERNEL_BF16, KERNEL_HALF, KERNEL_TF32, KERNEL_TYPES };

// Where kernels_cpu computes a 3x3 convolution in fewer multiplications (in float; sums are rounded
// differently): where its cost function says that this is faster, nowhere, or wherever it can.
enum kernel_winograd { KERNEL_WINOGRAD_AUTO, KERNEL_WINOGRAD_NEVER, KERNEL_WINOGRAD_ALWAYS };

// Whether a context keeps activations in bfloat16: where its backend does so, nowhere, or anywhere.
enum kernel_keep { KERNEL_KEEP_AUTO, KERNEL_KEEP_NEVER, KERNEL_KEEP_ALWAYS };

// How to open a context. Zero-initialised = one thread, not pinned, best instruction set.
struct kernel_config {
    int threads;     // workers including the calling thread; 0 or 1: everything runs inline
    const int *cpus; // one CPU number per worker to pin to (also pins the caller), or NULL
    const char *isa; // "base", "avx2", "avx512", "avx512-bf16", or NULL for the best one here
    enum kernel_winograd winograd;
    enum kernel_keep keep;
    void *device; // of backends that compute elsewhere: what they were given to compute on
};

// C = alpha * op(A) * op(B) + beta * C, then + bias per column, then ReLU.
// op(A) is m x k, op(B) is k x n, C is m x n. With trans_a, A is stored k x m; with trans_b, B is
// stored n x k. lda, ldb, ldc are elements between two stored rows. beta == 0 never reads C.
struct gemm_args {
    enum kernel_type type;
    int m, n, k;
    int trans_a, trans_b;
    const void *a, *b;
    void *c;
    int lda, ldb, ldc;
    double alpha, beta;
    const void *bias; // n elements, or NULL
    int relu;
    enum kernel_type a_store, b_store, c_store;
    const void *from; // of c in bfloat16, or where remote: beta * this, laid out as c; NULL: c
    // Where kernel_backend.gemm_acts is set, and without relu: one of these, laid out and kept as
    // c, without gaps; or NULL. gelu gets GELU of c; c is multiplied by the derivative of ReLU at
    // relu_of, its result, or of GELU at gelu_of.
    void *gelu;
    const void *relu_of, *gelu_of;
};

// Filters, strides and padding of any size; stride and padding are the same along both axes, no
// dilation, no groups. Output size: kernel_conv_out.
// x[n][h][w][c], w[o][kh][kw][c] -> y[n][oh][ow][o]
struct conv2d_shape {
    int n, h, w, c; // input
    int o, kh, kw;  // filters and their size
    int stride, pad;
    enum kernel_type type;
    enum kernel_type x_store, y_store; // of x and dx, of y and dy
};

// x[n][h][w][c] -> y[n][oh][ow][c], index[n][oh][ow][c]
// Max pooling window k x k (k <= 15). Output size: kernel_conv_out. Padding never wins.
struct pool2d_shape {
    int n, h, w, c;
    int k, stride, pad;
    enum kernel_type store; // of x and y
};

// Batch normalisation over rows x channels, optionally fused: y = relu(bn(x) + residual).
struct batchnorm_args {
    int64_t rows;
    int channels;
    double eps;           // 1e-5 in torchvision
    double momentum;      // 0.1: running = 0.9 * running + 0.1 * batch
    const void *x;        // rows x channels
    const void *residual; // rows x channels added before the ReLU, or NULL
    const void *gamma;    // channels
    const void *beta;     // channels
    void *running_mean;   // channels; updated in training, read in evaluation
    void *running_var;    // channels; the update takes the unbiased variance, if rows > 1
    void *save_mean;      // channels; written by forward_train for backward
    void *save_invstd;    // channels; 1 / sqrt(biased variance + eps)
    void *y;              // rows x channels; may be x (in evaluation only) or residual
    int relu;
    enum kernel_type store; // of x, residual and y
    int x_sums; // not 0, in training: conv2d_forward_sums made x, with so many rows in a sum, and
                // no op has been enqueued since then
    int stats_kept; // in training, where conv2d_sums is not NULL: save_mean and save_invstd are
                    // there, and running statistics stay as they are
};

// Gradient of batchnorm_forward_train. dz = dy, or dy where y > 0 when relu is set.
struct batchnorm_grad_args {
    int64_t rows;
    int channels;
    const void *x;           // the forward input
    const void *y;           // the forward output; only read when relu is set, else may be NULL
    const void *dy;          // rows x channels
    const void *gamma;       // channels
    const void *save_mean;   // from forward_train
    const void *save_invstd; // from forward_train
    void *dx;                // rows x channels, overwritten; may be dy
    void *dresidual;         // rows x channels, gets dz (overwritten), or NULL; may be dy if dx
                             // is not
    void *dgamma, *dbeta;    // channels
    int accumulate;          // for dgamma and dbeta
    int relu;
    enum kernel_type store; // of x, y, dy, dx and dresidual
};

// Layer normalisation of every row, optionally of a sum: with s = x + residual (or x),
// y[rows][cols] = (s - mean) / sqrt(var + eps) * gamma + beta, mean and biased variance of the row.
struct layernorm_args {
    int64_t rows;
    int cols;
    double eps;           // 1e-5 in PyTorch, 1e-6 in timm's vision transformers
    const void *x;        // rows x cols
    const void *residual; // rows x cols added to x first, or NULL
    void *sum;            // rows x cols, gets x + residual when there is one; may be x or residual
    const void *gamma;    // cols
    const void *beta;     // cols
    void *save_mean;      // rows; for backward. NULL in evaluation, like save_invstd
    void *save_invstd;    // rows; 1 / sqrt(var + eps)
    void *y;              // rows x cols; may be x when there is no residual
    enum kernel_type store; // of x, residual, sum and y
};

struct layernorm_grad_args {
    int64_t rows;
    int cols;
    const void *x;           // what was normalised: the forward x, or its sum
    const void *dy;          // rows x cols
    const void *dsum;        // rows x cols that reach x on another way, added to dx; or NULL
    const void *gamma;       // cols
    const void *save_mean;   // from forward
    const void *save_invstd; // from forward
    void *dx;                // rows x cols, overwritten; may be dy or dsum
    void *dgamma, *dbeta;    // cols
    int accumulate;          // for dgamma and dbeta
    enum kernel_type store;  // of x, dy, dsum and dx
};

// Attention of `heads` heads of width d: y[n][t][heads][d] = softmax(q k' / sqrt(d)) v, and
// lse[n][heads][t], the logarithm of the sum of exponentials of each row of scores, kept for
// backward. keys 0, self-attention over t tokens: qkv[n][t][3][heads][d]. keys > 0, over so many
// others: q[n][t][heads][d], and kv[n][keys][2][heads][d] behind it in the same buffer. With type
// KERNEL_BF16 a backend may round the operands of its products to bfloat16: kernels_cpu does where
// it has AMX. All other attention is float.
struct attention_shape {
    int n, t, heads, d;
    int keys;
    enum kernel_type type;
    enum kernel_type store; // of all but lse
};

// Patches to tokens: x[n][p][d], first[d], pos[t][d] -> y[n][t][d], t = p + 1 with a class token in
// front, t = p without.
struct tokens_shape {
    int n, p, d;
    enum kernel_type store; // of x and y
};

// Softmax and cross-entropy over rows x classes, with label smoothing as PyTorch defines it:
// loss of a row = (1 - smoothing) * -log p[label] + smoothing / classes * sum of -log p.
struct softmax_xent_args {
    int rows, classes;
    const void *logits;    // rows x classes
    const int32_t *labels; // rows
    double smoothing;      // 0 .. 1
    double grad_scale;     // dlogits = grad_scale * d(sum of row losses); 1 / batch for a mean
    void *dlogits;         // rows x classes, overwritten, or NULL (evaluation); may be logits
    const struct kernel_step *step; // of a remote backend: its loss_scale is a factor, too; or NULL
};

struct loss_totals {
    double loss_sum;          // sum over rows, not scaled
    int64_t top1, top5, rows; // rows whose label is among the 1 / 5 largest logits
};

// A part of the flat parameter buffer with settings of its own. Ranges are disjoint; elements in
// no range are left alone.
struct optim_range {
    size_t begin, end; // elements, [begin, end)
    double weight_decay;
    double lr_scale; // usually 1
};

// Flat buffers of parameters p, gradients g and state, all of the same length. g is read as
// grad_scale * g (clipping or averaging at no cost) and left unchanged.
struct sgd_args {
    const struct optim_range *ranges;
    size_t nranges;
    void *p;
    const void *g;
    void *momentum_buf; // zero before the first step; NULL when momentum is 0
    double lr, momentum, grad_scale;
    int nesterov;                   // dampening is 0
    const struct kernel_step *step; // of a remote backend, instead of lr and grad_scale; or NULL
};

// Adam as in torch.optim: m and v corrected for bias, eps outside the square root.
// decoupled = 0: weight decay is added to the gradient (Adam); 1: AdamW.
struct adam_args {
    const struct optim_range *ranges;
    size_t nranges;
    void *p;
    const void *g;
    void *m, *v; // zero before the first step
    double lr, beta1, beta2, eps, grad_scale;
    int64_t step; // 1 for the first one
    int decoupled;
    const struct kernel_step *now; // of a remote backend, instead of lr, grad_scale, step; or NULL
};

// Bytes to normalised numbers: out = (src / 255 - mean) / std, cropped and mirrored per image. A
// pixel outside of the source is byte 0, or with `reflect` the source's reflection, whose border is
// not repeated (numpy.pad's "reflect"); it is then less than src_h or src_w outside.
struct image_args {
    int n;
    int src_h, src_w, channels; // channels <= 4
    int dst_h, dst_w;
    const uint8_t *const *src;          // n images, each src_h x src_w x channels
    const int16_t *offset_y, *offset_x; // n each; source pixel of output (0, 0); may
                                        // be negative. NULL: 0
    const uint8_t *flip;                // n; nonzero mirrors left-right. NULL: none
    int reflect;
    double mean[4], std[4];
    void *out; // n x dst_h x dst_w x channels
};

enum { BESIDE_QUEUES = 5, BESIDE_MARKS_MAX = 4096, BESIDE_LOOK_MS = 50 };
enum { LATE_READS = 8, LATE_BYTES_MAX = 512, IMAGES_KEPT_MAX = 2 };

struct kernel_backend {
    const char *name;
    size_t real_bytes; // 4 or 8: size of one element of every numeric buffer
    int remote;        // nonzero: the host reaches memory by mem_write and mem_read alone
    int gemm_acts;     // nonzero: gemm takes gelu, relu_of and gelu_of

    // Context. open returns 0 or a negative errno (-EINVAL: bad config or an unknown isa,
    // -ENOTSUP: this machine lacks that isa, -ENOMEM, -EAGAIN: no thread).
    int (*open)(struct kernel_ctx **out, const struct kernel_config *cfg);
    void (*close)(struct kernel_ctx *ctx); // NULL is allowed
    // Grows the workspace to at least `bytes`; never inside a step. 0 or -ENOMEM.
    int (*reserve)(struct kernel_ctx *ctx, size_t bytes);
    const char *(*isa)(const struct kernel_ctx *ctx); // what was chosen, for the log
    // The first failure of a device; after that every op does nothing, and mem_read gives zeros.
    // NULL: nothing so far. The function is NULL where nothing can fail.
    const char *(*failure)(const struct kernel_ctx *ctx);

    // Ops on activations in bfloat16; NULL: here every type of storage is KERNEL_FLOAT. keeps: not
    // zero where such activations are faster than reals, or were asked for.
    const struct kernel_stored *bf16;
    int (*keeps_bf16)(const struct kernel_ctx *ctx);

    // Memory where this backend computes: zeroed, 64-byte aligned or better, large pages where
    // the system gives them. NULL when there is none left. write and read copy from and to the
    // host and return when done.
    void *(*mem_alloc)(struct kernel_ctx *ctx, size_t bytes);
    void (*mem_free)(struct kernel_ctx *ctx, void *p, size_t bytes); // bytes as in mem_alloc
    void (*mem_write)(struct kernel_ctx *ctx, void *dst, const void *host_src, size_t bytes);
    void (*mem_read)(struct kernel_ctx *ctx, void *host_dst, const void *src, size_t bytes);

    // Only where remote is set: BESIDE_QUEUES queues beside that of the ops, for others than this
    // table that use the same memory. Work in begin's answer (of CUDA, a stream) comes after every
    // op so far, and end gives it a mark, a number from 0 to BESIDE_MARKS_MAX - 1. Work of one
    // queue does not wait for another queue. Ops come after the newest use of a mark when await
    // says so. done: nonzero when that use, if there was one, has ended. None of them waits.
    void *(*beside_begin)(struct kernel_ctx *ctx, int queue);
    void (*beside_end)(struct kernel_ctx *ctx, int queue, int mark);
    void (*beside_await)(struct kernel_ctx *ctx, int mark);
    int (*beside_done)(struct kernel_ctx *ctx, int mark);
    // A function that is called every BESIDE_LOOK_MS while the host waits. 0: this device alone is
    // waited for; positive: others are, so its time limit does not count; negative: the wait ends,
    // and the device has failed.
    void (*while_waiting)(struct kernel_ctx *ctx, int (*look)(void *arg), void *arg);
    // Only where remote is set: a read that the host looks at later. slot: 0 … LATE_READS - 1,
    // whose last read has ended; at most LATE_BYTES_MAX bytes. read_end waits.
    void (*read_start)(struct kernel_ctx *ctx, int slot, const void *src, size_t bytes);
    void (*read_end)(struct kernel_ctx *ctx, int slot, void *host_dst, size_t bytes);
    // Only where remote is set: ops between begin and end, and those of other queues that are
    // awaited in between, are not run but kept, with their addresses. Each replay enqueues them
    // all. end returns NULL where the device cannot do that, and *why says the reason. mem_write,
    // mem_read, read_start and image_normalize have no place in between.
    void (*capture_begin)(struct kernel_ctx *ctx);
    void *(*capture_end)(struct kernel_ctx *ctx, const char **why);
    void (*replay)(struct kernel_ctx *ctx, void *captured);
    void (*capture_free)(struct kernel_ctx *ctx, void *captured);
    void (*step_totals)(struct kernel_ctx *ctx, const struct step_totals_args *a);
    void (*step_judge)(struct kernel_ctx *ctx, const struct step_judge_args *a);
    // Between reals and bfloat16, rounded to nearest, ties to even.
    void (*narrow)(struct kernel_ctx *ctx, size_t n, const void *x, void *bf16);
    void (*widen)(struct kernel_ctx *ctx, size_t n, const void *bf16, void *y);

    // Workspace in bytes that the op family needs for this shape (all three conv passes; any
    // transposes of an m, n, k GEMM; train and backward of a batch norm; bias_backward). The answer
    // is enough for every smaller m, n, k, number of images and number of rows, too.
    size_t (*gemm_workspace)(const struct kernel_ctx *ctx, enum kernel_type type, int m, int n,
                             int k);
    size_t (*conv2d_workspace)(const struct kernel_ctx *ctx, const struct conv2d_shape *s);
    size_t (*batchnorm_workspace)(const struct kernel_ctx *ctx, int64_t rows, int channels);
    size_t (*bias_workspace)(const struct kernel_ctx *ctx, int64_t rows, int cols);
    size_t (*layernorm_workspace)(const struct kernel_ctx *ctx, int64_t rows, int cols);
    size_t (*attention_workspace)(const struct kernel_ctx *ctx, const struct attention_shape *s);

    void (*gemm)(struct kernel_ctx *ctx, const struct gemm_args *a);

    // x[n][h][w][c], w[o][kh][kw][c], bias[o] -> y[n][oh][ow][o]
    // y = conv(x, w) + bias (bias: o elements or NULL), then ReLU when relu is set.
    void (*conv2d_forward)(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                           const void *w, const void *bias, int relu, void *y);
    // NULL where no convolution leaves sums of y for the batch norm behind it. Of how many rows
    // each is; 0: this shape leaves none. forward_sums is conv2d_forward of the others.
    int (*conv2d_sums)(const struct kernel_ctx *ctx, const struct conv2d_shape *s);
    void (*conv2d_forward_sums)(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                                const void *w, const void *bias, void *y);
    // dy[n][oh][ow][o], w[o][kh][kw][c] -> dx[n][h][w][c]. accumulate lets a residual join add
    // without another pass.
    void (*conv2d_backward_data)(struct kernel_ctx *ctx, const struct conv2d_shape *s,
                                 const void *dy, const void *w, void *dx, int accumulate);
    // x[n][h][w][c], dy[n][oh][ow][o] -> dw[o][kh][kw][c]
    void (*conv2d_backward_weight)(struct kernel_ctx *ctx, const struct conv2d_shape *s,
                                   const void *x, const void *dy, void *dw, int accumulate);
    // db[col] = sum over rows of dy[row][col]; for linear and conv biases.
    void (*bias_backward)(struct kernel_ctx *ctx, int64_t rows, int cols, const void *dy, void *db,
                          int accumulate);

    void (*batchnorm_forward_train)(struct kernel_ctx *ctx, const struct batchnorm_args *a);
    void (*batchnorm_forward_eval)(struct kernel_ctx *ctx, const struct batchnorm_args *a);
    void (*batchnorm_backward)(struct kernel_ctx *ctx, const struct batchnorm_grad_args *a);

    void (*layernorm_forward)(struct kernel_ctx *ctx, const struct layernorm_args *a);
    void (*layernorm_backward)(struct kernel_ctx *ctx, const struct layernorm_grad_args *a);

    void (*attention_forward)(struct kernel_ctx *ctx, const struct attention_shape *s,
                              const void *qkv, void *y, void *lse);
    // dqkv, laid out as qkv, is overwritten.
    void (*attention_backward)(struct kernel_ctx *ctx, const struct attention_shape *s,
                               const void *qkv, const void *y, const void *lse, const void *dy,
                               void *dqkv);

    // first NULL: no class token; pos NULL: no positions.
    void (*tokens_forward)(struct kernel_ctx *ctx, const struct tokens_shape *s, const void *x,
                           const void *first, const void *pos, void *y);
    // dy[n][t][d] -> dx[n][p][d] (overwritten, or NULL), dfirst[d], dpos[t][d] (each NULL as in
    // forward); accumulate is for the last two.
    void (*tokens_backward)(struct kernel_ctx *ctx, const struct tokens_shape *s, const void *dy,
                            void *dx, void *dfirst, void *dpos, int accumulate);
    // x[n][t][d] -> y[n][d], the first token of each; backward gives the others zero.
    void (*first_token_forward)(struct kernel_ctx *ctx, int n, int t, int d, const void *x,
                                void *y);
    void (*first_token_backward)(struct kernel_ctx *ctx, int n, int t, int d, const void *dy,
                                 void *dx);

    // index: one byte per output element, dy * k + dx of the winner inside its window.
    void (*maxpool_forward)(struct kernel_ctx *ctx, const struct pool2d_shape *s, const void *x,
                            void *y, uint8_t *index);
    void (*maxpool_backward)(struct kernel_ctx *ctx, const struct pool2d_shape *s, const void *dy,
                             const uint8_t *index, void *dx); // dx is overwritten
    // Mean over the hw positions: x[n][hw][c] -> y[n][c].
    void (*avgpool_forward)(struct kernel_ctx *ctx, int n, int hw, int c, const void *x, void *y);
    void (*avgpool_backward)(struct kernel_ctx *ctx, int n, int hw, int c, const void *dy,
                             void *dx); // dx is overwritten

    // *out, in the backend's memory, is overwritten. A row with a NaN logit is never among the top
    // 1 or 5.
    void (*softmax_xent)(struct kernel_ctx *ctx, const struct softmax_xent_args *a,
                         struct loss_totals *out);

    // Elementwise over n elements. Any output may be any input.
    void (*relu_forward)(struct kernel_ctx *ctx, size_t n, const void *x, void *y);
    void (*relu_backward)(struct kernel_ctx *ctx, size_t n, const void *y, const void *dy,
                          void *dx); // dx = y > 0 ? dy : 0
    // y = x * Phi(x), exactly (not the tanh form); backward reads x.
    void (*gelu_forward)(struct kernel_ctx *ctx, size_t n, const void *x, void *y);
    void (*gelu_backward)(struct kernel_ctx *ctx, size_t n, const void *x, const void *dy,
                          void *dx);
    void (*add)(struct kernel_ctx *ctx, size_t n, const void *a, const void *b, void *y);
    void (*axpy)(struct kernel_ctx *ctx, size_t n, double alpha, const void *x,
                 void *y);                                                  // y += alpha * x
    void (*scale)(struct kernel_ctx *ctx, size_t n, double alpha, void *x); // x *= alpha
    void (*zero)(struct kernel_ctx *ctx, size_t n, void *x);
    // *out, in the backend's memory: the sum of squares, in double and in an order that depends on
    // n alone.
    void (*sum_squares)(struct kernel_ctx *ctx, size_t n, const void *x, double *out);

    void (*sgd)(struct kernel_ctx *ctx, const struct sgd_args *a);
    void (*adam)(struct kernel_ctx *ctx, const struct adam_args *a);

    // Whole step of work over independent items: calls fn(arg, worker, workers) once on every
    // worker, for host-side jobs that want the same threads (decoding, packing a bucket).
    void (*parallel)(struct kernel_ctx *ctx, void (*fn)(void *arg, int worker, int workers),
                     void *arg);

    void (*image_normalize)(struct kernel_ctx *ctx, const struct image_args *a);
    // Only where remote is set: copies pixels of the host that stay as they are until close, once.
    // image_normalize then finds the images among them there. 0, or -ENOMEM: the copy would take
    // more than half of the memory that is left, or IMAGES_KEPT_MAX copies are kept already.
    int (*image_keep)(struct kernel_ctx *ctx, const uint8_t *pixels, size_t bytes);
};

extern const struct kernel_backend kernels_cpu;
extern const struct kernel_backend kernels_reference;
extern const struct kernel_backend kernels_reference_f64;

// "cpu", "reference" or "reference-f64"; NULL when there is no such backend.
const struct kernel_backend *kernels_find(const char *name);
// The i-th backend, NULL after the last.
const struct kernel_backend *kernels_at(int i);

// Output length of a convolution or pooling window along one axis.
static inline int kernel_conv_out(int in, int k, int stride, int pad) {
    return (in + 2 * pad - k) / stride + 1;
}

// The pixel of a row of `size` that a reflection has at a place less than `size` outside of it.
static inline int kernel_reflect(int at, int size) {
    return at < 0 ? -at : at < size ? at : 2 * (size - 1) - at;
}

#endif
