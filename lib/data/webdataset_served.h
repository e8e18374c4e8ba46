// SPDX-License-Identifier: Apache-2.0
// Private to lib/data: webdataset shards of a streamed input. The index beside the shards says
// where the samples are, so nothing of a shard has to be there before its samples are read. Every
// sample is checked against the index: its member's header, its size and its label.
#ifndef DATA_WEBDATASET_SERVED_H
#define DATA_WEBDATASET_SERVED_H

#include "data/archive_find.h"
#include "data/index.h"
#include "data/served.h"

struct webdataset_label_place {
    uint32_t block; // of the label's bytes in the shard
    uint8_t bytes;
};

struct webdataset_served {
    struct served list;
    struct webdataset_label_place *label; // one for each sample of the index
    size_t room;
};

// Finds the archives of the source.
int webdataset_served_find(struct webdataset_served *v, struct source *s, struct archives *a,
                           enum dataset_split split, struct err *e);
// Adds the samples of the shards of the source's split.
int webdataset_served_open(struct webdataset_served *v, const struct source *s,
                           const struct archives *a, struct index *x, struct err *e);
// A whole object as text in the arena; 1, or 0: the input has none of that path.
int webdataset_served_text(const struct webdataset_served *v, struct arena *a, const char *path,
                           size_t bytes_max, char **text, struct err *e);
int webdataset_served_read(const struct webdataset_served *v, const struct index *x, uint32_t i,
                           struct source_reader *r, struct sample *out, struct err *e);
void webdataset_served_close(struct webdataset_served *v);

#endif
