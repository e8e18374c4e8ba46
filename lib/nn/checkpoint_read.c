// SPDX-License-Identifier: Apache-2.0
// Reads checkpoints, and weights of other libraries.
#include "nn/checkpoint.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "nn/layer.h"
#include "nn/pretrained.h"
#include "nn/safetensors.h"
#include "sys/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PRETRAINED_TOKENS_MAX = 1 << 20 };

// A file that is being read, and the prefix of the names in it.
struct reading {
    struct safetensors_file file;
    struct arena arena;
    const char *prefix; // of all names
    enum pretrained_kind kind;
    float *scratch; // as large as the largest parameter
};

static int reading_open(struct reading *r, const struct nn_model *m, const char *path,
                        struct err *e) {
    static const char ddp[] = "module.";
    size_t most = 0;
    *r = (struct reading){.prefix = ""};
    if (safetensors_open(&r->file, &r->arena, path, e) < 0) {
        arena_fini(&r->arena);
        return -1;
    }
    const struct safetensors_header *h = &r->file.header;
    char first[PRETRAINED_PARTS_MAX][PRETRAINED_NAME_BYTES_MAX];
    for (int i = PRETRAINED_KINDS - 1; i >= 0; i--) {
        if (pretrained_names((enum pretrained_kind)i, m->param[0].name, first) == 0)
            continue;
        bool bare = safetensors_find(h, first[0]) != NULL;
        if (!bare && !safetensors_find(h, arena_printf(&r->arena, "%s%s", ddp, first[0])))
            continue;
        r->kind = (enum pretrained_kind)i;
        r->prefix = bare ? "" : ddp;
    }
    for (int i = 0; i < m->params; i++)
        most = m->param[i].count > most ? m->param[i].count : most;
    r->scratch = heap_alloc((most + 1) * sizeof(float));
    return 0;
}

static void reading_close(struct reading *r) {
    free(r->scratch);
    safetensors_close(&r->file);
    arena_fini(&r->arena);
}

static const struct safetensors_tensor *find(struct reading *r, const char *name) {
    return safetensors_find(&r->file.header, arena_printf(&r->arena, "%s%s", r->prefix, name));
}

// The tensor with that name and shape.
static const struct safetensors_tensor *expect(struct reading *r, const char *name, int ndim,
                                               const int *dim, struct err *e) {
    const char *path = r->file.path;
    const struct safetensors_tensor *t = find(r, name);
    if (!t) {
        err_set(e, ERR_FORMAT, "%s: there is no tensor '%s' (is it of another model?)", path, name);
        return NULL;
    }
    bool same = t->ndim == ndim;
    for (int i = 0; same && i < ndim; i++)
        same = t->dim[i] == (uint64_t)dim[i];
    if (!same) {
        err_set(e, ERR_FORMAT,
                "%s: tensor '%s' has another shape than here: another model, stem, image size or "
                "number of classes (for other classes: train.new_head)?",
                path, name);
        return NULL;
    }
    return t;
}

// Its numbers.
static int read_reals(struct reading *r, const char *name, int ndim, const int *dim, float *out,
                      size_t count, struct err *e) {
    const struct safetensors_tensor *t = expect(r, name, ndim, dim, e);
    if (!t || safetensors_read_reals(&r->file, t, out, count, e) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (!isfinite(out[i]))
            return err_set(e, ERR_FORMAT,
                           "%s: tensor '%s' holds %g: training had diverged when it was written",
                           r->file.path, name, (double)out[i]);
    return 0;
}

// The layer that adds positions; NULL where p is none.
static const struct nn_layer *positions_of(const struct nn_model *m, const struct nn_param *p) {
    for (int i = 0; i < m->layers; i++)
        if (m->layer[i].op == &nn_op_tokens && &m->param[m->layer[i].param + 1] == p)
            return &m->layer[i];
    return NULL;
}

// Positions of a square image of another size, behind that of the class token. 1: there are none.
static int read_other_positions(struct reading *r, const char *name, const struct nn_param *p,
                                const struct nn_model *m, struct err *e) {
    const struct nn_layer *l = positions_of(m, p);
    const struct safetensors_tensor *t = l ? find(r, name) : NULL;
    if (!t || t->ndim != 3 || t->dim[0] != 1 || t->dim[2] != (uint64_t)p->in ||
        t->dim[1] == (uint64_t)p->out || t->dim[1] < 2 || t->dim[1] > PRETRAINED_TOKENS_MAX)
        return 1;
    const struct nn_layer *x = &m->layer[l->in[0]];
    int side = (int)lround(sqrt((double)(t->dim[1] - 1))), width = p->in;
    if ((uint64_t)side * (uint64_t)side + 1 != t->dim[1])
        return err_set(e, ERR_FORMAT,
                       "%s: '%s' holds %llu positions, which are no class token and a square: they "
                       "cannot be brought to %d x %d",
                       r->file.path, name, (unsigned long long)t->dim[1], x->h, x->w);
    size_t count = (size_t)t->dim[1] * (size_t)width;
    float *theirs = heap_alloc(count * sizeof *theirs);
    int dim[3] = {1, (int)t->dim[1], width};
    int result = read_reals(r, name, 3, dim, theirs, count, e);
    if (result == 0) {
        struct pretrained_grid g = {side, side, x->h, x->w, width};
        memcpy(r->scratch, theirs, (size_t)width * sizeof *theirs);
        pretrained_positions(&g, theirs + width, r->scratch + width);
        log_info("positions of another image size are interpolated",
                 "tensor=%s from=%dx%d to=%dx%d", name, side, side, x->h, x->w);
    }
    free(theirs);
    return result;
}

// The numbers of p in disk order, to r->scratch: of one tensor, or of several along the first
// dimension.
static int read_parts(struct reading *r, const char *name, const struct nn_param *p,
                      const struct nn_model *m, struct err *e) {
    char names[PRETRAINED_PARTS_MAX][PRETRAINED_NAME_BYTES_MAX];
    int dim[4], ndim = model_disk_shape(p, dim), parts = pretrained_names(r->kind, name, names);
    if (parts == 0)
        return err_set(e, ERR_FORMAT, "%s: no tensor of such a file belongs to '%s'", r->file.path,
                       name);
    int other = parts == 1 ? read_other_positions(r, names[0], p, m, e) : 1;
    if (other <= 0)
        return other;
    dim[0] /= parts;
    size_t count = p->count / (size_t)parts;
    for (int i = 0; i < parts; i++)
        if (read_reals(r, names[i], ndim, dim, r->scratch + (size_t)i * count, count, e) < 0)
            return -1;
    return 0;
}

static int read_param(struct reading *r, const struct nn_model *m, const char *name,
                      const struct nn_param *p, float *flat, struct err *e) {
    if (read_parts(r, name, p, m, e) < 0)
        return -1;
    model_from_disk(p, r->scratch, flat + p->begin);
    return 0;
}

static int read_stats(struct reading *r, struct checkpoint_image *c, struct err *e) {
    static const char *const suffix[2] = {"running_mean", "running_var"};
    const struct nn_model *m = c->model;
    int64_t *tracked = &c->at.tracked;
    *tracked = 0; // files of some tools lack it
    for (int i = 0; i < m->stats; i++) {
        const struct nn_stat *s = &m->stat[i];
        const size_t part[2] = {s->mean, s->var}, count = (size_t)s->channels;
        for (int j = 0; j < 2; j++) {
            const char *name = arena_printf(&r->arena, "%s.%s", s->name, suffix[j]);
            if (read_reals(r, name, 1, &s->channels, c->stats + part[j], count, e) < 0)
                return -1;
        }
        const char *name = arena_printf(&r->arena, "%s.num_batches_tracked", s->name);
        const struct safetensors_tensor *t = find(r, name);
        if (t && t->type != SAFETENSORS_I64)
            return err_set(e, ERR_FORMAT, "%s: tensor '%s' is %s, not I64", r->file.path, name,
                           safetensors_type_name(t->type));
        if (t && (!expect(r, name, 0, NULL, e) ||
                  safetensors_read(&r->file, t, tracked, sizeof *tracked, e) < 0))
            return -1;
    }
    return 0;
}

int checkpoint_read_model(struct checkpoint_image *c, const char *path, bool new_head,
                          struct err *e) {
    const struct nn_model *m = c->model;
    const struct nn_layer *head = &m->layer[m->layers - 1];
    int params = new_head ? head->param : m->params;
    struct reading r;
    if (reading_open(&r, m, path, e) < 0)
        return -1;
    int result = 0;
    for (int i = 0; i < params && result == 0; i++)
        result = read_param(&r, m, m->param[i].name, &m->param[i], c->params, e);
    if (result == 0)
        result = read_stats(&r, c, e);
    reading_close(&r);
    return result;
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

// Members that older checkpoints lack are 0.
static int meta_data(const struct safetensors_file *f, int64_t *out, struct err *e) {
    *out = 0;
    return safetensors_get_meta(&f->header, "data") ? meta_int(f, "data", out, e) : 0;
}

// Checkpoints of runs without f16, and older ones, have no scale of the loss: 0.
static int meta_loss_scale(const struct safetensors_file *f, struct train_position *at,
                           struct err *e) {
    at->loss_scale = at->loss_scale_good = 0;
    if (!safetensors_get_meta(&f->header, "loss_scale"))
        return 0;
    if (meta_real(f, "loss_scale", &at->loss_scale, e) < 0 ||
        meta_real(f, "loss_scale_good", &at->loss_scale_good, e) < 0)
        return -1;
    if (!(at->loss_scale >= STEP_SCALE_LEAST && at->loss_scale <= STEP_SCALE_MOST))
        return err_set(e, ERR_FORMAT, "%s: metadata 'loss_scale' is %g, not between %g and %g",
                       f->path, at->loss_scale, STEP_SCALE_LEAST, STEP_SCALE_MOST);
    if (!(at->loss_scale_good >= 0 && at->loss_scale_good < STEP_SCALE_UPDATES))
        return err_set(e, ERR_FORMAT, "%s: metadata 'loss_scale_good' is %g, not between 0 and %d",
                       f->path, at->loss_scale_good, STEP_SCALE_UPDATES - 1);
    return 0;
}

static int read_position(const struct safetensors_file *f, struct train_position *at,
                         struct err *e) {
    if (meta_int(f, "step", &at->step, e) < 0 || meta_int(f, "epoch", &at->epoch, e) < 0 ||
        meta_int(f, "consumed", &at->consumed, e) < 0 ||
        meta_int(f, "samples", &at->samples, e) < 0 || meta_int(f, "seed", &at->seed, e) < 0 ||
        meta_data(f, &at->data, e) < 0 || meta_loss_scale(f, at, e) < 0 ||
        meta_real(f, "best_top1", &at->best_top1, e) < 0 ||
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

static int read_epochs(const struct safetensors_file *f, struct checkpoint_image *c,
                       struct err *e) {
    enum { COLUMNS = sizeof(struct epoch_record) / sizeof(double) };
    const struct safetensors_tensor *t = safetensors_find(&f->header, "epochs");
    if (!t || t->type != SAFETENSORS_F64 || t->ndim != 2 || t->dim[1] != COLUMNS ||
        t->dim[0] > CHECKPOINT_EPOCHS_MAX)
        return err_set(e, ERR_FORMAT, "%s: the table of epochs is missing or malformed", f->path);
    c->at.epochs_done = (int64_t)t->dim[0];
    c->epochs = heap_realloc(c->epochs, ((size_t)t->dim[0] + 1) * sizeof *c->epochs);
    return safetensors_read(f, t, c->epochs, (size_t)t->dim[0] * sizeof *c->epochs, e);
}

static int read_state(struct reading *r, struct checkpoint_image *c, const struct optimizer *o,
                      int state, struct err *e) {
    for (int i = 0; i < c->model->params; i++) {
        const struct nn_param *p = &c->model->param[i];
        const char *name =
            arena_printf(&r->arena, "%s.%s", optimizer_state_name(o, state), p->name);
        if (read_param(r, c->model, name, p, c->state[state], e) < 0)
            return -1;
    }
    return 0;
}

static bool has_state(struct reading *r, const struct checkpoint_image *c,
                      const struct optimizer *o, int state) {
    const char *name = c->model->param[0].name;
    return find(r, arena_printf(&r->arena, "%s.%s", optimizer_state_name(o, state), name));
}

// *has_ema false: the checkpoint is of a run without an average of weights. One of a run without
// rounds gives the outer optimizer no momentum.
static int read_optimizer(struct reading *r, struct checkpoint_image *c, struct optimizer *o,
                          bool *has_ema, struct err *e) {
    const char *kind = safetensors_get_meta(&r->file.header, "optimizer");
    if (!str_eq(kind, train_optimizer_words[o->kind]))
        return err_set(e, ERR_CONFIG,
                       "%s is a checkpoint of optimizer '%s', the run uses '%s': set "
                       "train.optimizer to it, or train.resume to \"never\"",
                       r->file.path, kind ? kind : "", train_optimizer_words[o->kind]);
    if (meta_int(&r->file, "optimizer_step", &o->step, e) < 0)
        return -1;
    for (int s = 0; s < c->states; s++) {
        bool may_lack = s == optimizer_ema(o) || s == optimizer_outer(o);
        if (may_lack && !has_state(r, c, o, s)) {
            *has_ema = *has_ema && s != optimizer_ema(o);
            memset(c->state[s], 0, c->model->param_elements * sizeof *c->state[s]);
        } else if (read_state(r, c, o, s, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int checkpoint_read(struct checkpoint_image *c, struct optimizer *o, const char *folder,
                    struct err *e) {
    struct arena a = {0};
    struct reading r;
    bool has_ema = true;
    c->at = (struct train_position){0};
    int result = reading_open(&r, c->model, file_join(&a, folder, "state.safetensors"), e);
    if (result == 0) {
        result = read_position(&r.file, &c->at, e);
        if (result == 0)
            result = read_epochs(&r.file, c, e);
        if (result == 0)
            result = read_optimizer(&r, c, o, &has_ema, e);
        reading_close(&r);
    }
    if (result == 0)
        result = checkpoint_read_model(c, file_join(&a, folder, "model.safetensors"), false, e);
    if (result == 0 && !has_ema)
        memcpy(c->state[optimizer_ema(o)], c->params, c->model->param_elements * sizeof *c->params);
    c->at.optimizer_kind = o->kind;
    arena_fini(&a);
    return result;
}
