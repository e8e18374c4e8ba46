// SPDX-License-Identifier: Apache-2.0
#include "nn/plan.h"

#include "base/arena.h"
#include "nn/layer.h"

#include <stdint.h>
#include <stdlib.h>

enum { BLOCKS_PER_LAYER_MAX = 3 + NN_INS_MAX }; // output, gradient, saved, gradients apart

struct planner {
    const struct nn_model *m;
    struct nn_plan *plan;
    int n;
    size_t real;
    bool training, split;
    struct plan_block *block;
    size_t **result; // receives each block's offset
    int blocks;
    int *gradient_block; // of each layer's output
};

// The timeline: forward of layer i at i, the loss at L, backward of layer i at 2L - i.
static int backward_at(const struct nn_model *m, int layer) {
    return 2 * m->layers - layer;
}

// The layer whose output the next stage receives.
static int sent_at(const struct nn_model *m) {
    return backward_at(m, 0) + 1;
}

static int add_block(struct planner *p, size_t bytes, int from, int to, size_t *result) {
    must(p->blocks < BLOCKS_PER_LAYER_MAX * p->m->layers);
    bytes = (bytes + PLAN_ALIGN_BYTES - 1) / PLAN_ALIGN_BYTES * PLAN_ALIGN_BYTES;
    p->block[p->blocks] = (struct plan_block){bytes, from, to, 0};
    p->result[p->blocks] = result;
    return p->blocks++;
}

static bool uses(const struct planner *p, const struct nn_layer *l, unsigned what) {
    return p->training && l->op->uses && (l->op->uses(l) & what);
}

static void plan_output(struct planner *p, int i) {
    const struct nn_model *m = p->m;
    const struct nn_layer *l = &m->layer[i];
    // The output of a stage is kept until its gradient arrives.
    int to = i == m->layers - 1 ? m->layers + (p->training && m->has_after) : i;
    if (uses(p, l, NN_USE_Y))
        to = backward_at(m, i);
    for (int j = i + 1; j < m->layers; j++) {
        const struct nn_layer *reader = &m->layer[j];
        for (int s = 0; s < reader->ins; s++) {
            if (reader->in[s] != i)
                continue;
            int last = uses(p, reader, 1u << s) ? backward_at(m, j) : j;
            to = last > to ? last : to;
        }
    }
    add_block(p, layer_elements(l, p->n) * p->real, i, to, &p->plan->layer[i].output);
}

static void plan_saved(struct planner *p, int i) {
    const struct nn_layer *l = &p->m->layer[i];
    if (!l->op->saved_bytes)
        return;
    int to = p->training ? backward_at(p->m, i) : i;
    add_block(p, l->op->saved_bytes(l, p->n, p->real), i, to, &p->plan->layer[i].saved);
}

// A reader behind the first one, on the way back, of layer i's output.
static void plan_addition(struct planner *p, int i, int j, int slot, int first) {
    const struct nn_op *op = p->m->layer[j].op;
    struct nn_place *at = &p->plan->layer[j];
    if (j != first && op->adds & (1u << slot)) {
        at->hand[slot] = NN_HAND_ADD;
        return;
    }
    int now = backward_at(p->m, j);
    at->hand[slot] = NN_HAND_APART;
    add_block(p, layer_elements(&p->m->layer[i], p->n) * p->real, now, now, &at->apart[slot]);
}

// The gradient of layer i's output: its last reader, whose backward pass runs first, writes it; the
// gradients of the other readers are added.
static void plan_gradient(struct planner *p, int i) {
    const struct nn_model *m = p->m;
    const struct nn_layer *l = &m->layer[i];
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
        if (writer->op->in_place(writer) == first_slot &&
            layer_elements(writer, 1) == layer_elements(l, 1)) {
            p->gradient_block[i] = p->gradient_block[first];
            p->block[p->gradient_block[i]].to = i ? backward_at(m, i) : sent_at(m);
            return;
        }
    }
    int from = first >= 0 ? backward_at(m, first) : m->layers + m->has_after;
    p->gradient_block[i] =
        add_block(p, layer_elements(l, p->n) * p->real, from, i ? backward_at(m, i) : sent_at(m),
                  &p->plan->layer[i].gradient);
}

// Whether a block is of one micro-batch alone while others go through the stage.
static bool is_kept(const struct planner *p, const struct plan_block *b) {
    return (b->from <= p->m->layers && b->to > p->m->layers) || b->to == sent_at(p->m);
}

// Offsets for the blocks that are kept, or for the others; the bytes of all of them.
static size_t place_some(struct planner *p, bool kept) {
    struct plan_block *some = heap_alloc(((size_t)p->blocks + 1) * sizeof *some);
    int *from = heap_alloc(((size_t)p->blocks + 1) * sizeof *from), count = 0;
    for (int b = 0; b < p->blocks; b++)
        if ((p->split && is_kept(p, &p->block[b])) == kept) {
            from[count] = b;
            some[count++] = p->block[b];
        }
    size_t bytes = plan_place(some, count);
    for (int i = 0; i < count; i++)
        p->block[from[i]].offset = some[i].offset | (kept ? PLAN_KEPT : 0);
    free(some);
    free(from);
    return bytes;
}

static size_t most_alive(const struct plan_block *blocks, int count, int end) {
    size_t most = 0;
    for (int t = 0; t <= end; t++) {
        size_t alive = 0;
        for (int b = 0; b < count; b++)
            alive += blocks[b].from <= t && t <= blocks[b].to ? blocks[b].bytes : 0;
        most = alive > most ? alive : most;
    }
    return most;
}

void plan_make(struct nn_plan *plan, const struct nn_model *m, int n, size_t real_bytes,
               bool training, int slots) {
    size_t layers = (size_t)m->layers, most = layers * BLOCKS_PER_LAYER_MAX;
    *plan = (struct nn_plan){.layer = heap_alloc(layers * sizeof *plan->layer)};
    struct planner p = {.m = m,
                        .plan = plan,
                        .n = n,
                        .real = real_bytes,
                        .training = training,
                        .split = slots > 1,
                        .block = heap_alloc(most * sizeof *p.block),
                        .result = heap_alloc(most * sizeof *p.result),
                        .gradient_block = heap_alloc(layers * sizeof *p.gradient_block)};
    for (int i = 0; i < m->layers; i++) {
        plan_output(&p, i);
        plan_saved(&p, i);
    }
    int least = m->has_before ? 0 : 1; // the first layer whose output has a gradient
    if (training)
        for (int i = m->layers - 1; i >= least; i--)
            plan_gradient(&p, i);
    plan->bytes_least = most_alive(p.block, p.blocks, sent_at(m));
    plan->bytes = place_some(&p, false);
    plan->kept_bytes = p.split ? place_some(&p, true) : 0;
    for (int b = 0; b < p.blocks; b++)
        *p.result[b] = p.block[b].offset;
    if (training)
        for (int i = m->layers - 1; i >= least; i--)
            plan->layer[i].gradient = p.block[p.gradient_block[i]].offset;
    free(p.block);
    free(p.result);
    free(p.gradient_block);
}

void plan_free(struct nn_plan *plan) {
    free(plan->layer);
    *plan = (struct nn_plan){0};
}

static int larger_first(const void *a, const void *b) {
    const struct plan_block *const *x = a, *const *y = b;
    if ((*x)->bytes != (*y)->bytes)
        return (*x)->bytes > (*y)->bytes ? -1 : 1;
    return *x < *y ? -1 : *x > *y;
}

// The lowest gap that holds b among the placed blocks, which are sorted by offset.
static size_t lowest_gap(const struct plan_block *b, struct plan_block *const *placed, int count) {
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        const struct plan_block *o = placed[i];
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
size_t plan_place(struct plan_block *blocks, int count) {
    struct plan_block **order = heap_alloc((size_t)count * sizeof *order);
    struct plan_block **placed = heap_alloc((size_t)count * sizeof *placed);
    size_t total = 0;
    for (int i = 0; i < count; i++)
        order[i] = &blocks[i];
    qsort(order, (size_t)count, sizeof *order, larger_first);
    for (int i = 0; i < count; i++) {
        struct plan_block *b = order[i];
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
