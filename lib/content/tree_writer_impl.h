// SPDX-License-Identifier: Apache-2.0
// Private to lib/content/tree_writer.c and tree_copy.c: how an entry gets its name.
#ifndef CONTENT_TREE_WRITER_IMPL_H
#define CONTENT_TREE_WRITER_IMPL_H

#include "content/tree_writer.h"

#include <time.h>

// The parent in the staging folder, created if necessary. *name is the path's last component.
int tree_parent(struct place *p, const char *path, const char **name, struct err *e);
void tree_temporary_name(struct place *p, char name[TREE_TEMPORARY_BYTES]);
// Creates the file under the final name, where the staging folder is private, or a temporary one:
// *used. -1 with errno.
int tree_create(struct place *p, int dir, const struct manifest_entry *n, const char *name,
                char temporary[TREE_TEMPORARY_BYTES], const char **used);
// Sets mode and time, then renames to the final name. Closes fd.
int tree_finish(struct place *p, int dir, int fd, const char *temporary, const char *name,
                const struct manifest_entry *n, struct stat *st, struct err *e);
// Removes the unfinished file. -1, with the errno of the caller's last call.
int tree_fail(struct place *p, int dir, const char *temporary, const char *path, struct err *e);
// For utimensat: the mtime of the entry, atime unchanged.
void tree_times(struct timespec times[2], const struct manifest_entry *n);

#endif
