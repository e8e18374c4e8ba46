// SPDX-License-Identifier: Apache-2.0
// Where a command's words go: results and worker lines to one descriptor, notes to another, a live
// block of lines that is redrawn at the bottom of a terminal, or JSON events instead of all of it.
//
//     screen_init(&s, 1, 2, SCREEN_TERMINAL, false);
//     screen_out(&s, "%s\n", line);             // erases the live block, prints
//     screen_live(&s, text, lines);             // draws the block anew
//     screen_fini(&s);                          // leaves the last block standing
//
// The caller owns the descriptors. Control characters of what is said are made visible here, but
// for newlines and colours; one line of foreign text has gone through str_printable or
// screen_foreign before, so that it stays one line. Output errors (a closed pipe) are kept in
// `broken` and otherwise ignored.
#ifndef JOB_SCREEN_H
#define JOB_SCREEN_H

#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum screen_style {
    SCREEN_PLAIN,    // lines only
    SCREEN_TERMINAL, // lines and a live block
    SCREEN_JSON,     // one JSON object per line on the out descriptor
};

enum { SCREEN_COLUMNS_DEFAULT = 80, SCREEN_ROWS_DEFAULT = 24, SCREEN_LINE_BYTES_MAX = 64 * 1024 };

struct screen {
    int out_fd, note_fd;
    enum screen_style style;
    bool quiet; // notes and progress are dropped; results and errors stay
    bool broken;
    int write_error; // errno, when a result could not be written
    int live_lines;  // drawn and not yet erased
    bool out_is_terminal;
};

void screen_init(struct screen *s, int out_fd, int note_fd, enum screen_style style, bool quiet);
void screen_fini(struct screen *s);

// A result, as given (the newline too); nothing in JSON style.
void screen_out(struct screen *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void screen_write(struct screen *s, const void *p, size_t len); // a result, in any style
// One line of a program that runs on a node, behind a label: a result in any style, on the notes'
// descriptor when it is an error's. Made printable for a terminal.
void screen_words(struct screen *s, const char *label, const char *line, size_t len, bool is_error);
// A remark for a person, one line without newline; nothing when quiet or in JSON style.
void screen_note(struct screen *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// One JSON object; j has been opened on text and closed. Nothing in other styles.
void screen_json(struct screen *s, const struct strbuf *text);
// {"event":kind,"time_ms":…, then the caller's members. Use with screen_event_end.
void screen_event(struct strbuf *text, struct json_out *j, const char *kind);
void screen_event_end(struct screen *s, struct strbuf *text, struct json_out *j);

// Replaces the live block (lines of text, each ended by a newline). Only in terminal style.
void screen_live(struct screen *s, const char *text);
void screen_erase(struct screen *s); // the block vanishes
void screen_keep(struct screen *s);  // the block as it is becomes ordinary text

int screen_columns(const struct screen *s);
int screen_rows(const struct screen *s);

// Appends foreign bytes for a terminal: colour sequences (SGR) stay but for concealing ones, every
// other control character becomes visible; a carriage return starts the line again, so only the
// last part is kept.
void screen_foreign(struct strbuf *out, const char *line, size_t len);
// Cuts one line of such text, with an ellipsis, where it would be wider than that many cells.
void screen_fit(struct strbuf *text, int columns);

#endif
