// SPDX-License-Identifier: Apache-2.0
// Evaluation: every test image once, on some rank; sums, not means, are added up over the ranks, so
// the result is exact on any world size.
#include "base/clock.h"
#include "nn/trainer_state.h"

#include <math.h>

int trainer_eval(struct trainer *t, struct err *e) {
    enum { LOSS, TOP1, TOP5, ROWS, SUMS };
    double sums[SUMS] = {0};
    int64_t since = clock_mono_ns(), began = since;
    const struct loader_batch *b;
    if (comm_broadcast(t->comm, t->net.stats, t->model->stat_elements * t->net.k->real_bytes, 0,
                       e) < 0)
        return err_wrap(e, "sharing the running statistics");
    sampler_start(&t->eval.sampler, 0, 0);
    loader_start(t->eval.loader, &t->eval.sampler, false);
    while ((b = loader_next(t->eval.loader)) != NULL) {
        struct loss_totals loss;
        trainer_feed(t, b, &t->test, NETWORK_EVAL);
        network_forward(&t->net, b->n, NETWORK_EVAL);
        network_loss(&t->net, b->n, 0, 0, &loss);
        sums[LOSS] += loss.loss_sum;
        sums[TOP1] += (double)loss.top1;
        sums[TOP5] += (double)loss.top5;
        sums[ROWS] += b->n;
    }
    if (comm_all_reduce_f64(t->comm, sums, SUMS, COMM_SUM, e) < 0)
        return err_wrap(e, "adding up the evaluation");
    trainer_phase(t, PHASE_EVAL, &since);
    t->last_eval = (struct meter_eval){.step = t->at.step,
                                       .epoch = t->at.epoch,
                                       .loss = sums[LOSS] / sums[ROWS],
                                       .top1 = 100 * sums[TOP1] / sums[ROWS],
                                       .top5 = 100 * sums[TOP5] / sums[ROWS],
                                       .images = (int64_t)sums[ROWS],
                                       .time_ms = (double)(since - began) / 1e6};
    if (t->last_eval.top1 > t->at.best_top1)
        t->at.best_top1 = t->last_eval.top1;
    trainer_report_eval(t);
    if (!isfinite(t->last_eval.loss))
        return trainer_diverged(t, "the evaluation loss is", t->at.step, e);
    trainer_proven(t);
    return 0;
}

// Nothing that the batch needs was overwritten since its step: its pixels live until the last
// gradient is known, and the labels always. What goes on is tried as it goes on; what is finished,
// as it will be used.
int trainer_probe(struct trainer *t, struct err *e) {
    struct loss_totals loss;
    if (t->proven || t->last_rows == 0)
        return 0;
    if (comm_broadcast(t->comm, t->net.stats, t->model->stat_elements * t->net.k->real_bytes, 0,
                       e) < 0)
        return err_wrap(e, "sharing the running statistics");
    network_forward(&t->net, t->last_rows, t->stop_seen ? NETWORK_TRAIN_APART : NETWORK_PROBE);
    network_loss(&t->net, t->last_rows, 0, 0, &loss);
    if (comm_all_reduce_f64(t->comm, &loss.loss_sum, 1, COMM_SUM, e) < 0)
        return err_wrap(e, "adding up the last loss");
    if (!isfinite(loss.loss_sum))
        return trainer_diverged(t, "the loss behind the last step is", t->at.step, e);
    trainer_proven(t);
    return 0;
}
