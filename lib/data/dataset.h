// SPDX-License-Identifier: Apache-2.0
// Labelled images, all of one size, as bytes in memory: whatever the source, training reads uint8
// NHWC pixels and int32 labels.
//
// Kinds of sources (`dataset_kinds`)
//   shapes       built in: ten procedural classes of 32x32 RGB, made from (seed, index) alone
//   cifar10      CIFAR-10's binary files: data_batch_*.bin, test_batch.bin
//   imagefolder  train/<class>/**.jpg, test|val/<class>/**.jpg
//   tar          the same layout inside one .tar or .tar.zst, or in a folder of train.tar,
//   test.tar,
//                or train/<class>.tar; read without unpacking
//   packed       a file of lib/data/packed.h
// Class ids follow the sorted class names of the training split, samples are sorted by path
// (torchvision's ImageFolder order). Every other source is decoded once, by all threads, into the
// packed form: in `cache_dir` as a file that later runs and the other ranks of this node map, else
// in memory. JPEGs that are not image_size are resized so that the shorter side fits (triangle
// filter with antialiasing, as Pillow's BILINEAR) and cropped at the centre.
//
// Everything read is hostile: an error names the file and, inside an archive, the member.
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dataset_split { DATASET_TRAIN, DATASET_TEST, DATASET_SPLITS };

enum {
    DATASET_CLASSES_MAX = 65536,
    DATASET_IMAGE_SIZE_MAX = 1024, // pixels along one side, after resizing
    DATASET_CLASS_NAME_BYTES_MAX = 256,
    DATASET_LOCK_WAIT_MS_MAX = 3600 * 1000 // for another rank of this node that decodes
};

struct dataset_config {
    const char *source; // "shapes" or a path
    const char *kind;   // one of dataset_kinds, or NULL: found out from the source
    enum dataset_split split;
    int image_size;        // side in pixels; 0: as stored, and then all must be alike
    const char *cache_dir; // for packed files, made if absent; NULL: keep it in memory
    int threads;           // for decoding; 0: one per CPU
    uint64_t seed;         // shapes only
    uint32_t samples_max;  // shapes only: how many (0: DATASET_SHAPES_*)
    // Called now and then from the opening thread while decoding; may be NULL.
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
};

enum { DATASET_SHAPES_TRAIN = 8000, DATASET_SHAPES_TEST = 2000 };

struct dataset {
    const char *kind;   // what it was read as
    uint32_t samples;   // >= 1
    int height, width;  // pixels
    int channels;       // 3
    int classes;        // >= 1
    size_t image_bytes; // height * width * channels
    const char *const *class_names;
    const uint8_t *pixels;       // samples * image_bytes
    const int32_t *labels;       // 0 … classes-1
    bool from_cache;             // nothing had to be decoded
    struct dataset_store *store; // private: owns all of the above
};

// ERR_NOT_FOUND, ERR_FORMAT, ERR_LIMIT, ERR_CONFIG (unknown kind, sizes differ and image_size is
// 0).
int dataset_open(struct dataset *d, const struct dataset_config *config, struct err *e);
void dataset_close(struct dataset *d); // safe on a zeroed one

static inline const uint8_t *dataset_image(const struct dataset *d, uint32_t i) {
    return d->pixels + (size_t)i * d->image_bytes;
}

// NULL-terminated names of all kinds, for help and error texts.
extern const char *const dataset_kinds[];
// The kind of a source, or NULL with e saying what was looked for.
const char *dataset_detect(const char *source, struct err *e);

#endif
