// SPDX-License-Identifier: Apache-2.0
#include "nn/checkpoint.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "nn/safetensors.h"
#include "sys/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The tensor with that name, type and shape.
static const struct safetensors_tensor *expect(const struct safetensors_file *f, const char *name,
                                               enum safetensors_type type, int ndim, const int *dim,
                                               struct err *e) {
    const struct safetensors_tensor *t = safetensors_find(&f->header, name);
    if (!t) {
        err_set(e, ERR_FORMAT, "%s: there is no tensor '%s': another model?", f->path, name);
        return NULL;
    }
    bool same = t->ndim == ndim;
    for (int i = 0; same && i < ndim; i++)
        same = t->dim[i] == (uint64_t)dim[i];
    if (!same) {
        err_set(e, ERR_FORMAT,
                "%s: tensor '%s' has another shape than here: another model, stem, image size or "
                "number of classes?",
                f->path, name);
        return NULL;
    }
    if (t->type != type) {
        err_set(e, ERR_FORMAT, "%s: tensor '%s' is %s, only %s can be read", f->path, name,
                safetensors_type_name(t->type), safetensors_type_name(type));
        return NULL;
    }
    return t;
}

static int check_finite(const struct safetensors_file *f, const char *name, const float *values,
                        size_t count, struct err *e) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return err_set(e, ERR_FORMAT,
                           "%s: tensor '%s' holds %g: training had diverged when it was written",
                           f->path, name, (double)values[i]);
    return 0;
}

static int read_param(const struct safetensors_file *f, const char *name, const struct nn_param *p,
                      struct network *net, char *buffer, float *scratch[2], struct err *e) {
    int dim[4], ndim = model_disk_shape(p, dim);
    const struct safetensors_tensor *t = expect(f, name, SAFETENSORS_F32, ndim, dim, e);
    if (!t || safetensors_read(f, t, scratch[0], p->count * sizeof(float), e) < 0 ||
        check_finite(f, name, scratch[0], p->count, e) < 0)
        return -1;
    model_from_disk(p, scratch[0], scratch[1]);
    network_set(net, buffer, p->begin, p->count, scratch[1]);
    return 0;
}

static void scratch_open(float *scratch[2], const struct nn_model *m) {
    size_t most = 0;
    for (int i = 0; i < m->params; i++)
        most = m->param[i].count > most ? m->param[i].count : most;
    for (int i = 0; i < 2; i++)
        scratch[i] = heap_alloc((most + 1) * sizeof(float));
}

static int read_stats(const struct safetensors_file *f, struct network *net, struct arena *a,
                      struct err *e) {
    static const char *const suffix[2] = {"running_mean", "running_var"};
    const struct nn_model *m = net->model;
    for (int i = 0; i < m->stats; i++) {
        const struct nn_stat *s = &m->stat[i];
        const size_t part[2] = {s->mean, s->var};
        float *values = arena_new(a, float, (size_t)s->channels);
        for (int j = 0; j < 2; j++) {
            const char *name = arena_printf(a, "%s.%s", s->name, suffix[j]);
            const struct safetensors_tensor *t =
                expect(f, name, SAFETENSORS_F32, 1, &s->channels, e);
            if (!t || safetensors_read(f, t, values, (size_t)s->channels * sizeof(float), e) < 0 ||
                check_finite(f, name, values, (size_t)s->channels, e) < 0)
                return -1;
            network_set(net, net->stats, part[j], (size_t)s->channels, values);
        }
        const struct safetensors_tensor *t = expect(
            f, arena_printf(a, "%s.num_batches_tracked", s->name), SAFETENSORS_I64, 0, NULL, e);
        if (!t || safetensors_read(f, t, &net->tracked, sizeof net->tracked, e) < 0)
            return -1;
    }
    return 0;
}

int checkpoint_read_model(struct network *net, const char *path, struct err *e) {
    const struct nn_model *m = net->model;
    struct arena a = {0};
    struct safetensors_file f;
    if (safetensors_open(&f, &a, path, e) < 0) {
        arena_fini(&a);
        return -1;
    }
    float *scratch[2];
    scratch_open(scratch, m);
    int r = 0;
    for (int i = 0; i < m->params && r == 0; i++)
        r = read_param(&f, m->param[i].name, &m->param[i], net, net->params, scratch, e);
    if (r == 0)
        r = read_stats(&f, net, &a, e);
    free(scratch[0]);
    free(scratch[1]);
    safetensors_close(&f);
    arena_fini(&a);
    return r;
}

static int meta_int(const struct safetensors_file *f, const char *key, int64_t *out,
                    struct err *e) {
    const char *text = safetensors_get_meta(&f->header, key);
    if (!text)
        return err_set(e, ERR_FORMAT, "%s: metadata lacks '%s'", f->path, key);
    if (str_parse_i64(text, 0, INT64_MAX, out, e) < 0)
        return err_wrap(e, "%s: metadata '%s'", f->path, key);
    return 0;
}

static int meta_real(const struct safetensors_file *f, const char *key, double *out,
                     struct err *e) {
    const char *text = safetensors_get_meta(&f->header, key);
    if (!text)
        return err_set(e, ERR_FORMAT, "%s: metadata lacks '%s'", f->path, key);
    if (str_parse_f64(text, -1e300, 1e300, out, e) < 0)
        return err_wrap(e, "%s: metadata '%s'", f->path, key);
    return 0;
}

// What older checkpoints lack reads as 0.
static int meta_data(const struct safetensors_file *f, int64_t *out, struct err *e) {
    *out = 0;
    return safetensors_get_meta(&f->header, "data") ? meta_int(f, "data", out, e) : 0;
}

static int read_position(const struct safetensors_file *f, struct train_position *at,
                         struct err *e) {
    if (meta_int(f, "step", &at->step, e) < 0 || meta_int(f, "epoch", &at->epoch, e) < 0 ||
        meta_int(f, "consumed", &at->consumed, e) < 0 ||
        meta_int(f, "samples", &at->samples, e) < 0 || meta_int(f, "seed", &at->seed, e) < 0 ||
        meta_data(f, &at->data, e) < 0 || meta_real(f, "best_top1", &at->best_top1, e) < 0 ||
        meta_real(f, "epoch_loss_sum", &at->epoch_loss_sum, e) < 0 ||
        meta_real(f, "epoch_top1_sum", &at->epoch_top1_sum, e) < 0 ||
        meta_real(f, "epoch_images", &at->epoch_images, e) < 0 ||
        meta_real(f, "epoch_seconds", &at->epoch_seconds, e) < 0)
        return -1;
    return 0;
}

int checkpoint_peek(const char *folder, struct train_position *at, struct err *e) {
    struct arena a = {0};
    struct safetensors_file f;
    *at = (struct train_position){0};
    int r = safetensors_open(&f, &a, file_join(&a, folder, "state.safetensors"), e);
    if (r == 0) {
        r = read_position(&f, at, e);
        safetensors_close(&f);
    }
    arena_fini(&a);
    return r;
}

static int read_epochs(const struct safetensors_file *f, struct train_position *at,
                       struct epoch_record *epochs, struct err *e) {
    enum { COLUMNS = sizeof(struct epoch_record) / sizeof(double) };
    const struct safetensors_tensor *t = safetensors_find(&f->header, "epochs");
    if (!t || t->type != SAFETENSORS_F64 || t->ndim != 2 || t->dim[1] != COLUMNS ||
        t->dim[0] > CHECKPOINT_EPOCHS_MAX)
        return err_set(e, ERR_FORMAT, "%s: the table of epochs is missing or malformed", f->path);
    at->epochs_done = (int64_t)t->dim[0];
    return safetensors_read(f, t, epochs, (size_t)t->dim[0] * sizeof *epochs, e);
}

static int read_optimizer(const struct safetensors_file *f, struct network *net,
                          struct optimizer *o, struct arena *a, struct err *e) {
    const char *kind = safetensors_get_meta(&f->header, "optimizer");
    if (!str_eq(kind, train_optimizer_words[o->kind]))
        return err_set(e, ERR_CONFIG,
                       "%s is a checkpoint of optimizer '%s', the run uses '%s': set "
                       "train.optimizer to it, or train.resume to \"never\"",
                       f->path, kind ? kind : "", train_optimizer_words[o->kind]);
    if (meta_int(f, "optimizer_step", &o->step, e) < 0)
        return -1;
    float *scratch[2];
    scratch_open(scratch, net->model);
    int r = 0;
    for (int s = 0; s < net->states; s++)
        for (int i = 0; i < net->model->params && r == 0; i++) {
            const struct nn_param *p = &net->model->param[i];
            const char *name = arena_printf(a, "%s.%s", optimizer_state_name(o, s), p->name);
            r = read_param(f, name, p, net, net->state[s], scratch, e);
        }
    free(scratch[0]);
    free(scratch[1]);
    return r;
}

int checkpoint_read(struct network *net, struct optimizer *o, const char *folder,
                    struct train_position *at, struct epoch_record *epochs, struct err *e) {
    struct arena a = {0};
    struct safetensors_file f;
    *at = (struct train_position){0};
    int r = safetensors_open(&f, &a, file_join(&a, folder, "state.safetensors"), e);
    if (r == 0) {
        r = read_position(&f, at, e);
        if (r == 0)
            r = read_epochs(&f, at, epochs, e);
        if (r == 0)
            r = read_optimizer(&f, net, o, &a, e);
        safetensors_close(&f);
    }
    if (r == 0)
        r = checkpoint_read_model(net, file_join(&a, folder, "model.safetensors"), e);
    at->tracked = net->tracked;
    at->optimizer_kind = o->kind;
    arena_fini(&a);
    return r;
}
