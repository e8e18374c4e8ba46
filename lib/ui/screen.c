// SPDX-License-Identifier: Apache-2.0
// The output of a command.
#include "ui/screen.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void add_visible(struct strbuf *out, const char *p, size_t len, bool lines);

enum { WRITE_LOOK_MS = 200, WRITE_LAST_MS_MAX = 3000, GATHERED_BYTES_MAX = 65536 };

void screen_init(struct screen *s, int out_fd, int note_fd, enum screen_style style, bool quiet) {
    *s = (struct screen){.out_fd = out_fd, .note_fd = note_fd, .style = style, .quiet = quiet};
    s->out_is_terminal = isatty(out_fd);
}

void screen_fini(struct screen *s) {
    screen_flush(s);
    strbuf_fini(&s->gathered);
    screen_keep(s);
}

// Waits until a pipe or terminal accepts output, or until a signal; signals are blocked and read by
// the loop.
static bool wait_for_room(const struct screen *s, int fd) {
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    sigset_t waiting;
    for (int waited_ms = 0; poll(&room, 1, WRITE_LOOK_MS) == 0;) {
        if (sigpending(&waiting) == 0 &&
            (sigismember(&waiting, SIGTERM) || sigismember(&waiting, SIGINT) ||
             sigismember(&waiting, SIGHUP)))
            return false;
        waited_ms += s->hurried ? WRITE_LOOK_MS : 0;
        if (waited_ms >= WRITE_LAST_MS_MAX)
            return false;
    }
    return true;
}

static void write_now(struct screen *s, int fd, const char *p, size_t len) {
    while (len > 0 && !s->broken) {
        if (!wait_for_room(s, fd)) {
            s->broken = true;
            return;
        }
        // A writable pipe has room for at least PIPE_BUF bytes.
        ssize_t n = write(fd, p, len < PIPE_BUF ? len : PIPE_BUF);
        if (n > 0) {
            p += n;
            len -= (size_t)n;
            continue;
        }
        if (err_not_yet(n))
            continue;
        s->broken = true; // the reader is gone: print no more
        if (fd == s->out_fd)
            s->write_error = n < 0 ? errno : EIO;
    }
}

static void write_gathered(struct screen *s) {
    write_now(s, s->out_fd, strbuf_cstr(&s->gathered), s->gathered.len);
    strbuf_clear(&s->gathered);
}

static void write_all(struct screen *s, int fd, const char *p, size_t len) {
    bool waits = s->gathers && fd == s->out_fd && len < GATHERED_BYTES_MAX;
    if (s->gathered.len && (!waits || s->gathered.len + len > GATHERED_BYTES_MAX))
        write_gathered(s);
    if (waits)
        strbuf_add(&s->gathered, p, len);
    else
        write_now(s, fd, p, len);
}

void screen_gather(struct screen *s) {
    s->gathers = !s->out_is_terminal;
}

void screen_flush(struct screen *s) {
    s->gathers = false;
    if (s->gathered.len)
        write_gathered(s);
}

static struct screen *logged; // the screen for log lines, which carry no context

// Errors go to the notes' descriptor even after the reader of the results is gone.
static void put_log(const char *line, size_t len) {
    struct screen *s = logged;
    if (s->gathered.len)
        write_gathered(s);
    bool stuck = s->log_stuck && poll(&(struct pollfd){s->note_fd, POLLOUT, 0}, 1, 0) == 0;
    while (len > 0 && !stuck) {
        stuck = s->log_stuck = !wait_for_room(s, s->note_fd);
        ssize_t n = stuck ? 0 : write(s->note_fd, line, len < PIPE_BUF ? len : PIPE_BUF);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return;
        line += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
}

void screen_take_log(struct screen *s) {
    logged = s;
    log_sink(put_log);
}

void screen_write(struct screen *s, const void *p, size_t len) {
    if (s->out_is_terminal)
        screen_erase(s);
    write_all(s, s->out_fd, p, len);
}

void screen_words(struct screen *s, const char *label, const char *line, size_t len,
                  bool is_error) {
    struct strbuf text = {0};
    strbuf_adds(&text, label);
    if (s->out_is_terminal)
        screen_foreign(&text, line, len);
    else
        strbuf_add(&text, line, len);
    strbuf_addc(&text, '\n');
    if (is_error || s->out_is_terminal)
        screen_erase(s);
    write_all(s, is_error ? s->note_fd : s->out_fd, text.data, text.len);
    strbuf_fini(&text);
}

__attribute__((format(printf, 4, 0))) static void say(struct screen *s, int fd, const char *end,
                                                      const char *fmt, va_list ap) {
    struct strbuf raw = {0}, text = {0};
    strbuf_vaddf(&raw, fmt, ap);
    add_visible(&text, strbuf_cstr(&raw), raw.len, true);
    strbuf_adds(&text, end);
    strbuf_fini(&raw);
    if (fd == s->note_fd || s->out_is_terminal)
        screen_erase(s);
    write_all(s, fd, strbuf_cstr(&text), text.len);
    strbuf_fini(&text);
}

void screen_out(struct screen *s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    if (s->style != SCREEN_JSON)
        say(s, s->out_fd, "", fmt, ap);
    va_end(ap);
}

void screen_note(struct screen *s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    if (s->style != SCREEN_JSON && !s->quiet)
        say(s, s->note_fd, "\n", fmt, ap);
    va_end(ap);
}

void screen_json(struct screen *s, const struct strbuf *text) {
    if (s->style != SCREEN_JSON)
        return;
    struct strbuf line = {0};
    strbuf_add(&line, strbuf_cstr(text), text->len);
    strbuf_addc(&line, '\n');
    write_all(s, s->out_fd, line.data, line.len);
    strbuf_fini(&line);
}

void screen_event(struct strbuf *text, struct json_out *j, const char *kind) {
    json_open(j, text);
    json_object(j, NULL);
    json_str(j, "event", kind);
    json_int(j, "time_ms", clock_wall_ms());
}

void screen_event_end(struct screen *s, struct strbuf *text, struct json_out *j) {
    json_end(j);
    screen_json(s, text);
    strbuf_fini(text);
}

// ---- live block --------------------------------------------------------------------------------

void screen_erase(struct screen *s) {
    if (s->live_lines == 0)
        return;
    char text[32];
    int n = snprintf(text, sizeof text, "\r\033[%dA\033[J", s->live_lines);
    s->live_lines = 0;
    write_all(s, s->note_fd, text, (size_t)n);
}

void screen_live(struct screen *s, const char *text) {
    if (s->style != SCREEN_TERMINAL || s->quiet)
        return;
    struct strbuf out = {0};
    if (s->live_lines)
        strbuf_addf(&out, "\r\033[%dA", s->live_lines);
    s->live_lines = 0;
    for (const char *p = text; *p;) {
        const char *end = strchr(p, '\n');
        size_t len = end ? (size_t)(end - p) : strlen(p);
        add_visible(&out, p, len, false);
        strbuf_adds(&out, "\033[K\n");
        s->live_lines++;
        p += len + (end != NULL);
    }
    strbuf_adds(&out, "\033[J");
    write_all(s, s->note_fd, out.data, out.len);
    strbuf_fini(&out);
}

void screen_keep(struct screen *s) {
    s->live_lines = 0;
}

static int terminal_size(const struct screen *s, bool columns, int absent) {
    struct winsize size = {0};
    if (ioctl(s->note_fd, TIOCGWINSZ, &size) < 0)
        return absent;
    int n = columns ? size.ws_col : size.ws_row;
    return n > 0 ? n : absent;
}

int screen_columns(const struct screen *s) {
    return terminal_size(s, true, SCREEN_COLUMNS_DEFAULT);
}

int screen_rows(const struct screen *s) {
    return terminal_size(s, false, SCREEN_ROWS_DEFAULT);
}

// ---- foreign text ------------------------------------------------------------------------------

// True when the text between ESC [ and m conceals (8). Numbers after 38 and 48 are colours.
static bool conceals(const char *p, size_t len) {
    int number = 0, skip = 0;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && p[i] != ';') {
            number = number < 1000 ? number * 10 + (p[i] - '0') : number;
            continue;
        }
        if (skip == -1) // 5: one number follows, 2: three
            skip = number == 5 ? 1 : number == 2 ? 3 : 0;
        else if (skip > 0)
            skip--;
        else if (number == 8)
            return true;
        else if (number == 38 || number == 48)
            skip = -1;
        number = 0;
    }
    return false;
}

// Length of a sequence ESC [ digits-and-semicolons END at p, or 0.
static size_t sequence_length(const char *p, size_t len, char end) {
    if (len < 3 || p[0] != '\033' || p[1] != '[')
        return 0;
    for (size_t i = 2; i < len && i < 32; i++) {
        if (p[i] == end)
            return i + 1;
        if (!strchr("0123456789;", p[i]) || !p[i])
            return 0;
    }
    return 0;
}

static size_t colour_length(const char *p, size_t len) {
    size_t n = sequence_length(p, len, 'm');
    return n && !conceals(p + 2, n - 3) ? n : 0;
}

// Makes control characters visible; keeps colours.
static void add_visible(struct strbuf *out, const char *p, size_t len, bool lines) {
    bool coloured = false;
    for (size_t i = 0; i < len;) {
        char shown[STR_VISIBLE_BYTES_MAX];
        size_t n = colour_length(p + i, len - i);
        if (n) {
            strbuf_add(out, p + i, n);
            coloured = true;
            i += n;
        } else if ((n = sequence_length(p + i, len - i, 'K'))) {
            i += n; // progress bars erase the rest of their line
        } else if (lines && p[i] == '\n') {
            strbuf_addc(out, p[i++]);
        } else {
            i += str_visible(p + i, len - i, shown);
            strbuf_adds(out, shown);
        }
    }
    if (coloured)
        strbuf_adds(out, "\033[0m");
}

// The width of the character at p in cells; two where terminals differ.
static int cells(const unsigned char *p) {
    unsigned c = p[0] < 0xE0   ? 0
                 : p[0] < 0xF0 ? (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu)
                               : 0x10000u;
    bool wide = (c >= 0x1100 && c < 0x1160) || (c >= 0x2E80 && c < 0xA4D0) ||
                (c >= 0xAC00 && c < 0xD7A4) || (c >= 0xF900 && c < 0xFB00) ||
                (c >= 0xFE30 && c < 0xFE70) || (c >= 0xFF00 && c < 0xFF61) || c >= 0x10000;
    return wide ? 2 : 1;
}

void screen_fit(struct strbuf *text, int columns) {
    const char *p = text->data;
    size_t cut = 0, i = 0;
    for (int used = 0; i < text->len;) {
        size_t n = sequence_length(p + i, text->len - i, 'm');
        if (n == 0) {
            n = str_utf8((const unsigned char *)p + i, text->len - i);
            n = n ? n : 1;
            used += cells((const unsigned char *)p + i);
            if (used < columns)
                cut = i + n;
            if (used > columns) {
                text->len = cut;
                strbuf_adds(text, memchr(text->data, '\033', cut) ? "…\033[0m" : "…");
                return;
            }
        }
        i += n;
    }
}

size_t screen_cut(const char *text, size_t len, int columns, int *used) {
    const unsigned char *p = (const unsigned char *)text;
    size_t at = 0;
    *used = 0;
    while (at < len) {
        size_t n = str_utf8(p + at, len - at);
        int width = n ? cells(p + at) : 1;
        if (at && *used + width > columns)
            break;
        *used += width;
        at += n ? n : 1;
    }
    return at;
}

void screen_foreign(struct strbuf *out, const char *line, size_t len) {
    while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == '\n'))
        len--;
    const char *again = memrchr(line, '\r', len);
    if (again) {
        len -= (size_t)(again + 1 - line);
        line = again + 1;
    }
    add_visible(out, line, len, false);
}
