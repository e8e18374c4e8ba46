// SPDX-License-Identifier: Apache-2.0
// The bytes of a tar archive: from memory, a file or a stream of zstd.
#include "base/arena.h"
#include "content/tar.h"
#include "sys/loop.h" // container_of

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

static int tar_short(struct err *e) {
    return err_set(e, ERR_FORMAT, "archive ends in the middle of an entry");
}

// ---- memory ------------------------------------------------------------------------------------

struct memory_input {
    struct tar_input in;
    const unsigned char *p;
    size_t left;
};

static int memory_read(struct tar_input *in, void *buf, uint64_t len, struct err *e) {
    struct memory_input *m = container_of(in, struct memory_input, in);
    if (m->left == 0 && len > 0)
        return 0;
    if (len > m->left)
        return tar_short(e);
    if (buf && len > 0)
        memcpy(buf, m->p, len);
    m->p += len;
    m->left -= len;
    return 1;
}

static void memory_close(struct tar_input *in) {
    free(container_of(in, struct memory_input, in));
}

struct tar_input *tar_input_memory(const void *p, size_t len) {
    struct memory_input *m = heap_alloc(sizeof *m);
    *m = (struct memory_input){{memory_read, memory_close}, p, len};
    return &m->in;
}

// ---- file --------------------------------------------------------------------------------------

enum { FILE_BUFFER_BYTES = 64 << 10 };

struct file_input {
    struct tar_input in;
    int fd;
    uint64_t at;         // file offset of buffer[used]
    uint64_t file_bytes; // when it was opened
    size_t used, have;   // of the buffer
    unsigned char buffer[FILE_BUFFER_BYTES];
};

static int file_fill(struct file_input *f, struct err *e) {
    ssize_t n;
    do
        n = pread(f->fd, f->buffer, sizeof f->buffer, (off_t)f->at);
    while (err_interrupted(n));
    if (n < 0)
        return err_errno(e, ERR_SYS, "reading at byte %llu", (unsigned long long)f->at);
    f->used = 0;
    f->have = (size_t)n;
    return n > 0;
}

static int file_input_read(struct tar_input *in, void *buf, uint64_t len, struct err *e) {
    struct file_input *f = container_of(in, struct file_input, in);
    unsigned char *to = buf;
    if (f->at >= f->file_bytes && len > 0)
        return 0;
    if (len > f->file_bytes - f->at)
        return tar_short(e);
    while (len > 0) {
        size_t ready = f->have - f->used;
        if (ready == 0 && !to) { // skipping: the bytes are not needed
            f->at += len;
            return 1;
        }
        if (ready == 0) {
            int r = file_fill(f, e);
            if (r <= 0)
                return r < 0 ? -1 : tar_short(e);
            continue;
        }
        size_t n = ready < len ? ready : (size_t)len;
        if (to) {
            memcpy(to, f->buffer + f->used, n);
            to += n;
        }
        f->used += n;
        f->at += n;
        len -= n;
    }
    return 1;
}

static void file_input_close(struct tar_input *in) {
    free(container_of(in, struct file_input, in));
}

struct tar_input *tar_input_file(int fd) {
    struct file_input *f = heap_alloc(sizeof *f);
    f->in = (struct tar_input){file_input_read, file_input_close};
    f->fd = fd;
    struct stat st;
    f->file_bytes = fstat(fd, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
    return &f->in;
}

// ---- zstd --------------------------------------------------------------------------------------

struct zstd_input {
    struct tar_input in;
    int fd;
    ZSTD_DStream *stream;
    ZSTD_inBuffer packed;
    unsigned char *packed_room, *plain;
    size_t packed_bytes, plain_bytes;
    size_t used, have; // of plain
    bool ended;        // no more packed bytes
    size_t hint;       // ZSTD_decompressStream's last result: 0 between frames
};

// Gets more plain bytes: 1, 0 at the end of the stream, -1.
static int zstd_fill(struct zstd_input *z, struct err *e) {
    z->used = z->have = 0;
    while (z->have == 0) {
        if (z->packed.pos == z->packed.size && !z->ended) {
            ssize_t n;
            do
                n = read(z->fd, z->packed_room, z->packed_bytes);
            while (err_interrupted(n));
            if (n < 0)
                return err_errno(e, ERR_SYS, "reading");
            z->ended = n == 0;
            z->packed = (ZSTD_inBuffer){z->packed_room, (size_t)n, 0};
        }
        if (z->ended && z->packed.pos == z->packed.size && z->hint == 0)
            return 0;
        ZSTD_outBuffer out = {z->plain, z->plain_bytes, 0};
        size_t before = z->packed.pos;
        z->hint = ZSTD_decompressStream(z->stream, &out, &z->packed);
        if (ZSTD_isError(z->hint))
            return err_set(e, ERR_FORMAT, "zstd: %s%s", ZSTD_getErrorName(z->hint),
                           strstr(ZSTD_getErrorName(z->hint), "too much memory")
                               ? " (its window is above 2^27 bytes: compress with --long=27)"
                               : "");
        z->have = out.pos;
        if (z->ended && out.pos == 0 && z->packed.pos == before)
            return err_set(e, ERR_FORMAT, "zstd stream ends too early");
    }
    return 1;
}

static int zstd_read(struct tar_input *in, void *buf, uint64_t len, struct err *e) {
    struct zstd_input *z = container_of(in, struct zstd_input, in);
    unsigned char *to = buf;
    bool first = true;
    while (len > 0) {
        if (z->used == z->have) {
            int r = zstd_fill(z, e);
            if (r < 0)
                return -1;
            if (r == 0)
                return first ? 0 : tar_short(e);
        }
        size_t n = z->have - z->used < len ? z->have - z->used : (size_t)len;
        if (to) {
            memcpy(to, z->plain + z->used, n);
            to += n;
        }
        z->used += n;
        len -= n;
        first = false;
    }
    return 1;
}

static void zstd_close(struct tar_input *in) {
    struct zstd_input *z = container_of(in, struct zstd_input, in);
    ZSTD_freeDStream(z->stream);
    free(z->packed_room);
    free(z->plain);
    free(z);
}

struct tar_input *tar_input_zstd(int fd, struct err *e) {
    struct zstd_input *z = heap_alloc(sizeof *z);
    z->in = (struct tar_input){zstd_read, zstd_close};
    z->fd = fd;
    z->packed_bytes = ZSTD_DStreamInSize();
    z->plain_bytes = ZSTD_DStreamOutSize();
    z->packed_room = heap_alloc(z->packed_bytes);
    z->plain = heap_alloc(z->plain_bytes);
    z->stream = ZSTD_createDStream();
    if (!z->stream)
        err_out_of_memory(z->plain_bytes);
    if (ZSTD_isError(
            ZSTD_DCtx_setParameter(z->stream, ZSTD_d_windowLogMax, TAR_ZSTD_WINDOW_LOG_MAX))) {
        zstd_close(&z->in);
        err_set(e, ERR_SYS, "zstd refuses a window of 2^%d bytes", TAR_ZSTD_WINDOW_LOG_MAX);
        return NULL;
    }
    return &z->in;
}
