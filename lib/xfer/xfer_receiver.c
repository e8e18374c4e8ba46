// SPDX-License-Identifier: Apache-2.0
// The receiving end of a transfer: takes the list and the content, and writes it.
#include "xfer/xfer_receiver.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

int xfer_receive_open(struct receive *r, const struct receive_config *config, struct err *e) {
    memset(r, 0, sizeof *r);
    r->config = *config;
    r->place = PLACE_CLOSED;
    r->m = manifest_new();
    if ((config->keep ? cas_open(&r->cas, config->store, e)
                      : cas_open_parts(&r->cas, config->store, config->hashes, e)) < 0)
        return -1;
    if (!config->dest) {
        r->phase = RECEIVE_CONTENT;
        return 0;
    }
    return tree_open(&r->place, config->dest, config->replace, e);
}

int xfer_receive_save(struct receive *r, struct err *e) {
    return r->config.keep ? hash_cache_save(r->cas.hashes, e) : 0;
}

void xfer_receive_close(struct receive *r) {
    struct err e;
    if (r->part_open)
        cas_part_close(&r->part);
    if (r->old_open)
        cas_part_close(&r->old);
    cas_check_close(&r->check);
    tree_copy_close(&r->place, &r->copy);
    tree_close(&r->place);
    if (r->cas.dir && xfer_receive_save(r, &e) < 0)
        log_warn("cannot keep the cache of hashes", "error=\"%s\"", e.text);
    if (cas_close(&r->cas, !r->config.keep, &e) < 0)
        log_warn("cannot keep what has arrived", "error=\"%s\"", e.text);
    free(r->states);
    free(r->same);
    free(r->index);
    strbuf_fini(&r->needs);
    manifest_free(r->m);
    arena_fini(&r->arena);
    memset(r, 0, sizeof *r);
}

void xfer_receive_bad(struct receive *r, size_t entry, const struct err *why) {
    if (r->states[entry] == ENTRY_BAD)
        return;
    r->states[entry] = ENTRY_BAD;
    if (r->bad++ == 0) {
        r->bad_first = *why;
        (void)err_wrap(&r->bad_first, "'%s'", r->m->entries[entry].path);
    }
}

// ---- the list ---------------------------------------------------------------------------------

static size_t index_slot(const struct receive *r, const unsigned char *hash) {
    size_t i = (size_t)bytes_load(hash + 8, 8) & (r->index_room - 1);
    while (r->index[i] && memcmp(r->m->entries[r->index[i] - 1].hash, hash, HASH_BYTES) != 0)
        i = (i + 1) & (r->index_room - 1);
    return i;
}

uint32_t xfer_receive_find(const struct receive *r, const unsigned char hash[HASH_BYTES]) {
    return r->index_room ? r->index[index_slot(r, hash)] : 0;
}

static int build_index(struct receive *r, struct err *e) {
    r->states = heap_alloc(r->m->count + 1);
    r->same = heap_alloc((r->m->count + 1) * sizeof *r->same);
    r->index_room = 16;
    while (r->index_room < 2 * r->m->files)
        r->index_room *= 2;
    r->index = heap_alloc(r->index_room * sizeof *r->index);
    for (size_t i = r->m->count; i-- > 0;) { // backwards, so that chains are in ascending order
        const struct manifest_entry *n = &r->m->entries[i];
        if (n->kind != MANIFEST_FILE)
            continue;
        uint32_t *slot = &r->index[index_slot(r, n->hash)];
        if (*slot && r->m->entries[*slot - 1].size != n->size)
            return err_set(e, ERR_FORMAT, "transfer: one hash with two sizes in the list");
        r->same[i] = *slot;
        *slot = (uint32_t)i + 1;
    }
    return 0;
}

static int end_list(struct receive *r, const struct xfer_frame *f, struct err *e) {
    struct bytes_reader b = bytes_reader(f->data, f->len);
    uint64_t count = bytes_u64(&b);
    if (b.bad || count != r->m->count)
        return err_set(e, ERR_FORMAT, "transfer: the list of files is incomplete");
    r->m->sorted = false;
    if (manifest_sort(r->m, e) < 0)
        return -1;
    if (r->m->count != count)
        return err_set(e, ERR_FORMAT, "transfer: the list of files names one twice");
    r->phase = RECEIVE_COMPARE;
    return build_index(r, e);
}

// ---- content ----------------------------------------------------------------------------------

// False for content that is here already: a relay carries what any of its nodes lacks.
static bool is_needed(const struct receive *r, uint32_t first) {
    for (uint32_t i = first; i; i = r->same[i - 1])
        if (r->states[i - 1] == ENTRY_NEEDED)
            return true;
    return false;
}

static int place_small(struct receive *r, uint32_t first, const void *data, size_t len,
                       struct err *e) {
    for (uint32_t i = first; i; i = r->same[i - 1]) {
        struct stat st;
        if (r->states[i - 1] != ENTRY_NEEDED && r->states[i - 1] != ENTRY_STORED)
            continue;
        if (tree_bytes(&r->place, &r->m->entries[i - 1], data, len, &st, e) < 0)
            return -1;
        hash_cache_put(r->cas.hashes, &st, r->m->entries[i - 1].hash, HASH_CACHE_OWN);
        r->states[i - 1] = ENTRY_PLACED;
        r->placed++;
    }
    return 0;
}

static int take_small(struct receive *r, const unsigned char *hash, const void *data, size_t len,
                      struct err *e) {
    unsigned char real[HASH_BYTES];
    uint32_t first = xfer_receive_find(r, hash);
    if (r->config.dest && (!first || r->m->entries[first - 1].size != len))
        return err_set(e, ERR_FORMAT, "transfer: content that was not requested");
    r->got_bytes += len;
    if (r->config.dest && !is_needed(r, first))
        return 0;
    hash_of(real, data, len);
    if (memcmp(real, hash, HASH_BYTES) != 0) {
        struct err why;
        if (r->config.peers)
            return 0; // it stays needed
        (void)err_set(&why, ERR_HASH, "it changed while it was sent");
        for (uint32_t i = first; i; i = r->same[i - 1])
            if (r->states[i - 1] == ENTRY_NEEDED)
                xfer_receive_bad(r, i - 1, &why);
        return 0;
    }
    r->got_files++;
    if (cas_add_small(&r->cas, hash, data, len, e) < 0)
        return -1;
    return r->config.dest ? place_small(r, first, data, len, e) : 0;
}

static int take_batch(struct receive *r, const struct xfer_frame *f, struct err *e) {
    struct bytes_reader b = bytes_reader(f->data, f->len);
    while (bytes_left(&b)) {
        const unsigned char *hash = bytes_get(&b, HASH_BYTES);
        size_t len = bytes_u32(&b);
        const void *data = bytes_get(&b, len);
        if (!data || len > XFER_SMALL_BYTES_MAX)
            return err_set(e, ERR_FORMAT, "transfer: a malformed batch of files");
        if (take_small(r, hash, data, len, e) < 0)
            return -1;
    }
    return 0;
}

static int take_chunk(struct receive *r, const struct xfer_frame *f, struct err *e) {
    struct bytes_reader b = bytes_reader(f->data, f->len);
    const unsigned char *hash = bytes_get(&b, HASH_BYTES);
    uint64_t size = bytes_u64(&b), offset = bytes_u64(&b);
    size_t len = bytes_left(&b);
    uint32_t first = b.bad ? 0 : xfer_receive_find(r, hash);
    if (b.bad || len == 0 || size <= XFER_SMALL_BYTES_MAX || size > MANIFEST_FILE_BYTES_MAX ||
        (r->config.dest && (!first || r->m->entries[first - 1].size != size)))
        return err_set(e, ERR_FORMAT, "transfer: a malformed piece of a file");
    r->got_bytes += len;
    if (r->config.dest && !is_needed(r, first))
        return 0;
    if (r->part_open && memcmp(r->part.hash, hash, HASH_BYTES) != 0) {
        cas_part_close(&r->part);
        r->part_open = false;
    }
    if (!r->part_open && cas_part_open(&r->cas, &r->part, hash, size, e) < 0)
        return -1;
    r->part_open = true;
    if (cas_part_write(&r->part, offset, b.p, len, e) < 0)
        return first ? err_wrap(e, "'%s'", r->m->entries[first - 1].path) : -1;
    bool whole = r->config.dest && r->part.hashed == size;
    return whole && xfer_receive_place(r, first - 1, e) < 0 ? -1 : 0;
}

static int take_bad(struct receive *r, const struct xfer_frame *f, struct err *e) {
    struct bytes_reader b = bytes_reader(f->data, f->len);
    uint32_t entry = bytes_u32(&b);
    const char *text = xfer_get_str(&b, &r->arena, ERR_TEXT_BYTES_MAX);
    struct err why;
    if (!text || !r->config.dest || entry >= r->m->count)
        return err_set(e, ERR_FORMAT, "transfer: a malformed report of a bad file");
    (void)err_set(&why, ERR_FAILED, "%s", str_printable(&r->arena, text, strlen(text)));
    for (uint32_t i = xfer_receive_find(r, r->m->entries[entry].hash); i; i = r->same[i - 1])
        if (r->states[i - 1] == ENTRY_NEEDED)
            xfer_receive_bad(r, i - 1, &why);
    return 0;
}

void xfer_receive_result(struct receive *r, uint64_t files, struct strbuf *out) {
    unsigned char counts[16];
    bytes_store(counts, files, 8);
    bytes_store(counts + 8, r->got_bytes, 8);
    xfer_wire_frame(out, XFER_RESULT, counts, sizeof counts);
    r->phase = RECEIVE_FINISHED;
}

static int take_done(struct receive *r, struct strbuf *out, struct err *e) {
    if (cas_flush(&r->cas, e) < 0)
        return -1;
    if (r->config.peers && (r->need_files || r->config.gives)) {
        if (xfer_receive_save(r, e) < 0)
            return -1;
        xfer_receive_result(r, r->placed, out);
        return 0;
    }
    if (r->config.dest) {
        r->phase = RECEIVE_FINISH;
        r->cursor = 0;
        return r->config.keep ? cas_reload(&r->cas, e) : 0;
    }
    xfer_receive_result(r, r->got_files, out);
    return 0;
}

void xfer_receive_acknowledge(struct receive *r, struct strbuf *out, bool now) {
    if (!r->config.acks)
        return;
    int64_t now_ms = clock_mono_ms();
    bool due = r->got_bytes - r->acked_bytes >= XFER_ACK_BYTES ||
               (r->got_bytes > r->acked_bytes && now_ms - r->acked_ms >= RECEIVE_PROGRESS_MS);
    if (!now && !due)
        return;
    unsigned char count[8];
    bytes_store(count, r->got_bytes, 8);
    xfer_wire_frame(out, XFER_ACK, count, sizeof count);
    r->acked_bytes = r->got_bytes;
    r->acked_ms = now_ms;
}

static bool is_full(const char *path) {
    enum { FULL_BYTES = 1 << 20 };
    uint64_t bytes;
    struct err ignored;
    return path && file_disk_free(path, &bytes, &ignored) == 0 && bytes < FULL_BYTES;
}

// Explains a failed write. The usual reason is a full disk.
static int explain(const struct receive *r, struct err *e) {
    const struct err why = *e;
    if (why.code == ERR_SYS && is_full(r->config.store))
        (void)err_set(e, ERR_LIMIT, "%s; the disk is full (try: dtctl gc)", why.text);
    else if (why.code == ERR_SYS && is_full(r->place.dest))
        (void)err_set(e, ERR_LIMIT, "%s; the disk of '%s' is full", why.text, r->place.dest);
    return -1;
}

int xfer_receive_frame(struct receive *r, const struct xfer_frame *f, struct strbuf *out,
                       struct err *e) {
    int rc;
    if (r->phase == RECEIVE_LIST && f->type == XFER_ENTRIES)
        return xfer_get_entries(f, r->m, e);
    if (r->phase == RECEIVE_LIST && f->type == XFER_ENTRIES_END)
        return end_list(r, f, e);
    if (r->phase != RECEIVE_CONTENT)
        return xfer_wire_unexpected(f, e);
    switch (f->type) {
    case XFER_BATCH: rc = take_batch(r, f, e); break;
    case XFER_CHUNK: rc = take_chunk(r, f, e); break;
    case XFER_BAD: rc = take_bad(r, f, e); break;
    case XFER_DONE: rc = take_done(r, out, e); break;
    case XFER_RELAY_END: rc = xfer_receive_again(r, out, e); break;
    default: rc = xfer_wire_unexpected(f, e); break;
    }
    if (rc == 0)
        xfer_receive_acknowledge(r, out, false);
    return rc < 0 ? explain(r, e) : 0;
}

// Places one file that was in the store already, so that a frame is not held up for long.
static int place_stored(struct receive *r, struct err *e) {
    for (int n = 0; n < RECEIVE_STEP_ENTRIES && r->cursor < r->m->count; n++) {
        size_t i = r->cursor++;
        if (r->m->entries[i].kind != MANIFEST_FILE || r->states[i] != ENTRY_STORED)
            continue;
        return xfer_receive_place(r, i, e) < 0 ? explain(r, e) : 0;
    }
    return 0;
}

int xfer_receive_hash(struct receive *r, struct cas_part *p, struct err *e) {
    uint64_t before = p->hashed;
    int rc = cas_part_hash(p, r->most, e);
    xfer_receive_spend(r, p->hashed - before);
    return rc;
}

int xfer_receive_step(struct receive *r, struct strbuf *out, struct err *e) {
    r->most = RECEIVE_STEP_BYTES;
    if (r->phase == RECEIVE_COMPARE)
        return xfer_receive_compare(r, out, e);
    if (r->phase == RECEIVE_CONTENT)
        return r->config.gives ? 0 : place_stored(r, e);
    if (r->phase == RECEIVE_FINISH || r->phase == RECEIVE_MODES) {
        int64_t now_ms = clock_mono_ms();
        if (r->config.acks && now_ms - r->progress_ms >= RECEIVE_PROGRESS_MS) {
            r->progress_ms = now_ms;
            unsigned char counts[16];
            bytes_store(counts, r->placed, 8);
            bytes_store(counts + 8, r->m->count, 8);
            xfer_wire_frame(out, XFER_PROGRESS, counts, sizeof counts);
        }
        int rc = xfer_receive_finish(r, out, e);
        return rc < 0 ? explain(r, e) : rc;
    }
    return 0;
}
