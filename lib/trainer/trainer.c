// SPDX-License-Identifier: Apache-2.0
// Runs a training from its options to the finished model.
#include "trainer/trainer.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "sys/file.h"
#include "trainer/trainer_impl.h"

#include <math.h>
#include <stdlib.h>

// Closes the books of an epoch that is over.
static void record_epoch(struct trainer *t) {
    struct train_position *at = &t->at;
    double images = at->epoch_images > 0 ? at->epoch_images : 1;
    if (at->epochs_done < CHECKPOINT_EPOCHS_MAX)
        t->epochs[at->epochs_done++] =
            (struct epoch_record){.train_loss = at->epoch_loss_sum / images,
                                  .train_top1 = at->epoch_top1_sum / images,
                                  .test_loss = t->last_eval.loss,
                                  .test_top1 = t->last_eval.top1,
                                  .test_top5 = t->last_eval.top5,
                                  .seconds = at->epoch_seconds,
                                  .images = at->epoch_images};
    at->epoch++;
    at->consumed = 0;
    at->epoch_loss_sum = at->epoch_top1_sum = at->epoch_images = at->epoch_seconds = 0;
}

static int train(struct trainer *t, struct err *e) {
    const struct train_config *o = t->options;
    while (t->at.epoch < o->epochs && !t->stop_seen) {
        if (trainer_epoch(t, e) < 0)
            return -1;
        if (t->stop_seen)
            break;
        bool last = t->at.epoch + 1 == o->epochs;
        bool eval = o->eval && (last || (t->at.epoch + 1) % o->eval_every_epochs == 0);
        if (!eval)
            t->last_eval = (struct meter_eval){.loss = EPOCH_NO_TEST};
        else if (trainer_eval(t, e) < 0)
            return -1;
        record_epoch(t);
        bool due = o->checkpoint_every_epochs > 0 && t->at.epoch % o->checkpoint_every_epochs == 0;
        if (due && t->at.epoch < o->epochs && trainer_checkpoint(t, e) < 0)
            return -1;
    }
    return 0;
}

static void fill_result(const struct trainer *t, struct trainer_result *r) {
    *r = (struct trainer_result){.stopped = t->stop_seen,
                                 .steps = t->at.step,
                                 .epochs = t->at.epochs_done,
                                 .final_loss = (double)NAN,
                                 .final_top1 = (double)NAN,
                                 .final_top5 = (double)NAN,
                                 .best_top1 = t->at.best_top1};
    if (t->train_ns > 0)
        r->images_per_s = (double)t->images / ((double)t->train_ns / 1e9);
    if (t->at.epochs_done == 0)
        return;
    const struct epoch_record *last = &t->epochs[t->at.epochs_done - 1];
    bool eval = t->options->eval && epoch_has_test(last);
    r->final_loss = eval ? last->test_loss : last->train_loss;
    r->final_top1 = eval ? last->test_top1 : last->train_top1;
    r->final_top5 = eval ? last->test_top5 : (double)NAN;
}

// Writes the last checkpoint, the model and the summary. Every keeper writes all of them at the
// end; those of rank 0 must succeed, the others are copies.
static int write_results(struct trainer *t, const char *model, struct trainer_result *result,
                         struct err *e) {
    int64_t since = clock_mono_ns();
    if (!t->stop_seen && checkpoint_write_model(checkpoint_thread_image(t->writer), model, e) < 0)
        return -1;
    trainer_phase(t, PHASE_CHECKPOINT, &since);
    trainer_report_summary(t, result);
    return 0;
}

static int conclude(struct trainer *t, struct trainer_result *result, struct err *e) {
    if (trainer_probe(t, e) < 0 || trainer_checkpoint(t, e) < 0 ||
        trainer_checkpoint_wait(t, e) < 0 || trainer_data_bad(t, e) < 0)
        return -1;
    fill_result(t, result);
    if (!t->writer)
        return 0;
    struct arena a = {0};
    const char *path = file_join(&a, t->config->model_dir, "model.safetensors");
    int r = write_results(t, path, result, e);
    if (r < 0 && t->rank != 0) {
        log_warn("this node could not keep the results; rank 0 has them", "reason=\"%s\"", e->text);
        r = 0;
    }
    if (r == 0 && t->stop_seen)
        trainer_say(t, "stopped by a signal: checkpoint of epoch %lld, step %lld is in %s",
                    (long long)t->at.epoch, (long long)t->at.step, t->config->state_dir);
    else if (r == 0)
        trainer_say(
            t,
            "done: %lld epoch%s, %lld step%s, %.1f images/s, %.1f s waited for data, model in %s",
            (long long)t->at.epoch, str_plural(t->at.epoch), (long long)t->at.step,
            str_plural(t->at.step), result->images_per_s, (double)t->phase_ns[PHASE_DATA] / 1e9,
            path);
    arena_fini(&a);
    return r;
}

int trainer_run(const struct trainer_config *config, struct trainer_result *result, struct err *e) {
    struct trainer *t = heap_alloc(sizeof *t);
    int r = trainer_open(t, config, e);
    if (r == 0) {
        t->phase_ns[PHASE_START] = (clock_mono_ms() - config->started_ms) * 1000000;
        r = train(t, e);
    }
    if (r == 0)
        r = conclude(t, result, e);
    trainer_close(t);
    free(t);
    return r;
}
