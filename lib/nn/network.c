// SPDX-License-Identifier: Apache-2.0
// Runs a model: forward, loss and backward.
#include "nn/network.h"

#include "base/arena.h"
#include "base/str.h"
#include "kernels/bf16.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTION_ALIGN_BYTES = 4096 };

// A part of the one allocation; NULL while only its size is asked for.
static char *section(char *memory, size_t *total, size_t bytes) {
    size_t at = *total;
    *total += (bytes + SECTION_ALIGN_BYTES - 1) / SECTION_ALIGN_BYTES * SECTION_ALIGN_BYTES;
    return memory ? memory + at : NULL;
}

static size_t all_bytes(const struct network *net) {
    return net->memory_bytes + net->copy_bytes + net->workspace_bytes;
}

// Refuses a network that does not fit, since the kernel would kill the process without a message.
static int refuse(const struct network *net, size_t max, struct err *e) {
    char text[7][STR_HUMAN_BYTES_MAX];
    size_t params = net->model->param_elements * net->k->real_bytes;
    size_t total = all_bytes(net), arena = net->arena_bytes;
    char there[sizeof *text + sizeof "there are "] = "less is left";
    if (max && total > max)
        snprintf(there, sizeof there, "there are %s", str_human_bytes(text[0], max));
    return err_set(
        e, ERR_LIMIT,
        "the plan needs %s of memory and %s: %s of activations for %d images, "
        "%s of weights and gradients, %s of optimizer state, %s for checkpoints, %s for the "
        "kernels (try: %s)",
        str_human_bytes(text[1], total), there, str_human_bytes(text[2], arena), net->batch,
        str_human_bytes(text[3], 2 * params),
        str_human_bytes(text[4], (size_t)net->states * net->state_elements * net->k->real_bytes),
        str_human_bytes(text[5], net->copy_bytes), str_human_bytes(text[6], net->workspace_bytes),
        arena > total - arena ? "a lower train.batch or train.eval_batch" : "a smaller model");
}

// The parts of the one allocation; memory NULL: only its size.
// Plans of activations in this type of storage; that of evaluation is empty without a batch for it.
static void make_plans(const struct network *net, enum kernel_type store, bool recompute,
                       struct memory_plan *train, struct memory_plan *eval) {
    struct memory_plan_spec spec = {.n = net->batch,
                                    .real_bytes = net->k->real_bytes,
                                    .store = store,
                                    .acts = net->k->gemm_acts,
                                    .sums = net->k->conv2d_sums != NULL,
                                    .training = true,
                                    .slots = net->slots,
                                    .recompute = recompute};
    memory_plan_make(train, net->model, &spec);
    spec = (struct memory_plan_spec){.n = net->eval_batch,
                                     .real_bytes = net->k->real_bytes,
                                     .store = store,
                                     .slots = 1,
                                     .acts = net->k->gemm_acts};
    if (net->eval_batch)
        memory_plan_make(eval, net->model, &spec);
}

static size_t arena_bytes(const struct network *net, const struct memory_plan *train,
                          const struct memory_plan *eval) {
    size_t bytes = train->bytes + (size_t)net->slots * train->kept_bytes;
    return bytes > eval->bytes ? bytes : eval->bytes;
}

size_t network_arena_bytes(const struct network *net, enum kernel_type store, bool recompute) {
    struct memory_plan train = {0}, eval = {0};
    make_plans(net, store, recompute, &train, &eval);
    size_t bytes = arena_bytes(net, &train, &eval);
    memory_plan_free(&train);
    memory_plan_free(&eval);
    return bytes;
}

static void lay_out(struct network *net, char *memory) {
    const struct nn_model *m = net->model;
    size_t real = net->k->real_bytes, total = 0;
    size_t labels_max = (size_t)(net->batch > net->eval_batch ? net->batch : net->eval_batch);
    size_t views_elements = net->has_views ? (size_t)net->eval_batch * (size_t)m->classes : 0;
    net->arena_bytes = arena_bytes(net, &net->train, &net->eval);
    net->params = section(memory, &total, m->param_elements * real);
    net->grads = section(memory, &total, (m->param_elements + NETWORK_TAIL) * real);
    for (int i = 0; i < net->states; i++)
        net->state[i] = section(memory, &total, net->state_elements * real);
    net->stats = section(memory, &total, m->stat_elements * real);
    net->apart = section(memory, &total, m->stat_elements * real);
    net->slow = section(memory, &total, m->stat_elements * real);
    char *views = section(memory, &total, views_elements * real);
    net->views = net->has_views ? views : NULL;
    net->arena = section(memory, &total, net->arena_bytes);
    net->labels = (void *)section(memory, &total, labels_max * sizeof *net->labels);
    net->losses = (void *)section(memory, &total, NETWORK_LOSSES_MAX * sizeof *net->losses);
    net->squares = (void *)section(memory, &total, (size_t)m->layers * sizeof *net->squares);
    net->memory_bytes = total;
}

static char *at_element(const struct network *net, char *buffer, size_t element) {
    return buffer + element * net->k->real_bytes;
}

// The slots follow the memory that all micro-batches share.
static char *at_offset(const struct network *net, const struct memory_plan *p, size_t offset) {
    if (!(offset & MEMORY_PLAN_KEPT))
        return net->arena + offset;
    return net->arena + p->bytes + (size_t)net->slot * p->kept_bytes + (offset & ~MEMORY_PLAN_KEPT);
}

static size_t output_of(const struct nn_place *at, bool back) {
    return back ? at->output_back : at->output;
}

// Of the activations that products make, too.
static void add_acts(const struct network *net, const struct memory_plan *p, int i, bool back,
                     struct nn_call *c) {
    const struct nn_place *at = &p->layer[i];
    if (i + 1 < net->model->layers && at[1].acts_forward)
        c->gelu_y = at_offset(net, p, output_of(&at[1], back));
    c->y_made = at->acts_forward, c->dy_made = at->acts_backward;
    if (i == 0 || !at[-1].acts_backward)
        return;
    c->dx_relu = net->model->layer[i - 1].act == NN_ACT_RELU;
    c->gelu_x = c->dx_relu ? NULL : at_offset(net, p, output_of(&at[-2], back));
}

// Of how many rows layer i leaves a sum each; 0: none.
static int sums_of(const struct network *net, const struct memory_plan *p, int i, int n) {
    const struct nn_layer *l = &net->model->layer[i];
    const struct nn_call c = {.k = net->k,
                              .ctx = net->ctx,
                              .layer = l,
                              .input = &net->model->layer[l->in[0]],
                              .n = n,
                              .type = net->type};
    return i + 1 < net->model->layers && p->layer[i + 1].sums ? l->op->sums(&c) : 0;
}

// Everything a layer's functions need, from the plan that is in use.
// back: on the way back, with tensors that were computed again.
static struct nn_call call_of(struct network *net, int i, int n, enum network_mode mode,
                              bool back) {
    const struct nn_model *m = net->model;
    const struct nn_layer *l = &m->layer[i];
    const struct memory_plan *p = mode == NETWORK_EVAL ? &net->eval : &net->train;
    struct nn_call c = {.k = net->k,
                        .ctx = net->ctx,
                        .layer = l,
                        .type = net->type,
                        .y_store = layer_store(m, i, net->store),
                        .n = n,
                        .training = mode == NETWORK_TRAIN || mode == NETWORK_TRAIN_APART,
                        .input = l->ins ? &m->layer[l->in[0]] : NULL,
                        .y = at_offset(net, p, output_of(&p->layer[i], back)),
                        .saved =
                            at_offset(net, p, back ? p->layer[i].saved_back : p->layer[i].saved)};
    for (int s = 0; s < l->ins; s++) {
        const struct nn_place *x = &p->layer[l->in[s]];
        enum nn_hand hand = p->layer[i].hand[s];
        c.x[s] = at_offset(net, p, output_of(x, back));
        c.x_store[s] = layer_store(m, l->in[s], net->store);
        c.dx_add[s] = hand == NN_HAND_ADD;
        if (c.training && x->wanted && l->in[s] >= net->settled)
            c.dx[s] = at_offset(net, p, hand == NN_HAND_APART ? p->layer[i].apart[s] : x->gradient);
    }
    add_acts(net, p, i, back, &c);
    c.stats_kept = back && p->layer[i].stats_kept;
    c.y_sums = back ? 0 : sums_of(net, p, i, n);
    c.x_sums = back || i == 0 ? 0 : sums_of(net, p, i - 1, n);
    c.dy = c.training && i > 0 ? at_offset(net, p, p->layer[i].gradient) : NULL;
    for (int s = 0; s < l->params; s++) {
        c.param[s] = at_element(net, net->params, m->param[l->param + s].begin);
        c.dparam[s] = at_element(net, net->grads, m->param[l->param + s].begin);
    }
    if (l->stat >= 0) {
        char *stats = mode == NETWORK_TRAIN_APART ? net->apart : net->stats;
        c.stat_mean = at_element(net, stats, m->stat[l->stat].mean);
        c.stat_var = at_element(net, stats, m->stat[l->stat].var);
    }
    return c;
}

static size_t workspace(const struct network *net) {
    const struct nn_model *m = net->model;
    const int n[2] = {net->batch, net->eval_batch};
    size_t most = 0;
    for (int i = 0; i < m->layers; i++)
        for (int j = 0; j < 2; j++) {
            const struct nn_layer *l = &m->layer[i];
            const struct nn_call c = {.k = net->k,
                                      .ctx = net->ctx,
                                      .layer = l,
                                      .input = l->ins ? &m->layer[l->in[0]] : NULL,
                                      .n = n[j],
                                      .training = true,
                                      .type = net->type};
            size_t bytes = n[j] && l->op->workspace ? l->op->workspace(&c) : 0;
            most = bytes > most ? bytes : most;
        }
    return most;
}

int network_lay(struct network *net, const struct network_config *config, struct err *e) {
    must(config->states >= 0 && config->states <= NETWORK_STATES_MAX && config->batch > 0);
    *net =
        (struct network){.model = config->model,
                         .k = config->backend,
                         .type = config->type,
                         .batch = config->batch,
                         .eval_batch = config->eval_batch,
                         .slots = config->slots ? config->slots : 1,
                         .has_views = config->views > 1,
                         .states = config->states,
                         .state_elements = config->state_elements ? config->state_elements
                                                                  : config->model->param_elements,
                         .ctx = config->ctx,
                         .shares_ctx = config->ctx != NULL,
                         .copy_bytes = config->copy_bytes};
    int r = net->ctx ? 0 : net->k->open(&net->ctx, &config->kernel);
    if (r < 0) {
        errno = -r;
        err_errno(e, ERR_SYS, "%s kernels with %d threads", net->k->name, config->kernel.threads);
        return r == -EAGAIN ? err_set(e, ERR_LIMIT,
                                      "no thread can be made for %d kernel threads "
                                      "(try: ulimit -u, or a lower train.threads)",
                                      config->kernel.threads)
                            : -1;
    }
    bool keeps = net->type == KERNEL_BF16 && !config->reals && !net->model->reals && net->k->bf16;
    if (keeps && net->k->keeps_bf16(net->ctx))
        net->store = KERNEL_BF16;
    make_plans(net, net->store, config->recompute, &net->train, &net->eval);
    lay_out(net, NULL);
    net->workspace_bytes = workspace(net);
    return 0;
}

int network_open(struct network *net, const struct network_config *config, struct err *e) {
    if (network_lay(net, config, e) < 0)
        return -1;
    size_t max = config->memory_bytes_max;
    if (max == 0 || all_bytes(net) <= max)
        net->memory = net->k->mem_alloc(net->ctx, net->memory_bytes);
    if (!net->memory || net->k->reserve(net->ctx, net->workspace_bytes) < 0) {
        refuse(net, max, e);
        network_close(net);
        return -1;
    }
    lay_out(net, net->memory);
    const struct nn_model *m = net->model;
    for (int i = 0; i < m->stats; i++) {
        float *ones = heap_alloc((size_t)m->stat[i].channels * sizeof *ones);
        for (int c = 0; c < m->stat[i].channels; c++)
            ones[c] = 1;
        network_set(net, net->stats, m->stat[i].var, (size_t)m->stat[i].channels, ones);
        free(ones);
    }
    return 0;
}

void network_close(struct network *net) {
    if (!net->k)
        return;
    if (net->memory)
        net->k->mem_free(net->ctx, net->memory, net->memory_bytes);
    if (!net->shares_ctx)
        net->k->close(net->ctx);
    memory_plan_free(&net->train);
    memory_plan_free(&net->eval);
    *net = (struct network){0};
}

struct init_work {
    struct network *net;
    uint64_t seed;
};

// Parameters are dealt out to the workers; which one fills a parameter does not change its values.
static void init_some(void *arg, int worker, int workers) {
    struct init_work *w = arg;
    const struct nn_model *m = w->net->model;
    for (int i = worker; i < m->params; i += workers) {
        float *values = heap_alloc(m->param[i].count * sizeof *values);
        model_init_param(m, i, w->seed, values);
        network_set(w->net, w->net->params, m->param[i].begin, m->param[i].count, values);
        free(values);
    }
}

void network_init(struct network *net, uint64_t seed) {
    struct init_work w = {net, seed};
    net->k->parallel(net->ctx, init_some, &w);
}

void network_select(struct network *net, int slot) {
    must(slot >= 0 && slot < net->slots);
    net->slot = slot;
}

static const struct memory_plan *plan_of(const struct network *net, enum network_mode mode) {
    return mode == NETWORK_EVAL ? &net->eval : &net->train;
}

void *network_input(struct network *net, enum network_mode mode) {
    const struct memory_plan *p = plan_of(net, mode);
    return at_offset(net, p, p->layer[0].output);
}

void network_set_input(struct network *net, enum network_mode mode, int n, const float *x) {
    size_t count = layer_elements(&net->model->layer[0], n);
    char *input = network_input(net, mode);
    if (layer_store(net->model, 0, net->store) == KERNEL_FLOAT) {
        network_set(net, input, 0, count, x);
        return;
    }
    uint16_t *bits = heap_alloc(count * sizeof *bits);
    for (size_t i = 0; i < count; i++)
        bits[i] = bf16_narrow(x[i]);
    net->k->mem_write(net->ctx, input, bits, count * sizeof *bits);
    free(bits);
}

void *network_output(const struct network *net, enum network_mode mode) {
    const struct memory_plan *p = plan_of(net, mode);
    return at_offset(net, p, p->layer[net->model->layers - 1].output);
}

void *network_output_gradient(const struct network *net) {
    return at_offset(net, &net->train, net->train.layer[net->model->layers - 1].gradient);
}

void *network_input_gradient(const struct network *net) {
    return at_offset(net, &net->train, net->train.layer[0].gradient);
}

void network_labels(struct network *net, const int32_t *labels, int n) {
    net->k->mem_write(net->ctx, net->labels, labels, (size_t)n * sizeof *labels);
}

void network_forward_layers(struct network *net, int n, enum network_mode mode, int first,
                            int last) {
    must(n > 0 && n <= (mode == NETWORK_EVAL ? net->eval_batch : net->batch));
    must(first > 0 && last <= net->model->layers);
    net->ran_train = mode != NETWORK_EVAL;
    for (int i = first; i < last; i++) {
        struct nn_call c = call_of(net, i, n, mode, false);
        c.layer->op->forward(&c);
    }
}

void network_forward(struct network *net, int n, enum network_mode mode) {
    network_forward_layers(net, n, mode, 1, net->model->layers);
    network_count_pass(net, mode);
}

void network_count_pass(struct network *net, enum network_mode mode) {
    net->ran_train = mode != NETWORK_EVAL;
    net->tracked += mode == NETWORK_TRAIN;
}

const void *network_logits(const struct network *net) {
    return network_output(net, net->ran_train ? NETWORK_TRAIN : NETWORK_EVAL);
}

void network_loss(struct network *net, int n, double smoothing, double grad_scale) {
    must(net->unfetched_pending < NETWORK_LOSSES_MAX);
    struct softmax_xent_args a = {.rows = n,
                                  .classes = net->model->classes,
                                  .logits = network_logits(net),
                                  .labels = net->labels,
                                  .smoothing = smoothing,
                                  .grad_scale = grad_scale};
    if (net->ran_train) {
        a.dlogits = network_output_gradient(net);
        a.step = net->step;
    }
    net->k->softmax_xent(net->ctx, &a, &net->losses[net->unfetched_pending++]);
}

int network_losses(struct network *net, struct loss_totals *out) {
    int count = net->unfetched_pending;
    net->unfetched_pending = 0;
    if (count)
        net->k->mem_read(net->ctx, out, net->losses, (size_t)count * sizeof *out);
    return count;
}

void network_squares(struct network *net, size_t count, const char *numbers) {
    must(net->squares_pending < net->model->layers);
    net->k->sum_squares(net->ctx, count, numbers, &net->squares[net->squares_pending++]);
}

double network_squares_sum(struct network *net) {
    double sum = 0, piece[64];
    enum { PIECES = sizeof piece / sizeof *piece };
    for (int i = 0; i < net->squares_pending; i += PIECES) {
        int n = net->squares_pending - i < PIECES ? net->squares_pending - i : PIECES;
        net->k->mem_read(net->ctx, piece, net->squares + i, (size_t)n * sizeof *piece);
        for (int k = 0; k < n; k++)
            sum += piece[k];
    }
    net->squares_pending = 0;
    return sum;
}

void network_view(struct network *net, int n, double weight, bool first, bool last) {
    size_t count = (size_t)n * (size_t)net->model->classes;
    void *logits = network_output(net, NETWORK_EVAL);
    must(net->views && n <= net->eval_batch);
    if (first)
        net->k->zero(net->ctx, count, net->views);
    net->k->axpy(net->ctx, count, weight, logits, net->views);
    if (!last)
        return;
    net->k->zero(net->ctx, count, logits);
    net->k->axpy(net->ctx, count, 1, net->views, logits);
}

// Gradients that the layer could not add itself.
static void add_apart(struct network *net, int i, const struct nn_call *c) {
    for (int s = 0; s < c->layer->ins; s++) {
        int in = c->layer->in[s];
        const struct nn_place *x = &net->train.layer[in];
        if (!c->dx[s] || !x->wanted || net->train.layer[i].hand[s] != NN_HAND_APART)
            continue;
        void *sum = at_offset(net, &net->train, x->gradient);
        LAYER_DO(net, c->x_store[s], add, layer_elements(&net->model->layer[in], c->n), c->dx[s],
                 sum, sum);
    }
}

// Layers of the block that ends with layer i. Running statistics are those of the first time.
static void run_again(struct network *net, int i, int n) {
    const struct nn_place *place = net->train.layer;
    for (int j = place[i].again_from; j && j < i; j++) {
        if (!place[j].again)
            continue;
        struct nn_call c = call_of(net, j, n, NETWORK_TRAIN_APART, true);
        c.layer->op->forward(&c);
    }
}

void network_backward(struct network *net, int n, bool add, int first, int last) {
    must(net->ran_train && first > 0 && last <= net->model->layers);
    for (int i = last - 1; i >= first && i >= net->settled; i--) {
        run_again(net, i, n);
        struct nn_call c = call_of(net, i, n, NETWORK_TRAIN, true);
        c.dparam_add = add;
        c.layer->op->backward(&c);
        add_apart(net, i, &c);
    }
}

void network_settle(struct network *net) {
    const struct nn_model *m = net->model;
    int layer = 0, with = 0;
    if (m->has_before || net->settled)
        return;
    while (layer < m->layers && (with += m->layer[layer].params > 0) < 2)
        layer++;
    net->settled = layer;
    net->settled_elements =
        layer < m->layers ? m->param[m->layer[layer].param].begin : m->param_elements;
    net->k->zero(net->ctx, net->settled_elements, net->grads);
}

void network_get(const struct network *net, const char *buffer, size_t begin, size_t count,
                 float *out) {
    size_t real = net->k->real_bytes;
    const char *from = buffer + begin * real;
    if (real == sizeof(float)) {
        net->k->mem_read(net->ctx, out, from, count * sizeof *out);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        double v;
        net->k->mem_read(net->ctx, &v, from + i * sizeof v, sizeof v);
        out[i] = (float)v;
    }
}

void network_set(struct network *net, char *buffer, size_t begin, size_t count, const float *in) {
    size_t real = net->k->real_bytes;
    char *to = buffer + begin * real;
    if (real == sizeof(float)) {
        net->k->mem_write(net->ctx, to, in, count * sizeof *in);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        double v = (double)in[i];
        net->k->mem_write(net->ctx, to + i * sizeof v, &v, sizeof v);
    }
}
