// SPDX-License-Identifier: Apache-2.0
// Reading many objects: which ranges are asked for and when, what an earlier time has left, what is
// known already, and what ends the work. The test is the server, in place of libcurl.
#include "object/object_get.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CALLS_MAX = 64, WANTS_MAX = 24, UNIT = CAS_UNIT_BYTES, RANGE = OBJECT_RANGE_BYTES };

// ---- the server ---------------------------------------------------------------------------------

static struct http_call *calls[CALLS_MAX]; // asked for, in order, without an answer
static size_t call_count;
static struct strbuf asked; // "url:first-last " or "url " of each request; "| " ends a step
static bool ignores_ranges; // the server sends all of an object
static int fails_at;        // the request that gets an error, counted from 1; 0: none
static int answered;

static const struct object_want *want_of(const struct http_call *c) {
    return ((const struct object_range *)c->ctx)->want;
}

void http_begin(struct http *h, struct http_call *c) {
    const char *range = NULL;
    (void)h;
    must(call_count < CALLS_MAX);
    calls[call_count++] = c;
    for (size_t i = 0; i < c->header_count; i++)
        if (strcmp(c->headers[i].name, "Range") == 0)
            range = c->headers[i].value + strlen("bytes=");
    strbuf_addf(&asked, "%s%s%s ", c->url, range ? ":" : "", range ? range : "");
}

static void answer(struct http_call *c) {
    static char bytes[UNIT];
    const struct object_want *want = want_of(c);
    struct err e = {0};
    uint64_t from = 0, to = want->size;
    c->status = 200;
    for (size_t i = 0; i < c->header_count && !ignores_ranges; i++)
        if (sscanf(c->headers[i].value, "bytes=%" SCNu64 "-%" SCNu64, &from, &to) == 2) {
            c->status = 206;
            snprintf(c->range, sizeof c->range, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from, to,
                     want->size);
            to++;
        }
    memset(bytes, want->name[0], sizeof bytes);
    for (; from < to && e.code == ERR_NONE; from += sizeof bytes)
        c->on_data(c, bytes, to - from < sizeof bytes ? (size_t)(to - from) : sizeof bytes, &e);
    if (++answered == fails_at)
        err_set(&e, ERR_NET, "no route");
    c->on_end(c, &e);
}

// Everything that was asked for is answered.
int http_step(struct http *h, int timeout_ms, struct err *e) {
    struct http_call *now[CALLS_MAX];
    size_t count = call_count;
    (void)h;
    (void)timeout_ms;
    (void)e;
    if (count)
        strbuf_adds(&asked, "| ");
    memcpy(now, calls, sizeof now);
    call_count = 0;
    for (size_t i = 0; i < count; i++)
        answer(now[i]);
    usleep(count ? 0 : 1000); // checks have threads of their own
    return 0;
}

void http_wake(struct http *h) {
    (void)h;
}

void http_call_close(struct http_call *c) {
    strbuf_fini(&c->body);
}

// ---- the reader ---------------------------------------------------------------------------------

static char folder[] = "/tmp/test_object_get.XXXXXX";
static struct arena a;
static struct object_want wants[WANTS_MAX];
static size_t want_count;
static unsigned char hashes[WANTS_MAX][HASH_BYTES];
static int ends[WANTS_MAX]; // so often an object was there
static int refuses_object = -1;
static bool refuses_progress;
static uint64_t done_last, done_most, total_last, bytes_read;
static struct err e;

static void add(const char *name, uint64_t size, const char *etag) {
    struct object_want *w = &wants[want_count++];
    *w = (struct object_want){.name = name, .url = name, .etag = etag, .size = size};
    hash_of(w->id, name, strlen(name));
}

static int on_object(void *ctx, size_t i, const unsigned char hash[HASH_BYTES], struct err *why) {
    (void)ctx;
    ends[i]++;
    memcpy(hashes[i], hash, HASH_BYTES);
    return (int)i == refuses_object ? err_set(why, ERR_FAILED, "not wanted") : 0;
}

static int on_progress(void *ctx, uint64_t done, uint64_t total, struct err *why) {
    (void)ctx;
    done_last = done;
    done_most = done > done_most ? done : done_most;
    total_last = total;
    return refuses_progress ? err_set(why, ERR_NET, "the operator is gone") : 0;
}

static void forget(void) {
    want_count = 0;
    fails_at = 0;
    ignores_ranges = false;
}

// Begins without content and without objects.
static void begin(void) {
    if (file_remove_tree(folder, &e) < 0 || file_make_dirs(folder, 0700, &e) < 0)
        bail_out("%s", e.text);
    forget();
}

// Reads the objects that were added, into the content that is there.
static int get(void) {
    struct cas store;
    struct known known;
    struct err ignored = {0};
    err_clear(&e);
    strbuf_clear(&asked);
    call_count = 0;
    answered = 0;
    done_most = 0;
    memset(ends, 0, sizeof ends);
    if (cas_open(&store, file_join(&a, folder, "cas"), &e) < 0 ||
        known_open(&known, file_join(&a, folder, "known"), &e) < 0)
        bail_out("%s", e.text);
    struct object_get g = {.store = &store,
                           .known = &known,
                           .wants = wants,
                           .count = want_count,
                           .on_object = on_object,
                           .on_progress = on_progress};
    int rc = object_get_all(&g, &e);
    bytes_read = g.bytes_read;
    known_close(&known);
    (void)cas_close(&store, false, &ignored);
    return rc;
}

static bool is_hash_of(size_t i, uint64_t size) {
    unsigned char want[HASH_BYTES];
    char *text = heap_alloc((size_t)size + 1);
    memset(text, wants[i].name[0], (size_t)size);
    hash_of(want, text, (size_t)size);
    free(text);
    return memcmp(want, hashes[i], HASH_BYTES) == 0;
}

// ---- the order ----------------------------------------------------------------------------------

#define LARGE_BYTES (2 * (uint64_t)RANGE + 5)

static void test_order(void) {
    begin();
    add("empty", 0, "e");
    add("small", 10, "e");
    add("large", LARGE_BYTES, "not-an-md5");
    add("bare", LARGE_BYTES, "");
    is_int(get(), 0, "all objects come: %s", e.text);
    is_str(strbuf_cstr(&asked),
           "empty small large:0-8388607 bare | large:8388608-16777215 large:16777216-16777220 | ",
           "a large object is tried with one range, then the others are asked for");
    for (size_t i = 0; i < want_count; i++)
        ok(ends[i] == 1 && is_hash_of(i, wants[i].size), "'%s' is reported once, with its hash",
           wants[i].name);
    is_uint(bytes_read, 10 + 2 * LARGE_BYTES, "the bytes are counted");
    is_uint(done_last, 10 + 2 * LARGE_BYTES, "the progress ends with all bytes");
    is_uint(total_last, done_last, "the total is that of all objects");
    begin();
    ignores_ranges = true;
    add("large", LARGE_BYTES, "not-an-md5");
    is_int(get(), 0, "a server may not know ranges: %s", e.text);
    is_str(strbuf_cstr(&asked), "large:0-8388607 | ", "one answer has all bytes");
    ok(is_hash_of(0, LARGE_BYTES), "the object of one answer has its hash");
    begin();
    add("one", RANGE, "not-an-md5");
    add("most", OBJECT_SMALL_BYTES_MAX, "not-an-md5");
    is_int(get(), 0, "objects of one range come: %s", e.text);
    is_str(strbuf_cstr(&asked), "one most | ", "an object of one range is asked for as a whole");
    begin();
    is_int(get(), 0, "nothing may be wanted: %s", e.text);
    is_str(strbuf_cstr(&asked), "", "nothing is asked for");
    begin();
    for (int i = 0; i < OBJECT_CALLS_MAX + 2; i++)
        add(arena_printf(&a, "%c", 'a' + i), 1, "");
    is_int(get(), 0, "many objects come: %s", e.text);
    is_str(strbuf_cstr(&asked), "a b c d e f g h i j k l m n o p | q r | ",
           "sixteen requests are under way at a time");
    is_uint(bytes_read, OBJECT_CALLS_MAX + 2, "every byte is counted");
    begin();
    add("bare", LARGE_BYTES, "");
    is_int(get(), 0, "an object of one request comes: %s", e.text);
    is_uint(done_most, LARGE_BYTES, "the progress never passes the total");
}

// ---- an earlier time ----------------------------------------------------------------------------

static void test_again(void) {
    begin();
    add("small", 10, "e");
    add("large", LARGE_BYTES, "not-an-md5");
    fails_at = 4;
    is_int(get(), -1, "a request may fail");
    is_str(e.text, "'large': no route", "the error has the object");
    is_int(e.code, ERR_NET, "the error is the request's");
    fails_at = 0;
    is_int(get(), 0, "the rest comes later: %s", e.text);
    ok(is_hash_of(0, 10) && is_hash_of(1, LARGE_BYTES), "both objects are complete");
    ok(!strstr(strbuf_cstr(&asked), "small"), "an object that is there is not read again");
    ok(!strstr(strbuf_cstr(&asked), "large:0-"), "units that are there are not read again");
    ok(bytes_read < LARGE_BYTES, "fewer bytes are read");
    is_uint(done_last, LARGE_BYTES + 10, "units that were there count as done");
    is_int(get(), 0, "all is there: %s", e.text);
    is_str(strbuf_cstr(&asked), "", "nothing is asked for");
    ok(ends[0] == 1 && ends[1] == 1 && is_hash_of(1, LARGE_BYTES),
       "objects are reported all the same");
    is_uint(bytes_read, 0, "no byte is read");
    // A part whose units were all written, but which was not checked.
    struct cas store;
    begin();
    add("large", LARGE_BYTES, "not-an-md5");
    struct cas_part part;
    static char piece[CAS_PIECE_BYTES];
    memset(piece, 'l', sizeof piece);
    if (cas_open(&store, file_join(&a, folder, "cas"), &e) < 0 ||
        cas_part_open(&store, &part, wants[0].id, LARGE_BYTES, &e) < 0)
        bail_out("%s", e.text);
    for (uint64_t at = 0, n = sizeof piece; at < LARGE_BYTES; at += n) {
        n = LARGE_BYTES - at < n ? LARGE_BYTES - at : n;
        if (cas_part_write(&part, at, piece, (size_t)n, &e) < 0)
            bail_out("%s", e.text);
    }
    cas_part_close(&part);
    (void)cas_close(&store, false, &e);
    is_int(get(), 0, "an object is complete but not checked: %s", e.text);
    is_str(strbuf_cstr(&asked), "", "a check needs no request");
    ok(is_hash_of(0, LARGE_BYTES), "the checked object has its hash");
}

// ---- what is known ------------------------------------------------------------------------------

static void test_known(void) {
    begin();
    add("bare", 10, "");
    is_int(get(), 0, "an object without an ETag comes: %s", e.text);
    is_int(get(), 0, "an object without an ETag comes again: %s", e.text);
    is_str(strbuf_cstr(&asked), "bare | ", "content without an ETag may be other content");
    memcpy(wants[0].hash, hashes[0], HASH_BYTES);
    wants[0].hashed = true;
    is_int(get(), 0, "a hash that is given is enough: %s", e.text);
    is_str(strbuf_cstr(&asked), "", "content that the store has is not read");
    add("named", 10, "e");
    memcpy(wants[1].hash, hashes[0], HASH_BYTES);
    wants[1].hashed = true;
    is_int(get(), 0, "another object may have the same content: %s", e.text);
    is_str(strbuf_cstr(&asked), "", "the same content is not read");
    wants[1].hashed = false;
    is_int(get(), 0, "the hash of an object has become known: %s", e.text);
    is_str(strbuf_cstr(&asked), "", "an object with a known hash is not read");
    ok(memcmp(hashes[1], hashes[0], HASH_BYTES) == 0, "both have the hash");
    wants[1].hashed = true;
    wants[1].hash[0] ^= 1;
    is_int(get(), 0, "another hash may be given: %s", e.text);
    ok(memcmp(hashes[1], hashes[0], HASH_BYTES) == 0, "the known hash is taken where it is there");
    forget();
    add("empty", 0, "");
    wants[0].hashed = true;
    hash_of(wants[0].hash, "", 0);
    is_int(get(), 0, "nothing is always there: %s", e.text);
    is_str(strbuf_cstr(&asked), "", "nothing is not read");
}

// ---- ends ---------------------------------------------------------------------------------------

static void test_ends(void) {
    begin();
    add("huge", UINT64_C(1) << 60, "e");
    is_int(get(), -1, "an object may be larger than the disk");
    is_int(e.code, ERR_LIMIT, "the disk is the limit");
    has_str(e.text, "free, and the input needs 1.2 EB", "the error has both sizes");
    is_str(strbuf_cstr(&asked), "", "the disk is looked at before a request is made");
    begin();
    add("small", 10, "e");
    add("other", 10, "e");
    refuses_object = 0;
    is_int(get(), -1, "the caller may refuse an object");
    has_str(e.text, "not wanted", "the error is the caller's");
    is_int(get(), -1, "the caller may refuse an object that is there");
    is_str(e.text, "not wanted", "the error is the caller's, too");
    refuses_object = -1;
    refuses_progress = true;
    begin();
    add("small", 10, "e");
    is_int(get(), -1, "the caller may be gone");
    has_str(e.text, "the operator is gone", "the error has the reason");
    refuses_progress = false;
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    test_order();
    test_again();
    test_known();
    test_ends();
    file_remove_tree(folder, &e);
    strbuf_fini(&asked);
    arena_fini(&a);
    return done_testing();
}
