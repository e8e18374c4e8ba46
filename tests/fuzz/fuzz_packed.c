// SPDX-License-Identifier: Apache-2.0
// Any bytes as a packed data set. The hash of the header is made right first, or nothing would ever
// get past it.
#include "data/packed.h"

#include "base/bytes.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err e = {0};
    struct packed p;
    unsigned char *copy = aligned_alloc(64, (size + 64) / 64 * 64);
    memcpy(copy, data, size);
    if (size >= PACKED_HEAD_BYTES) {
        uint64_t names = bytes_load(copy + 40, 8), room = size - PACKED_HEAD_BYTES;
        struct hash h;
        hash_init(&h);
        hash_add(&h, copy, 128);
        hash_add(&h, copy + PACKED_HEAD_BYTES, names < room ? names : room);
        hash_final(&h, copy + 128);
    }
    if (packed_parse(&p, copy, size, &e) == 0) {
        const struct packed_info *i = &p.info;
        size_t image = (size_t)i->height * i->width * i->channels, letters = 0;
        unsigned sum = 0;
        must(p.pixels + image * i->samples == copy + size);
        for (size_t k = 0; k < image * i->samples; k++)
            sum += p.pixels[k];
        for (uint32_t k = 0; k < i->classes; k++)
            letters += strlen(i->class_names[k]);
        must(letters <= size && sum <= size * 255);
        packed_close(&p);
    }
    free(copy);
    return 0;
}
