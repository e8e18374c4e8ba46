// SPDX-License-Identifier: Apache-2.0
// The functions behind the table kernels_cpu; contracts are in kernels.h.
#ifndef DTCTL_KERNELS_CPU_CPU_H
#define DTCTL_KERNELS_CPU_CPU_H

#include "kernels/kernels.h"

size_t cpu_gemm_workspace(const struct kernel_ctx *ctx, enum kernel_type type, int m, int n, int k);
void cpu_gemm(struct kernel_ctx *ctx, const struct gemm_args *g);

size_t cpu_conv2d_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s);
void cpu_conv2d_forward(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                        const void *w, const void *bias, int relu, void *y);
void cpu_conv2d_backward_data(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *dy,
                              const void *w, void *dx, int accumulate);
void cpu_conv2d_backward_weight(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                                const void *dy, void *dw, int accumulate);

size_t cpu_batchnorm_workspace(const struct kernel_ctx *ctx, int64_t rows, int channels);
void cpu_bias_backward(struct kernel_ctx *ctx, int64_t rows, int cols, const void *dy, void *db,
                       int accumulate);
void cpu_batchnorm_forward_train(struct kernel_ctx *ctx, const struct batchnorm_args *a);
void cpu_batchnorm_forward_eval(struct kernel_ctx *ctx, const struct batchnorm_args *a);
void cpu_batchnorm_backward(struct kernel_ctx *ctx, const struct batchnorm_grad_args *a);

size_t cpu_layernorm_workspace(const struct kernel_ctx *ctx, int64_t rows, int cols);
void cpu_layernorm_forward(struct kernel_ctx *ctx, const struct layernorm_args *a);
void cpu_layernorm_backward(struct kernel_ctx *ctx, const struct layernorm_grad_args *a);
size_t cpu_attention_workspace(const struct kernel_ctx *ctx, const struct attention_shape *s);
void cpu_attention_forward(struct kernel_ctx *ctx, const struct attention_shape *s, const void *qkv,
                           void *y, void *lse);
void cpu_attention_backward(struct kernel_ctx *ctx, const struct attention_shape *s,
                            const void *qkv, const void *y, const void *lse, const void *dy,
                            void *dqkv);
void cpu_tokens_forward(struct kernel_ctx *ctx, const struct tokens_shape *s, const void *x,
                        const void *first, const void *pos, void *y);
void cpu_tokens_backward(struct kernel_ctx *ctx, const struct tokens_shape *s, const void *dy,
                         void *dx, void *dfirst, void *dpos, int accumulate);
void cpu_first_token_forward(struct kernel_ctx *ctx, int n, int t, int d, const void *x, void *y);
void cpu_first_token_backward(struct kernel_ctx *ctx, int n, int t, int d, const void *dy,
                              void *dx);

void cpu_maxpool_forward(struct kernel_ctx *ctx, const struct pool2d_shape *s, const void *x,
                         void *y, uint8_t *index);
void cpu_maxpool_backward(struct kernel_ctx *ctx, const struct pool2d_shape *s, const void *dy,
                          const uint8_t *index, void *dx);
void cpu_avgpool_forward(struct kernel_ctx *ctx, int n, int hw, int c, const void *x, void *y);
void cpu_avgpool_backward(struct kernel_ctx *ctx, int n, int hw, int c, const void *dy, void *dx);

void cpu_softmax_xent(struct kernel_ctx *ctx, const struct softmax_xent_args *a,
                      struct loss_totals *out);
void cpu_image_normalize(struct kernel_ctx *ctx, const struct image_args *a);

void cpu_relu_forward(struct kernel_ctx *ctx, size_t n, const void *x, void *y);
void cpu_relu_backward(struct kernel_ctx *ctx, size_t n, const void *a, const void *b, void *y);
void cpu_gelu_forward(struct kernel_ctx *ctx, size_t n, const void *x, void *y);
void cpu_gelu_backward(struct kernel_ctx *ctx, size_t n, const void *a, const void *b, void *y);
void cpu_add(struct kernel_ctx *ctx, size_t n, const void *a, const void *b, void *y);
void cpu_bf16_relu_forward(struct kernel_ctx *ctx, size_t n, const void *x, void *y);
void cpu_bf16_relu_backward(struct kernel_ctx *ctx, size_t n, const void *a, const void *b,
                            void *y);
void cpu_bf16_gelu_forward(struct kernel_ctx *ctx, size_t n, const void *x, void *y);
void cpu_bf16_gelu_backward(struct kernel_ctx *ctx, size_t n, const void *a, const void *b,
                            void *y);
void cpu_bf16_add(struct kernel_ctx *ctx, size_t n, const void *a, const void *b, void *y);
void cpu_bf16_zero(struct kernel_ctx *ctx, size_t n, void *x);
void cpu_bf16_bias_backward(struct kernel_ctx *ctx, int64_t rows, int cols, const void *dy,
                            void *db, int accumulate);
void cpu_bf16_first_token_forward(struct kernel_ctx *ctx, int n, int t, int d, const void *x,
                                  void *y);
void cpu_bf16_first_token_backward(struct kernel_ctx *ctx, int n, int t, int d, const void *dy,
                                   void *dx);
void cpu_bf16_avgpool_forward(struct kernel_ctx *ctx, int n, int hw, int c, const void *x, void *y);
void cpu_bf16_avgpool_backward(struct kernel_ctx *ctx, int n, int hw, int c, const void *dy,
                               void *dx);
void cpu_axpy(struct kernel_ctx *ctx, size_t n, double alpha, const void *x, void *y);
void cpu_scale(struct kernel_ctx *ctx, size_t n, double alpha, void *x);
void cpu_zero(struct kernel_ctx *ctx, size_t n, void *x);
void cpu_sum_squares(struct kernel_ctx *ctx, size_t n, const void *x, double *out);
void cpu_sgd(struct kernel_ctx *ctx, const struct sgd_args *a);
void cpu_adam(struct kernel_ctx *ctx, const struct adam_args *a);

#endif
