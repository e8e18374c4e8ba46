// SPDX-License-Identifier: Apache-2.0
// stream.c: streams and events of the stand-in: what is enqueued, and when it runs.
#include "tests/gpu/driver/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POISON = 0xa5, STREAMS_MAX = 256, NAP_NS = 50000 };
API const char emu_again[] = "again";

struct stream *streams;
uint64_t schedule;

uint32_t driver_random(uint32_t n) {
    schedule = schedule * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((schedule >> 33) % n);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// ---- what an operation does
// ----------------------------------------------------------------------
static CUresult outside(const char *what, CUdeviceptr p, size_t n) {
    return driver_broken("%s of %zu bytes at 0x%llx, which is not inside one allocation", what, n,
                         (unsigned long long)p);
}

static CUresult copy(const struct op *o) {
    void *to = o->kind == K_TO_HOST ? o->host : ptx_host(o->to, o->bytes);
    void *from = o->kind == K_TO_DEVICE ? o->host : ptx_host(o->from, o->bytes);
    if (!to || !from)
        return outside("copy", to ? o->from : o->to, o->bytes);
    if (o->kind != K_TO_DEVICE && !ptx_written(o->from, o->bytes))
        return driver_broken("copy of %zu bytes, of which nobody wrote some", o->bytes);
    memmove(to, from, o->bytes);
    if (o->kind != K_TO_HOST)
        ptx_wrote(o->to, o->bytes);
    return 0;
}

static CUresult fill(const struct op *o) {
    unsigned char *to = ptx_host(o->to, o->bytes);
    if (!to)
        return outside("fill", o->to, o->bytes);
    memcpy(to, &o->value, o->bytes < o->width ? o->bytes : o->width);
    for (size_t n = o->width; n < o->bytes; n *= 2)
        memcpy(to + n, to, n < o->bytes - n ? n : o->bytes - n);
    ptx_wrote(o->to, o->bytes);
    return 0;
}

static CUresult launch(struct op *o) {
    char text[PTX_TEXT_MAX];
    o->launch.params = o->params;
    o->launch.seed = driver_random(UINT32_MAX) + 1u;
    o->launch.same_values = driver_setting("EMU_SAME_VALUES", 0) != 0;
    return ptx_run(o->k, &o->launch, text) ? driver_broken("%s", text) : 0;
}

static CUresult work(const struct op *o) {
    const struct timespec nap = {.tv_nsec = NAP_NS};
    const char *why = o->work(o->argument);
    if (why == emu_again) {
        nanosleep(&nap, NULL);
        return OP_AGAIN;
    }
    return why ? driver_broken("%s", why) : 0;
}

CUresult op_run(struct op *o) {
    switch (o->kind) {
    case K_LAUNCH: return launch(o);
    case K_TO_DEVICE:
    case K_TO_HOST:
    case K_ON_DEVICE: return copy(o);
    case K_FILL: return fill(o);
    case K_RECORD:
        o->event->done = o->tick;
        o->event->at = now();
        return 0;
    case K_HOST:
        driver_in_host(true);
        o->function(o->argument);
        driver_in_host(false);
        return 0;
    case K_WORK: return work(o);
    case K_GRAPH: return graph_run(o->graph);
    case K_WAIT: return 0;
    }
    return 0;
}

void op_drop(struct op *o) {
    free(o->params);
    if (o->drop)
        o->drop(o->argument);
    if (o->graph)
        graph_release(o->graph);
}

// ---- queues ------------------------------------------------------------------------------------
CUresult stream_push(struct stream *s, struct op *o) {
    CUresult r = driver_state();
    if (!r && !s)
        r = driver_fail(CUDA_ERROR_INVALID_HANDLE,
                        "the stand-in has no default stream: create one");
    if (r || !s) {
        op_drop(o);
        return r;
    }
    if (s->capture)
        return graph_add(s, o);
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->queue = realloc(s->queue, s->cap * sizeof *s->queue);
        if (!s->queue)
            abort();
    }
    s->queue[s->n++] = *o;
    return 0;
}

static bool is_empty(const struct stream *s) {
    return s->from == s->n;
}

static bool may_run(const struct stream *s) {
    const struct op *o = &s->queue[s->from];
    return !is_empty(s) && (o->kind != K_WAIT || o->event->done >= o->tick);
}

static CUresult run_first(struct stream *s) {
    struct op o = s->queue[s->from];
    CUresult r = op_run(&o);
    if (r == OP_AGAIN)
        return 0;
    s->from++;
    if (is_empty(s))
        s->from = s->n = 0;
    op_drop(&o);
    return r;
}

// Any stream that may continue; `wanted` half of the time.
static struct stream *choose(struct stream *wanted) {
    struct stream *ready[STREAMS_MAX];
    uint32_t n = 0;
    if (wanted && may_run(wanted) && driver_random(2))
        return wanted;
    for (struct stream *s = streams; s && n < STREAMS_MAX; s = s->next)
        if (may_run(s))
            ready[n++] = s;
    return n ? ready[driver_random(n)] : NULL;
}

CUresult stream_progress(void) {
    struct stream *s = choose(NULL);
    return s ? run_first(s) : 0;
}

CUresult stream_drain(struct stream *wanted) {
    CUresult r = 0;
    while (!r) {
        struct stream *left = wanted && !is_empty(wanted) ? wanted : NULL;
        for (struct stream *s = streams; !wanted && s; s = s->next)
            left = is_empty(s) ? left : s;
        if (!left)
            return 0;
        struct stream *s = choose(wanted);
        r = s ? run_first(s)
              : driver_broken("deadlock: every stream waits for an event that nobody will record");
    }
    return r;
}

// ---- the interface
// -------------------------------------------------------------------------------
#define LOCKED(body)                                                                               \
    driver_lock();                                                                                 \
    CUresult r = (body);                                                                           \
    driver_unlock();                                                                               \
    return r

static CUresult create(CUstream *s) {
    CUresult r = driver_state();
    if (r)
        return r;
    *s = calloc(1, sizeof **s);
    if (!*s)
        abort();
    (*s)->next = streams;
    streams = *s;
    return 0;
}
API CUresult cuStreamCreate(CUstream *s, unsigned flags) {
    (void)flags;
    LOCKED(create(s));
}
API CUresult cuStreamCreateWithPriority(CUstream *s, unsigned flags, int priority) {
    (void)flags;
    (void)priority;
    LOCKED(create(s));
}

static CUresult destroy(CUstream s) {
    CUresult r = driver_unsafe("cuStreamDestroy");
    if (!r)
        r = stream_drain(s);
    struct stream **at = &streams;
    while (*at && *at != s)
        at = &(*at)->next;
    if (!*at)
        return driver_fail(CUDA_ERROR_INVALID_HANDLE, "no such stream");
    *at = s->next;
    for (size_t n = s->from; n < s->n; n++)
        op_drop(&s->queue[n]);
    free(s->queue);
    free(s);
    return r;
}
API CUresult cuStreamDestroy_v2(CUstream s) {
    LOCKED(destroy(s));
}

static CUresult synchronise(CUstream s, bool wait) {
    CUresult r = driver_state();
    if (r)
        return r;
    if (!s)
        return driver_fail(CUDA_ERROR_INVALID_HANDLE, "the stand-in has no default stream");
    if (s->capture)
        return driver_unsafe("synchronisation with a stream");
    r = wait ? stream_drain(s) : stream_progress();
    return r ? r : is_empty(s) ? 0 : CUDA_ERROR_NOT_READY;
}
API CUresult cuStreamSynchronize(CUstream s) {
    LOCKED(synchronise(s, true));
}
API CUresult cuStreamQuery(CUstream s) {
    LOCKED(synchronise(s, false));
}

API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s) {
    struct op o = {.kind = K_TO_DEVICE, .to = to, .host = (void *)(uintptr_t)from, .bytes = n};
    LOCKED(stream_push(s, &o));
}
// Until the copy has run, the host sees neither old nor new bytes there.
API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s) {
    struct op o = {.kind = K_TO_HOST, .host = to, .from = from, .bytes = n};
    if (s && !s->capture)
        memset(to, POISON, n);
    LOCKED(stream_push(s, &o));
}
API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    struct op o = {.kind = K_ON_DEVICE, .to = to, .from = from, .bytes = n};
    LOCKED(stream_push(s, &o));
}
API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s) {
    struct op o = {.kind = K_FILL, .to = to, .value = v, .width = 1, .bytes = n};
    LOCKED(stream_push(s, &o));
}
API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned v, size_t n, CUstream s) {
    struct op o = {.kind = K_FILL, .to = to, .value = v, .width = 4, .bytes = 4 * n};
    LOCKED(stream_push(s, &o));
}
API CUresult cuLaunchHostFunc(CUstream s, CUhostFn *f, void *argument) {
    struct op o = {.kind = K_HOST, .function = f, .argument = argument};
    LOCKED(stream_push(s, &o));
}
API CUresult emu_enqueue(CUstream s, emu_work *does, void (*drop)(void *), void *argument) {
    struct op o = {.kind = K_WORK, .work = does, .drop = drop, .argument = argument};
    LOCKED(stream_push(s, &o));
}

static unsigned dynamic_max =
    PTX_SHARED_STATIC_MAX; // what a kernel may have without asking for more
API CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value) {
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return driver_fail(CUDA_ERROR_INVALID_VALUE, "the attribute %d of a kernel is not known",
                           attribute);
    if (value < 0 || (size_t)value + ptx_static_shared(f) > PTX_SHARED_MAX)
        return driver_fail(CUDA_ERROR_INVALID_VALUE, "%d bytes of dynamic shared memory", value);
    dynamic_max = (unsigned)value > dynamic_max ? (unsigned)value : dynamic_max;
    return 0;
}

// Everything that a driver refuses at once: sizes, limits. The parameters are copied here.
static CUresult enqueue_launch(struct op *o, CUstream s, void **params) {
    const unsigned *g = o->launch.grid, *b = o->launch.block;
    uint64_t threads = (uint64_t)b[0] * b[1] * b[2];
    if (!g[0] || !g[1] || !g[2] || !threads || g[0] > INT32_MAX || g[1] > 65535 || g[2] > 65535 ||
        b[2] > 64 || threads > ptx_threads_max(o->k))
        return driver_fail(CUDA_ERROR_INVALID_VALUE,
                           "launch of '%s' with (%u, %u, %u) blocks of (%u, %u, %u)",
                           ptx_name(o->k), g[0], g[1], g[2], b[0], b[1], b[2]);
    if (o->launch.dynamic_shared > dynamic_max)
        return driver_fail(CUDA_ERROR_INVALID_VALUE,
                           "launch of '%s' with %zu bytes of dynamic shared memory: "
                           "cuFuncSetAttribute allows more than %u",
                           ptx_name(o->k), o->launch.dynamic_shared, dynamic_max);
    o->params = calloc(1, PTX_PARAMS_MAX);
    if (!o->params)
        abort();
    for (size_t n = 0; n < ptx_param_count(o->k); n++) {
        size_t offset, bytes;
        ptx_param(o->k, n, &offset, &bytes);
        memcpy(o->params + offset, params[n], bytes);
    }
    return stream_push(s, o);
}
API CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream s, void **params,
                            void **extra) {
    struct op o = {.kind = K_LAUNCH, .k = f};
    o.launch =
        (struct ptx_launch){.grid = {gx, gy, gz}, .block = {bx, by, bz}, .dynamic_shared = shared};
    if (extra)
        return driver_fail(CUDA_ERROR_INVALID_VALUE, "cuLaunchKernel with extra is not known");
    LOCKED(enqueue_launch(&o, s, params));
}

// ---- events
// --------------------------------------------------------------------------------------
API CUresult cuEventCreate(CUevent *e, unsigned flags) {
    (void)flags;
    *e = calloc(1, sizeof **e);
    return *e ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}
API CUresult cuEventDestroy_v2(CUevent e) {
    driver_lock();
    CUresult r = driver_unsafe("cuEventDestroy");
    if (!r)
        r = stream_drain(NULL); // nothing that names it is left in a queue
    free(e);
    driver_unlock();
    return r;
}
static CUresult record(CUevent e, CUstream s) {
    struct op o = {.kind = K_RECORD, .event = e};
    if (s && s->capture)
        return graph_record(s, e);
    e->capture = 0;
    o.tick = ++e->recorded;
    return stream_push(s, &o);
}

// EMU_LOSE_CALL=n leaves out what the n-th place of the program, from 0, has called of
// cuEventRecord and cuStreamWaitEvent, in the order of their first calls. EMU_CALL_REPORT=1 says
// each place.
static bool lost(void *place) {
    enum { PLACES_MAX = 64 };
    static void *places[PLACES_MAX];
    static long n;
    long at = 0;
    while (at < n && places[at] != place)
        at++;
    if (at == n && n < PLACES_MAX) {
        places[n++] = place;
        if (driver_setting("EMU_CALL_REPORT", 0))
            fprintf(stderr, "emulated CUDA: event place %ld\n", at);
    }
    return at == driver_setting("EMU_LOSE_CALL", -1);
}
API CUresult cuEventRecord(CUevent e, CUstream s) {
    void *place = __builtin_return_address(0);
    LOCKED(lost(place) ? 0 : record(e, s));
}

static CUresult wait(CUstream s, CUevent e) {
    struct op o = {.kind = K_WAIT, .event = e, .tick = e->recorded};
    if (s && (s->capture || e->capture))
        return graph_wait(s, e);
    return stream_push(s, &o);
}
API CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
    (void)flags;
    void *place = __builtin_return_address(0);
    LOCKED(lost(place) ? 0 : wait(s, e));
}
static CUresult reached(CUevent e, bool waits) {
    CUresult r = driver_state();
    if (!r && e->capture)
        return driver_fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                           "the event was recorded in a capture");
    if (!r && !waits && e->done < e->recorded)
        r = stream_progress();
    while (!r && waits && e->done < e->recorded) {
        struct stream *s = choose(NULL);
        r = s ? run_first(s) : driver_broken("deadlock: nobody will record the event");
    }
    return r ? r : e->done < e->recorded ? CUDA_ERROR_NOT_READY : 0;
}
API CUresult cuEventQuery(CUevent e) {
    LOCKED(reached(e, false));
}
API CUresult cuEventSynchronize(CUevent e) {
    LOCKED(reached(e, true));
}
API CUresult cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to) {
    *ms = (float)((to->at - from->at) * 1e3);
    return from->done && to->done ? 0 : CUDA_ERROR_NOT_READY;
}
