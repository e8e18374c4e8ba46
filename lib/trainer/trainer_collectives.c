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
    if (t->config->device && t->mesh.data == 1)
        return 0;
    int r = trainer_device_choose(t->config, t->comm, &t->device, e);
    if (r == 0)
        t->no_device = *e;
    trainer_async_choose(t);
    t->apart |= r > 0 && !t->async.on; // the host adds up the totals
    return r < 0 ? -1 : 0;
}

void trainer_device_close(struct trainer *t) {
    if (t->device)
        t->config->device->collectives->close(t->device);
    t->device = NULL;
}

void trainer_device_say(const struct trainer *t, struct strbuf *line) {
    trainer_async_say(t, line);
    if (t->mesh.data == 1)
        return;
    if (t->device)
        strbuf_addf(line, "; gradients travel from GPU to GPU by %s",
                    t->config->device->collectives->about(t->device));
    else
        strbuf_addf(line, "; gradients travel through the memory of the hosts%s%s",
                    t->no_device.code == ERR_NONE ? "" : ": ",
                    t->no_device.code == ERR_NONE ? "" : t->no_device.text);
}

// The first bucket that is under way, in the order in which they were started; NULL: none.
static const struct bucket *under_way(const struct trainer *t) {
    const struct bucket *first = NULL;
    for (int c = 0, mark = 0; c < t->chunks; c++) {
        const struct network *net = &t->chunk[c].net;
        const struct bucket_list *list = &t->chunk[c].part->buckets;
        for (int i = 0; i < list->count; i++, mark++)
            if (!net->k->beside_done(net->ctx, mark) &&
                (!first || list->bucket[i].ticket < first->ticket))
                first = &list->bucket[i];
    }
    return first;
}

static int look(void *arg) {
    struct trainer *t = arg;
    const struct bucket *b = t->async.on ? NULL : under_way(t);
    uint64_t ticket = b ? b->ticket : trainer_async_ticket(t);
    int64_t now = clock_mono_ms();
    if (!ticket)
        return 0;
    if (ticket != t->wait.ticket)
        t->wait.since_ms = now;
    t->wait.ticket = ticket;
    return t->config->device->collectives->watch(t->device, ticket, now - t->wait.since_ms,
                                                 &t->wait.lost) < 0
               ? -1
               : 1;
}

int trainer_device_start(struct trainer *t, const struct chunk *c, struct bucket *b, int number,
                         const struct comm_call *call, struct err *e) {
    const struct network *net = &c->net;
    must(number < BESIDE_MARKS_MAX);
    net->k->while_waiting(net->ctx, look, t);
    void *stream = net->k->beside_begin(net->ctx);
    int r = trainer_device_check(t, e);
    if (r == 0)
        r = t->config->device->collectives->enqueue(t->device, call, stream, &b->ticket, e);
    net->k->beside_end(net->ctx, number);
    if (r == 0)
        trainer_async_called(t, call, b->ticket);
    return r;
}

void trainer_device_after(const struct chunk *c, int number) {
    c->net.k->beside_await(c->net.ctx, number);
}
