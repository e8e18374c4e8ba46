// SPDX-License-Identifier: Apache-2.0
// Marks the progress of chunks in shared memory, and waits for that of other ranks.
#include "comm/shm.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// A few microseconds: where ranks and their compute threads share cores, the one waited for may
// need this very core.
enum { SHM_SPINS = 200 };

static inline void shm_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool shm_reached(const struct shm_counter *c, uint32_t q) {
    return (int32_t)(atomic_load_explicit(&c->value, memory_order_acquire) - q) >= 0;
}

// Between processes, so not FUTEX_PRIVATE.
static void shm_futex_wait(_Atomic uint32_t *word, uint32_t seen) {
    const struct timespec slice = {0, COMM_SLICE_MS * 1000000L};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &slice, NULL, 0);
}

static void shm_futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void shm_set(struct shm_counter *c, uint32_t q) {
    // Sequentially consistent on both sides: either the sleeper sees the value before it sleeps, or
    // this sees the sleeper.
    atomic_store(&c->value, q);
    if (atomic_load(&c->sleepers) > 0)
        shm_futex_wake(&c->value);
}

int shm_fault(struct shm *s, const struct err *e) {
    uint32_t none = 0;
    if (!s->head || !atomic_compare_exchange_strong(&s->head->fault, &none, 1))
        return -1;
    s->head->fault_code = (int32_t)e->code;
    snprintf(s->head->fault_text, SHM_FAULT_BYTES, "%.*s", SHM_FAULT_BYTES - 1, e->text);
    atomic_store(&s->head->fault, 2);
    shm_futex_wake(&s->head->final.value); // others notice within a slice
    for (int i = 0; i < s->local_world; i++) {
        shm_futex_wake(&s->ranks[i].arrived.value);
        shm_futex_wake(&s->ranks[i].reduced.value);
        shm_futex_wake(&s->ranks[i].taken.value);
    }
    return -1;
}

static int shm_fault_read(const struct shm *s, struct err *e) {
    char text[SHM_FAULT_BYTES];
    memcpy(text, s->head->fault_text, sizeof text); // a broken peer may still write
    text[sizeof text - 1] = 0;
    int code = s->head->fault_code;
    bool known = code > ERR_NONE && code <= ERR_NO_STATUS;
    return err_set(e, known ? (enum err_code)code : ERR_NET, "%s", text);
}

int shm_check(struct shm *s, struct err *e) {
    if (atomic_load(&s->watch->cancel))
        return err_set(e, ERR_INTERRUPTED, "the collective was given up");
    if (!s->head)
        return 0;
    if (atomic_load(&s->head->fault) == 2)
        return shm_fault_read(s, e);
    for (int i = 0; i < s->local_world; i++) {
        struct pollfd p = {.fd = s->pidfd[i], .events = POLLIN};
        if (p.fd < 0 || poll(&p, 1, 0) <= 0)
            continue;
        // Someone else may have reported the reason in the meantime.
        if (atomic_load(&s->head->fault) == 2)
            return shm_fault_read(s, e);
        err_set(e, ERR_NET,
                "rank %d (local rank %d, process %d) ended in the middle of a collective",
                atomic_load(&s->ranks[i].rank), i, atomic_load(&s->ranks[i].pid));
        return shm_fault(s, e);
    }
    return 0;
}

// Checks of a waiting rank between two sleeps.
static int shm_patience(struct shm *s, const struct shm_counter *c, uint32_t q, int peer,
                        int64_t deadline_ms, struct err *e) {
    bool left = peer >= 0 && atomic_load(&s->ranks[peer].state) == SHM_LEFT;
    int bad = shm_check(s, e);
    // Looked at again last: a peer may do its part and end.
    if (shm_reached(c, q)) {
        err_clear(e);
        return 0;
    }
    if (bad)
        return -1;
    if (left) {
        err_set(e, ERR_NET, "rank %d (local rank %d) left the run in the middle of a collective",
                atomic_load(&s->ranks[peer].rank), peer);
        return shm_fault(s, e);
    }
    if (clock_mono_ms() >= deadline_ms) {
        err_set(e, ERR_TIMEOUT, "rank %d (local rank %d) did not take part within %lld ms",
                peer >= 0 ? atomic_load(&s->ranks[peer].rank) : -1, peer, (long long)s->limit_ms);
        return shm_fault(s, e);
    }
    return 0;
}

int shm_wait(struct shm *s, struct shm_counter *c, uint32_t q, int peer, struct err *e) {
    for (int i = 0; i < SHM_SPINS; i++) {
        if (shm_reached(c, q))
            return 0;
        shm_relax();
    }
    int64_t deadline_ms = clock_mono_ms() + s->limit_ms;
    while (!shm_reached(c, q)) {
        atomic_fetch_add(&c->sleepers, 1);
        uint32_t seen = atomic_load(&c->value);
        int64_t slept = clock_mono_ms();
        if ((int32_t)(seen - q) < 0)
            shm_futex_wait(&c->value, seen);
        atomic_fetch_sub(&c->sleepers, 1);
        if (shm_reached(c, q))
            break;
        bool early = clock_mono_ms() - slept < COMM_SLICE_MS / 2; // the counter moved, not enough
        if ((!early || atomic_load(&s->head->fault) == 2) &&
            shm_patience(s, c, q, peer, deadline_ms, e) < 0)
            return -1;
    }
    return 0;
}

int shm_wait_all(struct shm *s, size_t offset, uint32_t q, struct err *e) {
    for (int i = 0; i < s->local_world; i++) {
        void *counter = (char *)&s->ranks[i] + offset;
        if (i != s->local_rank && shm_wait(s, counter, q, i, e) < 0)
            return -1;
    }
    return 0;
}
