// SPDX-License-Identifier: Apache-2.0
// `dtctl data index s3://…`: indices of webdataset shards in a bucket, written beside them. dtdata
// serves the shards here, in a folder that holds a few of them at a time and goes in the end.
#ifndef RUN_INDEX_BUCKET_H
#define RUN_INDEX_BUCKET_H

#include "data/data_index.h"
#include "ui/context.h"

enum {
    INDEX_BUCKET_WINDOW_BYTES = 64 << 20, // fetched ahead
    INDEX_BUCKET_CACHE_BYTES = 512 << 20, // on this disk, or one shard that is larger
    INDEX_BUCKET_ANSWER_BYTES_MAX = 1 << 16,
    INDEX_BUCKET_START_MS_MAX = 60 * 1000,
};

// The bucket is checked for writing before a shard is read.
int index_bucket(struct context *s, const char *source,
                 int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e),
                 void *ctx, struct data_indexed *out, struct err *e);

#endif
