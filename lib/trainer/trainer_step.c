// SPDX-License-Identifier: Apache-2.0
// Runs one step: the items of its program, one after the other. A step makes no allocation, since
// everything that it touches was laid out before.
#include "base/arena.h"
#include "base/clock.h"
#include "trainer/trainer_impl.h"

#include <math.h>

// Totals behind the gradients of a rank's last stage, the first ones that are complete.
static struct chunk *tail_chunk(struct trainer *t) {
    return &t->chunk[t->chunks - 1];
}

static void tail_set(struct trainer *t, const float tail[NETWORK_TAIL]) {
    struct network *net = &tail_chunk(t)->net;
    network_set(net, net->grads, net->model->param_elements, NETWORK_TAIL, tail);
}

static void tail_get(struct trainer *t, float tail[NETWORK_TAIL]) {
    struct network *net = &tail_chunk(t)->net;
    network_get(net, net->grads, net->model->param_elements, NETWORK_TAIL, tail);
}

// In epochs, with so many samples of this one used.
double trainer_progress(const struct trainer *t, int64_t consumed) {
    return (double)t->at.epoch + (double)consumed / (double)t->at.samples;
}

int trainer_local_shards(const struct trainer *t) {
    return t->shards == t->mesh.data ? 1 : t->shards;
}

// Micro-batches of the same samples, or of samples of one rank after the other.
static int beside(const struct step_run *r) {
    return r->mode == RUN_EVAL ? trainer_views(r->t) : trainer_local_shards(r->t);
}

// Samples of a micro-batch: the last ones of an epoch may be smaller, or empty.
static int rows_of(const struct step_run *r, int micro) {
    int64_t left = r->rows - (int64_t)(micro / beside(r)) * r->batch;
    return left <= 0 ? 0 : left < r->batch ? (int)left : r->batch;
}

static struct bucket *bucket_of(struct trainer *t, const struct step_item *it, struct chunk **c) {
    int b = it->bucket;
    for (*c = t->chunk; b >= (*c)->part->buckets.count; (*c)++)
        b -= (*c)->part->buckets.count;
    return &(*c)->part->buckets.bucket[b];
}

// ---- one micro-batch ---------------------------------------------------------------------------

// The network of an item, at work in its slot, out of which nothing is on its way any more.
static int enter(struct step_run *r, const struct step_item *it, struct network **net,
                 struct err *e) {
    struct trainer *t = r->t;
    int slot = r->mode == RUN_PROBE ? t->last_slot : it->slot;
    *net = &t->chunk[it->chunk].net;
    if (r->mode != RUN_EVAL)
        network_select(*net, slot < (*net)->slots ? slot : 0);
    return trainer_links_clear(t, it, e);
}

static enum network_mode mode_of(const struct step_run *r, const struct step_item *it) {
    if (r->mode == RUN_PROBE)
        return r->probe;
    if (r->mode == RUN_EVAL)
        return NETWORK_EVAL;
    // Running statistics are those of rank 0, as in PyTorch's DistributedDataParallel.
    return it->micro % trainer_local_shards(r->t) == 0 ? NETWORK_TRAIN : NETWORK_TRAIN_APART;
}

// Numbers of a micro-batch in the first or the last layer of a stage.
static size_t numbers_of(const struct step_run *r, const struct step_item *it,
                         const struct network *net, int layer) {
    return layer_elements(&net->model->layer[layer], rows_of(r, it->micro));
}

static int run_receive(struct step_run *r, const struct step_item *it, struct err *e) {
    struct network *net = &r->t->chunk[it->chunk].net;
    bool forward = it->op == STEP_RECV_X;
    if (forward && enter(r, it, &net, e) < 0)
        return -1;
    if (!forward)
        network_select(net, it->slot);
    int layer = forward ? 0 : net->model->layers - 1;
    void *buf = forward ? network_input(net, mode_of(r, it)) : network_output_gradient(net);
    int64_t since = clock_mono_ns();
    int result = trainer_links_receive(r->t, it, buf, numbers_of(r, it, net, layer), e);
    r->times.comm_ns += clock_mono_ns() - since;
    return result;
}

static int run_send(struct step_run *r, const struct step_item *it, struct err *e) {
    struct network *net = &r->t->chunk[it->chunk].net;
    bool forward = it->op == STEP_SEND_Y;
    if (r->mode == RUN_TRAIN)
        network_select(net, it->slot);
    int layer = forward ? net->model->layers - 1 : 0;
    void *buf = forward ? network_output(net, mode_of(r, it)) : network_input_gradient(net);
    return trainer_links_send(r->t, it, buf, numbers_of(r, it, net, layer), e);
}

// The next batch of a loader; all views of an evaluation are of one.
static int next_batch(struct step_run *r, const struct step_item *it,
                      const struct loader_batch **out, struct err *e) {
    struct trainer *t = r->t;
    bool eval = r->mode == RUN_EVAL;
    struct shard *s = eval ? &t->eval : &t->shard[it->micro % trainer_local_shards(t)];
    int64_t since = clock_mono_ns();
    bool again = eval && it->micro % trainer_views(t) > 0;
    const struct loader_batch *b = again ? r->loaded : loader_next(s->loader);
    r->times.data_ns += clock_mono_ns() - since;
    r->loaded = b;
    if (!b && loader_failed(s->loader, e) < 0)
        return err_wrap(e, "%s data (try: train.on_bad_sample=skip)", eval ? "test" : "training");
    if (!b || b->n != rows_of(r, it->micro))
        return err_set(e, ERR_FAILED, "the data ended before the epoch");
    *out = b;
    return 0;
}

static int run_load(struct step_run *r, const struct step_item *it, struct err *e) {
    struct trainer *t = r->t;
    struct network *net;
    const struct loader_batch *b = NULL;
    if (rows_of(r, it->micro) == 0 || r->mode == RUN_PROBE)
        return 0;
    bool eval = r->mode == RUN_EVAL;
    if (next_batch(r, it, &b, e) < 0 || enter(r, it, &net, e) < 0)
        return -1;
    int64_t since = clock_mono_ns();
    if (!net->model->has_before)
        trainer_feed(t, b, eval ? &t->test : &t->train, net, mode_of(r, it),
                     eval ? it->micro % trainer_views(t) : 0);
    if (!net->model->has_after)
        network_labels(net, b->labels, b->n);
    r->times.compute_ns += clock_mono_ns() - since;
    return 0;
}

// Of each row's loss in the mean.
double trainer_loss_scale(const struct step_run *r) {
    return 1.0 / ((double)r->rows * trainer_local_shards(r->t));
}

// Waits for the losses that the last stage computes, and adds them up.
static void collect_losses(struct step_run *r) {
    struct loss_totals losses[NETWORK_LOSSES_MAX];
    int count = network_losses(&tail_chunk(r->t)->net, losses);
    double scale = trainer_loss_scale(r);
    for (const struct loss_totals *loss = losses; loss < losses + count; loss++) {
        r->loss += loss->loss_sum;
        r->top1 += (double)loss->top1;
        r->top5 += (double)loss->top5;
        r->tail[TAIL_LOSS] += (float)(loss->loss_sum * scale);
        r->tail[TAIL_TOP1] += (float)((double)loss->top1 * scale);
        r->tail[TAIL_TOP5] += (float)((double)loss->top5 * scale);
    }
}

// Adds the loss that the last stage computes; of several views that of all together.
static void add_loss(struct step_run *r, struct network *net, int micro, int rows) {
    int views = r->mode == RUN_EVAL ? trainer_views(r->t) : 1, view = micro % views;
    if (views > 1)
        network_view(net, rows, trainer_view_weight(r->t, view), view == 0, view == views - 1);
    if (view < views - 1)
        return;
    bool train = r->mode == RUN_TRAIN;
    if (net->unfetched_pending == NETWORK_LOSSES_MAX)
        collect_losses(r);
    network_loss(net, rows, train ? r->t->options->label_smoothing : 0,
                 train ? trainer_loss_scale(r) : 0);
}

static void note_pass(struct step_run *r, const struct step_item *it, int rows) {
    r->t->last_rows = rows;
    r->t->last_slot = it->slot;
}

static int run_forward(struct step_run *r, const struct step_item *it, struct err *e) {
    struct network *net;
    int rows = rows_of(r, it->micro);
    if (rows == 0)
        return 0;
    if (enter(r, it, &net, e) < 0)
        return -1;
    int64_t since = clock_mono_ns();
    network_forward(net, rows, mode_of(r, it));
    if (!net->model->has_after)
        add_loss(r, net, it->micro, rows);
    r->times.compute_ns += clock_mono_ns() - since;
    if (r->mode == RUN_TRAIN && it->chunk == 0)
        note_pass(r, it, rows);
    return 0;
}

static int run_backward(struct step_run *r, const struct step_item *it, struct err *e) {
    (void)e;
    struct chunk *c;
    const struct bucket *b = bucket_of(r->t, it, &c);
    int rows = rows_of(r, it->micro);
    if (rows == 0)
        return 0;
    int64_t since = clock_mono_ns();
    network_select(&c->net, it->slot);
    network_backward(&c->net, rows, it->micro > 0, b->first, b->last);
    r->times.compute_ns += clock_mono_ns() - since;
    return 0;
}

// ---- the step ----------------------------------------------------------------------------------

// Whether this rank was asked to stop, or to save.
void trainer_set_requests(struct step_run *r) {
    struct trainer *t = r->t;
    sig_atomic_t saves = t->config->save ? *t->config->save : 0;
    r->tail[TAIL_STOP] = t->config->stop && *t->config->stop ? 1 : 0;
    r->tail[TAIL_SAVE] = saves != t->saves ? 1 : 0;
    t->saves = saves;
}

static int run_reduce(struct step_run *r, const struct step_item *it, struct err *e) {
    struct trainer *t = r->t;
    struct chunk *c;
    struct bucket *b = bucket_of(t, it, &c);
    int64_t since = clock_mono_ns();
    if (trainer_is_async(r)) {
        if (it->bucket == 0 && !t->async.joined)
            trainer_async_totals(r);
    } else if (!t->apart && it->bucket == 0) {
        collect_losses(r);
        trainer_set_requests(r);
        tail_set(t, r->tail);
    }
    int result = trainer_average_start(t, c, b, it->bucket, e);
    r->times.compute_ns += clock_mono_ns() - since;
    return result < 0 ? err_wrap(e, "averaging gradients at step %lld", (long long)t->at.step) : 0;
}

// The squares of a bucket's averaged gradients are summed while later buckets are under way.
static int run_norm(struct step_run *r, const struct step_item *it, struct err *e) {
    struct trainer *t = r->t;
    struct chunk *c;
    struct bucket *b = bucket_of(t, it, &c);
    size_t begin, end;
    trainer_own_part(t, b, &begin, &end);
    int64_t since = clock_mono_ns();
    if (!t->round.steps && trainer_average_end(t, c, b, it->bucket, e) < 0)
        return err_wrap(e, "averaging gradients at step %lld", (long long)t->at.step);
    int64_t averaged = clock_mono_ns();
    if (end > begin)
        network_squares(&c->net, end - begin, c->net.grads + begin * c->net.k->real_bytes);
    r->times.comm_ns += averaged - since;
    r->times.compute_ns += clock_mono_ns() - averaged;
    return 0;
}

// Where no rank knows all gradients, or the totals do not travel behind them. All ranks get the
// same sums, so all decide alike.
static int add_totals(struct step_run *r, struct err *e) {
    enum { SQUARES = TAIL_SAVE + 1, TOTALS };
    struct trainer *t = r->t;
    bool counts = t->data_rank == 0 || t->zero; // else another rank has the same squares
    double sums[TOTALS] = {[SQUARES] = counts ? r->squares : 0};
    int64_t since = clock_mono_ns();
    trainer_set_requests(r);
    for (int i = 0; i < SQUARES; i++)
        sums[i] = (double)r->tail[i] / t->mesh.data;
    if (comm_all_reduce_f64(t->comm, sums, TOTALS, COMM_SUM, e) < 0)
        return err_wrap(e, "adding up step %lld", (long long)t->at.step);
    for (int i = 0; i < SQUARES; i++)
        r->tail[i] = (float)sums[i];
    r->squares = sums[SQUARES];
    r->times.comm_ns += clock_mono_ns() - since;
    return 0;
}

// Share of the slow weights that stays when the fast ones join them in this step; below 0: they do
// not. The more of the run is done, the slower they are (Jordan, 2024). Before lookahead_epochs
// they follow the fast ones.
double trainer_lookahead(const struct step_run *r) {
    const struct trainer *t = r->t;
    const struct train_config *o = t->options;
    bool due = (t->at.step + 1) % o->lookahead_every == 0;
    bool over = r->last && t->at.epoch + 1 == o->epochs; // the run
    if (o->lookahead <= 0 || (!due && !over))
        return -1;
    if (t->at.epoch < o->lookahead_epochs)
        return due ? 0 : -1;
    double done = trainer_progress(t, r->consumed) / (double)o->epochs;
    return due ? pow(o->lookahead, (double)o->lookahead_every) * pow(done, o->lookahead_power) : 1;
}

// Whether the sums over all ranks are finite.
static int judge_totals(struct step_run *r, struct err *e) {
    struct trainer *t = r->t;
    if (!t->apart)
        tail_get(t, r->tail);
    else if (trainer_device_check(t, e) < 0 || add_totals(r, e) < 0)
        return -1;
    if (trainer_device_check(t, e) < 0)
        return -1;
    if (!isfinite(r->tail[TAIL_LOSS]))
        return trainer_rank_diverged(t, "the loss", r->loss, t->at.step + 1, e);
    if (!isfinite(r->squares))
        return trainer_gradient_diverged(t, t->at.step + 1, e);
    trainer_proven(t); // before the weights change
    return 0;
}

static int judge_alone(struct step_run *r, struct err *e) {
    if (trainer_device_check(r->t, e) < 0)
        return -1;
    trainer_set_requests(r);
    return trainer_local_steps_judge(r, e);
}

// A step that is not finite is not applied: the weights stay those of the step before, which are
// diverged as well, if only by now it shows.
static int run_judge(struct step_run *r, const struct step_item *it, struct err *e) {
    static const double TINY = 1e-6; // as torch.nn.utils.clip_grad_norm_
    (void)it;
    struct trainer *t = r->t;
    double clip = t->options->clip_norm;
    int64_t since = clock_mono_ns();
    if (trainer_is_async(r))
        return trainer_async_judge(r, e);
    collect_losses(r);
    if (trainer_links_end(t, e) < 0)
        return -1;
    for (int c = 0; c < t->chunks; c++)
        r->squares += network_squares_sum(&t->chunk[c].net);
    r->times.compute_ns += clock_mono_ns() - since;
    if (r->mode == RUN_ROUND)
        return trainer_local_steps_judge_change(r, e);
    if ((t->round.steps ? judge_alone(r, e) : judge_totals(r, e)) < 0)
        return -1;
    t->grad_norm = sqrt(r->squares);
    r->grad_scale = clip > 0 ? fmin(1, clip / (t->grad_norm + TINY)) : 1;
    t->lr = lr_schedule_rate(&t->schedule, trainer_progress(t, t->at.consumed),
                             trainer_progress(t, r->consumed));
    for (int c = 0; c < t->chunks; c++) {
        optimizer_begin(&t->chunk[c].optimizer);
        t->chunk[c].optimizer.keep = trainer_lookahead(r);
    }
    return 0;
}

static int run_update(struct step_run *r, const struct step_item *it, struct err *e) {
    (void)e;
    struct trainer *t = r->t;
    struct chunk *c;
    const struct bucket *b = bucket_of(t, it, &c);
    size_t begin, end;
    trainer_own_part(t, b, &begin, &end);
    int64_t since = clock_mono_ns();
    optimizer_apply(&c->optimizer, &c->net, t->lr, r->grad_scale, begin, end, b->state);
    r->times.compute_ns += clock_mono_ns() - since;
    t->proven = false;
    return 0;
}

static int run_gather(struct step_run *r, const struct step_item *it, struct err *e) {
    struct trainer *t = r->t;
    struct chunk *c;
    struct bucket *b = bucket_of(t, it, &c);
    return trainer_collect_start(t, c, b, it->bucket, e) < 0
               ? err_wrap(e, "collecting parameters at step %lld", (long long)t->at.step)
               : 0;
}

static int run_await(struct step_run *r, const struct step_item *it, struct err *e) {
    struct chunk *c;
    const struct bucket *b = bucket_of(r->t, it, &c);
    int64_t since = clock_mono_ns();
    int result = trainer_collect_end(r->t, c, b, it->bucket, e);
    r->times.comm_ns += clock_mono_ns() - since;
    return result < 0 ? err_wrap(e, "collecting parameters at step %lld", (long long)r->t->at.step)
                      : 0;
}

// ---- the end of a round ------------------------------------------------------------------------

static int run_change(struct step_run *r, const struct step_item *it, struct err *e) {
    struct trainer *t = r->t;
    struct chunk *c;
    struct bucket *b = bucket_of(t, it, &c);
    size_t count = b->params_end - b->begin;
    int64_t since = clock_mono_ns();
    optimizer_change(&c->optimizer, &c->net, b->begin, b->params_end);
    network_squares(&c->net, count, c->net.grads + b->begin * c->net.k->real_bytes);
    int result = trainer_average_start(t, c, b, it->bucket, e);
    r->times.compute_ns += clock_mono_ns() - since;
    return result < 0
               ? err_wrap(e, "averaging the changes of a round at step %lld", (long long)t->at.step)
               : 0;
}

static int run_outer(struct step_run *r, const struct step_item *it, struct err *e) {
    struct trainer *t = r->t;
    struct chunk *c;
    const struct bucket *b = bucket_of(t, it, &c);
    int64_t since = clock_mono_ns();
    if (trainer_average_end(t, c, b, it->bucket, e) < 0)
        return err_wrap(e, "averaging the changes of a round at step %lld", (long long)t->at.step);
    int64_t averaged = clock_mono_ns();
    optimizer_apply_outer(&c->optimizer, &c->net, b->begin, b->params_end);
    r->times.comm_ns += averaged - since;
    r->times.compute_ns += clock_mono_ns() - averaged;
    return 0;
}

static int (*const run_item[STEP_OPS])(struct step_run *r, const struct step_item *it,
                                       struct err *e) = {
    [STEP_LOAD] = run_load,    [STEP_RECV_X] = run_receive,  [STEP_FORWARD] = run_forward,
    [STEP_SEND_Y] = run_send,  [STEP_RECV_DY] = run_receive, [STEP_BACKWARD] = run_backward,
    [STEP_SEND_DX] = run_send, [STEP_REDUCE] = run_reduce,   [STEP_NORM] = run_norm,
    [STEP_JUDGE] = run_judge,  [STEP_UPDATE] = run_update,   [STEP_GATHER] = run_gather,
    [STEP_AWAIT] = run_await,  [STEP_CHANGE] = run_change,   [STEP_OUTER] = run_outer,
};

int trainer_device_check(const struct trainer *t, struct err *e) {
    const struct network *net = &t->chunk[0].net;
    const char *why = net->k->failure ? net->k->failure(net->ctx) : NULL;
    if (t->wait.lost.code != ERR_NONE) {
        *e = t->wait.lost;
        return err_wrap(e, "at step %lld", (long long)t->at.step);
    }
    return why ? err_set(e, ERR_FAILED, "%s", why) : 0;
}

int trainer_step_item(struct step_run *r, const struct step_item *it, struct err *e) {
    return run_item[it->op](r, it, e);
}

void trainer_step_skip(struct step_run *r, const struct step_item *it) {
    int rows = rows_of(r, it->micro);
    if (it->op != STEP_FORWARD || rows == 0)
        return;
    network_count_pass(&r->t->chunk[it->chunk].net, mode_of(r, it));
    note_pass(r, it, rows);
}

int trainer_step_run(struct step_run *r, const struct step_program *p, struct err *e) {
    struct trainer *t = r->t;
    for (int i = 0; i < p->items; i++)
        if (trainer_step_item(r, &p->item[i], e) < 0)
            return -1;
    int64_t since = clock_mono_ns();
    collect_losses(r);
    if (trainer_links_end(t, e) < 0)
        return -1;
    r->times.comm_ns += clock_mono_ns() - since;
    return trainer_device_check(t, e);
}

int trainer_make_program(struct trainer *t, struct step_program *p, int64_t micros, bool forward,
                         struct err *e) {
    int64_t round = t->chunks > 1 ? t->mesh.pipe : 1; // the rest of a round is empty
    struct step_spec spec = {.micros = (int)((micros + round - 1) / round * round),
                             .order = t->order,
                             .chunks = t->chunks,
                             .parted = t->zero,
                             .forward = forward,
                             .alone = t->round.steps > 0 && !forward};
    for (int c = 0; c < t->chunks; c++)
        spec.buckets[c] = t->part[c * t->mesh.pipe + t->pipe_rank].buckets.count;
    return program_make(p, &t->mesh, t->rank, &spec, e);
}
