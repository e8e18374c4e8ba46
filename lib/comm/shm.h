// SPDX-License-Identifier: Apache-2.0
// Private to lib/comm: the ranks of one node, joined by a piece of shared memory.
//
// The memory is an unnamed file (memfd) of the node's first rank, passed on over an abstract unix
// socket, so it does not depend on the size of /dev/shm and leaves no file. Data moves in chunks;
// chunk q uses buffer q % depth of every rank. Each rank has three counters that only grow and that
// only it writes:
//     arrived  its part of chunk q is in its buffer, or in the result if nothing is summed
//     reduced  it has summed its slice of chunk q and reads its buffers and claims no more
//     taken    it has copied the result of chunk q
// A waiting rank spins for a moment, then sleeps in a futex for COMM_SLICE_MS at a time. Between
// two sleeps it checks that the peers live (pidfd), that none reported a fault, and the time limit.
#ifndef COMM_SHM_H
#define COMM_SHM_H

#include "comm/backend.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    // Chunks in flight, and the number that a rank copies in before it sums the first of them.
    // Ranks that share cores do this much work before they wait for another rank to run.
    SHM_DEPTH_MAX = 16,
    SHM_DEPTH_LOCAL = 16,
    SHM_LEAD_LOCAL = 6,
    SHM_CHUNK_BYTES_LOCAL = 256 << 10,
    SHM_DEPTH_NODES = 4,
    SHM_LEAD_NODES = 1,
    SHM_CHUNK_BYTES_NODES = 2 << 20, // with a network stage per chunk: fewer, larger ones
    SHM_FAULT_BYTES = 256
};

struct shm_counter {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
};

enum shm_state { SHM_ABSENT, SHM_JOINED, SHM_LEFT };

struct shm_rank {
    struct shm_counter arrived, reduced, taken;
    struct shm_claim {            // what this rank believes chunk q to be
        uint32_t what, total_low; // what: kind, element and root
        uint64_t bytes;
    } claim[SHM_DEPTH_MAX];
    _Atomic int32_t pid, rank; // rank: as errors show it
    _Atomic uint32_t state;    // enum shm_state
};

struct shm_head {
    struct shm_counter final; // chunk whose result came back from the other nodes
    _Atomic uint32_t fault;   // 0 none, 1 being written, 2 readable
    int32_t fault_code;
    char fault_text[SHM_FAULT_BYTES];
};

struct shm {
    struct shm_head *head;
    struct shm_rank *ranks; // local_world of them
    char *slots, *results;  // buffers: ranks * depth, and depth
    size_t chunk_bytes, map_bytes;
    uint32_t depth, lead;
    void *map;
    int local_rank, local_world;
    int *pidfd; // per local rank, -1 for this one
    struct comm_watch *watch;
    int64_t limit_ms; // for one wait
};

// shown: the number of this rank in errors.
int shm_open_group(struct shm *s, const struct comm_config *config, int shown,
                   struct comm_watch *watch, struct err *e);
void shm_close_group(struct shm *s); // notifies the others; safe on a zeroed one

static inline char *shm_slot(const struct shm *s, int local_rank, uint32_t q) {
    return s->slots + ((size_t)local_rank * s->depth + q % s->depth) * s->chunk_bytes;
}

static inline char *shm_result(const struct shm *s, uint32_t q) {
    return s->results + (size_t)(q % s->depth) * s->chunk_bytes;
}

void shm_set(struct shm_counter *c, uint32_t q); // by the only writer; wakes who sleeps
// Until the counter has reached q. peer: the local rank it depends on, for the error's text.
int shm_wait(struct shm *s, struct shm_counter *c, uint32_t q, int peer, struct err *e);
// shm_wait for the same counter (at this offset in struct shm_rank) of all ranks.
int shm_wait_all(struct shm *s, size_t offset, uint32_t q, struct err *e);

// Makes a fault known to the local ranks; the first one counts. Always returns -1.
int shm_fault(struct shm *s, const struct err *e);
// 0, or -1 with e when a fault is known, a local rank has died, or close was called. Cheap enough
// for every COMM_SLICE_MS.
int shm_check(struct shm *s, struct err *e);

#endif
