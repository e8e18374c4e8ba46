// SPDX-License-Identifier: Apache-2.0
// The parameter of each kernel: a struct by value, the same for the host's C and for CUDA C++.
// Pointers are addresses of the device. Those to void are tensors that may be kept in bfloat16, and
// are where a bf16 field beside them is not zero; else they are floats.
#ifndef DTCTL_KERNELS_CUDA_PARAMS_H
#define DTCTL_KERNELS_CUDA_PARAMS_H

#include <stdalign.h>
#include <stdint.h>

enum {
    CUDA_TILE = 64,              // rows and columns of a product that one block makes
    CUDA_TILE_K = 16,            // terms of a step
    CUDA_THREADS = 256,          // of every block
    CUDA_PRODUCT_SHARED = 16896, // bytes of shared memory of a block of a product
    CUDA_LARGE_TILE = 128,       // the same for large products, whose operands are packed
    CUDA_LARGE_BYTES = 64,       // of the terms of a row in a step: 32 of 16 bits, 16 of tf32
    CUDA_LARGE_THREADS = 128,    // of a block
    CUDA_LARGE_SHARED = 49152,   // three stages
    CUDA_LARGE_TAPS = 32,        // of a filter, at most
    CUDA_LARGE_PIXELS = 1 << 14, // of an image with its borders, in either direction, fewer
    CUDA_CHUNK_BYTES = 16,       // of a packed row that are copied at once
    CUDA_TMA_BYTES = 128,        // the same by a tensor map, and of the terms of a row in a step
    CUDA_TMA_STAGES = 3,         // steps whose operands are there or under way
    CUDA_TMA_STAGE = 32768,      // bytes of a stage
    CUDA_TMA_SHARED = 98352,     // the stages, and two mbarriers of each
    CUDA_TURN_TILE = 32,         // rows and columns that a block packs transposed
    CUDA_RANGES = 64,            // ranges of parameters of one launch
    CUDA_ROWS_OF_SUM = 64,       // row chunks of a sum over rows
};

// The activation that a product makes, too: GELU of c goes to `beside`; or c is multiplied by the
// derivative of ReLU or of GELU at `beside`.
enum cuda_act { CUDA_ACT_NONE, CUDA_ACT_GELU, CUDA_ACT_RELU_GRAD, CUDA_ACT_GELU_GRAD };

// Where a product goes: c[row][column] = alpha * sum + beta * from + bias[column], then ReLU or
// act. `from` and `beside` lie as c does, and `from` may be c. With several splits of the terms
// each block writes its sum to partial[split][row][column].
struct product_out {
    void *c, *beside;
    const void *from;
    int bf16;          // c, beside and from
    int act;           // enum cuda_act
    const float *bias; // or NULL
    float *partial;    // NULL with one split
    float *sums;       // NULL; or with one split, of a convolution: see struct batchnorm_params
    int64_t size;      // elements of one split
    int m, n, k, ldc;
    int splits, k_split; // terms of a split: a multiple of CUDA_TILE_K
    float alpha, beta;
    int relu;
};

// y[row][column] is x[row][column] in the type of a product, and zero in the rows and columns
// beyond the last.
struct pack_params {
    const void *x;
    int bf16; // x
    void *y;
    int64_t rows, all_rows; // of x; of y
    int cols, ld, pitch;    // pitch: of y, whole chunks of CUDA_CHUNK_BYTES
};

// y[column][term] is x[row][column] in the type of a product. A row is (image, pixel), and a term
// (pixel, image): a matrix has one pixel. y is zero in images and terms beyond the last.
struct pack_turned_params {
    const float *x;
    void *y;
    int images, all_images, pixels; // of x; of y
    int cols, ld, pitch;            // pitch: of y, whole stages
};

// Of a large product a and b are packed. In tf32 both are contiguous along the terms, whatever
// trans_a and trans_b say, and so are those of conv_params: w of data is [tap][c][o] then, and dy
// and x of weight are [channel][pixel][image], with the images that they have been packed with.
struct gemm_params {
    const void *a, *b;
    int a_bf16, b_bf16;
    int lda, ldb, trans_a, trans_b;
    struct product_out out;
};

// The form of a matrix that the driver makes for copies of boxes of it.
struct cuda_tensor_map {
    alignas(128) uint64_t opaque[16];
};

// The same product with operands by tensor maps. Boxes of an operand that is contiguous along the
// terms have CUDA_LARGE_TILE rows; those of the other ones have a half of them, for the terms of a
// step.
struct gemm_tma_params {
    struct cuda_tensor_map a, b;
    struct gemm_params gemm;
};

// forward: a = x, b = w; data: a = dy, b = w; weight: a = dy, b = x.
struct conv_params {
    const void *a, *b;
    int a_bf16, b_bf16;
    int h, w, c, o, kh, kw, stride, pad, oh, ow, images;
    struct product_out out;
};

// A sum over rows is made in chunks of rows: partial[chunk][2][columns], then total[2][columns].
// sums[tile][2][channels]: of the numbers of so many rows of x, less those of the tile's first row,
// and of the squares of that. A chunk then has tiles in place of rows.
struct batchnorm_params {
    int64_t rows;
    int channels, chunks;
    int64_t chunk_rows;
    double eps, momentum;
    const void *x, *residual;
    void *y;
    const float *gamma, *beta;
    float *running_mean, *running_var, *save_mean, *save_invstd;
    const float *sums;
    int tile_rows;
    double *partial;
    int relu, bf16, pairs; // pairs: of columns, in bfloat16
};

struct batchnorm_grad_params {
    int64_t rows;
    int channels, chunks;
    int64_t chunk_rows;
    const void *x, *y, *dy;
    void *dx, *dresidual;
    const float *gamma, *save_mean, *save_invstd;
    double *partial;
    const double *total;
    int relu, bf16, pairs;
};

struct column_params {
    int64_t rows;
    int columns, chunks;
    int64_t chunk_rows;
    const void *x;
    double *partial, *total; // total: NULL when no kernel reads it
    float *first, *second;   // the sums; second may be NULL
    int accumulate, bf16, pairs;
};

struct layernorm_params {
    int64_t rows;
    int cols;
    double eps;
    const void *x, *residual;
    void *sum, *y;
    const float *gamma, *beta;
    float *save_mean, *save_invstd;
    int bf16, pairs;
};

struct layernorm_grad_params {
    int64_t rows;
    int cols, chunks;
    int64_t chunk_rows;
    const void *x, *dy, *dsum;
    void *dx;
    const float *gamma, *save_mean, *save_invstd;
    double *partial;
    int bf16, pairs;
};

// q: n x t rows, k and v: n x keys rows, each of heads x d; rows lie q_pitch and kv_pitch numbers
// apart.
struct attention_params {
    const void *q, *k, *v, *y, *dy;
    void *out, *dq, *dk, *dv;
    int bf16;
    const float *lse;
    float *out_lse;
    float *delta; // dy . y of each row
    int n, t, keys, heads, d, q_pitch, kv_pitch;
    float scale; // 1 / sqrt(d)
};

struct tokens_params {
    const void *x;
    void *y;
    int bf16;
    const float *first, *pos;
    float *dfirst, *dpos;
    int n, p, t, d, accumulate;
    int64_t size;
};

struct pool_params {
    const void *x;
    void *y;
    int bf16, pairs; // pairs: of channels, in bfloat16
    uint8_t *index;
    int h, w, c, k, stride, pad, oh, ow;
    int64_t size;
};

struct average_params {
    const void *x;
    void *y;
    int bf16, pairs;
    int hw, c;
    int64_t size;
};

struct step_params;
struct loss_params;
struct xent_row {
    double loss;
    int rank, reserved;
};

struct xent_params {
    int rows, classes;
    const float *logits;
    const int32_t *labels;
    double smoothing, grad_scale;
    const struct step_params *step; // or NULL
    float *dlogits;
    struct xent_row *row;
    struct loss_params *totals;
};

struct image_params {
    int src_h, src_w, channels, dst_h, dst_w, reflect;
    const uint8_t *const *src;
    const int16_t *offset_y, *offset_x;
    const uint8_t *flip;
    float scale[4], shift[4]; // out = byte * scale + shift
    float *out;
    int64_t size;
};

struct flat_params {
    int64_t n;
    float alpha;
    int bf16;
    const void *a, *b;
    void *y;
    double *partial, *total;
};

struct range_params {
    int64_t begin, end;
    double weight_decay, lr_scale;
};

struct step_params { // as struct kernel_step
    double lr, clip, request[2];
    double loss_scale, good, updates, power1, power2, halted, culprit;
    double own_loss, totals[6], apply, grad_scale, correct1, correct2;
};

struct loss_params { // as struct loss_totals
    double loss_sum;
    int64_t top1, top5, rows;
};

struct step_totals_params {
    struct step_params *step;
    const struct loss_params *losses;
    float *tail; // or NULL
    const double *squares;
    double scale, ranks;
    int nlosses, nsquares;
};

struct step_judge_params {
    struct step_params *step;
    const float *tail; // or NULL
    const double *squares;
    double beta1, beta2, scale_updates, scale_least, scale_most;
    int nsquares, scaling;
    const float *grads;
    int64_t ngrads;
};

struct scalar_params {
    double lr, grad_scale, correct1, correct2;
};

struct optimizer_params {
    struct range_params range[CUDA_RANGES]; // blockIdx.y
    const struct step_params *step;         // or NULL: now
    struct scalar_params now;
    float *p, *m, *v;
    const float *g;
    double beta1, beta2, eps; // beta1: momentum
    int nesterov, decoupled;
};

#endif
