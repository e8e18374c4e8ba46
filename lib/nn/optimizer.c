// SPDX-License-Identifier: Apache-2.0
// Applies optimizers to ranges of the parameters.
#include "nn/optimizer.h"

#include "base/arena.h"

#include <stdlib.h>

// The arguments of one update.
struct update {
    const struct optimizer *o;
    struct network *net;
    double lr, grad_scale;
    char *p, *g, *state[NETWORK_STATES_MAX]; // the ranges count from here
    const struct optim_range *ranges;
    size_t nranges;
};

static void apply_sgd(const struct update *u) {
    const struct optimizer *o = u->o;
    struct network *net = u->net;
    struct sgd_args a = {.ranges = u->ranges,
                         .nranges = u->nranges,
                         .p = u->p,
                         .g = u->g,
                         .momentum_buf = o->momentum > 0 ? u->state[0] : NULL,
                         .lr = u->lr,
                         .momentum = o->momentum,
                         .grad_scale = u->grad_scale,
                         .nesterov = o->nesterov,
                         .step = o->now};
    net->k->sgd(net->ctx, &a);
}

static void apply_adam(const struct update *u) {
    const struct optimizer *o = u->o;
    struct network *net = u->net;
    struct adam_args a = {.ranges = u->ranges,
                          .nranges = u->nranges,
                          .p = u->p,
                          .g = u->g,
                          .m = u->state[0],
                          .v = u->state[1],
                          .lr = u->lr,
                          .beta1 = o->beta1,
                          .beta2 = o->beta2,
                          .eps = o->eps,
                          .grad_scale = u->grad_scale,
                          .step = o->step,
                          .decoupled = o->kind == TRAIN_ADAMW,
                          .now = o->now};
    net->k->adam(net->ctx, &a);
}

static const struct {
    int states;
    const char *state[2];
    void (*apply)(const struct update *u);
} kinds[TRAIN_OPTIMIZERS] = {
    [TRAIN_SGD] = {1, {"momentum_buffer"}, apply_sgd},
    [TRAIN_ADAM] = {2, {"exp_avg", "exp_avg_sq"}, apply_adam},
    [TRAIN_ADAMW] = {2, {"exp_avg", "exp_avg_sq"}, apply_adam},
};

int optimizer_inner(const struct optimizer *o) {
    return o->kind == TRAIN_SGD && o->momentum <= 0 ? 0 : kinds[o->kind].states;
}

int optimizer_states(const struct optimizer *o) {
    return optimizer_inner(o) + (o->ema > 0) + (o->lookahead > 0) +
           (o->rounds && o->outer_momentum > 0);
}

int optimizer_buffers(const struct optimizer *o) {
    return optimizer_states(o) + o->rounds;
}

int optimizer_ema(const struct optimizer *o) {
    return o->ema > 0 ? optimizer_inner(o) : -1;
}

int optimizer_lookahead(const struct optimizer *o) {
    return o->lookahead > 0 ? optimizer_inner(o) + (o->ema > 0) : -1;
}

int optimizer_outer(const struct optimizer *o) {
    return o->rounds && o->outer_momentum > 0 ? optimizer_states(o) - 1 : -1;
}

const char *optimizer_state_name(const struct optimizer *o, int i) {
    must(i < optimizer_states(o));
    return i == optimizer_ema(o)         ? "ema"
           : i == optimizer_lookahead(o) ? "lookahead"
           : i == optimizer_outer(o)     ? "outer_momentum"
                                         : kinds[o->kind].state[i];
}

// Of count numbers: decay of themselves, and the rest of the weights.
static void average(struct network *net, double decay, const char *weights, char *ema,
                    size_t count) {
    net->k->scale(net->ctx, count, decay, ema);
    net->k->axpy(net->ctx, count, 1 - decay, weights, ema);
}

static void copy(struct network *net, const char *from, char *to, size_t count) {
    net->k->zero(net->ctx, count, to);
    net->k->axpy(net->ctx, count, 1, from, to);
}

void optimizer_begin_averages(const struct optimizer *o, struct network *net) {
    const int which[] = {optimizer_ema(o), optimizer_lookahead(o)};
    for (int i = 0; i < 2; i++)
        if (which[i] >= 0)
            copy(net, net->params, net->state[which[i]], net->model->param_elements);
}

void optimizer_begin_stats(struct network *net) {
    copy(net, net->stats, net->slow, net->model->stat_elements);
}

// Slow and fast numbers become the same.
static void join(struct network *net, double keep, char *fast, char *slow, size_t count) {
    average(net, keep, fast, slow, count);
    copy(net, slow, fast, count);
}

void optimizer_pull_stats(const struct optimizer *o, struct network *net) {
    if (o->lookahead > 0 && o->keep >= 0)
        join(net, o->keep, net->stats, net->slow, net->model->stat_elements);
}

void optimizer_swap_ema(const struct optimizer *o, struct network *net) {
    if (o->ema <= 0)
        return;
    char *weights = net->params;
    net->params = net->state[optimizer_ema(o)];
    net->state[optimizer_ema(o)] = weights;
}

static char *anchor_of(const struct optimizer *o, struct network *net) {
    must(o->rounds && net->states == optimizer_buffers(o));
    return net->state[optimizer_states(o)];
}

void optimizer_begin_round(const struct optimizer *o, struct network *net) {
    if (o->rounds)
        copy(net, net->params, anchor_of(o, net), net->model->param_elements);
}

void optimizer_change(const struct optimizer *o, struct network *net, size_t begin, size_t end) {
    size_t at = begin * net->k->real_bytes;
    copy(net, anchor_of(o, net) + at, net->grads + at, end - begin);
    net->k->axpy(net->ctx, end - begin, -1, net->params + at, net->grads + at);
}

void optimizer_apply_outer(const struct optimizer *o, struct network *net, size_t begin,
                           size_t end) {
    size_t from = begin > net->settled_elements ? begin : net->settled_elements;
    if (from >= end)
        return;
    size_t at = from * net->k->real_bytes;
    const struct optim_range all = {.end = end - from, .lr_scale = 1};
    char *anchor = anchor_of(o, net) + at;
    struct sgd_args a = {.ranges = &all,
                         .nranges = 1,
                         .p = anchor,
                         .g = net->grads + at,
                         .lr = o->outer_lr,
                         .momentum = o->outer_momentum,
                         .grad_scale = 1,
                         .nesterov = o->outer_momentum > 0};
    if (optimizer_outer(o) >= 0)
        a.momentum_buf = net->state[optimizer_outer(o)] + at;
    net->k->sgd(net->ctx, &a);
    copy(net, anchor, net->params + at, end - from);
}

static double decay_of(const struct optimizer *o, const struct nn_param *p) {
    bool bare = p->vector || p->token;
    return o->decay == TRAIN_DECAY_WEIGHTS && bare ? 0 : o->weight_decay;
}

void optimizer_open(struct optimizer *o, const struct nn_model *m) {
    o->ranges = heap_alloc(2 * (size_t)m->params * sizeof *o->ranges); // and as many for an update
    o->ranges_room = (size_t)m->params;
    o->nranges = 0;
    for (int i = 0; i < m->params; i++) {
        size_t begin = m->param[i].begin,
               end = i + 1 < m->params ? m->param[i + 1].begin : m->param_elements;
        if (m->param[i].fixed)
            continue;
        double scale = m->param[i].shift && o->shift_lr > 0 ? o->shift_lr : 1;
        double decay = decay_of(o, &m->param[i]) / scale; // the decay of a step does not change
        struct optim_range *last = o->nranges ? &o->ranges[o->nranges - 1] : NULL;
        if (last && last->end == begin && last->weight_decay == decay && last->lr_scale == scale)
            last->end = end;
        else
            o->ranges[o->nranges++] = (struct optim_range){begin, end, decay, scale};
    }
}

void optimizer_close(struct optimizer *o) {
    free(o->ranges);
    o->ranges = NULL;
}

void optimizer_begin(struct optimizer *o) {
    o->step++;
}

void optimizer_apply(struct optimizer *o, struct network *net, double lr, double grad_scale,
                     size_t begin, size_t end, size_t state) {
    struct optim_range *cut = o->ranges + o->ranges_room;
    size_t count = 0;
    for (size_t i = 0; i < o->nranges; i++) {
        struct optim_range r = o->ranges[i];
        r.begin = r.begin > begin ? r.begin : begin;
        r.begin = r.begin > net->settled_elements ? r.begin : net->settled_elements;
        r.end = r.end < end ? r.end : end;
        if (r.begin >= r.end)
            continue;
        r.begin -= begin;
        r.end -= begin;
        cut[count++] = r;
    }
    size_t real = net->k->real_bytes;
    struct update u = {.o = o,
                       .net = net,
                       .lr = lr,
                       .grad_scale = grad_scale,
                       .p = net->params + begin * real,
                       .g = net->grads + begin * real,
                       .ranges = cut,
                       .nranges = count};
    for (int i = 0; i < net->states; i++)
        u.state[i] = net->state[i] + state * real;
    if (count)
        kinds[o->kind].apply(&u);
    size_t most = net->model->param_elements, last = end < most ? end : most;
    if (o->lookahead > 0 && o->keep >= 0 && begin < last)
        join(net, o->keep, u.p, u.state[optimizer_lookahead(o)], last - begin);
    if (o->ema > 0 && begin < last)
        average(net, o->ema, u.p, u.state[optimizer_ema(o)], last - begin);
}
