// SPDX-License-Identifier: Apache-2.0
// The size of a file, or of all files below a folder.
#ifndef SYS_FILE_MEASURE_H
#define SYS_FILE_MEASURE_H

#include <stdint.h>

struct file_measure {
    uint64_t files, bytes; // links and special files are not counted
    int64_t changed_ms;    // wall clock of the newest change; 0: no file
};
// Follows no link. A missing or unreadable part counts as empty.
void file_measure(const char *path, struct file_measure *out);

#endif
