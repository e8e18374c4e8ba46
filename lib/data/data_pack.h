// SPDX-License-Identifier: Apache-2.0
// `dtctl data pack`: a data set as webdataset shards, or in the packed form. Sources are those of
// dataset.h. config.progress is called at intervals and may end the work.
#ifndef DATA_DATA_PACK_H
#define DATA_DATA_PACK_H

#include "data/dataset.h"

enum { DATA_PACK_SHARD_BYTES_MIN = 1 << 20 };

struct data_packed {
    uint32_t samples, shards, bad;
    uint64_t bytes;
};

// The JPEG files of a split, as they are, into dir/000000.tar, … with classes.txt and the shards'
// index beside them. A shard ends before it would be larger than shard_bytes. dir must not exist,
// or be empty (ERR_EXISTS). The same source gives the same bytes. Samples are decoded as a check; a
// bad one is an error, or is left out with config.on_bad.
int data_pack_shards(const struct dataset_config *c, const char *dir, uint64_t shard_bytes,
                     struct data_packed *out, struct err *e);

// A split in the packed form (packed.h) as a file, which must not exist.
int data_pack_pixels(const struct dataset_config *c, const char *path, struct data_packed *out,
                     struct err *e);

#endif
