// SPDX-License-Identifier: Apache-2.0
// The node's side of push and fetch, frame by frame: files that come and go, chains of two nodes,
// a node of the chain that is lost, refusals, and connections that are cut. The test is dtctl.
#include "tests/unit/node/verb_process.h"
#include "xfer/xfer_frame.h"
#include "xfer/xfer_sender.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

enum { WAIT_MS = 20000, NODES = 2 };

static struct node { // a process
    pid_t pid;
    int to, from;
    struct strbuf in;
    size_t used;
    struct xfer_unpacker unpacker;
    struct xfer_frame frame; // the newest one
    struct send_plan plan;
} nodes[NODES];
static struct xfer_packer packer;

// ---- a node -------------------------------------------------------------------------------------

static void start(int i, node_verb *function, const char *words) {
    struct node *n = &nodes[i];
    int to[2], from[2];
    char **argv;
    size_t argc = str_split(&a, arena_strdup(&a, words), ' ', &argv);
    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        bail_out("no pipes");
    fflush(stdout);
    *n = (struct node){.pid = fork(), .to = to[1], .from = from[0]};
    if (n->pid == 0) {
        close(to[1]);
        close(from[0]);
        for (int k = 0; k < i; k++)
            close(nodes[k].to);
        dup2(to[0], 0);
        dup2(from[1], 1);
        _exit(function(&(struct node_call){.argc = (int)argc, .argv = argv, .env = environ}));
    }
    close(to[0]);
    close(from[1]);
}

static void start_at(int i, node_verb *function) {
    start(i, function, arena_printf(&a, "verb --root %s/%d", root, i));
}

static void say(int i, const struct strbuf *frames) {
    struct err why;
    if (file_write_all(nodes[i].to, frames->data, frames->len, &why) < 0)
        diag("%s", why.text);
}

static void say_frame(int i, enum xfer_type type, const void *p, size_t len) {
    struct strbuf b = {0};
    xfer_wire_frame(&b, type, p, len);
    say(i, &b);
    strbuf_fini(&b);
}

// The next frame but for those of progress. XFER_NONE: the connection has ended.
static enum xfer_type hear(int i) {
    struct node *n = &nodes[i];
    for (;;) {
        int rc = xfer_wire_take(&n->unpacker, n->in.data ? n->in.data + n->used : "",
                                n->in.len - n->used, &n->frame, &error);
        if (rc < 0)
            bail_out("%s", error.text);
        n->used += rc > 0 ? n->frame.wire_bytes : 0;
        if (rc > 0 && (n->frame.type == XFER_PROGRESS || n->frame.type == XFER_ACK))
            continue;
        if (rc > 0)
            return n->frame.type;
        struct pollfd p = {.fd = n->from, .events = POLLIN};
        ssize_t got = poll(&p, 1, WAIT_MS) == 1
                          ? read(n->from, strbuf_reserve(&n->in, 1 << 20), 1 << 20)
                          : -1;
        if (got < 0)
            bail_out("a node does not answer");
        if (got == 0)
            return XFER_NONE;
        n->in.len += (size_t)got;
    }
}

static bool hears(int i, enum xfer_type want) {
    enum xfer_type got = hear(i);
    if (got != want)
        diag("node %d says %d, not %d", i, (int)got, (int)want);
    return got == want;
}

// The error of a node that fails.
static const char *failure(int i) {
    enum xfer_type type;
    while ((type = hear(i)) != XFER_FAIL && type != XFER_NONE)
        ;
    if (type == XFER_NONE)
        return "none";
    xfer_wire_read_fail(&nodes[i].frame, &error);
    return arena_strdup(&a, error.text);
}

static int finish(int i) {
    struct node *n = &nodes[i];
    int status = 0;
    close(n->to);
    close(n->from);
    waitpid(n->pid, &status, 0);
    strbuf_fini(&n->in);
    xfer_unpacker_fini(&n->unpacker);
    if (n->plan.m)
        xfer_send_plan_fini(&n->plan);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// ---- fetch --------------------------------------------------------------------------------------

static void fetch(const char *const *paths, const char *const *exclude, bool missing_ok) {
    static const char *const none[] = {NULL};
    struct strbuf b = {0};
    struct xfer_fetch_hello h = {.missing_ok = missing_ok,
                                 .paths = (const char **)paths,
                                 .exclude = (const char **)(exclude ? exclude : none)};
    start_at(0, node_fetch);
    ok(hears(0, XFER_HELLO), "a node that is fetched from greets");
    xfer_put_fetch_hello(&b, &h);
    say_frame(0, XFER_HELLO, b.data, b.len);
    strbuf_fini(&b);
}

// The list that the node sends.
static const char *list(struct manifest *m) {
    struct strbuf text = {0};
    enum xfer_type type;
    while ((type = hear(0)) == XFER_ENTRIES)
        if (xfer_get_entries(&nodes[0].frame, m, &error) < 0)
            bail_out("%s", error.text);
    for (size_t i = 0; i < m->count; i++)
        strbuf_addf(&text, "%s%s", i ? " " : "", m->entries[i].path);
    const char *all = type == XFER_ENTRIES_END ? arena_strdup(&a, strbuf_cstr(&text))
                      : type == XFER_FAIL
                          ? (xfer_wire_read_fail(&nodes[0].frame, &error), error.text)
                          : "no end";
    strbuf_fini(&text);
    return all;
}

static void put_files(void) {
    begin();
    put("0/data/a", "one");
    put("0/data/sub/b", "two");
    put("0/data/sub/.dtctl/c", "own");
    put("0/data/skip.log", "log");
}

static void test_lists(void) {
    static const char *const folder_itself[] = {"data/sub", NULL},
                             *const content[] = {"data//", "data/sub/b", NULL},
                             *const missing[] = {"none", "data/sub/", NULL},
                             *const logs[] = {"*.log", "sub", NULL};
    static const struct {
        const char *about;
        const char *const *paths, *const *exclude;
        bool missing_ok;
        const char *want;
    } rows[] = {
        {"a folder", folder_itself, NULL, false, "sub sub/.dtctl sub/.dtctl/c sub/b"},
        {"content and a file", content, logs, false, "a b"},
        {"a path that may be missing", missing, NULL, true, ".dtctl .dtctl/c b"},
        {"a path that has to be there", missing, NULL, false, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct manifest *m = manifest_new();
        put_files();
        fetch(rows[i].paths, rows[i].exclude, rows[i].missing_ok);
        const char *got = list(m);
        if (rows[i].want) {
            is_str(got, rows[i].want, "%s is listed", rows[i].about);
            say_frame(0, XFER_NEED_END, NULL, 0);
            say_frame(0, XFER_RESULT, NULL, 0);
            is_int(finish(0), 0, "a fetch of %s ends well", rows[i].about);
        } else {
            has_str(got, "none", "the error names the path");
            is_int(finish(0), err_status(ERR_NOT_FOUND), "the exit status is that of the error");
        }
        manifest_free(m);
    }
}

static void test_fetch(void) {
    static const char *const paths[] = {"data/", NULL};
    struct manifest *m = manifest_new();
    struct strbuf b = {0};
    put_files();
    fetch(paths, NULL, false);
    is_str(list(m), "a skip.log sub sub/.dtctl sub/.dtctl/c sub/b", "all files are listed");
    xfer_put_need(&b, &(struct xfer_need){.index = 0});
    xfer_put_need(&b, &(struct xfer_need){.index = 5});
    say_frame(0, XFER_NEED, b.data, b.len);
    strbuf_fini(&b);
    say_frame(0, XFER_NEED_END, NULL, 0);
    ok(hears(0, XFER_BATCH), "small files come together");
    ok(memmem(nodes[0].frame.data, nodes[0].frame.len, "one", 3) &&
           memmem(nodes[0].frame.data, nodes[0].frame.len, "two", 3) &&
           !memmem(nodes[0].frame.data, nodes[0].frame.len, "log", 3),
       "the files that are needed come, and no other");
    ok(hears(0, XFER_DONE), "the node says that this was all");
    say_frame(0, XFER_DONE, NULL, 0);
    has_str(failure(0), "done", "the result has to follow");
    ok(finish(0) > 0, "a fetch without a result has failed");
    manifest_free(m);
}

// ---- push ---------------------------------------------------------------------------------------

static void hello(int i, struct xfer_push_hello h) {
    static const char *none[] = {NULL};
    struct strbuf b = {0};
    h.dest = h.dest ? h.dest : "";
    h.owner = "";
    h.results = none;
    start_at(i, node_push);
    if (!hears(i, XFER_HELLO))
        bail_out("a node does not greet");
    xfer_put_push_hello(&b, &h);
    say_frame(i, XFER_HELLO, b.data, b.len);
    strbuf_fini(&b);
}

static struct manifest *files(void) {
    struct manifest *m = manifest_new();
    if (manifest_add_bytes(m, "x", "one", 3, 0644, &error) < 0 ||
        manifest_add_bytes(m, "y/z", "two", 3, 0600, &error) < 0 ||
        manifest_hash(m, NULL, NULL, NULL, &error) < 0)
        bail_out("%s", error.text);
    return m;
}

// Sends the list, and takes the needs. Their number of files.
static size_t offer(int i, const struct manifest *m) {
    struct strbuf b = {0};
    size_t next = 0;
    while (!xfer_wire_entries(&packer, &b, m, &next, XFER_BATCH_BYTES, false))
        ;
    say(i, &b);
    strbuf_fini(&b);
    xfer_send_plan_init(&nodes[i].plan, m);
    while (hear(i) == XFER_NEED)
        if (xfer_send_plan_need(&nodes[i].plan, &nodes[i].frame, &error) < 0)
            bail_out("%s", error.text);
    ok(nodes[i].frame.type == XFER_NEED_END, "the needs of node %d have an end", i);
    return nodes[i].plan.files;
}

static void send_files(int i) {
    struct send_stream s;
    struct strbuf b = {0};
    xfer_send_plan_ready(&nodes[i].plan);
    xfer_send_stream_init(&s, &nodes[i].plan, false);
    while (xfer_send_stream_fill(&s, &b, false, &error) > 0)
        ;
    say(i, &b);
    strbuf_fini(&b);
    xfer_send_stream_fini(&s);
}

static void is_pushed(int i, const char *about) {
    ok(hears(i, XFER_RESULT), "%s: node %d has a result", about, i);
    is_int(finish(i), 0, "%s: node %d ends well", about, i);
    is_str(text_of(arena_printf(&a, "%d/d/x", i)), "one", "%s: node %d has a file", about, i);
    is_str(text_of(arena_printf(&a, "%d/d/y/z", i)), "two", "%s: node %d has a file of a folder",
           about, i);
}

static void test_push(void) {
    struct manifest *m = files();
    struct stat st;
    begin();
    hello(0, (struct xfer_push_hello){.dest = "d"});
    is_int((int)offer(0, m), 2, "a node lacks all files");
    send_files(0);
    say_frame(0, XFER_DONE, NULL, 0);
    is_pushed(0, "a push");
    ok(stat(in("0"), &st) == 0 && (st.st_mode & 0777) == 0700, "the root is the owner's alone");
    hello(0, (struct xfer_push_hello){.dest = "d"});
    is_int((int)offer(0, m), 0, "a node needs no file twice");
    is_pushed(0, "a push again");
    put("0/d/left", "over");
    put("0/d/x", "two");
    hello(0, (struct xfer_push_hello){.dest = "d", .replace = true});
    is_int((int)offer(0, m), 0, "the store has the content");
    is_pushed(0, "a push that replaces");
    ok(!file_exists(in("0/d/left")), "files that are not in the list go");
    manifest_free(m);
}

static void test_refusals(void) {
    static const struct {
        const char *words, *about;
    } rows[] = {{"verb", "no root"},
                {"verb --root", "a root without a folder"},
                {"verb --rot x", "another flag"},
                {"verb --root /x more", "a further word"}};
    begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        start(0, i % 2 ? node_push : node_fetch, rows[i].words);
        has_str(failure(0), "--root", "%s is refused", rows[i].about);
        is_int(finish(0), err_status(ERR_USAGE), "%s is an error of usage", rows[i].about);
    }
    hello(0, (struct xfer_push_hello){.dest = "../d"});
    has_str(failure(0), "../d", "a destination outside the root is refused");
    ok(finish(0) > 0, "the push has failed");
    start_at(0, node_push);
    hear(0);
    say_frame(0, XFER_DONE, NULL, 0);
    has_str(failure(0), "done", "a push begins with its greeting");
    ok(finish(0) > 0, "a push without a greeting has failed");
    hello(0, (struct xfer_push_hello){.dest = "d"});
    close(nodes[0].to);
    nodes[0].to = -1;
    is_str(failure(0), "the connection was cut", "a connection that ends is cut");
    is_int(finish(0), err_status(ERR_NET), "a connection that is cut has its status");
}

// ---- chains -------------------------------------------------------------------------------------

static int relay_from(int i, const unsigned char *key) {
    struct strbuf b = {0};
    struct xfer_relay_peer p = {.address = "127.0.0.1"};
    memcpy(p.key, key, XFER_RELAY_KEY_BYTES);
    xfer_put_relay_peer(&b, &p);
    say_frame(i, XFER_RELAY_FROM, b.data, b.len);
    strbuf_fini(&b);
    return hears(i, XFER_RELAY_PORT) ? (int)bytes_load(nodes[i].frame.data, 4) : -1;
}

static void relay_to(int i, int port, const unsigned char *key) {
    struct strbuf b = {0};
    struct xfer_relay_peer p = {.address = "127.0.0.1", .port = (uint32_t)port};
    memcpy(p.key, key, XFER_RELAY_KEY_BYTES);
    xfer_put_relay_peer(&b, &p);
    say_frame(i, XFER_RELAY_TO, b.data, b.len);
    strbuf_fini(&b);
}

static const unsigned char key[XFER_RELAY_KEY_BYTES] = "a key of thirty-two bytes, or so";

static struct manifest *begin_chain(void) {
    struct manifest *m = files();
    begin();
    for (int i = 0; i < NODES; i++) {
        hello(i, (struct xfer_push_hello){.dest = "d"});
        is_int((int)offer(i, m), 2, "node %d of a chain lacks all files", i);
    }
    return m;
}

static void done(int i) {
    say_frame(i, XFER_DONE, NULL, 0);
}

static void test_chain(void) {
    struct manifest *m = begin_chain();
    int port = relay_from(1, key);
    ok(port > 0, "the second node listens");
    relay_to(0, port, key);
    ok(hears(0, XFER_RELAY_READY), "the first node is connected to the second one");
    send_files(0);
    say_frame(0, XFER_RELAY_END, NULL, 0);
    ok(hears(0, XFER_NEED_END), "the first node has all");
    ok(hears(1, XFER_NEED_END), "the second node has all, and nothing came from here");
    done(0);
    done(1);
    is_pushed(0, "a chain");
    is_pushed(1, "a chain");
    manifest_free(m);
}

static void test_lost(void) {
    static const unsigned char other[XFER_RELAY_KEY_BYTES] = "another key";
    struct manifest *m = begin_chain();
    relay_to(0, 1, key);
    ok(hears(0, XFER_RELAY_LOST), "a node that does not listen is lost");
    ok(nodes[0].frame.len > 2, "the loss has a reason");
    int port = relay_from(1, key);
    relay_to(0, port, other);
    ok(hears(0, XFER_RELAY_LOST), "a node with another key is lost");
    send_files(0);
    say_frame(0, XFER_RELAY_END, NULL, 0);
    ok(hears(0, XFER_NEED_END), "the first node has all without the second one");
    done(0);
    is_pushed(0, "a broken chain");
    send_files(1);
    say_frame(1, XFER_RELAY_END, NULL, 0);
    ok(hears(1, XFER_NEED_END), "the second node gets its files from here");
    done(1);
    is_pushed(1, "a broken chain");
    manifest_free(m);
}

// The first node ends in the middle.
static void test_cut(void) {
    struct manifest *m = begin_chain();
    int port = relay_from(1, key);
    relay_to(0, port, key);
    ok(hears(0, XFER_RELAY_READY), "the chain is there");
    finish(0);
    ok(hears(1, XFER_NEED), "a node whose chain is cut asks for the missing content");
    ok(hears(1, XFER_NEED_END), "the list of lacks has an end");
    send_files(1);
    done(1);
    is_pushed(1, "a cut chain");
    manifest_free(m);
}

int main(void) {
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    node_root_open();
    test_lists();
    test_fetch();
    test_push();
    test_refusals();
    test_chain();
    test_lost();
    test_cut();
    node_root_close();
    return done_testing();
}
