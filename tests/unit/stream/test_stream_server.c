// SPDX-License-Identifier: Apache-2.0
// The server of streamed inputs as a whole: its files for readers, its events for the agent, and
// the ways in which it ends. A child process is the agent and the readers.
#include "stream/stream_server_impl.h"

#include "protocol/job_spec.h"
#include "sys/file.h"
#include "sys/file_entries.h"
#include "tests/tap.h"
#include "tests/unit/turned_clock.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { PEER_S_MAX = 20 };

static char root[] = "/tmp/test_stream_server.XXXXXX";
static struct arena a;
static struct err e;
static struct stream_server server;
static const char *run_dir;
static pid_t child; // 0: none

// The clock is turned by a second at each step of the server that has no agent, or has lost it.
static enum { TURNS_NEVER, TURNS_WITHOUT_AGENT, TURNS_AFTER_AGENT } turns;
static bool had_agent;

// Bytes that the child has read.
static struct seen { char events[4096], answers[4096]; } * seen;

// ---- in place of libcurl ------------------------------------------------------------------------

static struct http_call *call; // of the object that cannot be had

void http_begin(struct http *h, struct http_call *c) {
    (void)h;
    call = c;
}

int http_step_or(struct http *h, int fd, int timeout_ms, struct err *err) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct err why = {0};
    (void)h, (void)err;
    had_agent |= conn_is_open(&server.agent);
    bool alone = turns && !conn_is_open(&server.agent) && had_agent == (turns == TURNS_AFTER_AGENT);
    clock_ahead_ms += alone ? 1000 : 0;
    if (call) {
        struct http_call *c = call;
        call = NULL;
        (void)err_set(&why, ERR_NOT_FOUND, "the bucket has no such key");
        c->on_end(c, &why);
    }
    (void)poll(&p, 1, alone ? 0 : timeout_ms < 50 ? timeout_ms : 50);
    int status;
    if (child && waitpid(child, &status, WNOHANG) == child) {
        fail("the readers come to their end, and the server ends before them: %d", status);
        child = 0;
        server.over = true;
    }
    return 0;
}

void http_call_close(struct http_call *c) {
    strbuf_fini(&c->body);
}

uint64_t http_again_count(const struct http *h) {
    (void)h;
    return 0;
}

static bool is_without_http;
static char any;

struct http *http_open(const char *ca, size_t ca_len, struct err *err) {
    if (is_without_http) {
        (void)err_set(err, ERR_SYS, "no certificates");
        return NULL;
    }
    ok(ca_len == 4 && strncmp(ca, "cert", 4) == 0, "the certificates are used");
    return (struct http *)(void *)&any;
}

void http_wake(struct http *h) {
    (void)h;
}

void http_close(struct http *h) {
    (void)h;
}

// ---- inputs -------------------------------------------------------------------------------------

// text NULL: the object cannot be had.
static void add(const char *path, const char *text, uint64_t index) {
    struct object_want want = {.name = path, .etag = "e", .url = "https://x", .size = 7};
    hash_of(want.id, path, strlen(path));
    if (text) {
        want.size = strlen(text);
        want.hashed = true;
        hash_of(want.hash, text, strlen(text));
    }
    if ((text && *text &&
         cas_add_small(&server.store.cas, want.hash, text, strlen(text), &e) < 0) ||
        stream_store_add(&server.store, &want, path, index, &e) < 0)
        bail_out("%s", e.text);
}

static void input(const char *name) {
    if (!stream_store_input(&server.store, name, &e))
        bail_out("%s", e.text);
}

static void begin(const char *name) {
    run_dir = file_join(&a, root, name);
    server = (struct stream_server){0};
    if (file_make_dirs(run_dir, 0700, &e) < 0 ||
        stream_store_open(&server.store, file_join(&a, run_dir, "store"), &e) < 0)
        bail_out("%s", e.text);
    input("train");
    add("b", "bbb", 4);
    add("a b/1", "first", 0);
    add("c", "", 2);
    input("test");
    add("b", "other", 7);
    add("d", "dd", 8);
    input("late");
    add("gone", NULL, 3);
    if (stream_store_scan(&server.store, &e) < 0)
        bail_out("%s", e.text);
}

static const char *text_of(const char *path, int mode) {
    const char *whole = file_join(&a, run_dir, path);
    char *text;
    size_t len;
    struct stat st;
    if (file_read(&a, whole, 1 << 20, &text, &len, &e) < 0 || stat(whole, &st) < 0)
        return "";
    is_int(st.st_mode & 07777, mode, "%s is for its owner alone", path);
    return text;
}

static const char *hex_of(const char *text) {
    unsigned char hash[HASH_BYTES];
    char *hex = arena_new(&a, char, HASH_HEX_BYTES);
    hash_of(hash, text, strlen(text));
    hash_hex(hex, hash);
    return hex;
}

static void test_files(void) {
    begin("files");
    is_int(stream_server_open(&server, run_dir, &e), 0, "a server is opened: %s", e.text);
    const char *at = arena_printf(&a, "http://127.0.0.1:%d/%s", server.port, server.secret);
    is_uint(strlen(server.secret), STREAM_SECRET_DIGITS, "the secret is long");
    is_str(text_of("stream/train/urls", 0600),
           arena_printf(&a, "%s/train/b\n%s/train/a%%20b/1\n%s/train/c\n", at, at, at),
           "the first input has its addresses, in order");
    is_str(text_of("stream/test/urls", 0600), arena_printf(&a, "%s/test/b\n%s/test/d\n", at, at),
           "the second input has its own");
    is_str(text_of("stream/late/urls", 0600), arena_printf(&a, "%s/late/gone\n", at),
           "the third input has its own");
    is_str(text_of("stream/train/list", 0600),
           arena_printf(&a,
                        "{\"path\":\"b\",\"size\":3,\"sha256\":\"%s\",\"index\":4}\n"
                        "{\"path\":\"a b/1\",\"size\":5,\"sha256\":\"%s\",\"index\":0}\n"
                        "{\"path\":\"c\",\"size\":0,\"sha256\":\"%s\",\"index\":2}\n",
                        hex_of("bbb"), hex_of("first"), hex_of("")),
           "a list has a line for each object");
    has_str(text_of("stream/test/list", 0600), "{\"path\":\"d\",\"size\":2,",
            "the second input has its list");
    is_str(text_of("stream/late/list", 0600),
           "{\"path\":\"gone\",\"size\":7,\"sha256\":null,\"index\":3}\n",
           "an object that is not there has no hash");
    struct file_entries in = file_entries_open(file_join(&a, run_dir, "stream"));
    size_t folders = 0;
    while (file_entries_next(&in))
        folders++;
    (void)file_entries_close(&in, 0, NULL);
    is_uint(folders, 3, "each input has a folder");
    ok(file_exists(file_join(&a, run_dir, JOB_STREAM_SOCKET)), "the agent has a socket");
    stream_server_close(&server);
    ok(!file_exists(file_join(&a, run_dir, JOB_STREAM_SOCKET)), "the socket is removed");
}

static struct stream_object *found(const char *path) {
    return stream_server_find(&server, path, strlen(path));
}

static void test_find(void) {
    begin("find");
    is_int(stream_server_open(&server, run_dir, &e), 0, "a server is opened");
    struct stream_object *o = server.store.objects;
    const char *s = server.secret;
    ok(found(arena_printf(&a, "/%s/train/b", s)) == &o[0], "an object is found by its path");
    ok(found(arena_printf(&a, "/%s/train/a%%20b/1", s)) == &o[1], "a path is decoded");
    ok(found(arena_printf(&a, "/%s/train/c", s)) == &o[2], "the last one is found");
    ok(found(arena_printf(&a, "/%s/test/b", s)) == &o[3], "another input has its own");
    ok(found(arena_printf(&a, "/%s/late/gone", s)) == &o[5], "an absent object is found, too");
    static const char *const absent[] = {"/train",  "/train/",   "/train/d", "/",      "",
                                         "/test/c", "/zzz/gone", "/a/a",     "//b",    "/train//b",
                                         "/late",   "/test/a",   "/test/dd", "train/b"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        ok(!found(arena_printf(&a, "/%s%s", s, absent[i])), "there is no '%s'", absent[i]);
    char *other = arena_printf(&a, "/%s/train/b", s);
    for (size_t i = 1; i <= STREAM_SECRET_DIGITS; i += STREAM_SECRET_DIGITS - 1) {
        char was = other[i];
        other[i] = was == '1' ? '2' : '1';
        ok(!found(other), "another secret has no object: %zu", i);
        other[i] = was;
    }
    ok(!found("/train/b") && !found(arena_printf(&a, "/%s", s)), "a path begins with the secret");
    stream_server_close(&server);
}

static void test_refused(void) {
    begin("refused");
    if (file_make_dirs(file_join(&a, run_dir, "stream"), 0700, &e) < 0 ||
        file_write_atomic(file_join(&a, run_dir, "stream/test"), "", 0, 0600, &e) < 0)
        bail_out("%s", e.text);
    is_int(stream_server_open(&server, run_dir, &e), -1,
           "a list that cannot be written is an error");
    ok(!file_exists(file_join(&a, run_dir, JOB_STREAM_SOCKET)), "no socket is made then");
    stream_server_close(&server);
    begin("no-socket");
    if (mkdir(file_join(&a, run_dir, JOB_STREAM_SOCKET), 0700) < 0)
        bail_out("mkdir");
    is_int(stream_server_open(&server, run_dir, &e), -1,
           "a socket that cannot be made is an error");
    stream_server_close(&server);
    begin("no-http");
    is_int(stream_server_open(&server, run_dir, &e), 0, "a server is opened");
    is_without_http = true;
    is_int(stream_server_run(&server, "cert", &e), -1, "a server without certificates ends");
    is_str(e.text, "no certificates", "the error is that of the certificates");
    is_without_http = false;
    stream_server_close(&server);
}

// ---- the agent and the readers ------------------------------------------------------------------

static void check(bool held) {
    if (!held)
        _exit(1);
}

static int connected(int domain, const void *address, socklen_t len) {
    const struct timeval limit = {.tv_sec = PEER_S_MAX};
    int fd = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
          connect(fd, address, len) == 0);
    return fd;
}

static int to_agent_door(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", run_dir, JOB_STREAM_SOCKET);
    return connected(AF_UNIX, &address, sizeof address);
}

static int to_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)server.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return connected(AF_INET, &address, sizeof address);
}

// Reads on until the text ends so.
static void await(int fd, char *text, const char *end) {
    size_t len = strlen(text), end_len = strlen(end);
    while (len < end_len || strcmp(text + len - end_len, end) != 0) {
        check(read(fd, text + len, 1) == 1);
        text[++len] = '\0';
    }
}

static void get(int fd, const char *path, const char *end) {
    char request[256];
    int len = snprintf(request, sizeof request, "GET /%s/%s HTTP/1.1\r\nHost: x\r\n\r\n",
                       server.secret, path);
    check(write(fd, request, (size_t)len) == len);
    await(fd, seen->answers, end);
}

static void readers(void) {
    int one = to_port(), two = to_port();
    get(one, "late/gone", "\n\r\n'gone': the bucket has no such key\n");
    get(one, "train/a%20b/1", "\r\n\r\nfirst");
    get(two, "test/b", "\r\n\r\nother");
    get(one, "train/b", "\r\n\r\nbbb");
    int agent = to_agent_door();
    for (int i = 0; i < 5; i++)
        await(agent, seen->events + strlen(seen->events), "\n");
    get(two, "late/gone", "such key\n");
    await(agent, seen->events + strlen(seen->events), "\n");
    int again = to_agent_door(); // the agent has been started again
    char byte;
    check(read(agent, &byte, 1) == 0);
    get(two, "late/gone", "such key\n");
    await(again, seen->events + strlen(seen->events), "\n");
    check(write(again, "more words that mean nothing, and en", 36) == 36);
    get(one, "train/b", "\r\n\r\nbbb");
    check(write(again, "d\n", 2) == 2);
    (void)read(again, &byte, 1); // the server ends
    _exit(0);
}

static void run_with(void (*peer)(void)) {
    memset(seen, 0, sizeof *seen);
    had_agent = false;
    is_int(stream_server_open(&server, run_dir, &e), 0, "a server is opened: %s", e.text);
    fflush(stdout);
    child = peer ? fork() : 0;
    if (child < 0)
        bail_out("fork");
    if (peer && child == 0)
        peer();
    is_int(stream_server_run(&server, "cert", &e), 0, "the server ends: %s", e.text);
    stream_server_close(&server);
}

// The events without their times.
static const char *events(void) {
    struct strbuf out = {0};
    for (const char *p = seen->events; *p;) {
        if (strncmp(p, "\"ms\":", 5) == 0) {
            p += 5 + strcspn(p + 5, ",}");
            p += *p == ',';
        } else
            strbuf_addc(&out, *p++);
    }
    const char *text = arena_strdup(&a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return text;
}

// Fetching ahead fails once, and so does each reader.
#define FAILED                                                                                     \
    "{\"what\":\"failed\",\"input\":\"late\",\"text\":\"'gone': the bucket has no such key\"}\n"

static void test_run(void) {
    begin("run");
    run_with(readers);
    int status = 0;
    if (child && waitpid(child, &status, 0) == child)
        is_int(status, 0, "the agent ends the server");
    child = 0;
    is_str(events(),
           "{\"what\":\"whole\",\"input\":\"train\",\"bytes\":8}\n"
           "{\"what\":\"whole\",\"input\":\"test\",\"bytes\":7}\n" FAILED FAILED
           "{\"what\":\"first\",\"bytes\":0}\n" FAILED FAILED,
           "an agent that comes late gets each event, in order");
    has_str(seen->answers, "HTTP/1.1 404 Not Found\r\n",
            "an object that cannot be had is an error");
}

// ---- without an agent ---------------------------------------------------------------------------

static void leave(void) {
    int agent = to_agent_door();
    await(agent, seen->events, "\n");
    close(agent);
    for (;;)
        pause();
}

static void test_alone(void) {
    clock_stop();
    begin("no-agent");
    turns = TURNS_WITHOUT_AGENT;
    run_with(NULL);
    ok(clock_ahead_ms >= STREAM_START_MS_MAX && clock_ahead_ms <= STREAM_START_MS_MAX + 2000,
       "a server that no agent comes to ends after ten minutes: %d ms", (int)clock_ahead_ms);
    begin("left");
    clock_ahead_ms = 0;
    turns = TURNS_AFTER_AGENT;
    run_with(leave);
    ok(clock_ahead_ms >= STREAM_ALONE_MS && clock_ahead_ms <= STREAM_ALONE_MS + 2000,
       "a server that its agent has left ends after a minute: %d ms", (int)clock_ahead_ms);
    if (child > 0 && kill(child, SIGKILL) == 0)
        waitpid(child, NULL, 0);
}

int main(void) {
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!mkdtemp(root) || seen == MAP_FAILED)
        bail_out("no folder");
    test_files();
    test_find();
    test_refused();
    test_run();
    test_alone();
    munmap(seen, sizeof *seen);
    (void)file_remove_tree(root, &e);
    arena_fini(&a);
    return done_testing();
}
