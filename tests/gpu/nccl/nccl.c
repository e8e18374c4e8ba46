// SPDX-License-Identifier: Apache-2.0
// nccl.c: a stand-in for libnccl.so.2, between processes over shared memory. Collectives are
// enqueued into the streams of the stand-in for libcuda.so.1, and run when these do: each rank
// writes what it gives into its part of a segment, and reads what it gets when all have. Sums are
// taken in the order of ranks. Ranks that call different things, and a rank that does not come
// within EMU_NCCL_SECONDS (60), are errors that name the rank and the call. Nothing of a
// communicator that is not blocking waits. A send ends at once or when it has been received, as
// EMU_SEED decides: NCCL may do either. Numbers and types are those of nccl.h 2.28, or what
// EMU_NCCL_VERSION says. EMU_NCCL_WRONG spoils what one rank gets.
#include "tests/gpu/driver/cuda_abi.h"
#include "tests/gpu/nccl/nccl_element.h"
#include "tests/gpu/nccl/segment.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
enum {
    NAP_NS = 50000,
    VERSION = 22809,
    ID_BYTES = 128,
    GROUP_MAX = 256,
    ANSWERS = 2,
    CONFIG_MAGIC = 0xcafebeef
};
enum { SUM, PROD, MAX, MIN, AVERAGE, OPERATIONS };

struct id {
    char name[ID_BYTES];
};
struct ncclComm {
    int rank, ranks;
    unsigned splits;
    struct segment *segment;
    char name[ID_BYTES];
    int error;             // asynchronous
    int users;             // the caller, and calls that are enqueued
    bool joining, patient; // others have not come yet; calls of it do not block
    int in_progress;       // so many more answers say that the last call is in progress
    struct meeting meeting;
    struct batch *at_work;
};

enum what { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE, SEND, RECEIVE };
static const char *const names[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                    "reduce",     "send",           "receive"};

struct call {
    struct ncclComm *comm;
    CUstream stream;
    enum what what;
    uint64_t from, to;
    size_t count; // of elements in the smaller buffer
    int type, operation, peer;
};
struct batch { // calls of one group and one stream, which make progress together
    enum { SENDS, COLLECTIVES, RECEIVES, ENDS_OF_SENDS, STAGES } stage;
    enum { GIVES, GETS, ENDS } phase; // of the collective under way
    struct meeting meeting;
    double end;           // time limit of the send or receive under way
    bool is_group;        // it has all calls of its group
    bool late[GROUP_MAX]; // sends that end when they have been received
    int at, n;            // which call is under way, of so many
    struct call call[];
};

static _Thread_local int group_depth, group_n;
static _Thread_local struct call group[GROUP_MAX];
static _Thread_local bool group_aborts;
static _Thread_local char last_error[256];

static ncclResult refuse(ncclResult code, const char *why) {
    snprintf(last_error, sizeof last_error, "%s", why);
    return code;
}

// Elements first … first + n of what every rank gave, combined.
static void combine(const struct call *c, void *to, size_t first, size_t n) {
    const struct ncclComm *comm = c->comm;
    for (size_t i = 0; i < n; i++) {
        double v = element_get(segment_slot(comm->segment, 0), first + i, c->type);
        for (int r = 1; r < comm->ranks; r++) {
            double x = element_get(segment_slot(comm->segment, r), first + i, c->type);
            v = c->operation == PROD  ? v * x
                : c->operation == MAX ? (x > v ? x : v)
                : c->operation == MIN ? (x < v ? x : v)
                                      : v + x;
        }
        element_put(to, i, c->type, c->operation == AVERAGE ? v / comm->ranks : v);
    }
}

// ---- one call, when its stream has come to it
// ------------------------------------------------------------
static size_t bytes_in(const struct call *c) {
    size_t n = c->count * element_bytes(c->type);
    return c->what == REDUCE_SCATTER ? n * (size_t)c->comm->ranks : n;
}
static size_t bytes_out(const struct call *c) {
    size_t n = c->count * element_bytes(c->type);
    return c->what == ALL_GATHER ? n * (size_t)c->comm->ranks : n;
}

static bool has_root(const struct call *c) {
    return c->what == BROADCAST || c->what == REDUCE;
}

static void receive(const struct call *c, void *to) {
    const struct ncclComm *comm = c->comm;
    size_t bytes = c->count * element_bytes(c->type);
    switch (c->what) {
    case ALL_REDUCE: combine(c, to, 0, c->count); break;
    case REDUCE: combine(c, to, 0, c->count); break;
    case REDUCE_SCATTER: combine(c, to, c->count * (size_t)comm->rank, c->count); break;
    case ALL_GATHER:
        for (int r = 0; r < comm->ranks; r++)
            memcpy((char *)to + (size_t)r * bytes, segment_slot(comm->segment, r), bytes);
        break;
    default: memcpy(to, segment_slot(comm->segment, c->peer), bytes); break;
    }
}

// The rank that EMU_NCCL_WRONG names gets a wrong first number.
static void spoil(const struct call *c, void *to) {
    const char *rank = getenv("EMU_NCCL_WRONG");
    if (rank && strtol(rank, NULL, 10) == c->comm->rank)
        element_put(to, 0, c->type, element_get(to, 0, c->type) + 1);
}

// Begins, or continues where it waited: this rank gives; when all have given, it gets; when all
// have got, it ends.
static const char *collective(struct batch *b, const struct call *c) {
    struct ncclComm *comm = c->comm;
    char text[SEGMENT_CALL_MAX];
    bool gives = c->what != BROADCAST || comm->rank == c->peer;
    snprintf(text, sizeof text, "%s of %zu elements of type %d, operation %d, root %d",
             names[c->what], c->count, c->type, c->operation, has_root(c) ? c->peer : -1);
    if (b->phase == GIVES) {
        void *from = gives ? emu_bytes(c->from, bytes_in(c), 0) : NULL;
        if (gives && !from)
            return "NCCL: the bytes to send are not inside one allocation, or nobody wrote them";
        if (gives)
            memcpy(segment_slot(comm->segment, comm->rank), from, bytes_in(c));
        b->meeting = segment_come(comm->segment, comm->rank, text);
        b->phase = GETS;
    }
    const char *why = segment_here(comm->segment, comm->rank, &b->meeting);
    if (why || b->phase == ENDS) {
        b->phase = why == emu_again ? b->phase : GIVES;
        return why;
    }
    if (c->what != REDUCE || comm->rank == c->peer) {
        void *to = emu_bytes(c->to, bytes_out(c), 1);
        if (!to)
            return "NCCL: the bytes to receive into are not inside one allocation";
        receive(c, to);
        spoil(c, to);
    }
    b->meeting = segment_come(comm->segment, comm->rank, text);
    b->phase = ENDS;
    return collective(b, c);
}

static const char *point_to_point(struct batch *b, const struct call *c) {
    bool sends = c->what == SEND;
    size_t bytes = bytes_in(c);
    void *mine = emu_bytes(sends ? c->from : c->to, bytes, !sends);
    if (!mine)
        return "NCCL: the bytes of a send or receive are not inside one allocation, or nobody "
               "wrote them";
    if (!sends)
        return segment_receive(c->comm->segment, c->peer, c->comm->rank, mine, bytes, &b->end);
    const char *why = segment_send(c->comm->segment, c->comm->rank, c->peer, mine, bytes, &b->end);
    if (!why)
        b->late[b->at] = b->is_group && segment_toss(c->comm->rank);
    return why;
}

// Sends of a batch come first and end last, so that two ranks may exchange within a group.
static const char *step(struct batch *b, const struct call *c) {
    switch (b->stage) {
    case SENDS: return c->what == SEND ? point_to_point(b, c) : NULL;
    case COLLECTIVES: return c->what < SEND ? collective(b, c) : NULL;
    case RECEIVES: return c->what == RECEIVE ? point_to_point(b, c) : NULL;
    default:
        return c->what == SEND && b->late[b->at]
                   ? segment_taken(c->comm->segment, c->comm->rank, c->peer, &b->end)
                   : NULL;
    }
}

static const char *advance(struct batch *b) {
    for (; b->stage < STAGES; b->stage++, b->at = 0)
        for (; b->at < b->n; b->at++) {
            const char *why = step(b, &b->call[b->at]);
            if (why)
                return why;
        }
    b->stage = b->at = 0; // a graph may replay it
    return NULL;
}

static const char *run(void *argument) {
    struct batch *b = argument;
    struct ncclComm *comm = b->call[0].comm;
    if (comm->at_work && comm->at_work != b)
        return emu_again; // the calls of a communicator do not overtake each other
    comm->at_work = b;
    const char *why = advance(b);
    if (why == emu_again)
        return why;
    comm->at_work = NULL;
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

CUresult cuCtxSynchronize(void); // of the stand-in for libcuda.so.1

static ncclResult end_aborts(void) {
    if (group_aborts)
        (void)cuCtxSynchronize();
    group_aborts = false;
    return OK;
}

static ncclResult flush(const struct call *calls, int n, bool is_group) {
    if (n == 0) // a group without calls
        return OK;
    struct batch *b = malloc(sizeof *b + (size_t)n * sizeof *b->call);
    if (!b)
        return SYSTEM_ERROR;
    *b = (struct batch){.n = n, .is_group = is_group};
    memcpy(b->call, calls, (size_t)n * sizeof *b->call);
    for (int k = 0; k < n; k++)
        calls[k].comm->users++;
    // A captured graph replays the call as often as it is launched; it is dropped with the graph.
    if (emu_enqueue(calls[0].stream, run, drop, b))
        return SYSTEM_ERROR;
    calls[0].comm->in_progress = calls[0].comm->patient ? ANSWERS : 0;
    return calls[0].comm->patient ? IN_PROGRESS : OK;
}

static ncclResult enqueue(struct call c) {
    if (!c.comm || c.type < 0 || c.type >= TYPES || c.operation < 0 || c.operation >= OPERATIONS ||
        c.peer < 0 || c.peer >= c.comm->ranks)
        return refuse(INVALID_ARGUMENT, "a type, operation or rank that is not known");
    if (c.comm->error)
        return refuse(c.comm->error, "the communicator has an error");
    if (c.comm->joining || c.comm->in_progress)
        return refuse(INVALID_USAGE, "the call before is in progress: ask ncclCommGetAsyncError");
    if (bytes_in(&c) > SEGMENT_SLOT_BYTES ||
        bytes_out(&c) > SEGMENT_SLOT_BYTES * (size_t)c.comm->ranks)
        return refuse(INVALID_USAGE, "the stand-in has no room for so many bytes in one call");
    if (!group_depth)
        return flush(&c, 1, true);
    if (group_n == GROUP_MAX)
        return refuse(INVALID_USAGE, "too many calls in one group");
    group[group_n++] = c;
    return OK;
}

// ---- the interface
// ---------------------------------------------------------------------------------------
API ncclResult ncclGetVersion(int *v) {
    const char *pretended = getenv("EMU_NCCL_VERSION");
    *v = pretended ? (int)strtol(pretended, NULL, 10) : VERSION;
    return OK;
}
API ncclResult ncclGetUniqueId(struct id *id) {
    static int n;
    memset(id, 0, sizeof *id);
    snprintf(id->name, sizeof id->name, "/emu-nccl.%d.%d", (int)getpid(), n++);
    return OK;
}

// The first fields of ncclConfig_t, which every version has.
struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

// EMU_NCCL_INIT=never: as when the ranks cannot reach each other.
static const char *joined(struct ncclComm *c) {
    const char *init = getenv("EMU_NCCL_INIT");
    if (!c->joining || (init && strcmp(init, "never") == 0))
        return c->joining ? emu_again : NULL;
    const char *why = segment_here(c->segment, c->rank, &c->meeting);
    c->joining = why == emu_again;
    if (why && why != emu_again)
        c->error = refuse(SYSTEM_ERROR, why);
    return why;
}

static ncclResult join(struct ncclComm **out, int ranks, const char *name, int rank,
                       const struct config *config) {
    if (config && (config->magic != CONFIG_MAGIC || config->size < sizeof *config))
        return refuse(INVALID_ARGUMENT, "the configuration was not initialised");
    struct ncclComm *c = calloc(1, sizeof *c);
    if (!c || rank < 0 || rank >= ranks || ranks > SEGMENT_RANKS_MAX) {
        free(c);
        return refuse(INVALID_ARGUMENT, "a rank or number of ranks that is not possible");
    }
    *c = (struct ncclComm){.rank = rank,
                           .ranks = ranks,
                           .users = 1,
                           .joining = true,
                           .patient = config && config->blocking == 0};
    snprintf(c->name, sizeof c->name, "%s", name);
    c->segment = segment_open(name, ranks);
    if (!c->segment) {
        free(c);
        return refuse(SYSTEM_ERROR, "no shared memory");
    }
    c->meeting = segment_come(c->segment, rank, "initialisation");
    *out = c;
    while (joined(c) == emu_again)
        if (c->patient)
            return IN_PROGRESS;
        else
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    segment_forget(name);
    return c->error;
}
API ncclResult ncclCommInitRankConfig(struct ncclComm **c, int ranks, struct id id, int rank,
                                      const struct config *config) {
    return join(c, ranks, id.name, rank, config);
}
API ncclResult ncclCommInitRank(struct ncclComm **c, int ranks, struct id id, int rank) {
    return join(c, ranks, id.name, rank, NULL);
}

// Ranks of one color, by key; a negative color takes part and gets none.
API ncclResult ncclCommSplit(struct ncclComm *c, int color, int key, struct ncclComm **out,
                             const struct config *config) {
    int mine[2] = {color, key}, rank = 0, ranks = 0;
    char name[ID_BYTES];
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
    return join(out, ranks, name, rank, config);
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
    if (c->joining && !joined(c))
        segment_forget(c->name);
    c->in_progress -= c->in_progress > 0;
    *error = c->error                       ? c->error
             : segment_aborted(c->segment)  ? REMOTE_ERROR
             : c->joining || c->in_progress ? IN_PROGRESS
                                            : OK;
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
// Ends all waits in collectives of this communicator, in any process. As NCCL frees memory of the
// device then, it waits for all of its work: at the end of a group, if this is in one.
API ncclResult ncclCommAbort(struct ncclComm *c) {
    segment_abort(c->segment, c->rank);
    if (c->joining)
        segment_forget(c->name);
    release(c);
    group_aborts = true;
    return group_depth ? OK : end_aborts();
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
    int all = group_n;
    if (group_depth == 0 || --group_depth)
        return group_depth ? OK : refuse(INVALID_USAGE, "ncclGroupEnd without ncclGroupStart");
    while (group_n && (r == OK || r == IN_PROGRESS)) {
        CUstream s = group[0].stream;
        int n = 0, left = 0;
        for (int k = 0; k < group_n; k++) {
            if (group[k].stream == s)
                of_stream[n++] = group[k];
            else
                group[left++] = group[k];
        }
        group_n = left;
        r = flush(of_stream, n, n == all);
    }
    group_n = 0;
    (void)end_aborts();
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
API ncclResult ncclReduce(const void *from, void *to, size_t n, int type, int op, int root,
                          struct ncclComm *c, CUstream s) {
    return enqueue((struct call){c, s, REDUCE, (uint64_t)from, (uint64_t)to, n, type, op, root});
}
API ncclResult ncclSend(const void *from, size_t n, int type, int peer, struct ncclComm *c,
                        CUstream s) {
    return enqueue((struct call){c, s, SEND, (uint64_t)from, 0, n, type, 0, peer});
}
API ncclResult ncclRecv(void *to, size_t n, int type, int peer, struct ncclComm *c, CUstream s) {
    return enqueue((struct call){c, s, RECEIVE, 0, (uint64_t)to, n, type, 0, peer});
}
