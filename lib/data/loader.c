// SPDX-License-Identifier: Apache-2.0
// A ring of slots: batch b lives in slot b % depth. A thread claims the next batch number as soon
// as that slot's former batch was consumed, fills it without the lock, and marks it ready.
#include "data/loader.h"

#include "base/arena.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { LOADER_ALIGN_BYTES = 64 };

struct slot {
    struct loader_batch batch;
    bool ready; // under the lock
};

struct loader {
    struct loader_config config;
    struct augment_table table;
    struct slot *slots;
    int depth, threads;

    pthread_mutex_t lock;
    pthread_cond_t work, done; // room for a thread; a batch for the consumer
    pthread_t *thread;
    // Under the lock.
    const struct sampler *sampler; // NULL: no pass
    bool augment, stop;
    uint64_t batches; // of the pass
    uint64_t claimed; // batches taken by threads
    uint64_t given;   // batches handed out; the last one of them is still the consumer's
    int busy;         // threads that fill a slot now
    int64_t waited_ns;
};

struct thread_start {
    struct loader *loader;
    int cpu;
};

static void loader_fill(const struct loader *l, const struct sampler *s, bool augment,
                        struct loader_batch *b, uint64_t number) {
    const struct dataset *d = l->config.data;
    uint64_t first = number * (uint64_t)l->config.batch;
    uint64_t left = sampler_length(s) - first;
    b->number = number;
    b->n = left < (uint64_t)l->config.batch ? (int)left : l->config.batch;
    for (int i = 0; i < b->n; i++) {
        uint32_t index = sampler_at(s, first + (uint64_t)i);
        struct augment_draw draw = {0};
        if (augment)
            draw = augment_draw(&l->config.augment, s->epoch, index);
        b->index[i] = index;
        b->labels[i] = d->labels[index];
        b->src[i] = dataset_image(d, index);
        b->offset_y[i] = draw.offset_y;
        b->offset_x[i] = draw.offset_x;
        b->flip[i] = draw.flip;
        if (b->x)
            augment_apply(&l->table, &draw, b->src[i], d->height, d->width, d->channels,
                          b->x + (size_t)i * d->image_bytes);
    }
}

// Whether a batch may be claimed: there is one, and its slot is not the consumer's nor unread.
static bool loader_has_work(const struct loader *l) {
    if (!l->sampler || l->claimed >= l->batches)
        return false;
    uint64_t kept = l->given > 0 ? l->given - 1 : 0; // everything before it is free
    return l->claimed < kept + (uint64_t)l->depth;
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
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        if (!loader_has_work(l)) {
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        const struct sampler *s = l->sampler;
        bool augment = l->augment;
        uint64_t number = l->claimed++;
        struct slot *slot = &l->slots[number % (uint64_t)l->depth];
        slot->ready = false;
        l->busy++;
        pthread_mutex_unlock(&l->lock);
        loader_fill(l, s, augment, &slot->batch, number);
        pthread_mutex_lock(&l->lock);
        l->busy--;
        slot->ready = true;
        pthread_cond_broadcast(&l->done);
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
    loader_alloc_slots(l);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    l->thread = heap_alloc(((size_t)config->threads + 1) * sizeof *l->thread);
    for (int i = 0; i < config->threads; i++) {
        struct thread_start *start = heap_alloc(sizeof *start);
        *start = (struct thread_start){l, config->cpus ? config->cpus[i] : -1};
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
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->threads; i++)
        pthread_join(l->thread[i], NULL);
    for (int i = 0; i < l->depth; i++) {
        struct loader_batch *b = &l->slots[i].batch;
        free(b->x);
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
    for (int i = 0; i < l->depth; i++)
        l->slots[i].ready = false;
    l->sampler = s;
    l->augment = augment;
    l->claimed = l->given = 0;
    l->batches = (sampler_length(s) + batch - 1) / batch;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
}

const struct loader_batch *loader_next(struct loader *l) {
    pthread_mutex_lock(&l->lock);
    if (!l->sampler || l->given >= l->batches) {
        l->sampler = NULL;
        pthread_mutex_unlock(&l->lock);
        return NULL;
    }
    uint64_t number = l->given++;
    struct slot *slot = &l->slots[number % (uint64_t)l->depth];
    if (l->threads == 0) {
        l->claimed++;
        loader_fill(l, l->sampler, l->augment, &slot->batch, number);
    } else {
        pthread_cond_broadcast(&l->work); // the slot of the batch before is free now
        if (!slot->ready || slot->batch.number != number) {
            int64_t start = clock_mono_ns();
            while (!slot->ready || slot->batch.number != number)
                pthread_cond_wait(&l->done, &l->lock);
            l->waited_ns += clock_mono_ns() - start;
        }
    }
    pthread_mutex_unlock(&l->lock);
    return &slot->batch;
}

uint64_t loader_batches(const struct loader *l) {
    return l->batches;
}

int64_t loader_waited_ns(const struct loader *l) {
    return l->waited_ns;
}
