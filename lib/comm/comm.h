// SPDX-License-Identifier: Apache-2.0
// Collectives between the ranks of a run, behind one table of backends: `self` (one rank), `ring`
// (shared memory between the ranks of a node, several TCP connections between nodes).
//
// A comm is a group of ranks with a queue of its own: all ranks of the run, or a group made by
// comm_split. A wait in one group does not block another.
//
// Rules
//   - Every rank of a group makes the same calls in the same order, from one thread. A kind or a
//     count that differs between ranks is found and reported.
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
    // Waits until the key exists.
    int (*get)(void *ctx, const char *key, void *value, size_t cap, size_t *len, int timeout_ms,
               struct err *e);
    void *ctx;
};

struct comm_config {
    int rank, world;
    int local_rank, local_world; // place among the ranks of this node
    int node, nodes;             // GROUP_RANK and how many nodes; nodes may have different sizes
    struct comm_kv kv;   // unused when world is 1; must work until the last comm_split, and as long
                         // as there are collectives of a device
    const char *prefix;  // of all keys, fresh for every attempt; NULL: "comm"
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

enum comm_kind {
    COMM_ALL_REDUCE,     // buf[count] of all ranks, summed, to all
    COMM_REDUCE_SCATTER, // buf[count] of all ranks, summed: part r to rank r; the other parts are
                         // left with anything
    COMM_ALL_GATHER,     // part r of buf[count] from rank r to all
    COMM_BROADCAST,      // buf[count] from rank `peer` to all
    COMM_SEND,           // buf[count] to rank `peer`; in groups of two ranks
    COMM_RECV,           // buf[count] from rank `peer`; in groups of two ranks
};

enum comm_type {
    COMM_BYTE, // a sum of bytes is their OR
    COMM_F32,
    COMM_F64,
    COMM_BF16, // summed in float, rounded to nearest even once per node
};

// The divisor of a sum.
enum comm_op { COMM_SUM, COMM_MEAN /* times 1/world, after summing */ };

struct comm_call {
    enum comm_kind kind;
    enum comm_type type;
    enum comm_op op; // of the two that sum
    void *buf;       // everything happens in place
    size_t count;    // elements
    // Reduce-scatter and all-gather: part r is [r * each, (r + 1) * each), limited by count.
    size_t each; // 0: comm_each
    int peer;
};

// backend NULL: "self" when world is 1, else "ring". Strings are used during the call only.
int comm_open(struct comm **out, const char *backend, const struct comm_config *config,
              struct err *e);
void comm_close(struct comm *c); // NULL is allowed; drops what is pending

// A blocking call of all ranks of `parent`. Ranks with the same color form a new group, ordered by
// key and then by their rank in the parent. color < 0: no group, *out is NULL. Errors in a group
// still name the ranks of the run. The caller closes the group, before or after the parent.
int comm_split(struct comm **out, struct comm *parent, int color, int key, struct err *e);

// Gives a ticket; -1: the call is not possible, or the comm is broken.
int comm_start(struct comm *c, const struct comm_call *call, uint64_t *ticket, struct err *e);
// Until that operation, and so all started before it, is done.
int comm_wait(struct comm *c, uint64_t ticket, struct err *e);

// Blocking: runs after all operations started before it.
int comm_do(struct comm *c, const struct comm_call *call, struct err *e);
// The usual cut into parts: equal ones of whole cache lines, but for the last.
size_t comm_each(const struct comm *c, size_t count);

// The usual calls. all_reduce is of float.
int comm_all_reduce_start(struct comm *c, float *buf, size_t count, enum comm_op op,
                          uint64_t *ticket, struct err *e);
int comm_all_reduce(struct comm *c, float *buf, size_t count, enum comm_op op, struct err *e);
int comm_all_reduce_f64(struct comm *c, double *buf, size_t count, enum comm_op op, struct err *e);
int comm_broadcast(struct comm *c, void *buf, size_t bytes, int root, struct err *e);
// Everyone's `bytes` bytes, in rank order, into out (world * bytes). in may lie at its place in
// out.
int comm_all_gather(struct comm *c, const void *in, void *out, size_t bytes, struct err *e);
int comm_barrier(struct comm *c, struct err *e);

// While no operation runs and all ranks have to be there: -1 when one is known to be lost. Looks,
// and does not wait.
int comm_check(struct comm *c, struct err *e);
// Gives up for a reason of the caller's: every rank that waits, or checks, gets this error.
void comm_fail(struct comm *c, const struct err *e);

// To and from COMM_BF16: to nearest, ties to even.
void comm_narrow(uint16_t *to, const float *from, size_t n);
void comm_widen(float *to, const uint16_t *from, size_t n);

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
