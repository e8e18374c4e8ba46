// SPDX-License-Identifier: Apache-2.0
// One epoch, step by step. A step makes no allocation: everything it touches was laid out before.
#include "base/clock.h"
#include "nn/trainer_state.h"

#include <math.h>

// Pixels of one batch into the network's input, normalised and augmented by the backend.
void trainer_feed(struct trainer *t, const struct loader_batch *b, const struct dataset *d,
                  enum network_mode mode) {
    struct image_args a = {.n = b->n,
                           .src_h = d->height,
                           .src_w = d->width,
                           .channels = d->channels,
                           .dst_h = d->height,
                           .dst_w = d->width,
                           .src = b->src,
                           .offset_y = b->offset_y,
                           .offset_x = b->offset_x,
                           .flip = b->flip,
                           .out = network_input(&t->net, mode)};
    for (int i = 0; i < d->channels; i++) {
        a.mean[i] = (double)t->augment.mean[i];
        a.std[i] = (double)t->augment.std[i];
    }
    t->net.k->image_normalize(t->net.ctx, &a);
    network_labels(&t->net, b->labels, b->n);
}

static void tail_set(struct trainer *t, const float tail[NETWORK_TAIL]) {
    network_set(&t->net, t->net.grads, t->model->param_elements, NETWORK_TAIL, tail);
}

static void tail_get(const struct trainer *t, float tail[NETWORK_TAIL]) {
    network_get(&t->net, t->net.grads, t->model->param_elements, NETWORK_TAIL, tail);
}

// Forward, loss and backward of one shard; the last one hands its gradients to the reducer. Returns
// how many samples it had, 0 at the end of the epoch.
static int run_shard(struct trainer *t, int i, int count, float tail[NETWORK_TAIL],
                     struct step_times *times) {
    int64_t begin = clock_mono_ns();
    const struct loader_batch *b = loader_next(t->shard[i].loader);
    int64_t got = clock_mono_ns();
    times->data_ns += got - begin;
    if (!b)
        return 0;
    // Running statistics are those of rank 0, as in PyTorch's DistributedDataParallel.
    enum network_mode mode = i == 0 ? NETWORK_TRAIN : NETWORK_TRAIN_APART;
    struct loss_totals loss;
    trainer_feed(t, b, &t->train, mode);
    network_forward(&t->net, b->n, mode);
    network_loss(&t->net, b->n, t->options->label_smoothing, 1.0 / b->n / count, &loss);
    double scale = 1.0 / b->n / count;
    tail[TAIL_LOSS] += (float)(loss.loss_sum * scale);
    tail[TAIL_TOP1] += (float)((double)loss.top1 * scale);
    tail[TAIL_TOP5] += (float)((double)loss.top5 * scale);
    bool last = i == count - 1;
    if (last) {
        tail[TAIL_STOP] = t->config->stop && *t->config->stop ? 1 : 0;
        sig_atomic_t saves = t->config->save ? *t->config->save : 0;
        tail[TAIL_SAVE] = saves != t->saves ? 1 : 0;
        t->saves = saves;
        tail_set(t, tail);
    }
    network_backward(&t->net, b->n, i > 0, last ? bucket_ready : NULL, &t->reducer);
    t->last_rows = b->n;
    times->compute_ns += clock_mono_ns() - got;
    return b->n;
}

int trainer_diverged(const struct trainer *t, const char *what, int64_t step, struct err *e) {
    return err_set(e, ERR_FAILED,
                   "%s no longer a finite number at step %lld (epoch %lld) (try: a lower train.lr, "
                   "or a longer warm-up with train.warmup_epochs)",
                   what, (long long)step, (long long)t->at.epoch);
}

// The sum of all squares of averaged gradients, each bucket's as soon as it is there, while later
// ones are still under way. All ranks get the same, so all decide alike.
static int average(struct trainer *t, double *squares, struct step_times *times, struct err *e) {
    size_t most = t->model->param_elements, real = t->net.k->real_bytes;
    *squares = 0;
    for (int i = 0; i < t->reducer.list.count; i++) {
        const struct bucket *b = &t->reducer.list.bucket[i];
        int64_t begin = clock_mono_ns();
        if (bucket_wait(&t->reducer, i, e) < 0)
            return err_wrap(e, "averaging gradients at step %lld", (long long)t->at.step);
        int64_t averaged = clock_mono_ns();
        size_t end = b->end < most ? b->end : most;
        *squares +=
            t->net.k->sum_squares(t->net.ctx, end - b->begin, t->net.grads + b->begin * real);
        times->comm_ns += averaged - begin;
        times->compute_ns += clock_mono_ns() - averaged;
    }
    return 0;
}

// A step that is not finite is not applied: the weights stay those of the step before, which are
// diverged as well, if only by now it shows.
static int update(struct trainer *t, float tail[NETWORK_TAIL], struct step_times *times,
                  struct err *e) {
    double squares;
    if (average(t, &squares, times, e) < 0)
        return -1;
    tail_get(t, tail);
    if (!isfinite(tail[TAIL_LOSS]))
        return trainer_diverged(t, "the loss is", t->at.step + 1, e);
    if (!isfinite(squares))
        return trainer_diverged(t, "a gradient is", t->at.step + 1, e);
    trainer_proven(t); // before the weights change
    int64_t since = clock_mono_ns();
    optimizer_begin(&t->optimizer);
    optimizer_apply(&t->optimizer, &t->net, t->lr, 0, t->model->param_elements);
    times->compute_ns += clock_mono_ns() - since;
    t->proven = false;
    return 0;
}

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

// In epochs, with so many samples of this one used.
static double progress(const struct trainer *t, int64_t consumed) {
    return (double)t->at.epoch + (double)consumed / (double)t->at.samples;
}

// Samples of each shard; 0: the epoch is over; -1: error.
static int step(struct trainer *t, uint64_t taken, int64_t *began_ns, struct err *e) {
    int count = t->shards == t->world ? 1 : t->shards;
    float tail[NETWORK_TAIL] = {0};
    struct step_times times = {0};
    int n = 0;
    bucket_begin(&t->reducer);
    for (int i = 0; i < count; i++) {
        n = run_shard(t, i, count, tail, &times);
        if (n == 0)
            return 0;
    }
    // The padding at the end of the list is no progress.
    int64_t consumed = (int64_t)sampler_consumed(&t->shard[0].sampler, taken + (uint64_t)n);
    t->lr = schedule_lr(&t->schedule, progress(t, t->at.consumed), progress(t, consumed));
    if (update(t, tail, &times, e) < 0)
        return -1;
    t->at.step++;
    t->at.consumed = consumed;
    int64_t now = clock_mono_ns();
    times.total_ns = now - *began_ns;
    *began_ns = now;
    count_step(t, tail, (int64_t)n * t->shards, &times);
    if (t->config->on_step)
        t->config->on_step(t->config->on_step_ctx, t->at.step, (double)tail[TAIL_LOSS]);
    t->stop_seen = tail[TAIL_STOP] > 0;
    t->save_seen = tail[TAIL_SAVE] > 0;
    return n;
}

static bool checkpoint_due(const struct trainer *t) {
    int64_t every = t->options->checkpoint_every_steps;
    return t->save_seen || (every > 0 && t->at.step % every == 0);
}

int trainer_epoch(struct trainer *t, struct err *e) {
    int count = t->shards == t->world ? 1 : t->shards;
    for (int i = 0; i < count; i++) {
        struct shard *s = &t->shard[i];
        sampler_start(&s->sampler, (uint64_t)t->at.epoch, (uint64_t)t->at.consumed);
        loader_start(s->loader, &s->sampler, true);
    }
    int64_t batches = (int64_t)loader_batches(t->shard[0].loader);
    uint64_t taken = 0;
    t->meters = (struct meter_set){0};
    int64_t began_ns = clock_mono_ns();
    for (int64_t batch = 1;; batch++) {
        int n = step(t, taken, &began_ns, e);
        if (n <= 0)
            return n;
        taken += (uint64_t)n;
        trainer_report_step(t, batch, batches);
        if (t->stop_seen) // what comes next is the last checkpoint
            return 0;
        if (checkpoint_due(t) && trainer_checkpoint(t, e) < 0)
            return -1;
    }
}
