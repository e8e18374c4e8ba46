// SPDX-License-Identifier: Apache-2.0
// Compares the content of two files, or of two entries of manifests.
#ifndef CONTENT_SAME_CONTENT_H
#define CONTENT_SAME_CONTENT_H

#include "content/content_tick.h"
#include "content/manifest.h"

#include <stdbool.h>

// Neither path may be a symbolic link. ticks: between pieces; or NULL.
int same_content(const char *x, const char *y, const struct content_ticks *ticks, bool *same,
                 struct err *e);
// Folders are the same, links with one target, and files with the same bytes at their sources.
int same_entry(const struct manifest_entry *x, const struct manifest_entry *y,
               const struct content_ticks *ticks, bool *same, struct err *e);

#endif
