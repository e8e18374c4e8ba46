// SPDX-License-Identifier: Apache-2.0
// JPEG pictures for the tests of lib/data.
#ifndef TESTS_PICTURES_H
#define TESTS_PICTURES_H

#include <math.h>
#include <stdio.h> // jpeglib.h needs it
#include <stdlib.h>

#include <jpeglib.h>

enum jpeg_style { PLAIN, FULL_CHROMA, PROGRESSIVE, GREY, STYLES };

// A picture with edges and slopes, so that a pixel in the wrong place shows.
static inline size_t make_jpeg(unsigned char **out, int w, int h, int tone, enum jpeg_style style) {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned long len = 0;
    int channels = style == GREY ? 1 : 3;
    unsigned char *row = malloc((size_t)w * 3);
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    *out = NULL;
    jpeg_mem_dest(&c, out, &len);
    c.image_width = (JDIMENSION)w;
    c.image_height = (JDIMENSION)h;
    c.input_components = channels;
    c.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 90, TRUE);
    for (int i = 0; style == FULL_CHROMA && i < 3; i++)
        c.comp_info[i].h_samp_factor = c.comp_info[i].v_samp_factor = 1;
    if (style == PROGRESSIVE)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++) {
            int wave = (int)(60 * sin(x * 0.13 + tone) * cos(y * 0.09));
            row[x * channels] = (unsigned char)((tone * 7 + x * 200 / w + wave + 512) & 255);
            if (channels == 1)
                continue;
            row[x * 3 + 1] = (unsigned char)(x / 12 % 2 ? 40 : 200 - y * 100 / h);
            row[x * 3 + 2] = (unsigned char)(128 + wave + (y / 20 % 2 ? 50 : 0));
        }
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return len;
}

#endif
