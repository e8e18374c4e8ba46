// SPDX-License-Identifier: Apache-2.0
// Answers of dtctl to the server of streamed files on a node. The input is a row of actions: bytes
// of any kind, a part of a right answer, a failure, or another connection. An object is whole only
// with its own bytes.
#include "base/bytes.h"
#include "base/log.h"
#include "protocol/source_frames.h"
#include "stream/stream_source.h"
#include "stream/stream_store_impl.h"
#include "sys/file.h"
#include "tests/fuzz/no_http.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OBJECTS = 3, STEPS = 4, PART_BYTES = 16 };
static const size_t SIZES[OBJECTS] = {40, 9, 1};

static struct world {
    struct loop *loop;
    struct stream_store store;
    struct stream_source source;
    int end; // of dtctl; -1: not connected
    struct ask {
        bool used;
        uint64_t file, at, end;
    } asks[OBJECT_CALLS_MAX];
    struct strbuf asked;
} w;

static unsigned char byte_of(uint64_t file, uint64_t at) {
    return (unsigned char)(at * 7 + file * 31);
}

static void make_objects(void) {
    static const char *const names[OBJECTS] = {"x", "y", "z"};
    unsigned char bytes[64];
    struct err e = {0};
    struct stream_input *in = stream_store_input(&w.store, "set", &e);
    must(in);
    in->window = 1 << 20;
    for (size_t i = 0; i < OBJECTS; i++) {
        struct object_want want = {
            .name = names[i], .etag = names[i], .size = SIZES[i], .file = i, .hashed = true};
        for (size_t k = 0; k < SIZES[i]; k++)
            bytes[k] = byte_of(i, k);
        hash_of(want.hash, bytes, SIZES[i]);
        memcpy(want.id, want.hash, HASH_BYTES);
        must(stream_store_add(&w.store, &want, names[i], i, &e) == 0);
    }
    must(stream_store_scan(&w.store, &e) == 0);
}

static void connect_dtctl(void) {
    int pair[2];
    if (w.end >= 0)
        close(w.end);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    stream_source_accept(&w.source, w.loop, pair[0]);
    w.end = pair[1];
    memset(w.asks, 0, sizeof w.asks);
    strbuf_clear(&w.asked);
}

// The requests of the node, which are for its own objects.
static void take_asks(void) {
    char bytes[4096];
    size_t used = 0;
    ssize_t n = w.end < 0 ? -1 : recv(w.end, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0)
        strbuf_add(&w.asked, bytes, (size_t)n);
    for (; w.asked.len - used >= SOURCE_ASK_BYTES; used += SOURCE_ASK_BYTES) {
        const char *p = w.asked.data + used;
        uint32_t slot = (uint32_t)bytes_load(p, 4) & ~(uint32_t)SOURCE_ASK_URGENT;
        uint64_t file = bytes_load(p + 4, 8), from = bytes_load(p + 12, 8);
        uint64_t len = bytes_load(p + 20, 8);
        must(slot < OBJECT_CALLS_MAX && file < OBJECTS && len > 0);
        must(from <= SIZES[file] && len <= SIZES[file] - from);
        w.asks[slot] = (struct ask){true, file, from, from + len};
    }
    strbuf_consume(&w.asked, used);
}

static void step(void) {
    struct err e = {0};
    for (int i = 0; i < STEPS; i++) {
        must(stream_store_step(&w.store, loop_fd(w.loop), 0, &e) == 0);
        loop_once(w.loop, 0);
        take_asks();
    }
}

static void send_frame(int kind, uint32_t slot, const void *p, size_t len) {
    unsigned char head[SOURCE_HEAD_BYTES] = {(unsigned char)kind};
    bytes_store(head + 1, slot, 4);
    bytes_store(head + 5, len, 4);
    (void)!send(w.end, head, sizeof head, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)!send(w.end, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Right bytes, at most len of them; the frame is a whole one.
static void answer(uint32_t slot, size_t len) {
    unsigned char bytes[PART_BYTES];
    struct ask *x = &w.asks[slot % OBJECT_CALLS_MAX];
    len = len < x->end - x->at ? len : (size_t)(x->end - x->at);
    for (size_t i = 0; i < len; i++)
        bytes[i] = byte_of(x->file, x->at + i);
    if (x->used)
        send_frame(SOURCE_BYTES, slot % OBJECT_CALLS_MAX, bytes, len);
    x->at += x->used ? len : 0;
    x->used = x->used && x->at < x->end;
}

static void act(const uint8_t *data, size_t size) {
    for (size_t at = 0; at + 1 < size;) {
        int what = data[at] & 3;
        uint32_t slot = data[at] >> 2 & 15;
        size_t len = data[at + 1], rest = size - at - 2;
        at += 2;
        if (what == 0) {
            len = len < rest ? len : rest;
            (void)!send(w.end, data + at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
            at += len;
        } else if (what == 1) {
            answer(slot, len % PART_BYTES + 1);
        } else if (what == 2) {
            send_frame(len & 1 ? SOURCE_CHANGED : SOURCE_FAILED, slot, "it is gone", 10);
        } else {
            connect_dtctl();
        }
        step();
    }
}

// The object with all its bytes, or none.
static void check(struct stream_object *o) {
    struct stream_reader r = {.object = NULL};
    struct err e = {0};
    unsigned char bytes[64];
    if (o->state != STREAM_WHOLE)
        return;
    must(memcmp(o->hash, o->want.hash, HASH_BYTES) == 0);
    stream_reader_begin(&w.store, &r, o, 0, o->want.size);
    size_t got = 0;
    while (got < o->want.size && stream_reader_ready(&w.store, &r)) {
        ssize_t n = stream_reader_read(&w.store, &r, bytes + got, sizeof bytes - got, &e);
        must(n > 0);
        got += (size_t)n;
    }
    must(got == o->want.size);
    for (size_t i = 0; i < got; i++)
        must(bytes[i] == byte_of(o->want.file, i));
    stream_reader_end(&w.store, &r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char memory[] = "/dev/shm/dtctl-source-XXXXXX", disk[] = "/tmp/dtctl-source-XXXXXX";
    const char *dir = mkdtemp(memory) ? memory : mkdtemp(disk);
    struct stream_reader first = {.object = NULL};
    struct err e = {0};
    log_open("fuzz", LOG_ERROR, LOG_PLAIN);
    must(dir);
    w = (struct world){.end = -1};
    w.loop = loop_open(&e);
    must(w.loop && stream_store_open(&w.store, dir, &e) == 0);
    make_objects();
    w.source = (struct stream_source){.store = &w.store, .listen_fd = -1};
    stream_reader_begin(&w.store, &first, &w.store.objects[0], 0, SIZES[0]);
    connect_dtctl();
    step();
    act(data, size);
    stream_reader_end(&w.store, &first);
    for (size_t i = 0; i < OBJECTS; i++)
        check(&w.store.objects[i]);
    stream_source_close(&w.source, dir);
    close(w.end);
    stream_store_close(&w.store);
    loop_close(w.loop);
    strbuf_fini(&w.asked);
    must(file_remove_tree(dir, &e) == 0);
    return 0;
}
