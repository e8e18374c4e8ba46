// SPDX-License-Identifier: Apache-2.0
// Collectives between the ranks of a run, behind one table of backends: `self` (one rank), `ring`
// (shared memory between the ranks of a node, several TCP connections between nodes).
//
// Rules
//   - Every rank makes the same calls in the same order, from one thread. A count that differs
//     between ranks is found and reported.
//   - Results are the same bits on every rank and in every run: sums are formed in an order that
//     depends on the counts and the topology alone, never on timing.
//   - Started operations run on a thread of the comm in the order they were started; their buffers
//     must not be touched until comm_wait returns.
//   - When a rank dies or leaves, every other rank that waits for it gets ERR_NET naming it, within
//     COMM_LOCAL_LOST_MS_MAX on the same node, at once over TCP when the process ends, and within
//     COMM_REMOTE_LOST_MS_MAX when its host vanishes. After any error the comm only returns that
//     error; close it. comm_close never waits for others.
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    COMM_WORLD_MAX = 65536,
    COMM_LOCAL_WORLD_MAX = 256,
    COMM_SOCKETS_MAX = 16,
    COMM_PENDING_MAX = 1024, // started and not yet finished; the next start waits
    COMM_LOCAL_LOST_MS_MAX = 200,
    COMM_REMOTE_LOST_MS_MAX = 5000,
    COMM_CONNECT_TIMEOUT_MS = 60 * 1000, // default
    COMM_STALL_TIMEOUT_MS = 600 * 1000   // default
};

// The key-value store that ranks find each other by; both calls block, and return 0 or -1.
struct comm_kv {
    int (*set)(void *ctx, const char *key, const void *value, size_t len, struct err *e);
    // Waits until the key is there.
    int (*get)(void *ctx, const char *key, void *value, size_t cap, size_t *len, int timeout_ms,
               struct err *e);
    void *ctx;
};

struct comm_config {
    int rank, world;
    int local_rank, local_world; // place among the ranks of this node
    int node, nodes;             // GROUP_RANK and how many nodes; nodes may have different sizes
    struct comm_kv kv;           // unused when world is 1
    const char *prefix;          // of all keys, fresh for every attempt; NULL: "comm"
    const char *address; // numeric, of this node, that the others reach; NULL only when nodes is 1.
                         // A loopback address says that all nodes are this machine: then they
                         // share memory like the ranks of one node, unless keep_nodes
    bool keep_nodes;     // TCP between nodes, also on one machine: for tests
    int sockets;         // data connections per neighbour; 0: COMM_SOCKETS
    int cpu;             // to pin the comm's thread to; -1: not pinned
    int connect_timeout_ms_max; // 0: COMM_CONNECT_TIMEOUT_MS
    int stall_timeout_ms_max;   // an operation without progress; 0: COMM_STALL_TIMEOUT_MS
};

enum { COMM_SOCKETS = 4 };

struct comm;

// What a sum is divided by.
enum comm_op { COMM_SUM, COMM_MEAN /* times 1/world, after summing */ };

// backend NULL: "self" when world is 1, else "ring". kv and strings are used during the call only.
int comm_open(struct comm **out, const char *backend, const struct comm_config *config,
              struct err *e);
void comm_close(struct comm *c); // NULL is allowed; drops what is pending

// In place, count elements of float. Gives a ticket; returns -1 only when the comm is broken.
int comm_all_reduce_start(struct comm *c, float *buf, size_t count, enum comm_op op,
                          uint64_t *ticket, struct err *e);
// Until that operation, and so all started before it, is done.
int comm_wait(struct comm *c, uint64_t ticket, struct err *e);
bool comm_done(struct comm *c, uint64_t ticket); // without waiting; also true when broken

// Blocking forms; each comes after everything started before it.
int comm_all_reduce(struct comm *c, float *buf, size_t count, enum comm_op op, struct err *e);
int comm_all_reduce_f64(struct comm *c, double *buf, size_t count, enum comm_op op, struct err *e);
int comm_broadcast(struct comm *c, void *buf, size_t bytes, int root, struct err *e);
// Everyone's `bytes` bytes, in rank order, into out (world * bytes). in may lie at its place in
// out.
int comm_all_gather(struct comm *c, const void *in, void *out, size_t bytes, struct err *e);
int comm_barrier(struct comm *c, struct err *e);

int comm_rank(const struct comm *c);
int comm_world(const struct comm *c);
const char *comm_backend_name(const struct comm *c);

struct comm_stats {
    uint64_t operations, bytes; // finished; payload of this rank
    int64_t busy_ns;            // time spent inside them
};
void comm_stats(struct comm *c, struct comm_stats *out);

// NULL-terminated names of the backends, for help and error texts.
extern const char *const comm_backends[];

#endif
