// SPDX-License-Identifier: Apache-2.0
// The operator's copy of one node's files of a run.
#include "follow/log_mirror.h"

#include "base/json.h"
#include "follow/log_lines.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REPLAY_BYTES = MIRROR_LINE_BYTES_MAX, BEGIN_BYTES_MAX = 16 << 20 };
static const char BEGIN[] = ".begin";

static struct mirror_file *add_file(struct mirror *m, const char *name,
                                    const struct follow_file *file) {
    struct mirror_file *f = arena_new(m->arena, struct mirror_file, 1);
    f->name = arena_strdup(m->arena, name);
    f->path = file_join(m->arena, m->dir, name);
    f->file = *file;
    f->fd = -1;
    strbuf_init(&f->line, LOG_LINES_ROOM);
    f->next = m->files;
    m->files = f;
    name_map_put(&m->by_name, f->name, f);
    m->count++;
    return f;
}

static void close_file(struct mirror *m, struct mirror_file *f) {
    for (size_t i = 0; f->fd >= 0 && i < MIRROR_OPEN_FILES_MAX; i++)
        if (m->open_files->file[i] == f)
            m->open_files->file[i] = NULL;
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

static void ignore(void *ctx, const struct mirror_file *f, const char *line, size_t len) {
    (void)ctx, (void)f, (void)line, (void)len;
}

// Reads the unfinished last line of an existing file into f->line.
static int read_tail(struct mirror_file *f, struct err *e) {
    char tail[REPLAY_BYTES];
    auto_close int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s'", f->path);
    uint64_t from = f->size > sizeof tail ? f->size - sizeof tail : 0;
    ssize_t n = pread(fd, tail, sizeof tail, (off_t)from);
    if (n < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s'", f->path);
    const char *end = memrchr(tail, '\n', (size_t)n);
    const char *begin = end ? end + 1 : tail;
    log_lines_take(f, begin, (size_t)(tail + n - begin), ignore, NULL);
    return 0;
}

static int adopt(struct mirror *m, const char *name, struct err *e) {
    struct follow_file file;
    struct stat st;
    if (!follow_file_parse(name, &file) || m->count == MIRROR_FILES_MAX)
        return 0;
    struct mirror_file *f = add_file(m, name, &file);
    if (stat(f->path, &st) < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s'", f->path);
    f->size = (uint64_t)st.st_size;
    int result = read_tail(f, e);
    f->at = f->size;
    return result;
}

// depth: 0 is the node's folder, 1 attempt_N or output, 2 the local rank.
static int scan(struct mirror *m, const char *below, int depth, struct err *e) {
    struct file_entries in =
        file_entries_open(*below ? file_join(m->arena, m->dir, below) : m->dir);
    int result = 0;
    while (result == 0 && file_entries_next(&in)) {
        struct stat st;
        if (in.name[0] == '.')
            continue;
        char *name = *below ? file_join(m->arena, below, in.name) : arena_strdup(m->arena, in.name);
        if (!file_entries_stat(&in, &st))
            continue;
        if (S_ISDIR(st.st_mode) && depth < 2)
            result = scan(m, name, depth + 1, e);
        else if (S_ISREG(st.st_mode))
            result = adopt(m, name, e);
    }
    return file_entries_close(&in, result, e);
}

static int compare_files(const void *x, const void *y) {
    const struct mirror_file *a = *(const struct mirror_file *const *)x,
                             *b = *(const struct mirror_file *const *)y;
    if (a->file.attempt != b->file.attempt)
        return a->file.attempt < b->file.attempt ? -1 : 1;
    if (a->file.local_rank != b->file.local_rank)
        return a->file.local_rank < b->file.local_rank ? -1 : 1;
    return strcmp(a->name, b->name);
}

// Sorts attempts, since a folder lists its names in any order.
static void sort_files(struct mirror *m) {
    struct arena a = {0};
    struct mirror_file **all = arena_new(&a, struct mirror_file *, m->count + 1), **at = &m->files;
    size_t count = 0;
    for (struct mirror_file *f = m->files; f; f = f->next)
        all[count++] = f;
    qsort(all, count, sizeof *all, compare_files);
    for (size_t i = 0; i < count; i++, at = &(*at)->next)
        *at = all[i];
    *at = NULL;
    arena_fini(&a);
}

static int read_begin(struct mirror *m, struct err *e) {
    struct arena a = {0};
    const char *path = file_join(&a, m->dir, BEGIN);
    struct json *j = NULL;
    char *text;
    size_t len;
    int result = 0;
    if (file_exists(path)) {
        result = file_read(&a, path, BEGIN_BYTES_MAX, &text, &len, e);
        if (result == 0 && json_parse(&a, text, len, &j, e) < 0)
            result = err_wrap(e, "'%s'", path);
    }
    for (struct mirror_file *f = m->files; j && f; f = f->next) {
        int64_t begin = json_get_int(j, f->name, 0);
        if (begin > 0 && (uint64_t)begin <= f->size)
            f->begin = (uint64_t)begin;
    }
    arena_fini(&a);
    return result;
}

int log_mirror_open(struct mirror *m, struct mirror_open_files *open_files, struct arena *a,
                    const char *dir, struct err *e) {
    *m = (struct mirror){.arena = a, .dir = arena_strdup(a, dir), .open_files = open_files};
    if (scan(m, "", 0, e) < 0)
        return -1;
    sort_files(m);
    return read_begin(m, e);
}

void log_mirror_close(struct mirror *m) {
    for (struct mirror_file *f = m->files; f; f = f->next) {
        strbuf_fini(&f->line);
        close_file(m, f);
    }
    name_map_fini(&m->by_name);
    m->files = NULL;
    m->count = 0;
}

static void add_sizes(const struct mirror *m, bool all, struct strbuf *out) {
    struct json_out j;
    json_open(&j, out);
    json_object(&j, NULL);
    for (const struct mirror_file *f = m->files; f; f = f->next)
        json_int(&j, f->name, (int64_t)(f->size - (all ? 0 : f->begin)));
    json_end(&j);
}

void log_mirror_offsets(const struct mirror *m, struct strbuf *out) {
    add_sizes(m, false, out);
}

static int open_file(struct mirror *m, struct mirror_file *f, struct err *e) {
    static const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC;
    struct mirror_open_files *all = m->open_files;
    struct mirror_file **slot = &all->file[all->next];
    if (*slot)
        close_file(m, *slot);
    f->fd = open(f->path, flags, 0600);
    if (f->fd < 0 && errno == ENOENT) {
        if (file_make_dirs(file_dir(m->arena, f->path), 0700, e) < 0)
            return -1;
        f->fd = open(f->path, flags, 0600);
    }
    if (f->fd < 0)
        return err_errno(e, ERR_SYS, "cannot write '%s'", f->path);
    *slot = f;
    all->next = (all->next + 1) % MIRROR_OPEN_FILES_MAX;
    return 0;
}

// Another program may have removed the file since it was opened.
static int open_locked(struct mirror *m, struct mirror_file *f, struct stat *st, struct err *e) {
    *st = (struct stat){0};
    for (int i = 0; i < 2 && st->st_nlink == 0; i++) {
        if (i > 0)
            close_file(m, f);
        if (f->fd < 0 && open_file(m, f, e) < 0)
            return -1;
        if (file_lock_fd(f->fd, F_WRLCK, true) < 0 || fstat(f->fd, st) < 0)
            return err_errno(e, ERR_SYS, "cannot write '%s'", f->path);
    }
    return 0;
}

// Appends the bytes. Returns how many of them another program had already written.
static int64_t append(struct mirror *m, struct mirror_file *f, const unsigned char *p, size_t len,
                      struct err *e) {
    struct stat st;
    int result = open_locked(m, f, &st, e);
    if (result == 0 && (uint64_t)st.st_size < f->size)
        result = err_set(e, ERR_FORMAT, "'%s' is shorter than it was", f->path);
    uint64_t there = result == 0 ? (uint64_t)st.st_size - f->size : 0;
    there = there < len ? there : len;
    if (result == 0 && file_write_all(f->fd, p + there, len - there, e) < 0)
        result = err_wrap(e, "'%s'", f->path);
    if (result < 0) {
        close_file(m, f); // and with it the lock
        return -1;
    }
    (void)file_lock_fd(f->fd, F_UNLCK, true);
    f->size += len;
    return (int64_t)there;
}

static int end_line(struct mirror *m, struct mirror_file *f, mirror_line_cb *cb, void *ctx,
                    struct err *e) {
    char last = '\n';
    auto_close int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (f->size == 0)
        return 0;
    if (fd < 0 || pread(fd, &last, 1, (off_t)f->size - 1) < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s'", f->path);
    if (last == '\n')
        return 0;
    int64_t there = append(m, f, (const unsigned char *)"\n", 1, e);
    if (there < 0)
        return -1;
    f->ours = !there;
    if (f->line.len) // else it was handed out
        log_lines_take(f, "\n", 1, cb, ctx);
    return 0;
}

int log_mirror_begin(struct mirror *m, mirror_line_cb *cb, void *ctx, struct err *e) {
    struct strbuf text = {0};
    int result = file_make_dirs(m->dir, 0700, e);
    for (struct mirror_file *f = m->files; result == 0 && f; f = f->next) {
        result = end_line(m, f, cb, ctx, e);
        f->begin = f->size;
    }
    add_sizes(m, true, &text);
    if (result == 0)
        result =
            file_write_atomic(file_join(m->arena, m->dir, BEGIN), text.data, text.len, 0600, e);
    strbuf_fini(&text);
    return result;
}

int log_mirror_write(struct mirror *m, const struct follow_record *r, mirror_line_cb *cb, void *ctx,
                     struct err *e) {
    struct mirror_file *f = name_map_find(&m->by_name, r->name);
    if (!f && m->count == MIRROR_FILES_MAX)
        return err_set(e, ERR_LIMIT, "a node has more than %d files of one run", MIRROR_FILES_MAX);
    if (!f)
        f = add_file(m, r->name, &r->file);
    uint64_t here = f->size - f->begin;
    if (r->offset > here)
        return err_set(e, ERR_FORMAT, "bytes of '%s' are missing: got %llu, want %llu", r->name,
                       (unsigned long long)r->offset, (unsigned long long)here);
    uint64_t known = here - r->offset;
    if (known >= r->len)
        return 0;
    const unsigned char *p = r->data + known;
    size_t len = r->len - (size_t)known;
    int64_t there = append(m, f, p, len, e);
    if (there < 0)
        return -1;
    f->ours = false;
    log_lines_take(f, (const char *)p, (size_t)there, cb, ctx);
    f->ours = (size_t)there < len;
    log_lines_take(f, (const char *)p + there, len - (size_t)there, cb, ctx);
    log_lines_show(f, cb, ctx);
    return 0;
}

void log_mirror_flush(struct mirror *m, mirror_line_cb *cb, void *ctx) {
    for (struct mirror_file *f = m->files; f; f = f->next)
        log_lines_flush(f, cb, ctx);
}

static int replay_file(struct mirror_file *f, bool to_end, mirror_line_cb *cb, void *ctx,
                       struct err *e) {
    char part[REPLAY_BYTES];
    struct mirror_file copy = *f;
    uint64_t left = f->size;
    auto_close int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s'", f->path);
    strbuf_init(&copy.line, LOG_LINES_ROOM);
    copy.at = copy.dropped = 0;
    while (left > 0) {
        ssize_t n = read(fd, part, left < sizeof part ? (size_t)left : sizeof part);
        if (n <= 0)
            break;
        log_lines_take(&copy, part, (size_t)n, cb, ctx);
        left -= (uint64_t)n;
    }
    if (to_end)
        log_lines_flush(&copy, cb, ctx);
    strbuf_fini(&copy.line);
    return 0;
}

int log_mirror_replay(struct mirror *m, enum follow_file_kind kind, bool to_end, mirror_line_cb *cb,
                      void *ctx, struct err *e) {
    for (struct mirror_file *f = m->files; f; f = f->next)
        if (f->file.kind == kind && replay_file(f, to_end, cb, ctx, e) < 0)
            return -1;
    return 0;
}
