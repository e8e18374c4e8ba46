// SPDX-License-Identifier: Apache-2.0
// Opening, reading and writing safetensors files; the format itself is in safetensors.c.
#include "nn/safetensors.h"

#include "base/bytes.h"
#include "base/json.h"
#include "base/str.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LENGTH_BYTES = 8, HEADER_ALIGN = 8 };

// What torch.save() writes: a zip archive, or before PyTorch 1.6 a pickle.
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
        if (n < 0 && errno == EINTR)
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
    *w = (struct safetensors_writer){.fd = -1, .path = path};
    w->promised = render_header(header, &json);
    if (json.len > SAFETENSORS_HEADER_BYTES_MAX) {
        strbuf_fini(&json);
        return err_set(e, ERR_LIMIT, "%s: header above %d bytes", path,
                       SAFETENSORS_HEADER_BYTES_MAX);
    }
    size_t room = strlen(path) + 24;
    w->path_new = heap_alloc(room);
    snprintf(w->path_new, room, "%s.new.%d", path, (int)getpid());
    w->fd = open(w->path_new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (w->fd < 0) {
        err_errno(e, ERR_SYS, "%s: create", w->path_new);
        goto failed;
    }
    bytes_store(length, json.len, LENGTH_BYTES);
    if (file_write_all(w->fd, length, sizeof length, e) < 0 ||
        file_write_all(w->fd, json.data, json.len, e) < 0) {
        err_wrap(e, "%s", w->path_new);
        goto failed;
    }
    strbuf_fini(&json);
    return 0;
failed:
    strbuf_fini(&json);
    safetensors_abort(w);
    return -1;
}

int safetensors_put(struct safetensors_writer *w, const void *p, size_t bytes, struct err *e) {
    if (file_write_all(w->fd, p, bytes, e) < 0)
        return err_wrap(e, "%s", w->path_new);
    w->written += bytes;
    return 0;
}

int safetensors_commit(struct safetensors_writer *w, struct err *e) {
    must(w->written == w->promised);
    if (fsync(w->fd) < 0) {
        err_errno(e, ERR_SYS, "%s: fsync", w->path_new);
        safetensors_abort(w);
        return -1;
    }
    if (rename(w->path_new, w->path) < 0) {
        err_errno(e, ERR_SYS, "%s: rename", w->path);
        safetensors_abort(w);
        return -1;
    }
    struct arena scratch = {0};
    int r = file_sync_dir(file_dir(&scratch, w->path), e);
    arena_fini(&scratch);
    close(w->fd);
    free(w->path_new);
    *w = (struct safetensors_writer){.fd = -1};
    return r;
}

void safetensors_abort(struct safetensors_writer *w) {
    if (w->fd >= 0) {
        close(w->fd);
        unlink(w->path_new);
    }
    free(w->path_new);
    *w = (struct safetensors_writer){.fd = -1};
}
