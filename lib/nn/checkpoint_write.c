// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints.
#include "nn/checkpoint.h"

#include "base/arena.h"
#include "base/str.h"
#include "nn/safetensors.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

void checkpoint_image_init(struct checkpoint_image *c, const struct nn_model *m, int states) {
    *c = (struct checkpoint_image){.model = m, .states = states};
    c->params = heap_alloc(m->param_elements * sizeof(float));
    c->stats = heap_alloc((m->stat_elements + 1) * sizeof(float));
    for (int i = 0; i < states; i++)
        c->state[i] = heap_alloc(m->param_elements * sizeof(float));
}

void checkpoint_image_fini(struct checkpoint_image *c) {
    free(c->params);
    free(c->stats);
    for (int i = 0; i < c->states; i++)
        free(c->state[i]);
    free(c->epochs);
    *c = (struct checkpoint_image){0};
}

void checkpoint_image_take(struct checkpoint_image *c, const struct network *net) {
    const struct nn_model *m = c->model;
    network_get(net, net->params, 0, m->param_elements, c->params);
    network_get(net, net->stats, 0, m->stat_elements, c->stats);
    for (int i = 0; i < c->states; i++)
        network_get(net, net->state[i], 0, m->param_elements, c->state[i]);
}

void checkpoint_image_give(const struct checkpoint_image *c, struct network *net) {
    const struct nn_model *m = c->model;
    network_set(net, net->params, 0, m->param_elements, c->params);
    network_set(net, net->stats, 0, m->stat_elements, c->stats);
    for (int i = 0; i < c->states; i++)
        network_set(net, net->state[i], 0, m->param_elements, c->state[i]);
    net->tracked = c->at.tracked;
}

void checkpoint_image_note(struct checkpoint_image *c, const struct optimizer *o,
                           const struct train_position *at, const struct epoch_record *epochs) {
    c->optimizer = *o;
    c->at = *at;
    c->epochs = heap_realloc(c->epochs, ((size_t)at->epochs_done + 1) * sizeof *c->epochs);
    memcpy(c->epochs, epochs, (size_t)at->epochs_done * sizeof *c->epochs);
}

// Tensors of a file under construction, and where their numbers come from.
struct listing {
    struct safetensors_header header;
    struct source {
        const float *values;
        const struct nn_param *param; // of params and states: to be put into disk order
        const int64_t *integer;
        const double *reals;
    } * source;
    size_t room;
    struct arena arena;
};

static void listing_init(struct listing *l, const struct nn_model *m) {
    *l = (struct listing){0};
    l->room = (size_t)m->params * (1 + NETWORK_STATES_MAX) + (size_t)m->stats * 3 + 1;
    l->header.tensors = arena_new(&l->arena, struct safetensors_tensor, l->room);
    l->source = arena_new(&l->arena, struct source, l->room);
    l->header.meta = arena_new(&l->arena, struct safetensors_meta, 32);
}

static struct safetensors_tensor *listing_add(struct listing *l, const char *name,
                                              enum safetensors_type type, struct source source) {
    must(l->header.count < l->room);
    l->source[l->header.count] = source;
    struct safetensors_tensor *t = &l->header.tensors[l->header.count++];
    t->name = name;
    t->type = type;
    return t;
}

static void listing_add_param(struct listing *l, const char *name, const struct nn_param *p,
                              const float *flat) {
    struct safetensors_tensor *t = listing_add(
        l, name, SAFETENSORS_F32, (struct source){.values = flat + p->begin, .param = p});
    int dim[4];
    t->ndim = model_disk_shape(p, dim);
    for (int i = 0; i < t->ndim; i++)
        t->dim[i] = (uint64_t)dim[i];
}

static void listing_meta(struct listing *l, const char *key, const char *value) {
    l->header.meta[l->header.meta_count++] = (struct safetensors_meta){key, value};
}

static void listing_meta_int(struct listing *l, const char *key, int64_t value) {
    listing_meta(l, key, arena_printf(&l->arena, "%lld", (long long)value));
}

static void listing_meta_real(struct listing *l, const char *key, double value) {
    listing_meta(l, key, arena_printf(&l->arena, "%.17g", value));
}

static int put_tensor(struct safetensors_writer *w, const struct safetensors_tensor *t,
                      const struct source *s, float *scratch, struct err *e) {
    size_t bytes = (size_t)(t->end - t->begin);
    if (s->integer)
        return safetensors_put(w, s->integer, bytes, e);
    if (s->reals)
        return safetensors_put(w, s->reals, bytes, e);
    if (!s->param)
        return safetensors_put(w, s->values, bytes, e);
    model_to_disk(s->param, s->values, scratch);
    return safetensors_put(w, scratch, bytes, e);
}

static int listing_write(struct listing *l, const char *path, struct err *e) {
    struct safetensors_writer w;
    uint64_t most = 0;
    if (safetensors_create(&w, path, &l->header, e) < 0)
        return -1;
    for (size_t i = 0; i < l->header.count; i++) {
        uint64_t bytes = l->header.tensors[i].end - l->header.tensors[i].begin;
        most = bytes > most ? bytes : most;
    }
    float *scratch = heap_alloc((size_t)most + 1);
    int r = 0;
    for (size_t i = 0; i < l->header.count && r == 0; i++)
        r = put_tensor(&w, &l->header.tensors[i], &l->source[i], scratch, e);
    free(scratch);
    if (r < 0) {
        safetensors_abort(&w);
        return -1;
    }
    return safetensors_commit(&w, e);
}

static void list_model(struct listing *l, const struct checkpoint_image *c, const float *params) {
    const struct nn_model *m = c->model;
    for (int i = 0; i < m->stats; i++) // eight-byte numbers first, so that all are aligned
        listing_add(l, arena_printf(&l->arena, "%s.num_batches_tracked", m->stat[i].name),
                    SAFETENSORS_I64, (struct source){.integer = &c->at.tracked});
    for (int i = 0; i < m->params; i++)
        listing_add_param(l, m->param[i].name, &m->param[i], params);
    for (int i = 0; i < m->stats; i++) {
        const struct nn_stat *s = &m->stat[i];
        const size_t part[2] = {s->mean, s->var};
        static const char *const suffix[2] = {"running_mean", "running_var"};
        for (int j = 0; j < 2; j++) {
            struct safetensors_tensor *t =
                listing_add(l, arena_printf(&l->arena, "%s.%s", s->name, suffix[j]),
                            SAFETENSORS_F32, (struct source){.values = c->stats + part[j]});
            t->ndim = 1;
            t->dim[0] = (uint64_t)s->channels;
        }
    }
    listing_meta(l, "format", "pt");
    listing_meta(l, "model", c->model_name);
    if (c->stem[0])
        listing_meta(l, "stem", c->stem);
    listing_meta_int(l, "classes", m->classes);
    listing_meta_int(l, "step", c->at.step);
}

static int write_model(const struct checkpoint_image *c, const float *params, const char *path,
                       struct err *e) {
    struct listing l;
    listing_init(&l, c->model);
    list_model(&l, c, params);
    int r = listing_write(&l, path, e);
    arena_fini(&l.arena);
    return r;
}

int checkpoint_write_model(const struct checkpoint_image *c, const char *path, struct err *e) {
    int ema = optimizer_ema(&c->optimizer);
    return write_model(c, ema < 0 ? c->params : c->state[ema], path, e);
}

static int write_state(const struct checkpoint_image *c, const char *path, struct err *e) {
    const struct nn_model *m = c->model;
    const struct train_position *at = &c->at;
    struct listing l;
    listing_init(&l, m);
    struct safetensors_tensor *t = listing_add(&l, "epochs", SAFETENSORS_F64,
                                               (struct source){.reals = (const double *)c->epochs});
    t->ndim = 2;
    t->dim[0] = (uint64_t)at->epochs_done;
    t->dim[1] = sizeof(struct epoch_record) / sizeof(double);
    for (int s = 0; s < c->states; s++)
        for (int i = 0; i < m->params; i++)
            listing_add_param(&l,
                              arena_printf(&l.arena, "%s.%s",
                                           optimizer_state_name(&c->optimizer, s),
                                           m->param[i].name),
                              &m->param[i], c->state[s]);
    listing_meta(&l, "format", "pt");
    listing_meta(&l, "optimizer", train_optimizer_words[c->optimizer.kind]);
    listing_meta_int(&l, "optimizer_step", c->optimizer.step);
    listing_meta_int(&l, "step", at->step);
    listing_meta_int(&l, "epoch", at->epoch);
    listing_meta_int(&l, "consumed", at->consumed);
    listing_meta_int(&l, "samples", at->samples);
    listing_meta_int(&l, "seed", at->seed);
    listing_meta_int(&l, "data", at->data);
    listing_meta(&l, "dataset", c->dataset);
    listing_meta_real(&l, "best_top1", at->best_top1);
    if (at->loss_scale > 0) {
        listing_meta_real(&l, "loss_scale", at->loss_scale);
        listing_meta_real(&l, "loss_scale_good", at->loss_scale_good);
    }
    listing_meta_real(&l, "epoch_loss_sum", at->epoch_loss_sum);
    listing_meta_real(&l, "epoch_top1_sum", at->epoch_top1_sum);
    listing_meta_real(&l, "epoch_images", at->epoch_images);
    listing_meta_real(&l, "epoch_seconds", at->epoch_seconds);
    int r = listing_write(&l, path, e);
    arena_fini(&l.arena);
    return r;
}

int checkpoint_write(const struct checkpoint_image *c, const char *dir, int keep_last,
                     struct err *e) {
    struct arena a = {0};
    const char *temporary = file_join(&a, dir, ".checkpoint.new");
    int r = -1;
    if (file_make_dirs(dir, 0755, e) == 0 && file_remove_tree(temporary, e) == 0 &&
        file_make_dirs(temporary, 0755, e) == 0 &&
        write_model(c, c->params, file_join(&a, temporary, "model.safetensors"), e) == 0 &&
        write_state(c, file_join(&a, temporary, "state.safetensors"), e) == 0)
        r = checkpoint_place(dir, temporary, c->at.step, e);
    if (r == 0) {
        checkpoint_remove_old(dir, c->at.step, keep_last);
    } else { // remove the partial checkpoint, which also frees space on a full disk
        struct err ignored = {0};
        (void)file_remove_tree(temporary, &ignored);
    }
    arena_fini(&a);
    return r < 0 ? err_wrap(e, "checkpoint at step %lld", (long long)c->at.step) : 0;
}
