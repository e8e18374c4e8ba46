// SPDX-License-Identifier: Apache-2.0
// Cuts a model into stages of about the same work.
#include "nn/stage.h"

#include "base/arena.h"
#include "base/str.h"
#include "nn/layer.h"
#include "nn/layer_cost.h"

#include <stdlib.h>
#include <string.h>

enum { BOTH_WAYS = 3 }; // backward is twice the work of forward

int64_t stage_layer_work(const struct nn_model *m, int layer) {
    size_t bytes = layer_elements(&m->layer[layer], 1) * sizeof(float);
    return BOTH_WAYS * (layer_cost_products(m, layer) + (int64_t)bytes * STAGE_BYTE_WORK);
}

bool stage_may_begin(const struct nn_model *m, int layer) {
    for (int i = layer; i < m->layers; i++)
        for (int s = 0; s < m->layer[i].ins; s++)
            if (m->layer[i].in[s] < layer - 1)
                return false;
    return layer > 0;
}

static bool has_params(const struct nn_model *m, int first, int last) {
    for (int i = first; i < last; i++)
        if (m->layer[i].params)
            return true;
    return false;
}

// Least work of the largest of so many stages over the first layers, and where the last one begins.
struct best {
    int64_t most;
    int begin;
};

static int refuse(const struct nn_model *m, int stages, struct err *e) {
    int most = 0, begin = 0;
    for (int i = 1; i <= m->layers; i++)
        if ((i == m->layers || stage_may_begin(m, i)) && has_params(m, begin, i) &&
            (i == m->layers || has_params(m, i, m->layers))) {
            most++;
            begin = i;
        }
    return err_set(e, ERR_CONFIG,
                   "the model can be cut into %d stage%s, not %d (try: a lower train.pipeline%s)",
                   most, str_plural(most), stages, stages > 2 ? ", or fewer stages each" : "");
}

int stage_cut(const struct nn_model *m, int stages, int *first, struct err *e) {
    size_t ends = (size_t)m->layers + 1;
    struct arena a = {0};
    struct best *best = arena_new(&a, struct best, ends * ((size_t)stages + 1));
    int64_t *sum = arena_new(&a, int64_t, ends);
    for (int i = 0; i < m->layers; i++)
        sum[i + 1] = sum[i] + stage_layer_work(m, i);
    for (size_t i = 0; i < ends * ((size_t)stages + 1); i++)
        best[i].most = INT64_MAX;
    best[0].most = 0;
    for (int s = 1; s <= stages; s++)
        for (int end = 1; end <= m->layers; end++)
            for (int begin = 0; begin < end; begin++) {
                int64_t before = best[(size_t)(s - 1) * ends + (size_t)begin].most;
                struct best *b = &best[(size_t)s * ends + (size_t)end];
                int64_t work = sum[end] - sum[begin], most = work > before ? work : before;
                if (before < INT64_MAX && most < b->most &&
                    (begin == 0 || stage_may_begin(m, begin)) && has_params(m, begin, end))
                    *b = (struct best){most, begin};
            }
    first[stages] = m->layers;
    bool found = best[(size_t)stages * ends + (size_t)m->layers].most < INT64_MAX;
    for (int s = stages; found && s > 0; s--)
        first[s - 1] = best[(size_t)s * ends + (size_t)first[s]].begin;
    arena_fini(&a);
    return found ? 0 : refuse(m, stages, e);
}

// The first layer of that name, or of the block of that name.
static int find(const struct nn_model *m, const char *name) {
    size_t len = strlen(name);
    for (int i = 0; i < m->layers; i++)
        if (strncmp(m->layer[i].name, name, len) == 0 &&
            (m->layer[i].name[len] == '\0' || m->layer[i].name[len] == '.'))
            return i;
    return -1;
}

int stage_cut_at(const struct nn_model *m, const char *const *names, int count, int *first,
                 struct err *e) {
    first[0] = 0;
    first[count + 1] = m->layers;
    for (int i = 0; i < count; i++) {
        int at = first[i + 1] = find(m, names[i]);
        if (at < 0)
            return err_set(e, ERR_CONFIG, "the model has no layer '%s'", names[i]);
        if (at <= first[i] || !has_params(m, first[i], at) || !has_params(m, at, m->layers))
            return err_set(e, ERR_CONFIG,
                           "no stage can begin with layer '%s': the one before, or it, has nothing "
                           "to train",
                           names[i]);
        if (!stage_may_begin(m, at))
            return err_set(e, ERR_CONFIG,
                           "no stage can begin with layer '%s': more than the output of the layer "
                           "before goes on behind it (try: the first layer of a block)",
                           names[i]);
    }
    return 0;
}

static void *copy(const void *from, int count, size_t bytes) {
    void *p = heap_alloc(((size_t)count + 1) * bytes);
    if (count)
        memcpy(p, from, (size_t)count * bytes);
    return p;
}

// Counts of parameters and statistics in front of a layer.
static void count_before(const struct nn_model *m, int layer, int *params, int *stats) {
    *params = *stats = 0;
    for (int i = 0; i < layer; i++) {
        *params += m->layer[i].params;
        *stats += m->layer[i].stat >= 0;
    }
}

static size_t param_begin(const struct nn_model *m, int param) {
    return param < m->params ? m->param[param].begin : m->param_elements;
}

static size_t stat_begin(const struct nn_model *m, int stat) {
    return stat < m->stats ? m->stat[stat].mean : m->stat_elements;
}

static void move_layers(struct nn_model *out, const struct nn_model *m, int first, int last) {
    int shift = first > 0 ? first - 1 : 0; // the input takes the place of the layer before
    out->layers = last - shift;
    out->layer = copy(&m->layer[shift], out->layers, sizeof *out->layer);
    if (first > 0) {
        const struct nn_layer *x = &m->layer[shift];
        out->layer[0] = (struct nn_layer){
            .op = &nn_op_input, .name = "input", .h = x->h, .w = x->w, .c = x->c, .stat = -1};
    }
    for (int i = 1; i < out->layers; i++) {
        struct nn_layer *l = &out->layer[i];
        for (int s = 0; s < l->ins; s++)
            l->in[s] -= shift;
        l->param -= out->first_param;
        l->stat -= l->stat >= 0 ? out->first_stat : 0;
    }
}

void stage_model(struct nn_model *out, const struct nn_model *m, int first, int last) {
    int params, stats;
    model_free(out);
    out->first_layer = first;
    out->has_before = first > 0;
    out->has_after = last < m->layers;
    out->classes = m->classes;
    out->reals = m->reals;
    count_before(m, first, &out->first_param, &out->first_stat);
    count_before(m, last, &params, &stats);
    out->params = params - out->first_param;
    out->stats = stats - out->first_stat;
    out->param_begin = param_begin(m, out->first_param);
    out->stat_begin = stat_begin(m, out->first_stat);
    out->param_elements = param_begin(m, params) - out->param_begin;
    out->stat_elements = stat_begin(m, stats) - out->stat_begin;
    move_layers(out, m, first, last);
    out->param = copy(&m->param[out->first_param], out->params, sizeof *out->param);
    out->stat = copy(&m->stat[out->first_stat], out->stats, sizeof *out->stat);
    for (int i = 0; i < out->params; i++) {
        out->param[i].begin -= out->param_begin;
        out->param_count += out->param[i].count;
    }
    for (int i = 0; i < out->stats; i++) {
        out->stat[i].mean -= out->stat_begin;
        out->stat[i].var -= out->stat_begin;
    }
    out->layers_room = out->layers;
    out->params_room = out->params;
    out->stats_room = out->stats;
}
