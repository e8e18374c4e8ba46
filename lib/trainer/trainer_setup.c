// SPDX-License-Identifier: Apache-2.0
// Opens a trainer from its options, up to the first step.
#include "base/arena.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "nn/recompute.h"
#include "sys/file.h"
#include "trainer/trainer_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_comm(struct trainer *t, struct err *e) {
    const struct trainer_config *c = t->config;
    struct comm_config comm = c->comm;
    comm.cpu = -1;
    comm.sockets = (int)t->options->comm_sockets;
    comm.stall_timeout_ms_max = (int)t->options->comm_timeout;
    if (comm_open(&t->comm, NULL, &comm, e) < 0)
        return err_wrap(e, "connecting to the other ranks");
    struct cores_id mine, *ids = heap_alloc((size_t)t->world * sizeof *ids);
    cores_identify(&mine, &t->allowed);
    int r = comm_all_gather(t->comm, &mine, ids, sizeof mine, e);
    if (r == 0)
        cores_share(&t->cores, &t->allowed, &t->limits, ids, t->world, t->rank,
                    (int)t->options->threads);
    free(ids);
    return r < 0 || trainer_device_compare(t->config, t->comm, e) < 0 ? -1
                                                                      : trainer_device_open(t, e);
}

// Nodes may take very different times to decode their data: one has it in its cache, another reads
// a large archive. Ranks wait for each other at the store, which may take long, and only then
// connect, because from then on a rank that does not answer counts as lost.
static int wait_for_data(struct trainer *t, struct err *e) {
    const struct comm_kv *kv = &t->config->comm.kv;
    const char *prefix = t->config->comm.prefix ? t->config->comm.prefix : "train";
    char key[128], byte = 1;
    size_t len;
    if (t->world == 1)
        return 0;
    snprintf(key, sizeof key, "%s/data/%d", prefix, t->rank);
    if (t->rank != 0 && kv->set(kv->ctx, key, &byte, 1, e) < 0)
        return -1;
    for (int r = 1; t->rank == 0 && r < t->world; r++) {
        snprintf(key, sizeof key, "%s/data/%d", prefix, r);
        if (trainer_data_await(t, key, &byte, 1, &len, e) < 0)
            return err_wrap(e, "waiting for rank %d to have its data", r);
    }
    snprintf(key, sizeof key, "%s/data/all", prefix);
    if (t->rank == 0)
        return kv->set(kv->ctx, key, &byte, 1, e);
    if (trainer_data_await(t, key, &byte, 1, &len, e) < 0)
        return err_wrap(e, "waiting for all ranks to have their data");
    return 0;
}

static int check_recompute(const struct trainer *t, struct err *e) {
    if (t->options->recompute != TRAIN_RECOMPUTE_BLOCKS)
        return 0;
    struct recompute_layer *layer = heap_alloc((size_t)t->model->layers * sizeof *layer);
    int blocks = recompute_blocks(t->model, layer);
    free(layer);
    return blocks ? 0
                  : err_set(e, ERR_CONFIG,
                            "train.recompute is blocks, and the model '%s' has none (try: "
                            "train.recompute none)",
                            t->model->text);
}

int trainer_open_model(struct trainer *t, struct err *e) {
    const struct train_config *o = t->options;
    struct nn_model_spec spec = {.name = o->model,
                                 .stem = train_stem_words[o->stem],
                                 .h = t->train.height,
                                 .w = t->train.width,
                                 .c = t->train.channels,
                                 .classes = o->classes ? (int)o->classes : t->train.classes};
    if (spec.classes < t->train.classes)
        return err_set(e, ERR_CONFIG, "train.classes is %d, the data has %d", spec.classes,
                       t->train.classes);
    if (o->hidden.count > TRAIN_HIDDEN_MAX)
        return err_set(e, ERR_CONFIG, "train.hidden: %zu layers, more than %d", o->hidden.count,
                       TRAIN_HIDDEN_MAX);
    for (size_t i = 0; i < o->hidden.count; i++)
        spec.hidden[spec.nhidden++] = (int)o->hidden.items[i];
    t->model = heap_alloc(sizeof *t->model);
    return model_build(t->model, &spec, e) < 0 ? -1 : check_recompute(t, e);
}

static void set_rules(struct trainer *t) {
    const struct train_config *o = t->options;
    t->schedule = (struct lr_schedule){.kind = o->schedule,
                                       .lr = o->lr,
                                       .lr_min = o->min_lr,
                                       .epochs = (double)o->epochs,
                                       .warmup_epochs = o->warmup_epochs,
                                       .step_epochs = (int)o->step_epochs,
                                       .milestones = o->milestones.items,
                                       .nmilestones = o->milestones.count,
                                       .gamma = o->gamma,
                                       .peak = o->peak,
                                       .cycle_start = o->cycle_start,
                                       .cycle_end = o->cycle_end};
    for (int c = 0; c < t->chunks; c++)
        t->chunk[c].optimizer = (struct optimizer){.kind = o->optimizer,
                                                   .momentum = o->momentum,
                                                   .nesterov = o->nesterov,
                                                   .weight_decay = o->weight_decay,
                                                   .decay = o->decay,
                                                   .shift_lr = o->norm_shift_lr,
                                                   .ema = o->ema,
                                                   .lookahead = o->lookahead,
                                                   .rounds = t->round.steps > 0,
                                                   .outer_lr = o->outer_lr,
                                                   .outer_momentum = o->outer_momentum,
                                                   .beta1 = o->beta1,
                                                   .beta2 = o->beta2,
                                                   .eps = o->eps};
    t->states = optimizer_states(&t->chunk[0].optimizer);
}

// Images of a rank in a step of an evaluation; fewer than asked for where there are no more.
static int eval_batch(const struct trainer *t) {
    int64_t wanted = t->options->eval_batch;
    int64_t ranks = t->shares[DATASET_TEST].on ? t->config->comm.local_world : t->mesh.data;
    int64_t each = ((int64_t)t->test.samples + ranks - 1) / ranks;
    return t->options->eval ? (int)(each > 0 && each < wanted ? each : wanted) : 0;
}

// A plan measures processors, which multiply neither f16 nor tf32: it measures float.
static enum kernel_type product_type(const struct trainer *t) {
    static const enum kernel_type of_gpu[TRAIN_DTYPES] = {[TRAIN_F32] = KERNEL_FLOAT,
                                                          [TRAIN_TF32] = KERNEL_TF32,
                                                          [TRAIN_BF16] = KERNEL_BF16,
                                                          [TRAIN_F16] = KERNEL_HALF};
    bool bf16 = t->options->dtype == TRAIN_BF16;
    return t->planning && !bf16 ? KERNEL_FLOAT : of_gpu[t->options->dtype];
}

static const struct kernel_backend *backend_of(const struct trainer *t) {
    const struct trainer_device *device = t->config->device;
    return device ? device->kernels : kernels_find(train_kernels_words[t->options->kernels]);
}

// A tensor that goes from stage to stage is bfloat16 where all ranks keep that in memory.
static int choose_reals(struct trainer *t, struct err *e) {
    const struct kernel_backend *k = backend_of(t);
    const struct trainer_device *device = t->config->device;
    struct kernel_config config = {.device = device ? device->handle : NULL};
    struct kernel_ctx *ctx = NULL;
    unsigned char mine = 0;
    if (t->parts == 1 || t->planning || t->options->dtype != TRAIN_BF16)
        return 0;
    if (k->bf16 && k->open(&ctx, &config) == 0) {
        mine = k->keeps_bf16(ctx) != 0;
        k->close(ctx);
    }
    unsigned char *all = heap_alloc((size_t)t->world * sizeof *all);
    int r = comm_all_gather(t->comm, &mine, all, sizeof mine, e);
    for (int i = 0; i < t->world && r == 0; i++)
        t->reals = t->reals || !all[i];
    free(all);
    return r;
}

// Opens one stage of this rank. taken: the memory of the stages before it.
static int open_chunk(struct trainer *t, int i, size_t taken, struct err *e) {
    const struct train_config *o = t->options;
    struct chunk *c = &t->chunk[i];
    const struct trainer_device *device = t->config->device;
    size_t most = device ? device->memory_bytes : (size_t)t->limits.memory_bytes;
    struct network_config config = {
        .model = &c->part->model,
        .backend = backend_of(t),
        .kernel = {.threads = t->cores.threads,
                   .cpus = t->cores.pinned ? t->cores.cpu : NULL,
                   .device = device ? device->handle : NULL},
        .type = product_type(t),
        .reals = t->reals,
        .batch = t->micro_batch,
        .eval_batch = eval_batch(t),
        .slots = t->slots,
        .recompute = o->recompute == TRAIN_RECOMPUTE_BLOCKS,
        .views = o->eval ? trainer_views(t) : 1,
        .states = optimizer_buffers(&c->optimizer),
        .state_elements = c->part->states,
        .ctx = t->chunk[0].net.ctx,
        .memory_bytes_max = most ? most > taken ? most - taken : 1 : 0,
    };
    if (t->config->comm.local_rank == 0 && !device) // a keeper's copy of what a checkpoint holds
        config.copy_bytes = sizeof(float) * (t->model->stat_elements +
                                             (size_t)(1 + t->states) * t->model->param_elements);
    must(config.backend);
    if (t->planning)
        return network_lay(&c->net, &config, e);
    if (network_open(&c->net, &config, e) < 0)
        return -1;
    optimizer_open(&c->optimizer, &c->part->model);
    size_t wire_bytes = o->wire == TRAIN_WIRE_BF16 ? c->part->model.param_elements * 2 : 0;
    if (wire_bytes)
        c->wire = t->device ? c->net.k->mem_alloc(c->net.ctx, wire_bytes) : heap_alloc(wire_bytes);
    if (wire_bytes && !c->wire)
        return err_set(e, ERR_LIMIT, "no memory for gradients on their way (try: train.wire f32)");
    if (c->net.k->remote && t->mesh.data > 1 && !t->device)
        c->mirror = heap_alloc((c->part->model.param_elements + NETWORK_TAIL) * sizeof *c->mirror);
    return 0;
}

int trainer_open_network(struct trainer *t, struct err *e) {
    size_t taken = 0;
    if (t->options->dtype == TRAIN_F16 && !t->async.on && !t->planning)
        return err_set(e, ERR_CONFIG,
                       "train.dtype is f16, and %s: the scale of the loss has no place there (try: "
                       "train.dtype bf16)",
                       t->config->device ? t->async.why : "this run computes on processors");
    if (trainer_stages_cut(t, e) < 0)
        return -1;
    set_rules(t);
    int64_t micros = t->options->accumulate * t->micros * trainer_local_shards(t);
    if (trainer_make_program(t, &t->program, micros, false, e) < 0)
        return -1;
    if (t->round.steps) {
        const struct step_spec end = {
            .micros = 1, .chunks = 1, .buckets = {t->part[0].buckets.count}, .join = true};
        if (program_make(&t->round.program, &t->mesh, t->rank, &end, e) < 0)
            return -1;
    }
    t->slots = t->program.slots;
    if (choose_reals(t, e) < 0)
        return -1;
    for (int i = 0; i < t->chunks; i++) {
        t->chunk[i].part = &t->part[i * t->mesh.pipe + t->pipe_rank];
        if (open_chunk(t, i, taken, e) < 0)
            return t->parts > 1 ? err_wrap(e, "stage %d of %d", i * t->mesh.pipe + t->pipe_rank + 1,
                                           t->parts)
                                : -1;
        taken += t->chunk[i].net.memory_bytes;
    }
    return 0;
}

static int make_dirs(const struct trainer_config *c, struct err *e) {
    if (file_make_dirs(c->output_dir, 0755, e) < 0 || file_make_dirs(c->model_dir, 0755, e) < 0 ||
        file_make_dirs(c->state_dir, 0755, e) < 0)
        return -1;
    return c->cache_dir ? file_make_dirs(c->cache_dir, 0755, e) : 0;
}

static int check_type(const struct trainer_config *c, struct err *e) {
    if (c->options->dtype != TRAIN_TF32 || (c->device && c->device->has_tf32))
        return 0;
    return err_set(e, ERR_CONFIG,
                   "train.dtype is tf32, which needs a GPU of sm_80 or newer, and %s (try: "
                   "train.dtype f32)",
                   c->device ? c->device->about : "this run computes on processors");
}

int trainer_open(struct trainer *t, const struct trainer_config *config, struct err *e) {
    *t = (struct trainer){.config = config,
                          .options = config->options,
                          .rank = config->comm.rank,
                          .world = config->comm.world,
                          .copy_missing = -1,
                          .metrics_fd = -1};
    t->epochs = heap_alloc(CHECKPOINT_EPOCHS_MAX * sizeof *t->epochs);
    if (check_type(config, e) < 0 || trainer_stages_choose(t, e) < 0)
        return -1;
    t->shards = config->shards > 1 ? config->shards : t->mesh.data;
    must(config->shards <= 1 || !t->round.steps);
    must(config->shards <= 1 || (t->world == 1 && config->shards <= TRAINER_SHARDS_MAX));
    machine_limits_read(&t->limits, ""); // before decoding makes a load of its own
    if (cores_allowed(&t->allowed, e) < 0)
        return -1;
    if (make_dirs(config, e) < 0 || trainer_data_open(t, e) < 0 || trainer_feed_open(t, e) < 0 ||
        wait_for_data(t, e) < 0 || open_comm(t, e) < 0 || trainer_open_model(t, e) < 0 ||
        trainer_open_network(t, e) < 0 || trainer_stages_open(t, e) < 0 ||
        trainer_keeper_open(t, e) < 0 || trainer_resume(t, e) < 0 || trainer_async_open(t, e) < 0)
        return -1;
    trainer_feed_keep(t);
    if (t->rank == 0)
        trainer_report_open(t);
    return 0;
}

void trainer_close(struct trainer *t) {
    checkpoint_thread_close(t->writer);
    trainer_stages_close(t);
    bool apart = t->device != NULL;
    trainer_async_close(t);
    trainer_device_close(t);
    comm_close(t->comm);
    trainer_data_close(t);
    trainer_feed_close(t);
    for (int i = t->chunks - 1; i >= 0; i--) { // the first one has the kernels
        struct network *net = &t->chunk[i].net;
        if (t->chunk[i].wire && apart)
            net->k->mem_free(net->ctx, t->chunk[i].wire, net->model->param_elements * 2);
        else
            free(t->chunk[i].wire);
        network_close(net);
        optimizer_close(&t->chunk[i].optimizer);
        free(t->chunk[i].mirror);
    }
    if (t->metrics_fd >= 0)
        close(t->metrics_fd);
    program_free(&t->program);
    program_free(&t->last_program);
    program_free(&t->eval_program);
    program_free(&t->round.program);
    if (t->model)
        model_free(t->model);
    free(t->model);
    free(t->epochs);
}
