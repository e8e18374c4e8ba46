// SPDX-License-Identifier: Apache-2.0
// Format: POSIX.1-1988 ustar.
#include "data/tar_write.h"

#include "base/arena.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 512, MODE_AT = 100, UID_AT = 108, GID_AT = 116, SIZE_AT = 124, TIME_AT = 136 };
enum { SUM_AT = 148, TYPE_AT = 156, MAGIC_AT = 257 };

void tar_write_open(struct tar_writer *w, int fd) {
    *w = (struct tar_writer){.fd = fd, .buffer = heap_alloc(TAR_WRITE_BUFFER_BYTES)};
}

static int tar_write_flush(struct tar_writer *w, struct err *e) {
    int bad = w->used > 0 ? file_write_all(w->fd, w->buffer, w->used, e) : 0;
    w->used = 0;
    return bad;
}

static int tar_write_bytes(struct tar_writer *w, const void *p, size_t len, struct err *e) {
    w->bytes += len;
    if (len > TAR_WRITE_BUFFER_BYTES - w->used && tar_write_flush(w, e) < 0)
        return -1;
    if (len > TAR_WRITE_BUFFER_BYTES)
        return file_write_all(w->fd, p, len, e);
    memcpy(w->buffer + w->used, p, len);
    w->used += len;
    return 0;
}

uint64_t tar_write_size(size_t len) {
    return BLOCK_BYTES + ((uint64_t)len + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

int tar_write_file(struct tar_writer *w, const char *name, const void *data, size_t len,
                   struct err *e) {
    static const uint8_t zeros[BLOCK_BYTES];
    char block[BLOCK_BYTES] = {0};
    must(strlen(name) <= TAR_WRITE_NAME_BYTES_MAX);
    memcpy(block, name, strlen(name));
    memcpy(block + MODE_AT, "0000644", 8);
    memcpy(block + UID_AT, "0000000", 8);
    memcpy(block + GID_AT, "0000000", 8);
    snprintf(block + SIZE_AT, 12, "%011llo", (unsigned long long)len);
    memcpy(block + TIME_AT, "00000000000", 12);
    block[TYPE_AT] = '0';
    memcpy(block + MAGIC_AT, "ustar\00000", 8);
    memset(block + SUM_AT, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < BLOCK_BYTES; i++)
        sum += (unsigned char)block[i];
    snprintf(block + SUM_AT, 8, "%06o", sum);
    size_t padding = (BLOCK_BYTES - len % BLOCK_BYTES) % BLOCK_BYTES;
    if (tar_write_bytes(w, block, sizeof block, e) < 0 || tar_write_bytes(w, data, len, e) < 0)
        return -1;
    return tar_write_bytes(w, zeros, padding, e);
}

int tar_write_end(struct tar_writer *w, struct err *e) {
    static const uint8_t zeros[2 * BLOCK_BYTES];
    int bad = tar_write_bytes(w, zeros, sizeof zeros, e);
    if (bad == 0)
        bad = tar_write_flush(w, e);
    tar_write_abort(w);
    return bad;
}

void tar_write_abort(struct tar_writer *w) {
    free(w->buffer);
    w->buffer = NULL;
}
