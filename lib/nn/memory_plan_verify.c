// SPDX-License-Identifier: Apache-2.0
// Checks a memory plan: runs the step of network.c with names of tensors in place of numbers. All
// micro-batches go forward, then all backward, as many as there are slots.
#include "base/arena.h"
#include "nn/layer.h"
#include "nn/memory_plan.h"

#include <stdlib.h>

enum tensor_kind { OUTPUT, SAVED, GRADIENT, APART };

struct tensor {
    enum tensor_kind kind;
    int layer, micro;
    size_t begin, end;
};

struct check {
    const struct memory_plan *p;
    const struct nn_model *m;
    const struct memory_plan_spec *s;
    struct tensor *held; // that memory holds now
    int count, micro;
    const char *doing;
    struct err *e;
    bool failed;
};

static size_t bytes_of(const struct check *c, enum tensor_kind kind, int layer) {
    const struct nn_layer *l = &c->m->layer[layer];
    if (kind != SAVED)
        return layer_store_bytes(layer_elements(l, c->s->n), c->s->real_bytes,
                                 layer_store(c->m, layer, c->s->store));
    return l->op->saved_bytes ? l->op->saved_bytes(l, c->s->n, c->s->real_bytes,
                                                   layer_store(c->m, layer, c->s->store))
                              : 0;
}

static struct tensor tensor_at(const struct check *c, enum tensor_kind kind, int layer,
                               size_t offset) {
    size_t begin = offset & ~MEMORY_PLAN_KEPT;
    if (offset & MEMORY_PLAN_KEPT)
        begin += c->p->bytes + (size_t)c->micro * c->p->kept_bytes;
    return (struct tensor){kind, layer, c->micro, begin, begin + bytes_of(c, kind, layer)};
}

static void fault(struct check *c, const struct tensor *t, const char *what) {
    static const char *const kinds[] = {"output", "saved tensor", "gradient", "gradient apart"};
    if (!c->failed)
        err_set(c->e, ERR_FAILED, "%s: the %s of layer '%s', micro-batch %d, %s", c->doing,
                kinds[t->kind], c->m->layer[t->layer].name, t->micro, what);
    c->failed = true;
}

// From here on the memory has nothing else.
static void put(struct check *c, enum tensor_kind kind, int layer, size_t offset) {
    struct tensor t = tensor_at(c, kind, layer, offset);
    size_t room = c->p->bytes + (size_t)c->s->slots * c->p->kept_bytes;
    int left = 0;
    if (t.end > room)
        fault(c, &t, "is outside of the arena");
    for (int i = 0; i < c->count; i++)
        if (c->held[i].end <= t.begin || t.end <= c->held[i].begin)
            c->held[left++] = c->held[i];
    c->count = left;
    if (t.end > t.begin)
        c->held[c->count++] = t;
}

static void get(struct check *c, enum tensor_kind kind, int layer, size_t offset) {
    struct tensor t = tensor_at(c, kind, layer, offset);
    for (int i = 0; i < c->count; i++) {
        const struct tensor *h = &c->held[i];
        if (h->kind == t.kind && h->layer == t.layer && h->micro == t.micro &&
            h->begin == t.begin && h->end == t.end)
            return;
    }
    if (t.end > t.begin)
        fault(c, &t, "is not there");
}

// A forward pass of one layer: inputs have to be whole behind it as well.
static void run_forward(struct check *c, int i, bool back) {
    const struct nn_layer *l = &c->m->layer[i];
    const struct nn_place *place = c->p->layer;
    c->doing = l->name;
    for (int turn = 0; turn < 2; turn++) {
        for (int s = 0; s < l->ins; s++) {
            const struct nn_place *x = &place[l->in[s]];
            get(c, OUTPUT, l->in[s], back ? x->output_back : x->output);
        }
        if (turn == 0) {
            if (!place[i].acts_forward)
                put(c, OUTPUT, i, back ? place[i].output_back : place[i].output);
            if (back && place[i].stats_kept)
                get(c, SAVED, i, place[i].saved_back);
            else
                put(c, SAVED, i, back ? place[i].saved_back : place[i].saved);
            if (i + 1 < c->m->layers && place[i + 1].acts_forward)
                put(c, OUTPUT, i + 1, back ? place[i + 1].output_back : place[i + 1].output);
        }
    }
    get(c, OUTPUT, i, back ? place[i].output_back : place[i].output);
}

static void read_for_backward(struct check *c, int i) {
    const struct nn_layer *l = &c->m->layer[i];
    unsigned uses = l->op->uses ? l->op->uses(l) : 0;
    for (int s = 0; s < l->ins; s++)
        if (uses & (1u << s))
            get(c, OUTPUT, l->in[s], c->p->layer[l->in[s]].output_back);
    if (uses & NN_USE_Y)
        get(c, OUTPUT, i, c->p->layer[i].output_back);
    if (c->p->layer[i - 1].acts_backward && !c->m->layer[i - 1].act) // what GELU has read
        get(c, OUTPUT, i - 2, c->p->layer[i - 2].output_back);
    get(c, SAVED, i, c->p->layer[i].saved_back);
}

static void run_backward(struct check *c, int i) {
    const struct nn_layer *l = &c->m->layer[i];
    const struct nn_place *place = c->p->layer, *at = &place[i];
    for (int j = at->again_from; j && j < i; j++)
        if (place[j].again)
            run_forward(c, j, true);
    c->doing = l->name;
    get(c, GRADIENT, i, at->gradient);
    read_for_backward(c, i);
    for (int s = 0; s < l->ins; s++) {
        int in = l->in[s];
        if (!place[in].wanted)
            continue;
        if (at->hand[s] == NN_HAND_APART) {
            struct tensor t = tensor_at(c, APART, in, at->apart[s]);
            put(c, APART, in, at->apart[s]);
            if (t.end > t.begin)
                get(c, APART, in, at->apart[s]);
        }
        if (at->hand[s] == NN_HAND_WRITE)
            put(c, GRADIENT, in, place[in].gradient);
        else
            get(c, GRADIENT, in, place[in].gradient);
    }
    read_for_backward(c, i);
}

int memory_plan_verify(const struct memory_plan *plan, const struct nn_model *m,
                       const struct memory_plan_spec *s, struct err *e) {
    int last = m->layers - 1;
    size_t most = (size_t)s->slots * (size_t)m->layers * (4 + NN_INS_MAX) + 1;
    struct check c = {.p = plan, .m = m, .s = s, .held = heap_alloc(most * sizeof *c.held), .e = e};
    for (c.micro = 0; c.micro < s->slots; c.micro++) {
        for (int i = 0; i < m->layers; i++)
            run_forward(&c, i, false);
        if (s->training && !m->has_after) // the loss
            put(&c, GRADIENT, last, plan->layer[last].gradient);
        get(&c, OUTPUT, last, plan->layer[last].output);
    }
    for (c.micro = 0; c.micro < s->slots && s->training; c.micro++) {
        if (m->has_after) { // until here it may still be on its way to the next stage
            get(&c, OUTPUT, last, plan->layer[last].output);
            put(&c, GRADIENT, last, plan->layer[last].gradient);
        }
        for (int i = last; i > 0; i--)
            run_backward(&c, i);
        if (m->has_before)
            get(&c, GRADIENT, 0, plan->layer[0].gradient);
    }
    free(c.held);
    return c.failed ? -1 : 0;
}
