// SPDX-License-Identifier: Apache-2.0
// Gradient buckets: backward produces gradients from the last layer to the first, so the flat
// gradient buffer is cut into ranges from its end. Each range is averaged over the ranks while
// backward continues with earlier layers (Li et al., "PyTorch distributed: experiences on
// accelerating data parallel training", VLDB 2020).
//
// The numbers behind the gradients (NETWORK_TAIL: loss, accuracy, requests to stop or save) belong
// to the first bucket, so that every rank knows their mean at no cost.
#ifndef TRAINER_BUCKET_H
#define TRAINER_BUCKET_H

#include "comm/comm.h"
#include "nn/network.h"

enum { BUCKET_FIRST_BYTES = 1 << 20 }; // small, so that the first transfer starts early

struct bucket {
    size_t begin, end; // elements of the flat gradient buffer, the tail with them
    size_t params_end; // without it
    // Data-parallel rank r updates [begin + r * each, …), up to params_end; its optimizer state
    // begins at element `state`. If every rank updates everything, there is one such part.
    size_t each, state;
    int first, last; // layers: [first, last)
    uint64_t ticket; // of the operation under way
};

struct bucket_list {
    struct bucket *bucket;
    int count;
};

// Whole layers; a bucket is closed when it has reached its size. Together they cover everything.
void bucket_cut(struct bucket_list *list, const struct nn_model *m, size_t first_bytes,
                size_t bytes);
// Cuts every bucket into so many parts, of whole cache lines; returns the elements of state that
// each rank has.
size_t bucket_part(struct bucket_list *list, int parts);
void bucket_own(const struct bucket *b, int part, size_t *begin, size_t *end);
void bucket_free(struct bucket_list *list);

#endif
