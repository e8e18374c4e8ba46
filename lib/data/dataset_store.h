// SPDX-License-Identifier: Apache-2.0
// Private to lib/data: the internals of a data set (dataset*.c).
#ifndef DATA_DATASET_STORE_H
#define DATA_DATASET_STORE_H

#include "data/decode.h"
#include "data/packed.h"
#include "data/source.h"

#include <pthread.h>

// Bad samples, sorted by number. Readers of several threads meet them.
struct bad_samples {
    pthread_mutex_t lock;
    uint32_t index[DATASET_BAD_MAX];
    uint32_t count;
};

struct dataset_store {
    struct dataset_config config;
    struct source source; // of a packed form: closed and zeroed once it is made
    struct decode_plan plan;
    struct packed packed; // zeroed where images are read when they are needed
    struct bad_samples bad;
};

struct dataset_reader {
    struct dataset_store *store;
    struct source_reader source;
    struct decoder decoder;
};

// Finds the kind, identifies and opens the source of a store whose config is set.
int dataset_open_kind(struct dataset_store *store, struct err *e);
// As dataset_open, with the packed form at path in place of one in the cache.
int dataset_open_at(struct dataset *d, const struct dataset_config *c, const char *path,
                    struct err *e);

int dataset_reader_init(struct dataset_reader *r, struct dataset_store *store, struct err *e);
void dataset_reader_fini(struct dataset_reader *r);
// The pixels of a sample's bytes; no other takes its place.
int dataset_decode(struct dataset_reader *r, const struct sample *sample,
                   const struct transform_draw *draw, uint8_t *out, struct err *e);
// Judges why sample i could not be read: 0 when it is to be skipped (noted and logged), else -1
// with e, which names the sample where `named` is false.
int dataset_note_bad(struct dataset_store *store, uint32_t i, bool named, struct err *e);
void dataset_bad_add(struct dataset_store *store, uint32_t i);

// Decodes all samples of the open source into pixels and labels.
int dataset_fill(struct dataset_store *store, uint8_t *pixels, int32_t *labels, struct err *e);

#endif
