// SPDX-License-Identifier: Apache-2.0
// The table of the CPU backend, with the inner loops of this processor.
#include "kernels/cpu/cpu.h"

#include <errno.h>
#include <string.h>

#include "kernels/cpu/conv_work.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/winograd.h"

static int always(void) {
    return 1;
}

#if defined(__x86_64__)
// Intel's processors multiply vectors of bfloat16 at half the speed of floats: rounded floats are
// faster there.
static int not_intel(void) {
    return !__builtin_cpu_is("intel");
}
#endif

// Best first. bf16: what multiplies bfloat16 better than the instruction set's own.
static const struct isa_choice {
    const char *name;
    const struct cpu_isa *isa;
    const struct cpu_type *bf16;
    int (*usable)(void); // besides the instruction set
    int (*good)(void);   // where no name is given
} choices[] = {
#if defined(__x86_64__)
    {"avx512-amx", &isa_avx512, &type_amx, type_amx_usable, always},
    {"avx512-bf16", &isa_avx512, &type_avx512_bf16, type_avx512_bf16_usable, not_intel},
    {"avx512", &isa_avx512, NULL, always, always},
    {"avx2", &isa_avx2, NULL, always, always},
#endif
    {"base", &isa_base, NULL, always, always},
};
enum { choice_count = sizeof choices / sizeof choices[0] };

static int cpu_open(struct kernel_ctx **out, const struct kernel_config *cfg) {
    for (int i = 0; i < choice_count; i++) {
        const struct isa_choice *c = &choices[i];
        int named = cfg->isa && strcmp(cfg->isa, c->name) == 0,
            here = c->isa->usable() && c->usable();
        if (named && !here)
            return -ENOTSUP;
        if (!named && (cfg->isa || !here || !c->good()))
            continue;
        int rc = ctx_open(out, cfg, c->isa, c->name);
        if (rc == 0 && c->bf16)
            (*out)->type[KERNEL_BF16] = *c->bf16;
        return rc;
    }
    return -EINVAL;
}

size_t cpu_conv2d_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    if (conv_by_patches(s))
        return conv_patch_workspace(ctx, s);
    size_t rows = cpu_conv2d_rows_workspace(ctx, s), weight = cpu_conv2d_weight_workspace(ctx, s);
    size_t direct = rows > weight ? rows : weight, winograd = winograd_workspace(ctx, s);
    return direct > winograd ? direct : winograd;
}

static const struct kernel_stored cpu_bf16 = {
    .bias_backward = cpu_bf16_bias_backward,
    .first_token_forward = cpu_bf16_first_token_forward,
    .first_token_backward = cpu_bf16_first_token_backward,
    .avgpool_forward = cpu_bf16_avgpool_forward,
    .avgpool_backward = cpu_bf16_avgpool_backward,
    .relu_forward = cpu_bf16_relu_forward,
    .relu_backward = cpu_bf16_relu_backward,
    .gelu_forward = cpu_bf16_gelu_forward,
    .gelu_backward = cpu_bf16_gelu_backward,
    .add = cpu_bf16_add,
    .zero = cpu_bf16_zero,
};

// Without AMX products take as long as all that moves numbers, and convert them in any case.
static int cpu_keeps_bf16(const struct kernel_ctx *ctx) {
    return ctx->keep == KERNEL_KEEP_ALWAYS ||
           (ctx->keep == KERNEL_KEEP_AUTO && ctx->type[KERNEL_BF16].spaced);
}

const struct kernel_backend kernels_cpu = {
    .name = "cpu",
    .real_bytes = sizeof(float),
    .open = cpu_open,
    .close = ctx_close,
    .reserve = ctx_reserve,
    .isa = ctx_isa,
    .mem_alloc = ctx_mem_alloc,
    .mem_free = ctx_mem_free,
    .mem_write = ctx_mem_write,
    .mem_read = ctx_mem_read,
    .bf16 = &cpu_bf16,
    .keeps_bf16 = cpu_keeps_bf16,
    .gemm_workspace = cpu_gemm_workspace,
    .conv2d_workspace = cpu_conv2d_workspace,
    .batchnorm_workspace = cpu_batchnorm_workspace,
    .bias_workspace = cpu_batchnorm_workspace,
    .layernorm_workspace = cpu_layernorm_workspace,
    .attention_workspace = cpu_attention_workspace,
    .gemm = cpu_gemm,
    .conv2d_forward = cpu_conv2d_forward,
    .conv2d_backward_data = cpu_conv2d_backward_data,
    .conv2d_backward_weight = cpu_conv2d_backward_weight,
    .bias_backward = cpu_bias_backward,
    .batchnorm_forward_train = cpu_batchnorm_forward_train,
    .batchnorm_forward_eval = cpu_batchnorm_forward_eval,
    .batchnorm_backward = cpu_batchnorm_backward,
    .layernorm_forward = cpu_layernorm_forward,
    .layernorm_backward = cpu_layernorm_backward,
    .gelu_forward = cpu_gelu_forward,
    .gelu_backward = cpu_gelu_backward,
    .attention_forward = cpu_attention_forward,
    .attention_backward = cpu_attention_backward,
    .tokens_forward = cpu_tokens_forward,
    .tokens_backward = cpu_tokens_backward,
    .first_token_forward = cpu_first_token_forward,
    .first_token_backward = cpu_first_token_backward,
    .maxpool_forward = cpu_maxpool_forward,
    .maxpool_backward = cpu_maxpool_backward,
    .avgpool_forward = cpu_avgpool_forward,
    .avgpool_backward = cpu_avgpool_backward,
    .softmax_xent = cpu_softmax_xent,
    .relu_forward = cpu_relu_forward,
    .relu_backward = cpu_relu_backward,
    .add = cpu_add,
    .axpy = cpu_axpy,
    .scale = cpu_scale,
    .zero = cpu_zero,
    .sum_squares = cpu_sum_squares,
    .sgd = cpu_sgd,
    .adam = cpu_adam,
    .parallel = ctx_parallel,
    .image_normalize = cpu_image_normalize,
};
