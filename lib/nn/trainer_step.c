// SPDX-License-Identifier: Apache-2.0
// One epoch, step by step: the one place that runs the items of a program. A step makes no
// allocation: everything it touches was laid out before.
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

int trainer_diverged(const struct trainer *t, const char *what, int64_t step, struct err *e) {
    return err_set(e, ERR_FAILED,
                   "%s no longer a finite number at step %lld (epoch %lld) (try: a lower train.lr, "
                   "or a longer warm-up with train.warmup_epochs)",
                   what, (long long)step, (long long)t->at.epoch);
}

// In epochs, with so many samples of this one used.
static double progress(const struct trainer *t, int64_t consumed) {
    return (double)t->at.epoch + (double)consumed / (double)t->at.samples;
}

// What the items of one step share.
struct step_run {
    struct trainer *t;
    int rows;         // of the micro-batch that is loaded
    int64_t all;      // of all of this process's micro-batches
    int64_t consumed; // of the epoch, when the step is done
    float tail[NETWORK_TAIL];
    double squares, grad_scale;
    struct step_times times;
};

static int local_shards(const struct trainer *t) {
    return t->shards == t->world ? 1 : t->shards;
}

static int run_load(struct step_run *r, const struct step_item *it, struct err *e) {
    struct trainer *t = r->t;
    int shard = it->micro % local_shards(t);
    int64_t since = clock_mono_ns();
    const struct loader_batch *b = loader_next(t->shard[shard].loader);
    r->times.data_ns += clock_mono_ns() - since;
    if (!b)
        return err_set(e, ERR_FAILED, "the data ended before the epoch");
    since = clock_mono_ns();
    trainer_feed(t, b, &t->train, NETWORK_TRAIN);
    r->times.compute_ns += clock_mono_ns() - since;
    r->rows = t->last_rows = b->n;
    return 0;
}

static int run_forward(struct step_run *r, const struct step_item *it, struct err *e) {
    (void)e;
    struct trainer *t = r->t;
    int64_t since = clock_mono_ns();
    // Running statistics are those of rank 0, as in PyTorch's DistributedDataParallel.
    bool first = it->micro % local_shards(t) == 0;
    double scale = 1.0 / (double)r->all;
    struct loss_totals loss;
    network_forward(&t->net, r->rows, first ? NETWORK_TRAIN : NETWORK_TRAIN_APART);
    network_loss(&t->net, r->rows, t->options->label_smoothing, scale, &loss);
    r->tail[TAIL_LOSS] += (float)(loss.loss_sum * scale);
    r->tail[TAIL_TOP1] += (float)((double)loss.top1 * scale);
    r->tail[TAIL_TOP5] += (float)((double)loss.top5 * scale);
    r->times.compute_ns += clock_mono_ns() - since;
    return 0;
}

static int run_backward(struct step_run *r, const struct step_item *it, struct err *e) {
    (void)e;
    const struct bucket *b = &r->t->reducer.list.bucket[it->bucket];
    int64_t since = clock_mono_ns();
    network_backward(&r->t->net, r->rows, it->micro > 0, b->first, b->last);
    r->times.compute_ns += clock_mono_ns() - since;
    return 0;
}

// The tail goes with the first bucket.
static int run_reduce(struct step_run *r, const struct step_item *it, struct err *e) {
    struct trainer *t = r->t;
    int64_t since = clock_mono_ns();
    if (it->bucket == 0) {
        sig_atomic_t saves = t->config->save ? *t->config->save : 0;
        r->tail[TAIL_STOP] = t->config->stop && *t->config->stop ? 1 : 0;
        r->tail[TAIL_SAVE] = saves != t->saves ? 1 : 0;
        t->saves = saves;
        tail_set(t, r->tail);
    }
    int result = bucket_start(&t->reducer, it->bucket, e);
    r->times.compute_ns += clock_mono_ns() - since;
    return result < 0 ? err_wrap(e, "averaging gradients at step %lld", (long long)t->at.step) : 0;
}

// The squares of a bucket's averaged gradients are summed while later buckets are under way. All
// ranks get the same, so all decide alike.
static int run_norm(struct step_run *r, const struct step_item *it, struct err *e) {
    struct trainer *t = r->t;
    const struct bucket *b = &t->reducer.list.bucket[it->bucket];
    size_t most = t->model->param_elements, end = b->end < most ? b->end : most;
    int64_t since = clock_mono_ns();
    if (bucket_wait(&t->reducer, it->bucket, e) < 0)
        return err_wrap(e, "averaging gradients at step %lld", (long long)t->at.step);
    int64_t averaged = clock_mono_ns();
    r->squares += t->net.k->sum_squares(t->net.ctx, end - b->begin,
                                        t->net.grads + b->begin * t->net.k->real_bytes);
    r->times.comm_ns += averaged - since;
    r->times.compute_ns += clock_mono_ns() - averaged;
    return 0;
}

// A step that is not finite is not applied: the weights stay those of the step before, which are
// diverged as well, if only by now it shows.
static int run_judge(struct step_run *r, const struct step_item *it, struct err *e) {
    static const double TINY = 1e-6; // as torch.nn.utils.clip_grad_norm_
    (void)it;
    struct trainer *t = r->t;
    double clip = t->options->clip_norm;
    tail_get(t, r->tail);
    if (!isfinite(r->tail[TAIL_LOSS]))
        return trainer_diverged(t, "the loss is", t->at.step + 1, e);
    if (!isfinite(r->squares))
        return trainer_diverged(t, "a gradient is", t->at.step + 1, e);
    trainer_proven(t); // before the weights change
    t->grad_norm = sqrt(r->squares);
    r->grad_scale = clip > 0 ? fmin(1, clip / (t->grad_norm + TINY)) : 1;
    t->lr = schedule_lr(&t->schedule, progress(t, t->at.consumed), progress(t, r->consumed));
    optimizer_begin(&t->optimizer);
    return 0;
}

static int run_update(struct step_run *r, const struct step_item *it, struct err *e) {
    (void)e;
    struct trainer *t = r->t;
    const struct bucket *b = &t->reducer.list.bucket[it->bucket];
    int64_t since = clock_mono_ns();
    optimizer_apply(&t->optimizer, &t->net, t->lr, r->grad_scale, b->begin, b->end);
    r->times.compute_ns += clock_mono_ns() - since;
    t->proven = false;
    return 0;
}

// Sends and receives are missing: a rank has the whole model.
static int (*const run_item[STEP_OPS])(struct step_run *r, const struct step_item *it,
                                       struct err *e) = {
    [STEP_LOAD] = run_load,     [STEP_FORWARD] = run_forward, [STEP_BACKWARD] = run_backward,
    [STEP_REDUCE] = run_reduce, [STEP_NORM] = run_norm,       [STEP_JUDGE] = run_judge,
    [STEP_UPDATE] = run_update,
};

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

// rows: of this process in all. Then the next samples of the epoch are used up.
static int step(struct trainer *t, const struct step_program *p, int64_t rows, int64_t consumed,
                int64_t *began_ns, struct err *e) {
    struct step_run r = {.t = t, .all = rows, .consumed = consumed};
    for (int i = 0; i < p->items; i++)
        if (run_item[p->item[i].op](&r, &p->item[i], e) < 0)
            return -1;
    t->at.step++;
    t->at.consumed = consumed;
    int64_t now = clock_mono_ns();
    r.times.total_ns = now - *began_ns;
    *began_ns = now;
    count_step(t, r.tail, rows / local_shards(t) * t->shards, &r.times);
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

// The program of a step of so many batches of each rank.
static int make_program(struct trainer *t, struct step_program *p, int64_t batches, struct err *e) {
    const struct layout ranks = {.world = t->world, .data = t->world, .pipe = 1};
    const struct step_spec spec = {.micros = (int)batches * local_shards(t),
                                   .order = PIPE_1F1B,
                                   .chunks = 1,
                                   .buckets = {t->reducer.list.count}};
    if (program_make(p, &ranks, t->rank, &spec, e) < 0)
        return -1;
    must(p->slots == 1); // the network keeps one
    return 0;
}

int trainer_epoch(struct trainer *t, struct err *e) {
    for (int i = 0; i < local_shards(t); i++) {
        struct shard *s = &t->shard[i];
        sampler_start(&s->sampler, (uint64_t)t->at.epoch, (uint64_t)t->at.consumed);
        loader_start(s->loader, &s->sampler, true);
    }
    const struct sampler *sampler = &t->shard[0].sampler;
    int64_t batches = (int64_t)loader_batches(t->shard[0].loader), each = t->options->accumulate;
    int64_t steps = (batches + each - 1) / each, left = batches - (steps - 1) * each;
    int64_t images = (int64_t)sampler_length(sampler), taken = 0, began_ns = clock_mono_ns();
    t->meters = (struct meter_set){0};
    if (steps == 0)
        return 0;
    if (make_program(t, &t->program, each, e) < 0 || make_program(t, &t->last_program, left, e) < 0)
        return -1;
    for (int64_t i = 1; i <= steps; i++) {
        bool last = i == steps;
        int64_t rows = last ? images - taken : each * t->options->batch;
        taken += rows;
        // The padding at the end of the list is no progress.
        int64_t consumed = (int64_t)sampler_consumed(sampler, (uint64_t)taken);
        if (step(t, last ? &t->last_program : &t->program, rows * local_shards(t), consumed,
                 &began_ns, e) < 0)
            return -1;
        trainer_report_step(t, i, steps);
        if (t->stop_seen) // what comes next is the last checkpoint
            return 0;
        if (checkpoint_due(t) && trainer_checkpoint(t, e) < 0)
            return -1;
    }
    return 0;
}
