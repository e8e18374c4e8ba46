// SPDX-License-Identifier: Apache-2.0
// Opening, reading and writing safetensors files; the format itself is in safetensors.c.
#include "nn/safetensors.h"

#include "base/bytes.h"
#include "base/json.h"
#include "base/str.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LENGTH_BYTES = 8, HEADER_ALIGN = 8 };

// Detects output of torch.save(): a zip archive, or before PyTorch 1.6 a pickle.
static bool is_pickle(const unsigned char *bytes) {
    static const unsigned char zip[] = {'P', 'K', 3, 4};
    enum { PICKLE_PROTO = 0x80, PICKLE_PROTOCOL_MAX = 5 };
    return memcmp(bytes, zip, sizeof zip) == 0 ||
           (bytes[0] == PICKLE_PROTO && bytes[1] <= PICKLE_PROTOCOL_MAX);
}

static int read_header(struct safetensors_file *f, struct arena *a, struct err *e) {
    struct stat st;
    unsigned char length[LENGTH_BYTES];
    if (fstat(f->fd, &st) < 0)
        return err_errno(e, ERR_SYS, "stat");
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_FORMAT, "not a regular file");
    uint64_t size = (uint64_t)st.st_size;
    if (size < LENGTH_BYTES)
        return err_set(e, ERR_FORMAT, "%llu bytes are too short for a safetensors file",
                       (unsigned long long)size);
    if (file_read_all(f->fd, length, sizeof length, e) < 0)
        return -1;
    uint64_t header_bytes = bytes_load(length, LENGTH_BYTES);
    if (is_pickle(length) && header_bytes > SAFETENSORS_HEADER_BYTES_MAX)
        return err_set(e, ERR_FORMAT,
                       "a PyTorch archive, not safetensors: it runs code when it is read (write it "
                       "anew with safetensors.torch.save_file)");
    if (header_bytes > SAFETENSORS_HEADER_BYTES_MAX || header_bytes > size - LENGTH_BYTES)
        return err_set(e, ERR_FORMAT,
                       "header length %llu is more than the file or the limit of %d bytes",
                       (unsigned long long)header_bytes, SAFETENSORS_HEADER_BYTES_MAX);
    char *json = arena_new(a, char, (size_t)header_bytes + 1);
    if (file_read_all(f->fd, json, (size_t)header_bytes, e) < 0)
        return -1;
    f->data_begin = LENGTH_BYTES + header_bytes;
    return safetensors_parse(a, json, (size_t)header_bytes, size - f->data_begin, &f->header, e);
}

int safetensors_open(struct safetensors_file *f, struct arena *a, const char *path, struct err *e) {
    *f = (struct safetensors_file){.path = path};
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "%s", path);
    if (read_header(f, a, e) < 0) {
        safetensors_close(f);
        return err_wrap(e, "%s", path);
    }
    return 0;
}

int safetensors_read(const struct safetensors_file *f, const struct safetensors_tensor *t,
                     void *out, size_t bytes, struct err *e) {
    if (bytes != t->end - t->begin)
        return err_set(e, ERR_FORMAT, "%s: tensor '%.64s' has %llu bytes, wanted %zu", f->path,
                       t->name, (unsigned long long)(t->end - t->begin), bytes);
    char *to = out;
    uint64_t at = f->data_begin + t->begin;
    while (bytes) {
        ssize_t n = pread(f->fd, to, bytes, (off_t)at);
        if (err_interrupted(n))
            continue;
        if (n < 0)
            return err_errno(e, ERR_SYS, "%s: read", f->path);
        if (n == 0)
            return err_set(e, ERR_FORMAT, "%s: became shorter while it was read", f->path);
        to += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

// IEEE 754 binary16: sign, 5 bits of exponent, 10 of fraction.
static float from_f16(const unsigned char *p) {
    uint64_t bits = bytes_load(p, 2);
    uint64_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    float sign = bits >> 15 ? -1.0f : 1.0f;
    if (exponent == 31)
        return fraction ? NAN : sign * INFINITY;
    float value = exponent ? ldexpf((float)(1024 + fraction), (int)exponent - 25)
                           : ldexpf((float)fraction, -24);
    return sign * value;
}

// The upper half of a float.
static float from_bf16(const unsigned char *p) {
    uint32_t bits = (uint32_t)bytes_load(p, 2) << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_f64(const unsigned char *p) {
    double value;
    memcpy(&value, p, sizeof value);
    return (float)value;
}

static float from_f32(const unsigned char *p) {
    float value;
    memcpy(&value, p, sizeof value);
    return value;
}

int safetensors_read_reals(const struct safetensors_file *f, const struct safetensors_tensor *t,
                           float *out, size_t count, struct err *e) {
    static float (*const from[SAFETENSORS_TYPES])(const unsigned char *p) = {
        [SAFETENSORS_F16] = from_f16,
        [SAFETENSORS_BF16] = from_bf16,
        [SAFETENSORS_F32] = from_f32,
        [SAFETENSORS_F64] = from_f64};
    if (!from[t->type])
        return err_set(e, ERR_FORMAT, "%s: tensor '%.64s' is %s, not F32, F64, F16 or BF16",
                       f->path, t->name, safetensors_type_name(t->type));
    size_t bytes = safetensors_type_bytes(t->type);
    unsigned char *raw = heap_alloc(count * bytes);
    int r = safetensors_read(f, t, raw, count * bytes, e);
    for (size_t i = 0; r == 0 && i < count; i++)
        out[i] = from[t->type](raw + i * bytes);
    free(raw);
    return r;
}

void safetensors_close(struct safetensors_file *f) {
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

// Sets the tensors' places and renders the header, padded so that the data is aligned.
static uint64_t render_header(struct safetensors_header *h, struct strbuf *out) {
    struct json_out j;
    uint64_t at = 0;
    json_open(&j, out);
    json_object(&j, NULL);
    if (h->meta_count) {
        json_object(&j, "__metadata__");
        for (size_t i = 0; i < h->meta_count; i++)
            json_str(&j, h->meta[i].key, h->meta[i].value);
        json_end(&j);
    }
    for (size_t i = 0; i < h->count; i++) {
        struct safetensors_tensor *t = &h->tensors[i];
        uint64_t bytes = safetensors_type_bytes(t->type);
        json_object(&j, t->name);
        json_str(&j, "dtype", safetensors_type_name(t->type));
        json_array(&j, "shape");
        for (int d = 0; d < t->ndim; d++) {
            json_int(&j, NULL, (int64_t)t->dim[d]);
            bytes *= t->dim[d];
        }
        json_end(&j);
        t->begin = at;
        at = t->end = at + bytes;
        json_array(&j, "data_offsets");
        json_int(&j, NULL, (int64_t)t->begin);
        json_int(&j, NULL, (int64_t)t->end);
        json_end(&j);
        json_end(&j);
    }
    json_end(&j);
    while (out->len % HEADER_ALIGN)
        strbuf_addc(out, ' ');
    return at;
}

int safetensors_create(struct safetensors_writer *w, const char *path,
                       struct safetensors_header *header, struct err *e) {
    struct strbuf json = {0};
    unsigned char length[LENGTH_BYTES];
    *w = (struct safetensors_writer){.file = {.fd = -1}};
    w->promised = render_header(header, &json);
    if (json.len > SAFETENSORS_HEADER_BYTES_MAX) {
        strbuf_fini(&json);
        return err_set(e, ERR_LIMIT, "%s: header above %d bytes", path,
                       SAFETENSORS_HEADER_BYTES_MAX);
    }
    int result = atomic_file_open(&w->file, path, 0644, e);
    bytes_store(length, json.len, LENGTH_BYTES);
    if (result == 0 && (file_write_all(w->file.fd, length, sizeof length, e) < 0 ||
                        file_write_all(w->file.fd, json.data, json.len, e) < 0))
        result = err_wrap(e, "%s", path);
    strbuf_fini(&json);
    if (result < 0)
        safetensors_abort(w);
    return result;
}

int safetensors_put(struct safetensors_writer *w, const void *p, size_t bytes, struct err *e) {
    if (file_write_all(w->file.fd, p, bytes, e) < 0)
        return err_wrap(e, "%s", w->file.path);
    w->written += bytes;
    return 0;
}

int safetensors_commit(struct safetensors_writer *w, struct err *e) {
    must(w->written == w->promised);
    return atomic_file_commit(&w->file, e);
}

void safetensors_abort(struct safetensors_writer *w) {
    atomic_file_abort(&w->file);
}
