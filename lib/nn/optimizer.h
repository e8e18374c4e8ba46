// SPDX-License-Identifier: Apache-2.0
// Optimizers over the network's flat buffers, with torch.optim's formulas.
#ifndef NN_OPTIMIZER_H
#define NN_OPTIMIZER_H

#include "conf/train_names.h"
#include "nn/network.h"

struct optimizer {
    enum train_optimizer kind;
    double momentum; // sgd
    bool nesterov;   // sgd
    double weight_decay;
    double beta1, beta2, eps;      // adam, adamw
    enum train_decay decay;        // what weight decay acts on
    double shift_lr;               // learning rate of the shifts of norms, as a factor; 0: 1
    double ema;                    // decay of the average of weights, the last state; 0: none
    double lookahead;              // base of the slow weights, the last state; 0: none
    double keep;                   // of them in this update; below 0: they take no part
    bool rounds;                   // an outer optimizer acts on the parameters now and then …
    double outer_lr;               // … which is this
    double outer_momentum;         // its momentum is the last state; 0: none
    int64_t step;                  // updates done; raised by optimizer_begin
    const struct kernel_step *now; // of a remote backend, instead of lr and grad_scale; or NULL
    struct optim_range *ranges;    // from optimizer_open
    size_t nranges, ranges_room;
};

// Lays out the ranges of the model's parameters that differ in weight decay.
void optimizer_open(struct optimizer *o, const struct nn_model *m);
void optimizer_close(struct optimizer *o);

int optimizer_states(const struct optimizer *o); // buffers that checkpoints hold
int optimizer_ema(const struct optimizer *o);    // which of them is the average; -1: none
// Zhang, Lucas, Hinton, Ba, "Lookahead optimizer: k steps forward, 1 step back", NeurIPS 2019: slow
// weights, which the fast ones join now and then: both become `keep` of the slow ones and the rest
// of the fast ones. Running statistics do so, too.
int optimizer_lookahead(const struct optimizer *o); // which state; -1: none
void optimizer_pull_stats(const struct optimizer *o, struct network *net);
// The averages, of weights, slow weights, begin as the weights are; those that there are.
void optimizer_begin_averages(const struct optimizer *o, struct network *net);
void optimizer_begin_stats(struct network *net); // slow statistics, as the running ones are
// The average and the weights change places; nothing where there is none.
void optimizer_swap_ema(const struct optimizer *o, struct network *net);
// Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023
// (arXiv 2311.08105). Each rank trains by itself for a round. The change of its parameters, from
// now back to where the round began, is a gradient for an outer SGD with Nesterov's momentum, which
// acts on the parameters as the round began. The network has one buffer more for those (the anchor,
// net->state[optimizer_states]), which between two rounds is equal to the parameters.
int optimizer_outer(const struct optimizer *o);   // which state is its momentum; -1: none
int optimizer_buffers(const struct optimizer *o); // states of the network: with the anchor
int optimizer_inner(const struct optimizer *o); // states that the updates of a step have: the first
void optimizer_begin_round(const struct optimizer *o, struct network *net); // the anchor
// Of elements begin to end: the change of the round, in place of the gradients.
void optimizer_change(const struct optimizer *o, struct network *net, size_t begin, size_t end);
// Takes the gradients there for the mean change; the next round begins with the result.
void optimizer_apply_outer(const struct optimizer *o, struct network *net, size_t begin,
                           size_t end);
// torch's name of the i-th state: "momentum_buffer", "exp_avg", "exp_avg_sq"; "ema", "lookahead",
// "outer_momentum".
const char *optimizer_state_name(const struct optimizer *o, int i);

// One update is optimizer_begin, then optimizer_apply for disjoint ranges of elements that together
// cover the parameters, in any order.
void optimizer_begin(struct optimizer *o);
// grad_scale: of the gradients, which stay as they are. state: where the state of `begin` is, in
// elements; `begin` where a rank has all of it.
void optimizer_apply(struct optimizer *o, struct network *net, double lr, double grad_scale,
                     size_t begin, size_t end, size_t state);

#endif
