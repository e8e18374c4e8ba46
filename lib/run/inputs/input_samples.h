// SPDX-License-Identifier: Apache-2.0
// Samples of tar archives as items to deal: members in a row that share a name up to its first dot.
// A node's part of an archive is an archive of its own, made of ranges of the original one, so that
// every header, folder and link stays as it is. Only plain .tar files can be split.
#ifndef RUN_INPUT_SAMPLES_H
#define RUN_INPUT_SAMPLES_H

#include "content/deal.h"
#include "content/manifest.h"
#include "ui/context.h"

enum { INPUT_SAMPLES_MAX = 32 << 20 };

struct input_sample {
    size_t entry;          // of the manifest
    uint64_t begin, bytes; // in the archive
};

struct input_samples {
    struct input_sample *samples; // by archive, then by place
    struct deal_item *items;
    size_t count, room;
};

bool input_samples_is_archive(const struct manifest_entry *entry);
// Reads the archives of a sorted manifest. ERR_CONFIG names a compressed one, or that there is
// none.
int input_samples_index(struct input_samples *s, struct arena *a, const struct manifest *m,
                        struct err *e);
void input_samples_free(struct input_samples *s);
// Writes the parts of a share below dir and appends them to `to` as `below`/PATH. ERR_INTERRUPTED.
int input_samples_write(struct context *c, const struct input_samples *s,
                        const struct manifest *from, const struct deal_share *share,
                        const char *dir, const char *below, struct manifest *to, struct err *e);

#endif
