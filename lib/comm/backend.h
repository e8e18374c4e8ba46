// SPDX-License-Identifier: Apache-2.0
// Private to lib/comm: what a backend gives to comm.c. It is never entered by two threads at once.
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
};

extern const struct comm_backend comm_self, comm_ring;

#endif
