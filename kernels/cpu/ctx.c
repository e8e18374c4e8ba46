// SPDX-License-Identifier: Apache-2.0
// Opens and closes the context of the CPU backends.
#include "kernels/cpu/ctx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/thread_pool.h"

enum { workers_max = 1024, align_bytes = 64 };
// From this size on memory comes straight from the system, aligned for large pages.
static const size_t map_bytes_min = 1 << 20;
static const size_t large_page_bytes = 2 << 20;

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

// Maps whole large pages: takes one more than needed and gives back both ends.
static void *map_large(size_t bytes) {
    size_t size = round_up(bytes, large_page_bytes), all = size + large_page_bytes;
    if (all < bytes)
        return NULL;
    unsigned char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t head = (large_page_bytes - (uintptr_t)p % large_page_bytes) % large_page_bytes;
    if (head > 0)
        munmap(p, head);
    if (large_page_bytes - head > 0)
        munmap(p + head + size, large_page_bytes - head);
    madvise(p + head, size, MADV_HUGEPAGE); // advice: without it the pages are small
    return p + head;
}

void *ctx_mem_alloc(struct kernel_ctx *ctx, size_t bytes) {
    (void)ctx;
    if (bytes >= map_bytes_min)
        return map_large(bytes);
    size_t size = round_up(bytes ? bytes : 1, align_bytes);
    void *p = aligned_alloc(align_bytes, size);
    return p ? memset(p, 0, size) : NULL;
}

void ctx_mem_free(struct kernel_ctx *ctx, void *p, size_t bytes) {
    (void)ctx;
    if (p && bytes >= map_bytes_min)
        munmap(p, round_up(bytes, large_page_bytes));
    else
        free(p);
}

void ctx_mem_write(struct kernel_ctx *ctx, void *dst, const void *host_src, size_t bytes) {
    (void)ctx;
    memcpy(dst, host_src, bytes);
}

void ctx_mem_read(struct kernel_ctx *ctx, void *host_dst, const void *src, size_t bytes) {
    (void)ctx;
    memcpy(host_dst, src, bytes);
}

// Denormal numbers cost some processors a hundred cycles each, and training makes them: a moment
// whose gradient is gone decays through them. In float they are below 1.2e-38.
#if defined(__x86_64__)
enum { FLUSH_BITS = 1 << 15 | 1 << 6 }; // MXCSR: results, operands
static unsigned read_mode(void) {
    return __builtin_ia32_stmxcsr();
}
static void write_mode(unsigned mode) {
    __builtin_ia32_ldmxcsr(mode);
}
#elif defined(__aarch64__)
enum { FLUSH_BITS = 1 << 24 }; // FPCR.FZ: both
static unsigned read_mode(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return (unsigned)mode;
}
static void write_mode(unsigned mode) {
    __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)mode));
}
#else
enum { FLUSH_BITS = 0 };
static unsigned read_mode(void) {
    return 0;
}
static void write_mode(unsigned mode) {
    (void)mode;
}
#endif

int ctx_open(struct kernel_ctx **out, const struct kernel_config *cfg, const struct cpu_isa *isa,
             const char *isa_name) {
    int workers = cfg->threads < 1 ? 1 : cfg->threads;
    if (workers > workers_max)
        return -EINVAL;
    struct kernel_ctx *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return -ENOMEM;
    ctx->workers = workers;
    ctx->isa = isa;
    ctx->isa_name = isa_name;
    ctx->winograd = cfg->winograd;
    ctx->keep = cfg->keep;
    if (isa)
        memcpy(ctx->type, isa->type, sizeof ctx->type);
    // Threads of the pool inherit the caller's mode. The reference backends keep IEEE arithmetic.
    ctx->mode = read_mode();
    if (isa)
        write_mode(ctx->mode | FLUSH_BITS);
    // A pool of one is only made to pin the caller.
    int rc = workers > 1 || cfg->cpus ? thread_pool_open(&ctx->pool, workers, cfg->cpus) : 0;
    if (rc < 0) {
        write_mode(ctx->mode);
        free(ctx);
        return rc;
    }
    *out = ctx;
    return 0;
}

void ctx_close(struct kernel_ctx *ctx) {
    if (!ctx)
        return;
    thread_pool_close(ctx->pool);
    write_mode((read_mode() & ~(unsigned)FLUSH_BITS) | (ctx->mode & FLUSH_BITS));
    ctx_mem_free(ctx, ctx->work, ctx->work_bytes);
    free(ctx);
}

int ctx_reserve(struct kernel_ctx *ctx, size_t bytes) {
    if (bytes <= ctx->work_bytes)
        return 0;
    unsigned char *work = ctx_mem_alloc(ctx, bytes);
    if (!work)
        return -ENOMEM;
    ctx_mem_free(ctx, ctx->work, ctx->work_bytes);
    ctx->work = work;
    ctx->work_bytes = bytes;
    return 0;
}

const char *ctx_isa(const struct kernel_ctx *ctx) {
    return ctx->isa_name;
}

void ctx_parallel(struct kernel_ctx *ctx, void (*fn)(void *arg, int worker, int workers),
                  void *arg) {
    if (ctx->workers == 1)
        fn(arg, 0, 1);
    else
        thread_pool_run(ctx->pool, fn, arg);
}
