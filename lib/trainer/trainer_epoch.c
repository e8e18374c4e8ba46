// SPDX-License-Identifier: Apache-2.0
// Runs one epoch, step by step.
#include "base/clock.h"
#include "trainer/trainer_impl.h"

static void count_step(struct trainer *t, const float tail[NETWORK_TAIL],
                       const struct step_done *d) {
    const struct step_times *times = &d->times;
    int64_t images = d->images;
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

void trainer_account(struct trainer *t, const struct step_done *d, const float tail[NETWORK_TAIL]) {
    count_step(t, tail, d);
    if (t->config->on_step)
        t->config->on_step(t->config->on_step_ctx, d->step, (double)tail[TAIL_LOSS]);
    trainer_report_step(t, d);
    t->stop_seen = t->stop_seen || tail[TAIL_STOP] > 0;
    t->save_seen = t->save_seen || tail[TAIL_SAVE] > 0;
}

// A step of a round, whose totals come during the next one. The round ends after its last step,
// with the epoch, and as soon as a request for a checkpoint is known.
static int account_round(struct trainer *t, const struct step_done *d, bool was_pending, bool last,
                         int64_t *began_ns, struct err *e) {
    struct round *round = &t->round;
    if (was_pending)
        trainer_account(t, &round->last, round->tail);
    round->last = *d;
    round->taken++;
    if (round->taken < round->steps && !last && !t->stop_seen && !t->save_seen)
        return 0;
    if (trainer_local_steps_end(t, &round->last.times, e) < 0)
        return -1;
    int64_t now = clock_mono_ns();
    round->last.times.total_ns += now - *began_ns;
    *began_ns = now;
    trainer_account(t, &round->last, round->tail);
    return 0;
}

// The next samples of the epoch, up to r->consumed, are used up.
static int step(struct trainer *t, struct step_run *r, struct step_done *d, int64_t *began_ns,
                struct err *e) {
    bool was_pending = t->round.pending;
    if (t->async.on)
        return trainer_async_step(r, r->last ? &t->last_program : &t->program, d, e);
    if (trainer_step_run(r, r->last ? &t->last_program : &t->program, e) < 0)
        return -1;
    for (int c = 0; c < t->chunks; c++)
        optimizer_pull_stats(&t->chunk[c].optimizer, &t->chunk[c].net);
    t->at.step++;
    t->at.consumed = r->consumed;
    int64_t now = clock_mono_ns();
    d->step = t->at.step;
    d->images = r->rows * t->shards;
    d->lr = t->lr;
    d->grad_norm = t->grad_norm;
    d->times = r->times;
    d->times.total_ns = now - *began_ns;
    *began_ns = now;
    if (t->round.steps)
        return account_round(t, d, was_pending, r->last, began_ns, e);
    trainer_account(t, d, r->tail);
    return 0;
}

// Whether a multiple of so many steps was passed since all ranks last had the same parameters.
static bool passed(const struct trainer *t, int64_t every) {
    return every > 0 && t->at.step / every > t->boundary_step / every;
}

// Checks and checkpoints that are due where all ranks have the same parameters.
static int run_due(struct trainer *t, struct err *e) {
    bool checkpoint = t->save_seen || passed(t, t->options->checkpoint_every_steps);
    bool check = passed(t, t->options->check_every);
    if ((checkpoint || check || t->stop_seen) && trainer_async_drain(t, e) < 0)
        return -1;
    if (check && trainer_check_ranks(t, e) < 0)
        return -1;
    t->boundary_step = t->at.step;
    if (t->stop_seen || !checkpoint) // the last checkpoint follows
        return 0;
    t->save_seen = false;
    return trainer_checkpoint(t, e);
}

// The first layer may have been trained for long enough.
static void settle(struct trainer *t) {
    int64_t epochs = t->options->first_layer_epochs;
    for (int c = 0; c < t->chunks && epochs > 0 && t->at.epoch >= epochs; c++) {
        struct network *net = &t->chunk[c].net;
        int before = net->settled;
        network_settle(net);
        if (net->settled != before)
            trainer_async_forget(t);
    }
}

// Positions of the epoch that all ranks have consumed, as positions of the ranks that read the same
// images as this one; and back, after `taken` more of this rank. With a share of its own a node
// counts its own ranks.
static uint64_t consumed_of_own(const struct trainer *t, const struct sampler *s) {
    uint64_t all = (uint64_t)t->at.consumed;
    return t->shares[DATASET_TRAIN].on ? all / (uint64_t)t->shards * (uint64_t)s->config.world
                                       : all;
}

static int64_t consumed_of_all(const struct trainer *t, const struct sampler *s, int64_t taken) {
    uint64_t own = sampler_consumed(s, (uint64_t)taken);
    return (int64_t)(t->shares[DATASET_TRAIN].on
                         ? own / (uint64_t)s->config.world * (uint64_t)t->shards
                         : own);
}

int trainer_epoch(struct trainer *t, struct err *e) {
    settle(t);
    for (int i = 0; i < trainer_local_shards(t); i++) {
        struct shard *s = &t->shard[i];
        sampler_start(&s->sampler, (uint64_t)t->at.epoch, consumed_of_own(t, &s->sampler));
        loader_start(s->loader, &s->sampler, true);
    }
    const struct sampler *sampler = &t->shard[0].sampler;
    int64_t batches = (int64_t)loader_batches(t->shard[0].loader);
    int64_t each = t->options->accumulate * t->micros, shards = trainer_local_shards(t);
    int64_t steps = (batches + each - 1) / each, left = batches - (steps - 1) * each;
    int64_t images = (int64_t)sampler_length(sampler), taken = 0, began_ns = clock_mono_ns();
    t->meters = (struct meter_set){0};
    t->boundary_step = t->at.step;
    if (steps == 0)
        return 0;
    if (trainer_make_program(t, &t->program, each * shards, false, e) < 0 ||
        trainer_make_program(t, &t->last_program, left * shards, false, e) < 0)
        return -1;
    for (int64_t i = 1; i <= steps; i++) {
        struct step_run r = {.t = t, .batch = t->micro_batch, .last = i == steps};
        struct step_done d = {.batch = i, .batches = steps};
        r.rows = r.last ? images - taken : each * t->micro_batch;
        taken += r.rows;
        // The padding at the end of the list is no progress.
        r.consumed = consumed_of_all(t, sampler, taken);
        if (step(t, &r, &d, &began_ns, e) < 0)
            return -1;
        if (t->round.taken == 0 && run_due(t, e) < 0)
            return -1;
        if (t->stop_seen)
            return 0;
    }
    return trainer_async_drain(t, e);
}
