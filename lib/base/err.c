// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    int status;
    const char *meaning;
} codes[] = {
#define X(code, name, status, text) [code] = {name, status, text},
    ERR_CODES(X)
#undef X
};

// Ends a text that was cut with an ellipsis, at a UTF-8 boundary.
static void mark_cut(char *text, int want) {
    if (want < ERR_TEXT_BYTES_MAX)
        return;
    size_t n = ERR_TEXT_BYTES_MAX - 4;
    while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80)
        n--;
    memcpy(text + n, "\xE2\x80\xA6", 4);
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...) {
    char text[ERR_TEXT_BYTES_MAX]; // an argument may point into e->text
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    mark_cut(text, n);
    memcpy(e->text, text, sizeof text);
    e->code = code;
    return -1;
}

int err_errno(struct err *e, enum err_code code, const char *fmt, ...) {
    int saved = errno;
    char text[ERR_TEXT_BYTES_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    mark_cut(text, n);
    n = snprintf(e->text, sizeof e->text, "%s: %s", text, strerror(saved));
    mark_cut(e->text, n);
    e->code = code;
    errno = saved;
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...) {
    char context[ERR_TEXT_BYTES_MAX];
    char text[ERR_TEXT_BYTES_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    mark_cut(context, n);
    n = snprintf(text, sizeof text, "%s: %s", context, e->text);
    mark_cut(text, n);
    memcpy(e->text, text, sizeof text);
    return -1;
}

void err_clear(struct err *e) {
    e->code = ERR_NONE;
    e->text[0] = '\0';
}

const char *err_name(enum err_code code) {
    return codes[code].name;
}

int err_status(enum err_code code) {
    return codes[code].status;
}

const char *err_meaning(enum err_code code) {
    return codes[code].meaning;
}

void err_bug(const char *file, int line, const char *what) {
    fprintf(stderr, "internal error at %s:%d: '%s' does not hold; this is a bug\n", file, line,
            what);
    abort();
}

void err_out_of_memory(unsigned long bytes) {
    fprintf(stderr, "%s: error: out of memory: %lu bytes were refused\n",
            program_invocation_short_name, bytes);
    _exit(EXIT_FAILURE); // no fault of the program's: no core file
}
