// SPDX-License-Identifier: Apache-2.0
// Kinds of layers: one record each (ops/), with everything the planner and the step need to know.
#ifndef NN_LAYER_H
#define NN_LAYER_H

#include "kernels/kernels.h"
#include "nn/model.h"

// Arguments of one call. Pointers are into the network's one allocation.
struct nn_call {
    const struct kernel_backend *k;
    struct kernel_ctx *ctx;
    const struct nn_layer *layer;
    const struct nn_layer *input; // record of in[0]
    int n;                        // samples
    bool training;
    enum kernel_type type;                         // of products
    enum kernel_type x_store[NN_INS_MAX], y_store; // of x and dx, of y and dy (kernels/stored.h)
    const void *x[NN_INS_MAX];                     // inputs; NULL where the layer has fewer
    void *y;                                       // output
    void *dy;                // gradient of the output (backward); may be scribbled on
    void *dx[NN_INS_MAX];    // gradients of the inputs; NULL where none is wanted
    bool dx_add[NN_INS_MAX]; // add to dx instead of overwriting it
    void *saved;             // kept from forward to backward
    // Activations that products make, too (memory_plan.h). y is there, or dy has the derivative, by
    // the layer in front or behind. gelu_y gets GELU of y. dx[0] is multiplied by the derivative of
    // the ReLU that x[0] is the result of, or of GELU at gelu_x.
    bool y_made, dy_made, dx_relu;
    void *gelu_y;
    const void *gelu_x;
    // How many rows are in each of the sums that are left for a batch norm (nn_op.sums): of y, of
    // x[0]. 0: none.
    int y_sums, x_sums;
    bool stats_kept; // saved has what forward saves (memory_plan.h)
    void *param[NN_LAYER_PARAMS_MAX], *dparam[NN_LAYER_PARAMS_MAX]; // and their gradients
    bool dparam_add;            // add to the gradients (micro-batches)
    void *stat_mean, *stat_var; // running statistics
};

// Sets of tensors of a layer: bit i is input i.
enum nn_use { NN_USE_X0 = 1, NN_USE_X1 = 2, NN_USE_X2 = 4, NN_USE_Y = 8 };

struct nn_op {
    const char *name;
    // Shape of the output and the layer's parameters, from the record and its inputs' records.
    void (*shape)(struct nn_model *m, struct nn_layer *l);
    size_t (*workspace)(const struct nn_call *c); // bytes; NULL: none
    // Bytes from forward to backward, where x and y are kept in `store`; NULL: none.
    size_t (*saved_bytes)(const struct nn_layer *l, int n, size_t real, enum kernel_type store);
    // Multiplications for one sample on the way forward; NULL: one for each weight and position.
    int64_t (*products)(const struct nn_layer *l);
    // Of how many rows of y forward leaves a sum each, for a batch norm right behind; 0: this shape
    // leaves none. NULL: no shape does.
    int (*sums)(const struct nn_call *c);
    void (*forward)(const struct nn_call *c);
    void (*backward)(const struct nn_call *c);  // NULL: no gradient flows (the input)
    unsigned (*uses)(const struct nn_layer *l); // enum nn_use: what backward reads; NULL: nothing
    bool mixes;    // in[0] and the output can be kept in different types
    unsigned adds; // enum nn_use: inputs whose gradient backward can add to
    // Input whose gradient may take the place of dy, or -1.
    int (*in_place)(const struct nn_layer *l);
};

extern const struct nn_op nn_op_input, nn_op_conv, nn_op_batchnorm, nn_op_maxpool, nn_op_avgpool,
    nn_op_linear, nn_op_tokens, nn_op_first_token, nn_op_layernorm, nn_op_gelu, nn_op_attention,
    nn_op_linformer;

// Elements of the layer's output for n samples.
static inline size_t layer_elements(const struct nn_layer *l, int n) {
    return (size_t)n * (size_t)l->h * (size_t)l->w * (size_t)l->c;
}

// The type in which a layer's output and its gradient are kept, where those of the network are kept
// in `store`. The images that come in and the logits are reals.
static inline enum kernel_type layer_store(const struct nn_model *m, int layer,
                                           enum kernel_type store) {
    bool end = layer == 0 ? !m->has_before : layer == m->layers - 1 && !m->has_after;
    return end ? KERNEL_FLOAT : store;
}
// Bytes of so many numbers.
static inline size_t layer_store_bytes(size_t count, size_t real, enum kernel_type store) {
    return count * (store == KERNEL_BF16 ? sizeof(uint16_t) : real);
}
// Calls an op of kernels/stored.h for tensors of that type; c has k and ctx.
#define LAYER_DO(c, store, op, ...)                                                                \
    ((store) == KERNEL_BF16 ? (c)->k->bf16->op : (c)->k->op)((c)->ctx, __VA_ARGS__)

// For the records' functions.
static inline int layer_never_in_place(const struct nn_layer *l) {
    (void)l;
    return -1;
}
// Height and width behind a window that slides over x; 0 where x is smaller than it.
void layer_window(struct nn_layer *l, const struct nn_layer *x);
// Positions of n samples: rows of the matrix that the layer's output is.
static inline int64_t layer_rows(const struct nn_layer *l, int n) {
    return (int64_t)n * l->h * l->w;
}
// The output has the shape of x.
void layer_as(struct nn_layer *l, const struct nn_layer *x);
// Appends a parameter of layer l, named LAYER.SUFFIX, or as the layer without a suffix. It stays
// where it is until the next layer is built.
struct nn_param *model_add_param(struct nn_model *m, struct nn_layer *l, const char *suffix);
void model_add_stat(struct nn_model *m, struct nn_layer *l, int channels);
void model_fault(struct nn_model *m, const struct nn_layer *l, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
