// SPDX-License-Identifier: Apache-2.0
// Where the samples of webdataset shards lie, as a file beside them. It lets a reader of ranges
// begin before it has the shards. The file has a head of all shards of its folder, a record of 16
// bytes for each sample in the order of the shards, and a SHA-256 of both. Numbers are little
// endian.
//
//     "DTINDEX1"  shards u32  samples u32
//     shard:      bytes u64  samples u32  length of the name u16  name
//     sample:     block of the image u32  bytes of the image u32  block of the label u32
//                 label u16  bytes of the label u8  0 u8
//
// A block is a multiple of 512 bytes in the shard. Pure, except shard_index_save.
#ifndef DATA_SHARD_INDEX_H
#define DATA_SHARD_INDEX_H

#include "base/arena.h"
#include "base/str.h"
#include "data/webdataset_scan.h"

#include <stdbool.h>
#include <stddef.h>

#define SHARD_INDEX_FILE "shards.dtindex" // in the folder of the shards
#define SHARD_INDEX_TRY  "(try: dtctl data index FOLDER, here or s3://BUCKET/PREFIX)"

enum {
    SHARD_INDEX_BYTES_MAX = 1 << 30,
    SHARD_INDEX_NAME_BYTES_MAX = 255,
    SHARD_INDEX_RECORD_BYTES = 16,
};

// *.tar, at the top of a data set or in a folder of it such as train.
bool shard_index_is_shard(const char *path);
// Bytes of a path up to its last '/', with that.
size_t shard_index_folder(const char *path);
bool shard_index_is_beside(const char *a, const char *b); // both paths are in one folder

struct shard_index_shard {
    const char *name; // in the folder
    uint64_t bytes;   // of the tar file
    uint32_t first, samples;
};

struct shard_index {
    struct arena arena;
    struct shard_index_shard *shard; // by name
    uint32_t shards, samples;
    const unsigned char *records; // in the bytes that were parsed
};

// The bytes stay the caller's, and as long as the index. ERR_FORMAT, ERR_HASH.
int shard_index_parse(struct shard_index *x, const void *bytes, size_t len, struct err *e);
void shard_index_close(struct shard_index *x); // safe on a zeroed one
// NULL: the index has no shard of that name.
const struct shard_index_shard *shard_index_find(const struct shard_index *x, const char *name);
void shard_index_sample(const struct shard_index *x, uint32_t i, struct webdataset_sample *out);

struct shard_index_writer {
    struct strbuf shards, records;
    uint32_t count, samples, begun; // begun: samples of the shards before the newest
    uint64_t bytes;                 // of the newest shard
    size_t open;                    // where the newest shard's number of samples is
};

// Shards come in the order of their names.
int shard_index_begin_shard(struct shard_index_writer *w, const char *name, uint64_t bytes,
                            struct err *e);
// The writer is a struct shard_index_writer: the function is a webdataset_each.
int shard_index_add(void *writer, const struct webdataset_sample *s, struct err *e);
void shard_index_finish(struct shard_index_writer *w, struct strbuf *out);
int shard_index_save(struct shard_index_writer *w, const char *path, struct err *e);
void shard_index_writer_close(struct shard_index_writer *w);

#endif
