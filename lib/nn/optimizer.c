// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizer.h"

static void apply_sgd(const struct optimizer *o, struct network *net, double lr,
                      const struct optim_range *range) {
    struct sgd_args a = {.ranges = range,
                         .nranges = 1,
                         .p = net->params,
                         .g = net->grads,
                         .momentum_buf = o->momentum > 0 ? net->state[0] : NULL,
                         .lr = lr,
                         .momentum = o->momentum,
                         .grad_scale = 1,
                         .nesterov = o->nesterov};
    net->k->sgd(net->ctx, &a);
}

static void apply_adam(const struct optimizer *o, struct network *net, double lr,
                       const struct optim_range *range) {
    struct adam_args a = {.ranges = range,
                          .nranges = 1,
                          .p = net->params,
                          .g = net->grads,
                          .m = net->state[0],
                          .v = net->state[1],
                          .lr = lr,
                          .beta1 = o->beta1,
                          .beta2 = o->beta2,
                          .eps = o->eps,
                          .grad_scale = 1,
                          .step = o->step,
                          .decoupled = o->kind == TRAIN_ADAMW};
    net->k->adam(net->ctx, &a);
}

static const struct {
    int states;
    const char *state[NETWORK_STATES_MAX];
    void (*apply)(const struct optimizer *o, struct network *net, double lr,
                  const struct optim_range *range);
} kinds[TRAIN_OPTIMIZERS] = {
    [TRAIN_SGD] = {1, {"momentum_buffer"}, apply_sgd},
    [TRAIN_ADAM] = {2, {"exp_avg", "exp_avg_sq"}, apply_adam},
    [TRAIN_ADAMW] = {2, {"exp_avg", "exp_avg_sq"}, apply_adam},
};

int optimizer_states(const struct optimizer *o) {
    return o->kind == TRAIN_SGD && o->momentum <= 0 ? 0 : kinds[o->kind].states;
}

const char *optimizer_state_name(const struct optimizer *o, int i) {
    must(i < kinds[o->kind].states);
    return kinds[o->kind].state[i];
}

void optimizer_begin(struct optimizer *o) {
    o->step++;
}

void optimizer_apply(const struct optimizer *o, struct network *net, double lr, size_t begin,
                     size_t end) {
    size_t most = net->model->param_elements;
    struct optim_range range = {begin, end < most ? end : most, o->weight_decay, 1};
    if (range.begin < range.end)
        kinds[o->kind].apply(o, net, lr, &range);
}
