// SPDX-License-Identifier: Apache-2.0
// Tools for data sets: inspect one, pack one, generate one for tests. All read sources as described
// in dataset.h. config.progress is called at intervals and may end the work.
#ifndef DATA_TOOL_H
#define DATA_TOOL_H

#include "base/arena.h"
#include "data/dataset.h"

enum { TOOL_FIRST = 8, TOOL_BAD_NAMED = 20, TOOL_SHARD_BYTES_MIN = 1 << 20 };

struct tool_image {
    uint32_t index;
    int width, height;
    int32_t label;
    const char *where;
};

struct tool_inspection {
    const char *kind;
    uint32_t samples;
    int classes;
    const char *const *class_names;
    uint32_t *class_samples;                          // classes entries
    uint64_t bytes;                                   // of all samples as they are stored
    int width_min, width_max, height_min, height_max; // of good samples
    double width_mean, height_mean;
    int firsts;
    struct tool_image first[TOOL_FIRST]; // the first good samples
    uint32_t bad;
    struct {
        uint32_t index;
        const char *why;         // names the sample
    } bad_named[TOOL_BAD_NAMED]; // those of the lowest numbers
};

// Decodes every sample in full. Names are put into the arena. A source that cannot be opened is an
// error; bad samples are in the result.
int tool_inspect(const struct dataset_config *c, struct arena *a, struct tool_inspection *out,
                 struct err *e);

struct tool_packed {
    uint32_t samples, shards, bad;
    uint64_t bytes;
};

// The JPEG files of a split, as they are, into dir/000000.tar, … with classes.txt and the shards'
// index beside them. A
// shard ends before it would be larger than shard_bytes. dir must not exist, or be empty
// (ERR_EXISTS). The same source gives the same bytes. Samples are decoded as a check; a bad one is
// an error, or is left out with config.on_bad.
int tool_pack_shards(const struct dataset_config *c, const char *dir, uint64_t shard_bytes,
                     struct tool_packed *out, struct err *e);

// A split in the packed form (packed.h) as a file, which must not exist.
int tool_pack_pixels(const struct dataset_config *c, const char *path, struct tool_packed *out,
                     struct err *e);

struct tool_indexed {
    uint32_t folders, shards, samples;
};

// Writes the index (shard_index.h) of the shards of each folder that a source of them has.
// progress counts shards, and may be NULL.
int tool_index(const char *dir,
               int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e), void *ctx,
               struct tool_indexed *out, struct err *e);

// The same of a streamed input (served.h), whose lists are in the folder `served`: its shards are
// those at the top and in folders such as train. The indices are written below `to`, each in the
// folder of its shards.
int tool_index_served(const char *served, const char *to,
                      int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e),
                      void *ctx, struct tool_indexed *out, struct err *e);

struct tool_shapes {
    const char *dir; // must not exist, or be empty
    uint32_t train, test;
    int size; // pixels per side
    uint64_t seed;
};

// The built-in shapes as a folder: train/<class>/000000.jpg, test/<class>/000000.jpg. The same
// numbers give the same bytes.
int tool_make_shapes(const struct tool_shapes *t,
                     int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e),
                     void *ctx, struct err *e);

#endif
