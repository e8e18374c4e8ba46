// SPDX-License-Identifier: Apache-2.0
// Reports of rank 0: progress lines, metrics and the summary.
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "sys/file.h"
#include "trainer/trainer_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const phase_names[PHASES] = {[PHASE_START] = "start",
                                                [PHASE_DATA] = "data",
                                                [PHASE_TRAIN] = "train",
                                                [PHASE_EVAL] = "eval",
                                                [PHASE_CHECKPOINT] = "checkpoint"};

void trainer_phase(struct trainer *t, enum trainer_phase phase, int64_t *since_ns) {
    int64_t now = clock_mono_ns();
    t->phase_ns[phase] += now - *since_ns;
    *since_ns = now;
}

void trainer_say(struct trainer *t, const char *fmt, ...) {
    if (!t->config->say || t->rank != 0)
        return;
    struct strbuf line = {0};
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(&line, fmt, ap);
    va_end(ap);
    t->config->say(t->config->say_ctx, strbuf_cstr(&line));
    strbuf_fini(&line);
}

// Counts a failed write: metrics may be lost without stopping the training.
static void lose(struct trainer *t, const char *name, int error) {
    char node[256] = "?";
    t->reports_lost++;
    if (t->report_errno)
        return;
    t->report_errno = error ? error : EIO;
    gethostname(node, sizeof node - 1);
    log_warn("metrics cannot be written; training goes on without them",
             "node=%s path=%s/%s errno=%d reason=\"%s\"",
             t->config->node_name ? t->config->node_name : node, t->config->output_dir, name,
             t->report_errno, strerror(t->report_errno));
}

// Appends complete lines only: a partially written line is removed again.
static void append_metrics(struct trainer *t, struct strbuf *line) {
    struct arena a = {0};
    if (t->metrics_fd < 0)
        t->metrics_fd = open(file_join(&a, t->config->output_dir, "metrics.jsonl"),
                             O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    off_t before = t->metrics_fd < 0 ? -1 : lseek(t->metrics_fd, 0, SEEK_END);
    errno = t->metrics_fd < 0 ? errno : ENOSPC; // of a write that was cut short
    ssize_t n = t->metrics_fd < 0 ? -1 : write(t->metrics_fd, line->data, line->len);
    if (n != (ssize_t)line->len) {
        lose(t, "metrics.jsonl", errno);
        if (n > 0 && before >= 0 && ftruncate(t->metrics_fd, before) < 0)
            log_warn("metrics.jsonl ends in a broken line", "errno=%d", errno);
    }
    arena_fini(&a);
    strbuf_fini(line);
}

static const char *collectives_of(const struct trainer *t) {
    return t->device ? t->config->device->collectives->name : comm_backend_name(t->comm);
}

static void say_rounds(struct trainer *t) {
    const struct train_config *o = t->options;
    if (t->round.steps)
        trainer_say(t,
                    "rounds of %lld local steps, outer learning rate %g and momentum %g; a round "
                    "ends earlier with an epoch, or for a checkpoint on request",
                    (long long)t->round.steps, o->outer_lr, o->outer_momentum);
}

static void say_device(struct trainer *t) {
    struct strbuf line = {0};
    trainer_device_say(t, &line);
    if (t->config->device)
        trainer_say(t, "%s%s", t->config->device->about, strbuf_cstr(&line));
    strbuf_fini(&line);
}

// Batch norm of one value has no variance: the layer gives its bias alone, no gradient flows, and
// the running variance shrinks. PyTorch refuses such a batch.
static void warn_of_single(const struct trainer *t) {
    const struct nn_model *m = t->model;
    int64_t ranks = t->mesh.data, batch = t->options->batch;
    const struct data_shares *x = &t->shares[DATASET_TRAIN];
    int64_t each = (x->images + (t->options->drop_last ? 0 : ranks - 1)) / ranks;
    each = x->each ? (int64_t)x->each : each;
    for (int i = 0; i < m->layers && each % batch == (batch > 1); i++)
        if (m->layer[i].op == &nn_op_batchnorm && m->layer[i].h * m->layer[i].w == 1) {
            log_warn(batch > 1 ? "the last batch of an epoch is one image, and batch norm cannot "
                                 "normalise one value"
                               : "a batch is one image, and batch norm cannot normalise one value",
                     "layer=%s images=%lld batch=%lld try=\"another train.batch\"",
                     m->layer[i].name, (long long)each, (long long)batch);
            return;
        }
}

// Ranks of a node with fewer images begin again in the same epoch, or all stop at the fewest.
static void say_shares(struct trainer *t) {
    const struct data_shares *x = &t->shares[DATASET_TRAIN];
    if (x->on)
        trainer_say(t,
                    "every node has a share of its own: %lld to %lld training images, of which "
                    "each rank takes %llu in an epoch",
                    (long long)x->least, (long long)x->most, (unsigned long long)x->each);
}

static void say_data(struct trainer *t) {
    char threads[64];
    int n = trainer_decode_threads(t, &t->train);
    snprintf(threads, sizeof threads, ", decoded when they are needed by %d thread%s", n,
             str_plural(n));
    trainer_say(t, "data %s, %lld training and %lld test images of %dx%d%s", t->train.kind,
                (long long)t->shares[DATASET_TRAIN].images,
                (long long)t->shares[DATASET_TEST].images, t->train.width, t->train.height,
                t->feed.kept          ? ", in the memory of the GPU"
                : !t->train.pixels    ? threads
                : t->train.from_cache ? ", decoded before"
                                      : "");
    say_shares(t);
}

static void say_hello(struct trainer *t) {
    const struct train_config *o = t->options;
    char bytes[STR_HUMAN_BYTES_MAX];
    trainer_say(t, "model %s, %zu parameters, %d classes, %s planned once", t->model->text,
                t->model->param_count, t->model->classes,
                str_human_bytes(bytes, trainer_plan_own_bytes(t)));
    say_data(t);
    trainer_say(
        t, "%d rank%s of %d thread%s%s, kernels %s %s, collectives %s%s, batch %lld on each rank",
        t->world, str_plural(t->world), t->cores.threads, str_plural(t->cores.threads),
        t->cores.pinned  ? ""
        : t->cores.quota ? ", as many as the quota of this group allows, not pinned"
        : t->cores.busy  ? ", not pinned: others use this machine"
                         : ", not pinned",
        t->chunk[0].net.k->name, t->chunk[0].net.k->isa(t->chunk[0].net.ctx), collectives_of(t),
        t->zero ? ", sharded update" : "", (long long)o->batch);
    say_device(t);
    if (t->cores.threads > t->cores.most)
        log_warn("more threads than CPUs: each operation waits for the last of them",
                 "threads=%d cpus=%d try=\"train.threads=0\"", t->cores.threads, t->cores.most);
    warn_of_single(t);
}

// The stages, with the first layer of each and its share of the parameters.
static void say_pipeline(struct trainer *t) {
    const struct train_config *o = t->options;
    if (t->parts == 1)
        return;
    struct strbuf line = {0};
    for (int i = 0; i < t->parts; i++) {
        const struct nn_model *m = &t->part[i].model;
        strbuf_addf(&line, "%s%s %.0f %%", i ? ", " : "", m->layer[i ? 1 : 0].name,
                    100 * (double)m->param_count / (double)t->model->param_count);
    }
    trainer_say(t,
                "%d pipeline%s of %d ranks, %s: %d micro-batches of %d, %s; stages from %s of the "
                "parameters",
                t->mesh.data, str_plural(t->mesh.data), t->mesh.pipe,
                t->mesh.spread ? "spread" : "packed", t->micros * (int)o->accumulate,
                t->micro_batch, o->pipeline_schedule, strbuf_cstr(&line));
    strbuf_fini(&line);
}

void trainer_report_open(struct trainer *t) {
    struct strbuf nothing = {0};
    append_metrics(t, &nothing); // create the file in any case
    say_hello(t);
    say_pipeline(t);
    say_rounds(t);
}

static void report_interval(struct trainer *t, const struct step_done *d) {
    double steps = (double)t->interval_steps;
    struct meter_interval m = {
        .step = d->step,
        .epoch = t->at.epoch,
        .loss = t->interval_loss / steps,
        .lr = d->lr,
        .grad_norm = d->grad_norm,
        .images_per_s = (double)t->interval_images / ((double)t->interval.total_ns / 1e9),
        .data_ms = (double)t->interval.data_ns / 1e6 / steps,
        .compute_ms = (double)t->interval.compute_ns / 1e6 / steps,
        .comm_ms = (double)t->interval.comm_ns / 1e6 / steps,
        .top1 = t->interval_top1 / steps,
        .top5 = t->interval_top5 / steps,
        .batch = d->batch,
        .batches = d->batches,
        .epochs = t->options->epochs,
    };
    t->interval = (struct step_times){0};
    t->interval_steps = t->interval_images = 0;
    t->interval_loss = t->interval_top1 = t->interval_top5 = 0;
    struct strbuf line = {0};
    meter_interval_json(&line, &m);
    append_metrics(t, &line);
}

void trainer_report_step(struct trainer *t, const struct step_done *d) {
    int64_t every = t->options->print_every, batch = d->batch;
    bool due = every > 0 && batch % every == 0;
    if (t->rank != 0 || (batch != d->batches && batch != 1 && !due))
        return;
    struct strbuf line = {0};
    meter_train_line(&line, t->at.epoch, batch, d->batches, &t->meters);
    trainer_say(t, "%s", strbuf_cstr(&line));
    strbuf_fini(&line);
    report_interval(t, d);
}

void trainer_report_eval(struct trainer *t) {
    if (t->rank != 0)
        return;
    struct strbuf line = {0};
    meter_eval_line(&line, t->last_eval.top1, t->last_eval.top5);
    trainer_say(t, "%s", strbuf_cstr(&line));
    strbuf_clear(&line);
    meter_eval_json(&line, &t->last_eval);
    append_metrics(t, &line);
}

static void summary_epochs(struct json_out *j, const struct trainer *t) {
    json_array(j, "epochs");
    for (int64_t i = 0; i < t->at.epochs_done; i++) {
        const struct epoch_record *r = &t->epochs[i];
        json_object(j, NULL);
        json_int(j, "epoch", i);
        json_num(j, "train_loss", r->train_loss);
        json_num(j, "train_acc1", r->train_top1);
        if (t->options->eval && epoch_has_test(r)) {
            json_num(j, "test_loss", r->test_loss);
            json_num(j, "test_acc1", r->test_top1);
            json_num(j, "test_acc5", r->test_top5);
        }
        json_int(j, "images", (int64_t)r->images);
        json_num(j, "seconds", r->seconds);
        json_num(j, "images_per_s", r->seconds > 0 ? r->images / r->seconds : 0);
        json_end(j);
    }
    json_end(j);
}

static void summary_setup(struct json_out *j, const struct trainer *t) {
    const struct train_config *o = t->options;
    json_str(j, "model", t->model->text);
    if (model_stem(t->model)[0])
        json_str(j, "stem", model_stem(t->model));
    json_int(j, "parameters", (int64_t)t->model->param_count);
    json_str(j, "dataset", t->train.kind);
    json_int(j, "train_images", t->shares[DATASET_TRAIN].images);
    json_int(j, "test_images", t->shares[DATASET_TEST].images);
    json_int(j, "classes", t->model->classes);
    json_int(j, "world_size", t->world);
    json_int(j, "threads", t->cores.threads);
    json_int(j, "batch", o->batch);
    if (t->parts > 1) {
        json_int(j, "pipeline", t->mesh.pipe);
        json_int(j, "stages", t->parts);
        json_int(j, "microbatches", t->micros);
        json_str(j, "pipeline_schedule", o->pipeline_schedule);
        json_str(j, "placement", t->mesh.spread ? "spread" : "packed");
    }
    if (t->zero)
        json_bool(j, "zero", true);
    if (t->round.steps)
        json_int(j, "local_steps", t->round.steps);
    json_str(j, "optimizer", train_optimizer_words[t->options->optimizer]);
    json_str(j, "kernels", t->chunk[0].net.k->name);
    json_str(j, "isa", t->chunk[0].net.k->isa(t->chunk[0].net.ctx));
    json_str(j, "collectives", collectives_of(t));
    json_int(j, "memory_bytes", (int64_t)trainer_plan_own_bytes(t));
}

void trainer_report_summary(struct trainer *t, const struct trainer_result *r) {
    struct strbuf text = {0};
    struct json_out j;
    struct arena a = {0};
    json_open(&j, &text);
    json_object(&j, NULL);
    json_str(&j, "run", t->config->run);
    json_str(&j, "state", r->stopped ? "stopped" : "finished");
    summary_setup(&j, t);
    json_int(&j, "steps", r->steps);
    json_int(&j, "epochs_done", t->at.epochs_done);
    json_num(&j, "final_loss", r->final_loss);
    json_num(&j, "final_acc1", r->final_top1);
    json_num(&j, "final_acc5", r->final_top5);
    if (r->best_top1 >= 0)
        json_num(&j, "best_acc1", r->best_top1);
    json_num(&j, "images_per_s", r->images_per_s);
    json_object(&j, "phase_ms");
    for (int p = 0; p < PHASES; p++)
        json_num(&j, phase_names[p], (double)t->phase_ns[p] / 1e6);
    json_num(&j, "total", (double)(clock_mono_ms() - t->config->started_ms));
    json_end(&j);
    if (t->options->on_bad_sample == TRAIN_BAD_SKIP) {
        json_int(&j, "bad_train_samples", t->bad_train);
        json_int(&j, "bad_test_samples", t->bad_test);
    }
    if (t->reports_lost > 0)
        json_int(&j, "metrics_lost", t->reports_lost);
    summary_epochs(&j, t);
    json_end(&j);
    strbuf_addc(&text, '\n');
    struct err e;
    if (file_write_atomic(file_join(&a, t->config->output_dir, "summary.json"), text.data, text.len,
                          0644, &e) < 0) {
        log_warn("the summary cannot be written", "reason=\"%s\"", e.text);
        t->reports_lost++;
    }
    if (t->reports_lost > 0)
        log_warn("metrics were lost", "lines=%lld", (long long)t->reports_lost);
    strbuf_fini(&text);
    arena_fini(&a);
}
