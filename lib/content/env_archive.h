// SPDX-License-Identifier: Apache-2.0
// The archive of a Python environment, made by conda-pack or from a venv: a tar file, plain or
// through zstd, of `bin/` and what belongs to it. All of it may lie below one folder, whose name
// does not count.
//
//     env_archive_check(path, &facts, NULL, NULL, e);    // reads all of it, writes nothing
//     env_archive_unpack(path, &facts, dest, NULL, NULL, e);
//
// The bytes are foreign. A member whose name leads out of the folder, a link whose target does, a
// device, a pipe, a sparse file and a member that conflicts with one before it (member_names.h) are
// refused. One link may lead out: a venv's `bin/python…` to
// the interpreter of the node. Owners, setuid, setgid and the modes of folders do not count; the
// owner may read and write every file.
#ifndef CONTENT_ENV_ARCHIVE_H
#define CONTENT_ENV_ARCHIVE_H

#include "base/err.h"
#include "content/archive_pass.h"

#include <stddef.h>
#include <stdint.h>

struct env_archive {
    struct archive_total total;
    size_t top_len;                       // of "NAME/" in front of every name; 0: none
    char interpreter[TAR_PATH_BYTES_MAX]; // of the node, which bin/python… links to; "": none
};

// ERR_FORMAT, ERR_LIMIT; errors name the archive and the member.
int env_archive_check(const char *path, struct env_archive *out, content_tick *tick, void *ctx,
                      struct err *e);
// The same for an input, which is closed.
int env_archive_check_input(struct tar_input *in, struct env_archive *out, content_tick *tick,
                            void *ctx, struct err *e);
// Unpacks an archive that was checked to the folder dest, which does not exist. The folder appears
// as a whole, after its content is on the disk; a process that is killed before leaves folders
// beside it whose names begin with that of dest and PLACE_NEW (tree_writer.h).
int env_archive_unpack(const char *path, const struct env_archive *facts, const char *dest,
                       content_tick *tick, void *ctx, struct err *e);

#endif
