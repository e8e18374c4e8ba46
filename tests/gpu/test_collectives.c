// SPDX-License-Identifier: Apache-2.0
// The table of collectives for devices (lib/comm/nccl.c), over the stand-ins for libnccl.so.2 and
// libcuda.so.1: real processes that meet through the comm of the host, against sums in plain C.
#include "comm/comm_device.h"
#include "tests/gpu/driver/cuda_abi.h"
#include "tests/unit/comm/comm_ranks.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 1000, ODD = 999, WATCH_MS_MAX = 20000 };

#define CALLS(X)                                                                                   \
    X(cuInit, unsigned)                                                                            \
    X(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)                                             \
    X(cuCtxSetCurrent, CUcontext)                                                                  \
    X(cuStreamCreate, CUstream *, unsigned)                                                        \
    X(cuStreamSynchronize, CUstream)                                                               \
    X(cuStreamQuery, CUstream)                                                                     \
    X(cuMemAlloc_v2, CUdeviceptr *, size_t)                                                        \
    X(cuMemFree_v2, CUdeviceptr)                                                                   \
    X(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, size_t, CUstream)                           \
    X(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr, size_t, CUstream)
static struct {
#define X(name, ...) int (*name)(__VA_ARGS__);
    CALLS(X)
#undef X
} dl;

static struct comm_device *device;
static CUstream stream;
static CUdeviceptr memory;
static float want[WORDS], got[WORDS];

// Of rank r at place i: sums of a few are exact.
static float given(int r, int i) {
    return (float)((i * 31 + r * 17) % 100 - 40);
}

static int begin(struct rank *r, struct err *e) {
    CUcontext context;
    float own[WORDS];
    for (int i = 0; i < WORDS; i++)
        own[i] = given(r->rank, i);
    if (dl.cuInit(0) || dl.cuDevicePrimaryCtxRetain(&context, 0) || dl.cuCtxSetCurrent(context) ||
        dl.cuStreamCreate(&stream, 1) || dl.cuMemAlloc_v2(&memory, sizeof own) ||
        dl.cuMemcpyHtoDAsync_v2(memory, own, sizeof own, stream) || dl.cuStreamSynchronize(stream))
        return err_set(e, ERR_FAILED, "the stand-in for the driver does not work");
    int opened = comm_nccl.open(&device, r->comm, environ, e);
    return opened > 0 ? 0 : opened < 0 ? -1 : err_wrap(e, "none");
}

// Enqueues, waits as a trainer does, and fetches.
static int make(struct comm_device *d, struct comm_call call, struct err *e) {
    uint64_t ticket;
    int64_t since = clock_mono_ms();
    call.buf = (void *)(uintptr_t)memory;
    if (comm_nccl.enqueue(d, &call, stream, &ticket, e) < 0)
        return -1;
    for (int64_t looked = since; dl.cuStreamQuery(stream) != CUDA_SUCCESS;) {
        int64_t now = clock_mono_ms();
        if (now - since > WATCH_MS_MAX)
            return err_set(e, ERR_FAILED, "the test waits for ever");
        if (now - looked >= COMM_DEVICE_WATCH_MS && comm_nccl.watch(d, ticket, now - since, e) < 0)
            return -1;
        looked = now - looked >= COMM_DEVICE_WATCH_MS ? now : looked;
    }
    if (dl.cuMemcpyDtoHAsync_v2(got, memory, sizeof got, stream) || dl.cuStreamSynchronize(stream))
        return err_set(e, ERR_FAILED, "fetching");
    return 0;
}

static int same(int from, int to, struct err *e) {
    for (int i = from; i < to; i++)
        if (fabsf(got[i] - want[i]) > 1e-4f)
            return err_set(e, ERR_FAILED, "at %d: %g, not %g", i, (double)got[i], (double)want[i]);
    return 0;
}

static void sums(const struct rank *r, int step, float factor) {
    for (int i = 0; i < WORDS; i++) {
        want[i] = 0;
        for (int k = r->rank % step; k < r->world; k += step)
            want[i] += given(k, i) * factor;
    }
}

static int done(int bad) {
    comm_nccl.close(device);
    return bad;
}

static int sum(struct rank *r, struct err *e) {
    const struct comm_call call = {.kind = COMM_ALL_REDUCE, .type = COMM_F32, .count = WORDS};
    sums(r, 1, 1);
    return begin(r, e) < 0 || make(device, call, e) < 0 ? -1 : done(same(0, WORDS, e));
}

static int mean(struct rank *r, struct err *e) {
    struct comm_call call = {
        .kind = COMM_ALL_REDUCE, .type = COMM_F32, .op = COMM_MEAN, .count = WORDS};
    sums(r, 1, 1.0f / (float)r->world);
    if (begin(r, e) < 0 || make(device, call, e) < 0)
        return -1;
    shared->digest[r->rank] = digest(got, sizeof got, 1);
    return done(same(0, WORDS, e));
}

// Parts of one size, then of several: the last rank has fewer, or none.
static int scatter(struct rank *r, struct err *e) {
    size_t counts[] = {WORDS / 4 * 4, ODD, 300};
    int which = r->sockets - 1; // says which of them
    size_t count = counts[which], each = (which == 0 ? count : 1024) / (size_t)r->world;
    const struct comm_call call = {
        .kind = COMM_REDUCE_SCATTER, .type = COMM_F32, .count = count, .each = each};
    size_t from = (size_t)r->rank * each, to = from + each;
    from = from < count ? from : count, to = to < count ? to : count;
    sums(r, 1, 1);
    return begin(r, e) < 0 || make(device, call, e) < 0 ? -1 : done(same((int)from, (int)to, e));
}

static int gather(struct rank *r, struct err *e) {
    size_t counts[] = {WORDS / 4 * 4, ODD, 300};
    int which = r->sockets - 1;
    size_t each = (which == 0 ? counts[0] : 1024) / (size_t)r->world;
    const struct comm_call call = {
        .kind = COMM_ALL_GATHER, .type = COMM_F32, .count = counts[which], .each = each};
    for (int i = 0; i < (int)counts[which]; i++)
        want[i] = given(i / (int)each, i);
    return begin(r, e) < 0 || make(device, call, e) < 0 ? -1 : done(same(0, (int)counts[which], e));
}

static int spread(struct rank *r, struct err *e) {
    const struct comm_call call = {
        .kind = COMM_BROADCAST, .type = COMM_F32, .count = WORDS, .peer = r->world - 1};
    for (int i = 0; i < WORDS; i++)
        want[i] = given(call.peer, i);
    return begin(r, e) < 0 || make(device, call, e) < 0 ? -1 : done(same(0, WORDS, e));
}

// From the first rank to the last, in a group of any size.
static int hand_over(struct rank *r, struct err *e) {
    int last = r->world - 1, ends = r->rank == 0 || r->rank == last;
    const struct comm_call call = {.kind = r->rank == 0 ? COMM_SEND : COMM_RECV,
                                   .type = COMM_F32,
                                   .count = WORDS,
                                   .peer = r->rank == 0 ? last : 0};
    for (int i = 0; i < WORDS; i++)
        want[i] = given(0, i);
    if (begin(r, e) < 0 || (ends && make(device, call, e) < 0) || comm_barrier(r->comm, e) < 0)
        return -1;
    return done(ends ? same(0, WORDS, e) : 0);
}

// Even and odd ranks apart.
static int groups(struct rank *r, struct err *e) {
    const struct comm_call call = {.kind = COMM_ALL_REDUCE, .type = COMM_F32, .count = WORDS};
    struct comm *host;
    struct comm_device *part;
    sums(r, 2, 1);
    if (begin(r, e) < 0 || comm_split(&host, r->comm, r->rank % 2, r->rank, e) < 0 ||
        comm_nccl.split(&part, device, r->rank % 2, r->rank, host, e) < 0 ||
        make(part, call, e) < 0)
        return -1;
    int bad = same(0, WORDS, e);
    bad = comm_barrier(r->comm, e) < 0 ? -1 : bad;
    comm_nccl.close(part);
    comm_close(host);
    return done(bad);
}

// Ranks 0 and 1 apart from 2 and 3. Rank 1 is killed; only rank 0 shares a group with it.
static int lost_elsewhere(struct rank *r, struct err *e) {
    const struct comm_call call = {.kind = COMM_ALL_REDUCE, .type = COMM_F32, .count = WORDS};
    struct comm *host;
    struct comm_device *part;
    struct err later;
    uint64_t ticket;
    if (begin(r, e) < 0 || comm_split(&host, r->comm, r->rank / 2, r->rank, e) < 0 ||
        comm_nccl.split(&part, device, r->rank / 2, r->rank, host, e) < 0)
        return -1;
    if (r->rank == 1)
        raise(SIGKILL);
    // Rank 3 waits for all ranks, and rank 2 for rank 3. The work of rank 3 may end by the abort of
    // another rank before it looks.
    int bad = make(r->rank == 3 ? device : part, call, e);
    if (bad == 0 && r->rank == 3)
        bad = comm_nccl.watch(device, 1, 0, e);
    if (bad == 0 || comm_nccl.enqueue(device, &call, stream, &ticket, &later) == 0)
        return err_set(e, ERR_FAILED, "calls go on behind the loss of a rank");
    if (strcmp(later.text, e->text) != 0)
        return err_wrap(e, "later: %s", later.text);
    comm_nccl.close(part);
    comm_close(host);
    done(-1);
    if (dl.cuMemFree_v2(memory))
        return err_set(e, ERR_FAILED, "calls went on behind the abort until their time limit");
    return bad;
}

static int bytes(struct rank *r, struct err *e) {
    const struct comm_call call = {.kind = COMM_ALL_REDUCE, .type = COMM_BYTE, .count = WORDS};
    return begin(r, e) < 0 ? -1 : make(device, call, e);
}

static int killed(struct rank *r, struct err *e) {
    if (begin(r, e) == 0 && r->rank == 1)
        raise(SIGKILL);
    const struct comm_call call = {.kind = COMM_ALL_REDUCE, .type = COMM_F32, .count = WORDS};
    return make(device, call, e);
}

static int frozen(struct rank *r, struct err *e) {
    if (r->rank == 1)
        shared->code[1] = getpid();
    if (begin(r, e) == 0 && r->rank == 1)
        pause(); // until the other one has seen it
    const struct comm_call call = {.kind = COMM_ALL_REDUCE, .type = COMM_F32, .count = WORDS};
    int bad = make(device, call, e);
    kill(shared->code[1], SIGKILL);
    return bad;
}

// Rank 0 closes while a call waits in its stream. The device comes to that call later.
static int closes_early(struct rank *r, struct err *e) {
    struct comm_call call = {
        .kind = COMM_RECV, .type = COMM_F32, .count = WORDS, .peer = 1 - r->rank};
    uint64_t ticket;
    if (begin(r, e) < 0)
        return -1;
    call.buf = (void *)(uintptr_t)memory;
    if ((r->rank == 0 && comm_nccl.enqueue(device, &call, stream, &ticket, e) < 0) ||
        comm_barrier(r->comm, e) < 0)
        return -1;
    done(0);
    if (dl.cuMemFree_v2(memory))
        return err_set(e, ERR_FAILED, "the device has failed");
    return comm_barrier(r->comm, e);
}

static int only_open(struct rank *r, struct err *e) {
    const char *version = getenv("TEST_OTHER_VERSION"), *library = getenv("TEST_OTHER_LIBRARY");
    if (r->rank == 1 && version)
        setenv("EMU_NCCL_VERSION", version, 1);
    if (r->rank == 1 && library)
        setenv("DTCTL_NCCL", library, 1);
    return begin(r, e) < 0 ? -1 : done(0);
}

static const struct topology one = {1, {1}}, two = {1, {2}}, apart = {2, {1, 1}},
                             four = {2, {2, 2}};

static void rank_says(int rank, const char *text, const char *what) {
    ok(strstr(shared->text[rank], text) != NULL, "%s: rank %d says '%s'", what, rank, text);
}

static void test_kinds(void) {
    static const struct {
        const char *name;
        rank_fn *fn;
        int variants;
    } cases[] = {
        {"a sum", sum, 1},         {"a mean", mean, 1},      {"reduce-scatter", scatter, 3},
        {"all-gather", gather, 3}, {"broadcast", spread, 1}, {"send and receive", hand_over, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int v = 1; v <= cases[i].variants; v++) {
            is_int(run(&two, v, cases[i].fn), 0, "%s is right on 2 ranks (%d)", cases[i].name, v);
            is_int(run(&four, v, cases[i].fn), 0, "%s is right on 4 ranks (%d)", cases[i].name, v);
        }
    is_int(run(&four, 1, mean), 0, "a mean of 4 ranks is right");
    ok(same_digests(4), "all ranks have the same bits");
    is_int(run(&four, 1, groups), 0, "groups that are split off add up their own");
    is_int(run(&one, 1, sum), 0, "one rank has its own sum");
    is_int(run(&two, 1, bytes), 2, "a sum of bytes is refused");
    rank_says(0, "no sum of bytes", "a sum of bytes");
}

static void test_lost(void) {
    is_int(run(&two, 1, killed), 2, "a rank that is killed ends the other");
    rank_says(0, "all-reduce of 1000 x float: rank 1", "killed");
    is_int(shared->code[0], ERR_NET, "the loss of a rank is a network error");
    is_int(run(&apart, 1, killed), 2, "a rank that is killed on another node ends the other");
    rank_says(0, "all-reduce of 1000 x float: rank 1", "killed elsewhere");
    is_int(run(&four, 1, lost_elsewhere), 4, "a rank that is killed ends the calls of all groups");
    for (int rank = 0; rank < 4; rank += rank ? 1 : 2)
        rank_says(rank, "all-reduce of 1000 x float: rank 1", "killed in another group");
    is_int(run(&two, 1, closes_early), 0, "a rank closes while a call of it waits");
    is_int(run(&two, 1, frozen), 2, "a rank that does nothing ends the other");
    rank_says(0, "all-reduce of 1000 x float: rank 1 has not come to it within", "frozen");
}

static void test_libraries(const char *folder) {
    char other[256];
    setenv("TEST_OTHER_VERSION", "22203", 1);
    is_int(run(&two, 1, only_open), 2, "two versions are refused");
    rank_says(0, "rank 0 has NCCL 2.28.9", "two versions");
    rank_says(1, "rank 1 has 2.22.3", "two versions");
    setenv("TEST_OTHER_VERSION", "21403", 1);
    is_int(run(&two, 1, only_open), 2, "a version that is too old is not used");
    rank_says(0, "rank 1 has no NCCL", "an old version");
    rank_says(0, "is NCCL 2.14.3, and 2.18.0 or newer is needed", "an old version");
    unsetenv("TEST_OTHER_VERSION");
    snprintf(other, sizeof other, "%s/libcuda.so.1", folder); // a library without these functions
    setenv("TEST_OTHER_LIBRARY", other, 1);
    is_int(run(&two, 1, only_open), 2, "a library without a function is not used");
    rank_says(0, "has no ncclGetVersion", "a missing function");
    setenv("TEST_OTHER_LIBRARY", "/nowhere/libnccl.so.2", 1);
    is_int(run(&two, 1, only_open), 2, "a library that is not there is not used");
    rank_says(1, "DTCTL_NCCL", "no such file");
    unsetenv("TEST_OTHER_LIBRARY");
    setenv("EMU_NCCL_INIT", "never", 1);
    connect_ms = 1500;
    is_int(run(&two, 1, only_open), 2, "a connection that never stands has a time limit");
    rank_says(0, "the 2 ranks have not reached each other within 1500 ms", "no connection");
}

int main(void) {
    const char *folder = getenv("LD_LIBRARY_PATH");
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!cuda || !folder)
        bail_out("%s", dlerror());
#define X(name, ...) *(void **)&dl.name = dlsym(cuda, #name);
    CALLS(X)
#undef X
    snprintf(store_dir, sizeof store_dir, "/tmp/collectives.XXXXXX");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!mkdtemp(store_dir) || shared == MAP_FAILED)
        bail_out("no folder or memory");
    test_kinds();
    test_lost();
    test_libraries(folder);
    struct err e;
    if (file_remove_tree(store_dir, &e) < 0)
        diag("%s", e.text);
    return done_testing();
}
