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
struct hashing;
typedef void hashing_end(struct hashing *h, const struct err *e);
struct hashing {
    struct context *context; // NULL: not started
    struct manifest *manifest;
    const char *cache;
    const char *local, *path; // are added to the manifest first; NULL: nothing
    hashing_end *on_end;
    struct watch watch;
    pthread_t thread;
    int end_fd; // readable when the thread ends
    atomic_bool stop;
    atomic_ullong done, total; // bytes
    int result;
    struct err err;
};
int hashing_start(struct hashing *h, struct context *s, struct manifest *m, struct err *e);
int hashing_finish(struct hashing *h, struct err *e); // runs the loop until then
void hashing_cancel(struct hashing *h);               // no-op on one that is not started

// The same while the loop runs: adds the local folder to the manifest at `path` and hashes it
// without the cluster's cache, then calls on_end from the loop, unless it is cancelled before.
int hashing_follow(struct hashing *h, struct context *s, struct manifest *m, const char *local,
                   const char *path, hashing_end *on_end, struct err *e);

#endif
