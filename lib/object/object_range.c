// SPDX-License-Identifier: Apache-2.0
// One range: its request, the check of the answer, and where its bytes go.
#include "object/object_range.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool object_range_is(const char *text, uint64_t from, uint64_t len, uint64_t size) {
    char wanted[96];
    int n = snprintf(wanted, sizeof wanted, "bytes %" PRIu64 "-%" PRIu64 "/", from, from + len - 1);
    const char *rest = text + n;
    if (strncasecmp(text, wanted, (size_t)n) != 0)
        return false;
    snprintf(wanted, sizeof wanted, "%" PRIu64, size);
    return strcmp(rest, wanted) == 0 || strcmp(rest, "*") == 0;
}

bool object_etag_is_md5(const char *etag) {
    return strlen(etag) == 2 * OBJECT_MD5_BYTES &&
           strspn(etag, "0123456789abcdefABCDEF") == 2 * OBJECT_MD5_BYTES;
}

int object_check_md5(const char *etag, const unsigned char md5[OBJECT_MD5_BYTES], struct err *e) {
    char hex[2 * OBJECT_MD5_BYTES + 1];
    str_hex(hex, md5, OBJECT_MD5_BYTES);
    return strcasecmp(hex, etag) == 0
               ? 0
               : err_set(e, ERR_HASH, "the received bytes have the MD5 %s, and the ETag is %s", hex,
                         etag);
}

static int on_try(struct http_call *c, struct err *e) {
    struct object_range *r = c->ctx;
    (void)e;
    if (r->got)
        r->on_bytes(r, -(int64_t)r->got); // a try begins anew
    r->got = r->held = 0;
    r->seen = false;
    return 0;
}

// Checks with the first bytes whether the answer belongs to the request.
static int check_answer(struct object_range *r, struct err *e) {
    const struct object_want *want = r->want;
    r->seen = true;
    r->kms |= r->call.kms;
    // Some servers give the range and call it 200.
    bool part = r->call.status == 206 ||
                (r->call.status == 200 && r->range[0] && r->call.length == (int64_t)r->len);
    if (part) {
        bool told = r->call.status == 206 || r->call.range[0];
        if (!r->range[0] || (told && !object_range_is(r->call.range, r->from, r->len, want->size)))
            return err_set(e, ERR_FORMAT, "the server sent another range than was asked for (%s)",
                           r->call.range);
        r->ranged = true;
        return 0;
    }
    if (r->call.status != 200)
        return err_set(e, ERR_FORMAT, "the server answers %ld to a read", r->call.status);
    if (r->range[0] && !r->may_be_whole)
        return err_set(e, ERR_FORMAT, "the server sent the whole object instead of a range");
    // It does not know ranges: this one answer is everything.
    if (r->range[0]) {
        r->whole = true;
        r->from = 0;
        r->len = want->size;
    }
    return 0;
}

static int write_piece(struct object_range *r, struct err *e) {
    uint64_t at = r->from + r->got - r->held;
    size_t len = r->held;
    r->held = 0;
    return cas_part_write(&r->part, at, r->piece, len, e);
}

// The bytes come in small parts, of 16 KiB with TLS. Each write to the store costs four calls of
// the system, so it is a whole piece. A piece ends where a unit of the store does.
static int keep(struct object_range *r, const void *p, size_t len, struct err *e) {
    _Static_assert(CAS_UNIT_BYTES % CAS_PIECE_BYTES == 0, "a unit is whole pieces");
    if (!r->piece)
        r->piece = heap_alloc(CAS_PIECE_BYTES);
    for (const char *from = p; len;) {
        size_t left = CAS_PIECE_BYTES - (size_t)((r->from + r->got) % CAS_PIECE_BYTES);
        size_t n = len < left ? len : left;
        memcpy(r->piece + r->held, from, n);
        r->held += n;
        r->got += n;
        from += n;
        len -= n;
        if ((n == left || r->got == r->len) && write_piece(r, e) < 0)
            return -1;
    }
    return 0;
}

static void keep_in_memory(struct object_range *r, const void *p, size_t len) {
    if (!r->call.body.len)
        strbuf_reserve(&r->call.body, (size_t)r->len); // growing costs more than the bytes
    strbuf_add(&r->call.body, p, len);
    r->got += len;
}

static int add(struct object_range *r, const void *p, size_t len, struct err *e) {
    if (len > r->len - r->got)
        return err_set(e, ERR_FORMAT,
                       "the server sent more than the %" PRIu64 " bytes it has "
                       "(did it change?)",
                       r->want->size);
    if (r->in_memory)
        keep_in_memory(r, p, len);
    else if (keep(r, p, len, e) < 0)
        return -1;
    r->on_bytes(r, (int64_t)len);
    return 0;
}

void object_range_expect(struct object_range *r) {
    r->call = (struct http_call){.http = NULL};
    r->got = r->held = 0;
    r->seen = r->whole = r->kms = false;
    r->ranged = true;
}

int object_range_take(struct object_range *r, const void *p, size_t len, struct err *e) {
    if (!r->seen && r->on_answer)
        r->on_answer(r);
    r->seen = true;
    return add(r, p, len, e);
}

static int on_data(struct http_call *c, const void *p, size_t len, struct err *e) {
    struct object_range *r = c->ctx;
    if (!r->seen) {
        if (check_answer(r, e) < 0)
            return -1;
        if (r->on_answer)
            r->on_answer(r);
    }
    return add(r, p, len, e);
}

static void on_end(struct http_call *c, const struct err *e) {
    struct object_range *r = c->ctx;
    struct err why = *e;
    if (c->status == 412 || c->status == 416)
        err_set(&why, ERR_HASH, "it has changed since it was listed (try again)");
    else if (strcmp(c->code, "AccessDenied") == 0 && strstr(why.text, "expired"))
        err_wrap(&why, "the time of its address is over (try again)");
    if (!why.code && r->got != r->len)
        err_set(&why, ERR_FORMAT, "the server sent %" PRIu64 " bytes of %" PRIu64, r->got, r->len);
    r->on_end(r, &why);
}

void object_range_reset(struct object_range *r) {
    struct object_range kept = {.piece = r->piece, .call.body = r->call.body};
    strbuf_clear(&kept.call.body);
    *r = kept;
}

void object_range_begin(struct object_range *r, struct http *http) {
    const struct object_want *want = r->want;
    r->call = (struct http_call){.body = r->call.body,
                                 .method = "GET",
                                 .url = want->url,
                                 .follow = true,
                                 .body_max = OBJECT_SMALL_BYTES_MAX,
                                 .on_try = on_try,
                                 .on_data = on_data,
                                 .on_end = on_end,
                                 .ctx = r};
    r->got = r->held = 0;
    r->seen = r->ranged = r->whole = r->kms = false;
    r->range[0] = '\0';
    if (r->len < want->size) {
        snprintf(r->range, sizeof r->range, "bytes=%" PRIu64 "-%" PRIu64, r->from,
                 r->from + r->len - 1);
        r->call.headers[r->call.header_count++] = (struct http_header){"Range", r->range};
    }
    if (want->etag[0]) {
        snprintf(r->match, sizeof r->match, "\"%s\"", want->etag);
        r->call.headers[r->call.header_count++] = (struct http_header){"If-Match", r->match};
    }
    http_begin(http, &r->call);
}

void object_range_close(struct object_range *r) {
    http_call_close(&r->call);
    free(r->piece);
    r->piece = NULL;
}
