// SPDX-License-Identifier: Apache-2.0
// Rounds of local steps (train.local_steps). Inside a round each rank applies its own gradients. At
// the end all ranks average the change of their parameters, and an outer optimizer applies the mean
// to the parameters that the round began with (optimizer.h). Running statistics become their mean,
// too. The inner optimizer state stays with its rank; a checkpoint holds the mean over all ranks,
// which every rank takes over, so that a resumed run and an uninterrupted one do the same.
//
// The totals of a step (loss, accuracy, requests to stop or save) travel during the next one. A
// network with a long delay thus does not add its delay to every step.
#include "base/arena.h"
#include "base/clock.h"
#include "trainer/trainer_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Whether a rank has a gradient that is not finite; behind the tail of a step.
enum { TOTAL_BAD = TAIL_SAVE + 1, TOTALS };
enum { PIECE_ELEMENTS = 1 << 18 };

_Static_assert((int)TOTALS <= (int)NETWORK_TAIL, "the totals have their place");

// Waits for the totals that are on their way. All ranks learn of a number that is not finite, and
// take part in the search for it.
static int await_totals(struct trainer *t, struct err *e) {
    struct round *d = &t->round;
    if (!d->pending)
        return 0;
    d->pending = false;
    if (comm_wait(t->comm, d->ticket, e) < 0)
        return err_wrap(e, "adding up step %lld", (long long)d->step);
    if (!isfinite(d->totals[TAIL_LOSS]))
        return trainer_rank_diverged(t, "the loss", d->loss, d->step, e);
    if (d->totals[TOTAL_BAD] > 0)
        return trainer_gradient_diverged(t, d->step, e);
    memcpy(d->tail, d->totals, sizeof d->tail);
    trainer_proven(t);
    return 0;
}

// A rank whose own numbers are not finite does not apply them. It waits for the totals at once.
int trainer_local_steps_judge(struct step_run *r, struct err *e) {
    struct trainer *t = r->t;
    struct round *d = &t->round;
    int64_t since = clock_mono_ns();
    if (await_totals(t, e) < 0)
        return -1;
    bool bad = !isfinite(r->squares);
    memcpy(d->totals, r->tail, sizeof d->totals);
    d->totals[TOTAL_BAD] = bad;
    d->loss = r->loss;
    d->step = t->at.step + 1;
    d->same = false;
    d->pending = true;
    if (comm_all_reduce_start(t->comm, d->totals, TOTALS, COMM_MEAN, &d->ticket, e) < 0)
        return err_wrap(e, "adding up step %lld", (long long)d->step);
    bad = bad || !isfinite(r->tail[TAIL_LOSS]);
    if (bad && await_totals(t, e) < 0)
        return -1;
    must(!bad);
    r->times.comm_ns += clock_mono_ns() - since;
    return 0;
}

// A change that is not finite is not applied.
int trainer_local_steps_judge_change(struct step_run *r, struct err *e) {
    struct trainer *t = r->t;
    double sum = r->squares;
    int64_t since = clock_mono_ns();
    if (trainer_device_check(t, e) < 0)
        return -1;
    if (comm_all_reduce_f64(t->comm, &sum, 1, COMM_SUM, e) < 0)
        return err_wrap(e, "adding up the changes of a round at step %lld", (long long)t->at.step);
    r->times.comm_ns += clock_mono_ns() - since;
    return isfinite(sum) ? 0
                         : trainer_rank_diverged(t, "the change of the parameters", r->squares,
                                                 t->at.step, e);
}

// Numbers of the network become the mean over all ranks.
static int average(struct trainer *t, char *numbers, size_t count, struct err *e) {
    const struct network *net = &t->chunk[0].net;
    float *piece = heap_alloc(PIECE_ELEMENTS * sizeof *piece);
    int r = 0;
    for (size_t done = 0; done < count && r == 0; done += PIECE_ELEMENTS) {
        size_t n = count - done < PIECE_ELEMENTS ? count - done : PIECE_ELEMENTS;
        network_get(net, numbers, done, n, piece);
        r = comm_all_reduce(t->comm, piece, n, COMM_MEAN, e);
        if (r == 0)
            network_set(&t->chunk[0].net, numbers, done, n, piece);
    }
    free(piece);
    return r;
}

int trainer_local_steps_end(struct trainer *t, struct step_times *times, struct err *e) {
    const struct network *net = &t->chunk[0].net;
    struct step_run r = {.t = t, .mode = RUN_ROUND, .rows = 1};
    int64_t since = clock_mono_ns();
    if (await_totals(t, e) < 0)
        return -1;
    times->comm_ns += clock_mono_ns() - since;
    if (trainer_step_run(&r, &t->round.program, e) < 0)
        return -1;
    since = clock_mono_ns();
    if (t->mesh.data > 1 && average(t, net->stats, net->model->stat_elements, e) < 0)
        return err_wrap(e, "averaging the running statistics at step %lld", (long long)t->at.step);
    times->compute_ns += r.times.compute_ns;
    times->comm_ns += r.times.comm_ns + clock_mono_ns() - since;
    t->round.taken = 0;
    t->proven = false;
    return 0;
}

int trainer_local_steps_share(struct trainer *t, struct err *e) {
    const struct chunk *c = &t->chunk[0];
    if (t->round.same || t->mesh.data == 1)
        return 0;
    for (int i = 0; i < optimizer_inner(&c->optimizer); i++)
        if (average(t, c->net.state[i], c->net.state_elements, e) < 0)
            return err_wrap(e, "averaging the optimizer state at step %lld", (long long)t->at.step);
    t->round.same = true;
    return 0;
}
