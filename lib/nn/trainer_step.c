// SPDX-License-Identifier: Apache-2.0
// One epoch, step by step.
#include "base/clock.h"
#include "nn/trainer_state.h"

static void count_step(struct trainer *t, const float tail[NETWORK_TAIL], int64_t images,
                       const struct step_times *times) {
    double loss = (double)tail[TAIL_LOSS], top1 = 100 * (double)tail[TAIL_TOP1],
           top5 = 100 * (double)tail[TAIL_TOP5];
    meter_add(&t->meters.time_s, (double)times->total_ns / 1e9, 1);
    meter_add(&t->meters.data_s, (double)times->data_ns / 1e9, 1);
    meter_add(&t->meters.loss, loss, images);
    meter_add(&t->meters.top1, top1, images);
    meter_add(&t->meters.top5, top5, images);
    t->interval.data_ns += times->data_ns;
    t->interval.compute_ns += times->compute_ns;
    t->interval.comm_ns += times->comm_ns;
    t->interval.total_ns += times->total_ns;
    t->interval_steps++;
    t->interval_images += images;
    t->interval_loss += loss;
    t->interval_top1 += top1;
    t->interval_top5 += top5;
    t->images += images;
    t->train_ns += times->total_ns;
    t->phase_ns[PHASE_DATA] += times->data_ns;
    t->phase_ns[PHASE_TRAIN] += times->total_ns - times->data_ns;
    t->at.epoch_loss_sum += loss * (double)images;
    t->at.epoch_top1_sum += top1 * (double)images;
    t->at.epoch_images += (double)images;
    t->at.epoch_seconds += (double)times->total_ns / 1e9;
}

// rows: of each data-parallel rank. Then the next samples of the epoch are used up.
static int step(struct trainer *t, bool last, int64_t rows, int64_t consumed, int64_t *began_ns,
                struct err *e) {
    struct step_run r = {
        .t = t, .batch = t->micro_batch, .rows = rows, .consumed = consumed, .last = last};
    if (trainer_run_program(&r, last ? &t->last_program : &t->program, e) < 0)
        return -1;
    for (int c = 0; c < t->chunks; c++)
        optimizer_pull_stats(&t->chunk[c].optimizer, &t->chunk[c].net);
    t->at.step++;
    t->at.consumed = consumed;
    int64_t now = clock_mono_ns();
    r.times.total_ns = now - *began_ns;
    *began_ns = now;
    count_step(t, r.tail, rows * t->shards, &r.times);
    if (t->config->on_step)
        t->config->on_step(t->config->on_step_ctx, t->at.step, (double)r.tail[TAIL_LOSS]);
    t->stop_seen = r.tail[TAIL_STOP] > 0;
    t->save_seen = r.tail[TAIL_SAVE] > 0;
    return 0;
}

static bool checkpoint_due(const struct trainer *t) {
    int64_t every = t->options->checkpoint_every_steps;
    return t->save_seen || (every > 0 && t->at.step % every == 0);
}

static bool check_due(const struct trainer *t) {
    int64_t every = t->options->check_every;
    return every > 0 && t->at.step % every == 0;
}

// The first layer may have been trained for long enough.
static void settle(struct trainer *t) {
    int64_t epochs = t->options->first_layer_epochs;
    for (int c = 0; c < t->chunks && epochs > 0 && t->at.epoch >= epochs; c++)
        network_settle(&t->chunk[c].net);
}

int trainer_epoch(struct trainer *t, struct err *e) {
    settle(t);
    for (int i = 0; i < trainer_local_shards(t); i++) {
        struct shard *s = &t->shard[i];
        sampler_start(&s->sampler, (uint64_t)t->at.epoch, (uint64_t)t->at.consumed);
        loader_start(s->loader, &s->sampler, true);
    }
    const struct sampler *sampler = &t->shard[0].sampler;
    int64_t batches = (int64_t)loader_batches(t->shard[0].loader);
    int64_t each = t->options->accumulate * t->micros, shards = trainer_local_shards(t);
    int64_t steps = (batches + each - 1) / each, left = batches - (steps - 1) * each;
    int64_t images = (int64_t)sampler_length(sampler), taken = 0, began_ns = clock_mono_ns();
    t->meters = (struct meter_set){0};
    if (steps == 0)
        return 0;
    if (trainer_make_program(t, &t->program, each * shards, false, e) < 0 ||
        trainer_make_program(t, &t->last_program, left * shards, false, e) < 0)
        return -1;
    for (int64_t i = 1; i <= steps; i++) {
        bool last = i == steps;
        int64_t rows = last ? images - taken : each * t->micro_batch;
        taken += rows;
        // The padding at the end of the list is no progress.
        int64_t consumed = (int64_t)sampler_consumed(sampler, (uint64_t)taken);
        if (step(t, last, rows, consumed, &began_ns, e) < 0)
            return -1;
        trainer_report_step(t, i, steps);
        if (check_due(t) && trainer_check_ranks(t, e) < 0)
            return -1;
        if (t->stop_seen) // the last checkpoint follows
            return 0;
        if (checkpoint_due(t) && trainer_checkpoint(t, e) < 0)
            return -1;
    }
    return 0;
}
