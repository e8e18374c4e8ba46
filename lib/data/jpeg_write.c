// SPDX-License-Identifier: Apache-2.0
// The compressing half of libjpeg-turbo, with its errors as ours.
#include "data/jpeg_write.h"

#include <setjmp.h>
#include <stdio.h> // jpeglib.h needs it
#include <stdlib.h>

#include <jpeglib.h>

struct jpeg_writer {
    struct jpeg_compress_struct info; // first: libjpeg hands it back as an opaque pointer
    struct jpeg_error_mgr errors;
    jmp_buf jump;
    char text[JMSG_LENGTH_MAX];
};

static _Noreturn void jpeg_write_fail(j_common_ptr info) {
    struct jpeg_writer *w = (struct jpeg_writer *)(void *)info;
    info->err->format_message(info, w->text);
    longjmp(w->jump, 1);
}

static void jpeg_write_lines(struct jpeg_writer *w, const uint8_t *rgb, int width, int height) {
    w->info.image_width = (JDIMENSION)width;
    w->info.image_height = (JDIMENSION)height;
    w->info.input_components = 3;
    w->info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&w->info);
    jpeg_set_quality(&w->info, JPEG_WRITE_QUALITY, TRUE);
    jpeg_start_compress(&w->info, TRUE);
    while (w->info.next_scanline < w->info.image_height) {
        // The library only reads it; its type lacks the const.
        JSAMPROW row =
            (JSAMPROW)(uintptr_t)(rgb + (size_t)w->info.next_scanline * (size_t)width * 3);
        jpeg_write_scanlines(&w->info, &row, 1);
    }
    jpeg_finish_compress(&w->info);
}

int jpeg_write(const uint8_t *rgb, int width, int height, unsigned char **out, size_t *len,
               struct err *e) {
    struct jpeg_writer w = {0};
    unsigned long bytes = 0;
    *out = NULL;
    w.info.err = jpeg_std_error(&w.errors);
    w.errors.error_exit = jpeg_write_fail;
    if (setjmp(w.jump)) {
        jpeg_destroy_compress(&w.info);
        free(*out);
        *out = NULL;
        return err_set(e, ERR_FAILED, "cannot make a JPEG image: %s", w.text);
    }
    jpeg_create_compress(&w.info);
    jpeg_mem_dest(&w.info, out, &bytes);
    jpeg_write_lines(&w, rgb, width, height);
    jpeg_destroy_compress(&w.info);
    *len = bytes;
    return 0;
}
