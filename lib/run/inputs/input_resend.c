// SPDX-License-Identifier: Apache-2.0
// Sends the shares of elastic inputs again.
#include "run/inputs/input_resend.h"

#include "base/log.h"
#include "run/inputs/input_elastic.h"
#include "run/monitor.h"

void input_resend_open(struct input_resend *r, struct run_start *l, struct follow *f) {
    *r = (struct input_resend){.launch = l, .follow = f};
    r->nodes = arena_new(f->context->arena, struct input_resend_node, f->count + 1);
    for (size_t i = 0; i < f->count; i++)
        r->nodes[i] = (struct input_resend_node){.resend = r, .node = &f->nodes[i]};
}

static void drop(struct input_resend_node *x) {
    if (x->share)
        manifest_free(x->share);
    x->share = NULL;
    x->xfer = NULL;
}

static void on_end(struct xfer *xfer, void *ctx, const struct err *e,
                   const struct xfer_progress *p) {
    struct input_resend_node *x = ctx;
    (void)xfer;
    x->resend->launch->run.push_bytes += p->bytes_done;
    if (e->code)
        log_warn("cannot send the files of an input again", "reason=\"%s\"", e->text);
    drop(x);
}

static const struct run_start_input *input_of(const struct run_start *l, const char *name) {
    for (size_t i = 0; i < l->input_count; i++)
        if (l->inputs[i].elastic && !l->inputs[i].remote && str_eq(l->inputs[i].name, name))
            return &l->inputs[i];
    return NULL;
}

static void send(struct input_resend_node *x, const struct json *event) {
    static const struct xfer_events events = {.on_end = on_end};
    const struct fleet_node *n = x->node->node;
    struct run_start *l = x->resend->launch;
    const struct follow *f = x->resend->follow;
    const struct run_start_input *in = input_of(l, json_get_str(event, "input", ""));
    int64_t nodes = json_get_int(event, "nodes", 0), rank = json_get_int(event, "group_rank", -1);
    struct err e = {0};
    if (!in || nodes < 1 || nodes > (int64_t)l->node_count || rank < 0 || rank >= nodes)
        return;
    x->share = input_elastic_share(in, (size_t)nodes, (size_t)rank, &e);
    struct xfer_push_spec spec = {.program = n->facts.program,
                                  .root = n->facts.root,
                                  .dest = "",
                                  .mode = XFER_MERGE,
                                  .manifest = x->share};
    if (x->share && (!n->up || !n->ready))
        err_set(&e, ERR_NET, "the node is out of reach");
    else if (x->share)
        x->xfer = xfer_push(n->link, &spec, &events, x, &e);
    if (x->xfer) {
        screen_note(f->context->screen, "sending files of input %s to %s, since no node has them",
                    in->name, n->info->name);
        monitor_note(f->context, f->run, "input-sent-again", "peer", n->info->name, "input",
                     in->name, NULL);
        return;
    }
    log_warn("cannot send the files of an input again", "node=%s reason=\"%s\"", n->info->name,
             e.text);
    drop(x);
}

void input_resend_node(struct input_resend *r, const struct follow_node *n,
                       const struct json *event) {
    if (!r->launch || r->follow->replaying || r->follow->stopping)
        return;
    struct input_resend_node *x = &r->nodes[n->index];
    if (x->xfer) { // of the last round
        xfer_cancel(x->xfer);
        drop(x);
    }
    send(x, event);
}

void input_resend_close(struct input_resend *r) {
    for (size_t i = 0; r->nodes && i < r->follow->count; i++) {
        if (r->nodes[i].xfer)
            xfer_cancel(r->nodes[i].xfer);
        drop(&r->nodes[i]);
    }
    r->nodes = NULL;
    r->launch = NULL;
}
