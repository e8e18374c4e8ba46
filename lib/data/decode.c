// SPDX-License-Identifier: Apache-2.0
#include "data/decode.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int decoders_open(struct decoders *d, int threads, int image_size, struct err *e) {
    memset(d, 0, sizeof *d);
    d->each = heap_alloc((size_t)threads * sizeof *d->each);
    d->side = d->width = d->height = image_size;
    for (int i = 0; i < threads; i++) {
        d->each[i].fd = -1;
        if (jpeg_open(&d->each[i].jpeg, e) < 0) {
            decoders_close(d);
            return -1;
        }
        d->count++;
    }
    return 0;
}

void decoders_close(struct decoders *d) {
    for (int i = 0; i < d->count; i++) {
        jpeg_close(d->each[i].jpeg);
        resize_fini(&d->each[i].resize);
        free(d->each[i].file);
        if (d->each[i].fd >= 0)
            close(d->each[i].fd);
    }
    free(d->each);
    memset(d, 0, sizeof *d);
}

int decoders_first(struct decoders *d, const void *jpeg, size_t len, struct err *e) {
    if (d->side > 0)
        return 0;
    if (jpeg_size(d->each[0].jpeg, jpeg, len, &d->width, &d->height, e) < 0)
        return -1;
    if (d->width > DATASET_IMAGE_SIZE_MAX || d->height > DATASET_IMAGE_SIZE_MAX)
        return err_set(e, ERR_CONFIG,
                       "images of %d x %d are too large to keep as they are (at most %d): set the "
                       "image size",
                       d->width, d->height, DATASET_IMAGE_SIZE_MAX);
    return 0;
}

uint8_t *decoder_room(struct decoder *d, uint64_t len, struct err *e) {
    if (len > JPEG_FILE_BYTES_MAX) {
        err_set(e, ERR_LIMIT, "%llu bytes are above the limit of %d for one image",
                (unsigned long long)len, JPEG_FILE_BYTES_MAX);
        return NULL;
    }
    if (d->file_room < len || !d->file) {
        free(d->file);
        d->file_room = len > 0 ? len : 1;
        d->file = heap_alloc(d->file_room);
    }
    return d->file;
}

int decoders_image(const struct decoders *d, int thread, const void *jpeg, size_t len, uint8_t *out,
                   struct err *e) {
    struct decoder *one = &d->each[thread];
    const uint8_t *rgb;
    int width, height;
    if (jpeg_decode(one->jpeg, jpeg, len, &rgb, &width, &height, e) < 0)
        return -1;
    if (width == d->width && height == d->height)
        memcpy(out, rgb, (size_t)width * (size_t)height * 3);
    else if (d->side > 0)
        resize_square(&one->resize, rgb, width, height, d->side, out);
    else
        return err_set(e, ERR_CONFIG,
                       "image of %d x %d where others have %d x %d: set the image size to have all "
                       "resized",
                       width, height, d->width, d->height);
    return 0;
}
