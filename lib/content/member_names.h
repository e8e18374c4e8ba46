// SPDX-License-Identifier: Apache-2.0
// The names of an archive's members, to tell whether the archive can be unpacked front to back
// without a member that changes what another one is: a folder stays a folder, nothing is below a
// file or a link, and a hard link names a file before it. A later file or link takes the place of
// an earlier one, as in tar.
//
// A name takes at most 32 bytes of memory: names are compared by 62 bits of their SHA-256. With
// owners (the archives of one folder) it takes 48, and two owners may share nothing but folders.
#ifndef CONTENT_MEMBER_NAMES_H
#define CONTENT_MEMBER_NAMES_H

#include "base/err.h"
#include "content/tar.h"

#include <stddef.h>
#include <stdint.h>

struct member_names { // zeroed: none
    uint64_t *slots;
    uint32_t *owners; // of the slots; NULL: there are none
    size_t count, room;
    uint32_t owner;                  // of the members that are added; 0: none, and then of all
    uint32_t other;                  // after ERR_EXISTS: who has the name already
    char folder[TAR_PATH_BYTES_MAX]; // of the last member; "": the archive's own
};

// The name, and a hard link's target, are plain relative paths. ERR_FORMAT: the member conflicts
// with one before it; the error names both. ERR_EXISTS: with one of another owner.
int member_names_add(struct member_names *m, const char *name, enum tar_type type,
                     const char *target, struct err *e);
void member_names_fini(struct member_names *m);

#endif
