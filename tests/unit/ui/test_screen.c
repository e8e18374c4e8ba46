// SPDX-License-Identifier: Apache-2.0
// Nothing of a node drives the operator's terminal: every text of every event, with sequences in
// it, through every view; worker lines, errors, JSON.
#include "protocol/node_protocol.h"
#include "run/monitor_view.h"
#include "run/run_summary.h"
#include "tests/unit/follow/follow_fixture.h"
#include "tests/unit/ui/screen_check.h"

#include <sys/mman.h>
#include <unistd.h>

static const char *const HOSTILE[] = {
    "\\u001b[2J\\u001b]0;x\\u0007",
    "a\\nroot# b",
    "a\\rb",
    "\\u0000a",
    "\\u007f\\b\\u000b",
    "\\u009b2J",
    "\\u202Eabc",
    "\\u2066x\\u2069",
    "\\u001b[8mhidden\\u001b[0m",
    "\\u001b[1;31;8mx",
    "\xff\xfe\xc3",
    "\x9b[2J",
    "\\u001b[31mred\\u001b[0m ok",
    "\\u001b[38;5;8mgrey",
};
static const char *const FIELDS[] = {"peer",     "reason",      "signal", "message", "tail",
                                     "evidence", "coordinator", "node",   "address", "master_addr",
                                     "missing",  "kind_",       "time"};

static int out_fd = -1; // a file in place of a terminal

static char *shown(struct arena *a, size_t *len) {
    off_t size = lseek(out_fd, 0, SEEK_END);
    char *text = arena_new(a, char, (size_t)size + 1);
    *len = size > 0 && pread(out_fd, text, (size_t)size, 0) == size ? (size_t)size : 0;
    return text;
}

static bool harmless(struct follow_fixture *f, const char *about) {
    size_t len = 0;
    const char *text = shown(&f->arena, &len);
    size_t at = check_screen(text, len);
    if (at < len)
        fail("%s: byte %zu is 0x%02x in '%.60s'", about, at, (unsigned char)text[at], text);
    return at == len;
}

static void open_view(struct follow_fixture *f, struct monitor_view *v, struct monitor_options *o,
                      enum screen_style style) {
    struct err e = {0};
    fixture_make(f);
    if (ftruncate(out_fd, 0) < 0 || lseek(out_fd, 0, SEEK_SET) < 0)
        bail_out("no file");
    screen_init(&f->screen, out_fd, out_fd, style, false);
    f->screen.out_is_terminal = true;
    *o = (struct monitor_options){.only_rank = -1};
    monitor_view_init(v, &f->follow, o);
    if (follow_open(&f->follow, &f->context, &f->fleet, &f->run, &monitor_view, v, &e) < 0)
        bail_out("%s", e.text);
}

static void close_view(struct follow_fixture *f) {
    follow_close(&f->follow);
    fixture_remove(f);
}

static void add_event(struct strbuf *line, const char *kind, const char *hostile) {
    strbuf_addf(line,
                "{\"time_ms\":5,\"kind\":\"%s\",\"round\":0,\"nproc\":1,\"rank\":0,\"nodes\":2,"
                "\"local_rank\":0,\"status\":1,\"left_ms\":5,\"world_size\":2,\"root\":true",
                kind);
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
        strbuf_addf(line, ",\"%s\":\"%s%s\"", FIELDS[i],
                    strcmp(FIELDS[i], "reason") == 0 ? "missing: " : "", hostile);
    strbuf_adds(line, "}\n");
}

static void show_all(struct follow_fixture *f, struct monitor_view *v) {
    struct summary sum = {.context = &f->context, .run = &f->run, .follow = &f->follow};
    struct strbuf text = {0};
    sum.arena = &f->arena;
    f->run.output_dir = f->dir;
    v->drawn_ms = 0;
    monitor_view.on_tick(v);
    run_summary_failure(&sum, &text);
    run_summary_text(&sum, &text);
    screen_out(&f->screen, "%s", strbuf_cstr(&text));
    strbuf_clear(&text);
    run_summary_json(&sum, &text);
    if (check_screen(strbuf_cstr(&text), text.len) < text.len)
        fail("summary.json drives a terminal");
    strbuf_fini(&text);
}

static void events(void) {
    static const enum screen_style styles[] = {SCREEN_PLAIN, SCREEN_TERMINAL, SCREEN_JSON};
    static const char peer[] = "{\"kind\":\"failure\",\"peer\":\"n1\",\"rank\":1,\"round\":0,"
                               "\"signal\":\"\\u001b[2J\",\"tail\":\"a\\nb\\u001b[2J\"}\n";
    int good = 0, all = 0;
    for (size_t s = 0; s < 3; s++)
        for (size_t h = 0; h < sizeof HOSTILE / sizeof *HOSTILE; h++) {
            struct follow_fixture f;
            struct monitor_view v;
            struct monitor_options o;
            open_view(&f, &v, &o, styles[s]);
            for (int k = 0; k < NODE_EVENT_COUNT; k++) {
                struct strbuf line = {0};
                add_event(&line, node_event_name((enum node_event)k), HOSTILE[h]);
                fixture_bytes(&f, (size_t)k % 2, "events.jsonl", strbuf_cstr(&line));
                strbuf_fini(&line);
            }
            fixture_bytes(&f, 0, "events.jsonl", peer);
            show_all(&f, &v);
            all++;
            good += harmless(&f, HOSTILE[h]);
            close_view(&f);
        }
    is_int(good, all, "the texts of %d kinds of events in %d views are right",
           (int)NODE_EVENT_COUNT, all);
}

static void one_remark_is_one_line(void) {
    struct follow_fixture f;
    struct monitor_view v;
    struct monitor_options o;
    size_t len = 0;
    open_view(&f, &v, &o, SCREEN_PLAIN);
    fixture_bytes(&f, 0, "events.jsonl",
                  "{\"kind\":\"node-lost\",\"peer\":\"n1\",\"reason\":\"gone\\nroot# \"}\n");
    is_str(shown(&f.arena, &len), "node n1 is lost: gone\\nroot# \n", "a newline stays inside");
    close_view(&f);
}

static void others(void) {
    struct err e = {0}, inner = {0};
    struct strbuf b = {0};
    struct json_out j;
    err_set(&e, ERR_FAILED, "it listens on '%s'", "a\nb\x1b[2J\xe2\x80\xae");
    is_str(e.text, "it listens on 'a\\nb\\x1b[2J\\xe2\\x80\\xae'", "an error's text is one line");
    err_wrap(&e, "node '%s'", "\r");
    has_str(e.text, "node '\\r': it listens", "the prefix of an error is one line");
    err_set_lines(&inner, ERR_CONFIG, "one\ntwo");
    err_wrap(&inner, "x");
    is_str(inner.text, "x: one\ntwo", "several problems stay several lines");
    json_open(&j, &b);
    json_array(&j, NULL);
    json_str(&j, NULL, "\x7f\xc2\x9b\xe2\x80\xae\t\xc3\xa9");
    json_end(&j);
    is_str(strbuf_cstr(&b), "[\"\\u007f\\u009b\\u202e\\u0009\xc3\xa9\"]", "JSON");
    strbuf_clear(&b);
    screen_foreign(&b, "\x1b[38;5;8mg\x1b[0;8mh\x1b[2Jx", 22);
    is_str(strbuf_cstr(&b), "\x1b[38;5;8mg\\x1b[0;8mh\\x1b[2Jx\x1b[0m",
           "colours stay, what conceals does not");
    strbuf_fini(&b);
}

// Numbers between ESC [ and m: colours and styles stay, concealed text (8) becomes visible.
static void styles(void) {
    static const struct {
        const char *numbers;
        bool stays;
    } cases[] = {
        {"", true},
        {"1", true},
        {"8", false},
        {"0;8", false},
        {"8;1", false},
        {"008", false},
        {"18", true},
        {"80", true},
        {"1008", true},
        {"10000000000000000008", true},
        {";8", false},
        {"38;5;8", true},
        {"48;5;8", true},
        {"38;5;1;8", false},
        {"38;2;8;8;8", true},
        {"48;2;8;8;8", true},
        {"38;2;1;2;3;8", false},
        {"38;8", true},
        {"38;1;8", false},
        {"39;8", false},
        {"1;38;5;8;48;2;8;8;8", true},
        {"00000000000000000000000000001", true},
        {"000000000000000000000000000001", false},
    };
    struct strbuf b = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64], want[80];
        int len = snprintf(text, sizeof text, "\x1b[%smx", cases[i].numbers);
        snprintf(want, sizeof want, cases[i].stays ? "\x1b[%smx\x1b[0m" : "\\x1b[%smx",
                 cases[i].numbers);
        strbuf_clear(&b);
        screen_foreign(&b, text, (size_t)len);
        is_str(strbuf_cstr(&b), want, "style '%s' stays or not", cases[i].numbers);
    }
    strbuf_clear(&b);
    screen_foreign(&b, "x\x1b[1m", 4);
    is_str(strbuf_cstr(&b), "x\\x1b[1", "a style ends within the text");
    strbuf_clear(&b);
    screen_foreign(&b, "x\x1b[1K", 4);
    is_str(strbuf_cstr(&b), "x\\x1b[1", "an erased line ends within the text");
    strbuf_fini(&b);
}

// Text for the user has lines; a foreign line has no other line in it.
static void lines(void) {
    struct screen s;
    struct strbuf b = {0};
    char text[64] = "";
    int fd = memfd_create("lines", MFD_CLOEXEC);
    screen_init(&s, fd, fd, SCREEN_PLAIN, false);
    screen_out(&s, "one\nt\x1b[Kwo\a\nthree\n");
    must(pread(fd, text, sizeof text - 1, 0) > 0);
    is_str(text, "one\ntwo\\x07\nthree\n", "each line of a text stays a line");
    screen_foreign(&b, "one\nt\x1b[Kwo", 10);
    is_str(strbuf_cstr(&b), "one\\ntwo", "the end of a line within a line becomes visible");
    strbuf_fini(&b);
    screen_fini(&s);
    close(fd);
}

static void bars_and_training(void) {
    struct follow_fixture f;
    struct monitor_view v;
    struct monitor_options o;
    struct strbuf b = {0};
    size_t len = 0;
    open_view(&f, &v, &o, SCREEN_TERMINAL);
    f.run.native = true;
    fixture_bytes(&f, 1, "events.jsonl",
                  "{\"kind\":\"round\",\"round\":0,\"nproc\":1,\"rank\":1,\"group_rank\":1}\n");
    for (int i = 0; i < 20000; i++) // a flood is one state per drawing
        strbuf_addf(&b, "\r%d\x1b[2J", i);
    fixture_bytes(&f, 1, "attempt_0/0/stderr.log", strbuf_cstr(&b));
    fixture_bytes(&f, 0, "output/metrics.jsonl",
                  "{\"epoch\":1,\"epochs\":4,\"batch\":5,\"batches\":10,\"loss\":0.5,\"acc1\":12.5,"
                  "\"images_per_s\":1000}\n");
    monitor_view.on_tick(&v);
    is_str(shown(&f.arena, &len),
           "[n1:1] 19999\\x1b[2J\x1b[K\n"
           "epoch 2/4 [######          ]  37 %  loss 0.5  acc 12.5 %  1000 images/s\x1b[K\n\x1b[J",
           "a progress bar and the trainer have one live line each");
    v.drawn_ms = 0;
    f.screen.live_lines = 0;
    if (ftruncate(out_fd, 0) < 0)
        bail_out("no file");
    lseek(out_fd, 0, SEEK_SET);
    fixture_bytes(&f, 1, "attempt_0/0/stderr.log", "\rdone\n");
    is_str(shown(&f.arena, &len), "[n1:1] done\n", "the end of a live line is an ordinary line");
    close_view(&f);
    strbuf_clear(&b);
    strbuf_adds(&b, "\x1b[31mab\xc3\xa9\xe4\xb8\xad"
                    "d");
    screen_fit(&b, 6);
    is_str(strbuf_cstr(&b),
           "\x1b[31mab\xc3\xa9\xe4\xb8\xad"
           "d",
           "a text that fits is kept");
    screen_fit(&b, 5);
    is_str(strbuf_cstr(&b), "\x1b[31mab\xc3\xa9…\x1b[0m", "a text that does not fit is cut");
    strbuf_fini(&b);
}

static int width_of(unsigned code) {
    char text[8] = "a";
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i > 1; i--, code >>= 6)
        text[i] = (char)(0x80 | (code & 0x3F));
    text[1] = (char)(n == 1 ? code : (0xF00u >> n) | code);
    int used = 0;
    for (int columns = 1; columns < 5; columns++) {
        struct strbuf b = {0};
        strbuf_adds(&b, text);
        screen_fit(&b, columns);
        bool whole = strcmp(strbuf_cstr(&b), text) == 0;
        strbuf_fini(&b);
        size_t cut = screen_cut(text, strlen(text), columns, &used);
        if (whole && cut == strlen(text))
            return used == columns ? columns - 1 : -1;
        if (whole || cut == strlen(text))
            return -1;
    }
    return -1;
}

// East Asian scripts and pictures take two cells: the first and the last character of each range.
static void characters_have_widths(void) {
    static const unsigned wide[][2] = {{0x1100, 0x115F},  {0x2E80, 0xA4CF}, {0xAC00, 0xD7A3},
                                       {0xF900, 0xFAFF},  {0xFE30, 0xFE6F}, {0xFF00, 0xFF60},
                                       {0x10000, 0x1F600}};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        unsigned first = wide[i][0], last = wide[i][1];
        ok(width_of(first) == 2 && width_of(last) == 2, "U+%04X to U+%04X have two cells", first,
           last);
        is_int(width_of(first - 1), 1, "U+%04X has one cell", first - 1);
        if (last < 0x10000)
            is_int(width_of(last + 1), 1, "U+%04X has one cell", last + 1);
    }
    ok(width_of('b') == 1 && width_of(0xE9) == 1 && width_of(0x7FF) == 1 && width_of(0x800) == 1,
       "Latin letters have one cell");
}

int main(void) {
    char path[] = "/tmp/dtctl-screen-XXXXXX";
    out_fd = mkstemp(path);
    unlink(path);
    others();
    events();
    one_remark_is_one_line();
    characters_have_widths();
    styles();
    lines();
    bars_and_training();
    return done_testing();
}
