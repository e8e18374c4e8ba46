// SPDX-License-Identifier: Apache-2.0
// Finds the blocks of layers that run again in backward.
#include "nn/recompute.h"

#include "nn/layer.h"
#include "nn/stage.h"

#include <string.h>

// Of the name of the layer's block; 0: the layer is in none.
static size_t block_bytes(const char *name) {
    size_t at = 0;
    while (name[at]) {
        size_t digits = strspn(name + at, "0123456789");
        if (digits && name[at + digits] == '.')
            return at + digits;
        at += strcspn(name + at, ".");
        at += name[at] == '.';
    }
    return 0;
}

// The end of the block that begins with this layer.
static int block_end(const struct nn_model *m, int begin) {
    const char *name = m->layer[begin].name;
    size_t bytes = block_bytes(name);
    int end = begin + 1;
    while (end < m->layers && block_bytes(m->layer[end].name) == bytes &&
           memcmp(m->layer[end].name, name, bytes) == 0)
        end++;
    return end;
}

static bool uses(const struct nn_layer *l, unsigned what) {
    return l->op->uses && (l->op->uses(l) & what);
}

static bool is_needed(const struct nn_model *m, const struct recompute_layer *out, int layer,
                      int end) {
    if (uses(&m->layer[layer], NN_USE_Y))
        return true;
    for (int j = layer + 1; j < end; j++)
        for (int s = 0; s < m->layer[j].ins; s++)
            if (m->layer[j].in[s] == layer && (out[j].again || uses(&m->layer[j], 1u << s)))
                return true;
    return false;
}

int recompute_blocks(const struct nn_model *m, struct recompute_layer *out) {
    int blocks = 0;
    memset(out, 0, (size_t)m->layers * sizeof *out);
    for (int begin = 1, end; begin < m->layers; begin = end) {
        end = block_end(m, begin);
        if (!block_bytes(m->layer[begin].name) || !stage_may_begin(m, begin) ||
            (end < m->layers && !stage_may_begin(m, end)))
            continue;
        bool any = false;
        for (int i = end - 2; i >= begin; i--) {
            out[i].again = is_needed(m, out, i, end);
            any = any || out[i].again;
        }
        out[end - 1].from = any ? begin : 0;
        blocks += any;
    }
    return blocks;
}
