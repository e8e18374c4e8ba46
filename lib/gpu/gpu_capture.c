// SPDX-License-Identifier: Apache-2.0
// Captures work once as a CUDA graph, to launch it again (trainer_async.c decides when), and copies
// small results that the host reads later.
#include "gpu/gpu_impl.h"

#include <assert.h>
#include <string.h>

static CUdeviceptr address(const void *p) {
    return (CUdeviceptr)(uintptr_t)p;
}

// NCCL may take its calls in a thread of its own, and makes what it needs there.
void gpu_capture_begin(struct gpu_context *ctx) {
    ctx->uncaptured = ctx->gpu->driver.capture_begin(ctx->stream, CU_CAPTURE_THREAD_LOCAL);
}

void *gpu_capture_end(struct gpu_context *ctx, const char **why) {
    const struct gpu_driver *d = &ctx->gpu->driver;
    CUgraph graph = NULL;
    CUgraphExec made = NULL;
    CUresult r = ctx->uncaptured;
    if (r == CUDA_SUCCESS)
        r = d->capture_end(ctx->stream, &graph);
    if (r == CUDA_SUCCESS)
        r = d->graph_make(&made, graph, 0);
    if (graph)
        (void)d->graph_free(graph);
    *why = ctx->failure[0] ? ctx->failure : gpu_driver_error(d, r);
    if (r == CUDA_SUCCESS && !ctx->failure[0])
        return made;
    if (made)
        (void)d->graph_exec_free(made);
    return NULL;
}

void gpu_capture_replay(struct gpu_context *ctx, void *captured) {
    if (!ctx->failure[0])
        gpu_context_good(ctx, ctx->gpu->driver.graph_launch(captured, ctx->stream),
                         "launching a graph");
}

void gpu_capture_free(struct gpu_context *ctx, void *captured) {
    if (captured)
        (void)ctx->gpu->driver.graph_exec_free(captured);
}

void gpu_late_start(struct gpu_context *ctx, int slot, const void *from, size_t bytes) {
    static const char what[] = "reading the results of a step";
    const struct gpu_driver *d = &ctx->gpu->driver;
    assert(slot >= 0 && slot < LATE_READS && bytes <= LATE_BYTES_MAX);
    struct gpu_stage *s = &ctx->late[slot];
    if (ctx->failure[0] ||
        (!s->bytes && !gpu_context_good(ctx, gpu_stage_make(ctx, s, LATE_BYTES_MAX, false), what)))
        return;
    if (gpu_context_good(ctx, d->copy_out(s->host, address(from), bytes, ctx->stream), what))
        gpu_context_good(ctx, d->event_record(s->used, ctx->stream), what);
}

void gpu_late_end(struct gpu_context *ctx, int slot, void *to, size_t bytes) {
    struct gpu_stage *s = &ctx->late[slot];
    if (!ctx->failure[0] && gpu_context_await(ctx, s->used))
        memcpy(to, s->host, bytes);
    else
        memset(to, 0, bytes);
}
