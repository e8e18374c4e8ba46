// SPDX-License-Identifier: Apache-2.0
// Private to lib/data: one kind of data set, as a table of functions. A source counts and labels
// its samples when it is opened, and then returns the bytes of any sample by its number, to many
// threads at once. transform.h describes the processing of the bytes.
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/str.h"
#include "data/dataset.h"

// The bytes of one sample, valid until the reader reads again.
struct sample {
    const uint8_t *bytes;
    size_t len;
    bool pixels; // height x width x channels of the source; else a JPEG file
};

// Memory of one reading thread; zero-initialise.
struct source_reader {
    uint8_t *room;
    size_t room_bytes;
    struct served_link *link; // of a streamed input; NULL: none yet
};

// Room for a compressed file of len bytes and `more`; len is checked against JPEG_FILE_BYTES_MAX.
// NULL with e.
uint8_t *source_room(struct source_reader *r, uint64_t len, size_t more, struct err *e);
void source_reader_close(struct source_reader *r);

struct source {
    const struct source_kind *kind;
    const struct dataset_config *config; // its strings live as long as the source
    struct arena arena;                  // names; freed by source_close
    uint32_t samples;
    int height, width, channels, classes; // height and width are 0 where samples are JPEGs
    const char *const *class_names;       // classes entries
    const int32_t *labels;                // samples entries
    uint64_t memory_bytes;                // of the index
    struct hash identity;                 // see identify
    void *impl;
};

// A sample that read cannot reach, in the order of its archive. 1 ends the pass.
typedef int source_each(void *ctx, uint32_t i, const struct sample *sample, struct err *e);

struct source_kind {
    const char *name;
    // Whether a path looks like this kind; wanted says what it must hold, for the error text.
    bool (*detect)(const char *path);
    const char *wanted;
    // Adds to s->identity what the samples depend on; cheap, because every start does it.
    int (*identify)(struct source *s, struct err *e);
    int (*open)(struct source *s, struct err *e); // counts, labels and sorts the samples
    // Sample i. NULL: samples are only reached by sequential.
    int (*read)(const struct source *s, uint32_t i, struct source_reader *r, struct sample *out,
                struct err *e);
    // Calls each for all samples that read refuses because they lie in compressed archives; bytes
    // are valid during the call. NULL: there are none.
    int (*sequential)(struct source *s, source_each *each, void *ctx, struct err *e);
    bool (*is_sequential)(const struct source *s); // whether sequential has anything to do
    // The place of sample i, for messages.
    void (*where)(const struct source *s, uint32_t i, struct strbuf *out);
    // Whether a read may wait for bytes that are still to come, and ends such reads. NULL: none.
    bool (*waits)(const struct source *s);
    void (*cancel)(const struct source *s);
    void (*close)(struct source *s); // may be NULL: nothing but the arena
};

extern const struct source_kind source_shapes, source_cifar10, source_imagefolder, source_tar,
    source_webdataset;

// Names of the folders (or archives) that hold a split, best first, NULL-terminated.
enum { SOURCE_SPLIT_NAMES = 5 };
extern const char *const source_split_names[DATASET_SPLITS][SOURCE_SPLIT_NAMES];

void source_close(struct source *s);

#endif
