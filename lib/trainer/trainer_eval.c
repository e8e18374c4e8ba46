// SPDX-License-Identifier: Apache-2.0
// Evaluation: every test image once, on some rank; sums, not means, are added up over the ranks, so
// the result is exact on any world size.
#include "base/clock.h"
#include "trainer/trainer_impl.h"

#include <math.h>

// Sends every test image through the stages. Results of the last stage are added up over all ranks.
static int run_eval(struct trainer *t, double sums[], struct err *e) {
    enum { MICROS_MAX = 256 }; // of one program
    enum { LOSS, TOP1, TOP5 };
    int64_t left = t->test.samples ? (int64_t)sampler_length(&t->eval.sampler) : 0,
            batch = t->options->eval_batch;
    while (left > 0) {
        int64_t micros = (left + batch - 1) / batch;
        micros = micros < MICROS_MAX ? micros : MICROS_MAX;
        int64_t rows = micros * batch < left ? micros * batch : left;
        struct step_run r = {.t = t, .mode = RUN_EVAL, .batch = (int)batch, .rows = rows};
        if (trainer_make_program(t, &t->eval_program, micros * trainer_views(t), true, e) < 0 ||
            trainer_step_run(&r, &t->eval_program, e) < 0)
            return -1;
        sums[LOSS] += r.loss;
        sums[TOP1] += r.top1;
        sums[TOP5] += r.top5;
        left -= rows;
    }
    return 0;
}

// An average of weights is evaluated in their place.
static void swap_averages(struct trainer *t) {
    for (int c = 0; c < t->chunks; c++)
        optimizer_swap_ema(&t->chunk[c].optimizer, &t->chunk[c].net);
}

int trainer_eval(struct trainer *t, struct err *e) {
    enum { LOSS, TOP1, TOP5, SUMS };
    double sums[SUMS] = {0}, images = (double)t->shares[DATASET_TEST].images;
    int64_t since = clock_mono_ns(), began = since;
    if (trainer_share_stats(t, e) < 0)
        return -1;
    if (t->test.samples) {
        sampler_start(&t->eval.sampler, 0, 0);
        loader_start(t->eval.loader, &t->eval.sampler, false);
    }
    swap_averages(t);
    int r = run_eval(t, sums, e);
    swap_averages(t);
    if (r < 0)
        return -1;
    if (comm_all_reduce_f64(t->comm, sums, SUMS, COMM_SUM, e) < 0)
        return err_wrap(e, "adding up the evaluation");
    trainer_phase(t, PHASE_EVAL, &since);
    t->last_eval = (struct meter_eval){.step = t->at.step,
                                       .epoch = t->at.epoch,
                                       .loss = sums[LOSS] / images,
                                       .top1 = 100 * sums[TOP1] / images,
                                       .top5 = 100 * sums[TOP5] / images,
                                       .images = (int64_t)images,
                                       .time_ms = (double)(since - began) / 1e6};
    if (t->last_eval.top1 > t->at.best_top1)
        t->at.best_top1 = t->last_eval.top1;
    trainer_report_eval(t);
    if (!isfinite(t->last_eval.loss))
        return trainer_diverged(t, "the evaluation loss is", t->at.step, e);
    trainer_proven(t);
    return 0;
}

// All inputs of the batch still exist: its pixels live until the last gradient is known, and the
// labels always. A continuing run is tested in training mode, a finished one in evaluation mode.
int trainer_probe(struct trainer *t, struct err *e) {
    struct step_run r = {.t = t,
                         .mode = RUN_PROBE,
                         .probe = t->stop_seen ? NETWORK_TRAIN_APART : NETWORK_PROBE,
                         .batch = t->micro_batch,
                         .rows = t->last_rows};
    if (t->proven || t->last_rows == 0)
        return 0;
    if (trainer_share_stats(t, e) < 0 ||
        trainer_make_program(t, &t->eval_program, 1, true, e) < 0 ||
        trainer_step_run(&r, &t->eval_program, e) < 0)
        return -1;
    if (comm_all_reduce_f64(t->comm, &r.loss, 1, COMM_SUM, e) < 0)
        return err_wrap(e, "adding up the last loss");
    if (!isfinite(r.loss))
        return trainer_diverged(t, "the loss behind the last step is", t->at.step, e);
    trainer_proven(t);
    return 0;
}
