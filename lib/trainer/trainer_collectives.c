// SPDX-License-Identifier: Apache-2.0
// Chooses NCCL or the communicator of the hosts for numbers on devices. NCCL's collectives are
// enqueued one after another beside the compute, and watched while the host waits.
#include "base/arena.h"
#include "base/clock.h"
#include "trainer/trainer_impl.h"

#include <stdlib.h>

// Refuses a mix of processors and GPUs: all ranks would wait for the slowest, and results would
// differ.
int trainer_device_compare(const struct trainer_config *config, struct comm *comm, struct err *e) {
    int world = comm_world(comm);
    unsigned char mine = config->device != NULL, *all = heap_alloc((size_t)world);
    int r = comm_all_gather(comm, &mine, all, sizeof mine, e);
    for (int i = 1; i < world && r == 0; i++)
        if (all[i] != all[0])
            r = err_set(e, ERR_CONFIG,
                        "rank 0 computes on a %s and rank %d on a %s (try: nodes of one kind, or "
                        "train.device cpu)",
                        all[0] ? "GPU" : "CPU", i, all[i] ? "GPU" : "CPU");
    free(all);
    return r;
}

int trainer_device_choose(const struct trainer_config *config, struct comm *comm,
                          struct comm_device **out, struct err *e) {
    const struct trainer_device *device = config->device;
    int collectives = config->options->collectives;
    bool wanted = collectives == TRAIN_COLLECTIVES_NCCL;
    *out = NULL;
    err_clear(e);
    if (wanted && !device)
        return err_set(e, ERR_CONFIG,
                       "train.collectives: nccl is for GPUs, and this run computes on processors "
                       "(try: train.collectives auto)");
    if (!device || comm_world(comm) == 1 || collectives == TRAIN_COLLECTIVES_HOST)
        return 0;
    int r = device->collectives->open(out, comm, device->env, e);
    return r == 0 && wanted ? err_wrap(e, "train.collectives nccl") : r;
}

int trainer_device_open(struct trainer *t, struct err *e) {
    trainer_async_choose(t);
    if (t->config->device && t->world == 1)
        return 0;
    int r = trainer_device_choose(t->config, t->comm, &t->device, e);
    if (r == 0)
        t->no_device = *e;
    if (r > 0)
        t->calls = heap_alloc(BESIDE_MARKS_MAX * sizeof *t->calls);
    trainer_async_choose(t);
    t->apart |= r > 0 && !t->async.on; // the host adds up the totals
    return r < 0 ? -1 : 0;
}

void trainer_device_close(struct trainer *t) {
    if (t->device)
        t->config->device->collectives->close(t->device);
    t->device = NULL;
    free(t->calls);
    t->calls = NULL;
}

int trainer_device_split(struct trainer *t, struct comm_device **out, int color, int key,
                         struct comm *host, struct err *e) {
    *out = NULL;
    if (!t->device)
        return 0;
    return t->config->device->collectives->split(out, t->device, color, key, host, e);
}

void trainer_device_say(const struct trainer *t, struct strbuf *line) {
    const char *what = t->mesh.pipe == 1   ? "gradients"
                       : t->mesh.data == 1 ? "micro-batches"
                                           : "micro-batches and gradients";
    trainer_async_say(t, line);
    if (t->world == 1)
        return;
    if (t->device)
        strbuf_addf(line, "; %s travel from GPU to GPU by %s", what,
                    t->config->device->collectives->about(t->device));
    else
        strbuf_addf(line, "; %s travel through the memory of the hosts%s%s", what,
                    t->no_device.code == ERR_NONE ? "" : ": ",
                    t->no_device.code == ERR_NONE ? "" : t->no_device.text);
}

// The first call that is under way, in the order in which they were started; device NULL: none.
static struct device_call under_way(struct trainer *t) {
    const struct network *net = &t->chunk[0].net;
    struct device_call first = {.order = t->called + 1};
    for (int mark = 0; mark < BESIDE_MARKS_MAX; mark++) {
        const struct device_call *c = &t->calls[mark];
        if (c->order > t->ended && c->order < first.order && !net->k->beside_done(net->ctx, mark))
            first = *c;
    }
    t->ended = first.order - 1;
    return first;
}

static int look(void *arg) {
    struct trainer *t = arg;
    struct device_wait *w = &t->wait;
    struct device_call call = {0};
    if (!t->async.on || t->mesh.pipe > 1)
        call = under_way(t);
    else if ((call.ticket = trainer_async_ticket(t)) > 0)
        call.device = t->device;
    int64_t now = clock_mono_ms();
    if (!call.device)
        return 0;
    if (call.device != w->device || call.ticket != w->ticket)
        w->since_ms = now;
    w->device = call.device;
    w->ticket = call.ticket;
    return t->config->device->collectives->watch(call.device, call.ticket, now - w->since_ms,
                                                 &w->lost) < 0
               ? -1
               : 1;
}

int trainer_device_start(struct trainer *t, struct comm_device *device, int queue, int mark,
                         const struct comm_call *call, struct err *e) {
    const struct network *net = &t->chunk[0].net;
    uint64_t ticket = 0;
    must(mark < BESIDE_MARKS_MAX);
    net->k->while_waiting(net->ctx, look, t);
    void *stream = net->k->beside_begin(net->ctx, queue);
    int r = trainer_device_check(t, e);
    if (r == 0)
        r = t->config->device->collectives->enqueue(device, call, stream, &ticket, e);
    net->k->beside_end(net->ctx, queue, mark);
    if (r < 0)
        return -1;
    t->calls[mark] = (struct device_call){device, ticket, ++t->called};
    trainer_async_called(t, call, ticket);
    return 0;
}

void trainer_device_after(const struct trainer *t, int mark) {
    const struct network *net = &t->chunk[0].net;
    net->k->beside_await(net->ctx, mark);
}
