// SPDX-License-Identifier: Apache-2.0
// The second phase of receiving: compares the list with the destination and the store, and requests
// the rest.
#include "xfer/xfer_receiver.h"

#include "base/log.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/statfs.h>

// Compares a file of equal size. 1: same content, 0: other content, 2: unknown yet (call again).
static int same_content(struct receive *r, const struct manifest_entry *n, const struct stat *st,
                        struct err *e) {
    unsigned char real[HASH_BYTES];
    struct err ignored;
    (void)e;
    if (!r->old_open) {
        if (hash_cache_get(r->cas.hashes, st, real))
            return memcmp(real, n->hash, HASH_BYTES) == 0;
        if (r->most == 0)
            return 2;
        int fd = tree_open_existing(&r->place, n->path);
        if (fd < 0)
            return 0;
        r->old = (struct cas_part){.size = n->size, .fd = fd, .map_fd = -1};
        hash_init(&r->old.running);
        r->old_open = true;
    }
    int64_t now_ns = hash_cache_now_ns();
    int rc = xfer_receive_hash(r, &r->old, &ignored);
    if (rc == 0)
        return 2;
    if (rc > 0) {
        hash_final(&r->old.running, real);
        hash_cache_put(r->cas.hashes, st, real, now_ns);
        rc = memcmp(real, n->hash, HASH_BYTES) == 0;
    }
    cas_part_close(&r->old);
    r->old_open = false;
    return rc > 0;
}

// Checks the store for the content: 1 present, 0 absent, 2 unknown yet (call again), -1 error.
static int is_stored(struct receive *r, const struct manifest_entry *n, struct err *e) {
    if (n->size == 0)
        return 1;
    if (!r->config.keep || (xfer_receive_is_small(n) && cas_load(&r->cas, e) < 0))
        return r->config.keep ? -1 : 0;
    if (xfer_receive_is_small(n))
        return cas_has_small(&r->cas, n->hash, n->size);
    enum cas_found found = cas_check_object(&r->cas, &r->check, n->hash, n->size, &r->most);
    return found == CAS_FOUND_LATER ? 2 : found == CAS_PRESENT;
}

// Takes the content from the donor, if it has it. Returns 0 when done, 1 to be called again.
static int ask_donor(struct receive *r, size_t i) {
    const struct manifest_entry *n = &r->m->entries[i];
    enum cas_donor_result rc = cas_donor_give(r->config.donor, &r->cas, n->hash, n->size, r->most);
    r->donor_works = rc == CAS_DONOR_AGAIN;
    r->states[i] = rc == CAS_DONOR_GIVEN ? ENTRY_STORED : ENTRY_NEEDED;
    xfer_receive_spend(r, n->size);
    return r->donor_works;
}

// Looks for the content here. Returns 0 when done, 1 to be called again, -1 on error.
static int compare_stored(struct receive *r, size_t i, struct err *e) {
    int rc = is_stored(r, &r->m->entries[i], e);
    if (rc == 0 && r->config.donor)
        return ask_donor(r, i);
    if (rc == 2)
        return 1;
    r->states[i] = rc > 0 ? ENTRY_STORED : ENTRY_NEEDED;
    return rc < 0 ? -1 : 0;
}

// Returns 0 when done, 1 to be called again, -1 on error.
static int compare_file(struct receive *r, size_t i, struct err *e) {
    const struct manifest_entry *n = &r->m->entries[i];
    struct stat st = {0};
    int rc = 0;
    if (r->donor_works)
        return ask_donor(r, i);
    if (r->check.open)
        return compare_stored(r, i, e);
    if (tree_stat(&r->place, n->path, &st) == 0 && S_ISREG(st.st_mode) &&
        (uint64_t)st.st_size == n->size)
        rc = same_content(r, n, &st, e);
    if (rc == 2)
        return 1;
    // A large file that shares its bytes with the store stays read-only and keeps its mode,
    // whatever the list says, since other files share it.
    bool shared = n->size >= PLACE_LINK_BYTES_MIN && st.st_nlink > 1;
    mode_t mode = shared ? n->mode & 0555 : n->mode;
    bool same_mode = (st.st_mode & 07777) == mode;
    if (rc == 1 && (same_mode || !shared)) {
        r->states[i] = same_mode ? ENTRY_SAME : ENTRY_MODE;
        return 0;
    }
    return compare_stored(r, i, e);
}

static void compare_other(struct receive *r, size_t i) {
    const struct manifest_entry *n = &r->m->entries[i];
    struct stat st;
    char target[MANIFEST_LINK_BYTES_MAX + 1];
    bool same = tree_stat(&r->place, n->path, &st) == 0;
    if (n->kind == MANIFEST_FOLDER) {
        same = same && S_ISDIR(st.st_mode) &&
               ((st.st_mode & 07777) == n->mode || (st.st_mode & 07777) == (n->mode | 0700));
    } else if (same) {
        ssize_t len = tree_read_link(&r->place, n->path, target, sizeof target);
        same = len >= 0 && (size_t)len == strlen(n->target) &&
               memcmp(target, n->target, (size_t)len) == 0;
    }
    // Readers of the results follow links, so a node must not choose a target outside.
    bool stray =
        n->kind == MANIFEST_LINK && !r->config.keep && !manifest_link_stays(n->path, n->target);
    if (stray && r->strays++ == 0)
        r->stray_first = i;
    r->states[i] = same || stray ? ENTRY_SAME : ENTRY_NEW;
}

// Requests a file; the first of several files with the same content stands for all.
static void ask_for(struct receive *r, size_t i) {
    const struct manifest_entry *n = &r->m->entries[i];
    struct xfer_need need = {.index = (uint32_t)i};
    for (uint32_t k = xfer_receive_find(r, n->hash); k && k - 1 < i; k = r->same[k - 1])
        if (r->states[k - 1] == ENTRY_NEEDED)
            return;
    r->need_files++;
    r->need_bytes += n->size;
    if (!xfer_receive_is_small(n)) {
        uint32_t have;
        struct arena a = {0};
        need.units = (uint32_t)cas_unit_count(n->size);
        need.have = cas_part_have(&r->cas, &a, n->hash, n->size, &have);
        uint64_t bytes = (uint64_t)have * CAS_UNIT_BYTES;
        r->need_bytes -= bytes < n->size ? bytes : n->size;
        xfer_put_need(&r->needs, &need);
        arena_fini(&a);
        return;
    }
    xfer_put_need(&r->needs, &need);
}

static void flush_needs(struct receive *r, struct strbuf *out, bool all) {
    if (r->needs.len && (all || r->needs.len > XFER_BATCH_BYTES)) {
        xfer_wire_frame(out, XFER_NEED, r->needs.data, r->needs.len);
        strbuf_clear(&r->needs);
    }
    if (all)
        xfer_wire_frame(out, XFER_NEED_END, NULL, 0);
}

// True for file systems that cannot share the bytes of two files.
static bool copies(const char *path) {
    struct statfs s;
    return statfs(path, &s) == 0 && (s.f_type == EXT4_SUPER_MAGIC || s.f_type == TMPFS_MAGIC);
}

// The nearest existing parent folder of path.
static const char *present(struct arena *a, const char *path, struct stat *st) {
    while (stat(path, st) < 0 && strcmp(path, "/") != 0 && strcmp(path, ".") != 0)
        path = file_dir(a, path);
    return path;
}

static int check_free(struct receive *r, const char *path, uint64_t need, struct err *e) {
    char needed[STR_HUMAN_BYTES_MAX], there[STR_HUMAN_BYTES_MAX];
    uint64_t bytes;
    if (file_disk_free(path, &bytes, e) < 0)
        return -1;
    return need <= bytes ? 0
                         : err_set(e, ERR_LIMIT,
                                   "'%s' needs %s more, and its disk has %s free (try: dtctl gc)",
                                   r->place.dest, str_human_bytes(needed, need),
                                   str_human_bytes(there, bytes));
}

// Checks the free space. Counts only certain needs: content to receive, and copies of it outside
// the store.
static int check_space(struct receive *r, struct err *e) {
    struct arena a = {0};
    struct stat dest_st = {0}, store_st = {0};
    const char *store = present(&a, r->config.store, &store_st);
    const char *dest = present(&a, r->place.dest, &dest_st);
    uint64_t placed = 0,
             copied_max = copies(dest) ? PLACE_LINK_BYTES_MIN - 1 : XFER_SMALL_BYTES_MAX;
    bool apart = dest_st.st_dev != store_st.st_dev;
    for (size_t i = 0; r->config.keep && i < r->m->count; i++)
        if ((r->states[i] == ENTRY_NEEDED || r->states[i] == ENTRY_STORED) &&
            (apart || r->m->entries[i].size <= copied_max))
            placed += r->m->entries[i].size;
    int rc = check_free(r, store, r->need_bytes + (apart ? 0 : placed), e);
    if (rc == 0 && apart)
        rc = check_free(r, dest, placed, e);
    arena_fini(&a);
    return rc;
}

int xfer_receive_compare(struct receive *r, struct strbuf *out, struct err *e) {
    for (int n = 0; n < RECEIVE_STEP_ENTRIES && r->cursor < r->m->count; n++) {
        size_t i = r->cursor;
        int rc = 0;
        if (r->m->entries[i].kind != MANIFEST_FILE) {
            compare_other(r, i);
        } else if ((rc = compare_file(r, i, e)) != 0) {
            return rc; // a large file: the next step continues with it
        } else if (r->states[i] == ENTRY_NEEDED) {
            ask_for(r, i);
        }
        r->changes |= r->states[i] != ENTRY_SAME;
        r->cursor++;
        flush_needs(r, out, false);
    }
    if (r->cursor < r->m->count)
        return 1;
    if (!r->config.gives && check_space(r, e) < 0)
        return -1;
    flush_needs(r, out, true);
    // Without files to receive, skip one round trip.
    r->phase = r->need_files || r->config.peers ? RECEIVE_CONTENT : RECEIVE_FINISH;
    r->cursor = 0;
    log_debug("compared", "entries=%zu needed=%zu bytes=%llu", r->m->count, r->need_files,
              (unsigned long long)r->need_bytes);
    return r->phase == RECEIVE_FINISH;
}

// ---- after a relay ----------------------------------------------------------------------------

// True when all units of a large file have arrived.
static bool has_all_units(struct receive *r, const struct manifest_entry *n) {
    struct arena a = {0};
    uint32_t have = 0;
    (void)cas_part_have(&r->cas, &a, n->hash, n->size, &have);
    arena_fini(&a);
    return have == cas_unit_count(n->size);
}

int xfer_receive_again(struct receive *r, struct strbuf *out, struct err *e) {
    if (r->phase != RECEIVE_CONTENT || !r->config.dest)
        return err_set(e, ERR_FORMAT, "transfer: the end of a relay out of turn");
    if (cas_flush(&r->cas, e) < 0 || cas_reload(&r->cas, e) < 0)
        return -1;
    xfer_receive_acknowledge(r, out, true);
    r->need_files = 0;
    r->need_bytes = 0;
    for (size_t i = 0; i < r->m->count; i++) {
        const struct manifest_entry *n = &r->m->entries[i];
        if (n->kind != MANIFEST_FILE || r->states[i] != ENTRY_NEEDED)
            continue;
        bool whole = !xfer_receive_is_small(n) && has_all_units(r, n);
        if (whole && r->config.peers && xfer_receive_verify(r, i, e) < 0)
            return -1;
        if (whole && (!r->config.peers || r->states[i] != ENTRY_NEEDED))
            continue;
        ask_for(r, i);
        flush_needs(r, out, false);
    }
    flush_needs(r, out, true);
    if (r->need_files && r->part_open) { // the next piece may belong to another file
        cas_part_close(&r->part);
        r->part_open = false;
    }
    r->phase = r->need_files || r->config.peers ? RECEIVE_CONTENT : RECEIVE_FINISH;
    r->cursor = 0;
    return 0;
}
