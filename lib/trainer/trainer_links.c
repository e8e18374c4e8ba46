// SPDX-License-Identifier: Apache-2.0
// Links between neighbouring stages of a pipeline: outputs of a stage travel forward, gradients of
// them back. Each direction between two neighbours is a group of two ranks with a queue of its own,
// so that a wait in one does not block another. Numbers of devices go from device to device, or
// through a copy in the memory of the host.
#include "base/arena.h"
#include "nn/layer.h"
#include "trainer/trainer_impl.h"

#include <stdlib.h>

// Marks of the links: the newest MARKS calls have one each.
enum { MARKS = BESIDE_MARKS_MAX - TRAINER_MARKS_LINKS };

// Queues of the device beside the first one, which is that of collectives.
static const int queues[STEP_OPS] = {
    [STEP_RECV_X] = 1, [STEP_SEND_Y] = 2, [STEP_RECV_DY] = 3, [STEP_SEND_DX] = 4};

static struct sending *sending_of(struct trainer *t, const struct step_item *it) {
    return &t->links.sent[it->chunk * t->slots + it->slot];
}

static int broken(const struct trainer *t, struct err *e) {
    return err_wrap(e, "passing a micro-batch between stages at step %lld", (long long)t->at.step);
}

// Waits for all operations, and so for every call that they come after.
static void await_device(struct trainer *t) {
    struct network *net = &t->chunk[0].net;
    float ignored;
    network_get(net, net->params, 0, 1, &ignored);
}

// ---- opening and closing -----------------------------------------------------------------------

// Neighbours s and s + 1 of a pipeline are a pair. A rank is in two pairs, which are split off in
// different rounds. The pair that closes the circle exists only with several stages per rank.
enum { ROUNDS = 3 };

static int round_of(const struct trainer *t, int pair) {
    int last = t->mesh.pipe - 1;
    if (pair == last && t->chunks == 1)
        return -1;
    return pair == last && last % 2 == 0 ? 2 : pair % 2;
}

// NCCL connects two ranks at their first call. A first call in the middle of a step would wait in
// the host while calls of other links are at work in the device.
static int try_link(struct trainer *t, struct stage_link *l, enum step_op op, struct err *e) {
    struct network *net = &t->chunk[0].net;
    bool sends = op == STEP_SEND_Y || op == STEP_SEND_DX;
    const struct comm_call call = {.kind = sends ? COMM_SEND : COMM_RECV,
                                   .type = COMM_BYTE,
                                   .buf = net->grads,
                                   .count = net->k->real_bytes,
                                   .peer = 1 - comm_rank(l->host)};
    if (trainer_device_start(t, l->device, queues[op], TRAINER_MARKS_LINKS, &call, e) < 0)
        return -1;
    trainer_device_after(t, TRAINER_MARKS_LINKS);
    await_device(t);
    return trainer_device_check(t, e);
}

// One direction: from the left of each pair to the right, or back.
static int open_direction(struct trainer *t, bool forward, struct err *e) {
    int pipe = t->mesh.pipe, left = t->pipe_rank, right = (t->pipe_rank + pipe - 1) % pipe;
    for (int round = 0; round < ROUNDS; round++) {
        bool is_left = round_of(t, left) == round, is_right = round_of(t, right) == round;
        int color = is_left || is_right ? t->data_rank * pipe + (is_left ? left : right) : -1;
        enum step_op op = forward ? (is_left ? STEP_SEND_Y : STEP_RECV_X)
                                  : (is_left ? STEP_RECV_DY : STEP_SEND_DX);
        struct stage_link made = {0};
        int r = comm_split(&made.host, t->comm, color, is_right, e);
        if (made.host)
            t->links.of[op] = made;
        if (r < 0 || trainer_device_split(t, &made.device, color, is_right, made.host, e) < 0)
            return -1;
        if (made.device) {
            t->links.of[op] = made;
            if (try_link(t, &made, op, e) < 0)
                return -1;
        }
    }
    return 0;
}

// Elements of the largest layer that is the first or the last one of a stage of this rank.
static size_t most_elements(const struct trainer *t) {
    const struct train_config *o = t->options;
    int rows = t->micro_batch;
    size_t most = 0;
    if (o->eval && rows < o->eval_batch)
        rows = (int)o->eval_batch;
    for (int c = 0; c < t->chunks; c++) {
        const struct nn_model *m = &t->chunk[c].part->model;
        size_t first = m->has_before ? layer_elements(&m->layer[0], rows) : 0;
        size_t last = m->has_after ? layer_elements(&m->layer[m->layers - 1], rows) : 0;
        most = most < first ? first : most;
        most = most < last ? last : most;
    }
    return most;
}

int trainer_links_open(struct trainer *t, struct err *e) {
    int sendings = t->chunks * t->slots;
    t->links.sent = heap_alloc((size_t)sendings * sizeof *t->links.sent);
    if (t->chunk[0].net.k->remote && !t->device) {
        size_t most = most_elements(t);
        t->links.copy = heap_alloc(most * sizeof *t->links.copy);
        for (int i = 0; i < sendings; i++)
            t->links.sent[i].copy = heap_alloc(most * sizeof *t->links.copy);
    }
    return open_direction(t, true, e) < 0 || open_direction(t, false, e) < 0 ? -1 : 0;
}

void trainer_links_close(struct trainer *t) {
    for (int i = 0; i < STEP_OPS; i++) {
        if (t->links.of[i].device)
            t->config->device->collectives->close(t->links.of[i].device);
        comm_close(t->links.of[i].host);
    }
    for (int i = 0; t->links.sent && i < t->chunks * t->slots; i++)
        free(t->links.sent[i].copy);
    free(t->links.sent);
    free(t->links.copy);
}

// ---- from device to device ---------------------------------------------------------------------

// A step may have more calls than there are marks. The host waits until the mark is free: every
// call but the newest ones comes before the operations that it waits for.
static int next_mark(struct trainer *t) {
    struct network *net = &t->chunk[0].net;
    int mark = TRAINER_MARKS_LINKS + (int)(t->links.calls++ % MARKS);
    if (!net->k->beside_done(net->ctx, mark))
        await_device(t);
    return mark;
}

static int device_pass(struct trainer *t, const struct step_item *it, const struct comm_call *call,
                       int *mark, struct err *e) {
    *mark = next_mark(t);
    return trainer_device_start(t, t->links.of[it->op].device, queues[it->op], *mark, call, e);
}

// ---- both --------------------------------------------------------------------------------------

static int clear(struct trainer *t, struct sending *s, struct err *e) {
    struct comm *link = s->link;
    if (s->mark)
        trainer_device_after(t, s->mark);
    s->link = NULL;
    s->mark = 0;
    return link && comm_wait(link, s->ticket, e) < 0 ? broken(t, e) : 0;
}

int trainer_links_clear(struct trainer *t, const struct step_item *it, struct err *e) {
    return t->links.sent ? clear(t, sending_of(t, it), e) : 0;
}

int trainer_links_end(struct trainer *t, struct err *e) {
    bool waits = false;
    for (int i = 0; t->links.sent && i < t->chunks * t->slots; i++) {
        waits |= t->links.sent[i].mark > 0;
        if (clear(t, &t->links.sent[i], e) < 0)
            return -1;
    }
    if (waits)
        await_device(t);
    return 0;
}

static struct comm_call call_of(const struct trainer *t, const struct step_item *it,
                                enum comm_kind kind, void *buf, size_t count) {
    const struct network *net = &t->chunk[0].net;
    return (struct comm_call){.kind = kind,
                              .type = COMM_BYTE,
                              .buf = buf,
                              .count = layer_store_bytes(count, net->k->real_bytes, net->store),
                              .peer = 1 - comm_rank(t->links.of[it->op].host)};
}

int trainer_links_receive(struct trainer *t, const struct step_item *it, void *to, size_t count,
                          struct err *e) {
    struct network *net = &t->chunk[it->chunk].net;
    const struct stage_link *l = &t->links.of[it->op];
    float *copy = t->links.copy;
    const struct comm_call call = call_of(t, it, COMM_RECV, copy ? copy : to, count);
    int mark;
    if (l->device) {
        if (device_pass(t, it, &call, &mark, e) < 0)
            return broken(t, e);
        trainer_device_after(t, mark);
        return 0;
    }
    if (comm_do(l->host, &call, e) < 0)
        return broken(t, e);
    if (copy)
        network_set(net, to, 0, count, copy);
    return 0;
}

int trainer_links_send(struct trainer *t, const struct step_item *it, void *from, size_t count,
                       struct err *e) {
    const struct stage_link *l = &t->links.of[it->op];
    struct sending *s = sending_of(t, it);
    if (l->device) {
        const struct comm_call call = call_of(t, it, COMM_SEND, from, count);
        return device_pass(t, it, &call, &s->mark, e) < 0 ? broken(t, e) : 0;
    }
    if (s->copy) {
        if (clear(t, s, e) < 0)
            return -1;
        network_get(&t->chunk[it->chunk].net, from, 0, count, s->copy);
    }
    const struct comm_call call =
        call_of(t, it, COMM_SEND, s->copy ? (void *)s->copy : from, count);
    s->link = l->host;
    return comm_start(s->link, &call, &s->ticket, e) < 0 ? broken(t, e) : 0;
}
