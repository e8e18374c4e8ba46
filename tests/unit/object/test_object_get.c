// SPDX-License-Identifier: Apache-2.0
// Reading many objects: their checks do not stop the transfers, and a failure ends them. A server
// of zeros stands in for libcurl.
#include "object/object_get.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/bytes_read.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS_MAX = 64, MIB = 1 << 20 };
#define LARGE_BYTES ((uint64_t)40 * MIB)

// ---- the server ---------------------------------------------------------------------------------

static struct http_call *calls[CALLS_MAX];
static int steps;        // of the server
static int held_until;   // the step that answers requests for "held"
static uint64_t given;   // bytes of the large object
static int step_of_last; // the step that gave the last of them
static char spoilt;      // the first byte of every answer
static bool held_fails;
static bool says_200;  // to requests for a range that it answers with the range, as rclone does
static uint64_t total; // of the last progress

void http_begin(struct http *h, struct http_call *c) {
    (void)h;
    for (size_t i = 0; i < CALLS_MAX; i++)
        if (!calls[i]) {
            calls[i] = c;
            return;
        }
    abort();
}

static void answer(struct http_call *c) {
    static char zeros[MIB];
    struct err none = {0};
    bool large = strcmp(c->url, "large") == 0;
    if (!large && held_fails) {
        err_set(&none, ERR_NET, "no route");
        c->on_end(c, &none);
        return;
    }
    uint64_t from = 0, to = strcmp(c->url, "held") == 0 ? 10 : LARGE_BYTES - 1;
    c->status = 200;
    for (size_t i = 0; i < c->header_count; i++)
        if (strcmp(c->headers[i].name, "Range") == 0 &&
            sscanf(c->headers[i].value, "bytes=%" SCNu64 "-%" SCNu64, &from, &to) == 2) {
            c->status = says_200 ? 200 : 206;
            c->length = (int64_t)(to + 1 - from);
            snprintf(c->range, says_200 ? 0 : sizeof c->range,
                     "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from, to, LARGE_BYTES);
        }
    for (uint64_t at = from; at <= to; at += sizeof zeros) {
        size_t n = to + 1 - at < sizeof zeros ? (size_t)(to + 1 - at) : sizeof zeros;
        zeros[0] = spoilt;
        must(c->on_data(c, zeros, n, &none) == 0);
    }
    given += large ? to + 1 - from : 0;
    if (large && given == LARGE_BYTES)
        step_of_last = steps;
    c->on_end(c, &none);
}

int http_step(struct http *h, int timeout_ms, struct err *e) {
    (void)h;
    (void)timeout_ms;
    (void)e;
    steps++;
    for (size_t i = 0; i < CALLS_MAX; i++) {
        struct http_call *c = calls[i];
        if (!c || (strcmp(c->url, "held") == 0 && steps < held_until))
            continue;
        calls[i] = NULL;
        answer(c);
    }
    return 0;
}

void http_wake(struct http *h) {
    (void)h;
}

void http_call_close(struct http_call *c) {
    strbuf_fini(&c->body);
}

// ---- the reader ---------------------------------------------------------------------------------

static int step_of[2]; // in which an object was complete
static unsigned char hash_of_large[HASH_BYTES];

static int on_object(void *ctx, size_t i, const unsigned char hash[HASH_BYTES], struct err *e) {
    (void)ctx;
    (void)e;
    step_of[i] = steps;
    if (i == 0)
        memcpy(hash_of_large, hash, HASH_BYTES);
    return 0;
}

static bool stored;           // the store has the large object, with an unknown stat
static int silent_calls = -1; // of on_progress, before one that ends the work; -1: none does
static uint64_t read_before, most_read;

static int on_progress(void *ctx, uint64_t done, uint64_t all, struct err *e) {
    uint64_t now = bytes_read();
    (void)ctx;
    (void)done;
    total = all;
    most_read = now - read_before > most_read ? now - read_before : most_read;
    read_before = bytes_read();
    return silent_calls-- == 0 ? err_set(e, ERR_NET, "the operator is gone") : 0;
}

static void store_large(struct cas *store, struct object_want *want) {
    struct arena a = {0};
    struct err e;
    const char *path = cas_object_path(store, hash_of_large);
    must(file_make_dirs(file_dir(&a, path), 0755, &e) == 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
    must(fd >= 0 && ftruncate(fd, (off_t)LARGE_BYTES) == 0);
    close(fd);
    memcpy(want->hash, hash_of_large, HASH_BYTES);
    want->hashed = true;
    arena_fini(&a);
}

static int get(const char *etag, struct err *e) {
    char dir[] = "/tmp/dtctl-get-XXXXXX";
    struct object_want wants[2] = {
        {.name = "large", .url = "large", .etag = etag, .size = LARGE_BYTES, .id = {1}},
        {.name = "held", .url = "held", .etag = "", .size = 11, .id = {2}},
    };
    struct cas store;
    struct known known;
    struct err ignored = {0};
    memset(calls, 0, sizeof calls);
    steps = step_of_last = step_of[0] = step_of[1] = 0;
    given = 0;
    must(mkdtemp(dir) && cas_open(&store, dir, e) == 0);
    char path[64];
    snprintf(path, sizeof path, "%s/known", dir);
    must(known_open(&known, path, e) == 0);
    if (stored)
        store_large(&store, &wants[0]);
    most_read = 0;
    read_before = bytes_read();
    struct object_get g = {.store = &store,
                           .known = &known,
                           .wants = wants,
                           .count = 2,
                           .on_object = on_object,
                           .on_progress = on_progress};
    int result = object_get_all(&g, e);
    known_close(&known);
    (void)cas_close(&store, true, &ignored);
    must(file_remove_tree(dir, &ignored) == 0);
    return result;
}

static void steps_go_on(const char *etag, const char *what) {
    struct err e = {0};
    held_until = 4;
    if (!ok(get(etag, &e) == 0, "both objects come (%s)", what))
        printf("# %s\n", e.text);
    is_int((long long)total, (long long)LARGE_BYTES + 11, "the progress counts both (%s)", what);
    ok(step_of[0] > step_of_last + 2, "the server goes on while a large object is checked (%s)",
       what);
    ok(step_of[1] >= 4 && step_of[1] < step_of[0], "another object comes meanwhile (%s)", what);
}

// The thread of the check ends with the transfers, long before it has hashed the whole object.
static void ends_with_a_failure(void) {
    struct err e = {0};
    held_until = 2;
    held_fails = true;
    is_int(get("not-an-md5", &e), -1, "a failure of one object ends all");
    has_str(e.text, "'held': no route", "the error names it");
    ok(step_of[0] == 0, "the large one was not complete");
    held_fails = false;
}

// An object whose stat is unknown, as after a reboot, is hashed before anything is read.
static void tells_while_it_looks(void) {
    enum { LOOK_BYTES = 32 * MIB };
    struct err e = {0};
    stored = true;
    held_until = 1;
    is_int(get("not-an-md5", &e), 0, "an object is in the store: %s", e.text);
    is_uint(given, 0, "the server gives nothing of it again");
    ok(most_read > MIB && most_read <= LOOK_BYTES + MIB,
       "progress is shown while an object is hashed: %d MiB", (int)(most_read / MIB));
    silent_calls = 0;
    is_int(get("not-an-md5", &e), -1, "a check ends when its progress cannot be sent");
    is_str(e.text, "the operator is gone", "the error is its own");
    is_int(steps, 0, "no request is made then");
    silent_calls = -1;
    stored = false;
}

// The kernel refuses a thread to a user who has a process already.
static void works_without_threads(void) {
    enum { NOBODY = 65534 };
    pid_t pid = fork();
    if (pid == 0) {
        struct err e = {0};
        struct rlimit one = {1, 1};
        held_until = 1;
        must(setrlimit(RLIMIT_NPROC, &one) == 0 && (getuid() != 0 || setuid(NOBODY) == 0));
        _exit(get("ec8bb3b24d5b0f1b5bdf8c8f0f541ee6", &e) != 0 || step_of[0] > step_of_last + 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    is_int(status, 0, "without threads the objects are checked in turn");
}

int main(void) {
    char hex[HASH_HEX_BYTES];
    struct err e = {0};
    steps_go_on("not-an-md5", "SHA-256");
    hash_hex(hex, hash_of_large);
    is_str(hex, "80a3721188e40218b08b26776bc53bdae81e4784fff71d71450a197319cba113",
           "the hash is that of 40 MiB of zeros");
    says_200 = true;
    steps_go_on("ec8bb3b24d5b0f1b5bdf8c8f0f541ee6", "SHA-256 and MD5, ranges answered with 200");
    says_200 = false;
    ends_with_a_failure();
    tells_while_it_looks();
    works_without_threads();
    spoilt = 1;
    is_int(get("ec8bb3b24d5b0f1b5bdf8c8f0f541ee6", &e), -1, "wrong bytes are refused");
    has_str(e.text, "'large': the received bytes have the MD5", "the error has object and MD5");
    return done_testing();
}
