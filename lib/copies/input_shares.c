// SPDX-License-Identifier: Apache-2.0
// Deals the files of an input, and makes the folder of a share.
#include "copies/input_shares.h"

#include "base/array.h"
#include "base/json.h"
#include "content/generation.h"
#include "content/tree_writer.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(DEAL_SIZE == 0 && DEAL_KEY == 1 && DEAL_COUNT == 2, "as deal_shard_words");
_Static_assert(DEAL_UNEVEN_ALLOW == 0 && DEAL_UNEVEN_PAD == 1 && DEAL_UNEVEN_DROP == 2 &&
                   DEAL_UNEVEN_REFUSE == 3,
               "as deal_uneven_words");

// ---- the deal -----------------------------------------------------------------------------------

int input_shares_open(struct input_shares *s, const struct job_input *input, const char *run_dir,
                      struct err *e) {
    char *text;
    size_t len;
    *s = (struct input_shares){.input = input};
    if (file_read(&s->arena, job_deal_list(&s->arena, run_dir, input->name),
                  GENERATION_LIST_BYTES_MAX, &text, &len, e) < 0 ||
        generation_decode(text, len, &s->manifest, e) < 0) {
        arena_fini(&s->arena);
        return err_wrap(e, "the list of input '%s'", input->name);
    }
    s->count = deal_items(&s->arena, s->manifest, NULL, &s->items, &s->entries);
    return 0;
}

int input_shares_deal(struct input_shares *s, int nodes, struct err *e) {
    const struct job_deal *d = s->input->deal;
    struct deal_rule rule = {.what = "files",
                             .shard = (enum deal_shard)d->shard,
                             .uneven = (enum deal_uneven)d->uneven,
                             .shuffled = d->shuffled,
                             .seed = (uint64_t)d->seed};
    s->nodes = nodes;
    s->dealt = arena_new(&s->arena, struct deal_share, (size_t)nodes);
    return deal_out(&s->arena, s->items, s->count, &rule, s->dealt, (size_t)nodes, e) < 0
               ? err_wrap(e, "input '%s'", s->input->name)
               : 0;
}

void input_shares_close(struct input_shares *s) {
    if (!s->manifest)
        return;
    manifest_free(s->manifest);
    s->manifest = NULL;
    arena_fini(&s->arena);
}

static const struct manifest_entry *entry_of(const struct input_shares *s, size_t item) {
    return &s->manifest->entries[s->entries[item]];
}

void input_shares_add_content(const struct input_shares *s, struct arena *a, int rank,
                              struct content_item **items, size_t *count, size_t *room) {
    const struct deal_share *share = &s->dealt[rank];
    for (size_t i = 0; i < share->count; i++) {
        const struct manifest_entry *n = entry_of(s, share->items[i]);
        if (n->kind != MANIFEST_FILE || n->size == 0)
            continue;
        array_grow_in(a, *items, room, *count + 1);
        struct content_item *item = &(*items)[(*count)++];
        memcpy(item->hash, n->hash, HASH_BYTES);
        item->size = n->size;
    }
}

// ---- the folder ---------------------------------------------------------------------------------

// The share with all folders of the input; NULL with an error.
static struct manifest *manifest_of(const struct input_shares *s, int rank, struct err *e) {
    const struct deal_share *share = &s->dealt[rank];
    struct manifest *m = manifest_new();
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->manifest->count; i++)
        if (s->manifest->entries[i].kind == MANIFEST_FOLDER)
            rc = manifest_append(m, &s->manifest->entries[i], e);
    for (size_t i = 0; rc == 0 && i < share->count; i++)
        rc = manifest_append(m, entry_of(s, share->items[i]), e);
    if (rc == 0)
        rc = manifest_sort(m, e);
    if (rc == 0)
        return m;
    manifest_free(m);
    return NULL;
}

static bool same_file(struct place *p, struct cas *c, const struct manifest_entry *n) {
    unsigned char real[HASH_BYTES];
    struct stat st;
    struct err ignored;
    if (tree_stat(p, n->path, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != n->size)
        return false;
    if (!hash_cache_get(c->hashes, &st, real)) {
        int64_t now_ns = hash_cache_now_ns();
        auto_close int fd = tree_open_existing(p, n->path);
        if (fd < 0 || hash_cache_file(fd, n->size, real, NULL, &ignored) < 0)
            return false;
        hash_cache_put(c->hashes, &st, real, now_ns);
    }
    return hash_equal(real, n->hash, HASH_BYTES);
}

static bool same_link(struct place *p, const struct manifest_entry *n) {
    char target[MANIFEST_LINK_BYTES_MAX + 1];
    ssize_t len = tree_read_link(p, n->path, target, sizeof target);
    return len >= 0 && (size_t)len == strlen(n->target) &&
           memcmp(target, n->target, (size_t)len) == 0;
}

static bool same_folder(struct place *p, const struct manifest_entry *n) {
    struct stat st;
    return tree_stat(p, n->path, &st) == 0 && S_ISDIR(st.st_mode);
}

static const char *folder_of(const struct input_shares *s, struct arena *a, int rank) {
    return job_share_folder(a, s->input->path, s->nodes, rank);
}

bool input_shares_is_placed(const struct input_shares *s, struct cas *c, int rank) {
    struct arena a = {0};
    struct place p;
    struct err ignored;
    struct manifest *m = manifest_of(s, rank, &ignored);
    bool same = m && tree_open(&p, folder_of(s, &a, rank), true, &ignored) == 0;
    if (same) {
        same = p.dest_fd >= 0 && tree_names_equal(&p, m);
        for (size_t i = 0; same && i < m->count; i++) {
            const struct manifest_entry *n = &m->entries[i];
            same = n->kind == MANIFEST_FOLDER ? same_folder(&p, n)
                   : n->kind == MANIFEST_LINK ? same_link(&p, n)
                                              : same_file(&p, c, n);
        }
        tree_close(&p);
    }
    if (m)
        manifest_free(m);
    arena_fini(&a);
    return same;
}

static int place_file(struct place *p, struct cas *c, const struct manifest_entry *n,
                      struct err *e) {
    static unsigned char small[CAS_SMALL_BYTES_MAX];
    struct stat st;
    int rc = 0;
    if (n->size && n->size <= CAS_SMALL_BYTES_MAX)
        rc = cas_read_small(c, n->hash, small, (size_t)n->size, e);
    if (rc == 0)
        rc = n->size <= CAS_SMALL_BYTES_MAX
                 ? tree_bytes(p, n, small, (size_t)n->size, &st, e)
                 : tree_file(p, n, cas_object_path(c, n->hash), TREE_SHARE, &st, e);
    cas_forget_paths(c);
    if (rc == 0)
        hash_cache_put(c->hashes, &st, n->hash, HASH_CACHE_OWN);
    return rc;
}

static int place_all(struct place *p, struct cas *c, const struct manifest *m, struct err *e) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->count; i++) {
        const struct manifest_entry *n = &m->entries[i];
        rc = n->kind == MANIFEST_FOLDER ? tree_folder(p, n, e)
             : n->kind == MANIFEST_LINK ? tree_link(p, n, e)
                                        : place_file(p, c, n, e);
    }
    for (size_t i = m->count; rc == 0 && i-- > 0;)
        if (m->entries[i].kind == MANIFEST_FOLDER)
            rc = tree_folder_mode(p, &m->entries[i], e);
    return rc;
}

int input_shares_place(const struct input_shares *s, struct cas *c, int rank, struct err *e) {
    struct arena a = {0};
    struct place p;
    struct manifest *m = manifest_of(s, rank, e);
    int rc = m ? tree_open(&p, folder_of(s, &a, rank), true, e) : -1;
    if (rc == 0) {
        if (m->count == 0) // an empty folder, too
            rc = file_make_dirs(p.dest, 0755, e);
        else if (place_all(&p, c, m, e) < 0 || tree_switch(&p, e) < 0)
            rc = -1;
        tree_close(&p);
    }
    if (m)
        manifest_free(m);
    arena_fini(&a);
    return rc < 0 ? err_wrap(e, "input '%s'", s->input->name) : 0;
}

int input_shares_write_list(const struct input_shares *s, const char *run_dir, int rank,
                            struct err *e) {
    const struct deal_share *share = &s->dealt[rank];
    struct arena a = {0};
    struct strbuf text = {0};
    for (size_t i = 0; i < share->count; i++) {
        const struct manifest_entry *n = entry_of(s, share->items[i]);
        char hex[HASH_HEX_BYTES];
        struct json_out j;
        if (n->kind != MANIFEST_FILE)
            continue;
        hash_hex(hex, n->hash);
        json_open(&j, &text);
        json_object(&j, NULL);
        json_str(&j, "path", n->path);
        json_int(&j, "size", (int64_t)n->size);
        json_str(&j, "sha256", hex);
        json_int(&j, "index", (int64_t)share->items[i]);
        json_end(&j);
        strbuf_addc(&text, '\n');
    }
    const char *path = job_share_list(&a, run_dir, s->input->name, s->nodes, rank);
    int rc = file_make_dirs(file_dir(&a, path), 0755, e);
    if (rc == 0)
        rc = file_write_atomic(path, text.data, text.len, 0644, e);
    strbuf_fini(&text);
    arena_fini(&a);
    return rc;
}
