// SPDX-License-Identifier: Apache-2.0
// The lines of a file of any size, one after the other, in a small buffer.
//
//     struct file_lines in;
//     if (file_lines_open(&in, path, line_bytes_max, bytes_max, e) == 0)
//         while (file_lines_next(&in))
//             … in.line, in.len, in.number …
//     return file_lines_close(&in, rc, e);
#ifndef SYS_FILE_LINES_H
#define SYS_FILE_LINES_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file_lines {
    const char *line; // without its newline; not NUL-terminated; until the next call
    size_t len;
    uint64_t number; // from 1
    bool cut;        // the line was longer than line_bytes_max; its rest is left out
    bool unended;    // the last one, without a newline
    const char *path;
    size_t line_bytes_max;
    uint64_t bytes_left; // of bytes_max; the file may grow meanwhile
    int fd;              // -1: it is not open
    int error;           // errno of a failed read; 0
    bool ended, skips;
    struct strbuf text;
    size_t at, used; // where the next line begins; where this one ends
};

// Opens a regular file. ERR_NOT_FOUND; ERR_LIMIT above bytes_max; ERR_SYS for any other file: its
// open or its reads could wait.
int file_lines_open(struct file_lines *in, const char *path, size_t line_bytes_max,
                    uint64_t bytes_max, struct err *e);
bool file_lines_next(struct file_lines *in);
// Returns rc if it is negative, else 0, or -1 when the file could not be read to its end.
int file_lines_close(struct file_lines *in, int rc, struct err *e);

#endif
