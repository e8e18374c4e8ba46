// SPDX-License-Identifier: Apache-2.0
// Builders of models that have a file of their own; for models.c alone.
#ifndef NN_MODELS_IMPL_H
#define NN_MODELS_IMPL_H

#include "nn/model.h"

void build_vit(struct nn_model *m, const struct nn_model_spec *spec);
void build_airbench(struct nn_model *m, const struct nn_model_spec *spec);
void build_linformer(struct nn_model *m, const struct nn_model_spec *spec);

#endif
