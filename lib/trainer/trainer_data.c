// SPDX-License-Identifier: Apache-2.0
// The data of a run: from options to two data sets, and to samplers and loaders over them.
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "nn/whiten.h"
#include "sys/file.h"
#include "trainer/trainer_impl.h"

#include <math.h>
#include <stdlib.h>

enum {
    DECODE_LINE_EVERY_MS = 2000,
    STOP_LOOK_EVERY_MS = 500,
    RANDOM_CROP_SIZE = 224, // where train.image_size says nothing
    LOADER_AHEAD = 4,       // batches in the ring of a loader that decodes
    WAITING_THREADS = 8     // at least, where they wait for images of a streamed input
};

// Means and deviations of ImageNet's and of CIFAR-10's training images.
static const struct {
    float mean[3], std[3];
} norms[TRAIN_NORMALIZES] = {
    [TRAIN_NORM_IMAGENET] = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
    [TRAIN_NORM_CIFAR10] = {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}},
    [TRAIN_NORM_NONE] = {{0, 0, 0}, {1, 1, 1}},
};

// Of lib/data; NULL: what the source looks like.
static const char *data_kind(int dataset) {
    bool look = dataset == TRAIN_DATA_AUTO || dataset == TRAIN_DATA_IMAGEFOLDER;
    return look ? NULL : train_dataset_words[dataset];
}

struct decode_line {
    struct trainer *t;
    int64_t next_ms;
    const char *what;
};

static int check_stop(const struct trainer *t, struct err *e) {
    return t->config->stop && *t->config->stop
               ? err_set(e, ERR_INTERRUPTED, "stopped by a signal before the first step")
               : 0;
}

int trainer_data_await(const struct trainer *t, const char *key, void *value, size_t cap,
                       size_t *len, struct err *e) {
    const struct comm_kv *kv = &t->config->comm.kv;
    int64_t end = clock_mono_ms() + DATASET_LOCK_WAIT_MS_MAX;
    do {
        if (check_stop(t, e) < 0)
            return -1;
        if (kv->get(kv->ctx, key, value, cap, len, STOP_LOOK_EVERY_MS, e) == 0)
            return 0;
    } while (e->code == ERR_TIMEOUT && clock_mono_ms() < end);
    return -1;
}

static int say_decoding(void *ctx, uint64_t done, uint64_t total, struct err *e) {
    struct decode_line *l = ctx;
    int64_t now = clock_mono_ms();
    if (check_stop(l->t, e) < 0)
        return -1;
    if (now < l->next_ms)
        return 0;
    l->next_ms = now + DECODE_LINE_EVERY_MS;
    trainer_say(l->t, "decoding %s: %llu of %llu images", l->what, (unsigned long long)done,
                (unsigned long long)total);
    return 0;
}

static bool comes(const struct dataset_config *c) {
    return c->source && dataset_is_served(c->source);
}

// Training cuts a random part where that is asked for; evaluation, as always: the middle of an
// image that was made a little larger than the part (256 for 224, as torchvision's examples have
// it).
static void set_transforms(const struct train_config *o, bool train, struct dataset_config *c) {
    bool random = o->random_resized_crop;
    c->image_size = o->image_size > 0 || !random ? (int)o->image_size : RANDOM_CROP_SIZE;
    c->stream = o->decode == TRAIN_DECODE_STREAM ||
                (o->decode == TRAIN_DECODE_AUTO && (random || comes(c)));
    c->random_crop = train && random;
    if (!train && o->eval_resize > 0)
        c->resize = (int)o->eval_resize;
    else if (!train && random)
        c->resize = c->image_size * 8 / 7;
}

static int check_split(const struct train_config *o, const struct dataset_config *c,
                       struct err *e) {
    if (!c->source)
        return err_set(
            e, ERR_CONFIG,
            "train.dataset names a kind of data, and there is none (try: set train.data, "
            "or add an input named 'data')");
    if (o->decode == TRAIN_DECODE_ONCE && comes(c))
        return err_set(
            e, ERR_CONFIG,
            "train.decode=once decodes all images before the first step, and with "
            "deliver=stream they come later (try: train.decode=stream, or deliver=copy)");
    if (c->random_crop && o->decode == TRAIN_DECODE_ONCE)
        return err_set(e, ERR_CONFIG,
                       "train.random_resized_crop cuts another part in every epoch, and "
                       "train.decode=once keeps one (try: train.decode=stream)");
    return 0;
}

// like: class ids of all nodes; NULL: those of the data. survey: what there is, without its pixels.
static int open_split(struct trainer *t, struct dataset *d, enum dataset_split split,
                      const struct dataset *like, bool survey, struct err *e) {
    const struct train_config *o = t->options;
    bool shapes =
        o->dataset == TRAIN_DATA_SHAPES || (o->dataset == TRAIN_DATA_AUTO && !t->config->data);
    bool train = split == DATASET_TRAIN, alone = !train && t->config->val && !shapes;
    int fewer = (int)ceil(t->limits.cpus);
    struct decode_line line = {t, clock_mono_ms() + DECODE_LINE_EVERY_MS,
                               train ? "training data" : "test data"};
    struct dataset_config c = {
        .source = shapes  ? "shapes"
                  : alone ? t->config->val
                          : t->config->data,
        .kind = shapes ? "shapes" : data_kind(o->dataset),
        .split = split,
        .alone = alone,
        .like = like    ? like
                : alone ? &t->train
                        : NULL,
        .cache_dir = t->config->cache_dir,
        .on_bad = o->on_bad_sample == TRAIN_BAD_SKIP ? DATASET_BAD_SKIP : DATASET_BAD_REFUSE,
        .bad_max = (int)o->bad_samples_max,
        .threads = o->decode_threads                ? (int)o->decode_threads
                   : fewer < CPU_COUNT(&t->allowed) ? fewer
                                                    : 0,
        .seed = (uint64_t)o->seed,
        .samples_max = shapes ? (uint32_t)(train ? o->train_size : o->test_size) : 0,
        .progress = say_decoding,
        .progress_ctx = &line,
    };
    set_transforms(o, train, &c);
    c.stream = c.stream || survey;
    if (check_split(o, &c, e) < 0)
        return -1;
    if (dataset_open(d, &c, e) < 0)
        return err_wrap(e, "%s", line.what);
    if (o->dataset == TRAIN_DATA_IMAGEFOLDER && !str_eq(d->kind, "imagefolder") &&
        !str_eq(d->kind, "tar"))
        return err_set(e, ERR_CONFIG, "%s is a data set of kind '%s', not an image folder",
                       c.source, d->kind);
    return 0;
}

static void set_augment(struct trainer *t) {
    const struct train_config *o = t->options;
    t->augment = (struct augment_config){.flip = o->flip,
                                         .alternate = o->flip_alternate,
                                         .crop_pad = (int)o->crop_pad,
                                         .seed = (uint64_t)o->seed};
    for (size_t i = 0; i < 3; i++) {
        t->augment.mean[i] =
            i < o->mean.count ? (float)o->mean.items[i] : norms[o->normalize].mean[i];
        t->augment.std[i] = i < o->std.count ? (float)o->std.items[i] : norms[o->normalize].std[i];
    }
}

int trainer_decode_threads(const struct trainer *t, const struct dataset *d) {
    int64_t wanted = t->options->decode_threads;
    if (d->pixels)
        return 0;
    if (wanted == 0) {
        int local = t->config->comm.local_world, own = CPU_COUNT(&t->allowed);
        int all = t->config->device ? t->config->device->processors : own;
        wanted = cores_decoding(all, own, &t->limits, local > 0 ? local : 1);
        if (dataset_waits(d) && wanted < WAITING_THREADS)
            wanted = WAITING_THREADS;
    }
    return wanted < 1 ? 1 : wanted > LOADER_THREADS_MAX ? LOADER_THREADS_MAX : (int)wanted;
}

// The place of a rank among those that read the same images: of its node, where every node has its
// own.
static int open_shard(struct trainer *t, struct shard *s, const struct dataset *d, int rank,
                      int world, bool eval, struct err *e) {
    const struct train_config *o = t->options;
    const struct comm_config *c = &t->config->comm;
    const struct data_shares *x = &t->shares[eval ? DATASET_TEST : DATASET_TRAIN];
    struct sampler_config sampler = {
        .samples = d->samples,
        .rank = x->on ? c->local_rank : rank,
        .world = x->on ? c->local_world : world,
        .each = eval ? 0 : x->each,
        .shuffle = !eval,
        .tail = eval           ? SAMPLER_EXACT
                : o->drop_last ? SAMPLER_DROP
                               : SAMPLER_PAD,
        .seed = (uint64_t)o->seed,
    };
    struct loader_config loader = {.data = d,
                                   .augment = t->augment,
                                   .batch = eval ? (int)o->eval_batch : t->micro_batch,
                                   .threads = trainer_decode_threads(t, d),
                                   .depth = d->pixels ? 0 : LOADER_AHEAD,
                                   .raw = true};
    if (sampler_open(&s->sampler, &sampler, e) < 0)
        return -1;
    return loader_open(&s->loader, &loader, e);
}

// Opens a split of which this node has a share. A node may have no test images; that it has no
// training images is an error of all nodes. Class ids of the training images are known only once
// all nodes have reported theirs, so those are not decoded before.
static int open_share(struct trainer *t, struct dataset *d, enum dataset_split split,
                      struct err *e) {
    struct arena names = {0};
    struct dataset survey = {0}, like = {0};
    bool train = split == DATASET_TRAIN;
    struct dataset *own = train ? &survey : d;
    int r = open_split(t, own, split, train ? NULL : &t->train, train, e);
    if (r < 0 && e->code == ERR_NOT_FOUND) { // which the others must learn
        if (train)
            log_warn("this node has no training images", "reason=\"%s\"", e->text);
        r = 0;
    }
    if (r == 0)
        r = trainer_data_shares_exchange(t, split, own, &like, &names, e);
    dataset_close(&survey);
    if (r == 0 && train)
        r = open_split(t, d, split, &like, false, e);
    if (r == 0 && train && d->classes != like.classes)
        r = err_set(e, ERR_CONFIG,
                    "the nodes have %d classes together, and this one cannot number its %d like "
                    "them: data of kind '%s' cannot be shared out (try: inputs.NAME.mode "
                    "replicated)",
                    like.classes, d->classes, d->kind);
    arena_fini(&names);
    return r;
}

static int open_either(struct trainer *t, struct dataset *d, enum dataset_split split,
                       struct err *e) {
    struct data_shares *x = &t->shares[split];
    bool val = split == DATASET_TEST && t->config->val;
    x->on = t->config->comm.nodes > 1 && t->config->comm.kv.get &&
            (val ? t->config->val_shared_out : t->config->data_shared_out);
    if (x->on)
        return open_share(t, d, split, e);
    if (open_split(t, d, split, NULL, false, e) < 0)
        return -1;
    x->images = d->samples;
    return 0;
}

static int check_test(const struct trainer *t, struct err *e) {
    if (t->test.samples == 0) // other nodes have them
        return 0;
    if (t->test.height != t->train.height || t->test.width != t->train.width)
        return err_set(e, ERR_CONFIG,
                       "training images are %dx%d, test images %dx%d: set "
                       "train.image_size",
                       t->train.width, t->train.height, t->test.width, t->test.height);
    if (t->test.classes > t->train.classes)
        return err_set(e, ERR_CONFIG, "the test data has %d classes, the training data %d",
                       t->test.classes, t->train.classes);
    return 0;
}

int trainer_data_digest(struct trainer *t, struct err *e) {
    if (!t->data_digest && t->shares[DATASET_TRAIN].on)
        t->data_digest = trainer_data_shares_digest(t);
    return t->data_digest ? 0 : dataset_digest(&t->train, &t->data_digest, e);
}

int trainer_data_open(struct trainer *t, struct err *e) {
    const struct train_config *o = t->options;
    if (open_either(t, &t->train, DATASET_TRAIN, e) < 0)
        return -1;
    if (!dataset_waits(&t->train) && trainer_data_digest(t, e) < 0)
        return -1;
    if (o->eval && (open_either(t, &t->test, DATASET_TEST, e) < 0 || check_test(t, e) < 0))
        return -1;
    set_augment(t);
    int local = trainer_local_shards(t), data = t->mesh.data;
    for (int i = 0; i < local; i++)
        if (open_shard(t, &t->shard[i], &t->train, local == 1 ? t->data_rank : i, t->shards, false,
                       e) < 0)
            return -1;
    return t->test.samples ? open_shard(t, &t->eval, &t->test, t->data_rank, data, true, e) : 0;
}

int trainer_data_survey(struct trainer *t, struct err *e) {
    const struct train_config *o = t->options;
    const char *data = t->config->data;
    bool known = o->image_size > 0 && o->classes > 0;
    if (known && o->dataset != TRAIN_DATA_SHAPES &&
        (data ? !file_exists(data) : o->dataset != TRAIN_DATA_AUTO)) {
        int side = (int)o->image_size;
        t->train = (struct dataset){.kind = "unknown",
                                    .height = side,
                                    .width = side,
                                    .channels = 3,
                                    .classes = (int)o->classes};
        return 0;
    }
    if (open_split(t, &t->train, DATASET_TRAIN, NULL, true, e) == 0 &&
        (!o->eval || open_split(t, &t->test, DATASET_TEST, NULL, true, e) == 0))
        return 0;
    e->code = ERR_NOT_FOUND; // the settings may be fine where the run has its data
    return known ? -1
                 : err_wrap(e, "data on this computer (try: train.image_size and "
                               "train.classes, and a plan without it)");
}

static size_t ring_bytes(const struct dataset *d, int64_t batch) {
    size_t bytes = LOADER_AHEAD * (size_t)batch * (size_t)(d->height * d->width * d->channels);
    return bytes < LOADER_RING_BYTES_MAX ? bytes : LOADER_RING_BYTES_MAX;
}

size_t trainer_data_bytes(const struct trainer *t) {
    const struct dataset *d[] = {&t->train, &t->test};
    const int64_t batch[] = {t->micro_batch, t->options->eval_batch};
    struct dataset_config stream = {.source = t->config->data};
    size_t bytes = 0;
    set_transforms(t->options, true, &stream);
    for (int i = 0; i < 2; i++)
        if (d[i]->store)
            bytes += stream.stream ? dataset_memory_bytes(d[i]) + ring_bytes(d[i], batch[i])
                                   : (size_t)d[i]->samples * d[i]->image_bytes;
    return bytes;
}

// ---- weights from the data ---------------------------------------------------------------------

// The first images, as they are stored; of a stream, as its first epoch has them.
static int add_images(struct trainer *t, struct whiten *w, struct err *e) {
    struct dataset_reader *reader = NULL;
    const struct dataset *d = &t->train;
    int64_t wanted = t->options->whiten_images, count = d->samples;
    if (!d->pixels && dataset_reader_open(&reader, d, e) < 0)
        return -1;
    uint8_t *pixels = heap_alloc(d->image_bytes);
    int r = 0;
    for (int64_t i = 0; i < count && i < wanted && r == 0; i++) {
        int32_t label;
        const uint8_t *image = d->pixels ? dataset_image(d, (uint32_t)i) : pixels;
        if (!d->pixels)
            r = dataset_read(reader, (uint32_t)i, t->augment.seed, 0, pixels, &label, e);
        if (r == 0)
            whiten_add(w, image, d->height, d->width, t->augment.mean, t->augment.std);
    }
    free(pixels);
    dataset_reader_close(reader);
    return r;
}

// Rank 0 finds the weights, since with a sharded input each node has other images.
int trainer_whiten(struct trainer *t, struct err *e) {
    const struct nn_layer *l = &t->model->layer[t->model->whiten];
    if (!t->model->whiten)
        return 0;
    const struct nn_param *p = &t->model->param[l->param];
    float *filters = heap_alloc(p->count * sizeof *filters);
    int64_t bad = 0;
    struct err why = {0};
    if (t->rank == 0) {
        struct whiten w;
        whiten_begin(&w, l->as.window.kernel, t->train.channels);
        bad = add_images(t, &w, &why) < 0;
        if (!bad)
            whiten_filters(&w, filters);
        whiten_end(&w);
    }
    int r = comm_broadcast(t->comm, &bad, sizeof bad, 0, e);
    if (r == 0 && !bad)
        r = comm_broadcast(t->comm, filters, p->count * sizeof *filters, 0, e);
    struct network *net = &t->chunk[0].net;
    if (r == 0 && !bad && !net->model->has_before)
        network_set(net, net->params, p->begin, p->count, filters);
    free(filters);
    if (bad && t->rank == 0)
        *e = why;
    if (r < 0 || bad)
        return t->rank == 0 || r < 0
                   ? err_wrap(e, "whitening the first layer")
                   : err_set(e, ERR_FAILED, "rank 0 could not whiten the first layer");
    return 0;
}

void trainer_data_close(struct trainer *t) {
    for (int i = 0; i < TRAINER_SHARDS_MAX; i++) {
        loader_close(t->shard[i].loader);
        sampler_close(&t->shard[i].sampler);
    }
    loader_close(t->eval.loader);
    sampler_close(&t->eval.sampler);
    dataset_close(&t->train);
    dataset_close(&t->test);
}

// ---- bad samples -------------------------------------------------------------------------------

struct bad_list {
    uint32_t share; // of which node, where every node has its own
    uint32_t count, index[DATASET_BAD_MAX];
};

static int compare_sample(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

// How many different samples all ranks together found bad.
static int count_bad(struct trainer *t, enum dataset_split split, int64_t *count, struct err *e) {
    const struct dataset *d = split == DATASET_TRAIN ? &t->train : &t->test;
    struct bad_list *mine = heap_alloc(sizeof *mine);
    struct bad_list *all = heap_alloc((size_t)t->world * sizeof *all);
    uint64_t *union_of = heap_alloc((size_t)t->world * DATASET_BAD_MAX * sizeof *union_of);
    size_t n = 0;
    mine->share = t->shares[split].on ? (uint32_t)t->config->comm.node : 0;
    mine->count = d->samples ? dataset_bad_list(d, mine->index) : 0;
    int r = comm_all_gather(t->comm, mine, all, sizeof *mine, e);
    for (int k = 0; k < t->world && r == 0; k++)
        for (uint32_t i = 0; i < all[k].count && i < DATASET_BAD_MAX; i++)
            union_of[n++] = (uint64_t)all[k].share << 32 | all[k].index[i];
    qsort(union_of, n, sizeof *union_of, compare_sample);
    *count = 0;
    for (size_t i = 0; i < n; i++)
        *count += i == 0 || union_of[i] != union_of[i - 1];
    free(mine);
    free(all);
    free(union_of);
    return r;
}

int trainer_data_bad(struct trainer *t, struct err *e) {
    if (t->options->on_bad_sample != TRAIN_BAD_SKIP)
        return 0;
    if (count_bad(t, DATASET_TRAIN, &t->bad_train, e) < 0 ||
        (t->options->eval && count_bad(t, DATASET_TEST, &t->bad_test, e) < 0))
        return err_wrap(e, "counting the bad samples of all ranks");
    return 0;
}
