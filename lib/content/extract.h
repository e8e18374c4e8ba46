// SPDX-License-Identifier: Apache-2.0
// Unpacks the tar archives of a folder, plain or through zstd, to another folder:
//
//     extract_tree("inputs/x", "inputs/x-extracted", tick, NULL, e);
//
// The members of a/b.tar come to a/, as by tar -xf beside it; other files and links come along.
// The bytes are foreign: archive_pass.h, member_names.h. A link has to stay in its own folder.
// Two archives, or an archive and a file, may share nothing but folders.
#ifndef CONTENT_EXTRACT_H
#define CONTENT_EXTRACT_H

#include "content/archive_pass.h"

#include <stdbool.h>

bool extract_is_archive(const char *path); // by the end of its name
// Refuses, by its name, an archive that cannot be unpacked. ERR_CONFIG says how to convert it.
int extract_check_name(const char *path, struct err *e);
// dest does not exist. It appears as a whole, after its content is on the disk; a process that is
// killed before leaves folders beside it whose names begin with that of dest and PLACE_NEW.
// Everything is checked before the first file is written. Errors name archive and member.
int extract_tree(const char *from, const char *dest, content_tick *tick, void *ctx, struct err *e);
// The same unless dest is there, which is complete then. The lock is a file in `locks`: one process
// unpacks, others wait for its tree. Removes what an attempt that was killed has left.
int extract_once(const char *from, const char *dest, const char *locks, content_tick *tick,
                 void *ctx, bool *made, struct err *e);

#endif
