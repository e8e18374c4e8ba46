// SPDX-License-Identifier: Apache-2.0
// Strings: a growable buffer with a cap, numbers parsed with bounds, nearest names, quoting.
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/arena.h"
#include "base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A growable byte buffer, always NUL-terminated at data[len] once anything was added. Zero-init or
// strbuf_init; owner calls strbuf_fini. Going over cap_max sets `overflow` and drops the
// excess, so that a builder checks once, at the end.
struct strbuf {
    char *data;
    size_t len, room;
    size_t cap_max; // 0: no limit but memory
    bool overflow;
};

void strbuf_init(struct strbuf *b, size_t cap_max);
void strbuf_fini(struct strbuf *b);
void strbuf_clear(struct strbuf *b);
void strbuf_add(struct strbuf *b, const void *p, size_t len);
void strbuf_adds(struct strbuf *b, const char *s);
void strbuf_addc(struct strbuf *b, char c);
void strbuf_addf(struct strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void strbuf_vaddf(struct strbuf *b, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
// Room for len bytes at the end, which the caller fills and then adds to b->len. Without cap_max.
char *strbuf_reserve(struct strbuf *b, size_t len);
void strbuf_consume(struct strbuf *b, size_t len); // drops the first len bytes
const char *strbuf_cstr(const struct strbuf *b);   // "" when empty; valid until the next change

bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
bool str_eq(const char *a, const char *b);                   // NULL-safe
bool str_is_one_of(const char *s, const char *const *words); // NULL-terminated
bool str_is_among(const char *s, const char *const *words, size_t count);
bool str_is_name(const char *s, size_t len_max); // [A-Za-z0-9][A-Za-z0-9._-]*, fit for a file name

// Whole-string decimal numbers; -1 with ERR_FORMAT or ERR_LIMIT, text names the bounds.
int str_parse_i64(const char *s, int64_t min, int64_t max, int64_t *out, struct err *e);
int str_parse_f64(const char *s, double min, double max, double *out, struct err *e);
// "64k", "10 GB", "1.5GiB" (k, M, G, T; with or without i and B: powers of 1024) -> bytes
int str_parse_bytes(const char *s, uint64_t *out, struct err *e);
// "90", "90s", "15m", "12h", "2d", "250ms" -> milliseconds
int str_parse_duration_ms(const char *s, int64_t *out, struct err *e);

// Edit distance with transpositions; the nearest of names (NULL-terminated list) within a third of
// the length and one (a short word: within one), or NULL.
int str_distance(const char *a, const char *b);
const char *str_nearest(const char *s, const char *const *names);

// Natural order: digit runs compare by value (host2 < host10).
int str_natural_cmp(const char *a, const char *b);

// Splits at sep; returns the number of parts, all in the arena, *parts NULL-terminated.
size_t str_split(struct arena *a, const char *s, char sep, char ***parts);

// One word for POSIX sh, quoted when needed.
char *str_shell_quote(struct arena *a, const char *s);
// Bytes of the well-formed UTF-8 sequence (RFC 3629) at p, of which `left` > 0 bytes exist; else 0.
size_t str_utf8(const unsigned char *p, size_t left);
bool str_is_utf8(const char *s);
// Formats one character at s, of which `left` > 0 bytes exist, in a form safe for a terminal:
// control characters, bidirectional overrides and invalid UTF-8 become \n, \r or \xNN; tabs are
// kept. A NUL becomes \x00. Returns the number of bytes consumed.
enum { STR_VISIBLE_BYTES_MAX = 13 };
size_t str_visible(const char *s, size_t left, char shown[STR_VISIBLE_BYTES_MAX]);
char *str_printable(struct arena *a, const char *s, size_t len);

// The end of the word for n things: "", or "s".
const char *str_plural(int64_t n);

// "1.5 MB" style (powers of 1000, as disks and networks count); out holds at least 16 bytes.
enum { STR_HUMAN_BYTES_MAX = 16, STR_MONEY_BYTES_MAX = 24 };
const char *str_money(char out[STR_MONEY_BYTES_MAX], int64_t mils); // thousandths: "$12.30"
const char *str_human_bytes(char out[STR_HUMAN_BYTES_MAX], uint64_t bytes);
// "850 ms", "12.3 s", "4:05", "2:03:04"
const char *str_human_ms(char out[STR_HUMAN_BYTES_MAX], int64_t ms);

void str_hex(char *out, const void *p, size_t len);                   // out: 2*len+1 bytes
int str_unhex(void *out, size_t len, const char *hex, struct err *e); // exactly 2*len digits

#endif
