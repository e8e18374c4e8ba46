// SPDX-License-Identifier: Apache-2.0
// `dtctl data index`: the index files of webdataset shards. progress is called at intervals and may
// end the work.
#ifndef DATA_DATA_INDEX_H
#define DATA_DATA_INDEX_H

#include "base/err.h"

#include <stdint.h>

struct data_indexed {
    uint32_t folders, shards, samples;
};

// Writes the index (shard_index.h) of the shards of each folder that a source of them has.
// progress counts shards, and may be NULL.
int data_index(const char *dir,
               int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e), void *ctx,
               struct data_indexed *out, struct err *e);

// The same of a streamed input (served.h), whose lists are in the folder `served`: its shards are
// those at the top and in folders such as train. The indices are written below `to`, each in the
// folder of its shards.
int data_index_served(const char *served, const char *to,
                      int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e),
                      void *ctx, struct data_indexed *out, struct err *e);

#endif
