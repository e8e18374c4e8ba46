// SPDX-License-Identifier: Apache-2.0
// Cuts the gradients into buckets, and with train.zero a bucket into parts that ranks own.
#include "trainer/bucket.h"

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
        size_t most = m->param_elements, params_end = end < most ? end : most;
        list->bucket[list->count++] = (struct bucket){.begin = begin,
                                                      .end = end,
                                                      .params_end = params_end,
                                                      .each = params_end - begin,
                                                      .state = begin,
                                                      .first = begin ? i : 1,
                                                      .last = last};
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

size_t bucket_part(struct bucket_list *list, int parts) {
    enum { ALIGN = NN_TENSOR_ALIGN };
    size_t states = 0;
    for (int i = 0; i < list->count; i++) {
        struct bucket *b = &list->bucket[i];
        size_t each = (b->params_end - b->begin + (size_t)parts - 1) / (size_t)parts;
        b->each = (each + ALIGN - 1) / ALIGN * ALIGN;
        b->state = states;
        states += b->each;
    }
    return states;
}

void bucket_own(const struct bucket *b, int part, size_t *begin, size_t *end) {
    size_t from = b->begin + (size_t)part * b->each, to = from + b->each;
    *begin = from < b->params_end ? from : b->params_end;
    *end = to < b->params_end ? to : b->params_end;
}
