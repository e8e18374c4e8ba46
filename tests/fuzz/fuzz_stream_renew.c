// SPDX-License-Identifier: Apache-2.0
// New addresses from two dtctl: any bytes, in pieces. A byte before each piece says who sends it
// and how long it is. An object gets an address only for its own content, and each connection ends.
#include "base/log.h"
#include "stream/stream_server_impl.h"
#include "tests/fuzz/no_http.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OBJECTS = 3, SENDERS = 2, ENDS_MS = 1000 };

static const char *const PATHS[OBJECTS] = {"a", "b/c", "d"};

static void make(struct stream_server *s, struct stream_object *objects,
                 struct stream_object **sorted) {
    static const char *const names[] = {"set", "two"};
    for (size_t i = 0; i < 2; i++)
        s->store.inputs[i] = (struct stream_input){
            .name = names[i], .ends_ms = ENDS_MS, .first = 2 * i, .count = 2 - i};
    s->store.input_count = 2;
    s->store.inputs[1].ends_ms = 0;
    for (size_t i = 0; i < OBJECTS; i++) {
        objects[i] = (struct stream_object){
            .path = PATHS[i], .index = i, .input = &s->store.inputs[i == OBJECTS - 1]};
        memset(objects[i].want.id, 0x11 * (int)(i + 1), HASH_BYTES);
        objects[i].want.url = "first";
        sorted[i] = &objects[i];
    }
    s->store.objects = objects;
    s->store.count = OBJECTS;
    s->store.slots[0].object = &objects[0];
    s->store.slots[0].range.call.url = "first";
    s->sorted = sorted;
}

// Reads answers, which have numbers of objects.
static void read_answers(int fd) {
    char text[256];
    ssize_t n;
    while ((n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT)) > 0) {
        text[n] = '\0';
        must(strncmp(text, "{\"end\":", 7) == 0 && text[n - 1] == '\n');
    }
}

static void feed(struct stream_server *s, int ends[SENDERS], const uint8_t *data, size_t size) {
    for (size_t at = 0; at < size;) {
        int who = data[at] & 1;
        size_t len = data[at++] >> 1;
        len = len < size - at ? len : size - at;
        if (ends[who] < 0) {
            int pair[2];
            must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
            stream_renew_accept(s, pair[0]);
            ends[who] = pair[1];
        }
        if (len == 0) {
            close(ends[who]);
            ends[who] = -1;
        } else if (send(ends[who], data + at, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
            read_answers(ends[who]);
            close(ends[who]);
            ends[who] = -1;
        }
        loop_once(s->loop, 0);
        at += len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct stream_server s;
    struct stream_object objects[OBJECTS], *sorted[OBJECTS];
    int ends[SENDERS] = {-1, -1};
    struct err e;
    log_open("fuzz", LOG_ERROR, LOG_PLAIN);
    memset(&s, 0, sizeof s);
    make(&s, objects, sorted);
    s.loop = loop_open(&e);
    must(s.loop);
    feed(&s, ends, data, size);
    for (int i = 0; i < 3; i++)
        loop_once(s.loop, 0);
    for (int i = 0; i < SENDERS; i++)
        if (ends[i] >= 0) {
            read_answers(ends[i]);
            close(ends[i]);
        }
    for (int i = 0; i < 3; i++)
        loop_once(s.loop, 0);
    for (size_t i = 0; i < STREAM_RENEW_CONNS_MAX; i++)
        must(!conn_is_open(&s.renew.conns[i].conn));
    for (size_t i = 0; i < OBJECTS; i++) {
        const struct stream_object *o = &objects[i];
        must(o->url ? o->want.url == o->url : strcmp(o->want.url, "first") == 0);
        must(o->want.id[0] == 0x11 * (i + 1));
        free(o->url);
    }
    must(s.store.slots[0].range.call.url == objects[0].want.url);
    must(s.store.inputs[0].ends_ms == 0 || s.store.inputs[0].ends_ms >= ENDS_MS);
    must(s.store.inputs[1].ends_ms == 0);
    strbuf_fini(&s.events);
    loop_close(s.loop);
    return 0;
}
