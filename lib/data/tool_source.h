// SPDX-License-Identifier: Apache-2.0
// Private to lib/data: a source that the tools read sample by sample, without any transform.
#ifndef DATA_TOOL_SOURCE_H
#define DATA_TOOL_SOURCE_H

#include "data/dataset_store.h"

enum {
    TOOL_PROGRESS_EVERY = 64, // samples
    TOOL_TAR_END_BYTES = 1024 // the closing blocks of an archive
};

struct tool_source {
    struct dataset_store *store;
};

int tool_open(struct tool_source *t, const struct dataset_config *c, struct err *e);
void tool_close(struct tool_source *t); // also after a failure
// Calls each for every sample, in order where they can be read one by one.
int tool_each(struct tool_source *t, source_each *each, void *ctx, struct err *e);
// dir is made; it must be empty.
int tool_make_dir(const char *dir, struct err *e);

#endif
