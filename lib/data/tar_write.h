// SPDX-License-Identifier: Apache-2.0
// Writing tar archives (ustar) whose bytes depend on names and contents alone: owner and time are
// 0.
#ifndef DATA_TAR_WRITE_H
#define DATA_TAR_WRITE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { TAR_WRITE_NAME_BYTES_MAX = 99, TAR_WRITE_BUFFER_BYTES = 1 << 20 };

struct tar_writer {
    int fd; // the caller's
    uint64_t bytes;
    uint8_t *buffer;
    size_t used;
};

void tar_write_open(struct tar_writer *w, int fd);
// A file. name has at most TAR_WRITE_NAME_BYTES_MAX bytes.
int tar_write_file(struct tar_writer *w, const char *name, const void *data, size_t len,
                   struct err *e);
// The closing blocks. Frees in any case.
int tar_write_end(struct tar_writer *w, struct err *e);
void tar_write_abort(struct tar_writer *w); // safe on a zeroed one
uint64_t tar_write_size(size_t len);        // bytes that a file of len bytes adds

#endif
