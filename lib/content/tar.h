// SPDX-License-Identifier: Apache-2.0
// Reading tar archives (ustar, GNU long names, pax paths, links and sizes) front to back, from a
// plain file or through zstd. Names and targets are as the archive has them: env_archive.h
// checks them before it writes files.
//
//     tar_open(&t, path, e);
//     while ((r = tar_next(&t, &entry, e)) > 0)
//         if (wanted) tar_read(&t, buf, entry.size, e);    // else it is skipped
//     tar_close(&t);
//
// In a plain archive entry.offset is the offset of the data, and pread may replace tar_read.
#ifndef CONTENT_TAR_H
#define CONTENT_TAR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TAR_BLOCK_BYTES = 512,
    TAR_PATH_BYTES_MAX = 4096,
    TAR_EXTRA_BYTES_MAX = 1 << 20, // one pax or long-name record
    TAR_ZSTD_WINDOW_LOG_MAX = 27   // zstd --long=27: 128 MiB of memory
};
#define TAR_BYTES_MAX (UINT64_C(1) << 46) // of a whole archive, unpacked

// Where bytes come from: exactly len bytes into buf, or dropped when buf is NULL. Returns 1, 0 at a
// clean end (nothing read), -1 with an error.
struct tar_input {
    int (*read)(struct tar_input *in, void *buf, uint64_t len, struct err *e);
    void (*close)(struct tar_input *in); // frees in; may be NULL
};

enum tar_type {
    TAR_FILE,
    TAR_FOLDER,
    TAR_SYMLINK,
    TAR_HARD_LINK,
    TAR_OTHER // devices, pipes, sparse files
};

struct tar_entry {
    char path[TAR_PATH_BYTES_MAX];
    enum tar_type type;
    uint64_t size;                 // bytes of data; 0 unless TAR_FILE
    uint64_t offset;               // of the data in the unpacked archive
    char link[TAR_PATH_BYTES_MAX]; // target of a link, else ""
    uint32_t mode;                 // permission bits; 0 when the field is damaged, like mtime_s
    int64_t mtime_s;               // wall clock
};

struct tar {
    struct tar_input *in;
    bool seekable;                 // a plain file: offsets may be used with pread(fd)
    int fd;                        // of the archive; -1 for tar_open_input
    uint64_t offset;               // bytes taken from in so far
    uint64_t pending;              // data and padding of the current entry that are left
    uint64_t data;                 // of pending, data
    char path[TAR_PATH_BYTES_MAX]; // name from a record before the header; "" if none
    char link[TAR_PATH_BYTES_MAX]; // likewise
    uint64_t size;                 // likewise
    bool has_size;
};

// Plain or zstd, detected by the first bytes.
int tar_open(struct tar *t, const char *path, struct err *e);
void tar_open_input(struct tar *t, struct tar_input *in); // in is closed by tar_close
void tar_close(struct tar *t);                            // safe on a zeroed one

int tar_next(struct tar *t, struct tar_entry *out, struct err *e); // 1, 0 at the end, -1
// The first len bytes of the current entry's data that were not read yet.
int tar_read(struct tar *t, void *buf, uint64_t len, struct err *e);

// Inputs: a file, memory (for tests), a zstd stream over another file.
struct tar_input *tar_input_file(int fd); // does not own fd
struct tar_input *tar_input_memory(const void *p, size_t len);
struct tar_input *tar_input_zstd(int fd, struct err *e); // does not own fd; NULL on error

#endif
