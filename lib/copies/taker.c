// SPDX-License-Identifier: Apache-2.0
// The side of a transfer that gets the generation. Pieces come in the order in which they were
// asked for. Files are written below the folder `new` of the generations, which this process alone
// writes; no entry is below a link, as the list is sorted.
#include "copies/transfer.h"

#include "sys/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct known { // content on this disk
    unsigned char hash[HASH_BYTES];
    uint64_t size;
    const char *path;
};

struct store {
    struct known *items;
    size_t count;
};

static void end(struct taker *t, const struct err *e) {
    struct err copy = *e;
    taker_end *on_end = t->on_end;
    taker_close(t);
    on_end(t, &copy);
}

// ---- content that is on this disk ---------------------------------------------------------------

static int compare(const void *x, const void *y) {
    return memcmp(((const struct known *)x)->hash, ((const struct known *)y)->hash, HASH_BYTES);
}

static void add_known(struct arena *a, struct store *s, const char *folder) {
    int64_t number = generation_newest(folder);
    struct manifest *m = NULL;
    struct err ignored;
    char *list;
    size_t len;
    if (number <= 0 || generation_list(a, folder, number, &list, &len, &ignored) < 0 ||
        generation_decode(list, len, &m, &ignored) < 0)
        return;
    s->items = arena_new(a, struct known, m->files + 1);
    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *n = &m->entries[i];
        if (n->kind != MANIFEST_FILE)
            continue;
        struct known *k = &s->items[s->count++];
        memcpy(k->hash, n->hash, HASH_BYTES);
        k->size = n->size;
        k->path = file_join(a, generation_path(a, folder, number), n->path);
    }
    manifest_free(m);
    if (s->count)
        qsort(s->items, s->count, sizeof *s->items, compare);
}

static bool link_known(const struct store *s, const struct manifest_entry *n, const char *path) {
    struct known key;
    struct stat st;
    memcpy(key.hash, n->hash, HASH_BYTES);
    const struct known *k =
        s->count ? bsearch(&key, s->items, s->count, sizeof key, compare) : NULL;
    return k && k->size == n->size && lstat(k->path, &st) == 0 && S_ISREG(st.st_mode) &&
           (uint64_t)st.st_size == n->size &&
           (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == n->mtime_ns &&
           (st.st_mode & 0777) == n->mode && linkat(AT_FDCWD, k->path, AT_FDCWD, path, 0) == 0;
}

// ---- the list -----------------------------------------------------------------------------------

static const char *path_of(struct taker *t, struct arena *a, const struct manifest_entry *n) {
    return file_join(a, generation_new(a, t->folder), n->path);
}

// A file with all its bytes.
static int finish_file(int fd, const struct manifest_entry *n, struct err *e) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {n->mtime_ns / 1000000000, n->mtime_ns % 1000000000}};
    if (fchmod(fd, n->mode) < 0 || (n->mtime_ns >= 0 && futimens(fd, times) < 0))
        return err_errno(e, ERR_SYS, "cannot finish '%s'", n->path);
    return 0;
}

static int open_file(struct taker *t, const struct manifest_entry *n, struct err *e) {
    struct arena a = {0};
    const char *path = path_of(t, &a, n);
    t->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int rc = t->fd < 0 ? err_errno(e, ERR_SYS, "cannot write '%s'", path) : 0;
    arena_fini(&a);
    hash_init(&t->hash);
    return rc;
}

static int place(struct taker *t, const struct store *s, size_t i, struct err *e) {
    struct arena a = {0};
    const struct manifest_entry *n = &t->manifest->entries[i];
    const char *path = path_of(t, &a, n);
    int rc = 0;
    if (n->kind == MANIFEST_FOLDER)
        rc = mkdir(path, 0700);
    else if (n->kind == MANIFEST_LINK)
        rc = symlink(n->target, path);
    else if (n->size && !link_known(s, n, path))
        t->wanted[t->wanted_count++] = i;
    if (rc < 0)
        err_errno(e, ERR_SYS, "cannot make '%s'", path);
    arena_fini(&a);
    if (rc == 0 && n->kind == MANIFEST_FILE && !n->size && (rc = open_file(t, n, e)) == 0) {
        rc = finish_file(t->fd, n, e);
        close(t->fd);
        t->fd = -1;
    }
    return rc < 0 ? -1 : 0;
}

static int check_disk(const struct taker *t, struct err *e) {
    uint64_t need = TRANSFER_DISK_SPARE_BYTES, free = 0;
    char want[STR_HUMAN_BYTES_MAX], have[STR_HUMAN_BYTES_MAX];
    for (size_t i = 0; i < t->wanted_count; i++)
        need += t->manifest->entries[t->wanted[i]].size;
    if (file_disk_free(t->folder, &free, e) < 0)
        return -1;
    return free >= need ? 0
                        : err_set(e, ERR_LIMIT,
                                  "%s more would be needed on its disk, and %s are "
                                  "free",
                                  str_human_bytes(want, need), str_human_bytes(have, free));
}

static int take_list(struct taker *t, struct err *e) {
    struct arena a = {0};
    struct store s = {0};
    int rc = generation_decode(t->list.data, t->list.len, &t->manifest, e);
    if (rc == 0) {
        t->wanted = arena_new(&t->arena, size_t, t->manifest->count + 1);
        add_known(&a, &s, t->folder);
    }
    for (size_t i = 0; rc == 0 && i < t->manifest->count; i++)
        rc = place(t, &s, i, e);
    arena_fini(&a);
    return rc == 0 ? check_disk(t, e) : rc;
}

// Modes come last: a folder without permission to write has its files by then.
static int publish(struct taker *t, struct err *e) {
    struct arena a = {0};
    int rc = 0;
    for (size_t i = t->manifest->count; rc == 0 && i-- > 0;) {
        const struct manifest_entry *n = &t->manifest->entries[i];
        if (n->kind == MANIFEST_FOLDER && chmod(path_of(t, &a, n), n->mode | 0700) < 0)
            rc = err_errno(e, ERR_SYS, "cannot finish '%s'", n->path);
    }
    arena_fini(&a);
    return rc == 0 ? generation_publish(t->folder, t->number, t->list.data, t->list.len, e) : rc;
}

// ---- pieces -------------------------------------------------------------------------------------

static int64_t number_of(const struct pieces *p, size_t k) {
    const struct taker *t = container_of(p, struct taker, pieces);
    return t->manifest ? (int64_t)t->wanted[k] : TRANSFER_LIST;
}

static uint64_t size_of(const struct pieces *p, size_t k) {
    const struct taker *t = container_of(p, struct taker, pieces);
    return t->manifest ? t->manifest->entries[t->wanted[k]].size : (uint64_t)t->list_len;
}

static int take_piece(struct taker *t, const struct wire_msg *m, bool last, struct err *e) {
    const struct manifest_entry *n = &t->manifest->entries[t->wanted[t->pieces.taken]];
    unsigned char digest[HASH_BYTES];
    if (t->fd < 0 && open_file(t, n, e) < 0)
        return -1;
    hash_add(&t->hash, m->data, (size_t)m->data_len);
    if (file_write_all(t->fd, m->data, (size_t)m->data_len, e) < 0)
        return -1;
    t->fetched += (uint64_t)m->data_len;
    if (!last)
        return 0;
    hash_final(&t->hash, digest);
    int rc = finish_file(t->fd, n, e);
    close(t->fd);
    t->fd = -1;
    if (rc == 0 && !hash_equal(digest, n->hash, HASH_BYTES))
        rc = err_set(e, ERR_HASH, "'%s' was written again", n->path);
    return rc;
}

static int take(struct taker *t, const struct wire_msg *m, struct err *e) {
    int last = pieces_take(&t->pieces, m, e);
    if (last < 0 || (t->manifest && take_piece(t, m, last, e) < 0))
        return -1;
    if (!t->manifest)
        strbuf_add(&t->list, m->data, (size_t)m->data_len);
    pieces_took(&t->pieces, m);
    if (!last || t->manifest)
        return 0;
    if (take_list(t, e) < 0)
        return -1;
    pieces_begin(&t->pieces, t->wanted_count);
    return 0;
}

void taker_data(struct taker *t, const struct wire_msg *m) {
    struct err e = {0};
    if (!t->loop)
        return;
    int rc = take(t, m, &e);
    bool done = rc == 0 && t->manifest && pieces_are_here(&t->pieces);
    if (done)
        rc = publish(t, &e);
    if (rc < 0 || done)
        end(t, &e);
    else
        pieces_continue(&t->pieces);
}

int taker_open(struct taker *t, const struct wire_msg *m, struct err *e) {
    struct loop *loop = t->loop;
    t->loop = NULL; // until it is open
    if (m->number < 1 || m->number == INT64_MAX || m->bytes < 1 ||
        m->bytes > GENERATION_LIST_BYTES_MAX)
        return err_set(e, ERR_FORMAT, "a generation is offered that cannot be");
    t->number = m->number;
    t->list_len = m->bytes;
    t->arena = (struct arena){0};
    t->list = (struct strbuf){0};
    t->manifest = NULL;
    t->wanted_count = 0;
    t->fetched = 0;
    t->fd = -1;
    if (file_make_dirs(t->folder, 0700, e) < 0 || generation_begin(t->folder, e) < 0)
        return -1;
    t->loop = loop;
    t->pieces = (struct pieces){.loop = loop,
                                .link = t->link,
                                .max = TRANSFER_PIECES,
                                .paced = t->paced,
                                .number = number_of,
                                .size = size_of};
    pieces_begin(&t->pieces, 1); // the list
    return 0;
}

void taker_close(struct taker *t) {
    if (!t->loop)
        return;
    t->loop = NULL;
    pieces_stop(&t->pieces);
    if (t->fd >= 0)
        close(t->fd);
    manifest_free(t->manifest);
    t->manifest = NULL;
    strbuf_fini(&t->list);
    arena_fini(&t->arena);
}
