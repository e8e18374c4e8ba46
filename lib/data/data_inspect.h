// SPDX-License-Identifier: Apache-2.0
// `dtctl data inspect`: decodes every sample of a data set once. Sources are those of dataset.h.
// config.progress is called at intervals and may end the work.
#ifndef DATA_DATA_INSPECT_H
#define DATA_DATA_INSPECT_H

#include "base/arena.h"
#include "data/dataset.h"

enum { DATA_INSPECT_FIRST = 8, DATA_INSPECT_BAD_NAMED = 20 };

struct data_inspect_image {
    uint32_t index;
    int width, height;
    int32_t label;
    const char *where;
};

struct data_inspection {
    const char *kind;
    uint32_t samples;
    int classes;
    const char *const *class_names;
    uint32_t *class_samples;                          // classes entries
    uint64_t bytes;                                   // of all samples as they are stored
    int width_min, width_max, height_min, height_max; // of good samples
    double width_mean, height_mean;
    int firsts;
    struct data_inspect_image first[DATA_INSPECT_FIRST]; // the first good samples
    uint32_t bad;
    struct {
        uint32_t index;
        const char *why;                 // names the sample
    } bad_named[DATA_INSPECT_BAD_NAMED]; // those of the lowest numbers
};

// Decodes every sample in full. Names are put into the arena. A source that cannot be opened is an
// error; bad samples are in the result.
int data_inspect(const struct dataset_config *c, struct arena *a, struct data_inspection *out,
                 struct err *e);

#endif
