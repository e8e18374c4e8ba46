// SPDX-License-Identifier: Apache-2.0
// Ranges of a streamed input, from a server that cuts answers, refuses, and sends what is none.
#include "data/served.h"

#include "base/str.h"
#include "sys/file.h"
#include "sys/net.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static struct err e;
static char dir[64];
static int listen_fd, port;

// ---- answers ------------------------------------------------------------------------------------

static ssize_t parse(const char *text, struct served_answer *a) {
    return served_answer_parse(text, strlen(text), a);
}

static void test_answers(void) {
    struct served_answer a;
    const char good[] = "HTTP/1.1 206 Partial Content\r\ncontent-LENGTH:  12\r\n\r\n";
    is_int(parse(good, &a), (int64_t)strlen(good), "a head is read");
    ok(a.status == 206 && a.length == 12 && !a.closes, "the head has a status and a length");
    ok(parse("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", &a) >
               0 &&
           a.status == 404 && a.closes,
       "a connection that ends");
    is_int(parse("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n", &a), 0, "half a head");
    static const char *const bad[] = {
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 100 Continue\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 2\r\n\r\n",
        "\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno field\r\n\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_int(parse(bad[i], &a), -1, "none: case %zu", i);
    static char endless[SERVED_HEAD_BYTES_MAX];
    memset(endless, 'x', sizeof endless);
    is_int(served_answer_parse(endless, sizeof endless, &a), -1, "a head without an end");
}

// ---- lists --------------------------------------------------------------------------------------

static const char *in_dir(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void put_lists(const char *urls, const char *list) {
    if (file_write_atomic(in_dir("urls"), urls, strlen(urls), 0600, &e) < 0 ||
        file_write_atomic(in_dir("list"), list, strlen(list), 0600, &e) < 0)
        bail_out("%s", e.text);
}

static void test_lists(void) {
    struct served s;
    ok(!served_is(dir), "a folder without lists is no streamed input");
    put_lists("http://127.0.0.1:5/s/x/b\nhttp://127.0.0.1:5/s/x/a%20c\n",
              "{\"path\":\"b\",\"size\":7}\n{\"path\":\"a c\",\"size\":9}\n");
    ok(served_is(dir), "with them it is");
    is_int(served_open(&s, dir, &e), 0, "the lists are read");
    const struct served_object *o = served_find(&s, "a c");
    ok(o && o->bytes == 9 && strcmp(o->target, "/s/x/a%20c") == 0, "an object is found by path");
    ok(!served_find(&s, "c"), "no other object is found");
    served_close(&s);
    static const char *const bad[][2] = {
        {"http://127.0.0.1:5/a\n", "{\"path\":\"../a\",\"size\":1}\n"},
        {"http://127.0.0.1:5/a\n", "{\"path\":\"a\"}\n"},
        {"http://127.0.0.1:5/a\n", "nothing\n"},
        {"http://127.0.0.1:5/a\n", "{\"path\":\"a\",\"size\":1}\n{\"path\":\"b\",\"size\":1}\n"},
        {"http://127.0.0.1:0/a\n", "{\"path\":\"a\",\"size\":1}\n"},
        {"http://127.0.0.1:5\n", "{\"path\":\"a\",\"size\":1}\n"},
        {"http://127.0.0.1:5/a b\n", "{\"path\":\"a\",\"size\":1}\n"},
        {"http://10.0.0.1:5/a\n", "{\"path\":\"a\",\"size\":1}\n"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_lists(bad[i][0], bad[i][1]);
        is_int(served_open(&s, dir, &e), -1, "refused: %s", e.text);
        served_close(&s);
    }
}

// ---- reads --------------------------------------------------------------------------------------

// The bytes that the server sends to each connection in turn, after its request; NULL: the end.
static const char *const *script;

static void *serve(void *ignored) {
    (void)ignored;
    for (size_t i = 0; script[i]; i++) {
        char in[4096];
        int fd = accept(listen_fd, NULL, NULL);
        if (fd < 0 || recv(fd, in, sizeof in, 0) < 0)
            break;
        if (send(fd, script[i], strlen(script[i]), MSG_NOSIGNAL) < 0)
            break;
        shutdown(fd, SHUT_WR);
        while (recv(fd, in, sizeof in, 0) > 0)
            continue;
        close(fd);
    }
    return NULL;
}

// Reads bytes 2 to 6 of an object that has 8.
static int read_by(const char *const *answers, char out[6]) {
    struct served s;
    struct served_link *link = NULL;
    pthread_t thread;
    script = answers;
    memset(out, 0, 6);
    if (served_open(&s, dir, &e) < 0 || pthread_create(&thread, NULL, serve, NULL))
        bail_out("%s", e.text);
    int result = served_read(&s, &link, served_find(&s, "a"), 2, 5, out, &e);
    served_link_close(link);
    pthread_join(thread, NULL);
    served_close(&s);
    return result;
}

#define HEAD(status, length) "HTTP/1.1 " status "\r\nContent-Length: " length "\r\n\r\n"

static void test_reads(void) {
    struct strbuf urls = {0};
    char got[6];
    if (net_listen("127.0.0.1", 0, &listen_fd, &port, &e) < 0)
        bail_out("%s", e.text);
    fcntl(listen_fd, F_SETFL, 0);
    strbuf_addf(&urls, "http://127.0.0.1:%d/a\n", port);
    put_lists(strbuf_cstr(&urls), "{\"path\":\"a\",\"size\":8}\n");
    strbuf_fini(&urls);
    const char *const whole[] = {HEAD("206 x", "5") "cdefg", NULL};
    is_int(read_by(whole, got), 0, "a range");
    is_str(got, "cdefg", "the range has its bytes");
    const char *const cut[] = {HEAD("206 x", "5") "cd", HEAD("206 x", "3") "e", "HTTP/1.1 2",
                               HEAD("206 x", "2") "fg", NULL};
    is_int(read_by(cut, got), 0, "answers that end early");
    is_str(got, "cdefg", "go on where they were");
    const char *const dead[] = {"", "", "", "", "", NULL};
    is_int(read_by(dead, got), -1, "a server that never answers");
    ok(strstr(e.text, "cut the read off 5 times") != NULL, "%s", e.text);
    const char *const changed[] = {HEAD("409 x", "20") "'s3://b/a': changed\n", NULL};
    is_int(read_by(changed, got), -1, "an object that has changed");
    ok(e.code == ERR_HASH && strcmp(e.text, "'a': 's3://b/a': changed") == 0, "%s", e.text);
    const char *const full[] = {HEAD("507 x", "8") "no room\n", NULL};
    ok(read_by(full, got) < 0 && e.code == ERR_SYS, "a full disk is no fault of a sample");
    const char *const other[] = {HEAD("200 x", "8") "abcdefgh", NULL};
    ok(read_by(other, got) < 0 && strstr(e.text, "8 bytes in place of 5"), "%s", e.text);
    const char *const none[] = {"SSH-2.0-x\r\n\r\n", NULL};
    ok(read_by(none, got) < 0 && strstr(e.text, "no answer of HTTP"), "%s", e.text);
    close(listen_fd);
    const char *const nobody[] = {NULL};
    ok(read_by(nobody, got) < 0 && strstr(e.text, "on this node has ended"), "%s", e.text);
    struct served s;
    struct served_link *link = NULL;
    served_open(&s, dir, &e);
    ok(served_read(&s, &link, served_find(&s, "a"), 5, 4, got, &e) < 0 && e.code == ERR_HASH,
       "more than there is");
    served_close(&s);
}

int main(void) {
    snprintf(dir, sizeof dir, "/tmp/dtctl-served.XXXXXX");
    if (!mkdtemp(dir))
        bail_out("no folder");
    test_answers();
    test_lists();
    test_reads();
    if (file_remove_tree(dir, &e) < 0)
        bail_out("%s", e.text);
    return done_testing();
}
