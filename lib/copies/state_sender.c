// SPDX-License-Identifier: Apache-2.0
// The side of a transfer that has the generation.
#include "copies/state_transfer.h"

#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int state_sender_open(struct state_sender *s, const char *folder, int64_t number, struct err *e) {
    *s = (struct state_sender){.number = number, .fd = -1, .open = STATE_TRANSFER_LIST};
    s->state = generation_path(&s->arena, folder, number);
    if (generation_list(&s->arena, folder, number, &s->list, &s->list_len, e) == 0 &&
        generation_decode(s->list, s->list_len, &s->manifest, e) == 0)
        return 0;
    state_sender_close(s);
    return -1;
}

void state_sender_close(struct state_sender *s) {
    if (s->manifest && s->fd >= 0)
        close(s->fd);
    manifest_free(s->manifest);
    s->manifest = NULL;
    arena_fini(&s->arena);
}

void state_sender_offer(const struct state_sender *s, struct channel *l, const char *owner) {
    struct wire_msg m = {.type = WIRE_STATE_OFFER,
                         .name = owner,
                         .number = s->number,
                         .bytes = (int64_t)s->list_len};
    channel_send(l, &m);
}

static int open_file(struct state_sender *s, int64_t file, struct err *e) {
    struct arena a = {0};
    const char *path = file_join(&a, s->state, s->manifest->entries[file].path);
    if (s->fd >= 0)
        close(s->fd);
    s->open = file;
    s->fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int rc = s->fd < 0 ? err_errno(e, ERR_SYS, "cannot read '%s'", path) : 0;
    arena_fini(&a);
    return rc;
}

int state_sender_get(struct state_sender *s, struct channel *l, const struct wire_msg *m,
                     struct err *e) {
    char piece[STATE_TRANSFER_PIECE_BYTES];
    struct wire_msg r = {.type = WIRE_STATE_DATA,
                         .file = m->file,
                         .offset = m->offset,
                         .data = piece,
                         .data_len = m->bytes};
    bool list = m->file == STATE_TRANSFER_LIST;
    if (!s->manifest || m->file < STATE_TRANSFER_LIST || m->file >= (int64_t)s->manifest->count)
        return err_set(e, ERR_FORMAT, "a file is asked for that the generation lacks");
    const struct manifest_entry *n = list ? NULL : &s->manifest->entries[m->file];
    int64_t size = list ? (int64_t)s->list_len : (int64_t)n->size;
    if (!transfer_window_is_request(m, (uint64_t)size) || (n && n->kind != MANIFEST_FILE))
        return err_set(e, ERR_FORMAT, "bytes are asked for that the generation lacks");
    if (list) {
        r.data = s->list + m->offset;
    } else {
        if ((s->open != m->file || s->fd < 0) && open_file(s, m->file, e) < 0)
            return -1;
        ssize_t got = pread(s->fd, piece, (size_t)m->bytes, m->offset);
        if (got < 0)
            return err_errno(e, ERR_SYS, "cannot read '%s'", n->path);
        if (got != m->bytes)
            return err_set(e, ERR_HASH, "'%s' is shorter than it was", n->path);
        s->sent += (uint64_t)got;
    }
    channel_send(l, &r);
    return 0;
}
