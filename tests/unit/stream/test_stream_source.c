// SPDX-License-Identifier: Apache-2.0
// The connection to the operator's computer: requests for ranges, frames with bytes or failures,
// frames that end the connection, and the process that carries bytes. The store is a stand-in.
#include "stream/stream_source.h"

#include "base/bytes.h"
#include "protocol/source_frames.h"
#include "stream/stream_store_impl.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/agent/done.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 10000, SLOT = 3 };

static struct err e;
static struct loop *loop;
static struct stream_store store;
static struct stream_object objects[2];
static struct stream_source source;
static char root[] = "/tmp/test_stream_source.XXXXXX";
static int peer = -1; // the operator's end

// ---- in place of the store ----------------------------------------------------------------------

bool stream_source_asks(const struct stream_store *s, size_t slot) {
    return s == &store && (slot == SLOT || slot == OBJECT_CALLS_MAX - 1);
}

void stream_source_bytes(struct stream_store *s, size_t slot, const void *p, size_t len) {
    (void)s;
    note("bytes %zu %zu %.*s;", slot, len, len < 8 ? (int)len : 0, (const char *)p);
}

void stream_source_failed(struct stream_store *s, size_t slot, const struct err *err) {
    (void)s;
    note("%s %zu %s;", err->code == ERR_HASH ? "changed" : "failed", slot, err->text);
}

void stream_source_lost(struct stream_store *s) {
    note("lost%s;", s->ask ? " but asks" : "");
}

// ---- frames -------------------------------------------------------------------------------------

static void turn(void) {
    for (int i = 0; i < 8; i++)
        loop_once(loop, 0);
}

static void begin(void) {
    int pair[2];
    if (peer >= 0)
        close(peer);
    source.store = &store;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        bail_out("no sockets");
    stream_source_accept(&source, loop, pair[0]);
    peer = pair[1];
    done[0] = '\0';
}

static void put(int kind, size_t slot, const char *text, size_t len, size_t sent) {
    unsigned char *frame = calloc(1, SOURCE_HEAD_BYTES + len);
    frame[0] = (unsigned char)kind;
    bytes_store(frame + 1, slot, 4);
    bytes_store(frame + 5, len, 4);
    if (text)
        memcpy(frame + SOURCE_HEAD_BYTES, text, len);
    for (size_t at = 0; at < sent;) {
        ssize_t n = send(peer, frame + at, sent - at, MSG_NOSIGNAL);
        if (n > 0)
            at += (size_t)n;
        turn();
    }
    free(frame);
    turn();
}

static void say(int kind, size_t slot, const char *text) {
    put(kind, slot, text, strlen(text), SOURCE_HEAD_BYTES + strlen(text));
}

static void test_asks(void) {
    unsigned char frame[SOURCE_ASK_BYTES + 1];
    struct stream_slot x = {.object = &objects[0], .range = {.from = 70000000000, .len = 5}};
    objects[0].want.file = 9;
    begin();
    store.ask(store.ask_ctx, SLOT, &x);
    turn();
    is_int(read(peer, frame, sizeof frame), SOURCE_ASK_BYTES, "a range is asked for");
    ok(bytes_load(frame, 4) == SLOT && bytes_load(frame + 4, 8) == 9 &&
           bytes_load(frame + 12, 8) == 70000000000 && bytes_load(frame + 20, 8) == 5,
       "the request has slot, file and range");
    x.urgent = true;
    store.ask(store.ask_ctx, SLOT, &x);
    turn();
    ok(read(peer, frame, sizeof frame) == SOURCE_ASK_BYTES &&
           bytes_load(frame, 4) == (SLOT | SOURCE_ASK_URGENT),
       "a request of a reader is urgent");
}

static void test_answers(void) {
    begin();
    say(SOURCE_BYTES, SLOT, "abc");
    is_done("bytes 3 3 abc;", "bytes come to their slot");
    say(SOURCE_BYTES, SLOT, "");
    is_done("bytes 3 0 ;", "a frame may be empty");
    say(SOURCE_CHANGED, OBJECT_CALLS_MAX - 1, "other size");
    is_done("changed 15 other size;", "a file may have changed");
    say(SOURCE_FAILED, SLOT, "no such file");
    is_done("failed 3 no such file;", "a file may not be readable");
    put(SOURCE_BYTES, SLOT, "abcdef", 6, SOURCE_HEAD_BYTES - 1);
    is_done("", "a head may be incomplete");
    begin();
    put(SOURCE_BYTES, SLOT, "abcdef", 6, SOURCE_HEAD_BYTES + 5);
    is_done("", "a frame may be incomplete");
    ok(send(peer, "f\1", 2, MSG_NOSIGNAL) == 2, "the rest comes later");
    turn();
    is_done("bytes 3 6 abcdef;", "the frame is taken when it is whole");
    begin();
    put(SOURCE_BYTES, SLOT, NULL, SOURCE_ANSWER_BYTES_MAX,
        SOURCE_HEAD_BYTES + SOURCE_ANSWER_BYTES_MAX);
    is_done("bytes 3 262144 ;", "the largest frame is taken");
    char text[2 * ERR_TEXT_BYTES_MAX];
    memset(text, 'x', sizeof text);
    put(SOURCE_FAILED, SLOT, text, sizeof text, SOURCE_HEAD_BYTES + sizeof text);
    ok(strncmp(done, "failed 3 xxx", 12) == 0, "a long failure is cut");
}

static void test_refused(void) {
    static const struct {
        int kind;
        size_t slot, len;
    } cases[] = {{SOURCE_BYTES, 0, 1},
                 {SOURCE_BYTES, OBJECT_CALLS_MAX, 1},
                 {0, SLOT, 1},
                 {SOURCE_FAILED + 1, SLOT, 1},
                 {SOURCE_BYTES, SLOT, SOURCE_ANSWER_BYTES_MAX + 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        put(cases[i].kind, cases[i].slot, NULL, cases[i].len, SOURCE_HEAD_BYTES + 1);
        is_done("lost;", "a wrong frame ends the connection");
        ok(!store.ask && !conn_is_open(&source.conn), "nothing is asked for after frame %zu", i);
    }
}

static void test_connections(void) {
    begin();
    int first = peer;
    peer = -1;
    begin();
    char byte;
    ok(recv(first, &byte, 1, 0) <= 0 && store.ask, "a newer connection takes the place");
    close(first);
    close(peer);
    peer = -1;
    turn();
    is_done("lost;", "the end of the connection is noticed");
    ok(!store.ask, "nothing can be asked for");
    begin();
    int second = peer;
    peer = -1;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        bail_out("no sockets");
    stream_source_accept(&source, loop, pair[0]);
    is_done("lost;", "ranges of the older connection are lost");
    close(second);
    close(pair[1]);
    turn();
}

// ---- the socket and its carrier -----------------------------------------------------------------

static int to[2], from[2];

static pid_t carrier(void) {
    if (pipe(to) < 0 || pipe(from) < 0)
        bail_out("no pipes");
    pid_t pid = fork();
    if (pid == 0) {
        struct err why;
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        close(from[0]);
        _exit(stream_source_carry(root, &why) < 0 ? 7 : 0);
    }
    close(to[0]);
    close(from[1]);
    return pid;
}

static void test_carry(void) {
    char text[64];
    int status = 0;
    store.objects = objects;
    store.count = 2;
    objects[0].want.url = objects[1].want.url = "https://x";
    ok(stream_source_listen(&source, &store, root, &e) == 0 && source.listen_fd < 0,
       "files with addresses need no socket");
    is_int(stream_source_open(&source, loop, &e), 0, "nothing is opened then");
    objects[1].want.url = NULL;
    ok(stream_source_listen(&source, &store, root, &e) == 0 && source.listen_fd >= 0,
       "a file without an address needs the socket");
    is_int(stream_source_open(&source, loop, &e), 0, "the socket is opened");
    pid_t pid = carrier();
    for (int i = 0; i < 1000 && !store.ask; i++)
        loop_once(loop, 10);
    ok(store.ask, "the carrier connects");
    unsigned char frame[SOURCE_HEAD_BYTES + 2] = {SOURCE_BYTES, SLOT, 0, 0, 0, 2, 0, 0, 0,
                                                  'h',          'i'};
    done[0] = '\0';
    ok(write(to[1], frame, sizeof frame) == sizeof frame, "the operator sends a frame");
    for (int i = 0; i < 1000 && !done[0]; i++)
        loop_once(loop, 10);
    is_done("bytes 3 2 hi;", "the carrier brings bytes to the server");
    struct stream_slot x = {.object = &objects[1]};
    store.ask(store.ask_ctx, SLOT, &x);
    turn();
    struct pollfd p = {.fd = from[0], .events = POLLIN};
    ok(poll(&p, 1, WAIT_MS) == 1 && read(from[0], text, sizeof text) == SOURCE_ASK_BYTES,
       "the carrier brings requests to the operator");
    close(to[1]);
    waitpid(pid, &status, 0);
    is_int(status, 0, "the carrier ends with its input");
    close(from[0]);
    turn();
    stream_source_close(&source, root);
    struct arena a = {0};
    ok(file_is_absent(file_join(&a, root, STREAM_SOURCE_SOCKET)), "the end removes the socket");
    arena_fini(&a);
    pid = carrier();
    waitpid(pid, &status, 0);
    is_int(WEXITSTATUS(status), 7, "without a server there is nothing to carry");
    close(to[1]);
    close(from[0]);
}

int main(void) {
    loop = loop_open(&e);
    if (!mkdtemp(root) || !loop)
        bail_out("no folder or loop");
    source.listen_fd = -1;
    test_asks();
    test_answers();
    test_refused();
    test_connections();
    test_carry();
    file_remove_tree(root, &e);
    loop_close(loop);
    return done_testing();
}
