// SPDX-License-Identifier: Apache-2.0
// Any bytes as the name of a member of a shard, a newline, and the text of a label.
#include "data/webdataset.h"

#include "base/arena.h"
#include "data/dataset.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = memchr(data, '\n', size);
    size_t len = end ? (size_t)(end - data) : size, key;
    char *name = malloc(len + 1), *text = malloc(size - len + 1);
    memcpy(name, data, len);
    name[len] = 0;
    enum webdataset_field field = webdataset_name(name, &key);
    must(key <= strlen(name) && (key > 0 || field == WEBDATASET_OTHER));
    must(key == 0 || name[key] == '.');
    struct err e;
    int32_t label = -1;
    memcpy(text, data + len, size - len);
    if (size > len && webdataset_label(text + 1, size - len - 1, &label, &e) == 0)
        must(label >= 0 && label < DATASET_CLASSES_MAX);
    free(name);
    free(text);
    return 0;
}
