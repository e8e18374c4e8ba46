// SPDX-License-Identifier: Apache-2.0
// The hashes of received objects, computed on threads, so that neither transfers nor the other
// objects wait: SHA-256 of each, and its MD5 where the ETag is one.
//
//     object_checks_open(&c);          // starts no thread yet
//     object_check_begin(&c, &check);  // http_step returns early when the check has ended
//     while ((k = object_check_next(&c))) …
//     object_checks_close(&c);         // gives up those under way
//
// Ownership: a check, its part and its bytes are the caller's, and belong to a thread from
// object_check_begin until object_check_next or object_checks_close returns.
#ifndef OBJECT_OBJECT_CHECK_H
#define OBJECT_OBJECT_CHECK_H

#include "object/object_range.h"

#include <pthread.h>
#include <stdatomic.h>

enum { OBJECT_CHECK_THREADS_MAX = 4 };

struct object_check {
    // Set by the caller.
    struct http *http;     // is woken at the end
    const char *etag;      // compared where it is an MD5
    bool kms;              // it is none
    struct cas_part *part; // complete, and not hashed by another; NULL: the content is at p
    const void *p;
    size_t len;
    void *ctx;

    // Results.
    struct err err;
    unsigned char hash[HASH_BYTES];

    struct object_check *next; // of object_check.c
};

struct object_checks {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t threads[OBJECT_CHECK_THREADS_MAX];
    int threads_max, thread_count, idle;
    atomic_bool closing;
    struct object_check *first, **end; // to do
    struct object_check *ended, **ended_end;
};

// c stays at its address until object_checks_close.
void object_checks_open(struct object_checks *c);
void object_check_begin(struct object_checks *c, struct object_check *k);
struct object_check *object_check_next(struct object_checks *c); // NULL: no further one has ended
void object_checks_close(struct object_checks *c);

#endif
