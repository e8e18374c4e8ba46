// SPDX-License-Identifier: Apache-2.0
// Fetch, the operator's side, over a transport whose node is the test: the request, steps between
// other work of the loop, what it says of its progress, ends of the agent, answers out of turn.
#include "protocol/node_protocol.h"
#include "tests/unit/transport_fake.h"
#include "tests/unit/xfer/memory.h"
#include "xfer/xfer.h"
#include "xfer/xfer_impl.h"

static struct loop *loop;
static struct transport_link *node_link;
static struct err e, end_err;
static struct xfer_progress last;
static int ends;
static struct strbuf phases; // in the order in which they were first seen

static void note(const struct xfer_progress *p) {
    if (!strstr(strbuf_cstr(&phases), p->phase))
        strbuf_addf(&phases, "%s ", p->phase);
    last = *p;
}

static void on_progress(struct xfer *x, void *ctx, const struct xfer_progress *p) {
    (void)x;
    (void)ctx;
    note(p);
}

static void on_end(struct xfer *x, void *ctx, const struct err *why,
                   const struct xfer_progress *p) {
    (void)x;
    (void)ctx;
    ends++;
    end_err = *why;
    note(p);
}

static const struct xfer_events events = {on_progress, on_end};

// ---- the node -----------------------------------------------------------------------------------

struct node_end {
    struct fake_run *run;
    struct xfer_unpacker u;
    struct xfer_packer packer;
    struct xfer_fetch_hello hello;
    struct send_plan plan;
    struct send_stream stream;
    size_t used, next;
    bool greeted, ready, got_result;
    int frames; // of content
};

static void say(struct fake_run *r, enum xfer_type type, const void *p, size_t len) {
    struct strbuf b = {0};
    xfer_wire_frame(&b, type, p, len);
    fake_say(r, b.data, b.len);
    strbuf_fini(&b);
}

static void say_hello(struct fake_run *r) {
    unsigned char version[4];
    bytes_store(version, XFER_VERSION, 4);
    say(r, XFER_HELLO, version, 4);
}

static void greet(struct node_end *n, const struct xfer_frame *f, const struct manifest *m) {
    struct strbuf out = {0};
    if (xfer_get_fetch_hello(f, &arena, &n->hello, &e) < 0)
        bail_out("%s", e.text);
    n->greeted = true;
    say_hello(n->run);
    while (!xfer_wire_entries(&n->packer, &out, m, &n->next, 1000, n->hello.compress))
        ;
    xfer_send_plan_init(&n->plan, m);
    fake_say(n->run, out.data, out.len);
    strbuf_fini(&out);
}

static void serve_frame(struct node_end *n, const struct xfer_frame *f) {
    if (f->type == XFER_NEED && xfer_send_plan_need(&n->plan, f, &e) < 0)
        bail_out("%s", e.text);
    n->got_result |= f->type == XFER_RESULT;
    if (f->type != XFER_NEED_END)
        return;
    n->ready = true;
    xfer_send_plan_ready(&n->plan);
    xfer_send_stream_init(&n->stream, &n->plan, false);
}

// The node reads what has come, and sends one frame of content.
static void serve(struct node_end *n, const struct manifest *m) {
    struct xfer_frame f;
    struct strbuf out = {0};
    while (fake_take(n->run, SIZE_MAX))
        ;
    while (xfer_wire_take(&n->u, n->run->got.data + n->used, n->run->got.len - n->used, &f, &e) >
           0) {
        n->used += f.wire_bytes;
        if (n->greeted)
            serve_frame(n, &f);
        else
            greet(n, &f, m);
    }
    if (n->ready && xfer_send_stream_fill(&n->stream, &out, n->hello.compress, &e) > 0) {
        n->frames++;
    } else if (n->ready && n->plan.files) {
        xfer_wire_frame(&out, XFER_DONE, NULL, 0);
        n->ready = false;
    }
    if (out.len)
        fake_say(n->run, out.data, out.len);
    strbuf_fini(&out);
    if (n->run->got_end && !n->run->r.ended)
        fake_exit(n->run, 0);
}

static void close_end(struct node_end *n) {
    if (n->greeted) {
        xfer_send_stream_fini(&n->stream);
        xfer_send_plan_fini(&n->plan);
    }
    xfer_unpacker_fini(&n->u);
    *n = (struct node_end){0};
}

// ---- a fetch ------------------------------------------------------------------------------------

static const char *const paths[] = {"runs/r1/output/", "runs/r1/state", NULL};

static struct xfer_fetch_spec spec_of(const char *dest) {
    return (struct xfer_fetch_spec){
        .program = "/r/bin/dtrun", .root = "/r", .paths = paths, .dest = path_of(dest)};
}

static struct xfer *begin(const struct xfer_fetch_spec *spec) {
    ends = 0;
    end_err = (struct err){.code = ERR_SYS};
    last = (struct xfer_progress){0};
    strbuf_clear(&phases);
    struct xfer *x = xfer_fetch(node_link, spec, &events, NULL, &e);
    if (!x)
        bail_out("%s", e.text);
    return x;
}

static void reopen(void) {
    loop_once(loop, 0);
    transport_close(node_link);
    fake_free_all();
    node_link = fake_link(loop, NULL, NULL);
}

static void fetch_all(struct node_end *n, const struct manifest *m) {
    n->run = fake_run(0);
    for (int i = 0; i < 10000 && !ends; i++) {
        serve(n, m);
        loop_once(loop, 0);
        if (i % 100 == 0)
            loop_once(loop, 2 * XFER_TICK_MS);
    }
}

static void test_whole(const struct manifest *m) {
    static const char *const exclude[] = {"*.tmp", NULL};
    struct node_end n = {0};
    struct xfer_fetch_spec spec = spec_of("fetched");
    spec.exclude = exclude;
    spec.missing_ok = true;
    begin(&spec);
    is_str(fake_run(0)->line, "exec /r/bin/dtrun --node fetch --root /r",
           "the command starts the agent");
    loop_once(loop, 2 * XFER_TICK_MS);
    is_str(last.phase, "connect", "the node has not answered");
    fetch_all(&n, m);
    is_int(ends, 1, "the fetch has one end");
    is_int(end_err.code, ERR_NONE, "the fetch is a success: %s", end_err.text);
    if (!n.greeted)
        bail_out("the node was not asked");
    ok(n.hello.missing_ok && n.hello.compress, "the greeting says what is asked for");
    ok(str_eq(n.hello.paths[0], paths[0]) && str_eq(n.hello.paths[1], paths[1]) &&
           !n.hello.paths[2],
       "the greeting has the paths");
    ok(str_eq(n.hello.exclude[0], "*.tmp") && !n.hello.exclude[1],
       "the greeting has what is left out");
    ok(n.got_result && n.run->got_end, "the node hears of the end");
    ok(same_tree("src", "fetched"), "all files are here");
    is_uint(last.files_all, m->files, "the files of the list are counted");
    is_uint(last.bytes_all, m->bytes, "the bytes of the list are counted");
    ok(last.files_total > 300 && last.files_total < m->files, "a content comes once");
    is_uint(last.files_done, last.files_total, "all files are done");
    is_uint(last.bytes_done, last.bytes_total, "all bytes are done");
    ok(last.bytes_wire > 0 && last.bytes_wire < last.bytes_total, "the content is compressed");
    has_str(strbuf_cstr(&phases), "connect ", "the first phase is seen");
    ok(!file_exists(path_of("fetched/.dtctl-part")), "no unfinished file is left");
    close_end(&n);
    reopen();
}

static void test_empty(void) {
    struct manifest *none = manifest_new();
    struct node_end n = {0};
    struct xfer_fetch_spec spec = spec_of("empty");
    begin(&spec);
    fetch_all(&n, none);
    is_int(end_err.code, ERR_NONE, "a node may have no file: %s", end_err.text);
    is_uint(last.files_all, 0, "nothing is counted");
    close_end(&n);
    reopen();
    manifest_free(none);
}

static void test_again(const struct manifest *m) {
    struct node_end n = {0};
    struct xfer_fetch_spec spec = spec_of("fetched");
    spec.no_compress = true;
    spec.hash_cache_path = path_of("hashes");
    begin(&spec);
    fetch_all(&n, m);
    is_int(end_err.code, ERR_NONE, "a second fetch is a success: %s", end_err.text);
    if (!n.greeted)
        bail_out("the node was not asked");
    ok(!n.hello.missing_ok && !n.hello.compress && !n.hello.exclude[0],
       "the greeting says that nothing more is asked for");
    is_int(n.frames, 0, "no content comes again");
    is_uint(last.files_total, 0, "no file is counted");
    is_str(last.phase, "place", "the last phase is named");
    ok(file_exists(path_of("hashes")), "the hashes are kept");
    close_end(&n);
    reopen();
}

// A fetch that is cut leaves what has come for the next one.
static void test_cut(const struct manifest *m) {
    struct node_end n = {0};
    struct xfer_fetch_spec spec = spec_of("cut");
    begin(&spec);
    n.run = fake_run(0);
    while (n.frames < 40) {
        serve(&n, m);
        loop_once(loop, 0);
    }
    loop_once(loop, 2 * XFER_TICK_MS);
    is_str(last.phase, "receive", "content comes");
    uint64_t all = last.bytes_total;
    ok(last.bytes_done > 0 && last.bytes_done < all, "a part has come");
    transport_notify_lost(&n.run->r, &(struct err){ERR_NET, "cut off"});
    is_int(end_err.code, ERR_NET, "the fetch ends with its connection");
    has_str(end_err.text, "cut off; the transfer was cut, the next attempt continues",
            "the error says what follows");
    close_end(&n);
    reopen();
    begin(&spec);
    fetch_all(&n, m);
    is_int(end_err.code, ERR_NONE, "the next one is a success: %s", end_err.text);
    ok(last.bytes_total < all, "less comes");
    ok(same_tree("src", "cut"), "all files are here after it");
    close_end(&n);
    reopen();
}

static void test_refusals(void) {
    struct xfer_fetch_spec spec = spec_of("refused");
    fake_refuses = 1;
    ok(!xfer_fetch(node_link, &spec, &events, NULL, &e),
       "a node that starts no command fails the fetch");
    has_str(e.text, "node n1: ", "the error names the node");
    has_str(e.text, "no more commands", "the error names the cause");
    put("file", "x", 1, 0644);
    spec.dest = path_of("file/below");
    ok(!xfer_fetch(node_link, &spec, &events, NULL, &e),
       "a folder that cannot be made fails the fetch");
    has_str(e.text, "file/below", "the error names the folder");
    is_int(fake_run_count(), 0, "no command starts then");
    // One path below the largest frame, and one above it.
    for (int i = 0; i < 2; i++) {
        size_t len = 60000, count = XFER_FRAME_BYTES_MAX / (len + 2) + (size_t)i;
        const char **many = arena_new(&arena, const char *, count + 1);
        char *path = arena_new(&arena, char, len + 1);
        memset(path, 'p', len);
        for (size_t k = 0; k < count; k++)
            many[k] = path;
        spec = spec_of("refused");
        spec.paths = many;
        struct xfer *x = xfer_fetch(node_link, &spec, &events, NULL, &e);
        is_int(x != NULL, i == 0, "%zu long paths: the greeting has a limit", count);
        if (i)
            is_str(e.text, "node n1: too many paths to fetch", "the error says so");
        xfer_cancel(x);
        reopen();
    }
}

static void test_ends(void) {
    static const struct {
        struct transport_end end;
        const char *said;
        int code;
        const char *text;
    } rows[] = {
        {{.how = TRANSPORT_EXITED, .status = 3},
         "no space \n",
         ERR_FAILED,
         "node n1: the agent ended with status 3; it said: no space"},
        {{.how = TRANSPORT_SIGNALED, .status = 137, .signal = "KILL"},
         "",
         ERR_FAILED,
         "node n1: the agent was ended by signal KILL; it said: nothing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct xfer_fetch_spec spec = spec_of("ends");
        begin(&spec);
        fake_say_error(fake_run(0), rows[i].said);
        transport_notify_end(&fake_run(0)->r, &rows[i].end);
        is_int(ends, 1, "end %zu: the fetch ends with its agent", i);
        is_int(end_err.code, rows[i].code, "end %zu: the code says why", i);
        is_str(end_err.text, rows[i].text, "end %zu: the text says why", i);
        reopen();
    }
}

// ---- answers out of turn ------------------------------------------------------------------------

static void test_out_of_turn(void) {
    static const unsigned char bytes[16] = {9};
    static const struct {
        bool greeted;
        enum xfer_type type;
        size_t len;
        const char *text;
    } rows[] = {
        {false, XFER_HELLO, 4, "'hello' out of turn"},
        {false, XFER_HELLO, 3, "'hello' out of turn"},
        {false, XFER_PROGRESS, 0, "'progress' out of turn"},
        {false, XFER_ENTRIES, 0, "'entries' out of turn"},
        {true, XFER_HELLO, 4, "'hello' out of turn"},
        {true, XFER_BATCH, 0, "'batch' out of turn"},
        {true, XFER_RESULT, 16, "'result' out of turn"},
        {true, XFER_ENTRIES_END, 7, "list of files is incomplete"},
        {true, XFER_ENTRIES_END, 8, "list of files is incomplete"},
        {true, XFER_FAIL, 0, "malformed message"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct xfer_fetch_spec spec = spec_of("turns");
        begin(&spec);
        if (rows[i].greeted)
            say_hello(fake_run(0));
        is_int(ends, 0, "row %zu: the fetch is under way", i);
        say(fake_run(0), rows[i].type, bytes, rows[i].len);
        loop_once(loop, 0);
        is_int(ends, 1, "row %zu: the answer ends the fetch", i);
        is_int(end_err.code, ERR_FORMAT, "row %zu: the answer breaks the protocol", i);
        ok(str_starts(end_err.text, "node n1: transfer: "), "row %zu: the error names the node", i);
        has_str(end_err.text, rows[i].text, "row %zu: the error says what came", i);
        reopen();
    }
    struct xfer_fetch_spec spec = spec_of("turns");
    struct xfer *x = begin(&spec);
    say_hello(fake_run(0));
    say(fake_run(0), XFER_PROGRESS, NULL, 0);
    loop_once(loop, 0);
    is_int(ends, 0, "a node may say that it is at work");
    struct strbuf b = {0};
    xfer_wire_fail(&b, &(struct err){ERR_NOT_FOUND, "no such run"});
    fake_say(fake_run(0), b.data, b.len);
    xfer_cancel(x);
    loop_once(loop, 0);
    is_int(ends, 0, "a fetch that is cancelled before its end is seen calls no more");
    strbuf_fini(&b);
    reopen();
}

int main(void) {
    if (!mkdtemp(folder) || !(loop = loop_open(&e)))
        bail_out("cannot start");
    make_tree();
    struct manifest *m = scan("src");
    node_link = fake_link(loop, NULL, NULL);
    test_whole(m);
    test_empty();
    test_again(m);
    test_cut(m);
    test_refusals();
    test_ends();
    test_out_of_turn();
    manifest_free(m);
    transport_close(node_link);
    fake_free_all();
    loop_close(loop);
    strbuf_fini(&phases);
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    arena_fini(&arena);
    return done_testing();
}
