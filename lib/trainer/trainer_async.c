// SPDX-License-Identifier: Apache-2.0
// Asynchronous steps on a device. The scalars of a step go to the device before its kernels. The
// device adds up the losses and decides about the update. The host reads the results ASYNC_STEPS
// steps later, on every rank at the same step. trainer_graph.c launches the work of a step.
#include "base/array.h"
#include "base/clock.h"
#include "trainer/trainer_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *why_not(const struct trainer *t) {
    if (t->round.steps)
        return "the ranks take local steps";
    if (t->world > 1 && !t->device)
        return t->mesh.pipe > 1 ? "the hosts pass the micro-batches on"
                                : "the hosts pass the gradients on";
    if (t->chunks > 1)
        return "each rank has several stages";
    if (t->options->accumulate * t->micros <= NETWORK_LOSSES_MAX)
        return NULL;
    return t->micros > 1 ? "a step has too many micro-batches"
                         : "train.accumulate has too many parts";
}

void trainer_async_choose(struct trainer *t) {
    const char *why = why_not(t);
    t->async.on = t->config->device && t->config->shards <= 1 && !why;
    snprintf(t->async.why, sizeof t->async.why, "%s", why ? why : "");
}

bool trainer_is_async(const struct step_run *r) {
    return r->t->async.on && r->mode == RUN_TRAIN;
}

// ---- opening and closing -----------------------------------------------------------------------

static bool is_scaling(const struct trainer *t) {
    return t->options->dtype == TRAIN_F16;
}

static int make_step(struct trainer *t, struct err *e) {
    struct network *net = trainer_async_net(t);
    struct optimizer *o = &t->chunk[0].optimizer;
    bool adam = o->kind != TRAIN_SGD;
    bool known = t->at.loss_scale > 0; // from the checkpoint
    struct kernel_step first = {.loss_scale = !is_scaling(t) ? 1
                                              : known        ? t->at.loss_scale
                                                             : STEP_SCALE_FIRST,
                                .good = is_scaling(t) ? t->at.loss_scale_good : 0,
                                .updates = (double)o->step,
                                .power1 = adam ? pow(o->beta1, (double)o->step) : 0,
                                .power2 = adam ? pow(o->beta2, (double)o->step) : 0};
    t->async.step = net->k->mem_alloc(net->ctx, sizeof first);
    if (!t->async.step)
        return err_set(e, ERR_LIMIT, "no memory for the scalars of a step");
    net->k->mem_write(net->ctx, t->async.step, &first, sizeof first);
    o->now = t->async.step;
    net->step = is_scaling(t) ? t->async.step : NULL;
    return trainer_device_check(t, e);
}

// Captures something small, and launches it.
static bool can_capture(struct trainer *t) {
    struct network *net = trainer_async_net(t);
    const char *why = NULL;
    if (t->mesh.pipe > 1) {
        snprintf(t->async.why, sizeof t->async.why, "stages of a pipeline pass micro-batches on");
        return false;
    }
    net->k->capture_begin(net->ctx);
    net->k->zero(net->ctx, NETWORK_TAIL,
                 net->grads + net->model->param_elements * net->k->real_bytes);
    void *captured = net->k->capture_end(net->ctx, &why);
    if (!captured) {
        snprintf(t->async.why, sizeof t->async.why, "the driver captures no graph: %.200s", why);
        return false;
    }
    net->k->replay(net->ctx, captured);
    net->k->capture_free(net->ctx, captured);
    return true;
}

// All ranks capture their steps, or none.
static int agree(struct trainer *t, bool *can, struct err *e) {
    unsigned char mine = *can, *all = heap_alloc((size_t)t->world * sizeof *all);
    int r = comm_all_gather(t->comm, &mine, all, sizeof mine, e);
    for (int i = 0; i < t->world && r == 0; i++)
        if (!all[i] && *can) {
            snprintf(t->async.why, sizeof t->async.why, "rank %d cannot capture a graph", i);
            *can = false;
        }
    free(all);
    return r;
}

int trainer_async_open(struct trainer *t, struct err *e) {
    struct async *a = &t->async;
    int wanted = t->options->graph;
    if (a->on) {
        a->joined = t->apart && t->world > 1;
        a->capture = wanted != TRAIN_GRAPH_OFF && can_capture(t);
        if (wanted == TRAIN_GRAPH_OFF)
            snprintf(a->why, sizeof a->why, "train.graph is off");
        if (make_step(t, e) < 0 || agree(t, &a->capture, e) < 0)
            return -1;
        if (t->device)
            t->config->device->collectives->before_abort(t->device, trainer_async_forget, t);
    }
    if (wanted != TRAIN_GRAPH_ON || a->capture)
        return 0;
    return err_set(e, ERR_CONFIG, "train.graph is on, and %s (try: train.graph auto)",
                   t->config->device ? a->why : "this run computes on processors");
}

void trainer_async_forget(void *trainer) {
    struct trainer *t = trainer;
    struct network *net = trainer_async_net(t);
    for (int i = 0; i < t->async.graphs; i++) {
        net->k->capture_free(net->ctx, t->async.graph[i].captured);
        free(t->async.graph[i].calls);
        t->async.graph[i] = (struct async_graph){0};
    }
    t->async.graphs = 0;
}

void trainer_async_close(struct trainer *t) {
    struct network *net = trainer_async_net(t);
    if (!net->k)
        return;
    trainer_async_forget(t);
    if (t->async.step)
        net->k->mem_free(net->ctx, t->async.step, sizeof *t->async.step);
    t->async.step = NULL;
}

void trainer_async_say(const struct trainer *t, struct strbuf *line) {
    if (t->async.capture)
        strbuf_addf(line, "; a step is one CUDA graph");
    else
        strbuf_addf(line, "; steps start kernel by kernel: %s", t->async.why);
}

// ---- the operations of a step ------------------------------------------------------------------

static float *tail_of(const struct trainer *t) {
    const struct network *net = trainer_async_net(t);
    return (float *)(void *)(net->grads + net->model->param_elements * net->k->real_bytes);
}

void trainer_async_totals(struct step_run *r) {
    struct trainer *t = r->t;
    struct network *net = trainer_async_net(t);
    bool joined = t->async.joined, counts = t->data_rank == 0 || t->zero;
    const struct step_totals_args a = {.step = t->async.step,
                                       .losses = net->losses,
                                       .nlosses = net->unfetched_pending,
                                       .scale = trainer_loss_scale(r),
                                       .tail = joined ? NULL : tail_of(t),
                                       .ranks = t->mesh.data,
                                       .squares = net->squares,
                                       .nsquares = joined && counts ? net->squares_pending : 0};
    net->k->step_totals(net->ctx, &a);
}

// Where the totals do not travel behind the gradients, a collective of their own adds them up.
static int join_totals(struct step_run *r, struct err *e) {
    struct trainer *t = r->t;
    int mark = t->chunk[0].part->buckets.count; // behind those of the buckets
    const struct comm_call call = {.kind = COMM_ALL_REDUCE,
                                   .type = COMM_F64,
                                   .op = COMM_SUM,
                                   .buf =
                                       (char *)t->async.step + offsetof(struct kernel_step, totals),
                                   .count = KERNEL_TOTALS};
    trainer_async_totals(r);
    if (trainer_device_start(t, t->device, 0, mark, &call, e) < 0)
        return err_wrap(e, "adding up step %lld", (long long)t->at.step);
    trainer_device_after(t, mark);
    return 0;
}

int trainer_async_judge(struct step_run *r, struct err *e) {
    struct trainer *t = r->t;
    struct network *net = trainer_async_net(t);
    const struct optimizer *o = &t->chunk[0].optimizer;
    const struct step_judge_args a = {.step = t->async.step,
                                      .tail = t->async.joined ? NULL : tail_of(t),
                                      .squares = net->squares,
                                      .nsquares = net->squares_pending,
                                      .beta1 = o->beta1,
                                      .beta2 = o->beta2,
                                      .scaling = is_scaling(t),
                                      .grads = net->grads,
                                      .ngrads = net->model->param_elements};
    if (t->async.joined && join_totals(r, e) < 0)
        return -1;
    net->k->step_judge(net->ctx, &a);
    return 0;
}

void trainer_async_called(struct trainer *t, const struct comm_call *call, uint64_t ticket) {
    struct async_graph *g = t->async.capturing;
    if (!t->async.ticket)
        t->async.ticket = ticket;
    if (!g)
        return;
    array_grow(g->calls, &g->room, g->ncalls + 1);
    g->calls[g->ncalls++] = *call;
}

uint64_t trainer_async_ticket(const struct trainer *t) {
    const struct async *a = &t->async;
    return a->settled < a->enqueued ? a->pending[a->settled % (ASYNC_STEPS + 1)].ticket : a->ticket;
}

// ---- the step ----------------------------------------------------------------------------------

static int settle(struct trainer *t, struct err *e) {
    struct async *a = &t->async;
    struct network *net = trainer_async_net(t);
    int slot = (int)(a->settled % (ASYNC_STEPS + 1));
    struct step_done *d = &a->pending[slot].done;
    struct kernel_step s;
    float tail[NETWORK_TAIL] = {0};
    int64_t since = clock_mono_ns();
    net->k->read_end(net->ctx, slot, &s, sizeof s);
    a->settled++;
    if (trainer_device_check(t, e) < 0)
        return -1;
    for (int i = 0; i < KERNEL_TOTALS - 1; i++)
        tail[i] = (float)s.totals[i];
    if (!isfinite(tail[TAIL_LOSS]))
        return trainer_rank_diverged(t, "the loss", s.own_loss, d->step, e);
    if (s.halted != 0)
        return trainer_gradient_halted(t, (int64_t)s.culprit - 1, d->step, e);
    if (is_scaling(t))
        t->at.loss_scale = s.loss_scale, t->at.loss_scale_good = s.good;
    trainer_proven(t);
    t->proven = false;
    t->chunk[0].optimizer.step = (int64_t)s.updates;
    t->grad_norm = d->grad_norm = sqrt(s.totals[KERNEL_TOTALS - 1]);
    int64_t now = clock_mono_ns();
    d->times.compute_ns += now - since;
    d->times.total_ns = now - a->since_ns;
    a->since_ns = now;
    trainer_account(t, d, tail);
    return 0;
}

// Steps that are enqueued ahead of the one that is settled. A pipeline empties with each step, and
// the marks of its links are those of one step.
static int ahead(const struct trainer *t) {
    return t->mesh.pipe > 1 ? 0 : ASYNC_STEPS;
}

int trainer_async_drain(struct trainer *t, struct err *e) {
    while (t->async.settled < t->async.enqueued)
        if (settle(t, e) < 0)
            return -1;
    return 0;
}

// The scalars of this step, which the device reads when it comes to it.
static void write_scalars(struct step_run *r) {
    struct trainer *t = r->t;
    struct network *net = trainer_async_net(t);
    t->lr = lr_schedule_rate(&t->schedule, trainer_progress(t, t->at.consumed),
                             trainer_progress(t, r->consumed));
    trainer_set_requests(r);
    const double scalars[] = {t->lr, t->options->clip_norm, (double)r->tail[TAIL_STOP],
                              (double)r->tail[TAIL_SAVE]};
    _Static_assert(sizeof scalars == offsetof(struct kernel_step, loss_scale), "its first members");
    net->k->mem_write(net->ctx, t->async.step, scalars, sizeof scalars);
}

int trainer_async_step(struct step_run *r, const struct step_program *p, struct step_done *d,
                       struct err *e) {
    struct trainer *t = r->t;
    struct async *a = &t->async;
    struct network *net = trainer_async_net(t);
    struct optimizer *o = &t->chunk[0].optimizer;
    int slot = (int)(a->enqueued % (ASYNC_STEPS + 1));
    if (a->enqueued == a->settled)
        a->since_ns = clock_mono_ns();
    if (a->graphs > ASYNC_GRAPHS_MAX / 2)
        trainer_async_forget(t);
    net->unfetched_pending = net->squares_pending = 0;
    a->ticket = 0;
    o->keep = trainer_lookahead(r);
    write_scalars(r);
    if (trainer_graph_step(r, p, e) < 0)
        return -1;
    optimizer_pull_stats(o, net);
    net->k->read_start(net->ctx, slot, a->step, sizeof *a->step);
    a->seen = true;
    t->at.step++;
    t->at.consumed = r->consumed;
    d->step = t->at.step;
    d->images = r->rows * t->shards;
    d->lr = t->lr;
    d->times = r->times;
    a->pending[slot] = (struct async_step){*d, a->ticket};
    a->enqueued++;
    net->unfetched_pending = net->squares_pending = 0;
    return a->enqueued - a->settled > ahead(t) ? settle(t, e) : 0;
}
