// SPDX-License-Identifier: Apache-2.0
// Any bytes as the one archive of a data set, as shards and as class archives: indexed, and every
// sample read and decoded through a random part at a reduced scale.
#include "data/dataset.h"

#include "base/log.h"
#include "data/webdataset.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 16, SAMPLES_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A new file for each input; its name is gone when the process ends.
static const char *archive(const uint8_t *data, size_t size) {
    static char path[] = "/tmp/dtctl-fuzz-XXXXXX.tar";
    static int fd = -1;
    if (fd < 0 && (fd = mkstemps(path, 4)) < 0)
        abort();
    if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    return path;
}

static void clean(void) {
    unlink(archive(NULL, 0));
}

static void read_all(const struct dataset *d) {
    uint8_t out[SIDE * SIDE * 3];
    struct dataset_reader *r;
    struct err e;
    must(d->samples > 0 && d->classes > 0 && d->image_bytes == sizeof out);
    for (uint32_t i = 0; i < d->samples; i++)
        must(d->labels[i] >= 0 && d->labels[i] < d->classes);
    if (dataset_reader_open(&r, d, &e) < 0)
        abort();
    for (uint32_t i = 0; i < d->samples && i < SAMPLES_MAX; i++) {
        int32_t label = -1;
        if (dataset_read(r, i, 1, i, out, &label, &e) == 0)
            must(label >= 0 && label < d->classes);
    }
    dataset_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const kinds[] = {"webdataset", "tar"};
    static bool registered;
    if (!registered)
        atexit(clean);
    registered = true;
    for (int k = 0; k < 2; k++) {
        struct dataset d;
        struct err e = {0};
        const struct dataset_config c = {.source = archive(data, size),
                                         .kind = kinds[k],
                                         .image_size = SIDE,
                                         .stream = true,
                                         .random_crop = true,
                                         .on_bad = DATASET_BAD_REFUSE};
        if (dataset_open(&d, &c, &e) < 0)
            continue;
        read_all(&d);
        dataset_close(&d);
    }
    return 0;
}
