// SPDX-License-Identifier: Apache-2.0
// The side of a transfer that gets the generation. Pieces come in the order in which they were
// asked for. Files are written below the folder `new` of the generations, which this process alone
// writes; no entry is below a link, as the list is sorted.
#include "copies/state_transfer.h"

#include "sys/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct disk_content {
    unsigned char hash[HASH_BYTES];
    uint64_t size;
    const char *path;
};

struct disk_contents {
    struct disk_content *items;
    size_t count;
};

static void end(struct state_receiver *r, const struct err *e) {
    struct err copy = *e;
    state_receiver_end *on_end = r->on_end;
    state_receiver_close(r);
    on_end(r, &copy);
}

// ---- content that is on this disk ---------------------------------------------------------------

static int compare(const void *x, const void *y) {
    return memcmp(((const struct disk_content *)x)->hash, ((const struct disk_content *)y)->hash,
                  HASH_BYTES);
}

static void add_known(struct arena *a, struct disk_contents *s, const char *folder) {
    int64_t number = generation_newest(folder);
    struct manifest *m = NULL;
    struct err ignored;
    char *list;
    size_t len;
    if (number <= 0 || generation_list(a, folder, number, &list, &len, &ignored) < 0 ||
        generation_decode(list, len, &m, &ignored) < 0)
        return;
    s->items = arena_new(a, struct disk_content, m->files + 1);
    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *n = &m->entries[i];
        if (n->kind != MANIFEST_FILE)
            continue;
        struct disk_content *k = &s->items[s->count++];
        memcpy(k->hash, n->hash, HASH_BYTES);
        k->size = n->size;
        k->path = file_join(a, generation_path(a, folder, number), n->path);
    }
    manifest_free(m);
    if (s->count)
        qsort(s->items, s->count, sizeof *s->items, compare);
}

static bool link_known(const struct disk_contents *s, const struct manifest_entry *n,
                       const char *path) {
    struct disk_content key;
    struct stat st;
    memcpy(key.hash, n->hash, HASH_BYTES);
    const struct disk_content *k =
        s->count ? bsearch(&key, s->items, s->count, sizeof key, compare) : NULL;
    return k && k->size == n->size && lstat(k->path, &st) == 0 && S_ISREG(st.st_mode) &&
           (uint64_t)st.st_size == n->size &&
           (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == n->mtime_ns &&
           (st.st_mode & 0777) == n->mode && linkat(AT_FDCWD, k->path, AT_FDCWD, path, 0) == 0;
}

// ---- the list -----------------------------------------------------------------------------------

static const char *path_of(struct state_receiver *r, struct arena *a,
                           const struct manifest_entry *n) {
    return file_join(a, generation_new(a, r->folder), n->path);
}

// A file with all its bytes.
static int finish_file(int fd, const struct manifest_entry *n, struct err *e) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {n->mtime_ns / 1000000000, n->mtime_ns % 1000000000}};
    if (fchmod(fd, n->mode) < 0 || (n->mtime_ns >= 0 && futimens(fd, times) < 0))
        return err_errno(e, ERR_SYS, "cannot finish '%s'", n->path);
    return 0;
}

static int open_file(struct state_receiver *r, const struct manifest_entry *n, struct err *e) {
    struct arena a = {0};
    const char *path = path_of(r, &a, n);
    r->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int rc = r->fd < 0 ? err_errno(e, ERR_SYS, "cannot write '%s'", path) : 0;
    arena_fini(&a);
    hash_init(&r->hash);
    return rc;
}

static int place(struct state_receiver *r, const struct disk_contents *s, size_t i, struct err *e) {
    struct arena a = {0};
    const struct manifest_entry *n = &r->manifest->entries[i];
    const char *path = path_of(r, &a, n);
    int rc = 0;
    if (n->kind == MANIFEST_FOLDER)
        rc = mkdir(path, 0700);
    else if (n->kind == MANIFEST_LINK)
        rc = symlink(n->target, path);
    else if (n->size && !link_known(s, n, path))
        r->wanted[r->wanted_count++] = i;
    if (rc < 0)
        err_errno(e, ERR_SYS, "cannot make '%s'", path);
    arena_fini(&a);
    if (rc == 0 && n->kind == MANIFEST_FILE && !n->size && (rc = open_file(r, n, e)) == 0) {
        rc = finish_file(r->fd, n, e);
        close(r->fd);
        r->fd = -1;
    }
    return rc < 0 ? -1 : 0;
}

static int check_disk(const struct state_receiver *r, struct err *e) {
    uint64_t need = STATE_TRANSFER_DISK_SPARE_BYTES, free = 0;
    char want[STR_HUMAN_BYTES_MAX], have[STR_HUMAN_BYTES_MAX];
    for (size_t i = 0; i < r->wanted_count; i++)
        need += r->manifest->entries[r->wanted[i]].size;
    if (file_disk_free(r->folder, &free, e) < 0)
        return -1;
    return free >= need ? 0
                        : err_set(e, ERR_LIMIT,
                                  "%s more would be needed on its disk, and %s are "
                                  "free",
                                  str_human_bytes(want, need), str_human_bytes(have, free));
}

static int take_list(struct state_receiver *r, struct err *e) {
    struct arena a = {0};
    struct disk_contents s = {0};
    int rc = generation_decode(r->list.data, r->list.len, &r->manifest, e);
    if (rc == 0) {
        r->wanted = arena_new(&r->arena, size_t, r->manifest->count);
        add_known(&a, &s, r->folder);
    }
    for (size_t i = 0; rc == 0 && i < r->manifest->count; i++)
        rc = place(r, &s, i, e);
    arena_fini(&a);
    return rc == 0 ? check_disk(r, e) : rc;
}

// Modes come last: a folder without permission to write has its files by then.
static int publish(struct state_receiver *r, struct err *e) {
    struct arena a = {0};
    int rc = 0;
    for (size_t i = r->manifest->count; rc == 0 && i-- > 0;) {
        const struct manifest_entry *n = &r->manifest->entries[i];
        if (n->kind == MANIFEST_FOLDER && chmod(path_of(r, &a, n), n->mode | 0700) < 0)
            rc = err_errno(e, ERR_SYS, "cannot finish '%s'", n->path);
    }
    arena_fini(&a);
    return rc == 0 ? generation_publish(r->folder, r->number, r->list.data, r->list.len, e) : rc;
}

// ---- pieces -------------------------------------------------------------------------------------

static int64_t number_of(const struct transfer_window *p, size_t k) {
    const struct state_receiver *r = container_of(p, struct state_receiver, window);
    return r->manifest ? (int64_t)r->wanted[k] : STATE_TRANSFER_LIST;
}

static uint64_t size_of(const struct transfer_window *p, size_t k) {
    const struct state_receiver *r = container_of(p, struct state_receiver, window);
    return r->manifest ? r->manifest->entries[r->wanted[k]].size : (uint64_t)r->list_len;
}

static int take_piece(struct state_receiver *r, const struct wire_msg *m, bool last,
                      struct err *e) {
    const struct manifest_entry *n = &r->manifest->entries[r->wanted[r->window.taken]];
    unsigned char digest[HASH_BYTES];
    if (r->fd < 0 && open_file(r, n, e) < 0)
        return -1;
    hash_add(&r->hash, m->data, (size_t)m->data_len);
    if (file_write_all(r->fd, m->data, (size_t)m->data_len, e) < 0)
        return -1;
    r->fetched += (uint64_t)m->data_len;
    if (!last)
        return 0;
    hash_final(&r->hash, digest);
    int rc = finish_file(r->fd, n, e);
    close(r->fd);
    r->fd = -1;
    if (rc == 0 && !hash_equal(digest, n->hash, HASH_BYTES))
        rc = err_set(e, ERR_HASH, "'%s' was written again", n->path);
    return rc;
}

static int take(struct state_receiver *r, const struct wire_msg *m, struct err *e) {
    int last = transfer_window_take(&r->window, m, e);
    if (last < 0 || (r->manifest && take_piece(r, m, last, e) < 0))
        return -1;
    if (!r->manifest)
        strbuf_add(&r->list, m->data, (size_t)m->data_len);
    transfer_window_took(&r->window, m);
    if (!last || r->manifest)
        return 0;
    if (take_list(r, e) < 0)
        return -1;
    transfer_window_begin(&r->window, r->wanted_count);
    return 0;
}

void state_receiver_data(struct state_receiver *r, const struct wire_msg *m) {
    struct err e = {0};
    if (!r->loop)
        return;
    int rc = take(r, m, &e);
    bool done = rc == 0 && r->manifest && transfer_window_is_complete(&r->window);
    if (done)
        rc = publish(r, &e);
    if (rc < 0 || done)
        end(r, &e);
    else
        transfer_window_continue(&r->window);
}

int state_receiver_open(struct state_receiver *r, const struct wire_msg *m, struct err *e) {
    struct loop *loop = r->loop;
    r->loop = NULL; // until it is open
    if (m->number < 1 || m->number == INT64_MAX || m->bytes < 1 ||
        m->bytes > GENERATION_LIST_BYTES_MAX)
        return err_set(e, ERR_FORMAT, "a generation is offered that cannot be");
    r->number = m->number;
    r->list_len = m->bytes;
    r->arena = (struct arena){0};
    r->list = (struct strbuf){0};
    r->manifest = NULL;
    r->wanted_count = 0;
    r->fetched = 0;
    r->fd = -1;
    if (file_make_dirs(r->folder, 0700, e) < 0 || generation_begin(r->folder, e) < 0)
        return -1;
    r->loop = loop;
    r->window = (struct transfer_window){.loop = loop,
                                         .link = r->link,
                                         .max = STATE_TRANSFER_PIECES,
                                         .paced = r->paced,
                                         .number = number_of,
                                         .size = size_of};
    transfer_window_begin(&r->window, 1); // the list
    return 0;
}

void state_receiver_close(struct state_receiver *r) {
    if (!r->loop)
        return;
    r->loop = NULL;
    transfer_window_stop(&r->window);
    if (r->fd >= 0)
        close(r->fd);
    manifest_free(r->manifest);
    r->manifest = NULL;
    strbuf_fini(&r->list);
    arena_fini(&r->arena);
}
