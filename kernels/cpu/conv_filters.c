// SPDX-License-Identifier: Apache-2.0
// Packs the filters of a convolution, or of its data gradient, into panels.
#include "kernels/cpu/conv_rows.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/share.h"

// Returns the next slot that any class uses, and its tap in the filter.
static int next_tap(const struct rows_job *job, int slot, int *tap) {
    int kw = job->s->kw, slots = job->s->kh * kw;
    for (; slot < slots; slot++)
        if (job->y.slot_used[slot / kw] && job->x.slot_used[slot % kw]) {
            *tap = job->y.slot_tap[slot / kw] * kw + job->x.slot_tap[slot % kw];
            return slot;
        }
    return -1;
}

// Convolution: panels of filters, transposed so that filters are columns. A worker takes panels and
// reads each of its filters from end to end.
static void pack_filters(const struct rows_job *job, int worker, int workers) {
    const struct conv2d_shape *s = job->s;
    int nr = job->ctx->isa->tile_cols, slots = s->kh * s->kw, tap = 0;
    size_t filter = (size_t)slots * s->c, tap_size = (size_t)job->src_c * nr;
    struct share mine = share_of(div_up(s->o, nr) * slots, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int first = (int)(i / slots) * nr, cols = s->o - first < nr ? s->o - first : nr;
        int slot = next_tap(job, (int)(i % slots), &tap);
        if (slot != i % slots)
            continue;
        struct panel_source src = {.stride = (ptrdiff_t)filter, .k = s->c, .cols = cols};
        src.at = job->w + first * filter + (size_t)tap * s->c, src.transposed = 1;
        pack_panel(job->ctx, job->type, &src, job->panels + i * tap_size);
    }
}

// Data gradient: columns are input channels, which already lie side by side. A worker takes a few
// filters at a time and spreads them over all panels.
static void pack_channels(const struct rows_job *job, int worker, int workers) {
    enum { filters_at_once = 32 }; // even, so that no pair of bfloat16 is split
    const struct conv2d_shape *s = job->s;
    int nr = job->ctx->isa->tile_cols, slots = s->kh * s->kw, tap = 0;
    size_t filter = (size_t)slots * s->c, tap_size = (size_t)job->src_c * nr;
    struct share mine = share_of(div_up(s->o, filters_at_once), worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int o = (int)i * filters_at_once;
        int count = s->o - o < filters_at_once ? s->o - o : filters_at_once;
        struct panel_source src = {.stride = (ptrdiff_t)filter, .k = count};
        size_t at = (size_t)(o / job->type->pair) * nr;
        for (int slot = next_tap(job, 0, &tap); slot >= 0; slot = next_tap(job, slot + 1, &tap))
            for (int c = 0, panel = 0; c < s->c; c += nr, panel++) {
                src.at = job->w + o * filter + (size_t)tap * s->c + c;
                src.cols = s->c - c < nr ? s->c - c : nr;
                pack_panel(job->ctx, job->type, &src,
                           job->panels + ((size_t)panel * slots + slot) * tap_size + at);
            }
    }
}

void conv_rows_pack(void *arg, int worker, int workers) {
    const struct rows_job *job = arg;
    if (job->data)
        pack_channels(job, worker, workers);
    else
        pack_filters(job, worker, workers);
}
