// SPDX-License-Identifier: Apache-2.0
// The ImageFolder layout for any kind of container: paths like [top/]train/<class>/[more/]name.jpg
// become a sorted list of labelled items. Pure: it gets paths and never reads a disk.
#ifndef DATA_LAYOUT_H
#define DATA_LAYOUT_H

#include "base/arena.h"
#include "data/dataset.h"

enum { LAYOUT_DEPTH_MAX = 16, LAYOUT_ITEMS_MAX = 1 << 30 };
#define LAYOUT_NAMES_BYTES_MAX ((size_t)2 << 30) // paths that are kept while they are sorted

struct layout_item {
    const char *path;  // as given, in the arena
    const char *class; // in the arena
    uint64_t offset, size;
    uint32_t archive;
    int32_t label; // after layout_finish
};

struct layout {
    struct arena *arena;
    enum dataset_split split;
    int preference; // of the split's folder names: a better one drops the items of a worse one
    struct layout_item *items; // sorted by layout_finish
    size_t count, room;
    struct layout_names {
        const char **name;
        size_t count, room;
    } classes[DATASET_SPLITS];  // with repetitions until layout_finish
    const struct dataset *like; // whose class ids are meant; NULL: those of the paths
    const char **class_names;   // after layout_finish, sorted
    int class_count;
};
struct source;

// The split of a folder name, and its preference (0 best); -1: none.
int layout_split(const char *name, size_t len, enum dataset_split *split);

bool layout_is_jpeg(const char *name);

void layout_init(struct layout *l, struct arena *arena, enum dataset_split split);
void layout_fini(struct layout *l);
void layout_like(struct layout *l, const struct dataset *like); // before layout_finish
// Takes an item, or ignores a path that is none. ERR_FORMAT for an image that is not a JPEG,
// ERR_LIMIT. Returns 1 when it was added.
int layout_add(struct layout *l, const char *path, uint64_t offset, uint64_t size, uint32_t archive,
               struct err *e);
// ERR_NOT_FOUND, ERR_FORMAT, ERR_LIMIT.
int layout_finish(struct layout *l, struct err *e);
// The classes of a finished layout into a source.
void layout_classes(const struct layout *l, struct source *s);

#endif
