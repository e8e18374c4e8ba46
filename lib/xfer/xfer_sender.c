// SPDX-License-Identifier: Apache-2.0
// The sending end of a transfer.
#include "xfer/xfer_sender.h"

#include "base/arena.h"
#include "base/array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- the plan ---------------------------------------------------------------------------------

void xfer_send_plan_init(struct send_plan *p, const struct manifest *m) {
    *p = (struct send_plan){.m = m};
    p->bad = heap_alloc((m->count + 1) * sizeof *p->bad);
}

void xfer_send_plan_fini(struct send_plan *p) {
    free(p->small);
    free(p->units);
    free(p->again);
    free(p->bad);
    *p = (struct send_plan){0};
}

static void add_unit(struct send_plan *p, struct send_unit u) {
    array_grow(p->units, &p->room, p->count + 1);
    p->units[p->count++] = u;
}

static uint32_t unit_bytes(const struct manifest_entry *n, uint64_t unit) {
    uint64_t left = n->size - unit * CAS_UNIT_BYTES;
    return left < CAS_UNIT_BYTES ? (uint32_t)left : CAS_UNIT_BYTES;
}

static void add_small_file(struct send_plan *p, uint32_t entry) {
    array_grow(p->small, &p->small_room, p->small_count + 1);
    p->small[p->small_count++] = entry;
    p->bytes += p->m->entries[entry].size;
}

static void add_large_unit(struct send_plan *p, uint32_t entry, uint32_t unit) {
    struct send_unit u = {.entry = entry, .unit = unit};
    u.bytes = unit_bytes(&p->m->entries[entry], unit);
    add_unit(p, u);
    p->bytes += u.bytes;
}

int xfer_send_plan_need(struct send_plan *p, const struct xfer_frame *f, struct err *e) {
    struct bytes_reader r = bytes_reader(f->data, f->len);
    struct xfer_need need;
    int rc;
    while ((rc = xfer_get_need(&r, p->m, &need, e)) > 0) {
        if (p->files++ >= p->m->files)
            return err_set(e, ERR_FORMAT, "transfer: the receiver asks for a file twice");
        if (need.units == 0) {
            add_small_file(p, need.index);
            continue;
        }
        for (uint32_t u = 0; u < need.units; u++)
            if (!need.have || !(need.have[u / 8] >> (u % 8) & 1))
                add_large_unit(p, need.index, u);
    }
    return rc;
}

static int compare_entries(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int compare_units(const void *a, const void *b) {
    const struct send_unit *x = a, *y = b;
    return x->entry != y->entry ? (x->entry > y->entry) - (x->entry < y->entry)
                                : (x->unit > y->unit) - (x->unit < y->unit);
}

void xfer_send_plan_unite(struct send_plan *to, const struct send_plan *const *from, size_t count) {
    struct send_plan all = {0};
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < from[i]->small_count; k++) {
            array_grow(all.small, &all.small_room, all.small_count + 1);
            all.small[all.small_count++] = from[i]->small[k];
        }
        for (size_t k = 0; k < from[i]->count; k++)
            add_unit(&all, from[i]->units[k]);
    }
    if (all.small_count)
        qsort(all.small, all.small_count, sizeof *all.small, compare_entries);
    if (all.count)
        qsort(all.units, all.count, sizeof *all.units, compare_units);
    for (size_t i = 0; i < all.small_count; i++)
        if (i == 0 || all.small[i] != all.small[i - 1])
            add_small_file(to, all.small[i]);
    for (size_t i = 0; i < all.count; i++) {
        const struct send_unit *u = &all.units[i];
        if (i && compare_units(u, u - 1) == 0)
            continue;
        to->files += i == 0 || u->entry != u[-1].entry;
        add_large_unit(to, u->entry, u->unit);
    }
    to->files += to->small_count;
    free(all.small);
    free(all.units);
}

void xfer_send_plan_without(struct send_plan *to, const struct send_plan *from,
                            const unsigned char *marks) {
    for (size_t i = 0; i < from->small_count; i++)
        if (!marks[from->small[i]])
            add_small_file(to, from->small[i]);
    to->files += to->small_count;
    for (size_t i = 0; i < from->count; i++) {
        const struct send_unit *u = &from->units[i];
        if (marks[u->entry])
            continue;
        to->files += to->count == 0 || to->units[to->count - 1].entry != u->entry;
        add_large_unit(to, u->entry, u->unit);
    }
}

// Small files come first, since the connection that places them works from the front.
void xfer_send_plan_ready(struct send_plan *p) {
    size_t large = p->count;
    struct send_unit u = {0};
    for (size_t i = 0; i < p->small_count; i++) {
        u.bytes += (uint32_t)p->m->entries[p->small[i]].size;
        u.count++;
        if (u.bytes >= XFER_BATCH_BYTES || u.count == SEND_BATCH_FILES_MAX ||
            i + 1 == p->small_count) {
            add_unit(p, u);
            u = (struct send_unit){.first = (uint32_t)i + 1};
        }
    }
    size_t small = p->count - large;
    struct send_unit *all = heap_alloc((p->count + 1) * sizeof *all);
    if (p->count) {
        memcpy(all, p->units + large, small * sizeof *all);
        memcpy(all + small, p->units, large * sizeof *all);
    }
    free(p->units);
    p->units = all;
    p->room = p->count + 1;
    p->front = 0;
    p->back = p->count;
}

bool xfer_send_plan_empty(const struct send_plan *p) {
    return p->front == p->back && p->again_count == 0;
}

static bool take_unit(struct send_plan *p, bool from_back, struct send_unit *u) {
    if (p->again_count)
        *u = p->again[--p->again_count];
    else if (p->front < p->back)
        *u = from_back ? p->units[--p->back] : p->units[p->front++];
    else
        return false;
    return true;
}

// ---- streams ----------------------------------------------------------------------------------

void xfer_send_stream_init(struct send_stream *s, struct send_plan *p, bool from_back) {
    *s = (struct send_stream){.plan = p, .from_back = from_back, .fd = -1};
}

void xfer_send_stream_fini(struct send_stream *s) {
    if (s->fd >= 0)
        close(s->fd);
    free(s->out);
    *s = (struct send_stream){.fd = -1};
}

static struct send_unit *out_at(struct send_stream *s, size_t i) {
    return &s->out[(s->out_first + i) % s->out_room];
}

static void out_push(struct send_stream *s, struct send_unit u) {
    if (s->out_count == s->out_room) {
        size_t room = s->out_room ? 2 * s->out_room : 16;
        struct send_unit *more = heap_alloc(room * sizeof *more);
        for (size_t i = 0; i < s->out_count; i++)
            more[i] = *out_at(s, i);
        free(s->out);
        s->out = more;
        s->out_room = room;
        s->out_first = 0;
    }
    s->out_count++;
    *out_at(s, s->out_count - 1) = u;
}

int xfer_send_stream_ack(struct send_stream *s, uint64_t content_bytes, struct err *e) {
    if (content_bytes < s->acked || content_bytes > s->sent)
        return err_set(e, ERR_FORMAT,
                       "transfer: the receiver acknowledges bytes that were not sent");
    s->acked = content_bytes;
    while (s->out_count > (s->active ? 1 : 0) &&
           s->retired + s->out[s->out_first].bytes <= s->acked) {
        s->retired += s->out[s->out_first].bytes;
        s->out_first = (s->out_first + 1) % s->out_room;
        s->out_count--;
    }
    return 0;
}

void xfer_send_stream_return(struct send_stream *s) {
    struct send_plan *p = s->plan;
    for (; s->out_count; s->out_count--) {
        array_grow(p->again, &p->again_room, p->again_count + 1);
        p->again[p->again_count++] = *out_at(s, s->out_count - 1);
    }
    s->active = false;
}

static void send_bad(struct send_stream *s, uint32_t entry, const char *why, struct strbuf *out) {
    struct strbuf b = {0};
    xfer_put_uint(&b, entry, 4);
    xfer_put_str(&b, why);
    xfer_wire_frame(out, XFER_BAD, b.data, b.len);
    strbuf_fini(&b);
    s->plan->bad[entry] = true;
}

static bool read_exactly(int fd, uint64_t offset, void *buf, size_t len) {
    char *c = buf;
    while (len) {
        ssize_t n = pread(fd, c, len, (off_t)offset);
        if (err_interrupted(n))
            continue;
        if (n <= 0)
            return false;
        c += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return true;
}

static const char *open_entry(const struct manifest_entry *n, int *fd) {
    struct stat st;
    // open() of musl adds a call of fcntl() per file.
    *fd = openat(AT_FDCWD, n->source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return errno == ENOENT ? "it was deleted meanwhile" : strerror(errno);
    // A growing file, such as a log, is sent up to its hashed length.
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size >= n->size)
        return NULL;
    close(*fd);
    *fd = -1;
    return "it became shorter meanwhile";
}

// Appends content of an entry to b; returns NULL, or the reason of a failure.
static const char *add_content(struct strbuf *b, const struct manifest_entry *n, int fd,
                               uint64_t offset, size_t len) {
    if (n->bytes) {
        strbuf_add(b, n->bytes + offset, len);
        return NULL;
    }
    if (!read_exactly(fd, offset, strbuf_reserve(b, len), len))
        return "it cannot be read";
    b->len += len;
    return NULL;
}

// Appends one small file to the batch; returns NULL, or the reason of a failure.
static const char *add_small(struct strbuf *b, const struct manifest_entry *n) {
    size_t start = b->len;
    int fd = -1;
    const char *why = n->bytes ? NULL : open_entry(n, &fd);
    if (why)
        return why;
    strbuf_add(b, n->hash, HASH_BYTES);
    xfer_put_uint(b, n->size, 4);
    why = add_content(b, n, fd, 0, n->size);
    if (fd >= 0)
        close(fd);
    if (why)
        b->len = start;
    return why;
}

static void fill_small(struct send_stream *s, const struct send_unit *u, struct strbuf *out,
                       bool compress) {
    const struct send_plan *p = s->plan;
    uint32_t bytes = 0;
    struct strbuf bad = {0}; // separate frames after the batch
    size_t begin = xfer_wire_begin(out, XFER_BATCH);
    for (uint32_t i = 0; i < u->count; i++) {
        uint32_t entry = p->small[u->first + i];
        if (p->bad[entry])
            continue;
        const char *why = add_small(out, &p->m->entries[entry]);
        if (why)
            send_bad(s, entry, why, &bad);
        else
            bytes += (uint32_t)p->m->entries[entry].size;
    }
    if (out->len > begin + XFER_HEAD_BYTES)
        xfer_wire_end(&s->packer, out, begin, compress);
    else
        out->len = begin;
    strbuf_add(out, bad.data ? bad.data : "", bad.len);
    strbuf_fini(&bad);
    s->sent += bytes;
    out_at(s, s->out_count - 1)->bytes = bytes;
    s->active = false;
}

static void fill_large(struct send_stream *s, const struct send_unit *u, struct strbuf *out,
                       bool compress) {
    const struct manifest_entry *n = &s->plan->m->entries[u->entry];
    uint32_t left = u->bytes - s->position;
    uint32_t len = left < CAS_PIECE_BYTES ? left : CAS_PIECE_BYTES;
    uint64_t offset = (uint64_t)u->unit * CAS_UNIT_BYTES + s->position;
    const char *why = NULL;
    if (!n->bytes && (s->fd < 0 || s->fd_entry != u->entry)) {
        if (s->fd >= 0)
            close(s->fd);
        why = open_entry(n, &s->fd);
        s->fd_entry = u->entry;
    }
    size_t begin = xfer_wire_begin(out, XFER_CHUNK);
    strbuf_add(out, n->hash, HASH_BYTES);
    xfer_put_uint(out, n->size, 8);
    xfer_put_uint(out, offset, 8);
    if (!why)
        why = add_content(out, n, s->fd, offset, len);
    if (why) {
        out->len = begin;
        send_bad(s, u->entry, why, out);
        return;
    }
    xfer_wire_end(&s->packer, out, begin, compress);
    s->position += len;
    s->sent += len;
    s->active = s->position < u->bytes;
}

int xfer_send_stream_fill(struct send_stream *s, struct strbuf *out, bool compress, struct err *e) {
    size_t before = out->len;
    (void)e;
    while (out->len == before) {
        struct send_unit u;
        if (!s->active) {
            if (!take_unit(s->plan, s->from_back, &u))
                return 0;
            if (u.count == 0 && s->plan->bad[u.entry])
                continue;
            out_push(s, u);
            s->active = true;
            s->position = 0;
        }
        u = *out_at(s, s->out_count - 1);
        if (u.count)
            fill_small(s, &u, out, compress);
        else
            fill_large(s, &u, out, compress);
        if (u.count == 0 && s->plan->bad[u.entry]) { // skip the rest of the file
            out_at(s, s->out_count - 1)->bytes = s->position;
            s->active = false;
        }
    }
    return 1;
}
