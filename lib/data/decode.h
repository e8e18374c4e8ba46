// SPDX-License-Identifier: Apache-2.0
// Private to lib/data: one decoder per thread, from the bytes of a JPEG to an image of the set's
// size.
#ifndef DATA_DECODE_H
#define DATA_DECODE_H

#include "data/dataset.h"
#include "data/jpeg.h"
#include "data/resize.h"

#include <stdint.h>

struct decoder {
    struct jpeg *jpeg;
    struct resize resize;
    uint8_t *file; // room for compressed bytes
    size_t file_room;
    int fd; // of an archive that is read from, -1: none
    uint32_t archive;
};

struct decoders {
    struct decoder *each;
    int count;
    int side;          // 0: images must be width x height already
    int width, height; // of the result
};

// Decides the result's size: image_size, or that of the first image.
int decoders_open(struct decoders *d, int threads, int image_size, struct err *e);
int decoders_first(struct decoders *d, const void *jpeg, size_t len, struct err *e);
void decoders_close(struct decoders *d); // safe on a zeroed one
// Room for a compressed file of len bytes, checked against the limit; NULL with e.
uint8_t *decoder_room(struct decoder *d, uint64_t len, struct err *e);
int decoders_image(const struct decoders *d, int thread, const void *jpeg, size_t len, uint8_t *out,
                   struct err *e);

#endif
