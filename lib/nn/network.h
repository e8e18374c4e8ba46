// SPDX-License-Identifier: Apache-2.0
// A model that runs: one backend, one allocation, forward, loss and backward without any further
// allocation. Parameters, gradients, optimizer state and running statistics are flat buffers of the
// backend's numbers (float, or double with the double-precision reference).
//
//     network_open(&net, &config, e);
//     … fill network_input(&net) with n samples, network_labels(&net, labels, n) …
//     network_forward(&net, n, NETWORK_TRAIN);
//     network_loss(&net, n, smoothing, 1.0 / n);
//     network_backward(&net, n, false, 1, model.layers);
//     network_losses(&net, totals);
//     network_close(&net);
#ifndef NN_NETWORK_H
#define NN_NETWORK_H

#include "kernels/kernels.h"
#include "nn/layer.h"
#include "nn/memory_plan.h"
#include "nn/model.h"

enum {
    NETWORK_TAIL = NN_TENSOR_ALIGN, // numbers behind the gradients that are reduced with them
    NETWORK_STATES_MAX = 4,
    NETWORK_LOSSES_MAX = 64, // computed and not yet read
};

enum network_mode {
    NETWORK_EVAL,        // running statistics are used
    NETWORK_TRAIN,       // batch statistics are used, running ones updated
    NETWORK_TRAIN_APART, // batch statistics are used, running ones left as they are
    NETWORK_PROBE        // as NETWORK_EVAL, on the batch and in the memory of a training pass
};

struct network_config {
    const struct nn_model *model; // must outlive the network
    const struct kernel_backend *backend;
    struct kernel_config kernel;
    enum kernel_type type;   // in which products are made
    bool reals;              // activations are reals, also where the backend keeps them in type
    int batch;               // most samples in a training step
    int eval_batch;          // most samples in an evaluation step; 0: none
    int slots;               // training batches under way at one time; 0: one
    bool recompute;          // blocks run forward again in backward: less memory, the same numbers
    int views;               // evaluations of each image that are averaged; 0: one
    int states;              // optimizer buffers: 0 … NETWORK_STATES_MAX
    size_t state_elements;   // of each of them; 0: as many as the parameters
    struct kernel_ctx *ctx;  // of another network, which is closed later; NULL: one of its own
    size_t memory_bytes_max; // limit, copy_bytes and the kernels included; 0: not known
    size_t copy_bytes;       // of checkpoints, whose memory belongs to another module
};

struct network {
    const struct nn_model *model;
    const struct kernel_backend *k;
    struct kernel_ctx *ctx;
    bool shares_ctx, has_views;
    enum kernel_type type;  // of products
    enum kernel_type store; // in which activations and their gradients are kept
    int batch, eval_batch;
    struct memory_plan train, eval;
    int slots, slot;       // the slot in use
    size_t state_elements; // of each state
    char *memory;
    size_t memory_bytes, copy_bytes; // of the allocation; of checkpoints, elsewhere
    size_t arena_bytes;              // of memory_bytes: activations and their gradients
    size_t workspace_bytes;          // of the kernels, beside memory_bytes
    char *params;                    // model->param_elements
    char *grads;                     // model->param_elements + NETWORK_TAIL
    char *state[NETWORK_STATES_MAX]; // state_elements each
    int states;
    char *stats; // model->stat_elements: running means and variances
    char *apart; // the same, written by NETWORK_TRAIN_APART
    char *slow;  // the same, of slow weights (optimizer.h)
    char *views; // eval_batch x classes: sum of logits; NULL: one view
    char *arena; // activations and their gradients
    int32_t *labels;
    struct loss_totals *losses; // NETWORK_LOSSES_MAX, of which so many are not yet read
    double *squares;            // one per layer, of which so many are not yet read
    int unfetched_pending, squares_pending;
    const struct kernel_step *step; // of a remote backend, whose loss scale counts; or NULL
    int64_t tracked;                // training passes that updated the running statistics
    bool ran_train;                 // which plan the arena follows now
    int settled;                    // layers below are no longer trained (network_settle) …
    size_t settled_elements;        // … which have so many parameters
};

// Everything zero but running variances, which are 1. ERR_LIMIT when there is not enough memory.
int network_open(struct network *net, const struct network_config *config, struct err *e);
// The same without its memory: the sizes are known, and nothing can run. network_close ends it.
int network_lay(struct network *net, const struct network_config *config, struct err *e);
// The bytes of activations and their gradients if they were of this type of storage.
size_t network_arena_bytes(const struct network *net, enum kernel_type store, bool recompute);
void network_close(struct network *net);               // safe on a zeroed one
void network_init(struct network *net, uint64_t seed); // initial parameters

// The slot that the calls below work in, with training batches.
void network_select(struct network *net, int slot);
// n x h x w x c numbers: reals, but in a stage behind another in network.store.
void *network_input(struct network *net, enum network_mode mode);
// Copies x to the input, in the input's type.
void network_set_input(struct network *net, enum network_mode mode, int n, const float *x);
void network_labels(struct network *net, const int32_t *labels, int n);
void network_forward(struct network *net, int n, enum network_mode mode);
// Layers first to last - 1 of it, for measurements.
void network_forward_layers(struct network *net, int n, enum network_mode mode, int first,
                            int last);
const void *network_logits(const struct network *net); // n x classes, of the last forward
// The tensors exchanged with neighbouring stages, n x the layer's elements.
void *network_output(const struct network *net, enum network_mode mode);
void *network_output_gradient(const struct network *net); // before backward; it scribbles on it
void *network_input_gradient(const struct network *net);  // after backward

// A training pass that the backend runs by itself (kernel_backend.replay).
void network_count_pass(struct network *net, enum network_mode mode);

// Cross-entropy on the logits of the last forward; after a training forward it also sets their
// gradient, scaled by grad_scale. network_losses waits for the results: those since its last call,
// in their order, at most NETWORK_LOSSES_MAX; it returns how many.
void network_loss(struct network *net, int n, double smoothing, double grad_scale);
int network_losses(struct network *net, struct loss_totals *out);
// After the evaluation of one view of the images: adds its logits to those of the views before, and
// after the last view takes the sum for the logits.
void network_view(struct network *net, int n, double weight, bool first, bool last);
// Runs backward through layers last - 1 down to first; the caller covers all of them in turn, from
// the last one to 1. add: adds to the existing gradients (micro-batches).
void network_backward(struct network *net, int n, bool add, int first, int last);

// The first layer with parameters stays as it is from now on: its gradient is 0, and backward does
// not reach it. Nothing in a stage behind another.
void network_settle(struct network *net);

// The sum of squares of so many numbers; network_squares_sum waits for them, and adds up those
// since its last call, at most one per layer, in their order.
void network_squares(struct network *net, size_t count, const char *numbers);
double network_squares_sum(struct network *net);

// Numbers to and from host floats, whatever the backend's number is.
void network_get(const struct network *net, const char *buffer, size_t begin, size_t count,
                 float *out);
void network_set(struct network *net, char *buffer, size_t begin, size_t count, const float *in);

#endif
