// SPDX-License-Identifier: Apache-2.0
#include "nn/bucket.h"

#include "base/arena.h"

#include <stdlib.h>

void bucket_cut(struct bucket_list *list, const struct nn_model *m, size_t first_bytes,
                size_t bytes) {
    size_t end = m->param_elements + NETWORK_TAIL, limit = first_bytes;
    int last = m->layers;
    *list = (struct bucket_list){.bucket = heap_alloc((size_t)m->layers * sizeof *list->bucket)};
    for (int i = m->layers - 1; i >= 0; i--) {
        const struct nn_layer *l = &m->layer[i];
        if (l->params == 0)
            continue;
        size_t begin = m->param[l->param].begin;
        if ((end - begin) * sizeof(float) < limit && begin > 0)
            continue;
        list->bucket[list->count++] = (struct bucket){begin, end, begin ? i : 1, last, 0};
        end = begin;
        last = i;
        limit = bytes;
    }
    must(end == 0);
}

void bucket_free(struct bucket_list *list) {
    free(list->bucket);
    *list = (struct bucket_list){0};
}

int bucket_start(struct bucket_reducer *r, int i, struct err *e) {
    struct bucket *b = &r->list.bucket[i];
    return comm_all_reduce_start(r->comm, r->grads + b->begin, b->end - b->begin, COMM_MEAN,
                                 &b->ticket, e);
}

int bucket_wait(struct bucket_reducer *r, int i, struct err *e) {
    return comm_wait(r->comm, r->list.bucket[i].ticket, e);
}
