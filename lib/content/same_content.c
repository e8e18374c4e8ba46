// SPDX-License-Identifier: Apache-2.0
// Compares files piece by piece, and entries by kind, target and size before that.
#include "content/same_content.h"

#include "base/arena.h"
#include "sys/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = CONTENT_TICK_BYTES / 2 }; // of each

struct one {
    const char *path;
    int fd;
    char *bytes;
    size_t len; // of the piece that was read
};

// Reads a whole piece, but for the last one of the file.
static int read_piece(struct one *f, off_t at, struct err *e) {
    for (f->len = 0; f->len < PIECE_BYTES;) {
        ssize_t n = pread(f->fd, f->bytes + f->len, PIECE_BYTES - f->len, at + (off_t)f->len);
        if (err_interrupted(n))
            continue;
        if (n < 0)
            return err_errno(e, ERR_SYS, "cannot read '%s'", f->path);
        if (n == 0)
            return 0;
        f->len += (size_t)n;
    }
    return 0;
}

static int compare(struct one *f, const struct content_ticks *ticks, bool *same, struct err *e) {
    for (off_t at = 0;; at += (off_t)f[0].len) {
        if (read_piece(&f[0], at, e) < 0 || read_piece(&f[1], at, e) < 0)
            return -1;
        *same = f[0].len == f[1].len && memcmp(f[0].bytes, f[1].bytes, f[0].len) == 0;
        if (!*same || f[0].len == 0)
            return 0;
        if (content_tick_call(ticks, f[0].len + f[1].len, e) < 0)
            return -1;
    }
}

int same_content(const char *x, const char *y, const struct content_ticks *ticks, bool *same,
                 struct err *e) {
    struct one f[2] = {{.path = x, .fd = -1}, {.path = y, .fd = -1}};
    int rc = 0;
    for (int i = 0; rc == 0 && i < 2; i++) {
        f[i].fd = open(f[i].path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        f[i].bytes = heap_alloc(PIECE_BYTES);
        if (f[i].fd < 0)
            rc = err_errno(e, ERR_SYS, "cannot read '%s'", f[i].path);
    }
    if (rc == 0)
        rc = compare(f, ticks, same, e);
    for (int i = 0; i < 2; i++) {
        if (f[i].fd >= 0)
            close(f[i].fd);
        free(f[i].bytes);
    }
    return rc;
}

int same_entry(const struct manifest_entry *x, const struct manifest_entry *y,
               const struct content_ticks *ticks, bool *same, struct err *e) {
    *same = x->kind == y->kind;
    if (!*same || x->kind == MANIFEST_FOLDER)
        return 0;
    *same = x->kind == MANIFEST_LINK ? strcmp(x->target, y->target) == 0 : x->size == y->size;
    return *same && x->kind == MANIFEST_FILE ? same_content(x->source, y->source, ticks, same, e)
                                             : 0;
}
