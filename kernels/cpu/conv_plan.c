// SPDX-License-Identifier: Apache-2.0
// Groups the output positions of a convolution by the taps that apply to them.
#include "kernels/cpu/conv_plan.h"

#include <assert.h>
#include <string.h>

// Adds a position: to the last group of the run if that has the same taps and adjacent sources,
// else as a new group.
static void add_position(struct axis_plan *p, int run_first, const struct axis_group *one) {
    struct axis_group *g = p->groups > run_first ? &p->group[p->groups - 1] : NULL;
    for (int j = 0; j < one->taps; j++)
        p->slot_used[one->slot + j] = 1;
    if (g && g->taps == one->taps && (g->slot == one->slot || one->taps == 0)) {
        g->count++;
        return;
    }
    assert(p->groups < conv_groups_max);
    p->group[p->groups++] = *one;
}

void axis_plan_forward(struct axis_plan *p, int in, int out, int k, int stride, int pad) {
    assert(k <= conv_taps_max);
    p->groups = 0;
    memset(p->slot_used, 0, sizeof p->slot_used);
    for (int t = 0; t < k; t++)
        p->slot_tap[t] = t;
    for (int o = 0; o < out; o++) {
        int at = o * stride - pad; // source of tap 0
        int low = at < 0 ? -at : 0, high = in - at < k ? in - at : k;
        struct axis_group one = {.first = o, .step = 1, .count = 1, .src_step = stride};
        one.slot = low;
        one.taps = high > low ? high - low : 0;
        one.src = one.taps > 0 ? at + low : 0;
        add_position(p, 0, &one);
    }
}

// dx[x] sums over each tap for which y = (x + pad - tap) / stride is an integer. So all x of one
// phase (x mod stride) use the taps of one residue, in descending order as y grows.
void axis_plan_data(struct axis_plan *p, int in, int out, int k, int stride, int pad) {
    assert(k <= conv_taps_max && stride <= conv_taps_max);
    int slot0[conv_taps_max], slots = 0;
    p->groups = 0;
    memset(p->slot_used, 0, sizeof p->slot_used);
    for (int r = 0; r < stride; r++) {
        slot0[r] = slots;
        for (int t = k - 1; t >= 0; t--)
            if (t % stride == r)
                p->slot_tap[slots++] = t;
    }
    for (int phase = 0; phase < stride && phase < in; phase++) {
        int residue = (phase + pad) % stride, base = slot0[residue], run_first = p->groups;
        int taps = (residue + 1 < stride ? slot0[residue + 1] : slots) - base;
        for (int x = phase; x < in; x += stride) {
            int y0 = taps > 0 ? (x + pad - p->slot_tap[base]) / stride : 0; // exact
            int low = y0 < 0 ? -y0 : 0, high = out - y0 < taps ? out - y0 : taps;
            struct axis_group one = {.first = x, .step = stride, .count = 1, .src_step = 1};
            one.slot = base + low;
            one.taps = high > low ? high - low : 0;
            one.src = one.taps > 0 ? y0 + low : 0;
            add_position(p, run_first, &one);
        }
    }
}
