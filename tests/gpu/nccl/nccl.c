// SPDX-License-Identifier: Apache-2.0
// nccl.c: a stand-in for libnccl.so.2, between processes over shared memory. Collectives are
// enqueued into the streams of the stand-in for libcuda.so.1, and run when these do: each rank
// writes what it gives into its part of a segment, and reads what it gets when all have. Sums are
// taken in the order of ranks. Ranks that call different things, and a rank that does not come
// within EMU_NCCL_SECONDS (60), are errors that name the rank and the call. Numbers and types are
// those of nccl.h 2.28.
#include "tests/gpu/driver/cuda_abi.h"
#include "tests/gpu/nccl/segment.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Callers find these functions by name, with dlsym, and no header declares them.
#define API __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

typedef int ncclResult;
enum {
    OK = 0,
    SYSTEM_ERROR = 2,
    INVALID_ARGUMENT = 4,
    INVALID_USAGE = 5,
    REMOTE_ERROR = 6,
    IN_PROGRESS = 7
};
enum { VERSION = 22809, ID_BYTES = 128, GROUP_MAX = 256 };
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16, TYPES };
enum { SUM, PROD, MAX, MIN, AVERAGE, OPERATIONS };

struct id {
    char name[ID_BYTES];
};
struct ncclComm {
    int rank, ranks;
    unsigned splits;
    struct segment *segment;
    char name[ID_BYTES];
    int error; // asynchronous
    int users; // the caller, and calls that are enqueued
};

enum what { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECEIVE };
static const char *const names[] = {"all-reduce", "reduce-scatter", "all-gather",
                                    "broadcast",  "send",           "receive"};

struct call {
    struct ncclComm *comm;
    CUstream stream;
    enum what what;
    uint64_t from, to;
    size_t count; // of elements in the smaller buffer
    int type, operation, peer;
};
struct batch { // calls of one group and one stream, which make progress together
    int n;
    struct call call[];
};

static _Thread_local int group_depth, group_n;
static _Thread_local struct call group[GROUP_MAX];
static _Thread_local char last_error[256];

static ncclResult refuse(ncclResult code, const char *why) {
    snprintf(last_error, sizeof last_error, "%s", why);
    return code;
}

static size_t size_of(int type) {
    static const size_t sizes[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return sizes[type];
}

// ---- arithmetic ---------------------------------------------------------------------------------

static double half_get(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    double v = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    if (exponent == 31)
        v = mantissa ? (double)NAN : (double)INFINITY;
    return h & 0x8000 ? -v : v;
}

// To the nearest, ties to even.
static uint16_t half_put(double v) {
    enum { ULP_MIN = -24, INF = 0x7c00 };
    int exponent, sign = signbit(v) ? 0x8000 : 0;
    if (isnan(v))
        return 0x7e00;
    (void)frexp(v, &exponent);
    int ulp = exponent - 11 > ULP_MIN ? exponent - 11 : ULP_MIN; // of the last bit, a power of two
    double rounded = isinf(v) ? v : ldexp(rint(ldexp(fabs(v), -ulp)), ulp);
    if (fabs(rounded) >= 65536)
        return (uint16_t)(sign | INF);
    if (rounded < ldexp(1, -14))
        return (uint16_t)(sign | (int)ldexp(rounded, -ULP_MIN));
    (void)frexp(rounded, &exponent);
    return (uint16_t)(sign | (((exponent + 14) << 10) + (int)ldexp(rounded, 11 - exponent) - 1024));
}

static double get(const void *p, size_t i, int type) {
    uint32_t bits;
    float f;
    switch (type) {
    case FLOAT32: memcpy(&f, (const char *)p + 4 * i, 4); return (double)f;
    case FLOAT64: return ((const double *)p)[i];
    case FLOAT16: return half_get(((const uint16_t *)p)[i]);
    case BFLOAT16:
        bits = (uint32_t)((const uint16_t *)p)[i] << 16;
        memcpy(&f, &bits, 4);
        return (double)f;
    case INT32: return ((const int32_t *)p)[i];
    case UINT32: return ((const uint32_t *)p)[i];
    case INT8: return ((const int8_t *)p)[i];
    case UINT8: return ((const uint8_t *)p)[i];
    default: return (double)((const int64_t *)p)[i];
    }
}

static void put(void *p, size_t i, int type, double v) {
    float f = (float)v;
    uint32_t bits;
    switch (type) {
    case FLOAT32: ((float *)p)[i] = f; break;
    case FLOAT64: ((double *)p)[i] = v; break;
    case FLOAT16: ((uint16_t *)p)[i] = half_put(v); break;
    case BFLOAT16:
        memcpy(&bits, &f, 4);
        ((uint16_t *)p)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        break;
    case INT32: ((int32_t *)p)[i] = (int32_t)v; break;
    case UINT32: ((uint32_t *)p)[i] = (uint32_t)v; break;
    case INT8: ((int8_t *)p)[i] = (int8_t)v; break;
    case UINT8: ((uint8_t *)p)[i] = (uint8_t)v; break;
    default: ((int64_t *)p)[i] = (int64_t)v;
    }
}

// Elements first … first + n of what every rank gave, combined.
static void combine(const struct call *c, void *to, size_t first, size_t n) {
    const struct ncclComm *comm = c->comm;
    for (size_t i = 0; i < n; i++) {
        double v = get(segment_slot(comm->segment, 0), first + i, c->type);
        for (int r = 1; r < comm->ranks; r++) {
            double x = get(segment_slot(comm->segment, r), first + i, c->type);
            v = c->operation == PROD  ? v * x
                : c->operation == MAX ? (x > v ? x : v)
                : c->operation == MIN ? (x < v ? x : v)
                                      : v + x;
        }
        put(to, i, c->type, c->operation == AVERAGE ? v / comm->ranks : v);
    }
}

// ---- one call, when its stream has come to it
// ------------------------------------------------------------
static size_t bytes_in(const struct call *c) {
    size_t n = c->count * size_of(c->type);
    return c->what == REDUCE_SCATTER ? n * (size_t)c->comm->ranks : n;
}
static size_t bytes_out(const struct call *c) {
    size_t n = c->count * size_of(c->type);
    return c->what == ALL_GATHER ? n * (size_t)c->comm->ranks : n;
}

static void receive(const struct call *c, void *to) {
    const struct ncclComm *comm = c->comm;
    size_t bytes = c->count * size_of(c->type);
    switch (c->what) {
    case ALL_REDUCE: combine(c, to, 0, c->count); break;
    case REDUCE_SCATTER: combine(c, to, c->count * (size_t)comm->rank, c->count); break;
    case ALL_GATHER:
        for (int r = 0; r < comm->ranks; r++)
            memcpy((char *)to + (size_t)r * bytes, segment_slot(comm->segment, r), bytes);
        break;
    default: memcpy(to, segment_slot(comm->segment, c->peer), bytes); break;
    }
}

static const char *collective(const struct call *c) {
    struct ncclComm *comm = c->comm;
    char text[SEGMENT_CALL_MAX];
    bool gives = c->what != BROADCAST || comm->rank == c->peer;
    void *from = gives ? emu_bytes(c->from, bytes_in(c), 0) : NULL;
    if (gives && !from)
        return "NCCL: the bytes to send are not inside one allocation, or nobody wrote them";
    snprintf(text, sizeof text, "%s of %zu elements of type %d, operation %d, root %d",
             names[c->what], c->count, c->type, c->operation, c->what == BROADCAST ? c->peer : -1);
    if (gives)
        memcpy(segment_slot(comm->segment, comm->rank), from, bytes_in(c));
    const char *why = segment_meet(comm->segment, comm->rank, text);
    if (why)
        return why;
    void *to = emu_bytes(c->to, bytes_out(c), 1);
    if (!to)
        return "NCCL: the bytes to receive into are not inside one allocation";
    receive(c, to);
    return segment_meet(comm->segment, comm->rank, text);
}

// Sends of a batch come first, so that two ranks may exchange within a group.
static const char *point_to_point(const struct batch *b, enum what what) {
    for (int n = 0; n < b->n; n++) {
        const struct call *c = &b->call[n];
        size_t bytes = bytes_in(c);
        if (c->what != what)
            continue;
        void *mine = emu_bytes(what == SEND ? c->from : c->to, bytes, what == RECEIVE);
        if (!mine)
            return "NCCL: the bytes of a send or receive are not inside one allocation, or nobody "
                   "wrote them";
        const char *why =
            what == SEND ? segment_send(c->comm->segment, c->comm->rank, c->peer, mine, bytes)
                         : segment_receive(c->comm->segment, c->peer, c->comm->rank, mine, bytes);
        if (why)
            return why;
    }
    return NULL;
}

static const char *run(void *argument) {
    struct batch *b = argument;
    const char *why = point_to_point(b, SEND);
    for (int n = 0; !why && n < b->n; n++)
        if (b->call[n].what < SEND)
            why = collective(&b->call[n]);
    if (!why)
        why = point_to_point(b, RECEIVE);
    bool aborted = false;
    for (int n = 0; why && n < b->n; n++) {
        b->call[n].comm->error = REMOTE_ERROR;
        aborted |= segment_aborted(b->call[n].comm->segment) != 0;
    }
    return aborted ? NULL : why; // an abort ends the work, and leaves the stream alive
}

static void release(struct ncclComm *comm) {
    if (--comm->users)
        return;
    segment_close(comm->segment);
    free(comm);
}
static void drop(void *argument) {
    struct batch *b = argument;
    for (int n = 0; n < b->n; n++)
        release(b->call[n].comm);
    free(b);
}

static ncclResult flush(const struct call *calls, int n) {
    if (n == 0) // a group without calls
        return OK;
    struct batch *b = malloc(sizeof *b + (size_t)n * sizeof *b->call);
    if (!b)
        return SYSTEM_ERROR;
    b->n = n;
    memcpy(b->call, calls, (size_t)n * sizeof *b->call);
    for (int k = 0; k < n; k++)
        calls[k].comm->users++;
    // A captured graph replays the call as often as it is launched; it is dropped with the graph.
    return emu_enqueue(calls[0].stream, run, drop, b) ? SYSTEM_ERROR : OK;
}

static ncclResult enqueue(struct call c) {
    if (!c.comm || c.type < 0 || c.type >= TYPES || c.operation < 0 || c.operation >= OPERATIONS ||
        c.peer < 0 || c.peer >= c.comm->ranks)
        return refuse(INVALID_ARGUMENT, "a type, operation or rank that is not known");
    if (c.comm->error)
        return refuse(c.comm->error, "the communicator has an error");
    if (bytes_in(&c) > SEGMENT_SLOT_BYTES ||
        bytes_out(&c) > SEGMENT_SLOT_BYTES * (size_t)c.comm->ranks)
        return refuse(INVALID_USAGE, "the stand-in has no room for so many bytes in one call");
    if (!group_depth)
        return flush(&c, 1);
    if (group_n == GROUP_MAX)
        return refuse(INVALID_USAGE, "too many calls in one group");
    group[group_n++] = c;
    return OK;
}

// ---- the interface
// ---------------------------------------------------------------------------------------
API ncclResult ncclGetVersion(int *v) {
    *v = VERSION;
    return OK;
}
API ncclResult ncclGetUniqueId(struct id *id) {
    static int n;
    memset(id, 0, sizeof *id);
    snprintf(id->name, sizeof id->name, "/emu-nccl.%d.%d", (int)getpid(), n++);
    return OK;
}

static ncclResult join(struct ncclComm **out, int ranks, const char *name, int rank) {
    struct ncclComm *c = calloc(1, sizeof *c);
    if (!c || rank < 0 || rank >= ranks || ranks > SEGMENT_RANKS_MAX) {
        free(c);
        return refuse(INVALID_ARGUMENT, "a rank or number of ranks that is not possible");
    }
    *c = (struct ncclComm){.rank = rank, .ranks = ranks, .users = 1};
    snprintf(c->name, sizeof c->name, "%s", name);
    c->segment = segment_open(name, ranks);
    const char *why =
        c->segment ? segment_meet(c->segment, rank, "initialisation") : "no shared memory";
    segment_forget(name);
    if (why) {
        if (c->segment)
            segment_close(c->segment);
        free(c);
        return refuse(SYSTEM_ERROR, why);
    }
    *out = c;
    return OK;
}
API ncclResult ncclCommInitRankConfig(struct ncclComm **c, int ranks, struct id id, int rank,
                                      void *config) {
    (void)config;
    return join(c, ranks, id.name, rank);
}
API ncclResult ncclCommInitRank(struct ncclComm **c, int ranks, struct id id, int rank) {
    return join(c, ranks, id.name, rank);
}

// Ranks of one color, by key; a negative color takes part and gets none.
API ncclResult ncclCommSplit(struct ncclComm *c, int color, int key, struct ncclComm **out,
                             void *config) {
    int mine[2] = {color, key}, rank = 0, ranks = 0;
    char name[ID_BYTES];
    (void)config;
    *out = NULL;
    memcpy(segment_slot(c->segment, c->rank), mine, sizeof mine);
    const char *why = segment_meet(c->segment, c->rank, "split");
    for (int r = 0; !why && r < c->ranks; r++) {
        int its[2];
        memcpy(its, segment_slot(c->segment, r), sizeof its);
        ranks += its[0] == color;
        rank += its[0] == color && (its[1] < key || (its[1] == key && r < c->rank));
    }
    if (!why)
        why = segment_meet(c->segment, c->rank, "split, end");
    if (why)
        return refuse(SYSTEM_ERROR, why);
    if (snprintf(name, sizeof name, "%.80s.%u.%d", c->name, c->splits++, color) < 0 || color < 0)
        return OK;
    return join(out, ranks, name, rank);
}

API ncclResult ncclCommCount(const struct ncclComm *c, int *n) {
    *n = c->ranks;
    return OK;
}
API ncclResult ncclCommUserRank(const struct ncclComm *c, int *n) {
    *n = c->rank;
    return OK;
}
API ncclResult ncclCommGetAsyncError(struct ncclComm *c, int *error) {
    *error = c->error ? c->error : segment_aborted(c->segment) ? REMOTE_ERROR : OK;
    return OK;
}
API ncclResult ncclCommFinalize(struct ncclComm *c) {
    (void)c;
    return OK;
}
API ncclResult ncclCommDestroy(struct ncclComm *c) {
    release(c);
    return OK;
}
// Ends all waits in collectives of this communicator, in any process.
API ncclResult ncclCommAbort(struct ncclComm *c) {
    segment_abort(c->segment, c->rank);
    release(c);
    return OK;
}
API const char *ncclGetLastError(struct ncclComm *c) {
    (void)c;
    return last_error;
}
API const char *ncclGetErrorString(ncclResult r) {
    return r == OK             ? "no error"
           : r == REMOTE_ERROR ? "remote process exited or there was a network error"
                               : "error";
}

API ncclResult ncclGroupStart(void) {
    group_depth++;
    return OK;
}
// Calls of one stream become one piece of work; of several streams, several.
API ncclResult ncclGroupEnd(void) {
    ncclResult r = OK;
    struct call of_stream[GROUP_MAX];
    if (group_depth == 0 || --group_depth)
        return group_depth ? OK : refuse(INVALID_USAGE, "ncclGroupEnd without ncclGroupStart");
    while (group_n && r == OK) {
        CUstream s = group[0].stream;
        int n = 0, left = 0;
        for (int k = 0; k < group_n; k++) {
            if (group[k].stream == s)
                of_stream[n++] = group[k];
            else
                group[left++] = group[k];
        }
        group_n = left;
        r = flush(of_stream, n);
    }
    group_n = 0;
    return r;
}

API ncclResult ncclAllReduce(const void *from, void *to, size_t n, int type, int op,
                             struct ncclComm *c, CUstream s) {
    return enqueue((struct call){c, s, ALL_REDUCE, (uint64_t)from, (uint64_t)to, n, type, op, 0});
}
API ncclResult ncclReduceScatter(const void *from, void *to, size_t n, int type, int op,
                                 struct ncclComm *c, CUstream s) {
    return enqueue(
        (struct call){c, s, REDUCE_SCATTER, (uint64_t)from, (uint64_t)to, n, type, op, 0});
}
API ncclResult ncclAllGather(const void *from, void *to, size_t n, int type, struct ncclComm *c,
                             CUstream s) {
    return enqueue((struct call){c, s, ALL_GATHER, (uint64_t)from, (uint64_t)to, n, type, 0, 0});
}
API ncclResult ncclBroadcast(const void *from, void *to, size_t n, int type, int root,
                             struct ncclComm *c, CUstream s) {
    return enqueue((struct call){c, s, BROADCAST, (uint64_t)from, (uint64_t)to, n, type, 0, root});
}
API ncclResult ncclSend(const void *from, size_t n, int type, int peer, struct ncclComm *c,
                        CUstream s) {
    return enqueue((struct call){c, s, SEND, (uint64_t)from, 0, n, type, 0, peer});
}
API ncclResult ncclRecv(void *to, size_t n, int type, int peer, struct ncclComm *c, CUstream s) {
    return enqueue((struct call){c, s, RECEIVE, 0, (uint64_t)to, n, type, 0, peer});
}
