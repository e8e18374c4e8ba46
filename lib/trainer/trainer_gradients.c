// SPDX-License-Identifier: Apache-2.0
// All-reduces gradients between ranks, bucket by bucket; with train.zero, reduce-scatters them.
// From device to device, or through the memory of the host.
#include "trainer/trainer_impl.h"

// True when gradients are sent as bfloat16.
static bool is_narrow(const struct trainer *t) {
    return t->options->wire == TRAIN_WIRE_BF16 && t->mesh.data > 1;
}

// True when one rank on a device has all gradients. Nothing is sent, and the collectives must not
// read the buffer.
static bool is_alone(const struct trainer *t) {
    return t->config->device && t->mesh.data == 1;
}

void trainer_own_part(const struct trainer *t, const struct bucket *b, size_t *begin, size_t *end) {
    bucket_own(b, t->zero ? t->data_rank : 0, begin, end);
}

static char *at_element(const struct chunk *c, char *buffer, size_t begin) {
    return buffer + begin * c->net.k->real_bytes;
}

// Makes a range of a flat buffer readable for the collectives: copies it to the mirror of the host,
// if there is one.
static void *to_wire(struct chunk *c, char *buffer, size_t begin, size_t count) {
    if (!c->mirror)
        return at_element(c, buffer, begin);
    network_get(&c->net, buffer, begin, count, c->mirror + begin);
    return c->mirror + begin;
}

// Copies the range back from the mirror of the host, if there is one.
static void from_wire(struct chunk *c, char *buffer, size_t begin, size_t count) {
    if (c->mirror && count)
        network_set(&c->net, buffer, begin, count, c->mirror + begin);
}

// narrow() rounds gradients to bfloat16, widen() converts them back.
static void *narrow(const struct trainer *t, struct chunk *c, size_t begin, const void *from,
                    size_t count) {
    if (t->device)
        c->net.k->narrow(c->net.ctx, count, from, c->wire + begin);
    else
        comm_narrow(c->wire + begin, from, count);
    return c->wire + begin;
}

static void widen(const struct trainer *t, struct chunk *c, size_t begin, size_t count) {
    void *to = c->mirror ? c->mirror + begin : (void *)at_element(c, c->net.grads, begin);
    if (t->device)
        c->net.k->widen(c->net.ctx, count, c->wire + begin, to);
    else
        comm_widen(to, c->wire + begin, count);
}

static int start(struct trainer *t, struct bucket *b, int number, struct comm_call *call,
                 struct err *e) {
    must(number < TRAINER_MARKS_LINKS);
    if (is_alone(t))
        call->count = 0;
    return t->device_data ? trainer_device_start(t, t->device_data, 0, number, call, e)
                          : comm_start(t->data, call, &b->ticket, e);
}

// The host does not wait for a device; operations that are enqueued later do.
static int finish(struct trainer *t, const struct bucket *b, int number, struct err *e) {
    if (!t->device_data)
        return comm_wait(t->data, b->ticket, e);
    trainer_device_after(t, number);
    return 0;
}

int trainer_average_start(struct trainer *t, struct chunk *c, struct bucket *b, int number,
                          struct err *e) {
    bool parted = t->zero, bf16 = is_narrow(t);
    struct comm_call call = {.kind = parted ? COMM_REDUCE_SCATTER : COMM_ALL_REDUCE,
                             .type = bf16 ? COMM_BF16 : COMM_F32,
                             .op = COMM_MEAN,
                             .count = (t->apart ? b->params_end : b->end) - b->begin,
                             .each = parted ? b->each : 0};
    call.buf = to_wire(c, c->net.grads, b->begin, call.count);
    if (bf16)
        call.buf = narrow(t, c, b->begin, call.buf, call.count);
    return start(t, b, number, &call, e);
}

int trainer_average_end(struct trainer *t, struct chunk *c, const struct bucket *b, int number,
                        struct err *e) {
    size_t begin, end;
    if (finish(t, b, number, e) < 0)
        return -1;
    trainer_own_part(t, b, &begin, &end);
    if (is_narrow(t))
        widen(t, c, begin, end - begin);
    from_wire(c, c->net.grads, begin, (t->apart ? end : b->end) - begin);
    return 0;
}

int trainer_collect_start(struct trainer *t, struct chunk *c, struct bucket *b, int number,
                          struct err *e) {
    size_t count = b->params_end - b->begin;
    struct comm_call call = {.kind = COMM_ALL_GATHER,
                             .type = COMM_F32,
                             .buf = to_wire(c, c->net.params, b->begin, count),
                             .count = count,
                             .each = b->each};
    return start(t, b, number, &call, e);
}

int trainer_collect_end(struct trainer *t, struct chunk *c, const struct bucket *b, int number,
                        struct err *e) {
    if (finish(t, b, number, e) < 0)
        return -1;
    from_wire(c, c->net.params, b->begin, b->params_end - b->begin);
    return 0;
}
