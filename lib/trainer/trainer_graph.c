// SPDX-License-Identifier: Apache-2.0
// Launches a step on a device as captured graphs (train.graph). The work of a step is always the
// same, so it is captured once for each number of rows, at the second step, and launched again.
// Images and labels are copied outside of the captured parts.
#include "trainer/trainer_impl.h"

static struct async_graph *find(struct async *a, int64_t rows, int segment) {
    for (int i = 0; i < a->graphs; i++)
        if (a->graph[i].rows == rows && a->graph[i].segment == segment)
            return &a->graph[i];
    return NULL;
}

static int run_items(struct step_run *r, const struct step_item *it, const struct step_item *end,
                     struct err *e) {
    for (; it < end; it++)
        if (trainer_step_item(r, it, e) < 0)
            return -1;
    return 0;
}

static struct async_graph *capture(struct step_run *r, int segment, const struct step_item *it,
                                   const struct step_item *end, struct err *e) {
    struct async *a = &r->t->async;
    struct network *net = trainer_async_net(r->t);
    struct async_graph *g = &a->graph[a->graphs];
    const char *why = NULL;
    must(a->graphs < ASYNC_GRAPHS_MAX);
    *g = (struct async_graph){.rows = r->rows, .segment = segment};
    a->capturing = g;
    net->k->capture_begin(net->ctx);
    int result = run_items(r, it, end, e);
    g->captured = net->k->capture_end(net->ctx, &why);
    a->capturing = NULL;
    a->graphs++;
    if (result == 0 && !g->captured)
        result = err_set(e, ERR_FAILED, "capturing a step: %s (try: train.graph off)", why);
    return result < 0 ? NULL : g;
}

// The items between two loads, or behind the last one.
static int run_segment(struct step_run *r, int segment, const struct step_item *it,
                       const struct step_item *end, struct err *e) {
    struct trainer *t = r->t;
    struct async *a = &t->async;
    struct network *net = trainer_async_net(t);
    // Slow weights join with factors that change: those few steps are not captured.
    if (!a->capture || !a->seen || t->chunk[0].optimizer.keep >= 0)
        return run_items(r, it, end, e);
    struct async_graph *g = find(a, r->rows, segment);
    if (!g) {
        g = capture(r, segment, it, end, e);
    } else {
        for (; it < end; it++)
            trainer_step_skip(r, it);
        uint64_t ticket = 0;
        if (g->ncalls)
            ticket = t->config->device->collectives->again(t->device, g->calls, (int)g->ncalls);
        a->ticket = a->ticket ? a->ticket : ticket;
    }
    if (!g)
        return -1;
    net->k->replay(net->ctx, g->captured);
    return 0;
}

int trainer_graph_step(struct step_run *r, const struct step_program *p, struct err *e) {
    const struct step_item *end = p->item + p->items, *it = p->item;
    for (int segment = 0; it < end; segment++) {
        const struct step_item *next = it + 1;
        while (next < end && next->op != STEP_LOAD)
            next++;
        if (trainer_step_item(r, it, e) < 0 || run_segment(r, segment, it + 1, next, e) < 0)
            return -1;
        it = next;
    }
    return trainer_device_check(r->t, e);
}
