// SPDX-License-Identifier: Apache-2.0
// Stages of a pipeline: a model is cut between two layers where only the output of the first is
// used later. A stage is then a range of layers with one input and one output tensor. Each stage is
// a model of its own, whose parameters are a range of the whole model's. Pure.
#ifndef NN_STAGE_H
#define NN_STAGE_H

#include "nn/model.h"

// Work of one layer for one sample, both ways, in units that can be added up: multiplications, and
// the bytes of its output, each as long as STAGE_BYTE_WORK of them.
enum { STAGE_BYTE_WORK = 8 };
int64_t stage_layer_work(const struct nn_model *m, int layer);

// True when only the output of the previous layer is used at or after this layer.
bool stage_may_begin(const struct nn_model *m, int layer);

// The layers that stages begin with: first[0] is 0, first[stages] the number of layers. The largest
// stage is as small as possible. ERR_CONFIG where the model has fewer places to cut it.
int stage_cut(const struct nn_model *m, int stages, int *first, struct err *e);
// The same from names: a stage begins with each of those layers, in the model's order; names may be
// those of blocks ("layer3.0"). ERR_CONFIG names the one where no stage can begin.
int stage_cut_at(const struct nn_model *m, const char *const *names, int count, int *first,
                 struct err *e);

// Layers [first, last) as a model; out is zeroed, or an earlier one, which is freed. model_free
// ends it.
void stage_model(struct nn_model *out, const struct nn_model *m, int first, int last);

#endif
