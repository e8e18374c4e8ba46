// SPDX-License-Identifier: Apache-2.0
// A model: a static list of layer records in execution order, and the parameters they own.
//
// Each record names the layers whose outputs it reads, so residual connections are edges of the
// list. The properties of a kind of layer (shapes, parameters, forward, backward, saved tensors,
// workspace) are one `struct nn_op` in a file of ops/. Building is pure: a model contains only
// shapes and offsets, so it can be inspected, planned and printed without a backend. model_free
// frees a model; a zeroed one may be freed, or built over, as well.
//
// Layouts in memory are those of kernels.h (activations NHWC, conv weights o,kh,kw,i). On disk
// names and shapes are torchvision's (weights o,i,kh,kw); model_disk_shape gives them.
#ifndef NN_MODEL_H
#define NN_MODEL_H

#include "base/err.h"
#include "conf/train_model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NN_NAME_BYTES_MAX = 64,
    NN_INS_MAX = 3,
    NN_LAYER_PARAMS_MAX = 6,
    NN_TENSOR_ALIGN = 16, // elements; parameters begin at multiples of a cache line
};

enum nn_init {
    NN_INIT_ZERO,
    NN_INIT_ONE,
    NN_INIT_NORMAL,
    NN_INIT_UNIFORM,
    NN_INIT_IDENTITY // uniform, but the first filters, one for each input channel, copy it
};

// One parameter tensor, a part of the flat parameter buffer.
struct nn_param {
    char name[NN_NAME_BYTES_MAX];
    // In memory: out, kh, kw, in; kh = kw = 1 for a linear layer on a vector. Vectors: out only.
    int out, kh, kw, in;
    bool vector;  // bias, gamma, beta
    bool linear;  // two dimensions on disk: [out][in * kh * kw]
    bool token;   // three dimensions on disk, [1][out][in]: a class token, positions
    bool fixed;   // not trained: its gradient is 0
    bool shift;   // added behind a normalisation
    size_t begin; // elements from the start of the flat buffer
    size_t count;
    enum nn_init init;
    double scale; // deviation or bound of the initial values
};

// Running mean and variance of one batch norm, a part of the flat statistics buffer.
struct nn_stat {
    char name[NN_NAME_BYTES_MAX]; // of the layer: "layer1.0.bn1"
    int channels;
    size_t mean, var; // elements from the start of the flat buffer
};

struct nn_op;
enum nn_act { NN_ACT_NONE, NN_ACT_RELU };

struct nn_layer {
    const struct nn_op *op;
    char name[NN_NAME_BYTES_MAX];
    int in[NN_INS_MAX], ins; // layers read; batch norm, linear: x, and the residual if there is one
    int h, w, c;             // output per sample
    union {
        struct {
            int kernel, stride, pad;
            bool flat; // convolution: its weight is a matrix on disk, [out][kernel * kernel * in]
        } window;      // convolution, pooling
        struct {
            bool rows;        // acts on each position, not on all numbers of a sample
            double deviation; // of normal initial weights, with a bias of 0; 0: PyTorch's uniform
            double scale;     // of the output; 0: 1
        } linear;
        struct {
            int heads, keys; // keys: that linformer projects to
        } attention;
        struct {
            double eps, momentum; // momentum: batch norm
        } norm;
        struct {
            double deviation, first; // of initial positions, and of the class token
        } tokens;
    } as;
    enum nn_act act;   // applied to the output
    bool bias;         // convolution, linear: with one
    bool fixed;        // convolution, batch norm: the weight is not trained
    bool identity;     // convolution: initial weights are NN_INIT_IDENTITY
    int param, params; // first parameter and how many
    int stat;          // batch norm: index of its statistics, else -1
};

struct nn_model {
    struct nn_layer *layer;
    struct nn_param *param;
    struct nn_stat *stat;
    int layers, params, stats;
    size_t layers_room, params_room, stats_room;
    size_t param_elements; // of the flat buffer, alignment gaps included
    size_t stat_elements;
    size_t param_count; // numbers that are trained
    int classes;
    bool reals;                       // all tensors, since some layer cannot mix types
    int whiten;                       // layer whose weights come from the data (whiten.h); 0: none
    struct train_model_spec spec;     // of model_build
    char text[TRAIN_MODEL_BYTES_MAX]; // the same as text
    // The position of a stage (stage.h) in the whole model; all 0 in a whole one.
    int first_layer, first_param, first_stat;
    size_t param_begin, stat_begin;
    bool has_before, has_after; // a stage in front, behind: the input, the output has a gradient
    struct err err;             // first mistake made while building; the builders below keep going
};

void model_free(struct nn_model *m);
// Builders append one layer and return its index. A wrong shape is noted in m->err.
void model_begin(struct nn_model *m); // an earlier model in *m is freed
int model_input(struct nn_model *m, int h, int w, int c);
int model_conv(struct nn_model *m, const char *name, int in, int out, int kernel, int stride,
               int pad, bool bias);
// y = bn(x) (+ residual) (then ReLU); residual is a layer or -1.
int model_batchnorm(struct nn_model *m, const char *name, int in, int residual, bool relu);
// The same with a scale that stays 1, without ReLU.
int model_shiftnorm(struct nn_model *m, const char *name, int in, double eps, double momentum);
// A convolution that keeps the size, without a bias, and at first copies its input.
int model_copyconv(struct nn_model *m, const char *name, int in, int out, int kernel);
// A convolution with a bias whose weights are those of whiten.h and stay: two filters for each
// number of a patch. The first layer behind the input.
int model_whiten(struct nn_model *m, const char *name, int in, int kernel);
int model_maxpool(struct nn_model *m, const char *name, int in, int kernel, int stride, int pad);
int model_avgpool(struct nn_model *m, const char *name, int in); // over all positions
int model_linear(struct nn_model *m, const char *name, int in, int out, bool relu);
int model_scaled(struct nn_model *m, const char *name, int in, int out, double scale); // no bias
// For transformers: tokens are positions, h of them and w = 1.
//
// Patches of size x size pixels without overlap, each a token's numbers. flat: as
// nn_layer.as.window.
int model_patches(struct nn_model *m, const char *name, int in, int out, int size, bool flat);
// The class token, 'cls_token', in front, and positions added: 'name'. deviation: of positions and
// class token at first.
int model_tokens(struct nn_model *m, const char *name, int in, double deviation, double first);
int model_first_token(struct nn_model *m, const char *name, int in);
int model_layernorm(struct nn_model *m, const char *name, int in, double eps);
// y = x W' + b (+ residual) at each position; residual is a layer or -1.
int model_rows(struct nn_model *m, const char *name, int in, int out, int residual,
               double deviation);
int model_gelu(struct nn_model *m, const char *name, int in);
// x[t][3 * width], queries, keys and values, to [t][width].
int model_attention(struct nn_model *m, const char *name, int in, int heads);
// Wang, Li, Khabsa, Fang, Ma, "Linformer: self-attention with linear complexity", 2020: x[t][width]
// to queries, and to keys and values that are brought to so many; without the projection behind.
int model_linformer(struct nn_model *m, const char *name, int in, int heads, int keys);
// A mistake in what is asked for, with a message as for err_set.
void model_refuse(struct nn_model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int model_end(struct nn_model *m, struct err *e); // reports m->err; the last layer gives the logits

// The user's choice of a model.
struct nn_model_spec {
    const char *name;                      // conf/train_model.h; of the fields that it leaves out
    const char *stem;                      // resnets: these, if not NULL,
    int hidden[TRAIN_HIDDEN_MAX], nhidden; // and mlp: these, if not 0; else the defaults
    int h, w, c, classes;
};
int model_build(struct nn_model *m, const struct nn_model_spec *spec, struct err *e);
const char *model_stem(const struct nn_model *m); // "" where a model has none

// Shape on disk; returns the number of dimensions.
int model_disk_shape(const struct nn_param *p, int dim[4]);
// Between memory order and disk order; count elements each, never the same buffer.
void model_to_disk(const struct nn_param *p, const float *memory, float *disk);
void model_from_disk(const struct nn_param *p, const float *disk, float *memory);

// Initial values of one parameter, in memory order: torchvision's rules, numbers from the seed and
// the parameter's index alone.
void model_init_param(const struct nn_model *m, int param, uint64_t seed, float *values);

#endif
