// SPDX-License-Identifier: Apache-2.0
// Private to lib/data: one kind of data set, as a table of functions. A source is
// identified; unless its packed form exists already it is then opened and fills pixels and labels
// once; then it is closed.
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include "base/arena.h"
#include "base/hash.h"
#include "data/dataset.h"

struct source {
    const struct source_kind *kind;
    const struct dataset_config *config; // the caller's, during the whole life
    struct arena arena;                  // names and index; freed by source_close
    uint32_t samples;
    int height, width, channels, classes;
    const char **class_names; // classes entries
    struct hash identity;     // see identify
    void *impl;
};

struct source_kind {
    const char *name;
    // Whether a path looks like this kind; wanted says what it must hold, for the error text.
    bool (*detect)(const char *path);
    const char *wanted;
    // Adds to s->identity what the decoded bytes depend on; cheap, because every start does it.
    int (*identify)(struct source *s, struct err *e);
    int (*open)(struct source *s, struct err *e); // counts and sorts what is there
    int (*fill)(struct source *s, uint8_t *pixels, int32_t *labels, struct err *e);
    void (*close)(struct source *s); // may be NULL: nothing but the arena
};

extern const struct source_kind source_shapes, source_cifar10, source_imagefolder, source_tar;

// Names of the folders (or archives) that hold a split, best first, NULL-terminated.
enum { SOURCE_SPLIT_NAMES = 5 };
extern const char *const source_split_names[DATASET_SPLITS][SOURCE_SPLIT_NAMES];

#endif
