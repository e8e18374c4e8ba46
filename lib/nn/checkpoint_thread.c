// SPDX-License-Identifier: Apache-2.0
// The thread that writes checkpoints while the training continues.
#include "nn/checkpoint.h"

#include "base/arena.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct checkpoint_thread {
    struct checkpoint_image image;
    char *dir;
    int keep_last;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool busy, closing; // under lock
    int result;         // of the last write, until it is reported
    struct err err;
};

static void *writer_main(void *arg) {
    struct checkpoint_thread *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->busy && !w->closing)
            pthread_cond_wait(&w->changed, &w->lock);
        if (!w->busy)
            break;
        pthread_mutex_unlock(&w->lock);
        struct err e;
        int r = checkpoint_write(&w->image, w->dir, w->keep_last, &e);
        pthread_mutex_lock(&w->lock);
        if (r < 0) {
            w->result = -1;
            w->err = e;
        }
        w->busy = false;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int checkpoint_thread_open(struct checkpoint_thread **out, const struct nn_model *m, int states,
                           const char *dir, int keep_last, const cpu_set_t *cpus, struct err *e) {
    struct checkpoint_thread *w = heap_alloc(sizeof *w);
    checkpoint_image_init(&w->image, m, states);
    w->dir = heap_alloc(strlen(dir) + 1);
    memcpy(w->dir, dir, strlen(dir));
    w->keep_last = keep_last;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    int r = pthread_create(&w->thread, NULL, writer_main, w);
    if (r == 0) {
        if (cpus) // musl has no such attribute for pthread_create
            pthread_setaffinity_np(w->thread, sizeof *cpus, cpus);
        *out = w;
        return 0;
    }
    checkpoint_image_fini(&w->image);
    free(w->dir);
    free(w);
    errno = r;
    return err_errno(e, ERR_SYS, "thread that writes checkpoints");
}

struct checkpoint_image *checkpoint_thread_image(struct checkpoint_thread *w) {
    return &w->image;
}

int checkpoint_thread_wait(struct checkpoint_thread *w, struct err *e) {
    pthread_mutex_lock(&w->lock);
    while (w->busy)
        pthread_cond_wait(&w->changed, &w->lock);
    int r = w->result;
    w->result = 0;
    if (r < 0)
        *e = w->err;
    pthread_mutex_unlock(&w->lock);
    return r;
}

void checkpoint_thread_go(struct checkpoint_thread *w) {
    pthread_mutex_lock(&w->lock);
    w->busy = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void checkpoint_thread_close(struct checkpoint_thread *w) {
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    checkpoint_image_fini(&w->image);
    free(w->dir);
    free(w);
}
