// SPDX-License-Identifier: Apache-2.0
// Format: POSIX.1-1988 ustar, with POSIX.1-2001 pax records where ustar has no room.
#include "content/tar_write.h"

#include "base/arena.h"
#include "base/str.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { BLOCK_BYTES = 512, MODE_AT = 100, UID_AT = 108, GID_AT = 116, SIZE_AT = 124, TIME_AT = 136 };
enum { SUM_AT = 148, TYPE_AT = 156, LINK_AT = 157, MAGIC_AT = 257 };
#define OCTAL_SIZE_MAX UINT64_C(077777777777) // eleven digits

void tar_write_open(struct tar_writer *w, int fd) {
    *w = (struct tar_writer){.fd = fd, .buffer = heap_alloc(TAR_WRITE_BUFFER_BYTES)};
}

int tar_write_open_zstd(struct tar_writer *w, int fd, int level, struct err *e) {
    tar_write_open(w, fd);
    w->zstd = ZSTD_createCCtx();
    if (!w->zstd || ZSTD_isError(ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, level)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_checksumFlag, 1))) {
        tar_write_abort(w);
        return err_set(e, ERR_LIMIT, "no memory to compress with");
    }
    w->packed_room = ZSTD_CStreamOutSize();
    w->packed = heap_alloc(w->packed_room);
    return 0;
}

static int compress(struct tar_writer *w, const void *p, size_t len, ZSTD_EndDirective how,
                    struct err *e) {
    ZSTD_inBuffer in = {p, len, 0};
    size_t more;
    do {
        ZSTD_outBuffer out = {w->packed, w->packed_room, 0};
        more = ZSTD_compressStream2(w->zstd, &out, &in, how);
        if (ZSTD_isError(more))
            return err_set(e, ERR_FAILED, "cannot compress: %s", ZSTD_getErrorName(more));
        if (out.pos && file_write_all(w->fd, w->packed, out.pos, e) < 0)
            return -1;
    } while (in.pos < in.size || (how == ZSTD_e_end && more));
    return 0;
}

static int put_out(struct tar_writer *w, const void *p, size_t len, struct err *e) {
    return w->zstd ? compress(w, p, len, ZSTD_e_continue, e) : file_write_all(w->fd, p, len, e);
}

static int flush(struct tar_writer *w, struct err *e) {
    int bad = w->used > 0 ? put_out(w, w->buffer, w->used, e) : 0;
    w->used = 0;
    return bad;
}

static int put(struct tar_writer *w, const void *p, size_t len, struct err *e) {
    w->bytes += len;
    if (len > TAR_WRITE_BUFFER_BYTES - w->used && flush(w, e) < 0)
        return -1;
    if (len > TAR_WRITE_BUFFER_BYTES)
        return put_out(w, p, len, e);
    memcpy(w->buffer + w->used, p, len);
    w->used += len;
    return 0;
}

static unsigned padding_of(uint64_t len) {
    return (unsigned)((BLOCK_BYTES - len % BLOCK_BYTES) % BLOCK_BYTES);
}

uint64_t tar_write_size(size_t len) {
    return BLOCK_BYTES + (uint64_t)len + padding_of(len);
}

// Fields that do not fit are cut here; pax records have them whole.
static int put_header(struct tar_writer *w, const char *name, const char *link, char type,
                      unsigned mode, uint64_t size, struct err *e) {
    char block[BLOCK_BYTES] = {0};
    memcpy(block, name, strnlen(name, TAR_WRITE_NAME_BYTES_MAX));
    snprintf(block + MODE_AT, 8, "%07o", mode & 0777);
    memcpy(block + UID_AT, "0000000", 8);
    memcpy(block + GID_AT, "0000000", 8);
    snprintf(block + SIZE_AT, 12, "%011llo",
             (unsigned long long)(size > OCTAL_SIZE_MAX ? 0 : size));
    memcpy(block + TIME_AT, "00000000000", 12);
    block[TYPE_AT] = type;
    memcpy(block + LINK_AT, link, strnlen(link, TAR_WRITE_NAME_BYTES_MAX));
    memcpy(block + MAGIC_AT, "ustar\00000", 8);
    memset(block + SUM_AT, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < BLOCK_BYTES; i++)
        sum += (unsigned char)block[i];
    snprintf(block + SUM_AT, 8, "%06o", sum);
    return put(w, block, sizeof block, e);
}

// "LENGTH KEY=VALUE\n", where LENGTH counts itself.
static void add_record(struct strbuf *out, const char *key, const char *value) {
    size_t rest = strlen(key) + strlen(value) + 3, len = rest, digits;
    do {
        digits = len;
        len = rest + (size_t)snprintf(NULL, 0, "%zu", digits);
    } while (len != digits);
    strbuf_addf(out, "%zu %s=%s\n", len, key, value);
}

static int put_records(struct tar_writer *w, const struct tar_write_entry *x, const char *name,
                       struct err *e) {
    static const uint8_t zeros[BLOCK_BYTES];
    char size[24];
    struct strbuf text = {0};
    int bad = 0;
    if (strlen(name) > TAR_WRITE_NAME_BYTES_MAX)
        add_record(&text, "path", name);
    if (x->link && strlen(x->link) > TAR_WRITE_NAME_BYTES_MAX)
        add_record(&text, "linkpath", x->link);
    snprintf(size, sizeof size, "%llu", (unsigned long long)x->size);
    if (x->size > OCTAL_SIZE_MAX)
        add_record(&text, "size", size);
    if (text.len)
        bad = put_header(w, "pax", "", 'x', 0644, text.len, e);
    if (text.len && bad == 0)
        bad = put(w, text.data, text.len, e);
    if (text.len && bad == 0)
        bad = put(w, zeros, padding_of(text.len), e);
    strbuf_fini(&text);
    return bad;
}

int tar_write_begin(struct tar_writer *w, const struct tar_write_entry *x, struct err *e) {
    char name[TAR_WRITE_LONG_NAME_BYTES_MAX + 2];
    char type = '0';
    must(w->left == 0 && strlen(x->name) <= TAR_WRITE_LONG_NAME_BYTES_MAX);
    must(!x->link || strlen(x->link) <= TAR_WRITE_LONG_NAME_BYTES_MAX);
    must(x->size == 0 || (!x->link && !x->folder));
    snprintf(name, sizeof name, "%s%s", x->name, x->folder ? "/" : "");
    if (x->folder || x->link)
        type = x->folder ? '5' : '2';
    if (put_records(w, x, name, e) < 0 ||
        put_header(w, name, x->link ? x->link : "", type, x->mode, x->size, e) < 0)
        return -1;
    w->left = x->size;
    w->padding = padding_of(x->size);
    return 0;
}

int tar_write_data(struct tar_writer *w, const void *data, size_t len, struct err *e) {
    static const uint8_t zeros[BLOCK_BYTES];
    must(len <= w->left);
    w->left -= len;
    if (put(w, data, len, e) < 0)
        return -1;
    return w->left == 0 && len ? put(w, zeros, w->padding, e) : 0;
}

int tar_write_file(struct tar_writer *w, const char *name, const void *data, size_t len,
                   struct err *e) {
    const struct tar_write_entry x = {.name = name, .mode = 0644, .size = len};
    must(strlen(name) <= TAR_WRITE_NAME_BYTES_MAX);
    return tar_write_begin(w, &x, e) < 0 ? -1 : tar_write_data(w, data, len, e);
}

int tar_write_end(struct tar_writer *w, struct err *e) {
    static const uint8_t zeros[2 * BLOCK_BYTES];
    must(w->left == 0);
    int bad = put(w, zeros, sizeof zeros, e);
    if (bad == 0)
        bad = flush(w, e);
    if (bad == 0 && w->zstd)
        bad = compress(w, NULL, 0, ZSTD_e_end, e);
    tar_write_abort(w);
    return bad;
}

void tar_write_abort(struct tar_writer *w) {
    ZSTD_freeCCtx(w->zstd);
    free(w->packed);
    free(w->buffer);
    w->zstd = NULL;
    w->packed = w->buffer = NULL;
}
