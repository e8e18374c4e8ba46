// SPDX-License-Identifier: Apache-2.0
// Push, the operator's side: the command, the greeting, what it says of its progress, ends of the
// agent, answers out of turn.
#include "tests/unit/xfer/push_node.h"

static void test_whole(const struct manifest *m) {
    struct end n = {0};
    struct xfer_push_spec spec = spec_of(m);
    spec.mode = XFER_REPLACE;
    spec.owner = "cluster-1";
    spec.results = (const char *const[]){"run1/output", "run2/state", NULL};
    begin(&spec);
    n.run = fake_run(0);
    is_str(n.run->line, "exec /r/bin/dtrun --node push --root /r", "the command starts the agent");
    loop_once(loop, 2 * XFER_TICK_MS); // nothing has come yet
    is_str(last.phase, "connect", "the node has not answered");
    is_uint(last.files_all, m->files, "the files of the list are counted");
    is_uint(last.bytes_all, m->bytes, "the bytes of the list are counted");
    is_uint(last.files_total, 0, "nothing is known of what is sent");
    serve(&n, "pushed");
    loop_once(loop, 2 * XFER_TICK_MS);
    push_greeted(&n);
    ok(n.hello.replace && !n.hello.extra && !n.hello.peers && !n.hello.gives,
       "the greeting says what is asked for");
    is_str(n.hello.dest, "in", "the greeting has the destination");
    is_str(n.hello.owner, "cluster-1", "the greeting has the owner");
    ok(n.hello.results[0] && str_eq(n.hello.results[1], "run2/state") && !n.hello.results[2],
       "the greeting has the results");
    serve_all(&n, "pushed");
    is_int(ends, 1, "the push has one end");
    is_int(end_err.code, ERR_NONE, "the push is a success: %s", end_err.text);
    ok(n.got_done, "the node hears that all is sent");
    ok(same_tree("src", "pushed"), "the node has all files");
    ok(last.files_total > 300 && last.files_total < m->files, "a content is sent once");
    is_uint(last.files_done, last.files_total, "all files are done");
    ok(last.bytes_total > 20 << 20 && last.bytes_total < m->bytes,
       "the bytes of a content are counted once");
    is_uint(last.bytes_done, last.bytes_total, "all bytes are done");
    ok(last.bytes_wire > last.bytes_total, "bytes on the wire are counted");
    is_str(strbuf_cstr(&phases), "connect compare send place ", "the phases follow each other");
    ok(n.run->is_closed, "the run is closed");
    close_end(&n);
    reopen();
}

static void test_again(const struct manifest *m) {
    struct end n = {0};
    struct xfer_push_spec spec = spec_of(m);
    spec.no_compress = true;
    begin(&spec);
    n.run = fake_run(0);
    serve_all(&n, "pushed");
    is_int(end_err.code, ERR_NONE, "a second push is a success: %s", end_err.text);
    push_greeted(&n);
    ok(!n.hello.replace && n.hello.owner[0] == '\0' && !n.hello.results[0],
       "the greeting of a merge says so");
    is_uint(n.content_frames, 0, "no content is sent again");
    ok(!n.got_done, "a node that needs no file hears no end");
    is_uint(last.files_total, 0, "no file is sent");
    is_uint(last.bytes_total, 0, "no byte is sent");
    close_end(&n);
    reopen();
}

static void test_refusals(const struct manifest *m) {
    struct manifest *unsorted = manifest_new();
    struct xfer_push_spec spec = spec_of(unsorted);
    if (manifest_add_path(unsorted, path_of("src"), "", NULL, &e) < 0)
        bail_out("%s", e.text);
    ok(!xfer_push(node_link, &spec, &events, NULL, &e), "a list without hashes is refused");
    has_str(e.text, "was not hashed", "the error says so");
    manifest_free(unsorted);
    spec.manifest = m;
    fake_refuses = 1;
    ok(!xfer_push(node_link, &spec, &events, NULL, &e),
       "a node that starts no command fails the push");
    is_str(e.text, "node n1: no more commands", "the error names the node and the cause");
    is_int(e.code, ERR_LIMIT, "the error has the cause's code");
    loop_once(loop, 2 * XFER_TICK_MS);
    is_int(fake_run_count(), 0, "nothing is left of it");
    reopen();
}

// ---- ends of the agent --------------------------------------------------------------------------

static void test_ends(const struct manifest *m) {
    static const struct err cut_off = {ERR_NET, "cut off"};
    static const struct {
        struct transport_end end;
        const char *said;
        int code;
        const char *text;
    } rows[] = {
        {{.how = TRANSPORT_EXITED, .status = 3},
         "no \x1b[31mspace \n\n",
         ERR_FAILED,
         "node n1: the agent ended with status 3; it said: no "},
        {{.how = TRANSPORT_EXITED, .status = 127},
         "",
         ERR_FAILED,
         "node n1: the agent ended with status 127; it said: nothing"},
        {{.how = TRANSPORT_EXITED, .status = 0},
         " \n",
         ERR_FAILED,
         "node n1: the agent ended with status 0; it said: nothing"},
        {{.how = TRANSPORT_SIGNALED, .status = 137, .signal = "KILL"},
         "",
         ERR_FAILED,
         "node n1: the agent was ended by signal KILL; it said: nothing"},
        {{.how = TRANSPORT_LOST, .status = -1, .err = &cut_off},
         "x",
         ERR_NET,
         "cut off; the transfer was cut, the next attempt continues where this one stopped"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct xfer_push_spec spec = spec_of(m);
        begin(&spec);
        fake_say_error(fake_run(0), rows[i].said);
        transport_notify_end(&fake_run(0)->r, &rows[i].end);
        is_int(ends, 1, "end %zu: the push ends with its agent", i);
        is_int(end_err.code, rows[i].code, "end %zu: the code says why", i);
        ok(str_starts(end_err.text, rows[i].text), "end %zu: the text says why: %s", i,
           end_err.text);
        ok(!strchr(end_err.text, '\x1b'), "end %zu: no control byte passes", i);
        loop_once(loop, 2 * XFER_TICK_MS);
        is_int(ends, 1, "end %zu: there is no second end", i);
        reopen();
    }
}

static void test_cancel(const struct manifest *m) {
    for (int i = 0; i < 4; i++) {
        struct xfer_push_spec spec = spec_of(m);
        struct end n = {0};
        struct xfer *x = begin(&spec);
        n.run = fake_run(0);
        cancel_in_progress = i == 1;
        cancel_in_end = i == 3;
        if (i == 0)
            xfer_cancel(x);
        else if (i == 1)
            loop_once(loop, 2 * XFER_TICK_MS);
        else if (i == 2) {
            say(n.run, XFER_ENTRIES, "", 0); // it fails, and the end is to come
            xfer_cancel(x);
        } else {
            fake_exit(n.run, 1);
        }
        loop_once(loop, 2 * XFER_TICK_MS);
        is_int(ends, i == 3, "cancel %d: a push that is cancelled calls no more", i);
        ok(n.run->is_closed || i == 3, "cancel %d: the run is closed", i);
        reopen();
    }
    xfer_cancel(NULL);
}

// ---- answers out of turn ------------------------------------------------------------------------

enum when { AT_ONCE, GREETED, LISTED, DONE };

// Brings a push so far. In DONE it waits for the result.
static struct end reach(const struct manifest *m, enum when when) {
    struct xfer_push_spec spec = spec_of(m);
    struct end n = {0};
    begin(&spec);
    n.run = fake_run(0);
    while (fake_take(n.run, SIZE_MAX))
        ;
    if (when >= GREETED)
        say_hello(n.run);
    if (when >= DONE)
        say(n.run, XFER_NEED_END, NULL, 0);
    return n;
}

static void test_out_of_turn(const struct manifest *m) {
    static const unsigned char eight[16] = {9};
    static const struct {
        enum when when;
        enum xfer_type type;
        size_t len;
        const char *text;
    } rows[] = {
        {AT_ONCE, XFER_HELLO, 4, "the agent greets with another version"},
        {AT_ONCE, XFER_HELLO, 3, "the agent greets with another version"},
        {GREETED, XFER_HELLO, 4, "the agent greets with another version"},
        {AT_ONCE, XFER_NEED_END, 0, "'need-end' out of turn"},
        {AT_ONCE, XFER_NEED, 0, "'need' out of turn"},
        {DONE, XFER_NEED, 0, "'need' out of turn"},
        {DONE, XFER_NEED_END, 0, "'need-end' out of turn"},
        {GREETED, XFER_NEED, 1, "malformed"},
        {GREETED, XFER_ACK, 8, "acknowledges bytes that were not sent"},
        {GREETED, XFER_ACK, 7, "'ack' out of turn"},
        {GREETED, XFER_ACK, 9, "'ack' out of turn"},
        {GREETED, XFER_RESULT, 16, "'result' out of turn"},
        {DONE, XFER_RESULT, 15, "'result' out of turn"},
        {DONE, XFER_RELAY_PORT, 3, "'relay-port' out of turn"},
        {GREETED, XFER_ENTRIES, 0, "'entries' out of turn"},
        {GREETED, XFER_RELAY_END, 0, "'relay-end' out of turn"},
        {GREETED, XFER_FAIL, 0, "malformed message"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct end n = reach(m, rows[i].when);
        is_int(ends, 0, "row %zu: the push is under way", i);
        say(n.run, rows[i].type, eight, rows[i].len);
        loop_once(loop, 0);
        is_int(ends, 1, "row %zu: the answer ends the push", i);
        is_int(end_err.code, ERR_FORMAT, "row %zu: the answer breaks the protocol", i);
        ok(str_starts(end_err.text, "node n1: transfer: "), "row %zu: the error names the node", i);
        has_str(end_err.text, rows[i].text, "row %zu: the error says what came", i);
        reopen();
    }
}

static void test_failure_of_node(const struct manifest *m) {
    struct end n = reach(m, GREETED);
    struct strbuf b = {0};
    xfer_wire_fail(&b, &(struct err){ERR_LIMIT, "the disk is full"});
    fake_say(n.run, b.data, b.len - 1);
    loop_once(loop, 0);
    is_int(ends, 0, "a part of a frame is awaited");
    fake_say(n.run, b.data + b.len - 1, 1);
    fake_exit(n.run, 1);
    loop_once(loop, 0);
    is_int(end_err.code, ERR_LIMIT, "the node's error comes through");
    is_str(end_err.text, "node n1: the disk is full", "the node's error has its name");
    is_int(ends, 1, "the agent's end says nothing more");
    strbuf_fini(&b);
    reopen();
}

// Harmless frames in between.
static void test_ignored(const struct manifest *m) {
    static const unsigned char result[16] = {0}, port[4] = {0};
    struct end n = reach(m, DONE);
    say(n.run, XFER_PROGRESS, result, 16);
    say(n.run, XFER_ACK, result, 8);
    say(n.run, XFER_RELAY_READY, NULL, 0); // of a chain that has ended
    say(n.run, XFER_RELAY_LOST, NULL, 0);
    say(n.run, XFER_RELAY_PORT, port, 4);
    loop_once(loop, 2 * XFER_TICK_MS);
    is_int(ends, 0, "the push waits for its result");
    is_str(last.phase, "place", "the node places the files");
    say(n.run, XFER_RESULT, result, 16);
    fake_exit(n.run, 9);
    loop_once(loop, 0);
    is_int(ends, 1, "the push has ended");
    is_int(end_err.code, ERR_NONE, "the status behind the result does not matter");
    reopen();
}

int main(void) {
    struct manifest *m = push_init();
    test_whole(m);
    test_again(m);
    test_refusals(m);
    test_ends(m);
    test_cancel(m);
    test_out_of_turn(m);
    test_failure_of_node(m);
    test_ignored(m);
    push_fini(m);
    return done_testing();
}
