// SPDX-License-Identifier: Apache-2.0
// Formats: POSIX.1-2001 pax interchange and ustar; GNU tar's long names and base-256 sizes.
#include "content/tar.h"

#include "base/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Header fields.
enum {
    NAME = 0,
    NAME_BYTES = 100,
    MODE = 100,
    MODE_BYTES = 8,
    SIZE = 124,
    SIZE_BYTES = 12,
    MTIME = 136,
    MTIME_BYTES = 12,
    CHECKSUM = 148,
    CHECKSUM_BYTES = 8,
    TYPE = 156,
    LINK = 157,
    LINK_BYTES = 100,
    MAGIC = 257,
    PREFIX = 345,
    PREFIX_BYTES = 155
};

int tar_open(struct tar *t, const char *path, struct err *e) {
    static const unsigned char zstd_magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    memset(t, 0, sizeof *t);
    t->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (t->fd < 0) {
        int bad = err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "opening '%s'", path);
        memset(t, 0, sizeof *t);
        return bad;
    }
    unsigned char head[4];
    ssize_t n = pread(t->fd, head, sizeof head, 0);
    if (n >= 2 && head[0] == 0x1f && head[1] == 0x8b) {
        close(t->fd);
        memset(t, 0, sizeof *t);
        return err_set(
            e, ERR_FORMAT,
            "'%s' is compressed with gzip, which is not read (try: gunzip it, or pack it "
            "again with zstd)",
            path);
    }
    bool packed = n == (ssize_t)sizeof head && memcmp(head, zstd_magic, sizeof head) == 0;
    t->in = packed ? tar_input_zstd(t->fd, e) : tar_input_file(t->fd);
    t->seekable = !packed;
    if (t->in)
        return 0;
    close(t->fd);
    memset(t, 0, sizeof *t);
    return err_wrap(e, "'%s'", path);
}

void tar_open_input(struct tar *t, struct tar_input *in) {
    memset(t, 0, sizeof *t);
    t->in = in;
    t->fd = -1;
}

void tar_close(struct tar *t) {
    if (!t->in)
        return;
    if (t->in->close)
        t->in->close(t->in);
    if (t->fd >= 0)
        close(t->fd);
    memset(t, 0, sizeof *t);
    t->fd = -1;
}

static int tar_take(struct tar *t, void *buf, uint64_t len, struct err *e) {
    if (len > TAR_BYTES_MAX - t->offset)
        return err_set(e, ERR_LIMIT, "archive is larger than %llu bytes",
                       (unsigned long long)TAR_BYTES_MAX);
    int r = t->in->read(t->in, buf, len, e);
    if (r > 0)
        t->offset += len;
    return r;
}

int tar_read(struct tar *t, void *buf, uint64_t len, struct err *e) {
    must(len <= t->data);
    if (len == 0)
        return 0;
    int r = tar_take(t, buf, len, e);
    if (r < 0)
        return -1;
    if (r == 0)
        return err_set(e, ERR_FORMAT, "archive ends in the middle of an entry");
    t->data -= len;
    t->pending -= len;
    return 0;
}

// Octal digits, or GNU's base-256 with the top bit set.
static int tar_number(const unsigned char *field, size_t len, uint64_t *out, struct err *e) {
    uint64_t v = 0;
    if (field[0] & 0x80) {
        for (size_t i = 1; i < len; i++) {
            if (v >> 55)
                return err_set(e, ERR_LIMIT, "entry size is above the limit");
            v = v << 8 | field[i];
        }
        *out = field[0] == 0x80 ? v : UINT64_MAX; // negative or huge: refused by the caller
        return 0;
    }
    size_t i = 0;
    while (i < len && field[i] == ' ')
        i++;
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(field[i] - '0');
    if (i < len && field[i] != 0 && field[i] != ' ')
        return err_set(e, ERR_FORMAT, "archive entry with a malformed number");
    *out = v;
    return 0;
}

static int tar_checksum(const unsigned char *block, struct err *e) {
    uint64_t want, sum = 0;
    for (int i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += i >= CHECKSUM && i < CHECKSUM + CHECKSUM_BYTES ? ' ' : block[i];
    return tar_number(block + CHECKSUM, CHECKSUM_BYTES, &want, e) == 0 && sum == want
               ? 0
               : err_set(e, ERR_FORMAT, "not a tar archive, or a damaged one");
}

static int tar_path_set(char *to, const char *from, size_t len, struct err *e) {
    if (len >= TAR_PATH_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "archive entry with a name of %zu bytes (at most %d)", len,
                       TAR_PATH_BYTES_MAX - 1);
    if (memchr(from, 0, len))
        return err_set(e, ERR_FORMAT, "archive entry with a NUL in its name");
    memcpy(to, from, len);
    to[len] = 0;
    return 0;
}

static int tar_header_path(const unsigned char *block, char *out, struct err *e) {
    const char *name = (const char *)block + NAME, *prefix = (const char *)block + PREFIX;
    size_t name_len = strnlen(name, NAME_BYTES), prefix_len = 0;
    if (memcmp(block + MAGIC, "ustar\0", 6) == 0) // GNU's old magic has no prefix
        prefix_len = strnlen(prefix, PREFIX_BYTES);
    char joined[PREFIX_BYTES + 1 + NAME_BYTES];
    memcpy(joined, prefix, prefix_len);
    size_t len = prefix_len;
    if (prefix_len > 0)
        joined[len++] = '/';
    memcpy(joined + len, name, name_len);
    return tar_path_set(out, joined, len + name_len, e);
}

// One "LEN KEY=VALUE\n" of a pax record; returns its length or -1.
static int64_t tar_pax_line(struct tar *t, const char *p, size_t len, struct err *e) {
    uint64_t n = 0;
    size_t i = 0;
    for (; i < len && p[i] >= '0' && p[i] <= '9' && n < TAR_EXTRA_BYTES_MAX; i++)
        n = n * 10 + (uint64_t)(p[i] - '0');
    if (i >= len || p[i] != ' ' || n > len || n < i + 3 || p[n - 1] != '\n')
        return err_set(e, ERR_FORMAT, "archive with a malformed pax record");
    const char *key = p + i + 1, *end = p + n - 1;
    const char *equals = memchr(key, '=', (size_t)(end - key));
    if (!equals)
        return err_set(e, ERR_FORMAT, "archive with a pax record without '='");
    size_t key_len = (size_t)(equals - key), value_len = (size_t)(end - equals - 1);
    if (key_len == 4 && memcmp(key, "path", 4) == 0 &&
        tar_path_set(t->path, equals + 1, value_len, e) < 0)
        return -1;
    if (key_len == 8 && memcmp(key, "linkpath", 8) == 0 &&
        tar_path_set(t->link, equals + 1, value_len, e) < 0)
        return -1;
    if (key_len == 4 && memcmp(key, "size", 4) == 0) {
        t->size = 0;
        t->has_size = true;
        for (size_t k = 0; k < value_len; k++) {
            char c = equals[1 + k];
            if (c < '0' || c > '9' || t->size > TAR_BYTES_MAX)
                return err_set(e, ERR_FORMAT, "archive with a malformed pax size");
            t->size = t->size * 10 + (uint64_t)(c - '0');
        }
    }
    return (int64_t)n;
}

// The data of a record that says something about the entry after it.
static int tar_extra(struct tar *t, char type, uint64_t size, struct err *e) {
    if (size > TAR_EXTRA_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "archive record of %llu bytes (at most %d)",
                       (unsigned long long)size, TAR_EXTRA_BYTES_MAX);
    char *text = heap_alloc(size + 1);
    int bad = tar_read(t, text, size, e);
    if (bad == 0 && (type == 'L' || type == 'K'))
        bad = tar_path_set(type == 'L' ? t->path : t->link, text, strnlen(text, size), e);
    for (uint64_t at = 0; bad == 0 && type == 'x' && at < size;) {
        int64_t n = tar_pax_line(t, text + at, size - at, e);
        if (n < 0)
            bad = -1;
        else
            at += (uint64_t)n;
    }
    free(text);
    return bad;
}

static bool tar_all_zero(const unsigned char *block) {
    for (int i = 0; i < TAR_BLOCK_BYTES; i++)
        if (block[i])
            return false;
    return true;
}

// An archive always ends with two blocks of zeros. Without them it was cut between two members.
static int tar_block(struct tar *t, void *buf, uint64_t len, struct err *e) {
    int r = tar_take(t, buf, len, e);
    return r != 0 ? r
                  : err_set(e, ERR_FORMAT,
                            "the archive is cut: it ends without its two closing blocks (try: "
                            "make or copy it again)");
}

// Reads one header; 1 with its type and size, 0 at the end of the archive.
static int tar_header(struct tar *t, unsigned char *block, uint64_t *size, struct err *e) {
    uint64_t padding = t->pending - t->data;
    if (t->data > 0 && tar_read(t, NULL, t->data, e) < 0)
        return -1;
    t->pending = 0;
    if (padding > 0 && tar_block(t, NULL, padding, e) < 0)
        return -1;
    if (tar_block(t, block, TAR_BLOCK_BYTES, e) < 0)
        return -1;
    if (tar_all_zero(block)) { // the first of two
        if (tar_block(t, block, TAR_BLOCK_BYTES, e) < 0)
            return -1;
        return tar_all_zero(block)
                   ? 0
                   : err_set(e, ERR_FORMAT, "a header follows a single block of zeros");
    }
    if (tar_checksum(block, e) < 0 || tar_number(block + SIZE, SIZE_BYTES, size, e) < 0)
        return -1;
    char type = (char)block[TYPE];
    bool extra = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (t->has_size && !extra)
        *size = t->size;
    if (*size > TAR_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "archive entry of %llu bytes is above the limit",
                       (unsigned long long)*size);
    t->data = *size;
    t->pending = (*size + TAR_BLOCK_BYTES - 1) / TAR_BLOCK_BYTES * TAR_BLOCK_BYTES;
    return 1;
}

static enum tar_type tar_type_of(char type) {
    switch (type) {
    case 0:
    case '0':
    case '7': return TAR_FILE;
    case '1': return TAR_HARD_LINK;
    case '2': return TAR_SYMLINK;
    case '5': return TAR_FOLDER;
    default: return TAR_OTHER;
    }
}

// A field that does not matter to every reader.
static uint64_t tar_lenient(const unsigned char *field, size_t len, uint64_t max) {
    uint64_t v;
    struct err ignored;
    return tar_number(field, len, &v, &ignored) == 0 && v <= max ? v : 0;
}

// Header and the records before it, which count for this entry alone.
static int tar_fill(struct tar *t, const unsigned char *block, uint64_t size, struct tar_entry *out,
                    struct err *e) {
    bool link;
    out->type = tar_type_of((char)block[TYPE]);
    link = out->type == TAR_SYMLINK || out->type == TAR_HARD_LINK;
    out->size = out->type == TAR_FILE ? size : 0;
    out->offset = t->offset;
    out->mode = (uint32_t)tar_lenient(block + MODE, MODE_BYTES, UINT32_MAX) & 07777;
    out->mtime_s = (int64_t)tar_lenient(block + MTIME, MTIME_BYTES, INT64_MAX / 1000000000);
    out->link[0] = 0;
    if (t->path[0])
        memcpy(out->path, t->path, sizeof out->path);
    else if (tar_header_path(block, out->path, e) < 0)
        return -1;
    const char *target = (const char *)block + LINK;
    if (link && t->link[0])
        memcpy(out->link, t->link, sizeof out->link);
    else if (link && tar_path_set(out->link, target, strnlen(target, LINK_BYTES), e) < 0)
        return -1;
    t->path[0] = t->link[0] = 0;
    t->has_size = false;
    if (link) // it may state a size but has no data
        t->data = t->pending = 0;
    return 1;
}

int tar_next(struct tar *t, struct tar_entry *out, struct err *e) {
    unsigned char block[TAR_BLOCK_BYTES];
    uint64_t size = 0;
    int r;
    while ((r = tar_header(t, block, &size, e)) > 0) {
        char type = (char)block[TYPE];
        if (type == 'g') // attributes of all entries
            continue;
        if (type != 'x' && type != 'L' && type != 'K')
            return tar_fill(t, block, size, out, e);
        if (tar_extra(t, type, size, e) < 0)
            return -1;
    }
    return r;
}
