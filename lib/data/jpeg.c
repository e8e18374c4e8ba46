// SPDX-License-Identifier: Apache-2.0
#include "data/jpeg.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

struct jpeg {
    tjhandle turbo;
    uint8_t *rgb, *cmyk;
    size_t rgb_room, cmyk_room;
};

int jpeg_open(struct jpeg **out, struct err *e) {
    struct jpeg *j = heap_alloc(sizeof *j);
    j->turbo = tjInitDecompress();
    if (!j->turbo) {
        free(j);
        return err_set(e, ERR_SYS, "no JPEG decoder: %s", tjGetErrorStr2(NULL));
    }
    *out = j;
    return 0;
}

void jpeg_close(struct jpeg *j) {
    if (!j)
        return;
    tjDestroy(j->turbo);
    free(j->rgb);
    free(j->cmyk);
    free(j);
}

static int jpeg_head(struct jpeg *j, const void *data, size_t len, int *width, int *height,
                     int *colours, struct err *e) {
    if (len > JPEG_FILE_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "JPEG of %zu bytes is above the limit of %d", len,
                       JPEG_FILE_BYTES_MAX);
    int subsampling;
    if (tjDecompressHeader3(j->turbo, data, (unsigned long)len, width, height, &subsampling,
                            colours) < 0 &&
        tjGetErrorCode(j->turbo) != TJERR_WARNING)
        return err_set(e, ERR_FORMAT, "not a JPEG image: %s", tjGetErrorStr2(j->turbo));
    if (*width < 1 || *height < 1)
        return err_set(e, ERR_FORMAT, "JPEG image without size");
    if (*width > JPEG_SIDE_MAX || *height > JPEG_SIDE_MAX ||
        (int64_t)*width * *height > JPEG_PIXELS_MAX)
        return err_set(e, ERR_LIMIT,
                       "JPEG image of %d x %d is above the limit of %d pixels (%d along one side)",
                       *width, *height, JPEG_PIXELS_MAX, JPEG_SIDE_MAX);
    return 0;
}

int jpeg_size(struct jpeg *j, const void *data, size_t len, int *width, int *height,
              struct err *e) {
    int colours;
    return jpeg_head(j, data, len, width, height, &colours, e);
}

static uint8_t *jpeg_room(uint8_t **buf, size_t *room, size_t bytes) {
    if (*room < bytes) {
        free(*buf); // nothing of it is needed, so no copy
        *buf = heap_alloc(bytes);
        *room = bytes;
    }
    return *buf;
}

// Repairs are fine, a file that ends early is not: half an image is grey.
static int jpeg_verdict(struct jpeg *j, struct err *e) {
    const char *why = tjGetErrorStr2(j->turbo);
    if (tjGetErrorCode(j->turbo) == TJERR_WARNING && !strstr(why, "Premature end"))
        return 0;
    return err_set(e, ERR_FORMAT, "damaged JPEG image: %s", why);
}

// libjpeg gives CMYK as Adobe stores it: inverted.
static void jpeg_from_cmyk(uint8_t *rgb, const uint8_t *cmyk, size_t pixels) {
    for (size_t i = 0; i < pixels; i++, rgb += 3, cmyk += 4)
        for (int k = 0; k < 3; k++)
            rgb[k] = (uint8_t)((cmyk[k] * cmyk[3] + 127) / 255);
}

int jpeg_decode(struct jpeg *j, const void *data, size_t len, const uint8_t **rgb, int *width,
                int *height, struct err *e) {
    int colours;
    if (jpeg_head(j, data, len, width, height, &colours, e) < 0)
        return -1;
    size_t pixels = (size_t)*width * (size_t)*height;
    uint8_t *out = jpeg_room(&j->rgb, &j->rgb_room, pixels * 3), *to = out;
    int format = TJPF_RGB;
    if (colours == TJCS_CMYK || colours == TJCS_YCCK) {
        format = TJPF_CMYK;
        to = jpeg_room(&j->cmyk, &j->cmyk_room, pixels * 4);
    }
    // LIMITSCANS: a progressive file may not ask for the same pixels hundreds of times.
    if (tjDecompress2(j->turbo, data, (unsigned long)len, to, *width, 0, *height, format,
                      TJFLAG_LIMITSCANS) < 0 &&
        jpeg_verdict(j, e) < 0)
        return -1;
    if (format == TJPF_CMYK)
        jpeg_from_cmyk(out, to, pixels);
    *rgb = out;
    return 0;
}
