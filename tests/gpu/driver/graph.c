// SPDX-License-Identifier: Apache-2.0
// graph.c: capture of streams into a graph, and its replay in a random order that its edges allow.
// Calls that the real driver refuses during a capture are refused here, too. EMU_GRAPHS=0: none can
// be captured. EMU_GRAPH_REPORT=1 says what each graph of several nodes has, EMU_GRAPH_REPORT=2
// names its kernels, too. EMU_LOSE_NODE=n and EMU_LOSE_EDGE=n leave out the n-th node of it, or the
// n-th edge between two streams, from 0.
#include "tests/gpu/driver/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct graph *capturing;

void graph_release(struct graph *g) {
    if (--g->users)
        return;
    for (struct node *next, *n = g->nodes; n; n = next) {
        next = n->next;
        op_drop(&n->op);
        free(n);
    }
    free(g);
}

static void depends(struct node **list, size_t *n, struct node *on) {
    for (size_t k = 0; k < *n; k++)
        if (list[k] == on)
            return;
    if (*n == DEPENDENCIES_MAX)
        abort(); // more edges to one node than the stand-in has room for
    list[(*n)++] = on;
}

CUresult graph_add(struct stream *s, struct op *o) {
    struct graph *g = s->capture;
    struct node *node = calloc(1, sizeof *node);
    if (!node)
        abort();
    node->op = *o;
    node->in = s;
    for (size_t k = 0; k < s->n_last; k++) {
        depends(node->after, &node->n_after, s->last[k]);
        s->last[k]->joined = true;
    }
    s->last[0] = node;
    s->n_last = 1;
    *g->tail = node;
    g->tail = &node->next;
    g->n++;
    return 0;
}

CUresult graph_record(struct stream *s, struct event *e) {
    e->capture = s->capture->id;
    e->n_behind = s->n_last;
    memcpy(e->behind, s->last, s->n_last * sizeof *s->last);
    return 0;
}

// A stream that waits for an event of a capture belongs to the capture from then on.
CUresult graph_wait(struct stream *s, struct event *e) {
    if (!capturing || e->capture != capturing->id) {
        if (capturing)
            capturing->invalid = true;
        return driver_fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                           "a wait of a captured stream for an event outside of its capture");
    }
    if (!s->capture) {
        s->capture = capturing;
        s->n_last = 0;
    }
    for (size_t k = 0; k < e->n_behind; k++)
        depends(s->last, &s->n_last, e->behind[k]);
    return 0;
}

static CUresult begin(CUstream s) {
    CUresult r = driver_unsafe("a second capture");
    if (!r && !driver_setting("EMU_GRAPHS", 1))
        return driver_fail(CUDA_ERROR_NOT_SUPPORTED, "no capture, as EMU_GRAPHS says");
    if (r || !s)
        return r ? r : CUDA_ERROR_INVALID_HANDLE;
    static uint64_t last_id;
    struct graph *g = calloc(1, sizeof *g);
    if (!g)
        abort();
    g->id = ++last_id;
    g->tail = &g->nodes;
    g->users = 1;
    s->capture = capturing = g;
    s->origin = true;
    s->n_last = 0;
    return 0;
}

// Every node must be a predecessor of what the origin ends with.
static bool all_joined(const struct stream *origin, const struct graph *g) {
    for (size_t k = 0; k < origin->n_last; k++)
        origin->last[k]->joined = true;
    for (const struct node *n = g->nodes; n; n = n->next)
        if (!n->joined)
            return false;
    return true;
}

static void forget_edge(struct node *n, size_t k) {
    n->after[k] = n->after[--n->n_after];
}

// Leaves out a part for the test of a test.
static void spoil(struct graph *g) {
    long lost_node = driver_setting("EMU_LOSE_NODE", -1), nodes = 0, edges = 0, kernels = 0;
    long lost_edge = driver_setting("EMU_LOSE_EDGE", -1);
    long report = driver_setting("EMU_GRAPH_REPORT", 0);
    for (struct node *n = g->nodes; n && g->n > 1; n = n->next) {
        kernels += n->op.kind == K_LAUNCH;
        if (n->op.kind == K_LAUNCH && report > 1)
            fprintf(stderr, "emulated CUDA: the graph has kernel %s\n", ptx_name(n->op.k));
        n->lost = nodes++ == lost_node;
        for (size_t k = 0; k < n->n_after; k++)
            if (n->after[k]->in != n->in && edges++ == lost_edge)
                forget_edge(n, k--);
    }
    if (nodes && report)
        fprintf(stderr, "emulated CUDA: a graph of %ld nodes, %ld kernels, %ld edges\n", nodes,
                kernels, edges);
}

static CUresult end(CUstream s, CUgraph *out) {
    struct graph *g = capturing;
    if (!g || !s || s->capture != g || !s->origin)
        return driver_fail(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                           "the capture began in another stream");
    bool joined = all_joined(s, g);
    for (struct stream *t = streams; t; t = t->next)
        if (t->capture == g) {
            t->capture = NULL;
            t->origin = false;
            t->n_last = 0;
        }
    capturing = NULL;
    *out = g;
    if (!g->invalid && joined) {
        spoil(g);
        return 0;
    }
    *out = NULL;
    CUresult r = g->invalid
                     ? driver_fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture is invalid")
                     : driver_fail(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                                   "work of another stream was not joined to the origin");
    graph_release(g);
    return r;
}

// Nodes whose predecessors have run, in random order, until none is left, or one has to be called
// again.
CUresult graph_run(struct graph *g) {
    for (struct node *n = g->nodes; n && !g->left; n = n->next)
        n->done = false;
    g->left = g->left ? g->left : g->n;
    while (g->left) {
        struct node *pick = NULL;
        uint32_t seen = 0;
        for (struct node *n = g->nodes; n; n = n->next) {
            bool ready = !n->done;
            for (size_t k = 0; k < n->n_after; k++)
                ready &= n->after[k]->done;
            if (ready && driver_random(++seen) == 0)
                pick = n;
        }
        if (!pick)
            return driver_broken("a graph of which no node can run");
        CUresult r = pick->lost ? 0 : op_run(&pick->op);
        if (r)
            return r;
        pick->done = true;
        g->left--;
    }
    return 0;
}

#define LOCKED(body)                                                                               \
    driver_lock();                                                                                 \
    CUresult r = (body);                                                                           \
    driver_unlock();                                                                               \
    return r

API CUresult cuStreamBeginCapture_v2(CUstream s, int mode) {
    (void)mode;
    LOCKED(begin(s));
}
API CUresult cuStreamEndCapture(CUstream s, CUgraph *g) {
    LOCKED(end(s, g));
}
API CUresult cuStreamIsCapturing(CUstream s, int *status) {
    *status = s && s->capture ? 1 + s->capture->invalid : 0;
    return 0;
}
API CUresult cuGraphInstantiateWithFlags(CUgraphExec *x, CUgraph g, unsigned long long flags) {
    (void)flags;
    g->users++;
    *x = g;
    return 0;
}
API CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *n) {
    size_t k = 0;
    for (struct node *node = g->nodes; nodes && node && k < *n; node = node->next)
        nodes[k++] = node;
    *n = nodes ? k : g->n;
    return 0;
}
API CUresult cuGraphLaunch(CUgraphExec x, CUstream s) {
    struct op o = {.kind = K_GRAPH, .graph = x};
    x->users++;
    LOCKED(stream_push(s, &o));
}
static CUresult drop(struct graph *g) {
    graph_release(g);
    return 0;
}
API CUresult cuGraphExecDestroy(CUgraphExec x) {
    LOCKED(drop(x));
}
API CUresult cuGraphDestroy(CUgraph g) {
    LOCKED(drop(g));
}
