// SPDX-License-Identifier: Apache-2.0
// The processes of this computer that have a file open for writing.
#ifndef SYS_FILE_WRITERS_H
#define SYS_FILE_WRITERS_H

enum file_writers {
    FILE_WRITERS_NONE,   // or none that the kernel knows of: those of other computers
    FILE_WRITERS_APPEND, // all have it open with O_APPEND: what is in the file stays
    FILE_WRITERS_ANY,    // one may write anywhere, or is of a user that this one must not look at
};

// The process must ignore SIGIO: a lease that another process breaks sends this signal, which would
// end the program.
enum file_writers file_writers(const char *path);

#endif
