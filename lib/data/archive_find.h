// SPDX-License-Identifier: Apache-2.0
// Private to lib/data: which tar files a source consists of. A source is one archive, or a folder
// with train.tar, train/<name>.tar, or <name>.tar.
#ifndef DATA_ARCHIVE_FIND_H
#define DATA_ARCHIVE_FIND_H

#include "data/served.h"
#include "data/source.h"

enum { ARCHIVES_MAX = 65536 };

struct archive_file {
    const char *path;
    enum dataset_split split; // of train.tar, or of its folder
    const char *prefix;       // "train" or "train/<name>"; NULL: members have it
    bool listed;              // one of many in a folder: a class, or a shard
    bool unseekable;          // compressed as a whole
};

struct archives {
    struct archive_file *file;
    uint32_t count;
    size_t room;
};

// Paths and prefixes are in the arena. split: that of archives in the folder itself.
int archives_find(struct archives *a, struct arena *arena, const char *source,
                  enum dataset_split split, struct err *e);
// The same among the objects of a list, by their paths in the source.
int archives_find_served(struct archives *a, struct arena *arena, const struct served *list,
                         enum dataset_split split, struct err *e);
void archives_close(struct archives *a);
// Whether the first archive holds webdataset samples: some member ends in .cls.
bool archives_are_shards(const struct archives *a);
// Adds names, sizes and times to the source's identity; ERR_NOT_FOUND when there is none.
int archives_identify(const struct archives *a, struct source *s, struct err *e);

#endif
