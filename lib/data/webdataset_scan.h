// SPDX-License-Identifier: Apache-2.0
// Private to lib/data: finds the samples of a webdataset shard by the headers of its members.
#ifndef DATA_WEBDATASET_SCAN_H
#define DATA_WEBDATASET_SCAN_H

#include "base/err.h"

#include <stdint.h>

struct webdataset_sample {
    uint64_t at, size; // of the image's bytes in the shard
    uint64_t label_at, label_size;
    int32_t label;
};

typedef int webdataset_each(void *ctx, const struct webdataset_sample *s, struct err *e);

// Calls each for every sample of a tar file, in order. Errors name the file and the place.
int webdataset_scan(const char *path, webdataset_each *each, void *ctx, struct err *e);
// The same of bytes from elsewhere; takes `in`. name: for errors.
struct tar_input;
int webdataset_scan_input(struct tar_input *in, const char *name, webdataset_each *each, void *ctx,
                          struct err *e);

#endif
