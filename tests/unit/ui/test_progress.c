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

// A screen in a style whose notes come back.
struct shown {
    struct arena a;
    struct screen s;
    struct progress p;
    int out[2], note[2];
};

static const char *const FOUR[] = {"a", "b", "c", "d", NULL};

static void shown_open(struct shown *t, enum screen_style style, const char *const *names,
                       size_t count, int64_t now_ms) {
    *t = (struct shown){0};
    open_pipe(t->out);
    open_pipe(t->note);
    screen_init(&t->s, t->out[1], t->note[1], style, false);
    progress_init(&t->p, &t->a, &t->s, "push", names, count, now_ms);
}

static void shown_close(struct shown *t) {
    for (int i = 0; i < 2; i++) {
        close(t->out[i]);
        close(t->note[i]);
    }
    screen_fini(&t->s);
    arena_fini(&t->a);
}

static const char *row_of(struct shown *t, size_t row, int columns) {
    struct strbuf line = {0};
    progress_format(&t->p, &t->p.rows[row], columns, &line);
    const char *text = arena_strdup(&t->a, strbuf_cstr(&line));
    strbuf_fini(&line);
    return text;
}

static void rows(void) {
    static const char *const names[] = {"a", "a-name-of-24-characters-",
                                        "a-name-of-25-characters--"};
    struct shown t;
    shown_open(&t, SCREEN_PLAIN, names, 2, 0);
    is_str(row_of(&t, 0, 0), "push  a                               0 B",
           "names are as wide as the longest one");
    is_str(row_of(&t, 1, 0), "push  a-name-of-24-characters-        0 B",
           "the longest name has its whole width");
    shown_close(&t);
    shown_open(&t, SCREEN_PLAIN, names, 3, 0);
    is_str(row_of(&t, 0, 0), "push  a                               0 B",
           "one long name does not widen all rows");
    shown_close(&t);
    shown_open(&t, SCREEN_PLAIN, names, 1, 0);
    progress_set(&t.p, 0, 1500, 0);
    is_str(row_of(&t, 0, 0), "push  a     1.5 kB", "a row without a total has no bar");
    progress_set(&t.p, 0, 0, 1000);
    is_str(row_of(&t, 0, 0), "push  a  [                    ]       0 B of 1.0 kB",
           "the bar is empty at first");
    progress_set(&t.p, 0, 1000, 1000);
    is_str(row_of(&t, 0, 0), "push  a  [####################]    1.0 kB of 1.0 kB",
           "the bar is full at the end");
    progress_set(&t.p, 0, 2000, 1000);
    is_str(row_of(&t, 0, 0), "push  a  [####################]    2.0 kB of 1.0 kB",
           "more than the total does not lengthen the bar");
    is_str(row_of(&t, 0, 8), "push  a", "a row leaves the last column free");
    is_str(row_of(&t, 0, 2), "p", "two columns have room for one character");
    is_uint(strlen(row_of(&t, 0, 1)), 51, "an unknown width cuts nothing");
    progress_state(&t.p, 0, "b");
    progress_state(&t.p, 0, "a");
    is_str(row_of(&t, 0, 0), "push  a  a", "the newest state counts");
    progress_state(&t.p, 0, "connecting");
    is_str(row_of(&t, 0, 0), "push  a  connecting", "a state takes the place of figures");
    progress_set(&t.p, 0, 500, 1000);
    has_str(row_of(&t, 0, 0), "500 B of 1.0 kB", "figures take the place of a state");
    progress_end(&t.p, 0, false, "lost");
    progress_end(&t.p, 0, true, "done");
    is_str(row_of(&t, 0, 0), "push  a  failed: lost", "the first end of a row counts");
    shown_close(&t);
}

static void speeds(void) {
    struct shown t;
    enum { FROM_MS = 10000 };
    shown_open(&t, SCREEN_PLAIN, FOUR, 2, FROM_MS);
    progress_set(&t.p, 0, 1000, 11000);
    progress_show(&t.p, FROM_MS);
    near(progress_rate(&t.p.rows[0]), 0, 0, "one sample has no rate");
    progress_set(&t.p, 0, 2000, 11000);
    progress_show(&t.p, FROM_MS + PROGRESS_RATE_SAMPLE_MS - 1);
    near(progress_rate(&t.p.rows[0]), 0, 0, "a second sample so soon is not taken");
    progress_show(&t.p, FROM_MS + PROGRESS_RATE_SAMPLE_MS);
    near(progress_rate(&t.p.rows[0]), 4000, 1e-9, "the rate is that of two samples");
    is_str(row_of(&t, 0, 0),
           "push  a  [###                 ]    2.0 kB of 11.0 kB  4.0 kB/s  2.2 s left",
           "a row has its rate and the time that is left");
    progress_set(&t.p, 0, 11000, 11000);
    ok(!strstr(row_of(&t, 0, 0), "left"), "no time is left at the end");
    shown_close(&t);
    shown_open(&t, SCREEN_PLAIN, FOUR, 1, 0);
    progress_set(&t.p, 0, 7, 0);
    progress_show(&t.p, 0);
    progress_show(&t.p, 1000);
    near(progress_rate(&t.p.rows[0]), 0, 0, "a row that stands still has no rate");
    ok(!strstr(row_of(&t, 0, 0), "/s"), "no rate is no figure");
    progress_set(&t.p, 0, 9, 0);
    progress_show(&t.p, 2000);
    has_str(row_of(&t, 0, 0), "  1 B/s", "one byte per second is shown");
    progress_show(&t.p, 2500);
    ok(!strstr(row_of(&t, 0, 0), "/s"), "less than one byte per second is not");
    progress_set(&t.p, 0, 5, 0);
    progress_show(&t.p, 4000);
    near(progress_rate(&t.p.rows[0]), 0, 0, "an amount that shrinks has no rate");
    shown_close(&t);
    shown_open(&t, SCREEN_PLAIN, FOUR, 1, 0);
    for (int i = 0; i < PROGRESS_RATE_SAMPLES; i++) {
        progress_set(&t.p, 0, i ? (uint64_t)(2000 + i) : 1, 0);
        progress_show(&t.p, i * 1000);
    }
    near(progress_rate(&t.p.rows[0]), 2014.0 / 15, 1e-9, "a full ring still has its first sample");
    progress_set(&t.p, 0, 2016, 0);
    progress_show(&t.p, 16000);
    near(progress_rate(&t.p.rows[0]), 1, 1e-9, "the next one takes the place of the first");
    progress_end(&t.p, 0, true, "done");
    progress_show(&t.p, 30000);
    near(progress_rate(&t.p.rows[0]), 1, 1e-9, "a row that has ended keeps its rate");
    shown_close(&t);
}

static void intervals(void) {
    struct shown t;
    shown_open(&t, SCREEN_PLAIN, FOUR, 1, 700);
    progress_set(&t.p, 0, 1, 0);
    progress_show(&t.p, 700 + PROGRESS_PLAIN_MS - 1);
    is_str(drain(t.note[0], &t.a), "", "a row is not printed before its interval is over");
    progress_show(&t.p, 700 + PROGRESS_PLAIN_MS);
    has_str(drain(t.note[0], &t.a), "push  a ", "the interval begins with the operation");
    progress_show(&t.p, 700 + 2 * PROGRESS_PLAIN_MS - 1);
    is_str(drain(t.note[0], &t.a), "", "each line begins an interval");
    progress_show(&t.p, 700 + 2 * PROGRESS_PLAIN_MS);
    has_str(drain(t.note[0], &t.a), "push  a ", "the next line follows");
    shown_close(&t);

    for (int late = 0; late < 2; late++) {
        shown_open(&t, SCREEN_PLAIN, FOUR, 3, 700);
        progress_end(&t.p, 0, true, "nothing to do");
        progress_end(&t.p, 1, false, "lost");
        progress_set(&t.p, 2, 1, 1);
        progress_end(&t.p, 2, true, "1 B in 1 ms");
        progress_fini(&t.p, 700 + PROGRESS_PLAIN_MS - !late);
        is_str(drain(t.note[0], &t.a),
               late ? "push  a  nothing to do\npush  b  failed: lost\npush  c  1 B in 1 ms\n"
                    : "push  b  failed: lost\npush  c  1 B in 1 ms\n",
               "%s operation without data has %s", late ? "a long" : "a short",
               late ? "a line" : "no line");
        shown_close(&t);
    }
}

static void events(void) {
    struct shown t;
    struct json *j = NULL;
    struct err e = {0};
    shown_open(&t, SCREEN_JSON, FOUR, 1, 0);
    progress_set(&t.p, 0, 1000, 5000);
    progress_show(&t.p, 0);
    progress_set(&t.p, 0, 2000, 5000);
    progress_show(&t.p, PROGRESS_PLAIN_MS);
    const char *text = drain(t.out[0], &t.a);
    is_int(json_parse(&t.a, text, strlen(text), &j, &e), 0, "a row that moves is an event");
    is_str(json_get_str(j, "state", ""), "running", "the event has the state");
    is_str(json_get_str(j, "node", ""), "a", "the event has the node");
    is_str(json_get_str(j, "operation", ""), "push", "the event has the operation");
    is_int(json_get_int(j, "bytes", 0), 2000, "the event has the amount so far");
    near(json_get_num(j, "bytes_per_second", 0), 200, 1e-9, "the event has the rate");
    is_str(json_get_str(j, "text", "-"), "-", "figures need no text");
    progress_end(&t.p, 0, false, "lost");
    progress_show(&t.p, PROGRESS_PLAIN_MS + 1);
    text = drain(t.out[0], &t.a);
    is_int(json_parse(&t.a, text, strlen(text), &j, &e), 0, "a row that fails is an event");
    is_str(json_get_str(j, "state", ""), "failed", "the event says so");
    is_str(json_get_str(j, "text", "-"), "lost", "the event has the reason");
    shown_close(&t);
}

static void rooms(void) {
    struct shown t;
    enum { MANY = 40 };
    static const char *names[MANY];
    shown_open(&t, SCREEN_TERMINAL, FOUR, 4, 0);
    int room = screen_rows(&t.s) / 2;
    shown_close(&t);
    ok(room > 4 && room < MANY, "the rows of a terminal are known");
    for (size_t i = 0; i < MANY; i++)
        names[i] = "n";

    shown_open(&t, SCREEN_TERMINAL, names, (size_t)room, 0);
    progress_end(&t.p, 0, true, "done");
    progress_show(&t.p, 0);
    is_int(t.s.live_lines, room, "half of the terminal is for rows");
    ok(!strstr(drain(t.note[0], &t.a), "nodes done"), "rows that all fit need no sum");
    shown_close(&t);

    shown_open(&t, SCREEN_TERMINAL, names, MANY, 0);
    for (size_t i = 0; i < MANY; i++)
        progress_set(&t.p, i, 10, 1000);
    progress_end(&t.p, 0, true, "well done");
    progress_end(&t.p, 1, false, "lost");
    progress_show(&t.p, 0);
    const char *text = drain(t.note[0], &t.a);
    is_int(t.s.live_lines, room + 1, "a sum is below as many rows as there is room for");
    has_str(text, "push: 2 of 40 nodes done, 400 B of 40.0 kB", "the sum is that of all rows");
    ok(!strstr(text, "well done"), "rows that are done give their place to others");
    has_str(text, "failed: lost", "rows that failed stay");
    progress_fini(&t.p, 1);
    ok(drain(t.note[0], &t.a)[0], "the end is drawn at once");
    is_int(t.s.live_lines, 0, "the last drawing stays");
    shown_close(&t);
}

static void leftovers(void) {
    for (size_t failed = 0; failed < 3; failed++) { // that row; 2: none
        struct shown t;
        shown_open(&t, SCREEN_TERMINAL, FOUR, 2, 0);
        for (size_t i = 0; i < 2; i++)
            progress_end(&t.p, i, i != failed, "the end");
        progress_show(&t.p, 0);
        drain(t.note[0], &t.a);
        progress_fini(&t.p, 200);
        const char *text = drain(t.note[0], &t.a);
        ok(str_ends(text, "\033[2A\033[J") == (failed == 2), "%s",
           failed < 2 ? "the rows of a failure stay on the terminal"
                      : "rows without data are erased at the end");
        shown_close(&t);
    }
}

int main(void) {
    plain();
    gathered();
    terminal();
    json();
    rate();
    rows();
    speeds();
    intervals();
    events();
    rooms();
    leftovers();
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
