// SPDX-License-Identifier: Apache-2.0
// Indices of shards in a bucket: the steps and their order, the lines for the server, failures of
// each step, and the end of the server and its folder. dtdata and the indexing are stand-ins.
#include "run/inputs/index_bucket.h"

#include "protocol/job_spec.h"
#include "run/dtdata.h"
#include "sys/file.h"
#include "sys/net.h"
#include "tests/tap.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ID "1111111111111111111111111111111111111111111111111111111111111111"
#define REST(path)                                                                                 \
    "\"path\":\"" path "\",\"name\":\"s3://b/p/" path                                              \
    "\",\"url\":\"u\",\"size\":5,\"etag\":\"e\","                                                  \
    "\"id\":\"" ID "\"}\n"
#define HEAD "{\"folder\":true,\"ca\":\"\",\"ends\":9}\n"
#define END  "{\"end\":3}\n"

static struct arena a;
static char base[] = "/tmp/test_index_bucket.XXXXXX";
static struct context context = {.arena = &a};
static struct data_indexed indexed;
static struct err e;
static int looks; // pauses until the server's socket is gone

int turned_poll(struct pollfd *fds, nfds_t count, int timeout) __asm__("poll");

int turned_poll(struct pollfd *fds, nfds_t count, int timeout) {
    struct timespec wait = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000L};
    if (count > 0)
        return ppoll(fds, count, timeout < 0 ? NULL : &wait, NULL);
    looks += timeout == 50;
    return 0;
}

// ---- in place of dtdata and of the indexing -----------------------------------------------------

static const char *steps; // "check s3://b/p;list s3://b/p;serve;index;put s3://b/p;"
static const char *fails; // the step that fails; "": none
static const char *list_text, *lines, *dir;
static pid_t server;
static bool keeps_socket;

static int step(const char *name, const char *about, struct err *err) {
    steps = arena_printf(&a, "%s%s%s%s;", steps, name, *about ? " " : "", about);
    return strcmp(fails, name) == 0 ? err_set(err, ERR_NET, "%s fails", name) : 0;
}

// A server that ends its connection after the word "end". Its status: 0, or 1 for other words.
static void start_server(const char *path) {
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    char text[16] = "";
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(where.sun_path, sizeof where.sun_path, "%s", path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&where, sizeof where) < 0 || listen(fd, 1) < 0)
        bail_out("no server at '%s'", path);
    server = fork();
    if (server == 0) {
        alarm(20);
        int with = accept(fd, NULL, NULL);
        ssize_t n = write(with, "event\n", 6) == 6 ? read(with, text, sizeof text - 1) : 0;
        if (!keeps_socket)
            unlink(path);
        _exit(n == 4 && strcmp(text, "end\n") == 0 ? 0 : 1);
    }
    close(fd);
}

static const char *read_all(int fd) {
    char *text = arena_new(&a, char, 4096);
    ssize_t n = read(fd, text, 4095);
    return n < 0 ? "none" : text;
}

int dtdata_run(struct context *s, const struct dtdata_call *call, char **text, struct err *err) {
    const char *name = call->args[0];
    (void)s;
    *text = heap_strdup("");
    if (strcmp(name, "serve") == 0) {
        lines = read_all(call->in);
        dir = arena_strdup(&a, call->args[2]);
        is_str(call->args[1], file_join(&a, dir, "cas"), "the server's store is in its folder");
        is_int(call->ms_max, 60000, "the server has a minute to start");
        ok(!file_exists(file_join(&a, dir, "lines")), "signed addresses do not stay on the disk");
        if (strcmp(fails, "serve") != 0 || keeps_socket)
            start_server(file_join(&a, dir, JOB_STREAM_SOCKET));
        return step(name, "", err);
    }
    if (strcmp(name, "put") == 0) {
        is_str(call->args[1], file_join(&a, dir, "to"), "the indices are put from their folder");
        return step(name, call->args[2], err);
    }
    if (strcmp(name, "list") == 0) {
        free(*text);
        *text = heap_strdup(list_text);
    }
    return step(name, call->args[1], err);
}

int data_index_served(const char *served, const char *to,
                      int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e),
                      void *ctx, struct data_indexed *out, struct err *err) {
    is_str(served, file_join(&a, dir, "stream/shards"), "the lists of the server are read");
    is_str(to, file_join(&a, dir, "to"), "the indices have a folder");
    ok(!progress && ctx == &indexed, "the caller's progress is passed on");
    out->shards = 2;
    return step("index", "", err);
}

// ---- points -------------------------------------------------------------------------------------

static int folders(void) {
    int count = 0;
    for (int i = 0; i < 2; i++)
        count += dir && file_exists(i ? dir : file_join(&a, dir, "to"));
    return count;
}

static int run(const char *source, const char *which) {
    steps = "";
    fails = which;
    dir = NULL;
    server = 0;
    looks = 0;
    indexed = (struct data_indexed){.shards = 0};
    err_clear(&e);
    return index_bucket(&context, source, NULL, &indexed, &indexed, &e);
}

// The server has ended as it was asked to.
static void served(const char *about) {
    int status = -1;
    ok(server > 0 && waitpid(server, &status, 0) == server && status == 0,
       "the server was ended after %s", about);
    is_int(folders(), 0, "no folder is left after %s", about);
}

static void test_all(void) {
    list_text = HEAD "{" REST("b.tar") "{" REST("notes") "{" REST("a.tar") "{" REST(
        "train/c.tar") "{" REST("train/deep/d.tar") END;
    is_int(run("s3://b/p", ""), 0, "shards are indexed: %s", e.text);
    is_str(steps, "check s3://b/p;list s3://b/p;serve;index;put s3://b/p;",
           "the bucket is checked first, and the indices are put last");
    is_str(lines,
           HEAD "{\"input\":\"shards\",\"window\":67108864,\"cache_max\":536870912}\n"
                "{\"index\":0," REST("a.tar") "{\"index\":1," REST("b.tar") "{\"index\":2," REST(
                    "train/c.tar") "{\"end\":true}\n",
           "the server gets the shards, in the order of their paths");
    is_int(indexed.shards, 2, "the result is that of the indexing");
    is_int(looks, 0, "a server whose socket is gone is not waited for");
    served("the indexing");
}

static void test_failures(void) {
    static const struct {
        const char *fails, *steps;
        bool served;
    } rows[] = {
        {"check", "check s3://b/p;", false},
        {"list", "check s3://b/p;list s3://b/p;", false},
        {"serve", "check s3://b/p;list s3://b/p;serve;", false},
        {"index", "check s3://b/p;list s3://b/p;serve;index;", true},
        {"put", "check s3://b/p;list s3://b/p;serve;index;put s3://b/p;", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        is_int(run("s3://b/p", rows[i].fails), -1, "a failure of '%s' is one", rows[i].fails);
        is_str(e.text, arena_printf(&a, "%s fails", rows[i].fails), "the error is that of '%s'",
               rows[i].fails);
        is_str(steps, rows[i].steps, "nothing is done after '%s'", rows[i].fails);
        if (rows[i].served)
            served(rows[i].fails);
        is_int(folders(), 0, "no folder is left of '%s'", rows[i].fails);
    }
    keeps_socket = true;
    is_int(run("s3://b/p", "serve"), -1, "a start that was interrupted is an error");
    is_int(looks, 100, "a socket that stays is looked for a hundred times");
    served("an interrupted start");
    keeps_socket = false;
}

static void test_sources(void) {
    is_int(run("https://b/p", ""), -1, "an address is no bucket");
    is_str(e.text, "'https://b/p': index takes a folder, here or s3://BUCKET/PREFIX",
           "the error says which sources there are");
    is_str(steps, "", "nothing is done for an address");
    list_text = "{\"folder\":false,\"ends\":9}\n{" REST("a.tar") END;
    is_int(run("s3://b/p", ""), -1, "one object is no folder");
    is_str(e.text, "'s3://b/p' is one object; index takes a folder",
           "the error says that it is one");
    is_int(e.code, ERR_CONFIG, "the source of one object is at fault");
    list_text = HEAD "{" REST("notes") "{" REST("train/deep/d.tar") END;
    is_int(run("s3://b/p", ""), -1, "a folder without shards is refused");
    is_str(e.text,
           "'s3://b/p' holds no shards: looked for *.tar, and for *.tar in folders such as train",
           "the error says where shards were looked for");
    is_str(steps, "check s3://b/p;list s3://b/p;", "no server starts without shards");
    context.cluster.dir = file_join(&a, base, "file/below");
    if (file_write_atomic(file_join(&a, base, "file"), "", 0, 0600, &e) < 0)
        bail_out("%s", e.text);
    is_int(run("s3://b/p", ""), -1, "the folder of the command has to be made");
    is_str(steps, "", "nothing is done without a folder");
}

int main(void) {
    if (!mkdtemp(base) || cluster_open(&context.cluster, &a, base, "c", &e) < 0)
        bail_out("no folder");
    test_all();
    test_failures();
    test_sources();
    cluster_close(&context.cluster);
    is_int(file_remove_tree(base, &e), 0, "the folder is removed");
    arena_fini(&a);
    return done_testing();
}
