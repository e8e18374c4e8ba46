// SPDX-License-Identifier: Apache-2.0
// A ring of slots: batch b is in slot b % depth. A thread claims the next few samples when the
// previous batch of their slot was consumed, fills them in without the lock, and counts them; the
// slot is ready when all are filled. The threads thus decode one batch together, and few batches
// are in memory.
#include "data/loader.h"

#include "base/arena.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { LOADER_ALIGN_BYTES = 64, LOADER_GRAIN = 4 /* samples that are claimed at once */ };

struct slot {
    struct loader_batch batch;
    // Under the lock.
    int filled; // samples
    int bad_at; // the first unreadable sample; -1: none
    struct err error;
};

struct loader {
    struct loader_config config;
    struct augment_table table;
    struct slot *slots;
    int depth, threads;
    int grain;
    struct dataset_reader **reader; // threads + 1 entries; NULL: images are stored

    pthread_mutex_t lock;
    pthread_cond_t work, done; // room for a thread; a batch for the consumer
    pthread_t *thread;
    // Under the lock.
    const struct sampler *sampler; // NULL: no pass
    bool augment, stop;
    uint64_t batches;  // of the pass
    uint64_t claimed;  // batches of which the threads took the first samples
    int next;          // sample of the last of them that is free; its n: none is
    uint64_t given;    // batches handed out; the last one of them is still the consumer's
    int busy;          // threads that fill in samples now
    struct err *error; // why the pass ended early; NULL: it did not
};

struct thread_start {
    struct loader *loader;
    int number, cpu;
};

// Samples [from, to) of a batch.
struct claim {
    struct slot *slot;
    const struct sampler *sampler;
    bool augment;
    int from, to;
};

static int loader_image(const struct loader *l, const struct claim *c, int i, int thread,
                        struct err *e) {
    const struct dataset *d = l->config.data;
    struct loader_batch *b = &c->slot->batch;
    uint32_t index = b->index[i];
    if (!l->reader) {
        b->labels[i] = d->labels[index];
        b->src[i] = dataset_image(d, index);
        return 0;
    }
    uint8_t *pixels = b->pixels + (size_t)i * d->image_bytes;
    b->src[i] = pixels;
    return dataset_read(l->reader[thread], index, l->config.augment.seed, c->sampler->epoch, pixels,
                        &b->labels[i], e);
}

// Fills in what was claimed; -1 with the sample at which that ended.
static int loader_fill(const struct loader *l, const struct claim *c, int thread, int *at,
                       struct err *e) {
    const struct dataset *d = l->config.data;
    struct loader_batch *b = &c->slot->batch;
    uint64_t first = b->number * (uint64_t)l->config.batch;
    for (int i = c->from; i < c->to; i++) {
        struct augment_draw draw = {0};
        b->index[i] = sampler_at(c->sampler, first + (uint64_t)i);
        *at = i;
        if (loader_image(l, c, i, thread, e) < 0)
            return -1;
        if (c->augment)
            draw = augment_draw(&l->config.augment, c->sampler->epoch, b->index[i]);
        b->offset_y[i] = draw.offset_y;
        b->offset_x[i] = draw.offset_x;
        b->flip[i] = draw.flip;
        if (b->x)
            augment_apply(&l->table, &draw, b->src[i], d->height, d->width, d->channels,
                          b->x + (size_t)i * d->image_bytes);
    }
    return 0;
}

static struct slot *loader_slot(const struct loader *l, uint64_t number) {
    return &l->slots[number % (uint64_t)l->depth];
}

// Under the lock: the next samples of the pass, if there are any whose slot is free (it is not the
// consumer's nor unread).
static bool loader_claim(struct loader *l, struct claim *c) {
    if (!l->sampler)
        return false;
    struct slot *slot = l->claimed > 0 ? loader_slot(l, l->claimed - 1) : NULL;
    if (!slot || l->next == slot->batch.n) {
        uint64_t kept = l->given > 0 ? l->given - 1 : 0; // everything before it is free
        if (l->claimed >= l->batches || l->claimed >= kept + (uint64_t)l->depth)
            return false;
        slot = loader_slot(l, l->claimed);
        uint64_t left = sampler_length(l->sampler) - l->claimed * (uint64_t)l->config.batch;
        slot->batch.number = l->claimed++;
        slot->batch.n = left < (uint64_t)l->config.batch ? (int)left : l->config.batch;
        slot->filled = 0;
        slot->bad_at = -1;
        l->next = 0;
    }
    *c = (struct claim){slot, l->sampler, l->augment, l->next, slot->batch.n};
    if (c->to - c->from > l->grain)
        c->to = c->from + l->grain;
    l->next = c->to;
    return true;
}

static bool loader_ready(const struct loader *l, uint64_t number) {
    const struct slot *slot = loader_slot(l, number);
    return l->claimed > number && slot->batch.number == number && slot->filled == slot->batch.n;
}

// Runs under the lock, which is released meanwhile. An unreadable sample counts as filled in: the
// consumer sees it when the batch is complete, so that the reported error does not depend on
// timing.
static void loader_work(struct loader *l, const struct claim *c, int thread) {
    struct err e;
    int at = c->from;
    l->busy++;
    pthread_mutex_unlock(&l->lock);
    err_clear(&e);
    int bad = loader_fill(l, c, thread, &at, &e);
    pthread_mutex_lock(&l->lock);
    l->busy--;
    if (bad && (c->slot->bad_at < 0 || at < c->slot->bad_at)) {
        c->slot->bad_at = at;
        c->slot->error = e;
    }
    c->slot->filled += c->to - c->from;
    if (c->slot->filled == c->slot->batch.n || !l->sampler)
        pthread_cond_broadcast(&l->done);
}

static void *loader_thread(void *arg) {
    struct thread_start start = *(struct thread_start *)arg;
    struct loader *l = start.loader;
    free(arg);
    if (start.cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(start.cpu, &set);
        (void)sched_setaffinity(0, sizeof set, &set); // a wish: unpinned is slower, not wrong
    }
    struct claim c;
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        if (loader_claim(l, &c))
            loader_work(l, &c, start.number);
        else
            pthread_cond_wait(&l->work, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void *loader_alloc(size_t count, size_t size) {
    size_t bytes = (count * size + LOADER_ALIGN_BYTES - 1) / LOADER_ALIGN_BYTES;
    void *p = aligned_alloc(LOADER_ALIGN_BYTES, bytes * LOADER_ALIGN_BYTES);
    if (!p)
        err_out_of_memory((unsigned long)(count * size));
    return p;
}

static void loader_alloc_slots(struct loader *l) {
    size_t n = (size_t)l->config.batch;
    l->slots = heap_alloc((size_t)l->depth * sizeof *l->slots);
    for (int i = 0; i < l->depth; i++) {
        struct loader_batch *b = &l->slots[i].batch;
        if (!l->config.raw)
            b->x = loader_alloc(n * l->config.data->image_bytes, sizeof *b->x);
        if (l->reader)
            b->pixels = loader_alloc(n, l->config.data->image_bytes);
        b->labels = loader_alloc(n, sizeof *b->labels);
        b->index = loader_alloc(n, sizeof *b->index);
        b->src = loader_alloc(n, sizeof *b->src);
        b->offset_y = loader_alloc(n, sizeof *b->offset_y);
        b->offset_x = loader_alloc(n, sizeof *b->offset_x);
        b->flip = loader_alloc(n, sizeof *b->flip);
    }
}

static int loader_check(const struct loader_config *c, struct err *e) {
    if (c->batch < 1 || c->batch > LOADER_BATCH_MAX)
        return err_set(e, ERR_CONFIG, "batch %d is not in 1 to %d", c->batch, LOADER_BATCH_MAX);
    if (c->threads < 0 || c->threads > LOADER_THREADS_MAX)
        return err_set(e, ERR_CONFIG, "%d loader threads are not in 0 to %d", c->threads,
                       LOADER_THREADS_MAX);
    if (c->depth < 0 || c->depth > LOADER_DEPTH_MAX)
        return err_set(e, ERR_CONFIG, "%d batches ahead are not in 0 to %d", c->depth,
                       LOADER_DEPTH_MAX);
    if (c->augment.crop_pad < 0 || c->augment.crop_pad > AUGMENT_PAD_MAX)
        return err_set(e, ERR_CONFIG, "crop padding %d is not in 0 to %d", c->augment.crop_pad,
                       AUGMENT_PAD_MAX);
    return 0;
}

// One reader per thread, and one for the consumer where there are no threads; and as many batches
// as memory allows.
static int loader_open_readers(struct loader *l, struct err *e) {
    const struct dataset *d = l->config.data;
    size_t batch_bytes = (size_t)l->config.batch * d->image_bytes;
    if (d->pixels)
        return 0;
    if (batch_bytes > LOADER_RING_BYTES_MAX / 2)
        return err_set(e, ERR_LIMIT, "two batches of %d images take more than the %zu MiB for them",
                       l->config.batch, LOADER_RING_BYTES_MAX >> 20);
    if ((size_t)l->depth > LOADER_RING_BYTES_MAX / batch_bytes)
        l->depth = (int)(LOADER_RING_BYTES_MAX / batch_bytes);
    l->reader = heap_alloc(((size_t)l->config.threads + 1) * sizeof *l->reader);
    for (int i = 0; i <= l->config.threads; i++)
        if (dataset_reader_open(&l->reader[i], d, e) < 0)
            return -1;
    return 0;
}

int loader_open(struct loader **out, const struct loader_config *config, struct err *e) {
    *out = NULL;
    if (loader_check(config, e) < 0)
        return -1;
    struct loader *l = heap_alloc(sizeof *l);
    l->config = *config;
    l->depth = config->depth > 0 ? config->depth : config->threads + 2;
    if (l->depth < 2 && config->threads > 0)
        l->depth = 2; // one for the consumer, one to work on
    augment_table_init(&l->table, &config->augment);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    l->grain = config->data->pixels ? config->batch : LOADER_GRAIN;
    if (loader_open_readers(l, e) < 0) {
        loader_close(l);
        return -1;
    }
    loader_alloc_slots(l);
    l->thread = heap_alloc(((size_t)config->threads + 1) * sizeof *l->thread);
    for (int i = 0; i < config->threads; i++) {
        struct thread_start *start = heap_alloc(sizeof *start);
        *start = (struct thread_start){l, i, config->cpus ? config->cpus[i] : -1};
        int error = pthread_create(&l->thread[i], NULL, loader_thread, start);
        if (error) {
            free(start);
            loader_close(l);
            errno = error;
            return err_errno(e, ERR_SYS, "starting a loader thread");
        }
        l->threads++;
    }
    *out = l;
    return 0;
}

void loader_close(struct loader *l) {
    if (!l)
        return;
    dataset_cancel(l->config.data);
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->threads; i++)
        pthread_join(l->thread[i], NULL);
    for (int i = 0; l->reader && i <= l->config.threads; i++)
        dataset_reader_close(l->reader[i]);
    free(l->reader);
    free(l->error);
    for (int i = 0; l->slots && i < l->depth; i++) {
        struct loader_batch *b = &l->slots[i].batch;
        free(b->x);
        free(b->pixels);
        free(b->labels);
        free(b->index);
        free(b->src);
        free(b->offset_y);
        free(b->offset_x);
        free(b->flip);
    }
    free(l->slots);
    free(l->thread);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->done);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

void loader_start(struct loader *l, const struct sampler *s, bool augment) {
    must(s->config.samples <= l->config.data->samples);
    uint64_t batch = (uint64_t)l->config.batch;
    pthread_mutex_lock(&l->lock);
    l->sampler = NULL; // nothing of the old pass is claimed from here on
    while (l->busy > 0)
        pthread_cond_wait(&l->done, &l->lock);
    free(l->error);
    l->error = NULL;
    l->sampler = s;
    l->augment = augment;
    l->claimed = l->given = 0;
    l->next = 0;
    l->batches = (sampler_length(s) + batch - 1) / batch;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
}

// Under the lock: waits for the batch. Without threads the consumer does the work.
static void loader_wait(struct loader *l, uint64_t number) {
    struct claim c;
    while (!loader_ready(l, number))
        if (l->threads > 0)
            pthread_cond_wait(&l->done, &l->lock);
        else if (loader_claim(l, &c))
            loader_work(l, &c, l->config.threads);
}

const struct loader_batch *loader_next(struct loader *l) {
    struct loader_batch *batch = NULL;
    pthread_mutex_lock(&l->lock);
    if (!l->sampler || l->given >= l->batches) {
        l->sampler = NULL;
    } else {
        uint64_t number = l->given++;
        struct slot *slot = loader_slot(l, number);
        pthread_cond_broadcast(&l->work); // the slot of the batch before is free now
        if (!loader_ready(l, number))
            loader_wait(l, number);
        batch = &slot->batch;
        if (slot->bad_at >= 0) {
            l->error = heap_alloc(sizeof *l->error);
            *l->error = slot->error;
            l->sampler = NULL;
            batch = NULL;
        }
    }
    pthread_mutex_unlock(&l->lock);
    return batch;
}

int loader_failed(const struct loader *l, struct err *e) {
    if (!l->error)
        return 0;
    *e = *l->error;
    return -1;
}

uint64_t loader_batches(const struct loader *l) {
    return l->batches;
}
