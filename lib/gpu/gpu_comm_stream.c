// SPDX-License-Identifier: Apache-2.0
// Streams of collectives, beside that of the operations. Events keep them in order.
#include "gpu/gpu_impl.h"

#include <assert.h>

static const char what[] = "a stream of collectives";

static bool event_of(struct gpu_context *ctx, CUevent *e) {
    return *e ||
           gpu_context_good(ctx, ctx->gpu->driver.event_new(e, CU_EVENT_DISABLE_TIMING), what);
}

void *gpu_comm_stream_begin(struct gpu_context *ctx, int queue) {
    const struct gpu_driver *d = &ctx->gpu->driver;
    assert(queue >= 0 && queue < BESIDE_QUEUES);
    CUstream *stream = &ctx->comm_stream[queue];
    if (!*stream && !gpu_context_good(ctx, d->stream_new(stream, CU_STREAM_NON_BLOCKING), what))
        return NULL;
    if (event_of(ctx, &ctx->ready) &&
        gpu_context_good(ctx, d->event_record(ctx->ready, ctx->stream), what))
        gpu_context_good(ctx, d->stream_wait(*stream, ctx->ready, 0), what);
    return *stream;
}

void gpu_comm_stream_end(struct gpu_context *ctx, int queue, int mark) {
    assert(mark >= 0 && mark < BESIDE_MARKS_MAX);
    if (event_of(ctx, &ctx->mark[mark]))
        gpu_context_good(
            ctx, ctx->gpu->driver.event_record(ctx->mark[mark], ctx->comm_stream[queue]), what);
}

void gpu_comm_stream_await(struct gpu_context *ctx, int mark) {
    if (ctx->mark[mark])
        gpu_context_good(ctx, ctx->gpu->driver.stream_wait(ctx->stream, ctx->mark[mark], 0), what);
}

int gpu_comm_stream_done(struct gpu_context *ctx, int mark) {
    return !ctx->mark[mark] ||
           ctx->gpu->driver.event_query(ctx->mark[mark]) != CUDA_ERROR_NOT_READY;
}

void gpu_comm_stream_close(struct gpu_context *ctx) {
    const struct gpu_driver *d = &ctx->gpu->driver;
    for (int i = 0; i < BESIDE_MARKS_MAX; i++)
        if (ctx->mark[i])
            (void)d->event_free(ctx->mark[i]);
    if (ctx->ready)
        (void)d->event_free(ctx->ready);
    for (int i = 0; i < BESIDE_QUEUES; i++)
        if (ctx->comm_stream[i])
            (void)d->stream_free(ctx->comm_stream[i]);
}
