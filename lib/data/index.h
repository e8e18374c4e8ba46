// SPDX-License-Identifier: Apache-2.0
// Private to lib/data: where the samples of a source lie, 20 bytes each (and their names, where
// each is a file of its own). All JPEG sources read through it.
#ifndef DATA_INDEX_H
#define DATA_INDEX_H

#include "data/layout.h"
#include "data/source.h"

// Memory limit for the index of one data set, names included.
#define INDEX_BYTES_MAX (UINT64_C(2) << 30)

enum {
    INDEX_FILES_MAX = 65536,
    INDEX_FDS_MAX = 512 // files that stay open; the others are opened for each sample
};

struct index_entry {
    uint64_t at;   // in the file, or of the name in names
    uint32_t size; // bytes; UINT32_MAX: so many or more, which is above any limit
    uint32_t file;
};

struct index_file {
    const char *path; // in the source's arena
    int fd;           // -1: opened when needed
    bool unseekable;  // compressed as a whole, or no file of this computer
};

struct index {
    struct index_entry *entry;
    int32_t *label;
    size_t count, room;
    struct index_file *file;
    uint32_t files;
    const char *root; // of the names; NULL: samples lie in files
    char *names;
    size_t names_bytes, names_room;
};

// Adds a sample; name is NULL unless there is a root. ERR_LIMIT above INDEX_BYTES_MAX.
int index_add(struct index *x, const char *name, uint64_t at, uint64_t size, uint32_t file,
              int32_t label, struct err *e);
// All items of a finished layout, without the first `skip` bytes of their paths.
int index_add_layout(struct index *x, const struct layout *l, size_t skip, struct err *e);
void index_open_files(struct index *x); // as many as INDEX_FDS_MAX; nothing is an error
uint64_t index_bytes(const struct index *x);
void index_close(struct index *x); // safe on a zeroed one

int index_read(const struct index *x, uint32_t i, struct source_reader *r, struct sample *out,
               struct err *e);
void index_where(const struct index *x, uint32_t i, struct strbuf *out);

#endif
