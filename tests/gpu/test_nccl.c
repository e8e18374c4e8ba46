// SPDX-License-Identifier: Apache-2.0
// test_nccl.c: the stand-in for libnccl.so.2 between processes, over the stand-in for libcuda.so.1,
// both found by dlopen. Each scenario runs in one process for each rank.
#include "tests/gpu/driver/cuda_abi.h"
#include "tests/tap.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 1000, FLOAT32 = 7, BFLOAT16 = 9, SUM = 0, MAX = 2, AVERAGE = 4, REMOTE_ERROR = 6 };
enum { RANKS_MAX = 4, BAD = 1, TIMES = 16 };
struct id {
    char bytes[128];
};
typedef struct comm *comm;

#define CALLS(X)                                                                                   \
    X(cuda, cuInit, unsigned)                                                                      \
    X(cuda, cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)                                       \
    X(cuda, cuCtxSetCurrent, CUcontext)                                                            \
    X(cuda, cuStreamCreate, CUstream *, unsigned)                                                  \
    X(cuda, cuStreamSynchronize, CUstream)                                                         \
    X(cuda, cuMemAlloc_v2, CUdeviceptr *, size_t)                                                  \
    X(cuda, cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, size_t, CUstream)                     \
    X(cuda, cuMemcpyDtoHAsync_v2, void *, CUdeviceptr, size_t, CUstream)                           \
    X(nccl, ncclGetVersion, int *)                                                                 \
    X(nccl, ncclGetUniqueId, struct id *)                                                          \
    X(nccl, ncclCommInitRankConfig, comm *, int, struct id, int, void *)                           \
    X(nccl, ncclCommSplit, comm, int, int, comm *, void *)                                         \
    X(nccl, ncclCommCount, comm, int *)                                                            \
    X(nccl, ncclCommGetAsyncError, comm, int *)                                                    \
    X(nccl, ncclCommAbort, comm)                                                                   \
    X(nccl, ncclCommDestroy, comm)                                                                 \
    X(nccl, ncclGroupStart, void)                                                                  \
    X(nccl, ncclGroupEnd, void)                                                                    \
    X(nccl, ncclAllReduce, const void *, void *, size_t, int, int, comm, CUstream)                 \
    X(nccl, ncclReduceScatter, const void *, void *, size_t, int, int, comm, CUstream)             \
    X(nccl, ncclAllGather, const void *, void *, size_t, int, comm, CUstream)                      \
    X(nccl, ncclBroadcast, const void *, void *, size_t, int, int, comm, CUstream)                 \
    X(nccl, ncclSend, const void *, size_t, int, int, comm, CUstream)                              \
    X(nccl, ncclRecv, void *, size_t, int, int, comm, CUstream)
static struct {
#define X(lib, name, ...) int (*name)(__VA_ARGS__);
    CALLS(X)
#undef X
    const char *(*emu_fault)(void);
} dl;

static CUstream stream;
static CUdeviceptr in, out;
static int rank, ranks;

static void *ptr(CUdeviceptr p) {
    return (void *)(uintptr_t)p;
}

// The input of rank r at place i.
static float given(int r, int i) {
    return (float)((i * 31 + r * 17) % 100) - 40;
}

static bool begin(struct id id, comm *c) {
    CUcontext context;
    float host[WORDS];
    for (int i = 0; i < WORDS; i++)
        host[i] = given(rank, i);
    bool good =
        !dl.cuInit(0) && !dl.cuDevicePrimaryCtxRetain(&context, 0) &&
        !dl.cuCtxSetCurrent(context) && !dl.cuStreamCreate(&stream, 1) &&
        !dl.cuMemAlloc_v2(&in, sizeof host) && !dl.cuMemAlloc_v2(&out, RANKS_MAX * sizeof host) &&
        !dl.cuMemcpyHtoDAsync_v2(in, host, sizeof host, stream) && !dl.cuStreamSynchronize(stream);
    return good && !dl.ncclCommInitRankConfig(c, ranks, id, rank, NULL);
}

// The first n floats of `out`, when the stream has come so far.
static bool fetched(float *host, int n) {
    return !dl.cuMemcpyDtoHAsync_v2(host, out, (size_t)n * 4, stream) &&
           !dl.cuStreamSynchronize(stream);
}

static float sum_at(int i) {
    float v = 0;
    for (int r = 0; r < ranks; r++)
        v += given(r, i);
    return v;
}

// ---- scenarios: true when all is as it should be -----------------------------------------------

static bool all_reduce(comm c) {
    float got[WORDS] = {0};
    bool good =
        !dl.ncclAllReduce(ptr(in), ptr(out), WORDS, FLOAT32, SUM, c, stream) && fetched(got, WORDS);
    for (int i = 0; i < WORDS; i++)
        good &= got[i] == sum_at(i);
    good &= !dl.ncclAllReduce(ptr(in), ptr(out), WORDS, FLOAT32, AVERAGE, c, stream) &&
            fetched(got, WORDS);
    for (int i = 0; i < WORDS; i++)
        good &= fabsf(got[i] - sum_at(i) / (float)ranks) < 1e-4f;
    return good;
}

static bool reduce_scatter(comm c) {
    int n = WORDS / ranks;
    float got[WORDS] = {0};
    bool good = !dl.ncclReduceScatter(ptr(in), ptr(out), (size_t)n, FLOAT32, SUM, c, stream) &&
                fetched(got, n);
    for (int i = 0; i < n; i++)
        good &= got[i] == sum_at(rank * n + i);
    return good;
}

static bool all_gather(comm c) {
    float got[RANKS_MAX * WORDS] = {0};
    bool good = !dl.ncclAllGather(ptr(in), ptr(out), WORDS, FLOAT32, c, stream) &&
                fetched(got, ranks * WORDS);
    for (int i = 0; i < ranks * WORDS; i++)
        good &= got[i] == given(i / WORDS, i % WORDS);
    return good;
}

static bool broadcast(comm c) {
    float got[WORDS] = {0};
    bool good =
        !dl.ncclBroadcast(ptr(in), ptr(out), WORDS, FLOAT32, 1, c, stream) && fetched(got, WORDS);
    for (int i = 0; i < WORDS; i++)
        good &= got[i] == given(1, i);
    return good;
}

// Around a ring, both directions of each rank in one group.
static bool ring(comm c) {
    float got[WORDS] = {0};
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    dl.ncclGroupStart();
    dl.ncclRecv(ptr(out), WORDS, FLOAT32, before, c, stream);
    dl.ncclSend(ptr(in), WORDS, FLOAT32, next, c, stream);
    bool good = !dl.ncclGroupEnd() && fetched(got, WORDS);
    for (int i = 0; i < WORDS; i++)
        good &= got[i] == given(before, i);
    return good;
}

// The first rank sends, and then receives; the second one does the same, or receives first.
static bool exchange(comm c, bool in_order) {
    float got[WORDS] = {0};
    bool good = true;
    for (int part = 0; part < 2; part++)
        good &= !(part ^ (in_order && rank)
                      ? dl.ncclRecv(ptr(out), WORDS, FLOAT32, 1 - rank, c, stream)
                      : dl.ncclSend(ptr(in), WORDS, FLOAT32, 1 - rank, c, stream));
    good &= fetched(got, WORDS);
    for (int i = 0; i < WORDS; i++)
        good &= got[i] == given(1 - rank, i);
    return good;
}
static bool in_order(comm c) {
    bool good = true;
    for (int n = 0; n < TIMES; n++)
        good &= exchange(c, true);
    return good;
}
// Each send would have to end before the other rank receives.
static bool crossed(comm c) {
    bool good = true;
    for (int n = 0; n < TIMES && good; n++)
        good = exchange(c, false);
    return !good && strstr(dl.emu_fault(), "waits to send to");
}

// Even and odd ranks apart.
static bool split(comm c) {
    comm part = NULL;
    float got[WORDS], want = 0;
    int n = 0;
    bool good = !dl.ncclCommSplit(c, rank % 2, rank, &part, NULL) && !dl.ncclCommCount(part, &n);
    good &= n == (ranks + 1 - rank % 2) / 2;
    good &= !dl.ncclAllReduce(ptr(in), ptr(out), WORDS, FLOAT32, SUM, part, stream) &&
            fetched(got, WORDS);
    for (int r = rank % 2; r < ranks; r += 2)
        want += given(r, 5);
    return good && got[5] == want && !dl.ncclCommDestroy(part);
}

static bool late(comm c) {
    float got[1];
    bool good = !dl.ncclAllReduce(ptr(in), ptr(out), WORDS, FLOAT32, MAX, c, stream);
    return good && fetched(got, 1); // elements that are not reduced yet are unwritten
}

static bool different(comm c) {
    int e = rank ? dl.ncclAllGather(ptr(in), ptr(out), WORDS, FLOAT32, c, stream)
                 : dl.ncclAllReduce(ptr(in), ptr(out), WORDS, FLOAT32, SUM, c, stream);
    return !e && dl.cuStreamSynchronize(stream) && strstr(dl.emu_fault(), "calls 'all-");
}

static bool missing(comm c) {
    if (rank == 1)
        return true; // and ends
    return !dl.ncclAllReduce(ptr(in), ptr(out), WORDS, FLOAT32, SUM, c, stream) &&
           dl.cuStreamSynchronize(stream) && strstr(dl.emu_fault(), "for rank 1");
}

static bool aborted(comm c) {
    int error = 0;
    if (rank == 1)
        return !dl.ncclCommAbort(c);
    bool good = !dl.ncclAllReduce(ptr(in), ptr(out), WORDS, FLOAT32, SUM, c, stream) &&
                !dl.cuStreamSynchronize(stream);
    dl.ncclCommGetAsyncError(c, &error);
    return good && error == REMOTE_ERROR;
}

static bool unwritten(comm c) {
    return !dl.ncclAllReduce(ptr(out), ptr(in), WORDS, FLOAT32, SUM, c, stream) &&
           dl.cuStreamSynchronize(stream) && strstr(dl.emu_fault(), "nobody wrote");
}

static bool refused(comm c) {
    return dl.ncclAllReduce(ptr(in), ptr(out), WORDS, 99, SUM, c, stream) &&
           dl.ncclSend(ptr(in), WORDS, FLOAT32, ranks, c, stream) && dl.ncclGroupEnd();
}

// ---- processes
// -------------------------------------------------------------------------------------------
static void in_processes(int n, const char *what, bool (*scenario)(comm)) {
    struct id id;
    pid_t pid[RANKS_MAX];
    int bad = 0, status;
    dl.ncclGetUniqueId(&id);
    ranks = n;
    for (rank = 0; rank < n; rank++) {
        pid[rank] = fork();
        if (pid[rank] == 0) {
            comm c;
            bool good = begin(id, &c) && scenario(c);
            _exit(good ? 0 : BAD);
        }
    }
    for (int r = 0; r < n; r++) {
        waitpid(pid[r], &status, 0);
        bad += status != 0;
    }
    ok(bad == 0, "%s, %d ranks", what, n);
}

int main(void) {
    int version = 0;
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    void *nccl = cuda ? dlopen("libnccl.so.2", RTLD_NOW) : NULL;
    if (!nccl)
        bail_out("%s", dlerror());
#define X(lib, name, ...) *(void **)&dl.name = dlsym(lib, #name);
    CALLS(X)
#undef X
    *(void **)&dl.emu_fault = dlsym(cuda, "emu_fault");
    setenv("EMU_NCCL_SECONDS", "10", 1);
    dl.ncclGetVersion(&version);
    is_int(version, 22809, "the version is one of NCCL's");
    for (int n = 2; n <= RANKS_MAX; n += 2) {
        in_processes(n, "all-reduce", all_reduce);
        in_processes(n, "reduce-scatter", reduce_scatter);
        in_processes(n, "all-gather", all_gather);
        in_processes(n, "broadcast", broadcast);
        in_processes(n, "send and receive around a ring", ring);
    }
    in_processes(3, "all-reduce", all_reduce);
    in_processes(2, "a rank sends when the other one receives", in_order);
    in_processes(4, "split", split);
    in_processes(2, "work of a stream waits for the collective before it", late);
    in_processes(2, "ranks that call different things are named", different);
    in_processes(2, "an abort ends the wait of the others", aborted);
    in_processes(2, "bytes that nobody wrote are not sent", unwritten);
    in_processes(2, "types and ranks that are not known are refused", refused);
    setenv("EMU_NCCL_SECONDS", "1", 1);
    in_processes(2, "sends that both come before the receives are named", crossed);
    in_processes(2, "a rank that does not come is named", missing);
    return done_testing();
}
