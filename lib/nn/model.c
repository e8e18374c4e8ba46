// SPDX-License-Identifier: Apache-2.0
// Builds a model from layers, and names its parameters as they are on disk.
#include "nn/model.h"

#include "base/arena.h"
#include "base/array.h"
#include "nn/layer.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The first fault of a model counts. layer NULL: of the model as a whole.
__attribute__((format(printf, 3, 0))) static void refuse(struct nn_model *m, const char *layer,
                                                         const char *fmt, va_list ap) {
    char text[256];
    if (m->err.code != ERR_NONE)
        return;
    vsnprintf(text, sizeof text, fmt, ap);
    if (layer)
        err_set(&m->err, ERR_CONFIG, "model: layer '%s': %s", layer, text);
    else
        err_set(&m->err, ERR_CONFIG, "model %s: %s", m->text, text);
}

void model_fault(struct nn_model *m, const struct nn_layer *l, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    refuse(m, l->name, fmt, ap);
    va_end(ap);
}

void model_refuse(struct nn_model *m, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    refuse(m, NULL, fmt, ap);
    va_end(ap);
}

static const double BATCHNORM_EPS = 1e-5, BATCHNORM_MOMENTUM = 0.1; // torchvision's

static size_t aligned(size_t elements) {
    return (elements + NN_TENSOR_ALIGN - 1) / NN_TENSOR_ALIGN * NN_TENSOR_ALIGN;
}

struct nn_param *model_add_param(struct nn_model *m, struct nn_layer *l, const char *suffix) {
    must(l->params < NN_LAYER_PARAMS_MAX);
    struct nn_param *p = &m->param[m->params];
    if (l->params++ == 0)
        l->param = m->params;
    m->params++;
    *p = (struct nn_param){.kh = 1, .kw = 1, .in = 1};
    int n = snprintf(p->name, sizeof p->name, "%s%s%s", l->name, suffix ? "." : "",
                     suffix ? suffix : "");
    must(n > 0 && n < (int)sizeof p->name);
    return p;
}

void model_add_stat(struct nn_model *m, struct nn_layer *l, int channels) {
    struct nn_stat *s = &m->stat[m->stats];
    l->stat = m->stats++;
    snprintf(s->name, sizeof s->name, "%s", l->name);
    s->channels = channels;
    s->mean = m->stat_elements;
    s->var = s->mean + aligned((size_t)channels);
    m->stat_elements = s->var + aligned((size_t)channels);
}

void model_free(struct nn_model *m) {
    free(m->layer);
    free(m->param);
    free(m->stat);
    *m = (struct nn_model){0};
}

void model_begin(struct nn_model *m) {
    model_free(m);
}

// Places the new layer's parameters behind the others in the flat buffer.
static void place_params(struct nn_model *m, const struct nn_layer *l) {
    for (int i = 0; i < l->params; i++) {
        struct nn_param *p = &m->param[l->param + i];
        size_t count = (size_t)p->out;
        count = p->vector ? count : count * (size_t)p->kh * (size_t)p->kw * (size_t)p->in;
        if (count > INT_MAX)
            model_fault(m, l, "%zu weights, more than %d", count, INT_MAX);
        p->count = count;
        p->begin = m->param_elements;
        m->param_elements += aligned(count);
        m->param_count += count;
    }
}

static int append(struct nn_model *m, const struct nn_layer *record, const char *name) {
    array_grow(m->layer, &m->layers_room, (size_t)m->layers + 1);
    array_grow(m->param, &m->params_room, (size_t)m->params + NN_LAYER_PARAMS_MAX);
    array_grow(m->stat, &m->stats_room, (size_t)m->stats + 1);
    struct nn_layer *l = &m->layer[m->layers];
    *l = *record;
    l->stat = -1;
    int n = snprintf(l->name, sizeof l->name, "%s", name);
    must(n > 0 && n < (int)sizeof l->name);
    for (int s = 0; s < l->ins; s++)
        must(l->in[s] >= 0 && l->in[s] < m->layers);
    // After a first mistake shapes are meaningless: records are appended without checks.
    if (m->err.code == ERR_NONE)
        l->op->shape(m, l);
    if (m->err.code == ERR_NONE && (l->h < 1 || l->w < 1 || l->c < 1))
        model_fault(m, l, "output would be %d x %d x %d: the input is too small", l->h, l->w, l->c);
    if (m->err.code == ERR_NONE)
        place_params(m, l);
    return m->layers++;
}

void layer_window(struct nn_layer *l, const struct nn_layer *x) {
    int kernel = l->as.window.kernel, stride = l->as.window.stride, pad = l->as.window.pad;
    l->h = x->h + 2 * pad < kernel ? 0 : kernel_conv_out(x->h, kernel, stride, pad);
    l->w = x->w + 2 * pad < kernel ? 0 : kernel_conv_out(x->w, kernel, stride, pad);
}

void layer_as(struct nn_layer *l, const struct nn_layer *x) {
    l->h = x->h;
    l->w = x->w;
    l->c = x->c;
}

int model_input(struct nn_model *m, int h, int w, int c) {
    struct nn_layer l = {.op = &nn_op_input, .h = h, .w = w, .c = c};
    return append(m, &l, "input");
}

int model_conv(struct nn_model *m, const char *name, int in, int out, int kernel, int stride,
               int pad, bool bias) {
    struct nn_layer l = {.op = &nn_op_conv,
                         .in = {in},
                         .ins = 1,
                         .c = out,
                         .as.window = {kernel, stride, pad, false},
                         .bias = bias};
    return append(m, &l, name);
}

int model_batchnorm(struct nn_model *m, const char *name, int in, int residual, bool relu) {
    struct nn_layer l = {.op = &nn_op_batchnorm,
                         .in = {in, residual},
                         .ins = residual < 0 ? 1 : 2,
                         .as.norm = {BATCHNORM_EPS, BATCHNORM_MOMENTUM},
                         .act = relu ? NN_ACT_RELU : NN_ACT_NONE};
    return append(m, &l, name);
}

int model_shiftnorm(struct nn_model *m, const char *name, int in, double eps, double momentum) {
    struct nn_layer l = {
        .op = &nn_op_batchnorm, .in = {in}, .ins = 1, .as.norm = {eps, momentum}, .fixed = true};
    return append(m, &l, name);
}

int model_copyconv(struct nn_model *m, const char *name, int in, int out, int kernel) {
    struct nn_layer l = {.op = &nn_op_conv,
                         .in = {in},
                         .ins = 1,
                         .c = out,
                         .as.window = {kernel, 1, kernel / 2, false},
                         .identity = true};
    return append(m, &l, name);
}

int model_whiten(struct nn_model *m, const char *name, int in, int kernel) {
    struct nn_layer l = {.op = &nn_op_conv,
                         .in = {in},
                         .ins = 1,
                         .c = 2 * kernel * kernel * m->layer[in].c,
                         .as.window = {kernel, 1, 0, false},
                         .bias = true,
                         .fixed = true};
    must(in == 0 && m->whiten == 0);
    return m->whiten = append(m, &l, name);
}

int model_maxpool(struct nn_model *m, const char *name, int in, int kernel, int stride, int pad) {
    struct nn_layer l = {
        .op = &nn_op_maxpool, .in = {in}, .ins = 1, .as.window = {kernel, stride, pad, false}};
    return append(m, &l, name);
}

int model_avgpool(struct nn_model *m, const char *name, int in) {
    struct nn_layer l = {.op = &nn_op_avgpool, .in = {in}, .ins = 1};
    return append(m, &l, name);
}

int model_linear(struct nn_model *m, const char *name, int in, int out, bool relu) {
    struct nn_layer l = {.op = &nn_op_linear,
                         .in = {in},
                         .ins = 1,
                         .c = out,
                         .bias = true,
                         .act = relu ? NN_ACT_RELU : NN_ACT_NONE};
    return append(m, &l, name);
}

int model_scaled(struct nn_model *m, const char *name, int in, int out, double scale) {
    struct nn_layer l = {
        .op = &nn_op_linear, .in = {in}, .ins = 1, .c = out, .as.linear = {.scale = scale}};
    return append(m, &l, name);
}

int model_patches(struct nn_model *m, const char *name, int in, int out, int size, bool flat) {
    struct nn_layer l = {.op = &nn_op_conv,
                         .in = {in},
                         .ins = 1,
                         .c = out,
                         .as.window = {size, size, 0, flat},
                         .bias = true};
    return append(m, &l, name);
}

int model_tokens(struct nn_model *m, const char *name, int in, double deviation, double first) {
    struct nn_layer l = {
        .op = &nn_op_tokens, .in = {in}, .ins = 1, .as.tokens = {deviation, first}};
    return append(m, &l, name);
}

int model_first_token(struct nn_model *m, const char *name, int in) {
    struct nn_layer l = {.op = &nn_op_first_token, .in = {in}, .ins = 1};
    return append(m, &l, name);
}

int model_layernorm(struct nn_model *m, const char *name, int in, double eps) {
    struct nn_layer l = {.op = &nn_op_layernorm, .in = {in}, .ins = 1, .as.norm = {.eps = eps}};
    return append(m, &l, name);
}

int model_rows(struct nn_model *m, const char *name, int in, int out, int residual,
               double deviation) {
    struct nn_layer l = {.op = &nn_op_linear,
                         .in = {in, residual},
                         .ins = residual < 0 ? 1 : 2,
                         .c = out,
                         .bias = true,
                         .as.linear = {.rows = true, .deviation = deviation}};
    return append(m, &l, name);
}

int model_gelu(struct nn_model *m, const char *name, int in) {
    struct nn_layer l = {.op = &nn_op_gelu, .in = {in}, .ins = 1};
    return append(m, &l, name);
}

int model_attention(struct nn_model *m, const char *name, int in, int heads) {
    struct nn_layer l = {.op = &nn_op_attention, .in = {in}, .ins = 1, .as.attention = {heads, 0}};
    return append(m, &l, name);
}

int model_linformer(struct nn_model *m, const char *name, int in, int heads, int keys) {
    struct nn_layer l = {
        .op = &nn_op_linformer, .in = {in}, .ins = 1, .as.attention = {heads, keys}};
    return append(m, &l, name);
}

// Whether some layer has the images or the logits, which are reals, in a place where it does not
// mix types.
static bool has_reals(const struct nn_model *m) {
    for (int i = 1; i < m->layers; i++) {
        const struct nn_layer *l = &m->layer[i];
        bool last = i == m->layers - 1;
        if ((last || l->in[0] == 0) && !l->op->mixes)
            return true;
        for (int s = 1; s < l->ins; s++)
            if (last || l->in[s] == 0)
                return true;
    }
    return false;
}

int model_end(struct nn_model *m, struct err *e) {
    if (m->err.code != ERR_NONE) {
        *e = m->err;
        return -1;
    }
    must(m->layers > 1);
    const struct nn_layer *last = &m->layer[m->layers - 1];
    must(last->h == 1 && last->w == 1);
    m->classes = last->c;
    m->reals = has_reals(m);
    return 0;
}

int model_disk_shape(const struct nn_param *p, int dim[4]) {
    dim[0] = p->out;
    if (p->vector)
        return 1;
    if (p->token) {
        dim[0] = 1;
        dim[1] = p->out;
        dim[2] = p->in;
        return 3;
    }
    dim[1] = p->in;
    dim[2] = p->kh;
    dim[3] = p->kw;
    if (!p->linear)
        return 4;
    dim[1] *= p->kh * p->kw;
    return 2;
}

// Memory has the channel innermost, disk has it outside of the positions.
void model_to_disk(const struct nn_param *p, const float *memory, float *disk) {
    size_t positions = (size_t)p->kh * (size_t)p->kw, in = (size_t)p->in;
    if (p->vector || positions == 1 || in == 1) {
        memcpy(disk, memory, p->count * sizeof *disk);
        return;
    }
    for (size_t o = 0; o < (size_t)p->out; o++, memory += positions * in, disk += positions * in)
        for (size_t i = 0; i < in; i++)
            for (size_t k = 0; k < positions; k++)
                disk[i * positions + k] = memory[k * in + i];
}

void model_from_disk(const struct nn_param *p, const float *disk, float *memory) {
    size_t positions = (size_t)p->kh * (size_t)p->kw, in = (size_t)p->in;
    if (p->vector || positions == 1 || in == 1) {
        memcpy(memory, disk, p->count * sizeof *memory);
        return;
    }
    for (size_t o = 0; o < (size_t)p->out; o++, memory += positions * in, disk += positions * in)
        for (size_t k = 0; k < positions; k++)
            for (size_t i = 0; i < in; i++)
                memory[k * in + i] = disk[i * positions + k];
}
