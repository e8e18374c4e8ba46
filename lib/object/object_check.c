// SPDX-License-Identifier: Apache-2.0
// The threads that hash received objects, and their queue.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "object/object_check.h"

#include "sys/proc.h"

#include <openssl/md5.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STEP_BYTES = 4 << 20, // hashed between two looks at `closing`
    THREAD_STACK_BYTES = 256 << 10,
};

static bool has_md5(const struct object_check *k) {
    return object_etag_is_md5(k->etag) && !k->kms;
}

static int compare_md5(const struct object_check *k, MD5_CTX *md5, struct err *e) {
    unsigned char digest[MD5_DIGEST_LENGTH];
    MD5_Final(digest, md5);
    return object_check_md5(k->etag, digest, e);
}

static int check_bytes(struct object_check *k, struct err *e) {
    hash_of(k->hash, k->p, k->len);
    if (!has_md5(k))
        return 0;
    MD5_CTX md5;
    MD5_Init(&md5);
    MD5_Update(&md5, k->p, k->len);
    return compare_md5(k, &md5, e);
}

// The bytes that the other hash has just read.
static int add_md5(MD5_CTX *md5, int fd, uint64_t from, uint64_t to, void *buf, struct err *e) {
    while (from < to) {
        size_t want = to - from < CAS_PIECE_BYTES ? (size_t)(to - from) : CAS_PIECE_BYTES;
        ssize_t n = pread(fd, buf, want, (off_t)from);
        if (err_interrupted(n))
            continue;
        if (n <= 0)
            return err_errno(e, ERR_SYS, "cannot read the received bytes");
        MD5_Update(md5, buf, (size_t)n);
        from += (uint64_t)n;
    }
    return 0;
}

static int check_part(const struct object_checks *c, struct object_check *k, struct err *e) {
    struct cas_part *part = k->part;
    bool with_md5 = has_md5(k);
    void *buf = with_md5 ? heap_alloc(CAS_PIECE_BYTES) : NULL;
    uint64_t summed = 0;
    int result = 0;
    MD5_CTX md5;
    MD5_Init(&md5);
    while (result == 0 && !atomic_load(&c->closing)) {
        result = cas_part_hash(part, STEP_BYTES, e);
        if (result >= 0 && with_md5 && add_md5(&md5, part->fd, summed, part->hashed, buf, e) < 0)
            result = -1;
        summed = part->hashed;
    }
    free(buf);
    if (result > 0) {
        struct hash whole = part->running;
        hash_final(&whole, k->hash);
    }
    return result > 0 && with_md5 ? compare_md5(k, &md5, e) : result;
}

static void check(const struct object_checks *c, struct object_check *k) {
    err_clear(&k->err);
    (void)(k->part ? check_part(c, k, &k->err) : check_bytes(k, &k->err));
}

// With the lock held.
static void put_ended(struct object_checks *c, struct object_check *k) {
    k->next = NULL;
    *c->ended_end = k;
    c->ended_end = &k->next;
}

static void *run(void *arg) {
    struct object_checks *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!atomic_load(&c->closing)) {
        struct object_check *k = c->first;
        if (!k) {
            c->idle++;
            pthread_cond_wait(&c->changed, &c->lock);
            c->idle--;
            continue;
        }
        c->first = k->next;
        if (!c->first)
            c->end = &c->first;
        pthread_mutex_unlock(&c->lock);
        check(c, k);
        pthread_mutex_lock(&c->lock);
        bool awake = c->ended != NULL; // it has been woken for another one
        struct http *http = k->http;
        put_ended(c, k);
        if (!awake)
            http_wake(http);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

void object_checks_open(struct object_checks *c) {
    *c = (struct object_checks){.thread_count = 0};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->end = &c->first;
    c->ended_end = &c->ended;
    c->threads_max = 1 + proc_cpu_count() / 2; // the others are for the transfers
    if (c->threads_max > OBJECT_CHECK_THREADS_MAX)
        c->threads_max = OBJECT_CHECK_THREADS_MAX;
}

// With the lock held.
static void add_thread(struct object_checks *c) {
    sigset_t all, before;
    pthread_attr_t attr;
    if (c->thread_count == c->threads_max)
        return;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
    sigfillset(&all); // signals are handled by the loop's thread
    pthread_sigmask(SIG_SETMASK, &all, &before);
    c->thread_count += pthread_create(&c->threads[c->thread_count], &attr, run, c) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
}

void object_check_begin(struct object_checks *c, struct object_check *k) {
    k->next = NULL;
    pthread_mutex_lock(&c->lock);
    if (c->idle == 0 || c->first)
        add_thread(c);
    if (c->thread_count > 0) {
        *c->end = k;
        c->end = &k->next;
        pthread_cond_signal(&c->changed);
    } else { // the system has no thread for this process
        check(c, k);
        put_ended(c, k);
    }
    pthread_mutex_unlock(&c->lock);
}

struct object_check *object_check_next(struct object_checks *c) {
    pthread_mutex_lock(&c->lock);
    struct object_check *k = c->ended;
    if (k)
        c->ended = k->next;
    if (!c->ended)
        c->ended_end = &c->ended;
    pthread_mutex_unlock(&c->lock);
    return k;
}

void object_checks_close(struct object_checks *c) {
    pthread_mutex_lock(&c->lock);
    atomic_store(&c->closing, true);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < c->thread_count; i++)
        pthread_join(c->threads[i], NULL);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
}
