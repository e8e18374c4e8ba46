// SPDX-License-Identifier: Apache-2.0
// The side of a transfer that gets the generation. Pieces come in the order in which they were
// asked for. Files are written below the folder `new` of the generations, which this process alone
// writes; no entry is below a link, as the list is sorted.
#include "copies/transfer.h"

#include "base/clock.h"
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

static void ask_on(struct taker *t);

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

static uint64_t size_of(const struct taker *t, size_t k) {
    return t->manifest ? t->manifest->entries[t->wanted[k]].size : (uint64_t)t->list_len;
}

static size_t count_of(const struct taker *t) {
    return t->manifest ? t->wanted_count : 1;
}

static void ask(struct taker *t) {
    uint64_t left = size_of(t, t->asked) - t->asked_at;
    struct wire_msg m = {.type = WIRE_STATE_GET,
                         .file = t->manifest ? (int64_t)t->wanted[t->asked] : TRANSFER_LIST,
                         .offset = (int64_t)t->asked_at,
                         .bytes =
                             (int64_t)(left < TRANSFER_PIECE_BYTES ? left : TRANSFER_PIECE_BYTES)};
    t->pieces++;
    t->asked_at += (uint64_t)m.bytes;
    if (t->asked_at == size_of(t, t->asked)) {
        t->asked++;
        t->asked_at = 0;
    }
    channel_send(t->link, &m);
}

static void on_pace(struct timer *timer) {
    ask_on(container_of(timer, struct taker, pace));
}

static void ask_on(struct taker *t) {
    t->burst_ms = clock_mono_ms();
    while (t->pieces < TRANSFER_PIECES && t->asked < count_of(t))
        ask(t);
}

// After the last piece of a burst.
static void go_on(struct taker *t) {
    int64_t took = clock_mono_ms() - t->burst_ms;
    if (t->paced && took > 0)
        timer_start(t->loop, &t->pace, took, on_pace);
    else
        ask_on(t);
}

static int take_piece(struct taker *t, const struct wire_msg *m, struct err *e) {
    const struct manifest_entry *n = &t->manifest->entries[t->wanted[t->taken]];
    unsigned char digest[HASH_BYTES];
    if (t->fd < 0 && open_file(t, n, e) < 0)
        return -1;
    hash_add(&t->hash, m->data, (size_t)m->data_len);
    if (file_write_all(t->fd, m->data, (size_t)m->data_len, e) < 0)
        return -1;
    t->fetched += (uint64_t)m->data_len;
    if (t->taken_at + (uint64_t)m->data_len < n->size)
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
    int64_t file =
        t->manifest && t->taken < t->wanted_count ? (int64_t)t->wanted[t->taken] : TRANSFER_LIST;
    if (!t->pieces || t->taken >= count_of(t) || m->file != file ||
        m->offset != (int64_t)t->taken_at || m->data_len < 1 ||
        (uint64_t)m->data_len > size_of(t, t->taken) - t->taken_at)
        return err_set(e, ERR_FORMAT, "a piece comes out of turn");
    t->pieces--;
    if (t->manifest) {
        if (take_piece(t, m, e) < 0)
            return -1;
    } else {
        strbuf_add(&t->list, m->data, (size_t)m->data_len);
    }
    t->taken_at += (uint64_t)m->data_len;
    if (t->taken_at < size_of(t, t->taken))
        return 0;
    t->taken_at = 0;
    if (t->manifest) {
        t->taken++;
        return 0;
    }
    t->asked = 0;
    return take_list(t, e);
}

void taker_data(struct taker *t, const struct wire_msg *m) {
    struct err e = {0};
    if (!t->loop)
        return;
    int rc = take(t, m, &e);
    bool done = rc == 0 && t->manifest && t->taken == t->wanted_count;
    if (done)
        rc = publish(t, &e);
    if (rc < 0 || done)
        end(t, &e);
    else if (!t->pieces)
        go_on(t);
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
    t->wanted_count = t->asked = t->taken = 0;
    t->asked_at = t->taken_at = t->fetched = 0;
    t->pieces = 0;
    t->fd = -1;
    if (file_make_dirs(t->folder, 0700, e) < 0 || generation_begin(t->folder, e) < 0)
        return -1;
    t->loop = loop;
    ask_on(t);
    return 0;
}

void taker_close(struct taker *t) {
    if (!t->loop)
        return;
    t->loop = NULL;
    timer_stop(&t->pace);
    if (t->fd >= 0)
        close(t->fd);
    manifest_free(t->manifest);
    t->manifest = NULL;
    strbuf_fini(&t->list);
    arena_fini(&t->arena);
}
