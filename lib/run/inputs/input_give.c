// SPDX-License-Identifier: Apache-2.0
// Shares whose content is in results on other nodes.
#include "run/inputs/input_give.h"

#include "xfer/fanout.h"

#include <string.h>

// Files that shares lack, under paths that no two of them have, since none is put into place.
static int list_lacks(struct arena *a, const struct fleet *f, struct manifest *const *all,
                      const struct xfer_peers *peers, struct manifest *to, struct err *e) {
    for (size_t n = 0; n < f->count; n++)
        for (size_t i = 0; all[n] && !f->nodes[n].failed && i < all[n]->count; i++) {
            struct manifest_entry copy = all[n]->entries[i];
            if (!peers[n].lacks[i])
                continue;
            copy.path = arena_printf(a, "%zu/%zu", n, i);
            if (manifest_append(to, &copy, e) < 0)
                return -1;
        }
    return manifest_sort(to, e);
}

static struct xfer_peers *make_givers(struct arena *a, const struct fleet *f,
                                      const struct manifest *m) {
    struct xfer_peers *peers = arena_new(a, struct xfer_peers, f->count + 1);
    for (size_t n = 0; n < f->count; n++)
        peers[n] = (struct xfer_peers){.lacks = arena_new(a, bool, m->count), .gives = true};
    return peers;
}

static bool has_any(const struct fleet *f, const struct xfer_peers *peers, size_t entry) {
    for (size_t n = 0; n < f->count; n++)
        if (!f->nodes[n].failed && !peers[n].lacks[entry])
            return true;
    return false;
}

// The bytes that each node lacks and another one has.
static void count_given(struct arena *a, const struct fleet *f, const struct manifest *lacked,
                        const struct xfer_peers *givers, uint64_t *bytes) {
    for (size_t n = 0; n < f->count; n++) {
        const char *below = arena_printf(a, "%zu/", n);
        for (size_t i = 0; i < lacked->count; i++)
            if (str_starts(lacked->entries[i].path, below) && has_any(f, givers, i))
                bytes[n] += lacked->entries[i].size;
    }
}

// The stores of all nodes take from their results what any share lacks. bytes: as above.
static int look(struct run_start *l, struct fleet *f, struct manifest *lacked, uint64_t *bytes,
                struct err *e) {
    struct arena a = {0};
    struct manifest **same = arena_new(&a, struct manifest *, f->count + 1);
    struct xfer_peers *givers = make_givers(&a, f, lacked);
    for (size_t n = 0; n < f->count; n++)
        same[n] = lacked;
    int rc = fleet_find_manifests(f, "look", same, "", l->results, givers, &l->sent, e);
    if (rc == 0)
        count_given(&a, f, lacked, givers, bytes);
    arena_fini(&a);
    return rc;
}

static int give(struct run_start *l, struct fleet *f, size_t to, struct manifest *m,
                struct xfer_peers *peers, struct err *e) {
    struct arena a = {0};
    struct xfer_peers *givers = make_givers(&a, f, m);
    givers[to].gives = false;
    int rc = fleet_share_manifest(f, "give", m, "", givers, &l->sent, e);
    if (!f->nodes[to].failed)
        memcpy(peers[to].lacks, givers[to].lacks, m->count * sizeof *givers[to].lacks);
    arena_fini(&a);
    return rc;
}

int input_give_shares(struct run_start *l, struct fleet *f, struct manifest *const *all,
                      struct xfer_peers *peers, struct err *e) {
    struct arena a = {0};
    struct manifest *lacked = manifest_new();
    uint64_t *bytes = arena_new(&a, uint64_t, f->count);
    int rc = 0;
    if (l->results && fleet_can_share(f))
        rc = list_lacks(&a, f, all, peers, lacked, e);
    if (rc == 0 && lacked->bytes >= FANOUT_SAVED_BYTES_MIN)
        rc = look(l, f, lacked, bytes, e);
    for (size_t n = 0; rc == 0 && n < f->count; n++)
        if (bytes[n] >= FANOUT_SAVED_BYTES_MIN && !f->nodes[n].failed)
            rc = give(l, f, n, all[n], peers, e);
    manifest_free(lacked);
    arena_fini(&a);
    return rc;
}
