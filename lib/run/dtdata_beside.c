// SPDX-License-Identifier: Apache-2.0
// dtdata beside the work of the loop.
#include "run/dtdata_beside.h"

#include "sys/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10 };

// Its end follows through the loop.
static void give_up(struct dtdata_beside *d) {
    watch_stop(&d->out);
    timer_stop(&d->limit);
    kill(d->program.pid, SIGKILL);
}

// One piece of the output. False: there is none now, or it has ended.
static bool read_some(struct dtdata_beside *d) {
    static char bytes[READ_BYTES];
    ssize_t n = read(d->program.from, bytes, sizeof bytes);
    if (err_interrupted(n))
        return true;
    if (n < 0 && errno != EAGAIN)
        err_errno(&d->err, ERR_SYS, "cannot read from " DTDATA_PROGRAM);
    else if (n > 0)
        (void)dtdata_program_take(&d->program, bytes, (size_t)n, &d->err);
    if (n == 0)
        watch_stop(&d->out);
    return n > 0 && !d->err.code;
}

static void on_output(struct watch *w, unsigned events) {
    struct dtdata_beside *d = container_of(w, struct dtdata_beside, out);
    (void)events;
    (void)read_some(d);
    if (d->err.code)
        give_up(d);
}

static void on_limit(struct timer *t) {
    struct dtdata_beside *d = container_of(t, struct dtdata_beside, limit);
    err_set(&d->err, ERR_TIMEOUT, DTDATA_PROGRAM " has not ended within %lld s",
            (long long)(d->ms_max / 1000));
    give_up(d);
}

static void on_exit(struct child *c, int status) {
    struct dtdata_beside *d = container_of(c, struct dtdata_beside, child);
    while (!d->err.code && read_some(d))
        continue;
    watch_stop(&d->out);
    timer_stop(&d->limit);
    struct dtdata_program ended = d->program;
    struct err e = d->err, ignored;
    (void)dtdata_program_ended(&ended, status, e.code ? &ignored : &e);
    d->program = (struct dtdata_program){.from = -1, .to = -1};
    d->on_end(d, &ended.text, &e);
    dtdata_program_close(&ended);
}

static int watch(struct dtdata_beside *d, struct loop *loop, struct err *e) {
    struct dtdata_program *p = &d->program;
    // A program that does not read its answers must not stop this one.
    if (fcntl(p->from, F_SETFL, O_NONBLOCK) < 0 || fcntl(p->to, F_SETFL, O_NONBLOCK) < 0)
        return err_errno(e, ERR_SYS, "cannot make a pipe non-blocking");
    if (child_start(loop, &d->child, p->pid, on_exit, e) < 0 ||
        watch_start(loop, &d->out, p->from, LOOP_READ, on_output, e) < 0)
        return -1;
    timer_start(loop, &d->limit, d->ms_max, on_limit);
    return 0;
}

int dtdata_beside_start(struct dtdata_beside *d, struct context *s, const struct dtdata_call *call,
                        dtdata_beside_end *on_end, struct err *e) {
    struct dtdata_call alone = *call;
    alone.alone = true;
    *d = (struct dtdata_beside){.ms_max = call->ms_max, .on_end = on_end};
    if (dtdata_program_start(&d->program, s, &alone, e) < 0)
        return -1;
    if (watch(d, s->loop, e) == 0)
        return 0;
    dtdata_beside_stop(d);
    return -1;
}

bool dtdata_beside_runs(const struct dtdata_beside *d) {
    return d->program.pid > 0;
}

void dtdata_beside_stop(struct dtdata_beside *d) {
    if (!dtdata_beside_runs(d))
        return;
    watch_stop(&d->out);
    timer_stop(&d->limit);
    child_stop(&d->child);
    proc_end(d->program.pid, DTDATA_BESIDE_END_MS_MAX); // an upload takes back its parts
    dtdata_program_close(&d->program);
    d->program.pid = 0;
}
