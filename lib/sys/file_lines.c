// SPDX-License-Identifier: Apache-2.0
// Lines of a file, by pieces.
#include "sys/file_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 256 * 1024 };

int file_lines_open(struct file_lines *in, const char *path, size_t line_bytes_max,
                    uint64_t bytes_max, struct err *e) {
    struct stat st;
    *in = (struct file_lines){
        .path = path, .line_bytes_max = line_bytes_max, .bytes_left = bytes_max};
    // Without O_NONBLOCK, the open of a named pipe would wait for a writer.
    in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (in->fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "cannot read '%s'", path);
    if (fstat(in->fd, &st) < 0)
        err_errno(e, ERR_SYS, "cannot read '%s'", path);
    else if (!S_ISREG(st.st_mode))
        err_set(e, ERR_SYS, "cannot read '%s': it is no regular file", path);
    else if ((uint64_t)st.st_size > bytes_max)
        err_set(e, ERR_LIMIT, "'%s' has %lld bytes, limit %llu", path, (long long)st.st_size,
                (unsigned long long)bytes_max);
    else
        return 0;
    close(in->fd);
    in->fd = -1;
    return -1;
}

static void read_piece(struct file_lines *in) {
    strbuf_consume(&in->text, in->at);
    in->used -= in->at;
    in->at = 0;
    char *p = strbuf_reserve(&in->text, PIECE_BYTES);
    size_t room = in->bytes_left < PIECE_BYTES ? (size_t)in->bytes_left : PIECE_BYTES;
    ssize_t n;
    do
        n = read(in->fd, p, room);
    while (err_interrupted(n));
    in->error = n < 0 ? errno : 0;
    in->ended = n <= 0;
    in->text.len += n > 0 ? (size_t)n : 0;
    in->bytes_left -= n > 0 ? (size_t)n : 0;
}

// Makes a line of `len` bytes at in->at the current one. False: it is the rest of a cut line.
static bool take(struct file_lines *in, size_t len, size_t newline) {
    bool rest = in->skips;
    in->line = in->text.data + in->at;
    in->len = len;
    in->used = in->at + len + newline;
    in->skips = false;
    if (rest)
        return false;
    in->number++;
    in->unended = !newline;
    in->cut = len > in->line_bytes_max;
    in->len = in->cut ? in->line_bytes_max : len;
    return true;
}

bool file_lines_next(struct file_lines *in) {
    if (in->fd < 0)
        return false;
    in->at = in->used;
    for (size_t seen = in->at;;) {
        size_t left = in->text.len - seen;
        const char *end = left ? memchr(in->text.data + seen, '\n', left) : NULL;
        size_t len = (end ? (size_t)(end - in->text.data) : in->text.len) - in->at;
        if (end || (in->ended && len)) {
            if (take(in, len, end != NULL))
                return true;
            seen = in->at = in->used;
            continue;
        }
        if (in->ended)
            return false;
        if (len > in->line_bytes_max) { // what is here is shown; the rest follows later
            bool first = take(in, len, 0);
            in->skips = true;
            in->unended = false;
            if (first)
                return true;
            in->at = in->used;
        }
        seen = in->text.len - in->at;
        read_piece(in);
    }
}

int file_lines_close(struct file_lines *in, int rc, struct err *e) {
    if (in->fd >= 0)
        close(in->fd);
    in->fd = -1;
    strbuf_fini(&in->text);
    if (rc < 0 || !in->error)
        return rc < 0 ? rc : 0;
    errno = in->error;
    return err_errno(e, ERR_SYS, "cannot read '%s'", in->path);
}
