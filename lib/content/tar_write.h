// SPDX-License-Identifier: Apache-2.0
// Writing tar archives whose bytes depend on names, modes and contents alone: owner and time are 0.
// The format is ustar; names, links and sizes that it has no room for are in pax records.
//
//     tar_write_open_zstd(&w, fd, level, e);
//     tar_write_begin(&w, &(struct tar_write_entry){.name = "a/b", .mode = 0644, .size = n}, e);
//     tar_write_data(&w, bytes, n, e); // in any pieces
//     tar_write_end(&w, e);
#ifndef CONTENT_TAR_WRITE_H
#define CONTENT_TAR_WRITE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TAR_WRITE_NAME_BYTES_MAX = 99, TAR_WRITE_BUFFER_BYTES = 1 << 20 };
enum { TAR_WRITE_LONG_NAME_BYTES_MAX = 4095 }; // of tar_write_begin, with pax records

struct tar_writer {
    int fd; // the caller's
    uint64_t bytes;
    uint64_t left;    // bytes of the entry's data that are to come
    unsigned padding; // behind them
    uint8_t *buffer;
    size_t used;
    void *zstd; // ZSTD_CCtx; NULL: not compressed
    uint8_t *packed;
    size_t packed_room;
};

struct tar_write_entry {
    const char *name; // at most TAR_WRITE_LONG_NAME_BYTES_MAX bytes, without a '/' at the end
    const char *link; // target of a symbolic link, of at most as many bytes; NULL: no link
    bool folder;
    unsigned mode; // permission bits
    uint64_t size; // bytes of data; 0 for links and folders
};

void tar_write_open(struct tar_writer *w, int fd);
// Compressed with zstd, in one thread. ERR_LIMIT when there is no memory for it.
int tar_write_open_zstd(struct tar_writer *w, int fd, int level, struct err *e);
// Begins an entry. The data of the one before has to be complete.
int tar_write_begin(struct tar_writer *w, const struct tar_write_entry *x, struct err *e);
// The next bytes of the entry's data, not more than are left.
int tar_write_data(struct tar_writer *w, const void *data, size_t len, struct err *e);
// A whole file of mode 0644. name has at most TAR_WRITE_NAME_BYTES_MAX bytes.
int tar_write_file(struct tar_writer *w, const char *name, const void *data, size_t len,
                   struct err *e);
// The closing blocks. Frees in any case.
int tar_write_end(struct tar_writer *w, struct err *e);
void tar_write_abort(struct tar_writer *w); // safe on a zeroed one
uint64_t tar_write_size(size_t len);        // bytes that a file of len bytes adds

#endif
