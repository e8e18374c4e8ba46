// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes messages by one table for both directions.
#include "channel/frame.h"

#include "base/bytes.h"

#include <stdio.h>
#include <string.h>

enum { FIELDS_MAX = 24 };

enum field_kind { KIND_NUM, KIND_TEXT };

struct field_place {
    enum field_kind kind;
    size_t offset;
};

static const struct field_place places[] = {
#define PLACE_NUM(name)  [WIRE_F_##name] = {KIND_NUM, offsetof(struct wire_msg, name)},
#define PLACE_TEXT(name) [WIRE_F_##name] = {KIND_TEXT, offsetof(struct wire_msg, name)},
    WIRE_FIELDS(PLACE_NUM, PLACE_TEXT)
#undef PLACE_NUM
#undef PLACE_TEXT
};

struct message_row {
    const char *name;
    unsigned char fields[FIELDS_MAX]; // ends with WIRE_F_END
};

#define F(name) WIRE_F_##name
static const struct message_row rows[WIRE_TYPE_COUNT] = {
#define X(type, ...) [type] = {#type, {__VA_ARGS__}},
    WIRE_MESSAGES(X)
#undef X
};
#undef F

const char *frame_name(enum wire_type type) {
    return type > WIRE_NONE && type < WIRE_TYPE_COUNT ? rows[type].name + strlen("WIRE_") : "?";
}

bool frame_is_kept(enum wire_type type) {
    static const bool kept[WIRE_TYPE_COUNT] = {
        [WIRE_WAITING] = true, [WIRE_ROUND] = true,  [WIRE_ALLOW] = true,   [WIRE_FAILED] = true,
        [WIRE_DONE] = true,    [WIRE_STOP] = true,   [WIRE_STOPPED] = true, [WIRE_STOP_RUN] = true,
        [WIRE_LEAVE] = true,   [WIRE_NOTICE] = true, [WIRE_FINISH] = true,  [WIRE_COPIES] = true,
    };
    return type > WIRE_NONE && type < WIRE_TYPE_COUNT && kept[type];
}

// ---- fields of the records ----
#define NODE_NUMS(X)  X(node_rank) X(port) X(incarnation) X(rounds)
#define NODE_TEXTS(X) X(name) X(address)
#define FAILURE_NUMS(X)                                                                            \
    X(rank) X(local_rank) X(group_rank) X(pid) X(status) X(signal) X(age_ms) X(wall_ms)
#define FAILURE_TEXTS(X) X(node) X(host) X(error_file) X(message) X(tail) X(evidence)

static void put_num(struct strbuf *out, int64_t v) {
    unsigned char b[8];
    bytes_store(b, (uint64_t)v, 8);
    strbuf_add(out, b, 8);
}

static void put_count(struct strbuf *out, size_t v) {
    unsigned char b[4];
    bytes_store(b, v, 4);
    strbuf_add(out, b, 4);
}

static void put_text(struct strbuf *out, const char *s) {
    size_t len = s ? strlen(s) : 0;
    if (len > WIRE_TEXT_BYTES_MAX)
        len = WIRE_TEXT_BYTES_MAX;
    put_count(out, len);
    strbuf_add(out, s ? s : "", len);
}

static void put_nodes(struct strbuf *out, const struct wire_msg *m) {
    put_count(out, (size_t)m->node_count);
    for (int64_t i = 0; i < m->node_count; i++) {
        const struct wire_node *n = &m->nodes[i];
#define X(field) put_num(out, n->field);
        NODE_NUMS(X)
#undef X
#define X(field) put_text(out, n->field);
        NODE_TEXTS(X)
#undef X
    }
}

static void put_failures(struct strbuf *out, const struct wire_msg *m) {
    put_count(out, (size_t)m->failure_count);
    for (int64_t i = 0; i < m->failure_count; i++) {
        const struct worker_failure *f = &m->failures[i];
#define X(field) put_num(out, f->field);
        FAILURE_NUMS(X)
#undef X
#define X(field) put_text(out, f->field);
        FAILURE_TEXTS(X)
#undef X
    }
}

static void put_data(struct strbuf *out, const struct wire_msg *m) {
    must(m->data_len <= WIRE_DATA_BYTES_MAX);
    put_count(out, (size_t)m->data_len);
    strbuf_add(out, m->data, (size_t)m->data_len);
}

// ---- seals ----
static void seal_of(unsigned char out[HASH_BYTES], const struct wire_seals *s, int side,
                    uint64_t counter, const char *p, size_t len) {
    struct strbuf text = {0};
    unsigned char head[9];
    head[0] = (unsigned char)side;
    bytes_store(head + 1, counter, 8);
    strbuf_add(&text, head, sizeof head);
    strbuf_add(&text, p, len);
    hash_hmac(out, s->key, sizeof s->key, text.data, text.len);
    strbuf_fini(&text);
}

// Seals the frame that begins at start, and sets its length.
static void finish(struct strbuf *out, size_t start, struct wire_seals *seals) {
    if (seals && seals->on) {
        unsigned char seal[HASH_BYTES];
        seal_of(seal, seals, seals->side, seals->sent++, out->data + start + 4,
                out->len - start - 4);
        strbuf_add(out, seal, WIRE_SEAL_BYTES);
    }
    must(out->overflow ||
         out->len - start - 4 <= WIRE_FRAME_BYTES_MAX); // otherwise no peer could read it
    if (!out->overflow)
        bytes_store(out->data + start, out->len - start - 4, 4);
}

void frame_put(struct strbuf *out, const struct wire_msg *m, struct wire_seals *seals) {
    size_t start = out->len;
    put_count(out, 0);
    strbuf_addc(out, (char)m->type);
    for (const unsigned char *f = rows[m->type].fields; *f != WIRE_F_END; f++) {
        const char *at = (const char *)m + places[*f < WIRE_F_nodes ? *f : 0].offset;
        if (*f == WIRE_F_nodes)
            put_nodes(out, m);
        else if (*f == WIRE_F_failures)
            put_failures(out, m);
        else if (*f == WIRE_F_data)
            put_data(out, m);
        else if (places[*f].kind == KIND_NUM)
            put_num(out, *(const int64_t *)at);
        else
            put_text(out, *(const char *const *)at);
    }
    finish(out, start, seals);
}

void frame_put_again(struct strbuf *out, const char *frame, size_t len, struct wire_seals *seals) {
    size_t start = out->len;
    strbuf_add(out, frame, len);
    finish(out, start, seals);
}

// ---- decoding ----
static const char *take_text(struct arena *a, struct bytes_reader *r) {
    size_t len = bytes_u32(r);
    const char *p = len <= WIRE_TEXT_BYTES_MAX ? bytes_get(r, len) : NULL;
    if (!p || memchr(p, '\0', len)) {
        r->bad = true;
        return "";
    }
    return arena_strndup(a, p, len);
}

static size_t take_count(struct bytes_reader *r, size_t max) {
    size_t count = bytes_u32(r);
    if (count > max || count > bytes_left(r)) { // an element has more than one byte
        r->bad = true;
        return 0;
    }
    return count;
}

static void take_nodes(struct arena *a, struct bytes_reader *r, struct wire_msg *m) {
    m->node_count = (int64_t)take_count(r, WIRE_NODES_MAX);
    m->nodes = arena_new(a, struct wire_node, (size_t)m->node_count);
    for (int64_t i = 0; i < m->node_count && !r->bad; i++) {
        struct wire_node *n = &m->nodes[i];
#define X(field) n->field = (int64_t)bytes_u64(r);
        NODE_NUMS(X)
#undef X
#define X(field) n->field = take_text(a, r);
        NODE_TEXTS(X)
#undef X
    }
}

static void take_failures(struct arena *a, struct bytes_reader *r, struct wire_msg *m) {
    m->failure_count = (int64_t)take_count(r, WIRE_FAILURES_MAX);
    m->failures = arena_new(a, struct worker_failure, (size_t)m->failure_count);
    for (int64_t i = 0; i < m->failure_count && !r->bad; i++) {
        struct worker_failure *f = &m->failures[i];
#define X(field) f->field = (int64_t)bytes_u64(r);
        FAILURE_NUMS(X)
#undef X
#define X(field) f->field = take_text(a, r);
        FAILURE_TEXTS(X)
#undef X
    }
}

static void take_data(struct arena *a, struct bytes_reader *r, struct wire_msg *m) {
    size_t len = bytes_u32(r);
    const void *p = len <= WIRE_DATA_BYTES_MAX ? bytes_get(r, len) : NULL;
    if (!p) {
        r->bad = true;
        return;
    }
    m->data = memcpy(arena_new(a, char, len + 1), p, len);
    m->data_len = (int64_t)len;
}

static void take_fields(struct arena *a, struct bytes_reader *r, struct wire_msg *m) {
#define X_NUM(name)
#define X_TEXT(name) m->name = "";
    WIRE_FIELDS(X_NUM, X_TEXT)
#undef X_NUM
#undef X_TEXT
    for (const unsigned char *f = rows[m->type].fields; *f != WIRE_F_END; f++) {
        char *at = (char *)m + places[*f < WIRE_F_nodes ? *f : 0].offset;
        if (*f == WIRE_F_nodes)
            take_nodes(a, r, m);
        else if (*f == WIRE_F_failures)
            take_failures(a, r, m);
        else if (*f == WIRE_F_data)
            take_data(a, r, m);
        else if (places[*f].kind == KIND_NUM)
            *(int64_t *)at = (int64_t)bytes_u64(r);
        else
            *(const char **)at = take_text(a, r);
    }
}

int frame_take(struct arena *a, const void *p, size_t len, size_t frame_bytes_max,
               struct wire_msg *m, size_t *used, struct wire_seals *seals, struct err *e) {
    if (len < 5)
        return 0;
    size_t size = bytes_load(p, 4);
    size_t sealed = seals && seals->on ? WIRE_SEAL_BYTES : 0;
    if (size > frame_bytes_max)
        return err_set(e, ERR_LIMIT, "a frame of %zu bytes is longer than %zu", size,
                       frame_bytes_max);
    if (size < 1 + sealed)
        return err_set(e, ERR_FORMAT, "a frame of %zu bytes is too short", size);
    if (len - 4 < size)
        return 0;
    const char *body = (const char *)p + 4;
    if (sealed) {
        unsigned char want[HASH_BYTES];
        seal_of(want, seals, !seals->side, seals->received++, body, size - sealed);
        if (!hash_equal(want, body + size - sealed, sealed))
            return err_set(e, ERR_AUTH, "a frame has a wrong seal");
    }
    memset(m, 0, sizeof *m);
    m->type = (unsigned char)body[0];
    if (m->type == WIRE_NONE || m->type >= WIRE_TYPE_COUNT)
        return err_set(e, ERR_FORMAT, "unknown frame type %d", (int)m->type);
    struct bytes_reader r = bytes_reader(body + 1, size - 1 - sealed);
    take_fields(a, &r, m);
    if (r.bad || bytes_left(&r) != 0)
        return err_set(e, ERR_FORMAT, "malformed %s frame", frame_name(m->type));
    *used = 4 + size;
    return 1;
}
