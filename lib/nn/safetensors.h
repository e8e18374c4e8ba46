// SPDX-License-Identifier: Apache-2.0
// The safetensors file format: u64 little-endian header length, a JSON header, then the bytes of
// the tensors one after the other.
//
// Reading is strict, for files come from anywhere: bounded header, no duplicate or over-long name,
// every tensor's size equal to its shape times its type, and the tensors together cover the data
// exactly, without holes or overlap, to the last byte of the file.
//
//     struct safetensors_file f;
//     if (safetensors_open(&f, &arena, path, e) < 0) return -1;
//     const struct safetensors_tensor *t = safetensors_find(&f.header, "fc.bias");
//     safetensors_read(&f, t, buffer, bytes, e);
//     safetensors_close(&f);
//
// Writing streams: header first, then the tensors' bytes in order; the file appears under its name,
// complete and synced, in safetensors_commit, or not at all.
#ifndef NN_SAFETENSORS_H
#define NN_SAFETENSORS_H

#include "base/arena.h"
#include "base/err.h"
#include "sys/atomic_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SAFETENSORS_HEADER_BYTES_MAX = 4 << 20,
    SAFETENSORS_TENSORS_MAX = 1 << 14,
    SAFETENSORS_NAME_BYTES_MAX = 256,
    SAFETENSORS_DIMS_MAX = 8,
};

enum safetensors_type {
    SAFETENSORS_BOOL,
    SAFETENSORS_U8,
    SAFETENSORS_I8,
    SAFETENSORS_I16,
    SAFETENSORS_U16,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_I32,
    SAFETENSORS_U32,
    SAFETENSORS_F32,
    SAFETENSORS_F64,
    SAFETENSORS_I64,
    SAFETENSORS_U64,
    SAFETENSORS_TYPES
};

struct safetensors_tensor {
    const char *name;
    enum safetensors_type type;
    int ndim;
    uint64_t dim[SAFETENSORS_DIMS_MAX];
    uint64_t begin, end; // bytes from the start of the data
};

struct safetensors_meta {
    const char *key, *value;
};

struct safetensors_header {
    struct safetensors_tensor *tensors; // in the order of their data
    size_t count;
    struct safetensors_meta *meta;
    size_t meta_count;
};

const char *safetensors_type_name(enum safetensors_type type);
size_t safetensors_type_bytes(enum safetensors_type type);

// The JSON header alone; data_bytes is what follows it in the file. All memory in the arena.
int safetensors_parse(struct arena *a, const char *json, size_t len, uint64_t data_bytes,
                      struct safetensors_header *out, struct err *e);
const struct safetensors_tensor *safetensors_find(const struct safetensors_header *h,
                                                  const char *name);                   // or NULL
const char *safetensors_get_meta(const struct safetensors_header *h, const char *key); // or NULL

struct safetensors_file {
    int fd;
    const char *path;    // the caller's string
    uint64_t data_begin; // offset of the data in the file
    struct safetensors_header header;
};

int safetensors_open(struct safetensors_file *f, struct arena *a, const char *path, struct err *e);
// bytes must be the tensor's size.
int safetensors_read(const struct safetensors_file *f, const struct safetensors_tensor *t,
                     void *out, size_t bytes, struct err *e);
// As floats, from F32, F64, F16 or BF16; count numbers must be the tensor's.
int safetensors_read_reals(const struct safetensors_file *f, const struct safetensors_tensor *t,
                           float *out, size_t count, struct err *e);
void safetensors_close(struct safetensors_file *f);

struct safetensors_writer {
    struct atomic_file file;
    uint64_t promised, written;
};

// begin and end of the tensors are set here, from type and shape, in the order given.
int safetensors_create(struct safetensors_writer *w, const char *path,
                       struct safetensors_header *header, struct err *e);
int safetensors_put(struct safetensors_writer *w, const void *p, size_t bytes, struct err *e);
// Ends the writer in either case; on failure nothing is left behind.
int safetensors_commit(struct safetensors_writer *w, struct err *e);
void safetensors_abort(struct safetensors_writer *w);

#endif
