// SPDX-License-Identifier: Apache-2.0
// A device with collectives that move nothing: it notes each call, and ends a mark at its time.
#ifndef TESTS_UNIT_TRAINER_DEVICE_FAKE_H
#define TESTS_UNIT_TRAINER_DEVICE_FAKE_H

#include "tests/tap.h"
#include "tests/unit/turned_clock.h"
#include "trainer/trainer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_MARKS = 8, FAKE_WATCHES = 64, FAKE_LOOK_MS = 10 };

static struct {
    char log[4096]; // the calls, in order
    int open_fails; // errno
    bool no_memory;
    const char *failure;
    size_t bytes; // of the only memory
    int opened;   // contexts, memory and collectives that are open
    // collectives
    int answer;                 // of open
    bool enqueue_fails;         // at the next call
    int watch_fails;            // at this watch, from 1; 0: none does
    int64_t end_ms[FAKE_MARKS]; // when the newest use of a mark ends
    uint64_t tickets;
    struct {
        uint64_t ticket;
        int64_t waited_ms;
    } watched[FAKE_WATCHES];
    int watches;
    struct comm_call calls[FAKE_MARKS], received; // by their number, from 0; of an exchange
    int (*look)(void *arg);
    void *look_arg;
} fake;

static struct kernel_ctx *const fake_ctx = (struct kernel_ctx *)(void *)&fake;
static struct comm_device *const fake_collectives = (struct comm_device *)(void *)fake.log;
static char fake_stream;

TAP_UNUSED __attribute__((format(printf, 1, 2))) static void fake_note(const char *fmt, ...) {
    size_t len = strlen(fake.log);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(fake.log + len, sizeof fake.log - len, fmt, ap);
    va_end(ap);
}

// ---- the device ---------------------------------------------------------------------------------

static int fake_open(struct kernel_ctx **out, const struct kernel_config *cfg) {
    (void)cfg;
    *out = fake.open_fails ? NULL : fake_ctx;
    fake.opened += !fake.open_fails;
    return -fake.open_fails;
}

static void fake_close(struct kernel_ctx *ctx) {
    fake.opened -= ctx == fake_ctx;
}

static const char *fake_failure(const struct kernel_ctx *ctx) {
    (void)ctx;
    return fake.failure;
}

static void *fake_alloc(struct kernel_ctx *ctx, size_t bytes) {
    (void)ctx;
    fake.bytes = bytes;
    fake.opened += !fake.no_memory;
    return fake.no_memory ? NULL : calloc(1, bytes);
}

static void fake_free(struct kernel_ctx *ctx, void *p, size_t bytes) {
    (void)ctx;
    fake.opened -= bytes == fake.bytes;
    free(p);
}

static void fake_write(struct kernel_ctx *ctx, void *dst, const void *src, size_t bytes) {
    (void)ctx;
    memcpy(dst, src, bytes);
}

static void *fake_begin(struct kernel_ctx *ctx, int queue) {
    (void)ctx;
    fake_note("begin %d;", queue);
    return &fake_stream;
}

static void fake_end(struct kernel_ctx *ctx, int queue, int mark) {
    (void)ctx;
    fake_note("end %d %d;", queue, mark);
}

static void fake_await(struct kernel_ctx *ctx, int mark) {
    (void)ctx;
    fake_note("await %d;", mark);
}

static int64_t fake_now_ms;

// Every look takes a while.
static int fake_done(struct kernel_ctx *ctx, int mark) {
    (void)ctx;
    if (mark >= FAKE_MARKS || fake_now_ms >= fake.end_ms[mark])
        return 1;
    clock_ahead_ms += FAKE_LOOK_MS;
    fake_now_ms += FAKE_LOOK_MS;
    return 0;
}

static void fake_waiting(struct kernel_ctx *ctx, int (*look)(void *arg), void *arg) {
    (void)ctx;
    fake.look = look;
    fake.look_arg = arg;
}

static const struct kernel_backend fake_kernels = {.name = "fake",
                                                   .real_bytes = sizeof(float),
                                                   .remote = 1,
                                                   .open = fake_open,
                                                   .close = fake_close,
                                                   .failure = fake_failure,
                                                   .mem_alloc = fake_alloc,
                                                   .mem_free = fake_free,
                                                   .mem_write = fake_write,
                                                   .mem_read = fake_write,
                                                   .beside_begin = fake_begin,
                                                   .beside_end = fake_end,
                                                   .beside_await = fake_await,
                                                   .beside_done = fake_done,
                                                   .while_waiting = fake_waiting};

// ---- its collectives ----------------------------------------------------------------------------

static int fake_join(struct comm_device **out, struct comm *host, char *const *env, struct err *e) {
    (void)host, (void)env;
    *out = fake.answer > 0 ? fake_collectives : NULL;
    fake.opened += fake.answer > 0;
    if (fake.answer <= 0)
        err_set(e, ERR_NOT_FOUND, "rank 1 has no library");
    return fake.answer;
}

static int fake_enqueue(struct comm_device *d, const struct comm_call *call, void *stream,
                        uint64_t *ticket, struct err *e) {
    if (d != fake_collectives || stream != &fake_stream)
        bail_out("a call goes elsewhere");
    fake_note("call %d;", (int)call->kind);
    fake.calls[fake.tickets % FAKE_MARKS] = *call;
    *ticket = ++fake.tickets + 100;
    return fake.enqueue_fails ? err_set(e, ERR_NET, "rank 2 is lost") : 0;
}

static int fake_exchange(struct comm_device *d, const struct comm_call *send,
                         const struct comm_call *receive, void *stream, uint64_t *ticket,
                         struct err *e) {
    fake.received = *receive;
    return fake_enqueue(d, send, stream, ticket, e);
}

static int fake_watch(struct comm_device *d, uint64_t ticket, int64_t waited_ms, struct err *e) {
    if (d != fake_collectives || fake.watches == FAKE_WATCHES)
        bail_out("a watch of another device, or one too many");
    fake.watched[fake.watches].ticket = ticket;
    fake.watched[fake.watches++].waited_ms = waited_ms;
    return fake.watches == fake.watch_fails ? err_set(e, ERR_NET, "rank 2 is lost") : 0;
}

static const char *fake_about(const struct comm_device *d) {
    return d == fake_collectives ? "FAKE 1.0" : "another";
}

static void fake_leave(struct comm_device *d) {
    fake.opened -= d == fake_collectives;
}

static const struct comm_device_table fake_table = {.name = "fake",
                                                    .open = fake_join,
                                                    .enqueue = fake_enqueue,
                                                    .exchange = fake_exchange,
                                                    .watch = fake_watch,
                                                    .about = fake_about,
                                                    .close = fake_leave};

static const struct trainer_device fake_device = {
    .kernels = &fake_kernels, .collectives = &fake_table, .about = "a fake"};

// A device that works, and whose clock the marks turn.
TAP_UNUSED static void fake_begins(void) {
    memset(&fake, 0, sizeof fake);
    fake.answer = 1;
    fake_now_ms = 0;
    clock_stop();
}

#endif
