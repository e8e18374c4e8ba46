// SPDX-License-Identifier: Apache-2.0
// The context of the CPU backends: worker threads, workspace, chosen instruction set. The caller of
// ctx_open owns it; one thread uses it at a time. Sizes in bytes.
#ifndef DTCTL_KERNELS_CPU_CTX_H
#define DTCTL_KERNELS_CPU_CTX_H

#include "kernels/cpu/isa.h"
#include "kernels/kernels.h"

struct thread_pool;

struct kernel_ctx {
    struct thread_pool *pool;  // NULL with one worker
    int workers;               // >= 1
    unsigned mode;             // of the caller's arithmetic before ctx_open
    const struct cpu_isa *isa; // NULL in the reference backends
    const char *isa_name;
    enum kernel_winograd winograd;
    enum kernel_keep keep;
    struct cpu_type type[KERNEL_TYPES]; // how products are made here
    unsigned char *work;                // scratch of the op that runs now
    size_t work_bytes;
};

// The functions for context and memory in every CPU backend's table.
int ctx_open(struct kernel_ctx **out, const struct kernel_config *cfg, const struct cpu_isa *isa,
             const char *isa_name);
void ctx_close(struct kernel_ctx *ctx);
int ctx_reserve(struct kernel_ctx *ctx, size_t bytes);
const char *ctx_isa(const struct kernel_ctx *ctx);
void *ctx_mem_alloc(struct kernel_ctx *ctx, size_t bytes);
void ctx_mem_free(struct kernel_ctx *ctx, void *p, size_t bytes);
void ctx_mem_write(struct kernel_ctx *ctx, void *dst, const void *host_src, size_t bytes);
void ctx_mem_read(struct kernel_ctx *ctx, void *host_dst, const void *src, size_t bytes);
void ctx_parallel(struct kernel_ctx *ctx, void (*fn)(void *arg, int worker, int workers),
                  void *arg);
// A worker's tiles of a type are made between these two.
static inline void ctx_open_tiles(const struct cpu_type *type) {
    if (type->open)
        type->open();
}
static inline void ctx_close_tiles(const struct cpu_type *type) {
    if (type->close)
        type->close();
}

#endif
