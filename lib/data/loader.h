// SPDX-License-Identifier: Apache-2.0
// Batches made ahead of time by threads of their own, in a bounded ring.
//
//     loader_open(&l, &config, e);
//     sampler_start(&s, epoch, consumed);
//     loader_start(l, &s, true);
//     while ((batch = loader_next(l)) != NULL) step(batch->x, batch->labels, batch->n);
//
// Batch i holds the indices i*batch … of the sampler; the last one may be short (n < batch). The
// content depends neither on the number of threads nor on the rank. One consumer thread. Threads
// stop when the ring is full, so memory is bounded by it, whatever the size of the data.
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include "base/err.h"
#include "data/augment.h"
#include "data/dataset.h"
#include "data/sampler.h"

#include <stdbool.h>
#include <stdint.h>

enum { LOADER_THREADS_MAX = 64, LOADER_DEPTH_MAX = 256, LOADER_BATCH_MAX = 1 << 20 };
// Of the pixels of all batches in the ring. The depth becomes less to stay below it.
#define LOADER_RING_BYTES_MAX ((size_t)2 << 30)

struct loader_config {
    const struct dataset *data; // must outlive the loader
    struct augment_config augment;
    int batch;       // samples per batch, 1 … LOADER_BATCH_MAX
    int threads;     // 0: no thread, loader_next does the work itself
    int depth;       // batches in the ring; 0: threads + 2
    bool raw;        // do not fill x: the backend's image_normalize reads src, offsets and flip
    const int *cpus; // one CPU number per thread to pin it to, or NULL
};

struct loader_batch {
    int n;                        // samples in it, >= 1
    uint64_t number;              // 0, 1, 2, … since loader_start
    float *x;                     // n x height x width x channels, 64-byte aligned; NULL when raw
    int32_t *labels;              // n
    uint32_t *index;              // n sample numbers
    const uint8_t **src;          // n images, stored or in pixels
    uint8_t *pixels;              // n images that were read for this batch; NULL: they are stored
    int16_t *offset_y, *offset_x; // n: what augmentation drew for each (applied in x already)
    uint8_t *flip;                // n
};

struct loader;

int loader_open(struct loader **out, const struct loader_config *config, struct err *e);
// NULL is allowed. Stops its threads, and all reads of the data set that wait for bytes.
void loader_close(struct loader *l);

// Begins a pass over what the sampler gives now (it must not change until the pass ends or the next
// loader_start). augment false: no flip, no crop, only the normalisation (evaluation). A pass that
// is still going is dropped.
void loader_start(struct loader *l, const struct sampler *s, bool augment);

// The next batch, or NULL after the last one, or when a sample of it could not be read
// (loader_failed). Valid until the next call. Waits for it if need be.
const struct loader_batch *loader_next(struct loader *l);
// 0, or -1 with the reason why loader_next gave no batch: of several errors, that of the lowest
// position.
int loader_failed(const struct loader *l, struct err *e);
uint64_t loader_batches(const struct loader *l); // of the pass

#endif
