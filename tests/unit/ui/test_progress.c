// SPDX-License-Identifier: Apache-2.0
// Progress rows and the screen: what is written where, in every style; foreign text.
#include "tests/tap.h"
#include "ui/progress.h"

#include <fcntl.h>
#include <unistd.h>

// Reads all bytes that were written to a pipe.
static const char *drain(int fd, struct arena *a) {
    char part[65536];
    ssize_t n = read(fd, part, sizeof part);
    return arena_strndup(a, part, n > 0 ? (size_t)n : 0);
}

static void open_pipe(int fds[2]) {
    if (pipe(fds) < 0)
        bail_out("no pipe");
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
}

static const char *const NAMES[] = {"node0", "node1"};

static void plain(void) {
    struct arena a = {0};
    struct screen s;
    struct progress p;
    int out[2], note[2];
    open_pipe(out);
    open_pipe(note);
    screen_init(&s, out[1], note[1], SCREEN_PLAIN, false);
    progress_init(&p, &a, &s, "push", NAMES, 2, 0);
    progress_set(&p, 0, 0, 1000000);
    progress_show(&p, 0);
    progress_set(&p, 0, 250000, 1000000);
    progress_show(&p, 1000);
    is_str(drain(note[0], &a), "", "nothing is said in the first seconds");
    progress_set(&p, 0, 500000, 1000000);
    progress_end(&p, 1, false, "no space left");
    progress_show(&p, 2000);
    is_str(drain(note[0], &a), "push  node1  failed: no space left\n", "a failure is said at once");
    progress_show(&p, 6000);
    const char *line = drain(note[0], &a);
    has_str(line, "push  node0  [##########          ]",
            "a row with a bar is printed every few seconds");
    has_str(line, "500 kB of 1.0 MB", "the row says how much of the whole is done");
    has_str(line, "/s", "the row says how fast it goes");
    has_str(line, "left", "the row says how long it will take");
    progress_end(&p, 0, true, "1.0 MB in 7.0 s");
    progress_fini(&p, 7000);
    is_str(drain(note[0], &a), "push  node0  1.0 MB in 7.0 s\n",
           "the end of a row is printed once");
    is_str(drain(out[0], &a), "", "results are not touched");
    arena_fini(&a);
}

static void terminal(void) {
    struct arena a = {0};
    struct screen s;
    struct progress p;
    int out[2], note[2];
    open_pipe(out);
    open_pipe(note);
    screen_init(&s, out[1], note[1], SCREEN_TERMINAL, false);
    progress_init(&p, &a, &s, "push", NAMES, 2, 0);
    progress_set(&p, 0, 1, 2);
    progress_show(&p, 0);
    const char *text = drain(note[0], &a);
    has_str(text, "node0", "rows are drawn");
    is_int(s.live_lines, 2, "each node has a line");
    progress_show(&p, PROGRESS_DRAW_MS / 2);
    is_str(drain(note[0], &a), "", "rows are not printed more often than needed");
    progress_show(&p, PROGRESS_DRAW_MS);
    has_str(drain(note[0], &a), "\033[2A", "the lines are drawn over themselves");
    screen_note(&s, "a remark");
    text = drain(note[0], &a);
    has_str(text, "\033[2A\033[Ja remark\n", "a remark takes the block's place");
    is_int(s.live_lines, 0, "the block is drawn again after a remark");
    struct strbuf row = {0};
    progress_format(&p, &p.rows[0], 20, &row);
    is_uint(row.len, 19, "a row never wraps");
    strbuf_fini(&row);
    arena_fini(&a);
}

static void json(void) {
    struct arena a = {0};
    struct screen s;
    struct progress p;
    struct json *j = NULL;
    struct err e = {0};
    int out[2], note[2];
    open_pipe(out);
    open_pipe(note);
    screen_init(&s, out[1], note[1], SCREEN_JSON, false);
    screen_note(&s, "for people");
    screen_out(&s, "for people\n");
    progress_init(&p, &a, &s, "fetch", NAMES, 1, 0);
    progress_set(&p, 0, 5, 5);
    progress_end(&p, 0, true, "done");
    progress_fini(&p, 10);
    const char *text = drain(out[0], &a);
    is_int(json_parse(&a, text, strlen(text), &j, &e), 0,
           "an event is one JSON object and nothing else");
    is_str(json_get_str(j, "event", ""), "progress", "an event is written");
    is_str(json_get_str(j, "state", ""), "done", "the event has the state");
    is_int(json_get_int(j, "bytes_total", 0), 5, "the event has the amount");
    is_str(drain(note[0], &a), "", "nothing is printed for people");
    arena_fini(&a);
}

static void foreign(const char *in, const char *want) {
    struct strbuf out = {0};
    screen_foreign(&out, in, strlen(in));
    is_str(strbuf_cstr(&out), want, "foreign text '%s' is made safe", want);
    strbuf_fini(&out);
}

static void rate(void) {
    struct arena a = {0};
    struct screen s;
    struct progress p;
    int out[2];
    open_pipe(out);
    screen_init(&s, out[1], out[1], SCREEN_PLAIN, true);
    progress_init(&p, &a, &s, "x", NAMES, 1, 0);
    for (int i = 0; i <= 100; i++) {
        progress_set(&p, 0, (uint64_t)i * 100, 1000000);
        progress_show(&p, i * PROGRESS_RATE_SAMPLE_MS);
    }
    near(progress_rate(&p.rows[0]), 400, 1e-9,
         "the rate counts bytes per second over the last samples");
    arena_fini(&a);
}

static void gathered(void) {
    enum { LINES = 3000 };
    struct arena a = {0};
    struct screen s;
    int out[2], note[2];
    open_pipe(out);
    open_pipe(note);
    screen_init(&s, out[1], note[1], SCREEN_PLAIN, false);
    screen_gather(&s);
    screen_words(&s, "[0] ", "one", 3, false);
    screen_words(&s, "[0] ", "two", 3, false);
    is_str(drain(out[0], &a), "", "gathered lines wait");
    screen_words(&s, "[0] ", "error", 5, true);
    is_str(drain(out[0], &a), "[0] one\n[0] two\n", "a remark comes after the lines before it");
    screen_out(&s, "three\n");
    screen_flush(&s);
    is_str(drain(out[0], &a), "three\n", "the rest is written at the end");
    screen_out(&s, "four\n");
    is_str(drain(out[0], &a), "four\n", "after that no line waits");
    screen_gather(&s);
    for (int i = 0; i < LINES; i++)
        screen_write(&s, "0123456789abcdefghijklmno\n", 26);
    size_t there = strlen(drain(out[0], &a));
    ok(there > 0 && there <= 65536 && there % 26 == 0, "no more than 64 KiB wait (%zu)", there);
    screen_flush(&s);
    is_uint(there + strlen(drain(out[0], &a)), LINES * 26, "no byte is lost");
    screen_fini(&s);
    s.out_is_terminal = true;
    screen_gather(&s);
    screen_out(&s, "five\n");
    is_str(drain(out[0], &a), "five\n", "on a terminal no line waits");
    screen_fini(&s);
    arena_fini(&a);
}

int main(void) {
    plain();
    gathered();
    terminal();
    json();
    rate();
    foreign("plain\ttext", "plain\ttext");
    foreign("\033[31mred\033[0m", "\033[31mred\033[0m\033[0m");
    foreign("\033[2Jgone", "\\x1b[2Jgone");
    foreign("\033]0;title\007x", "\\x1b]0;title\\x07x");
    foreign("10%\r20%\r30%", "30%");
    foreign("line\r\n", "line");
    foreign("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
    foreign("bad \xff\xc0\xaf", "bad \\xff\\xc0\\xaf");
    foreign("c1 \xc2\x9b"
            "2J",
            "c1 \\xc2\\x9b"
            "2J");
    return done_testing();
}
