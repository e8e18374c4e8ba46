// SPDX-License-Identifier: Apache-2.0
#include "nn/bucket.h"

#include "base/arena.h"

#include <stdlib.h>

void bucket_cut(struct bucket_list *list, const struct nn_model *m, size_t first_bytes,
                size_t bytes) {
    size_t end = m->param_elements + NETWORK_TAIL, limit = first_bytes;
    *list = (struct bucket_list){.bucket = heap_alloc((size_t)m->layers * sizeof *list->bucket)};
    for (int i = m->layers - 1; i >= 0; i--) {
        const struct nn_layer *l = &m->layer[i];
        if (l->params == 0)
            continue;
        size_t begin = m->param[l->param].begin;
        if ((end - begin) * sizeof(float) < limit && begin > 0)
            continue;
        list->bucket[list->count++] = (struct bucket){begin, end, 0};
        end = begin;
        limit = bytes;
    }
    must(end == 0);
}

void bucket_free(struct bucket_list *list) {
    free(list->bucket);
    *list = (struct bucket_list){0};
}

void bucket_begin(struct bucket_reducer *r) {
    r->started = 0;
}

void bucket_ready(void *reducer, size_t begin) {
    struct bucket_reducer *r = reducer;
    while (!r->failed && r->started < r->list.count && r->list.bucket[r->started].begin >= begin) {
        struct bucket *b = &r->list.bucket[r->started];
        if (comm_all_reduce_start(r->comm, r->grads + b->begin, b->end - b->begin, COMM_MEAN,
                                  &b->ticket, &r->err) < 0)
            r->failed = true;
        else
            r->started++;
    }
}

int bucket_wait(struct bucket_reducer *r, int i, struct err *e) {
    if (r->failed) {
        *e = r->err;
        return -1;
    }
    must(i < r->started);
    return comm_wait(r->comm, r->list.bucket[i].ticket, e);
}
