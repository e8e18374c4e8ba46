// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes the frames of a transfer.
#include "xfer/xfer_frame.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum {
    WIRE_ZSTD_LEVEL = 1,
    WIRE_PACK_BYTES_MIN = 512,
    WIRE_SKIP_MAX = 64,
    WIRE_FLAG_ZSTD = 1,
};

static const char *const type_names[] = {[XFER_NONE] = "none",
#define X(id, name) [id] = name,
                                         XFER_TYPES(X)
#undef X
};

// ---- frames -----------------------------------------------------------------------------------

static int unpack(struct xfer_unpacker *u, const unsigned char *p, size_t len,
                  struct xfer_frame *out, struct err *e) {
    size_t plain_len = len >= 4 ? (size_t)bytes_load(p, 4) : 0;
    if (plain_len == 0 || plain_len > XFER_FRAME_BYTES_MAX)
        return err_set(e, ERR_FORMAT, "transfer: a packed frame of a bad size");
    if (!u->zstd)
        u->zstd = ZSTD_createDCtx();
    if (!u->plain)
        u->plain = heap_alloc(XFER_FRAME_BYTES_MAX);
    size_t n = u->zstd ? ZSTD_decompressDCtx(u->zstd, u->plain, plain_len, p + 4, len - 4) : 0;
    if (!u->zstd || ZSTD_isError(n) || n != plain_len)
        return err_set(e, ERR_FORMAT, "transfer: a packed frame is damaged");
    out->data = u->plain;
    out->len = plain_len;
    return 1;
}

int xfer_wire_take(struct xfer_unpacker *u, const void *p, size_t len, struct xfer_frame *out,
                   struct err *e) {
    const unsigned char *c = p;
    if (len < XFER_HEAD_BYTES)
        return 0;
    size_t payload = (size_t)bytes_load(c, 4);
    if (payload > XFER_FRAME_BYTES_MAX || c[4] == XFER_NONE || c[4] >= XFER_TYPE_COUNT ||
        (c[5] & ~WIRE_FLAG_ZSTD) || c[6] || c[7])
        return err_set(
            e, ERR_FORMAT,
            "transfer: the answer is not a frame (does a login script print something?)");
    if (len - XFER_HEAD_BYTES < payload)
        return 0;
    out->type = (enum xfer_type)c[4];
    out->wire_bytes = XFER_HEAD_BYTES + payload;
    if (c[5] & WIRE_FLAG_ZSTD)
        return unpack(u, c + XFER_HEAD_BYTES, payload, out, e);
    out->data = c + XFER_HEAD_BYTES;
    out->len = payload;
    return 1;
}

void xfer_unpacker_fini(struct xfer_unpacker *u) {
    ZSTD_freeDCtx(u->zstd);
    free(u->plain);
    *u = (struct xfer_unpacker){0};
}

static void set_head(struct strbuf *out, size_t begin, enum xfer_type type, unsigned flags) {
    unsigned char *head = (unsigned char *)out->data + begin;
    size_t len = out->len - begin - XFER_HEAD_BYTES;
    must(len <= XFER_FRAME_BYTES_MAX);
    bytes_store(head, len, 4);
    bytes_store(head + 4, (uint64_t)type | (uint64_t)flags << 8, 4);
}

size_t xfer_wire_begin(struct strbuf *out, enum xfer_type type) {
    size_t begin = out->len;
    static const unsigned char head[XFER_HEAD_BYTES];
    strbuf_add(out, head, sizeof head);
    set_head(out, begin, type, 0);
    return begin;
}

void xfer_wire_frame(struct strbuf *out, enum xfer_type type, const void *p, size_t len) {
    size_t begin = xfer_wire_begin(out, type);
    if (len)
        strbuf_add(out, p, len);
    set_head(out, begin, type, 0);
}

// One for all packers: a frame is packed in one call, by one thread. Of its own, each of many
// transfers at once would hold more than a megabyte.
static struct {
    unsigned char *packed;
    void *zstd;
} shared;

// Compresses p into shared.packed. Returns the length, or 0 when the data does not shrink.
static size_t pack(const void *p, size_t len) {
    size_t room = ZSTD_compressBound(XFER_FRAME_BYTES_MAX);
    if (!shared.zstd)
        shared.zstd = ZSTD_createCCtx();
    if (!shared.packed)
        shared.packed = heap_alloc(room);
    size_t n = shared.zstd
                   ? ZSTD_compressCCtx(shared.zstd, shared.packed, room, p, len, WIRE_ZSTD_LEVEL)
                   : len;
    return ZSTD_isError(n) || n + 4 > len - len / 16 ? 0 : n;
}

void xfer_wire_end(struct xfer_packer *k, struct strbuf *out, size_t begin, bool compress) {
    enum xfer_type type = (enum xfer_type)(unsigned char)out->data[begin + 4];
    size_t len = out->len - begin - XFER_HEAD_BYTES, packed = 0;
    if (compress && len >= WIRE_PACK_BYTES_MIN && k->skip-- <= 0) {
        packed = pack(out->data + begin + XFER_HEAD_BYTES, len);
        k->skip_next = packed ? 0 : k->skip_next ? 2 * k->skip_next : 4;
        k->skip_next = k->skip_next > WIRE_SKIP_MAX ? WIRE_SKIP_MAX : k->skip_next;
        k->skip = k->skip_next;
    }
    if (packed) {
        out->len = begin + XFER_HEAD_BYTES;
        xfer_put_uint(out, len, 4);
        strbuf_add(out, (char *)shared.packed, packed);
    }
    set_head(out, begin, type, packed ? WIRE_FLAG_ZSTD : 0);
}

// ---- fields -----------------------------------------------------------------------------------

void xfer_put_uint(struct strbuf *b, uint64_t v, size_t width) {
    unsigned char bytes[8];
    bytes_store(bytes, v, width);
    strbuf_add(b, bytes, width);
}

void xfer_put_str(struct strbuf *b, const char *s) {
    size_t len = strlen(s);
    len = len > UINT16_MAX ? UINT16_MAX : len;
    xfer_put_uint(b, len, 2);
    strbuf_add(b, s, len);
}

const char *xfer_get_str(struct bytes_reader *r, struct arena *a, size_t len_max) {
    size_t len = bytes_u16(r);
    const char *p = bytes_get(r, len);
    if (p && (len > len_max || memchr(p, '\0', len)))
        r->bad = true;
    return r->bad ? NULL : arena_strndup(a, p, len);
}

void xfer_wire_fail(struct strbuf *out, const struct err *e) {
    struct strbuf b = {0};
    xfer_put_uint(&b, (uint64_t)e->code, 4);
    xfer_put_str(&b, e->text);
    xfer_wire_frame(out, XFER_FAIL, b.data, b.len);
    strbuf_fini(&b);
}

int xfer_wire_read_fail(const struct xfer_frame *f, struct err *e) {
    struct arena a = {0};
    struct bytes_reader r = bytes_reader(f->data, f->len);
    uint32_t code = bytes_u32(&r);
    const char *text = xfer_get_str(&r, &a, ERR_TEXT_BYTES_MAX);
    if (!text || code == ERR_NONE || code > ERR_NO_STATUS)
        (void)err_set(e, ERR_FORMAT, "transfer: the far end failed with a malformed message");
    else
        (void)err_set(e, (enum err_code)code, "%s", str_printable(&a, text, strlen(text)));
    arena_fini(&a);
    return -1;
}

int xfer_wire_unexpected(const struct xfer_frame *f, struct err *e) {
    if (f->type == XFER_FAIL)
        return xfer_wire_read_fail(f, e);
    return err_set(e, ERR_FORMAT, "transfer: a frame of type '%s' out of turn",
                   type_names[f->type]);
}

// ---- entries ----------------------------------------------------------------------------------

static void put_entry(struct strbuf *b, const struct manifest_entry *n) {
    xfer_put_uint(b, n->kind, 1);
    xfer_put_uint(b, n->mode, 2);
    xfer_put_uint(b, (uint64_t)n->mtime_ns, 8);
    xfer_put_str(b, n->path);
    if (n->kind == MANIFEST_FILE) {
        xfer_put_uint(b, n->size, 8);
        strbuf_add(b, n->hash, HASH_BYTES);
    } else if (n->kind == MANIFEST_LINK) {
        xfer_put_str(b, n->target);
    }
}

bool xfer_wire_entries(struct xfer_packer *k, struct strbuf *out, const struct manifest *m,
                       size_t *next, size_t bytes_max, bool compress) {
    unsigned char count[8];
    if (*next < m->count) {
        size_t begin = xfer_wire_begin(out, XFER_ENTRIES);
        for (; *next < m->count && out->len - begin < bytes_max; ++*next)
            put_entry(out, &m->entries[*next]);
        xfer_wire_end(k, out, begin, compress);
    }
    if (*next < m->count)
        return false;
    bytes_store(count, m->count, sizeof count);
    xfer_wire_frame(out, XFER_ENTRIES_END, count, sizeof count);
    return true;
}

int xfer_get_entries(const struct xfer_frame *f, struct manifest *m, struct err *e) {
    struct bytes_reader r = bytes_reader(f->data, f->len);
    struct arena a = {0};
    int rc = 0;
    while (bytes_left(&r) && !r.bad && rc == 0) {
        struct manifest_entry n = {.kind = (enum manifest_kind)bytes_u8(&r)};
        n.mode = bytes_u16(&r);
        n.mtime_ns = (int64_t)bytes_u64(&r);
        n.path = xfer_get_str(&r, &a, UINT16_MAX);
        if (n.kind == MANIFEST_FILE) {
            n.size = bytes_u64(&r);
            const void *hash = bytes_get(&r, HASH_BYTES);
            if (hash)
                memcpy(n.hash, hash, HASH_BYTES);
            n.hashed = true;
        } else if (n.kind == MANIFEST_LINK) {
            n.target = xfer_get_str(&r, &a, MANIFEST_LINK_BYTES_MAX);
            r.bad |= !n.target || !*n.target;
        } else if (n.kind != MANIFEST_FOLDER) {
            r.bad = true;
        }
        if (!r.bad)
            rc = manifest_append(m, &n, e);
    }
    arena_fini(&a);
    return r.bad ? err_set(e, ERR_FORMAT, "transfer: the list of files is malformed") : rc;
}

// ---- hello ------------------------------------------------------------------------------------

static int check_version(uint32_t version, const struct bytes_reader *r, struct err *e) {
    if (!r->bad && version != XFER_VERSION)
        return err_set(
            e, ERR_FORMAT,
            "transfer: the other side speaks version %u, this one %d; use the same dtctl", version,
            XFER_VERSION);
    return r->bad ? err_set(e, ERR_FORMAT, "transfer: the greeting is malformed") : 0;
}

static void put_list(struct strbuf *b, const char *const *list) {
    size_t count = 0;
    while (list && list[count])
        count++;
    xfer_put_uint(b, count, 4);
    for (size_t i = 0; i < count; i++)
        xfer_put_str(b, list[i]);
}

static const char **get_list(struct bytes_reader *r, struct arena *a) {
    size_t count = bytes_u32(r);
    if (count > XFER_PATHS_MAX)
        r->bad = true;
    const char **list = arena_new(a, const char *, r->bad ? 1 : count + 1);
    for (size_t i = 0; !r->bad && i < count; i++)
        list[i] = xfer_get_str(r, a, UINT16_MAX);
    return list;
}

void xfer_put_push_hello(struct strbuf *b, const struct xfer_push_hello *h) {
    xfer_put_uint(b, XFER_VERSION, 4);
    xfer_put_uint(b, h->extra, 1);
    xfer_put_uint(b, h->replace, 1);
    xfer_put_uint(b, h->peers, 1);
    xfer_put_uint(b, h->gives, 1);
    xfer_put_str(b, h->dest);
    xfer_put_str(b, h->owner);
    put_list(b, h->results);
}

int xfer_get_push_hello(const struct xfer_frame *f, struct arena *a, struct xfer_push_hello *h,
                        struct err *e) {
    if (f->type != XFER_HELLO)
        return xfer_wire_unexpected(f, e);
    struct bytes_reader r = bytes_reader(f->data, f->len);
    h->version = bytes_u32(&r);
    h->extra = bytes_u8(&r);
    h->replace = bytes_u8(&r);
    h->peers = bytes_u8(&r);
    h->gives = bytes_u8(&r);
    h->dest = xfer_get_str(&r, a, UINT16_MAX);
    h->owner = xfer_get_str(&r, a, UINT8_MAX);
    h->results = get_list(&r, a);
    return check_version(h->version, &r, e);
}

void xfer_put_fetch_hello(struct strbuf *b, const struct xfer_fetch_hello *h) {
    xfer_put_uint(b, XFER_VERSION, 4);
    xfer_put_uint(b, h->missing_ok, 1);
    xfer_put_uint(b, h->compress, 1);
    put_list(b, (const char *const *)h->paths);
    put_list(b, (const char *const *)h->exclude);
}

int xfer_get_fetch_hello(const struct xfer_frame *f, struct arena *a, struct xfer_fetch_hello *h,
                         struct err *e) {
    if (f->type != XFER_HELLO)
        return xfer_wire_unexpected(f, e);
    struct bytes_reader r = bytes_reader(f->data, f->len);
    h->version = bytes_u32(&r);
    h->missing_ok = bytes_u8(&r);
    h->compress = bytes_u8(&r);
    h->paths = get_list(&r, a);
    h->exclude = get_list(&r, a);
    return check_version(h->version, &r, e);
}

// ---- lists of missing content -----------------------------------------------------------------

void xfer_put_need(struct strbuf *b, const struct xfer_need *n) {
    xfer_put_uint(b, n->index, 4);
    xfer_put_uint(b, n->units, 4);
    xfer_put_uint(b, n->have != NULL, 1);
    if (n->have)
        strbuf_add(b, n->have, (n->units + 7) / 8);
}

int xfer_get_need(struct bytes_reader *r, const struct manifest *m, struct xfer_need *n,
                  struct err *e) {
    if (!bytes_left(r))
        return 0;
    n->index = bytes_u32(r);
    n->units = bytes_u32(r);
    n->have = bytes_u8(r) ? bytes_get(r, (n->units + 7) / 8) : NULL;
    bool good = !r->bad && n->index < m->count && m->entries[n->index].kind == MANIFEST_FILE;
    if (good) {
        uint64_t size = m->entries[n->index].size;
        uint64_t units = size <= XFER_SMALL_BYTES_MAX ? 0 : cas_unit_count(size);
        good = n->units == units;
    }
    return good ? 1 : err_set(e, ERR_FORMAT, "transfer: the list of lacking files is malformed");
}

// ---- relay ------------------------------------------------------------------------------------

void xfer_put_relay_peer(struct strbuf *b, const struct xfer_relay_peer *p) {
    xfer_put_uint(b, p->port, 4);
    strbuf_add(b, p->key, sizeof p->key);
    xfer_put_str(b, p->address);
}

int xfer_get_relay_peer(const struct xfer_frame *f, struct arena *a, struct xfer_relay_peer *p,
                        struct err *e) {
    struct bytes_reader r = bytes_reader(f->data, f->len);
    p->port = bytes_u32(&r);
    const void *key = bytes_get(&r, sizeof p->key);
    p->address = xfer_get_str(&r, a, UINT8_MAX);
    if (r.bad || !key || p->port > UINT16_MAX)
        return err_set(e, ERR_FORMAT, "transfer: a malformed peer of a relay");
    memcpy(p->key, key, sizeof p->key);
    return 0;
}
