// SPDX-License-Identifier: Apache-2.0
// Any bytes as an index of shards. The hash is made right first, or nothing would ever get past it.
#include "data/shard_index.h"

#include "base/hash.h"
#include "data/dataset.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err e = {0};
    struct shard_index x;
    unsigned char *copy = malloc(size + 1);
    memcpy(copy, data, size);
    if (size >= HASH_BYTES)
        hash_of(copy + size - HASH_BYTES, copy, size - HASH_BYTES);
    if (shard_index_parse(&x, copy, size, &e) == 0) {
        uint32_t samples = 0;
        for (uint32_t k = 0; k < x.shards; k++) {
            const struct shard_index_shard *s = &x.shard[k];
            must(s->first == samples && shard_index_find(&x, s->name) == s);
            for (uint32_t i = s->first; i < s->first + s->samples; i++) {
                struct webdataset_sample m;
                shard_index_sample(&x, i, &m);
                must(m.at + m.size <= s->bytes && m.label_at + m.label_size <= s->bytes);
                must(m.label >= 0 && m.label < DATASET_CLASSES_MAX);
            }
            samples += s->samples;
        }
        must(samples == x.samples);
        shard_index_close(&x);
    }
    free(copy);
    return 0;
}
