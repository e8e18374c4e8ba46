// SPDX-License-Identifier: Apache-2.0
// segment.c: a barrier, a slot for each rank and a mailbox for each pair, in shared memory.
#include "tests/gpu/nccl/segment.h"

#include "tests/gpu/driver/cuda_abi.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 60, NAP_NS = 50000, TEXT_MAX = 512 };

struct mail {
    _Atomic size_t bytes; // of a message that lies here; 0: none
    char data[SEGMENT_MAIL_BYTES];
};
struct segment {
    _Atomic int aborted; // 1 + the rank that did
    int ranks;
    _Atomic unsigned turn, arrived;
    _Atomic unsigned meetings[SEGMENT_RANKS_MAX];
    char call[SEGMENT_RANKS_MAX][SEGMENT_CALL_MAX];
    struct mail mail[SEGMENT_RANKS_MAX][SEGMENT_RANKS_MAX];
    char slot[SEGMENT_RANKS_MAX][SEGMENT_SLOT_BYTES];
};
static _Thread_local char text[TEXT_MAX];

struct segment *segment_open(const char *name, int ranks) {
    int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0)
        return NULL;
    struct segment *s = MAP_FAILED;
    if (ftruncate(fd, sizeof *s) == 0)
        s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (s == MAP_FAILED)
        return NULL;
    s->ranks = ranks;
    return s;
}

void segment_close(struct segment *s) {
    munmap(s, sizeof *s);
}
void segment_forget(const char *name) {
    shm_unlink(name);
}

void *segment_slot(struct segment *s, int rank) {
    return s->slot[rank];
}
void segment_abort(struct segment *s, int rank) {
    atomic_store(&s->aborted, 1 + rank);
}
int segment_aborted(struct segment *s) {
    return atomic_load(&s->aborted);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static double deadline(void) {
    const char *s = getenv("EMU_NCCL_SECONDS");
    return now() + (s && *s ? strtod(s, NULL) : SECONDS);
}
static void nap(void) {
    nanosleep(&(struct timespec){0, NAP_NS}, NULL);
}

static const char *aborted(struct segment *s) {
    snprintf(text, sizeof text, "NCCL: rank %d aborted the communicator",
             atomic_load(&s->aborted) - 1);
    return text;
}

static const char *missing(struct segment *s, int rank) {
    for (int r = 0; r < s->ranks; r++)
        if (atomic_load(&s->meetings[r]) < atomic_load(&s->meetings[rank])) {
            snprintf(text, sizeof text, "NCCL: rank %d waits in '%s' for rank %d", rank,
                     s->call[rank], r);
            return text;
        }
    return "NCCL: a rank is missing";
}

struct meeting segment_come(struct segment *s, int rank, const char *call) {
    struct meeting m = {atomic_load(&s->turn), deadline()};
    atomic_fetch_add(&s->meetings[rank], 1); // before the text: see segment_here
    snprintf(s->call[rank], SEGMENT_CALL_MAX, "%s", call);
    if (atomic_fetch_add(&s->arrived, 1) + 1 == (unsigned)s->ranks) {
        atomic_store(&s->arrived, 0);
        atomic_fetch_add(&s->turn, 1);
    }
    return m;
}

const char *segment_here(struct segment *s, int rank, const struct meeting *m) {
    if (atomic_load(&s->turn) == m->turn) {
        if (atomic_load(&s->aborted))
            return aborted(s);
        return now() > m->end ? missing(s, rank) : emu_again;
    }
    // A rank that has gone on writes another text, after its number of meetings.
    for (int r = 0; r < s->ranks; r++)
        if (strcmp(s->call[r], s->call[rank]) != 0 &&
            atomic_load(&s->meetings[r]) == atomic_load(&s->meetings[rank])) {
            snprintf(text, sizeof text, "NCCL: rank %d calls '%s', rank %d '%s'", rank,
                     s->call[rank], r, s->call[r]);
            return text;
        }
    return NULL;
}

const char *segment_meet(struct segment *s, int rank, const char *call) {
    const struct meeting m = segment_come(s, rank, call);
    const char *why = segment_here(s, rank, &m);
    for (; why == emu_again; why = segment_here(s, rank, &m))
        nap();
    return why;
}

// The end of a wait of rank for peer. Where it is not `ready`: emu_again, or why it ends now.
static const char *until(struct segment *s, bool ready, const char *what, int rank, int peer,
                         double *end) {
    *end = *end > 0 ? *end : deadline();
    if (ready) {
        *end = 0;
        return NULL;
    }
    if (atomic_load(&s->aborted))
        return aborted(s);
    if (now() <= *end)
        return emu_again;
    snprintf(text, sizeof text, "NCCL: rank %d waits to %s rank %d", rank, what, peer);
    return text;
}

bool segment_toss(int rank) {
    static uint64_t state;
    const char *seed = getenv("EMU_SEED");
    if (!state)
        state = (seed ? strtoull(seed, NULL, 10) : 1) * 1000003 + (uint64_t)rank + 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 63;
}

const char *segment_send(struct segment *s, int from, int to, const void *data, size_t n,
                         double *end) {
    struct mail *m = &s->mail[from][to];
    const char *why = until(s, !atomic_load(&m->bytes), "send to", from, to, end);
    if (why || n == 0 || n > SEGMENT_MAIL_BYTES)
        return why ? why : "NCCL: the stand-in has no room for a message of this size";
    memcpy(m->data, data, n);
    atomic_store(&m->bytes, n);
    return NULL;
}

const char *segment_taken(struct segment *s, int from, int to, double *end) {
    return until(s, !atomic_load(&s->mail[from][to].bytes), "send to", from, to, end);
}

const char *segment_receive(struct segment *s, int from, int to, void *data, size_t n,
                            double *end) {
    struct mail *m = &s->mail[from][to];
    const char *why = until(s, atomic_load(&m->bytes) != 0, "receive from", to, from, end);
    if (why)
        return why;
    if (atomic_load(&m->bytes) != n) {
        snprintf(text, sizeof text, "NCCL: rank %d sends %zu bytes, rank %d receives %zu", from,
                 atomic_load(&m->bytes), to, n);
        return text;
    }
    memcpy(data, m->data, n);
    atomic_store(&m->bytes, 0);
    return NULL;
}
