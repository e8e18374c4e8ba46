// SPDX-License-Identifier: Apache-2.0
// Gradient buckets: backward produces gradients from the last layer to the first, so the flat
// gradient buffer is cut into ranges from its end, and each is averaged over the ranks while
// backward goes on with the layers before it (Li et al., "PyTorch distributed: experiences on
// accelerating data parallel training", VLDB 2020).
//
// The numbers behind the gradients (NETWORK_TAIL: loss, accuracy, requests to stop or save) belong
// to the first bucket, so that every rank knows their mean at no cost.
#ifndef NN_BUCKET_H
#define NN_BUCKET_H

#include "comm/comm.h"
#include "nn/network.h"

enum { BUCKET_FIRST_BYTES = 1 << 20 }; // small, so that the first transfer starts early

struct bucket {
    size_t begin, end; // elements of the flat gradient buffer
    int first, last;   // layers: [first, last)
    uint64_t ticket;   // of its all-reduce
};

struct bucket_list {
    struct bucket *bucket;
    int count;
};

// Whole layers; a bucket is closed when it has reached its size. Together they cover everything.
void bucket_cut(struct bucket_list *list, const struct nn_model *m, size_t first_bytes,
                size_t bytes);
void bucket_free(struct bucket_list *list);

struct bucket_reducer {
    struct bucket_list list;
    struct comm *comm;
    float *grads;
};

int bucket_start(struct bucket_reducer *r, int i, struct err *e); // its gradients are complete
int bucket_wait(struct bucket_reducer *r, int i, struct err *e);  // i-th bucket is averaged

#endif
