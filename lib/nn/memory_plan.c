// SPDX-License-Identifier: Apache-2.0
// Places the tensors of a step in one arena.
#include "nn/memory_plan.h"

#include "base/arena.h"
#include "nn/layer.h"
#include "nn/recompute.h"

#include <stdint.h>
#include <stdlib.h>

// Output and saved, both twice, gradient, gradients apart.
enum { BLOCKS_PER_LAYER_MAX = 5 + NN_INS_MAX };

struct planner {
    const struct nn_model *m;
    struct memory_plan *plan;
    int n;
    size_t real;
    enum kernel_type store;
    bool training, split, acts, sums;
    struct recompute_layer *rerun;
    int *again, *back; // when a layer runs again, and when its backward does
    struct memory_plan_block *block;
    size_t **result; // receives each block's offset
    int blocks;
    int *gradient_block; // of each layer's output
};

// The timeline: forward of layer i at i, the loss at L, then backward from the last layer to the
// first; in front of the last layer of a block those of it that run again.
static void make_timeline(struct planner *p) {
    int now = p->m->layers;
    for (int i = p->m->layers - 1; i >= 0; i--) {
        for (int j = p->rerun[i].from; j && j < i; j++)
            if (p->rerun[j].again)
                p->again[j] = ++now;
        p->back[i] = ++now;
    }
}

// The gradient of the input goes to the stage before.
static int sent_at(const struct planner *p) {
    return p->back[0] + 1;
}

static int add_block(struct planner *p, size_t bytes, int from, int to, size_t *result) {
    must(p->blocks < BLOCKS_PER_LAYER_MAX * p->m->layers);
    bytes =
        (bytes + MEMORY_PLAN_ALIGN_BYTES - 1) / MEMORY_PLAN_ALIGN_BYTES * MEMORY_PLAN_ALIGN_BYTES;
    p->block[p->blocks] = (struct memory_plan_block){bytes, from, to, 0};
    p->result[p->blocks] = result;
    return p->blocks++;
}

// Of a layer's output, or of its gradient.
static size_t bytes_of(const struct planner *p, int i) {
    return layer_store_bytes(layer_elements(&p->m->layer[i], p->n), p->real,
                             layer_store(p->m, i, p->store));
}

static bool uses(const struct planner *p, const struct nn_layer *l, unsigned what) {
    return p->training && l->op->uses && (l->op->uses(l) & what);
}

// The last moment of the way forward at which layer i's output is read.
static int last_forward(const struct planner *p, int i) {
    const struct nn_model *m = p->m;
    // The output of a stage is kept until its gradient arrives.
    int to = i == m->layers - 1 ? m->layers + (p->training && m->has_after) : i;
    for (int j = i + 1; j < m->layers; j++)
        for (int s = 0; s < m->layer[j].ins; s++)
            if (m->layer[j].in[s] == i && j > to)
                to = j;
    return to;
}

// And of the way back; 0: it is not read there.
static int last_back(const struct planner *p, int i) {
    const struct nn_model *m = p->m;
    int to = uses(p, &m->layer[i], NN_USE_Y) ? p->back[i] : 0;
    for (int j = i + 1; j < m->layers; j++) {
        const struct nn_layer *reader = &m->layer[j];
        for (int s = 0; s < reader->ins; s++) {
            if (reader->in[s] != i)
                continue;
            int last = uses(p, reader, 1u << s) ? p->back[j] : p->again[j];
            to = last > to ? last : to;
        }
    }
    return to;
}

static bool is_linear(const struct nn_model *m, int i) {
    return i > 0 && i < m->layers && m->layer[i].op == &nn_op_linear;
}

static bool is_gelu_of(const struct nn_model *m, int i, int of) {
    return of > 0 && i < m->layers && m->layer[i].op == &nn_op_gelu && m->layer[i].in[0] == of;
}

// Both have to be in one type, and to run again together, or not.
static void join_forward(struct planner *p, int i) {
    const struct nn_layer *front = &p->m->layer[i - 1];
    struct nn_place *at = &p->plan->layer[i];
    at->acts_forward = p->acts && is_linear(p->m, i - 1) && is_gelu_of(p->m, i, i - 1) &&
                       front->ins == 1 && !front->act && at->again == at[-1].again &&
                       layer_store(p->m, i, p->store) == layer_store(p->m, i - 1, p->store);
}

// A batch norm that runs again has the statistics of its first time, so that it has its bits, too.
static void join_sums(struct planner *p, int i) {
    const struct nn_layer *l = &p->m->layer[i];
    struct nn_place *at = &p->plan->layer[i];
    if (!p->sums || !p->training || l->op != &nn_op_batchnorm)
        return;
    at->sums = l->in[0] == i - 1 && l[-1].op == &nn_op_conv;
    at->stats_kept = at->again;
}

// The layer behind is the only reader, and its gradient goes where that of the activation's input
// is. A block that ends with GELU would run again too late.
static void join_backward(struct planner *p, int i) {
    const struct nn_layer *l = &p->m->layer[i], *behind = l + 1;
    struct nn_place *at = &p->plan->layer[i];
    if (!p->acts || !is_linear(p->m, i + 1) || behind->in[0] != i || !at->wanted ||
        (behind->ins > 1 && behind->in[1] == i) || at[1].hand[0] != NN_HAND_WRITE)
        return;
    if (is_linear(p->m, i))
        at->acts_backward = l->act == NN_ACT_RELU;
    else
        at->acts_backward = is_gelu_of(p->m, i, i - 1) && at->hand[0] == NN_HAND_WRITE &&
                            !at->again_from && p->gradient_block[i] == p->gradient_block[i - 1];
}

static void plan_output(struct planner *p, int i) {
    size_t bytes = bytes_of(p, i);
    struct nn_place *at = &p->plan->layer[i];
    int to = last_forward(p, i), back = last_back(p, i), made = i - at->acts_forward;
    if (at->again) {
        add_block(p, bytes, made, to, &at->output);
        add_block(p, bytes, p->again[made], back, &at->output_back);
        return;
    }
    add_block(p, bytes, made, back > to ? back : to, &at->output);
}

static void plan_saved(struct planner *p, int i) {
    const struct nn_layer *l = &p->m->layer[i];
    struct nn_place *at = &p->plan->layer[i];
    if (!l->op->saved_bytes)
        return;
    size_t bytes = l->op->saved_bytes(l, p->n, p->real, layer_store(p->m, i, p->store));
    bool twice = at->again && !at->stats_kept;
    add_block(p, bytes, i, p->training && !twice ? p->back[i] : i, &at->saved);
    if (twice)
        add_block(p, bytes, p->again[i], p->back[i], &at->saved_back);
}

// A reader behind the first one, on the way back, of layer i's output.
static void plan_addition(struct planner *p, int i, int j, int slot, int first) {
    const struct nn_op *op = p->m->layer[j].op;
    struct nn_place *at = &p->plan->layer[j];
    if (j != first && op->adds & (1u << slot)) {
        at->hand[slot] = NN_HAND_ADD;
        return;
    }
    int now = p->back[j];
    at->hand[slot] = NN_HAND_APART;
    add_block(p, bytes_of(p, i), now, now, &at->apart[slot]);
}

// The gradient of layer i's output: its last reader, whose backward pass runs first, writes it; the
// gradients of the other readers are added.
static void plan_gradient(struct planner *p, int i) {
    const struct nn_model *m = p->m;
    int first = -1, first_slot = -1;
    for (int j = m->layers - 1; j > i; j--)
        for (int s = 0; s < m->layer[j].ins; s++) {
            if (m->layer[j].in[s] != i)
                continue;
            if (first >= 0) {
                plan_addition(p, i, j, s, first);
                continue;
            }
            first = j;
            first_slot = s;
        }
    must(first >= 0 || i == m->layers - 1); // an output without a reader
    p->plan->layer[i].wanted = true;
    if (first >= 0) {
        const struct nn_layer *writer = &m->layer[first];
        if (writer->op->in_place(writer) == first_slot && bytes_of(p, first) == bytes_of(p, i)) {
            p->gradient_block[i] = p->gradient_block[first];
            p->block[p->gradient_block[i]].to = i ? p->back[i] : sent_at(p);
            return;
        }
    }
    int from = first >= 0 ? p->back[first] : m->layers + m->has_after;
    p->gradient_block[i] = add_block(p, bytes_of(p, i), from, i ? p->back[i] : sent_at(p),
                                     &p->plan->layer[i].gradient);
}

// Whether a block is of one micro-batch alone while others go through the stage.
static bool is_kept(const struct planner *p, const struct memory_plan_block *b) {
    return (b->from <= p->m->layers && b->to > p->m->layers) || b->to == sent_at(p);
}

// Offsets for the blocks that are kept, or for the others; the bytes of all of them.
static size_t place_some(struct planner *p, bool kept) {
    struct memory_plan_block *some = heap_alloc(((size_t)p->blocks + 1) * sizeof *some);
    int *from = heap_alloc(((size_t)p->blocks + 1) * sizeof *from), count = 0;
    for (int b = 0; b < p->blocks; b++)
        if ((p->split && is_kept(p, &p->block[b])) == kept) {
            from[count] = b;
            some[count++] = p->block[b];
        }
    size_t bytes = memory_plan_place(some, count);
    for (int i = 0; i < count; i++)
        p->block[from[i]].offset = some[i].offset | (kept ? MEMORY_PLAN_KEPT : 0);
    free(some);
    free(from);
    return bytes;
}

static size_t most_alive(const struct memory_plan_block *blocks, int count, int end) {
    size_t most = 0;
    for (int t = 0; t <= end; t++) {
        size_t alive = 0;
        for (int b = 0; b < count; b++)
            alive += blocks[b].from <= t && t <= blocks[b].to ? blocks[b].bytes : 0;
        most = alive > most ? alive : most;
    }
    return most;
}

static void choose_rerun(struct planner *p, bool recompute) {
    if (p->training && recompute)
        recompute_blocks(p->m, p->rerun);
    for (int i = 0; i < p->m->layers; i++) {
        p->plan->layer[i].again = p->rerun[i].again;
        p->plan->layer[i].again_from = p->rerun[i].from;
    }
}

static void hand_out(struct planner *p, int least) {
    for (int b = 0; b < p->blocks; b++)
        *p->result[b] = p->block[b].offset;
    for (int i = 0; i < p->m->layers; i++) {
        struct nn_place *at = &p->plan->layer[i];
        if (p->training && i >= least)
            at->gradient = p->block[p->gradient_block[i]].offset;
        if (!at->again)
            at->output_back = at->output;
        if (!at->again || at->stats_kept)
            at->saved_back = at->saved;
    }
}

void memory_plan_make(struct memory_plan *plan, const struct nn_model *m,
                      const struct memory_plan_spec *s) {
    size_t layers = (size_t)m->layers, most = layers * BLOCKS_PER_LAYER_MAX;
    struct arena a = {0};
    *plan = (struct memory_plan){.layer = heap_alloc(layers * sizeof *plan->layer)};
    struct planner p = {.m = m,
                        .plan = plan,
                        .n = s->n,
                        .real = s->real_bytes,
                        .store = s->store,
                        .training = s->training,
                        .split = s->slots > 1,
                        .acts = s->acts,
                        .sums = s->sums,
                        .rerun = arena_new(&a, struct recompute_layer, layers),
                        .again = arena_new(&a, int, layers),
                        .back = arena_new(&a, int, layers),
                        .block = arena_new(&a, struct memory_plan_block, most),
                        .result = arena_new(&a, size_t *, most),
                        .gradient_block = arena_new(&a, int, layers)};
    choose_rerun(&p, s->recompute);
    make_timeline(&p);
    for (int i = 0; i < m->layers; i++) {
        if (i > 0)
            join_forward(&p, i), join_sums(&p, i);
        plan_output(&p, i);
        plan_saved(&p, i);
    }
    int least = m->has_before ? 0 : 1; // the first layer whose output has a gradient
    if (s->training)
        for (int i = m->layers - 1; i >= least; i--)
            plan_gradient(&p, i);
    for (int i = 1; s->training && i < m->layers; i++)
        join_backward(&p, i);
    plan->bytes_least = most_alive(p.block, p.blocks, sent_at(&p));
    plan->bytes = place_some(&p, false);
    plan->kept_bytes = p.split ? place_some(&p, true) : 0;
    hand_out(&p, least);
    arena_fini(&a);
}

void memory_plan_free(struct memory_plan *plan) {
    free(plan->layer);
    *plan = (struct memory_plan){0};
}

static int larger_first(const void *a, const void *b) {
    const struct memory_plan_block *const *x = a, *const *y = b;
    if ((*x)->bytes != (*y)->bytes)
        return (*x)->bytes > (*y)->bytes ? -1 : 1;
    return *x < *y ? -1 : *x > *y;
}

// The lowest gap that holds b among the placed blocks, which are sorted by offset.
static size_t lowest_gap(const struct memory_plan_block *b, struct memory_plan_block *const *placed,
                         int count) {
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        const struct memory_plan_block *o = placed[i];
        if (o->to < b->from || b->to < o->from)
            continue;
        if (o->offset >= at + b->bytes)
            return at;
        size_t end = o->offset + o->bytes;
        at = end > at ? end : at;
    }
    return at;
}

// "Greedy by size" of Pisarchyk and Lee, "Efficient memory management for deep neural net
// inference", MLSys 2020 workshop: the largest block first, each as low as it fits.
size_t memory_plan_place(struct memory_plan_block *blocks, int count) {
    struct memory_plan_block **order = heap_alloc((size_t)count * sizeof *order);
    struct memory_plan_block **placed = heap_alloc((size_t)count * sizeof *placed);
    size_t total = 0;
    for (int i = 0; i < count; i++)
        order[i] = &blocks[i];
    qsort(order, (size_t)count, sizeof *order, larger_first);
    for (int i = 0; i < count; i++) {
        struct memory_plan_block *b = order[i];
        b->offset = lowest_gap(b, placed, i);
        int at = i;
        for (; at > 0 && placed[at - 1]->offset > b->offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = b;
        total = b->offset + b->bytes > total ? b->offset + b->bytes : total;
    }
    free(order);
    free(placed);
    return total;
}
