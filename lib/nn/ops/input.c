// SPDX-License-Identifier: Apache-2.0
// The images: filled from outside.
#include "nn/layer.h"

static void input_shape(struct nn_model *m, struct nn_layer *l) {
    if (l->h < 1 || l->w < 1 || l->c < 1)
        model_fault(m, l, "%d x %d x %d is no image", l->h, l->w, l->c);
}

static void input_forward(const struct nn_call *c) {
    (void)c;
}

const struct nn_op nn_op_input = {.name = "input",
                                  .shape = input_shape,
                                  .forward = input_forward,
                                  .in_place = layer_never_in_place};
