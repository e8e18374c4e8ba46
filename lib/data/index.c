// SPDX-License-Identifier: Apache-2.0
// The index of samples, and reading one by its number.
#include "data/index.h"

#include "content/tar.h"
#include "data/jpeg.h"
#include "sys/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM_FIRST = 1024, NAME_BYTES_MAX = 100 };

static int index_limit(const struct index *x, struct err *e) {
    return err_set(e, ERR_LIMIT,
                   "the index of %zu samples is above the limit of %llu MiB (try: larger and fewer "
                   "samples, or webdataset shards)",
                   x->count, (unsigned long long)(INDEX_BYTES_MAX >> 20));
}

static int index_name(struct index *x, const char *name, uint64_t *at, struct err *e) {
    size_t len = strlen(name) + 1;
    if (x->names_bytes + len > x->names_room) {
        x->names_room = (x->names_room + len) * 3 / 2 + 4096;
        if (x->names_room > INDEX_BYTES_MAX)
            return index_limit(x, e);
        x->names = heap_realloc(x->names, x->names_room);
    }
    memcpy(x->names + x->names_bytes, name, len);
    *at = x->names_bytes;
    x->names_bytes += len;
    return 0;
}

int index_add(struct index *x, const char *name, uint64_t at, uint64_t size, uint32_t file,
              int32_t label, struct err *e) {
    if (name && index_name(x, name, &at, e) < 0)
        return -1;
    if (x->count == x->room) {
        size_t room = x->room ? x->room / 2 * 3 : ROOM_FIRST;
        if (room * (sizeof *x->entry + sizeof *x->label) + x->names_room > INDEX_BYTES_MAX)
            return index_limit(x, e);
        x->room = room;
        x->entry = heap_realloc(x->entry, room * sizeof *x->entry);
        x->label = heap_realloc(x->label, room * sizeof *x->label);
    }
    uint32_t kept = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
    x->entry[x->count] = (struct index_entry){at, kept, file};
    x->label[x->count++] = label;
    return 0;
}

int index_add_layout(struct index *x, const struct layout *l, size_t skip, struct err *e) {
    for (size_t i = 0; i < l->count; i++) {
        const struct layout_item *it = &l->items[i];
        if (index_add(x, x->root ? it->path + skip : NULL, it->offset, it->size, it->archive,
                      it->label, e) < 0)
            return -1;
    }
    return 0;
}

void index_open_files(struct index *x) {
    for (uint32_t i = 0; i < x->files && x->files <= INDEX_FDS_MAX; i++)
        if (!x->file[i].unseekable && x->file[i].fd < 0)
            x->file[i].fd = open(x->file[i].path, O_RDONLY | O_CLOEXEC);
}

uint64_t index_bytes(const struct index *x) {
    return x->room * (sizeof *x->entry + sizeof *x->label) + x->names_room;
}

void index_close(struct index *x) {
    for (uint32_t i = 0; i < x->files; i++)
        if (x->file[i].fd >= 0)
            close(x->file[i].fd);
    free(x->file);
    free(x->entry);
    free(x->label);
    free(x->names);
    memset(x, 0, sizeof *x);
}

static int index_pread(int fd, uint8_t *to, size_t len, uint64_t at, struct err *e) {
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(fd, to + done, len - done, (off_t)(at + done));
        if (err_interrupted(n))
            continue;
        if (n < 0)
            return err_errno(e, ERR_SYS, "reading at byte %llu", (unsigned long long)(at + done));
        if (n == 0)
            return err_set(e, ERR_FORMAT, "the file ends at byte %llu; it became shorter",
                           (unsigned long long)(at + done));
        done += (size_t)n;
    }
    return 0;
}

// Reads a sample that is a whole file. Its size may have changed since it was listed.
static int index_read_named(const struct index *x, const struct index_entry *it,
                            struct source_reader *r, struct sample *out, struct err *e) {
    struct arena scratch = {0};
    auto_close int fd =
        open(file_join(&scratch, x->root, x->names + it->at), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    arena_fini(&scratch);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(e, ERR_SYS, "opening the file");
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_FORMAT, "not a file");
    uint8_t *room = source_room(r, (uint64_t)st.st_size, 0, e);
    if (!room || index_pread(fd, room, (size_t)st.st_size, 0, e) < 0)
        return -1;
    *out = (struct sample){.bytes = room, .len = (size_t)st.st_size};
    return 0;
}

int index_read(const struct index *x, uint32_t i, struct source_reader *r, struct sample *out,
               struct err *e) {
    const struct index_entry *it = &x->entry[i];
    if (x->root)
        return index_read_named(x, it, r, out, e);
    const struct index_file *f = &x->file[it->file];
    must(!f->unseekable);
    uint8_t *room = source_room(r, it->size, 0, e);
    if (!room)
        return -1;
    auto_close int own = f->fd < 0 ? open(f->path, O_RDONLY | O_CLOEXEC) : -1;
    if (f->fd < 0 && own < 0)
        return err_errno(e, ERR_SYS, "opening the archive");
    if (index_pread(f->fd < 0 ? own : f->fd, room, it->size, it->at, e) < 0)
        return -1;
    *out = (struct sample){.bytes = room, .len = it->size};
    return 0;
}

// Prints the member's name from the tar header. A long name appears truncated, since tar stores it
// elsewhere.
static void index_where_member(const struct index_file *f, const struct index_entry *it,
                               struct strbuf *out) {
    char name[NAME_BYTES_MAX];
    auto_close int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    struct err ignored;
    struct arena scratch = {0};
    if (!f->unseekable && fd >= 0 && it->at >= TAR_BLOCK_BYTES &&
        index_pread(fd, (uint8_t *)name, sizeof name, it->at - TAR_BLOCK_BYTES, &ignored) == 0)
        strbuf_addf(out, ": member '%s'",
                    str_printable(&scratch, name, strnlen(name, sizeof name)));
    strbuf_addf(out, " at byte %llu", (unsigned long long)it->at);
    arena_fini(&scratch);
}

void index_where(const struct index *x, uint32_t i, struct strbuf *out) {
    const struct index_entry *it = &x->entry[i];
    struct arena scratch = {0};
    if (x->root) {
        const char *name = x->names + it->at;
        strbuf_addf(out, "'%s/%s'", x->root, str_printable(&scratch, name, strlen(name)));
    } else {
        strbuf_addf(out, "'%s'", x->file[it->file].path);
        index_where_member(&x->file[it->file], it, out);
    }
    arena_fini(&scratch);
}
