// SPDX-License-Identifier: Apache-2.0
// Hashes what is to be sent, with progress, and stoppable by a signal; beside other work, such as
// logging in, if need be.
#ifndef FLEET_HASHING_H
#define FLEET_HASHING_H

#include "content/manifest.h"
#include "ui/context.h"

#include <pthread.h>
#include <stdatomic.h>

// Fills in all hashes, from the cluster's cache where files have not changed. ERR_INTERRUPTED.
int hashing_run(struct context *s, struct manifest *m, struct err *e);

// The same in two steps. Between them the manifest must not be touched; one of hashing_finish and
// hashing_cancel must follow a start that succeeded, and struct hashing must stay where it is.
struct hashing {
    struct context *context;
    struct manifest *manifest;
    const char *cache;
    pthread_t thread;
    int end_fd; // readable when the thread is about to end
    atomic_bool stop;
    atomic_ullong done, total; // bytes
    int result;
    struct err err;
};
int hashing_start(struct hashing *h, struct context *s, struct manifest *m, struct err *e);
int hashing_finish(struct hashing *h, struct err *e); // turns the loop meanwhile
void hashing_cancel(struct hashing *h);

#endif
