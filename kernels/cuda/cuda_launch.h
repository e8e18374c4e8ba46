// SPDX-License-Identifier: Apache-2.0
// The operations of kernels.h on a GPU: each function enqueues kernels and returns at once.
//
// Contract
//   - Arguments, shapes, layouts and aliasing are those of kernels.h. Every pointer to numbers is
//   an
//     address of the device; shapes, ranges and argument structs are the host's and are read before
//     the function returns. Where kernels.h returns a result to the host, it goes to the device.
//   - Buffers hold floats, or what their type of storage says (stored.h). An operation of struct
//     kernel_stored takes that type as `store`. Products round their operands to the type that is
//     asked for; their tensors may be bfloat16 with KERNEL_BF16 alone. KERNEL_TF32 needs a device
//     of CUDA_TF32_CAPABILITY_MIN or newer.
//   - No operation waits, allocates, or reads the device. The same calls with the same shapes give
//     the same bits, and may be captured in a graph. No sum uses a float atomic.
//   - A queue has one workspace; its operations run one after the other.
// This part links with neither CUDA nor its driver: the owner of the queue launches.
#ifndef DTCTL_KERNELS_CUDA_LAUNCH_H
#define DTCTL_KERNELS_CUDA_LAUNCH_H

#include "kernels/kernels.h"

// Every kernel by the source that holds it: X(source, name). A source is kernels/cuda/<source>.cu;
// the program finds its fat binary at the symbol fatbin_<source>.
#define CUDA_SOURCES(X)                                                                            \
    X(product)                                                                                     \
    X(pack)                                                                                        \
    X(large)                                                                                       \
    X(hopper)                                                                                      \
    X(batchnorm)                                                                                   \
    X(layernorm)                                                                                   \
    X(attention)                                                                                   \
    X(tokens)                                                                                      \
    X(pooling)                                                                                     \
    X(loss)                                                                                        \
    X(image_input)                                                                                 \
    X(flat)                                                                                        \
    X(step)
#define CUDA_KERNELS(X)                                                                            \
    X(product, gemm_float)                                                                         \
    X(product, gemm_bf16)                                                                          \
    X(product, gemm_half)                                                                          \
    X(product, gemm_tf32)                                                                          \
    X(product, conv_forward_float)                                                                 \
    X(product, conv_forward_bf16)                                                                  \
    X(product, conv_forward_half)                                                                  \
    X(product, conv_forward_tf32)                                                                  \
    X(product, conv_data_float)                                                                    \
    X(product, conv_data_bf16)                                                                     \
    X(product, conv_data_half)                                                                     \
    X(product, conv_data_tf32)                                                                     \
    X(product, conv_weight_float)                                                                  \
    X(product, conv_weight_bf16)                                                                   \
    X(product, conv_weight_half)                                                                   \
    X(product, conv_weight_tf32)                                                                   \
    X(product, product_sum)                                                                        \
    X(pack, pack_bf16)                                                                             \
    X(pack, pack_half)                                                                             \
    X(pack, pack_tf32)                                                                             \
    X(pack, pack_turned_tf32)                                                                      \
    X(large, gemm_large_bf16)                                                                      \
    X(large, gemm_large_half)                                                                      \
    X(large, gemm_large_tf32)                                                                      \
    X(large, conv_forward_large_bf16)                                                              \
    X(large, conv_forward_large_half)                                                              \
    X(large, conv_forward_large_tf32)                                                              \
    X(large, conv_data_large_bf16)                                                                 \
    X(large, conv_data_large_half)                                                                 \
    X(large, conv_data_large_tf32)                                                                 \
    X(large, conv_weight_large_bf16)                                                               \
    X(large, conv_weight_large_half)                                                               \
    X(large, conv_weight_large_tf32)                                                               \
    X(hopper, gemm_hopper_bf16)                                                                    \
    X(hopper, gemm_hopper_half)                                                                    \
    X(hopper, gemm_hopper_tf32)                                                                    \
    X(hopper, gemm_tma_bf16)                                                                       \
    X(hopper, gemm_tma_half)                                                                       \
    X(hopper, gemm_tma_tf32)                                                                       \
    X(hopper, conv_forward_hopper_bf16)                                                            \
    X(hopper, conv_forward_hopper_half)                                                            \
    X(hopper, conv_forward_hopper_tf32)                                                            \
    X(hopper, conv_data_hopper_bf16)                                                               \
    X(hopper, conv_data_hopper_half)                                                               \
    X(hopper, conv_data_hopper_tf32)                                                               \
    X(hopper, conv_weight_hopper_bf16)                                                             \
    X(hopper, conv_weight_hopper_half)                                                             \
    X(hopper, conv_weight_hopper_tf32)                                                             \
    X(batchnorm, batchnorm_sums)                                                                   \
    X(batchnorm, batchnorm_tiles)                                                                  \
    X(batchnorm, batchnorm_moments)                                                                \
    X(batchnorm, batchnorm_apply)                                                                  \
    X(batchnorm, batchnorm_eval)                                                                   \
    X(batchnorm, batchnorm_grad_sums)                                                              \
    X(batchnorm, batchnorm_grad_apply)                                                             \
    X(batchnorm, column_sums)                                                                      \
    X(batchnorm, column_totals)                                                                    \
    X(layernorm, layernorm_forward)                                                                \
    X(layernorm, layernorm_grad_sums)                                                              \
    X(layernorm, layernorm_grad_rows)                                                              \
    X(attention, attention_forward_64)                                                             \
    X(attention, attention_forward_256)                                                            \
    X(attention, attention_delta)                                                                  \
    X(attention, attention_grad_queries_64)                                                        \
    X(attention, attention_grad_queries_256)                                                       \
    X(attention, attention_grad_keys_64)                                                           \
    X(attention, attention_grad_keys_256)                                                          \
    X(tokens, tokens_forward)                                                                      \
    X(tokens, tokens_grad_input)                                                                   \
    X(tokens, tokens_grad_sums)                                                                    \
    X(tokens, first_token_forward)                                                                 \
    X(tokens, first_token_backward)                                                                \
    X(pooling, maxpool_forward)                                                                    \
    X(pooling, maxpool_backward)                                                                   \
    X(pooling, avgpool_forward)                                                                    \
    X(pooling, avgpool_backward)                                                                   \
    X(loss, softmax_xent_rows)                                                                     \
    X(loss, softmax_xent_total)                                                                    \
    X(image_input, image_normalize)                                                                \
    X(flat, relu_forward)                                                                          \
    X(flat, relu_backward)                                                                         \
    X(flat, gelu_forward)                                                                          \
    X(flat, gelu_backward)                                                                         \
    X(flat, add)                                                                                   \
    X(flat, axpy)                                                                                  \
    X(flat, scale)                                                                                 \
    X(flat, zero)                                                                                  \
    X(flat, narrow)                                                                                \
    X(flat, widen)                                                                                 \
    X(flat, sum_squares_partial)                                                                   \
    X(flat, sum_squares_total)                                                                     \
    X(flat, sgd)                                                                                   \
    X(flat, adam)                                                                                  \
    X(step, step_totals)                                                                           \
    X(step, step_judge)

enum cuda_source {
#define X(source) CUDA_SOURCE_##source,
    CUDA_SOURCES(X)
#undef X
        CUDA_SOURCE_COUNT
};

enum cuda_kernel {
#define X(source, name) CUDA_KERNEL_##name,
    CUDA_KERNELS(X)
#undef X
        CUDA_KERNEL_COUNT
};

extern const struct cuda_kernel_info {
    const char *name;
    enum cuda_source source;
} cuda_kernel_info[CUDA_KERNEL_COUNT];

enum {
    CUDA_WORKSPACE_BYTES_MIN = 4 << 20, // of every queue, whatever the shapes
    CUDA_HEAD_MAX = 256,                // width of an attention head
    CUDA_TF32_CAPABILITY_MIN = 80,      // of a device for KERNEL_TF32
    CUDA_BF16_CAPABILITY_MIN = 80,      // of the first devices that multiply bfloat16
    CUDA_LARGE_CAPABILITY = 80,         // of the first devices that have large tiles
    CUDA_HOPPER_CAPABILITY = 90,        // of the devices whose large tiles are those of hopper
};

// Whether devices of this capability have the kernels of the source.
static inline int cuda_source_is_for(enum cuda_source source, int capability) {
    switch (source) {
    case CUDA_SOURCE_pack: return capability >= CUDA_LARGE_CAPABILITY;
    case CUDA_SOURCE_large:
        return capability >= CUDA_LARGE_CAPABILITY && capability != CUDA_HOPPER_CAPABILITY;
    case CUDA_SOURCE_hopper: return capability == CUDA_HOPPER_CAPABILITY;
    default: return 1;
    }
}

// A packed operand of a product of this type, rows of `pitch` bytes, and the box of it that is
// copied at once: its rows have CUDA_TMA_BYTES.
struct cuda_matrix {
    const void *at;
    enum kernel_type type;
    int64_t rows, columns, pitch;
    int box_rows;
};

struct cuda_queue {
    // Enqueues one kernel. params points to the kernel's only parameter, a struct that is copied
    // before launch returns (for cuLaunchKernel: kernelParams = &params). shared: bytes of dynamic
    // shared memory. The owner of the queue keeps the first failure.
    void (*launch)(struct cuda_queue *q, enum cuda_kernel kernel, const unsigned grid[3],
                   unsigned threads, unsigned shared, void *params);
    // Writes the matrix's tensor map to `map` (struct cuda_tensor_map). 0, or -1 where there is
    // none; products then copy by cp.async. May be NULL.
    int (*tensor_map)(struct cuda_queue *q, const struct cuda_matrix *m, void *map);
    int capability;         // of the device: 80 is 8.0
    void *workspace;        // of the device, aligned to 256 bytes
    size_t workspace_bytes; // the largest of the *_workspace functions that will be needed,
                            // CUDA_WORKSPACE_BYTES_MIN at least
};

size_t cuda_gemm_workspace(enum kernel_type type, int m, int n, int k);
size_t cuda_conv2d_workspace(const struct conv2d_shape *s);
size_t cuda_batchnorm_workspace(int64_t rows, int channels);
size_t cuda_bias_workspace(int64_t rows, int cols);
size_t cuda_layernorm_workspace(int64_t rows, int cols);
size_t cuda_attention_workspace(const struct attention_shape *s);

void cuda_gemm(struct cuda_queue *q, const struct gemm_args *a);
void cuda_conv2d_forward(struct cuda_queue *q, const struct conv2d_shape *s, const void *x,
                         const void *w, const void *bias, int relu, void *y);
int cuda_conv2d_sums(const struct cuda_queue *q, const struct conv2d_shape *s);
void cuda_conv2d_forward_sums(struct cuda_queue *q, const struct conv2d_shape *s, const void *x,
                              const void *w, const void *bias, void *y);
void cuda_conv2d_backward_data(struct cuda_queue *q, const struct conv2d_shape *s, const void *dy,
                               const void *w, void *dx, int accumulate);
void cuda_conv2d_backward_weight(struct cuda_queue *q, const struct conv2d_shape *s, const void *x,
                                 const void *dy, void *dw, int accumulate);
void cuda_bias_backward(struct cuda_queue *q, enum kernel_type store, int64_t rows, int cols,
                        const void *dy, void *db, int accumulate);
void cuda_batchnorm_forward_train(struct cuda_queue *q, const struct batchnorm_args *a);
void cuda_batchnorm_forward_eval(struct cuda_queue *q, const struct batchnorm_args *a);
void cuda_batchnorm_backward(struct cuda_queue *q, const struct batchnorm_grad_args *a);
void cuda_layernorm_forward(struct cuda_queue *q, const struct layernorm_args *a);
void cuda_layernorm_backward(struct cuda_queue *q, const struct layernorm_grad_args *a);
// A head is at most CUDA_HEAD_MAX wide.
void cuda_attention_forward(struct cuda_queue *q, const struct attention_shape *s, const void *qkv,
                            void *y, void *lse);
void cuda_attention_backward(struct cuda_queue *q, const struct attention_shape *s, const void *qkv,
                             const void *y, const void *lse, const void *dy, void *dqkv);
void cuda_tokens_forward(struct cuda_queue *q, const struct tokens_shape *s, const void *x,
                         const void *first, const void *pos, void *y);
void cuda_tokens_backward(struct cuda_queue *q, const struct tokens_shape *s, const void *dy,
                          void *dx, void *dfirst, void *dpos, int accumulate);
void cuda_first_token_forward(struct cuda_queue *q, enum kernel_type store, int n, int t, int d,
                              const void *x, void *y);
void cuda_first_token_backward(struct cuda_queue *q, enum kernel_type store, int n, int t, int d,
                               const void *dy, void *dx);
void cuda_maxpool_forward(struct cuda_queue *q, const struct pool2d_shape *s, const void *x,
                          void *y, uint8_t *index);
void cuda_maxpool_backward(struct cuda_queue *q, const struct pool2d_shape *s, const void *dy,
                           const uint8_t *index, void *dx);
void cuda_avgpool_forward(struct cuda_queue *q, enum kernel_type store, int n, int hw, int c,
                          const void *x, void *y);
void cuda_avgpool_backward(struct cuda_queue *q, enum kernel_type store, int n, int hw, int c,
                           const void *dy, void *dx);
// out is on the device and is overwritten. At most CUDA_WORKSPACE_BYTES_MIN / 16 rows.
void cuda_softmax_xent(struct cuda_queue *q, const struct softmax_xent_args *a,
                       struct loss_totals *out);
void cuda_relu_forward(struct cuda_queue *q, enum kernel_type store, size_t n, const void *x,
                       void *y);
void cuda_relu_backward(struct cuda_queue *q, enum kernel_type store, size_t n, const void *y,
                        const void *dy, void *dx);
void cuda_gelu_forward(struct cuda_queue *q, enum kernel_type store, size_t n, const void *x,
                       void *y);
void cuda_gelu_backward(struct cuda_queue *q, enum kernel_type store, size_t n, const void *x,
                        const void *dy, void *dx);
void cuda_add(struct cuda_queue *q, enum kernel_type store, size_t n, const void *a, const void *b,
              void *y);
void cuda_zero(struct cuda_queue *q, enum kernel_type store, size_t n, void *x);
void cuda_axpy(struct cuda_queue *q, size_t n, double alpha, const void *x, void *y);
void cuda_scale(struct cuda_queue *q, size_t n, double alpha, void *x);
void cuda_narrow(struct cuda_queue *q, size_t n, const void *x, void *bf16);
void cuda_widen(struct cuda_queue *q, size_t n, const void *bf16, void *y);
// *out is a double on the device.
void cuda_sum_squares(struct cuda_queue *q, size_t n, const void *x, double *out);
void cuda_sgd(struct cuda_queue *q, const struct sgd_args *a);
void cuda_adam(struct cuda_queue *q, const struct adam_args *a);
void cuda_step_totals(struct cuda_queue *q, const struct step_totals_args *a);
void cuda_step_judge(struct cuda_queue *q, const struct step_judge_args *a);
// src is an array of the device with addresses of the device, like offsets and flip.
void cuda_image_normalize(struct cuda_queue *q, const struct image_args *a);

#endif
