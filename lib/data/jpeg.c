// SPDX-License-Identifier: Apache-2.0
// Decodes JPEG to RGB: whole, a part, or reduced by 2, 4 or 8.
//
// libjpeg reports a fatal error through a callback that must not return; it jumps back to the one
// setjmp below. Everything it had allocated belongs to the decoder object, so nothing is lost.
#include "data/jpeg.h"

#include "base/arena.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h> // jpeglib.h needs it
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h>

enum { JPEG_SCANS_MAX = 500 }; // a progressive file may not ask for the same pixels without end

struct jpeg {
    struct jpeg_decompress_struct info; // first: libjpeg hands it back as an opaque pointer
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    char text[JMSG_LENGTH_MAX];
    bool truncated;
    uint8_t *rgb, *row;
    size_t rgb_room, row_room;
};

static _Noreturn void jpeg_fail(j_common_ptr info) {
    struct jpeg *j = (struct jpeg *)(void *)info;
    info->err->format_message(info, j->text);
    longjmp(j->jump, 1);
}

// Warnings are repairs; only a premature end is remembered.
static void jpeg_message(j_common_ptr info, int level) {
    struct jpeg *j = (struct jpeg *)(void *)info;
    if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF)
        j->truncated = true;
}

static void jpeg_watch(j_common_ptr info) {
    struct jpeg *j = (struct jpeg *)(void *)info;
    if (info->is_decompressor && j->info.input_scan_number > JPEG_SCANS_MAX) {
        snprintf(j->text, sizeof j->text, "more than %d scans", JPEG_SCANS_MAX);
        longjmp(j->jump, 1);
    }
}

int jpeg_open(struct jpeg **out, struct err *e) {
    struct jpeg *j = heap_alloc(sizeof *j);
    j->info.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = jpeg_fail;
    j->errors.emit_message = jpeg_message;
    j->progress.progress_monitor = jpeg_watch;
    if (setjmp(j->jump)) {
        err_set(e, ERR_SYS, "no JPEG decoder: %s", j->text);
        free(j);
        return -1;
    }
    jpeg_create_decompress(&j->info);
    j->info.progress = &j->progress;
    *out = j;
    return 0;
}

void jpeg_close(struct jpeg *j) {
    if (!j)
        return;
    jpeg_destroy_decompress(&j->info);
    free(j->rgb);
    free(j->row);
    free(j);
}

static uint8_t *jpeg_room(uint8_t **buf, size_t *room, size_t bytes) {
    if (*room < bytes) {
        free(*buf); // nothing of it is needed, so no copy
        *buf = heap_alloc(bytes);
        *room = bytes;
    }
    return *buf;
}

// libjpeg gives CMYK as Adobe stores it: inverted.
static void jpeg_from_cmyk(uint8_t *rgb, const uint8_t *cmyk, size_t pixels) {
    for (size_t i = 0; i < pixels; i++, rgb += 3, cmyk += 4)
        for (int k = 0; k < 3; k++)
            rgb[k] = (uint8_t)((cmyk[k] * cmyk[3] + 127) / 255);
}

// The three steps that may jump. 0 or -1 with e; jumps for what libjpeg finds.
static int jpeg_head(struct jpeg *j, const void *data, size_t len, struct err *e) {
    j->truncated = false;
    jpeg_mem_src(&j->info, data, (unsigned long)len);
    jpeg_read_header(&j->info, TRUE);
    uint64_t width = j->info.image_width, height = j->info.image_height;
    if (width > JPEG_SIDE_MAX || height > JPEG_SIDE_MAX || width * height > JPEG_PIXELS_MAX)
        return err_set(e, ERR_LIMIT,
                       "JPEG image of %u x %u is above the limit of %d pixels (%d along one side)",
                       j->info.image_width, j->info.image_height, JPEG_PIXELS_MAX, JPEG_SIDE_MAX);
    return 0;
}

// The decoded part of the reduced image.
struct jpeg_box {
    JDIMENSION x, y, width, height;
};

// Chroma of an edge pixel is made from its neighbours, so a part needs some pixels around it to be
// the same as in the whole image; libjpeg moves the left edge to the next block boundary itself.
enum { JPEG_MARGIN = 16 };

static void jpeg_box_of(const struct jpeg *j, const struct jpeg_part *part, struct jpeg_box *box) {
    int64_t by = part->reduction, width = j->info.output_width, height = j->info.output_height;
    int64_t x0 = part->x / by - JPEG_MARGIN, x1 = (part->x + part->w + by - 1) / by + JPEG_MARGIN;
    int64_t y0 = part->y / by, y1 = (part->y + part->h + by - 1) / by;
    x0 = x0 < 0 ? 0 : x0;
    x1 = x1 > width ? width : x1;
    y1 = y1 > height ? height : y1;
    *box = (struct jpeg_box){(JDIMENSION)x0, (JDIMENSION)y0, (JDIMENSION)(x1 - x0),
                             (JDIMENSION)(y1 - y0)};
}

// Decodes the part (NULL: everything) into j->rgb.
static void jpeg_pixels(struct jpeg *j, const struct jpeg_part *part, struct jpeg_box *box) {
    bool cmyk = j->info.jpeg_color_space == JCS_CMYK || j->info.jpeg_color_space == JCS_YCCK;
    j->info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    j->info.scale_num = 1;
    j->info.scale_denom = part ? (unsigned)part->reduction : 1;
    jpeg_start_decompress(&j->info);
    *box = (struct jpeg_box){0, 0, j->info.output_width, j->info.output_height};
    if (part) {
        jpeg_box_of(j, part, box);
        if (box->width < j->info.output_width)
            jpeg_crop_scanline(&j->info, &box->x, &box->width);
        if (box->y > 0)
            jpeg_skip_scanlines(&j->info, box->y);
    }
    size_t width = box->width;
    uint8_t *at = jpeg_room(&j->rgb, &j->rgb_room, width * box->height * 3);
    uint8_t *row = cmyk ? jpeg_room(&j->row, &j->row_room, width * 4) : NULL;
    while (j->info.output_scanline < box->y + box->height) {
        JSAMPROW line = cmyk ? row : at;
        if (jpeg_read_scanlines(&j->info, &line, 1) != 1)
            continue;
        if (cmyk)
            jpeg_from_cmyk(at, row, width);
        at += width * 3;
    }
    if (!part)
        jpeg_finish_decompress(&j->info);
}

// box NULL: the header alone.
static int jpeg_run(struct jpeg *j, const void *data, size_t len, const struct jpeg_part *part,
                    struct jpeg_box *box, struct err *e) {
    if (len > JPEG_FILE_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "JPEG of %zu bytes is above the limit of %d", len,
                       JPEG_FILE_BYTES_MAX);
    if (len == 0)
        return err_set(e, ERR_FORMAT, "not a JPEG image: it is empty");
    if (setjmp(j->jump)) {
        jpeg_abort_decompress(&j->info);
        return err_set(e, ERR_FORMAT, "not a readable JPEG image: %s%s", j->text,
                       j->truncated ? " (and it ends too early)" : "");
    }
    int bad = jpeg_head(j, data, len, e);
    if (bad == 0 && box)
        jpeg_pixels(j, part, box);
    jpeg_abort_decompress(&j->info); // no-op after a complete run; keeps the object
    if (bad == 0 && box && j->truncated)
        return err_set(e, ERR_FORMAT, "truncated JPEG image: it ends too early");
    return bad;
}

int jpeg_size(struct jpeg *j, const void *data, size_t len, int *width, int *height,
              struct err *e) {
    int bad = jpeg_run(j, data, len, NULL, NULL, e);
    *width = (int)j->info.image_width;
    *height = (int)j->info.image_height;
    return bad;
}

int jpeg_decode(struct jpeg *j, const void *data, size_t len, const uint8_t **rgb, int *width,
                int *height, struct err *e) {
    struct jpeg_box box;
    int bad = jpeg_run(j, data, len, NULL, &box, e);
    *width = (int)j->info.image_width;
    *height = (int)j->info.image_height;
    *rgb = j->rgb;
    return bad;
}

int jpeg_decode_part(struct jpeg *j, const void *data, size_t len, const struct jpeg_part *part,
                     struct jpeg_pixels *out, struct err *e) {
    struct jpeg_box box = {0};
    if (jpeg_run(j, data, len, part, &box, e) < 0)
        return -1;
    *out = (struct jpeg_pixels){j->rgb, (int)box.x, (int)box.y, (int)box.width, (int)box.height};
    return 0;
}
