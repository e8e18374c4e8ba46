// SPDX-License-Identifier: Apache-2.0
// The side of a transfer that has the generation.
#include "copies/transfer.h"

#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int giver_open(struct giver *g, const char *folder, int64_t number, struct err *e) {
    *g = (struct giver){.number = number, .fd = -1, .open = TRANSFER_LIST};
    g->state = generation_path(&g->arena, folder, number);
    if (generation_list(&g->arena, folder, number, &g->list, &g->list_len, e) == 0 &&
        generation_decode(g->list, g->list_len, &g->manifest, e) == 0)
        return 0;
    giver_close(g);
    return -1;
}

void giver_close(struct giver *g) {
    if (g->manifest && g->fd >= 0)
        close(g->fd);
    manifest_free(g->manifest);
    g->manifest = NULL;
    arena_fini(&g->arena);
}

void giver_offer(const struct giver *g, struct channel *l, const char *owner) {
    struct wire_msg m = {.type = WIRE_STATE_OFFER,
                         .name = owner,
                         .number = g->number,
                         .bytes = (int64_t)g->list_len};
    channel_send(l, &m);
}

static int open_file(struct giver *g, int64_t file, struct err *e) {
    struct arena a = {0};
    const char *path = file_join(&a, g->state, g->manifest->entries[file].path);
    if (g->fd >= 0)
        close(g->fd);
    g->open = file;
    g->fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int rc = g->fd < 0 ? err_errno(e, ERR_SYS, "cannot read '%s'", path) : 0;
    arena_fini(&a);
    return rc;
}

int giver_get(struct giver *g, struct channel *l, const struct wire_msg *m, struct err *e) {
    char piece[TRANSFER_PIECE_BYTES];
    struct wire_msg r = {.type = WIRE_STATE_DATA,
                         .file = m->file,
                         .offset = m->offset,
                         .data = piece,
                         .data_len = m->bytes};
    bool list = m->file == TRANSFER_LIST;
    if (!g->manifest || m->file < TRANSFER_LIST || m->file >= (int64_t)g->manifest->count)
        return err_set(e, ERR_FORMAT, "a file is asked for that the generation lacks");
    const struct manifest_entry *n = list ? NULL : &g->manifest->entries[m->file];
    int64_t size = list ? (int64_t)g->list_len : (int64_t)n->size;
    if (!pieces_asked_rightly(m, (uint64_t)size) || (n && n->kind != MANIFEST_FILE))
        return err_set(e, ERR_FORMAT, "bytes are asked for that the generation lacks");
    if (list) {
        r.data = g->list + m->offset;
    } else {
        if ((g->open != m->file || g->fd < 0) && open_file(g, m->file, e) < 0)
            return -1;
        ssize_t got = pread(g->fd, piece, (size_t)m->bytes, m->offset);
        if (got < 0)
            return err_errno(e, ERR_SYS, "cannot read '%s'", n->path);
        if (got != m->bytes)
            return err_set(e, ERR_HASH, "'%s' is shorter than it was", n->path);
        g->given += (uint64_t)got;
    }
    channel_send(l, &r);
    return 0;
}
