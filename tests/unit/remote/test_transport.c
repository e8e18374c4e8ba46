// SPDX-License-Identifier: Apache-2.0
// The transport of provider `local` through the common calls: output, input, ends, closing in
// callbacks; and what the agent's hello means.
#include "base/str.h"
#include "remote/transport_impl.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "xfer/agent_bootstrap.h"

#include <unistd.h>

static char folder[] = "/tmp/test_transport.XXXXXX";
static struct loop *loop;

struct seen {
    struct strbuf out, err_text;
    struct transport_end end;
    int ends, opens, downs;
    bool close_on_output;
    size_t to_send;
    struct transport_link *close_link;
};

static void on_open(struct transport_link *l, void *ctx) {
    (void)l;
    ((struct seen *)ctx)->opens++;
    loop_stop(loop);
}

static void on_down(struct transport_link *l, void *ctx, const struct err *e) {
    (void)l;
    (void)e;
    ((struct seen *)ctx)->downs++;
}

static const struct transport_link_events link_events = {on_open, on_down};

static void on_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    struct seen *s = ctx;
    strbuf_add(&s->out, p, len);
    if (s->close_on_output) {
        transport_run_close(r);
        loop_stop(loop);
    }
    if (s->close_link) {
        transport_close(s->close_link);
        loop_stop(loop);
    }
}

static void on_error(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    strbuf_add(&((struct seen *)ctx)->err_text, p, len);
}

static void on_room(struct transport_run *r, void *ctx) {
    static const char block[4096];
    struct seen *s = ctx;
    while (s->to_send) {
        size_t n = transport_run_send(r, block, s->to_send < 4096 ? s->to_send : 4096);
        s->to_send -= n;
        if (!n)
            return;
    }
    transport_run_send_end(r);
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct seen *s = ctx;
    (void)r;
    s->end = *end;
    s->ends++;
    loop_stop(loop);
}

static const struct transport_run_events run_events = {on_output, on_error, on_room, on_end};

static struct seen *seen_new(void) {
    return heap_alloc(sizeof(struct seen));
}

static void seen_free(struct seen *s) {
    strbuf_fini(&s->out);
    strbuf_fini(&s->err_text);
    free(s);
}

static struct seen *run(struct transport_link *l, const char *line, bool pty, size_t input) {
    struct seen *s = seen_new();
    struct err e;
    struct transport_command c = {.line = line, .pty = pty, .columns = 91, .rows = 31};
    s->to_send = input;
    struct transport_run *r = transport_run(l, &c, &run_events, s, &e);
    if (!r)
        bail_out("%s", e.text);
    if (!pty)
        on_room(r, s);
    loop_run(loop);
    return s;
}

static void test_ends(struct transport_link *l) {
    struct seen *s = run(l, "echo out; echo err >&2; pwd; exit 3", false, 0);
    has_str(strbuf_cstr(&s->out), "out\n", "standard output arrives");
    has_str(strbuf_cstr(&s->out), folder, "commands start in the node's folder");
    is_str(strbuf_cstr(&s->err_text), "err\n", "standard error arrives");
    ok(s->end.how == TRANSPORT_EXITED && s->end.status == 3, "the status arrives");
    seen_free(s);
    s = run(l, "kill -TERM $$", false, 0);
    ok(s->end.how == TRANSPORT_SIGNALED && s->end.status == 143, "a signal is reported");
    is_str(s->end.signal, "TERM", "a signal is reported by name");
    seen_free(s);
    s = run(l, "stty size; echo err >&2; exit 4", true, 0);
    has_str(strbuf_cstr(&s->out), "31 91\r\nerr", "a terminal of that size serves both streams");
    is_int(s->end.status, 4, "a command with a terminal has its status");
    seen_free(s);
    s = run(l, "wc -c", false, 3000000);
    is_int((int)strtol(strbuf_cstr(&s->out), NULL, 10), 3000000, "all input goes in");
    seen_free(s);
    s = run(l, "head -c 5000000 /dev/zero", false, 0);
    is_uint(s->out.len, 5000000, "all output arrives");
    seen_free(s);
    s = run(l, "exec <&-; sleep 0.05; echo late", false, 3000000);
    is_str(strbuf_cstr(&s->out), "late\n", "a command need not read its input");
    seen_free(s);
    s = run(l, "sleep 20 & echo $!", false, 0);
    int left = (int)strtol(strbuf_cstr(&s->out), NULL, 10);
    ok(left > 1 && kill(left, SIGKILL) == 0, "a command ends while a child of it still runs");
    seen_free(s);
}

static void test_closing(struct transport_link *l) {
    struct seen *s = seen_new();
    struct err e;
    s->close_on_output = true;
    struct transport_command c = {.line = "echo x; exec sleep 77.77"};
    ok(transport_run(l, &c, &run_events, s, &e) != NULL, "a command starts");
    loop_run(loop);
    is_int(s->ends, 0, "closed in its own callback it calls no more");
    seen_free(s);
    int i = 0;
    struct seen *many = seen_new();
    while (i < 20 &&
           transport_run(l, &(struct transport_command){.line = "sleep 77"}, &run_events, many, &e))
        i++;
    is_int(i, TRANSPORT_RUNS_PER_LINK_MAX - 1, "as many commands run at once as the limit allows");
    is_int(e.code, ERR_LIMIT, "a command above the limit is a limit error");
    transport_close(l);
    is_int(many->ends, 0, "closing the link ends them without callbacks");
    seen_free(many);
}

static struct transport_link *open_link(struct seen *s) {
    static struct transport_env env;
    struct err e;
    env.loop = loop;
    env.env = environ;
    struct transport_target t = {.node = "node", .folder = folder};
    struct transport_link *l = transport_open(&transport_local, &env, &t, &link_events, s, &e);
    if (!l)
        bail_out("%s", e.text);
    loop_run(loop);
    return l;
}

static void collected(void *ctx, const struct transport_result *r) {
    is_str(r->out, "hello", "the output is collected");
    is_int(r->end.status, 2, "a collected command has its status");
    *(bool *)ctx = true;
    loop_stop(loop);
}

static void test_collect(struct transport_link *l) {
    struct err e;
    bool done = false;
    ok(transport_collect(l, "cat; exit 2", "hello", 5, collected, &done, &e) == 0,
       "a command is collected");
    loop_run(loop);
    ok(done, "the collecting callback is called");
    ok(transport_collect(l, "sleep 77", "", 0, collected, &done, &e) == 0,
       "a command that sleeps is started");
}

static void test_hello(void) {
    static const char good[] =
        "Welcome!\n{\"program\":\"/r/bin/dtrun\",\"root\":\"/r\",\"cpus\":2,\"sha256\":"
        "\"6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b\",\"arch\":\"x\"}\n";
    struct arena a = {0};
    struct node_facts f;
    struct err e;
    is_int(agent_install_parse(&a, good, sizeof good - 1, &f, &e), 0,
           "a hello behind other output is found");
    is_str(f.root, "/r", "a hello behind other output has its fields");
    is_int(agent_install_parse(&a, good, sizeof good - 2, &f, &e), -1,
           "a truncated hello is refused");
    is_int(agent_install_parse(&a, "{}\n", 3, &f, &e), -1, "an empty object is no hello");
    is_int(agent_install_parse(&a, "", 0, &f, &e), -1, "an empty text is no hello");
    is_str(transport_path_word(&a, "~/a b"), "~/'a b'",
           "a path below the home folder is not quoted as a whole");
    is_str(transport_path_word(&a, "/a"), "/a", "an absolute path is left as it is");
    arena_fini(&a);
}

// Takes the parked command of this name, has it say a word and end; whether it was there.
static bool use_parked(struct transport_link *l, const char *name, const char *word) {
    struct seen *s = seen_new();
    struct transport_run *r = transport_run_unpark(l, name, &run_events, s);
    if (r) {
        transport_run_send(r, word, strlen(word));
        transport_run_send_end(r);
        loop_run(loop);
        is_str(strbuf_cstr(&s->out), word, "the output of a parked command goes to its new owner");
        ok(s->ends == 1 && s->end.how == TRANSPORT_EXITED,
           "the end of a parked command goes to its new owner");
    }
    seen_free(s);
    return r;
}

static void test_parking(struct transport_link *l) {
    struct seen *s = seen_new(), *late = seen_new();
    struct err e;
    const struct transport_command cat = {.line = "exec cat"}, gone = {.line = "exit 0"};
    struct transport_run *r = transport_run(l, &cat, &run_events, s, &e);
    transport_run_park(r, "cat");
    ok(!use_parked(l, "dog", ""), "a parked command is found by its name only");
    ok(use_parked(l, "cat", "a word\n"), "a parked command runs on for its new owner");
    ok(!use_parked(l, "cat", ""), "a parked command can be taken once");
    is_int(s->ends + (int)s->out.len, 0, "the first owner gets no more output");

    transport_run_park(transport_run(l, &gone, &run_events, s, &e), "gone");
    seen_free(run(l, "sleep 0.3", false, 0)); // runs the loop meanwhile
    ok(!use_parked(l, "gone", ""), "a parked command that has ended cannot be taken");

    transport_run_park(transport_run(l, &cat, &run_events, s, &e), "cat");
    struct transport_run *more[TRANSPORT_RUNS_PER_LINK_MAX + 1];
    int count = 0, before = l->run_count;
    while (count <= TRANSPORT_RUNS_PER_LINK_MAX &&
           (more[count] = transport_run(l, &cat, &run_events, late, &e)))
        count++;
    is_int(count, TRANSPORT_RUNS_PER_LINK_MAX - before + 1,
           "a parked command is closed when a new command needs its place");
    ok(!use_parked(l, "cat", ""), "a closed parked command cannot be taken");
    while (count > 0)
        transport_run_close(more[--count]);
    seen_free(s);
    seen_free(late);
}

int main(void) {
    struct err e;
    struct seen *s = seen_new();
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    if (!mkdtemp(folder) || !(loop = loop_open(&e)))
        bail_out("cannot start");
    struct transport_link *l = open_link(s);
    is_int(s->opens, 1, "a link opens");
    test_ends(l);
    test_collect(l);
    test_parking(l);
    test_closing(l);
    l = open_link(s);
    struct seen *inner = seen_new();
    inner->close_link = l;
    ok(transport_run(l, &(struct transport_command){.line = "echo x; exec sleep 77"}, &run_events,
                     inner, &e) != NULL,
       "a second command starts");
    loop_run(loop);
    is_int(inner->ends + s->downs, 0, "a link may be closed in the callback of a command");
    seen_free(inner);
    seen_free(s);
    loop_close(loop);
    test_hello();
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    return done_testing();
}
