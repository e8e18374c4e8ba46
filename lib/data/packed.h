// SPDX-License-Identifier: Apache-2.0
// The packed form: a whole split as uint8 NHWC pixels and int32 labels in one file that is mapped,
// not read. Made once per (source, split, image size); the key of 32 bytes says from what.
//
// File, little-endian (int32 labels and pixels are used in place, so only such hosts can map it):
//      0  magic "DTPACK\0\1"     32  u64 names offset     72  kind, 24 bytes, zero-filled
//      8  u32 version            40  u64 names bytes      96  key, 32 bytes
//     12  u32 channels           48  u64 labels offset   128  SHA-256 of bytes 0…127 and names
//     16  u32 samples            56  u64 pixels offset   160  class names, NUL-terminated,
//     20  u32 height             64  u64 file bytes           then labels, then pixels,
//     24  u32 width              28  u32 classes              both aligned
// Writing goes to a temporary file that is renamed when complete, so a reader never sees a part.
#ifndef DATA_PACKED_H
#define DATA_PACKED_H

#include "base/arena.h"
#include "base/err.h"
#include "sys/atomic_file.h"

#include <stddef.h>
#include <stdint.h>

enum {
    PACKED_VERSION = 1,
    PACKED_KIND_BYTES = 24,
    PACKED_KEY_BYTES = 32,
    PACKED_HEAD_BYTES = 160,
    PACKED_ALIGN_BYTES = 4096,
    PACKED_NAMES_BYTES_MAX = 16 << 20
};
#define PACKED_FILE_BYTES_MAX (UINT64_C(1) << 44)

struct packed_info {
    uint32_t samples, height, width, channels, classes;
    const char *const *class_names;
    char kind[PACKED_KIND_BYTES];
    unsigned char key[PACKED_KEY_BYTES];
};

struct packed {
    struct packed_info info; // names in the arena
    const int32_t *labels;
    const uint8_t *pixels;
    struct arena arena;
    void *map;
    size_t map_bytes;
};

// Checks every field and every label. The pointers go into bytes, which must stay.
int packed_parse(struct packed *p, const void *bytes, size_t len, struct err *e);
int packed_open(struct packed *p, const char *path, struct err *e); // maps it; ERR_NOT_FOUND
void packed_close(struct packed *p);                                // safe on a zeroed one

// Making one. path NULL: in anonymous memory. Fill pixels and labels, then commit or abort.
struct packed_writer {
    struct packed_info info; // the caller's names
    uint8_t *pixels;
    int32_t *labels;
    struct atomic_file file; // fd -1: in anonymous memory
    void *map;
    size_t map_bytes;
};

// ERR_LIMIT when there is no room for it; the text says how much is needed.
int packed_create(struct packed_writer *w, const char *path, const struct packed_info *info,
                  struct err *e);
// The result is opened in p; the writer is gone either way.
int packed_commit(struct packed_writer *w, struct packed *p, struct err *e);
void packed_abort(struct packed_writer *w); // safe on a zeroed one

#endif
