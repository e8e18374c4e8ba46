// SPDX-License-Identifier: Apache-2.0
// The last phase of receiving: verifies large files, places files, switches folders. Shorter files
// of a push are placed before it.
#include "xfer/xfer_receiver.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void placed(struct receive *r, size_t i, const struct stat *st) {
    hash_cache_put(r->cas.hashes, st, r->m->entries[i].hash, HASH_CACHE_OWN);
    r->states[i] = ENTRY_PLACED;
    r->placed++;
}

static int finish_small(struct receive *r, size_t i, struct err *e) {
    static unsigned char buf[XFER_SMALL_BYTES_MAX];
    const struct manifest_entry *n = &r->m->entries[i];
    struct stat st;
    if (n->size && !cas_has_small(&r->cas, n->hash, n->size)) {
        struct err why;
        (void)err_set(&why, ERR_NOT_FOUND, "it did not arrive");
        xfer_receive_bad(r, i, &why);
        return 0;
    }
    if ((n->size && cas_read_small(&r->cas, n->hash, buf, n->size, e) < 0) ||
        tree_bytes(&r->place, n, buf, n->size, &st, e) < 0)
        return -1;
    placed(r, i, &st);
    return 0;
}

// True when a later file with the same content still needs the part.
static bool wanted_later(const struct receive *r, size_t i) {
    for (uint32_t k = r->same[i]; k; k = r->same[k - 1])
        if (r->states[k - 1] == ENTRY_NEEDED)
            return true;
    return false;
}

// Verifies the content of entry i. 1: *path is set, 0: continue in the next step, -1: error.
static int verified(struct receive *r, size_t i, const char **path, struct err *e) {
    const struct manifest_entry *n = &r->m->entries[i];
    if (r->config.keep && r->states[i] == ENTRY_STORED) {
        *path = cas_object_path(&r->cas, n->hash);
        return 1;
    }
    if (r->part_open && memcmp(r->part.hash, n->hash, HASH_BYTES) != 0) {
        cas_part_close(&r->part);
        r->part_open = false;
    }
    if (!r->part_open && cas_part_open(&r->cas, &r->part, n->hash, n->size, e) < 0)
        return -1;
    r->part_open = true;
    if (!r->verifying && !cas_part_complete(&r->part))
        return cas_part_elsewhere(&r->cas, &r->part, path)
                   ? 1
                   : err_set(e, ERR_NOT_FOUND, "it did not arrive in full");
    r->verifying = true;
    int rc = xfer_receive_hash(r, &r->part, e);
    if (rc == 0)
        return 0;
    r->verifying = false;
    if (rc > 0)
        rc = cas_part_finish(&r->cas, &r->part, path, e) < 0 ? -1 : 1;
    cas_part_close(&r->part);
    r->part_open = false;
    return rc;
}

int xfer_receive_verify(struct receive *r, size_t i, struct err *e) {
    const char *path = NULL;
    int rc;
    do
        r->most = RECEIVE_STEP_BYTES;
    while ((rc = verified(r, i, &path, e)) == 0);
    if (rc < 0) {
        bool damaged = e->code == ERR_HASH || e->code == ERR_NOT_FOUND;
        return damaged ? 0 : err_wrap(e, "'%s'", r->m->entries[i].path);
    }
    for (uint32_t k = xfer_receive_find(r, r->m->entries[i].hash); k; k = r->same[k - 1])
        if (r->states[k - 1] == ENTRY_NEEDED)
            r->states[k - 1] = ENTRY_STORED;
    return 0;
}

// Places all files of entry i's content. A fetched file is one of its own, since its user may write
// to it. 1: done, 0: continue in the next step.
static int place_large(struct receive *r, size_t i, struct err *e) {
    for (uint32_t k = (uint32_t)i + 1; k; k = r->same[k - 1]) {
        struct stat st;
        size_t at = k - 1;
        if (r->states[at] != ENTRY_NEEDED && r->states[at] != ENTRY_STORED)
            continue;
        enum tree_from how = r->config.keep        ? TREE_SHARE
                             : wanted_later(r, at) ? TREE_COPY
                                                   : TREE_TAKE;
        int rc = tree_file_step(&r->place, &r->copy, &r->m->entries[at], r->placing, how, &r->most,
                                &st, e);
        if (rc <= 0)
            return rc;
        placed(r, at, &st);
    }
    r->placing = NULL;
    return 1;
}

// Finishes all files with one content, so that the part is verified once. 0: continue in the next
// step.
static int finish_large(struct receive *r, size_t i, struct err *e) {
    struct err why;
    if (r->placing)
        return place_large(r, i, e);
    int rc = verified(r, i, &r->placing, &why);
    if (rc > 0)
        return place_large(r, i, e);
    r->placing = NULL;
    if (rc == 0)
        return 0;
    if (why.code != ERR_HASH && why.code != ERR_NOT_FOUND) {
        *e = why;
        return err_wrap(e, "'%s'", r->m->entries[i].path);
    }
    if (r->config.peers && r->phase == RECEIVE_CONTENT) // it stays needed
        return 1;
    for (uint32_t k = (uint32_t)i + 1; k; k = r->same[k - 1])
        if (r->states[k - 1] == ENTRY_NEEDED || r->states[k - 1] == ENTRY_STORED)
            xfer_receive_bad(r, k - 1, &why);
    return 1;
}

static int finish_same(struct receive *r, size_t i, struct err *e) {
    const struct manifest_entry *n = &r->m->entries[i];
    struct stat st;
    if (r->config.replace && tree_keep(&r->place, n, &st, e) < 0)
        return -1;
    if (r->states[i] == ENTRY_MODE && tree_mode(&r->place, n, &st, e) < 0)
        return -1;
    if (r->config.replace || r->states[i] == ENTRY_MODE)
        hash_cache_put(r->cas.hashes, &st, n->hash, HASH_CACHE_OWN);
    return 0;
}

// 1: finished, 0: continue in the next step.
static int finish_entry(struct receive *r, size_t i, struct err *e) {
    const struct manifest_entry *n = &r->m->entries[i];
    bool same = r->states[i] == ENTRY_SAME && !r->config.replace;
    if (n->kind == MANIFEST_FOLDER)
        return same ? 1 : tree_folder(&r->place, n, e) < 0 ? -1 : 1;
    if (n->kind == MANIFEST_LINK)
        return same ? 1 : tree_link(&r->place, n, e) < 0 ? -1 : 1;
    switch ((enum entry_state)r->states[i]) {
    case ENTRY_SAME:
    case ENTRY_MODE: return finish_same(r, i, e) < 0 ? -1 : 1;
    case ENTRY_STORED:
    case ENTRY_NEEDED:
        if (!xfer_receive_is_small(n))
            return finish_large(r, i, e);
        xfer_receive_spend(r, n->size);
        return finish_small(r, i, e) < 0 ? -1 : 1;
    default: return 1;
    }
}

int xfer_receive_place(struct receive *r, size_t i, struct err *e) {
    if (!r->config.keep || r->m->entries[i].size >= PLACE_LINK_BYTES_MIN)
        return 0;
    r->most = UINT64_MAX; // little: all at once
    return finish_entry(r, i, e);
}

// The sender discards its data after the result. All files must therefore survive a power failure,
// also those in the store, which may be on another disk.
static int write_disk(struct receive *r, const char *path, struct err *e) {
    struct stat placed, store;
    if (!r->config.keep || !r->place.ready)
        return 0;
    if (file_sync_disk(path, e) < 0)
        return -1;
    return stat(path, &placed) == 0 && stat(r->config.store, &store) == 0 &&
                   placed.st_dev != store.st_dev
               ? file_sync_disk(r->config.store, e)
               : 0;
}

static int end(struct receive *r, struct strbuf *out, struct err *e) {
    tree_unfinished_end(&r->place);
    if (r->bad) {
        *e = r->bad_first;
        return r->bad == 1 ? -1 : err_wrap(e, "%zu files are missing, the first one is", r->bad);
    }
    if ((r->changes || r->place.dest_fd < 0) &&
        (write_disk(r, r->place.staging, e) < 0 || tree_switch(&r->place, e) < 0))
        return -1;
    if (xfer_receive_save(r, e) <
        0) // the other side may close the connection right after the result
        return -1;
    xfer_receive_result(r, r->placed, out);
    return 0;
}

int xfer_receive_finish(struct receive *r, struct strbuf *out, struct err *e) {
    if (r->phase == RECEIVE_FINISH && r->cursor == 0 && !r->changes && r->config.replace &&
        r->place.dest_fd >= 0) {
        if (tree_names_equal(&r->place, r->m))
            return end(r, out, e);
        r->changes = true;
    }
    for (int n = 0; n < RECEIVE_STEP_ENTRIES && r->cursor < r->m->count && r->most; n++) {
        const struct manifest_entry *entry = &r->m->entries[r->cursor];
        int rc = 1;
        if (r->phase == RECEIVE_FINISH)
            rc = finish_entry(r, r->cursor, e);
        else if (entry->kind == MANIFEST_FOLDER &&
                 (r->config.replace || r->states[r->cursor] != ENTRY_SAME))
            rc = tree_folder_mode(&r->place, entry, e) < 0 ? -1 : 1;
        if (rc <= 0)
            return rc < 0 ? -1 : 1;
        r->cursor++;
    }
    if (r->cursor < r->m->count)
        return 1;
    if (r->phase == RECEIVE_FINISH) {
        r->phase = RECEIVE_MODES;
        r->cursor = 0;
        return 1;
    }
    return end(r, out, e);
}
