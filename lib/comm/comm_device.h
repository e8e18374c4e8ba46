// SPDX-License-Identifier: Apache-2.0
// Collectives of numbers that lie on devices: a table of libraries beside the backends of comm.h,
// which move the host's memory. The ranks meet through a comm of the host, which continues to
// carry their control messages.
//
//     comm_nccl.open(&d, host, environ, e);
//     uint64_t ticket = comm_nccl.enqueue(d, &call, stream, e) …; // returns at once
//     … while the host waits for its stream: comm_nccl.watch(d, ticket, waited_ms, e);
//     comm_nccl.close(d);
//
// Every rank enqueues the same calls in the same order. The order in which a sum is formed is the
// library's: ranks get the same bits, but other ones than from a comm of the host.
#ifndef COMM_COMM_DEVICE_H
#define COMM_COMM_DEVICE_H

#include "comm/comm.h"

enum {
    COMM_DEVICE_ABOUT_BYTES_MAX = 256,
    COMM_DEVICE_WATCH_MS = 50, // between two calls of watch
};

struct comm_device;

struct comm_device_table {
    const char *name;
    // A blocking call of all ranks of `host`, which outlives the result. 1: open. 0: not all ranks
    // have the library, and e says which one lacks it and why. -1: an error of the run, such as two
    // different versions. The calling thread has a context of its device.
    int (*open)(struct comm_device **out, struct comm *host, char *const *env, struct err *e);
    // A group of the ranks that give the same color, in the order of key; `host` are the same ranks
    // in the same order. color < 0: no group, *out is NULL. Blocking, of all ranks of the parent.
    // To be closed before the first communicator, which has the library, and by whose end it ends.
    int (*split)(struct comm_device **out, struct comm_device *parent, int color, int key,
                 struct comm *host, struct err *e);
    // call.buf is memory of the device. Sends and receives go between any two ranks. A sum of
    // COMM_BYTE is not possible.
    int (*enqueue)(struct comm_device *d, const struct comm_call *call, void *stream,
                   uint64_t *ticket, struct err *e);
    // The same for a send and a receive, which run at the same time.
    int (*exchange)(struct comm_device *d, const struct comm_call *send,
                    const struct comm_call *receive, void *stream, uint64_t *ticket, struct err *e);
    // To be called every COMM_DEVICE_WATCH_MS while the host waits for the call of that ticket, the
    // first one that has not ended. -1: a rank is lost, or the call has made no progress for the
    // host's stall_timeout_ms_max: e names the call and the rank that is missing, and all ranks
    // get that error. All enqueued calls are aborted, also those of the groups that were split from
    // one communicator with this one.
    int (*watch)(struct comm_device *d, uint64_t ticket, int64_t waited_ms, struct err *e);
    // Calls that a captured graph has were enqueued once more. Returns the ticket of the first.
    uint64_t (*again)(struct comm_device *d, const struct comm_call *calls, int count);
    // A function that is called before calls are aborted, so that graphs with them are freed: NCCL
    // waits for those.
    void (*before_abort)(struct comm_device *d, void (*release)(void *arg), void *arg);
    const char *(*about)(const struct comm_device *d); // "NCCL 2.28.9 of PATH"
    void (*close)(struct comm_device *d);              // never waits for others; NULL is allowed
};

// NCCL, found when the program runs: $DTCTL_NCCL, beside the program, folders of CUDA, the loader's
// path, PyTorch's copy.
extern const struct comm_device_table comm_nccl;

#endif
