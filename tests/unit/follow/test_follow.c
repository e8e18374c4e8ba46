// SPDX-License-Identifier: Apache-2.0
// Following a run on the operator's side: whatever cannot be opened is an error that closes
// cleanly; an expression that this version does not take costs its metric, and nothing else.
#include "agent/event_log.h"
#include "base/clock.h"
#include "follow/follow.h"
#include "tests/unit/follow/follow_fixture.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>

// ---- the N-th file that is opened cannot be -----------------------------------------------------

static int open_left = -1; // -1: all can be

static bool open_fails(void) {
    if (open_left != 0) {
        open_left -= open_left > 0;
        return false;
    }
    errno = EMFILE;
    return true;
}

int test_open(const char *path, int flags, ...) __asm__("open");

int test_open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return open_fails() ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static const struct follow_view NOTHING;

static void put(struct follow_fixture *f, const char *name, const char *text) {
    struct err e = {0};
    const char *path = run_path(&f->context.cluster, &f->run, name);
    if (file_make_dirs(file_dir(&f->arena, path), 0700, &e) < 0 ||
        file_write_atomic(path, text, strlen(text), 0600, &e) < 0)
        bail_out("%s", e.text);
}

static void opens(void) {
    static const char event[] = "{\"kind\":\"round\",\"round\":0,\"nproc\":1,\"rank\":0}\n";
    struct follow_fixture f;
    fixture_make(&f);
    put(&f, "nodes/n0/events.jsonl", event);
    put(&f, "nodes/n0/.begin", "{\"events.jsonl\":0}");
    put(&f, "nodes/n0/output/metrics.jsonl", "{\"loss\":1}\n");
    put(&f, "nodes/n1/events.jsonl", event);
    put(&f, "nodes/n1/attempt_0/0/stdout.log", "line\nrest");
    int steps = 0, failed = 0;
    for (int result = -1; result < 0 && steps < 100; steps++) {
        struct err e = {0};
        open_left = steps;
        result = follow_open(&f.follow, &f.context, &f.fleet, &f.run, &NOTHING, NULL, &e);
        open_left = -1;
        failed += result < 0;
        if (result < 0 && !strstr(e.text, "'"))
            fail("step %d says what cannot be opened: %s", steps, e.text);
        follow_close(&f.follow);
        if (f.fleet.on_lost || f.fleet_nodes[0].work || f.fleet_nodes[1].work)
            fail("step %d: nothing is left behind", steps);
    }
    ok(failed > 10 && steps < 100, "every step of opening fails once and closes (%d)", failed);
    fixture_remove(&f);
}

static void events_open_fails(void) {
    struct events ev;
    struct err e = {0};
    open_left = 0;
    is_int(events_open(&ev, "/tmp/x/events.jsonl", "n", &e), -1, "events that cannot be opened");
    open_left = -1;
    events_close(&ev);
    is_int(ev.fd, -1, "close cleanly");
}

static void old_metrics(void) {
    static struct option_pair pairs[] = {{"a", "x=(.+"}, {"b", "loss=([0-9.]+)"}};
    struct follow_fixture f;
    struct err e = {0};
    fixture_make(&f);
    f.run.metrics = (struct option_map){pairs, 2};
    is_int(follow_open(&f.follow, &f.context, &f.fleet, &f.run, &NOTHING, NULL, &e), 0,
           "a run with an expression that is not taken can be followed %s", e.text);
    is_uint(f.follow.metrics.count, 1, "a refused expression gives no metric");
    is_str(f.follow.metrics.metrics[0].name, "b", "the other metrics are kept");
    follow_close(&f.follow);
    fixture_remove(&f);
}

// ---- lines --------------------------------------------------------------------------------------

struct seen {
    struct strbuf text;
    int lines;
};

static void on_line(void *ctx, const struct follow_line *line) {
    struct seen *s = ctx;
    s->lines++;
    if (s->text.len < 4096)
        strbuf_addf(&s->text, "%d:%.*s|", line->rank, (int)line->len, line->text);
}

static const char ROUND[] = "{\"kind\":\"round\",\"round\":0,\"nproc\":2,\"rank\":4}\n";

static void ranks(void) {
    static const struct follow_view view = {.on_line = on_line};
    struct follow_fixture f;
    struct seen seen = {0};
    struct err e = {0};
    fixture_make(&f);
    follow_open(&f.follow, &f.context, &f.fleet, &f.run, &view, &seen, &e);
    fixture_bytes(&f, 0, "attempt_0/1/stdout.log", "early\n");
    fixture_bytes(&f, 0, "events.jsonl", ROUND);
    fixture_bytes(&f, 0, "attempt_0/1/stdout.log", "a\nb\n");
    fixture_bytes(&f, 0, "attempt_0/2/stdout.log", "c\n");
    is_str(strbuf_cstr(&seen.text), "-1:early|5:a|5:b|-1:c|",
           "lines are shown at once, with ranks");
    follow_close(&f.follow);
    strbuf_fini(&seen.text);
    fixture_remove(&f);
}

static void on_update(void *ctx, const struct follow_line *line) {
    struct seen *s = ctx;
    if (s->text.len < 4096)
        strbuf_addf(&s->text, "~%d:%.*s|", line->rank, (int)line->len, line->text);
}

static void on_value(void *ctx, const struct follow_node *n, int rank, const char *name,
                     double value) {
    struct seen *s = ctx;
    (void)n;
    (void)rank;
    (void)name;
    if (s->text.len < 4096)
        strbuf_addf(&s->text, "%g|", value);
}

static void progress_bars(void) {
    static const struct follow_view view = {
        .on_line = on_line, .on_update = on_update, .on_metric = on_value};
    static struct option_pair pairs[] = {{"s", "step=([0-9]+)"}};
    static const char *const name = "attempt_0/0/stderr.log";
    static const struct {
        const char *bytes, *want, *about;
    } cases[] = {
        {"\rstep=1", "~4:step=1|", "a bar is shown as it moves; its value may not be whole"},
        {"2 ", "~4:step=12 |", "more of it"},
        {"\rstep=2", "12|~4:step=12 |~4:step=2|", "the next state: the last one is a value"},
        {"\n", "2|4:step=2|", "its end is a line, once"},
        {"a\r\nb\r", "4:a|~4:b|", "a line may end with both"},
        {"\n", "4:b|", "also where they come apart"},
        {"x\ry\rz\n", "~4:x|~4:y|4:z|", "states that come at once"},
        {"\r\r\n", "4:|", "nothing is an empty line"},
    };
    struct follow_fixture f;
    struct seen seen = {0};
    struct err e = {0};
    fixture_make(&f);
    f.run.metrics = (struct option_map){pairs, 1};
    follow_open(&f.follow, &f.context, &f.fleet, &f.run, &view, &seen, &e);
    fixture_bytes(&f, 0, "events.jsonl", ROUND);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strbuf_clear(&seen.text);
        fixture_bytes(&f, 0, name, cases[i].bytes);
        is_str(strbuf_cstr(&seen.text), cases[i].want, "%s", cases[i].about);
    }
    strbuf_clear(&seen.text);
    fixture_bytes(&f, 0, name, "step=7\rstep=8");
    follow_close(&f.follow);
    strbuf_clear(&seen.text);
    follow_open(&f.follow, &f.context, &f.fleet, &f.run, &view, &seen, &e);
    fixture_bytes(&f, 0, name, "\rstep=9\n");
    is_str(strbuf_cstr(&seen.text), "8|~4:step=8|9|4:step=9|",
           "another follower continues in a progress bar");
    follow_close(&f.follow);
    strbuf_fini(&seen.text);
    fixture_remove(&f);
}

// ---- nodes that do not answer
// --------------------------------------------------------------------

struct silence {
    struct follow *follow;
    int64_t lost_ms, over_ms; // ago; 0: is not
    bool lost_by_others;
};

static void on_lost(void *ctx, const struct follow_node *n, const struct err *e) {
    const struct silence *s = ctx;
    (void)e;
    int64_t now = clock_mono_ms();
    if (n->index == 0) {
        s->follow->nodes[0].lost_ms = s->lost_ms ? now - s->lost_ms : 0;
        s->follow->over_ms = s->over_ms ? now - s->over_ms : 0;
        s->follow->history.nodes[0].lost = s->lost_by_others;
    }
}

static void on_tick(void *ctx) {
    const struct silence *s = ctx;
    s->follow->leave = true;
}

static void gives_up(void) {
    static const struct follow_view view = {.on_lost = on_lost, .on_tick = on_tick};
    static const struct {
        double lost_s, over_s; // a busy machine may be seconds late
        bool lost_by_others, given_up, unreachable;
    } cases[] = {
        {16, 16, false, true, true}, {5, 16, false, false, true},  {16, 5, false, false, true},
        {16, 0, false, false, true}, {0, 16, false, false, false}, {3, 3, true, true, true},
        {0.1, 3, true, false, true}, {3, 0.1, true, false, true},  {3, 3, false, false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct follow_fixture f;
        struct err e = {0};
        fixture_make(&f);
        f.context.loop = loop_open(&e);
        struct silence s = {&f.follow, (int64_t)(cases[i].lost_s * 1000),
                            (int64_t)(cases[i].over_s * 1000), cases[i].lost_by_others};
        follow_open(&f.follow, &f.context, &f.fleet, &f.run, &view, &s, &e);
        is_int(follow_wait(&f.follow, &e), -1,
               "a node was silent for %g s when the run was over for %g s", cases[i].lost_s,
               cases[i].over_s);
        is_int(e.code, ERR_INTERRUPTED, "the wait ends with the first tick");
        ok(f.follow.nodes[0].over == cases[i].given_up, "%s",
           cases[i].given_up ? "the follower gives the node up"
                             : "the follower waits for the node");
        ok((f.follow.unreachable_ms != 0) == cases[i].unreachable,
           "the time without any node begins, or does not");
        ok(!f.follow.nodes[1].over, "the follower waits for the other node, which has just gone");
        follow_close(&f.follow);
        loop_close(f.context.loop);
        fixture_remove(&f);
    }
}

int main(void) {
    gives_up();
    progress_bars();
    ranks();
    opens();
    events_open_fails();
    old_metrics();
    return done_testing();
}
