// SPDX-License-Identifier: Apache-2.0
// Hashes the files of a manifest, with progress, until done or until a signal; optionally beside
// other work, such as connecting.
#ifndef FLEET_HASHING_H
#define FLEET_HASHING_H

#include "content/manifest.h"
#include "ui/context.h"

#include <pthread.h>
#include <stdatomic.h>

// Sets all hashes, taken from the cluster's cache for unchanged files. ERR_INTERRUPTED.
int hashing_run(struct context *s, struct manifest *m, struct err *e);

// The same in two steps. Between them the manifest must not be accessed. After a successful start,
// hashing_finish or hashing_cancel must be called; struct hashing must not move.
struct hashing {
    struct context *context;
    struct manifest *manifest;
    const char *cache;
    pthread_t thread;
    int end_fd; // readable when the thread ends
    atomic_bool stop;
    atomic_ullong done, total; // bytes
    int result;
    struct err err;
};
int hashing_start(struct hashing *h, struct context *s, struct manifest *m, struct err *e);
int hashing_finish(struct hashing *h, struct err *e); // runs the loop until then
void hashing_cancel(struct hashing *h);

#endif
