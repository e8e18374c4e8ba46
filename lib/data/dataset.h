// SPDX-License-Identifier: Apache-2.0
// Labelled images, all of one size once they are read: a source gives the bytes of a sample by its
// number, a list of transforms makes uint8 NHWC pixels of them.
//
// Kinds of sources (`dataset_kinds`)
//   shapes       built in: ten procedural classes of 32x32 RGB, made from (seed, index) alone
//   cifar10      CIFAR-10's binary files: data_batch_*.bin, test_batch.bin
//   imagefolder  train/<class>/**.jpg, test|val/<class>/**.jpg; or <class>/**.jpg
//   webdataset   shards of stem.jpg and stem.cls: train/000000.tar, val/000000.tar; or 000000.tar;
//                also of a streamed input, with the index of shard_index.h beside them
//   tar          the layout of imagefolder inside one .tar or .tar.zst, or in a folder of
//   train.tar,
//                test.tar, or train/<class>.tar, or <class>.tar (ImageNet); read without unpacking
//   packed       a file of lib/data/packed.h
// Class ids follow the sorted class names of the training split, samples are sorted by path
// (torchvision's ImageFolder order); those of shards keep their order and their numbers.
//
// Either every image is decoded once, by all threads, into the packed form: in `cache_dir` as a
// file that later runs and the other ranks of this node map, else in memory. Or (`stream`) an image
// is decoded each time it is read, and memory holds an index of 20 bytes a sample.
//
// Everything read is hostile: an error names the file and, inside an archive, the member.
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dataset_split { DATASET_TRAIN, DATASET_TEST, DATASET_SPLITS };

// A sample whose bytes make no image.
enum dataset_bad {
    DATASET_BAD_REFUSE, // is an error
    DATASET_BAD_SKIP    // is logged and counted; the next good sample takes its place
};

enum {
    DATASET_CLASSES_MAX = 65536,
    DATASET_IMAGE_SIZE_MAX = 1024, // pixels along one side, after resizing
    DATASET_CLASS_NAME_BYTES_MAX = 256,
    DATASET_LOCK_WAIT_MS_MAX = 3600 * 1000, // for another rank of this node that decodes
    DATASET_BAD_MAX = 4096                  // bad samples of one data set
};

struct dataset;

struct dataset_config {
    const char *source; // "shapes" or a path
    const char *kind;   // one of dataset_kinds, or NULL: found out from the source
    enum dataset_split split;
    bool alone;                 // the source contains only this split and need not name it
    const struct dataset *like; // whose class ids are meant (a test split of its own); or NULL
    int image_size;             // side in pixels; 0: as stored, and then all must be alike
    int resize;            // pixels of the shorter side before the middle is cut out; 0: image_size
    bool stream;           // images are read when they are needed
    bool random_crop;      // stream: a random part is brought to image_size (RandomResizedCrop)
    const char *cache_dir; // for packed files, made if absent; NULL: keep it in memory
    enum dataset_bad on_bad;
    int bad_max;          // how many are skipped before that is an error; at most DATASET_BAD_MAX
    int threads;          // for decoding; 0: one per CPU
    uint64_t seed;        // shapes only
    uint32_t samples_max; // shapes only: how many (0: DATASET_SHAPES_*)
    // Called now and then from the opening thread while decoding; -1 with e ends it. May be NULL.
    int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e);
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
    const uint8_t *pixels;       // samples * image_bytes; NULL: dataset_read
    const int32_t *labels;       // 0 … classes-1; those of the files, also where one is bad
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

// Reading one image at a time; any number of readers, one per thread.
struct dataset_reader;
int dataset_reader_open(struct dataset_reader **out, const struct dataset *d, struct err *e);
void dataset_reader_close(struct dataset_reader *r); // NULL is allowed
// Writes the image of sample i, cropped for this epoch, to out (image_bytes); returns its label, or
// that of the sample that replaces it. The result depends only on (seed, epoch, i) and the data.
int dataset_read(struct dataset_reader *r, uint32_t i, uint64_t seed, uint64_t epoch, uint8_t *out,
                 int32_t *label, struct err *e);

// Bytes that the data set keeps in memory (the packed form, or the index).
uint64_t dataset_memory_bytes(const struct dataset *d);
// Tells data sets apart that differ in shape, labels or content; cheap for a large one, but of a
// streamed input it waits for images from all over the set. Never 0.
int dataset_digest(const struct dataset *d, int64_t *digest, struct err *e);
// Whether a source is the folder of a streamed input, whose images come while they are read.
bool dataset_is_served(const char *source);
// Whether a read may wait for an image that is still to come; makes reads that wait fail for good.
bool dataset_waits(const struct dataset *d);
void dataset_cancel(const struct dataset *d);
// Bad samples that were met so far, sorted, at most DATASET_BAD_MAX; returns how many.
uint32_t dataset_bad_list(const struct dataset *d, uint32_t list[DATASET_BAD_MAX]);

// NULL-terminated names of all kinds, for help and error texts.
extern const char *const dataset_kinds[];
// The kind of a source, or NULL with e saying what was looked for.
const char *dataset_detect(const char *source, struct err *e);

#endif
