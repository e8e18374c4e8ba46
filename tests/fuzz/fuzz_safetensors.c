// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: any bytes are refused, or every tensor is inside the data and
// the tensors cover it exactly.
#include "base/bytes.h"
#include "nn/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The first eight bytes are the size of the data behind the header.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena a = {0};
    struct safetensors_header h;
    struct err e;
    if (size < 8)
        return 0;
    uint64_t data_bytes = bytes_load(data, 8);
    if (safetensors_parse(&a, (const char *)data + 8, size - 8, data_bytes, &h, &e) == 0) {
        uint64_t covered = 0;
        for (size_t i = 0; i < h.count; i++) {
            const struct safetensors_tensor *t = &h.tensors[i];
            must(t->begin == covered && t->end >= t->begin && t->end <= data_bytes);
            must(safetensors_find(&h, t->name) == t);
            covered = t->end;
        }
        must(covered == data_bytes);
    } else {
        must(e.code != ERR_NONE && e.text[0]);
    }
    arena_fini(&a);
    return 0;
}
