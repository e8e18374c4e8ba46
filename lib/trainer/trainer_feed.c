// SPDX-License-Identifier: Apache-2.0
// Copies the pixels of a batch to the network's input, normalised and augmented by the backend. Has
// the views of each image for evaluations.
#include "base/arena.h"
#include "trainer/trainer_impl.h"

#include <stdlib.h>

// Where a view begins, in both directions, and whether it is mirrored. Jordan, 2024: the image as
// it is counts as much as the two that are shifted.
static const struct view {
    int16_t shift;
    uint8_t mirror;
    double weight;
} one[] = {{0, 0, 1}}, mirror[] = {{0, 0, 0.5}, {0, 1, 0.5}},
  shift[] = {{0, 0, 0.25},   {0, 1, 0.25},  {-1, 0, 0.125},
             {-1, 1, 0.125}, {1, 0, 0.125}, {1, 1, 0.125}};

static const struct {
    const struct view *view;
    int count, pad;
} kinds[TRAIN_VIEWS] = {[TRAIN_VIEWS_ONE] = {one, 1, 0},
                        [TRAIN_VIEWS_MIRROR] = {mirror, 2, 0},
                        [TRAIN_VIEWS_SHIFT] = {shift, 6, 1}};

int trainer_views(const struct trainer *t) {
    return kinds[t->options->eval_views].count;
}

double trainer_view_weight(const struct trainer *t, int view) {
    return kinds[t->options->eval_views].view[view].weight;
}

// Pixels around an image that are its reflection, at most.
static int reflection(const struct trainer *t, bool eval) {
    const struct train_config *o = t->options;
    bool reflect = o->crop_fill == TRAIN_FILL_REFLECT;
    return eval ? kinds[o->eval_views].pad : reflect ? (int)o->crop_pad : 0;
}

int trainer_feed_open(struct trainer *t, struct err *e) {
    const struct dataset *d = &t->train;
    struct feed *f = &t->feed;
    int side = d->height < d->width ? d->height : d->width;
    int pad =
        reflection(t, false) > reflection(t, true) ? reflection(t, false) : reflection(t, true);
    int64_t eval = t->options->eval ? t->options->eval_batch : 0;
    size_t n = (size_t)(eval > t->micro_batch ? eval : t->micro_batch);
    if (pad >= side)
        return err_set(e, ERR_CONFIG,
                       "train.crop_pad of %d pixels cannot be filled by reflection: images are "
                       "%dx%d (try: a lower train.crop_pad)",
                       pad, d->width, d->height);
    f->y = heap_alloc(n * sizeof *f->y);
    f->x = heap_alloc(n * sizeof *f->x);
    f->flip = heap_alloc(n * sizeof *f->flip);
    return 0;
}

void trainer_feed_keep(struct trainer *t) {
    const struct network *net = &t->chunk[0].net;
    const struct dataset *const all[] = {&t->test, &t->train};
    for (int i = 0; i < 2 && net->k->remote && !net->model->has_before; i++)
        t->feed.kept =
            all[i]->pixels && net->k->image_keep(net->ctx, all[i]->pixels,
                                                 all[i]->samples * all[i]->image_bytes) == 0;
}

void trainer_feed_close(struct trainer *t) {
    free(t->feed.y);
    free(t->feed.x);
    free(t->feed.flip);
}

void trainer_feed(struct trainer *t, const struct loader_batch *b, const struct dataset *d,
                  struct network *net, enum network_mode mode, int number) {
    bool eval = mode == NETWORK_EVAL;
    const struct view *view = &kinds[t->options->eval_views].view[number];
    struct feed *f = &t->feed;
    for (int i = 0; i < b->n; i++) {
        f->y[i] = eval ? view->shift : b->offset_y[i];
        f->x[i] = eval ? view->shift : b->offset_x[i];
        f->flip[i] = eval ? view->mirror : b->flip[i];
    }
    struct image_args a = {.n = b->n,
                           .src_h = d->height,
                           .src_w = d->width,
                           .channels = d->channels,
                           .dst_h = d->height,
                           .dst_w = d->width,
                           .src = b->src,
                           .offset_y = f->y,
                           .offset_x = f->x,
                           .flip = f->flip,
                           .reflect = reflection(t, eval) > 0,
                           .out = network_input(net, mode)};
    for (int i = 0; i < d->channels; i++) {
        a.mean[i] = (double)t->augment.mean[i];
        a.std[i] = (double)t->augment.std[i];
    }
    net->k->image_normalize(net->ctx, &a);
}
