// SPDX-License-Identifier: Apache-2.0
// Private to lib/comm: the functions that a backend gives to comm.c. A backend is never entered by
// two threads at once.
#ifndef COMM_BACKEND_H
#define COMM_BACKEND_H

#include "comm/comm.h"
#include "comm/element.h"

#include <stdatomic.h>

struct comm_work {
    enum comm_kind kind; // never send or receive: between two ranks they are a broadcast
    const struct element *type;
    void *buf;
    size_t count; // elements
    size_t each;  // elements of one rank's part
    double factor;
    int root; // of a broadcast
};

// The state that every waiting loop checks.
struct comm_watch {
    _Atomic bool cancel; // comm_close wants the operation to end
    int stall_timeout_ms_max;
};

enum { COMM_SLICE_MS = 50 }; // longest wait before looking at peers again

struct comm_backend {
    const char *name;
    // shown: the number of this rank in errors.
    int (*open)(void **impl, const struct comm_config *config, int shown, struct comm_watch *watch,
                struct err *e);
    int (*run)(void *impl, const struct comm_work *work, struct err *e);
    void (*close)(void *impl);
    // Between two operations; both may be NULL. check looks after the other ranks as a waiting
    // operation does, without waiting; fail tells them why this one gives up.
    int (*check)(void *impl, struct err *e);
    void (*fail)(void *impl, const struct err *e);
};

// For collectives of a device, which go beside those of a comm. Its configuration, with its
// defaults set; the number of a rank in errors; a call that is not possible; the words for one.
const struct comm_config *comm_configuration(const struct comm *c);
int comm_shown(const struct comm *c, int rank);
int comm_possible(const struct comm *c, const struct comm_call *call, struct err *e);
void comm_blame(const struct comm *c, const struct comm_call *call, struct err *e);

extern const struct comm_backend comm_self, comm_ring;

#endif
