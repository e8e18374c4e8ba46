// SPDX-License-Identifier: Apache-2.0
// Formats, wraps and prints errors, with control characters made visible.
#include "base/err.h"

#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    int status;
} codes[] = {
#define X(code, name, status, text) [code] = {name, status},
    ERR_CODES(X)
#undef X
};

// Adds text to out, which holds *len of at most ERR_TEXT_BYTES_MAX bytes. Foreign text is quoted in
// errors, so control characters are made visible here, for all errors. Text that does not fit
// ends with an ellipsis.
static void add(char *out, size_t *len, const char *text, bool lines) {
    static const char cut[] = "\xE2\x80\xA6";
    char shown[STR_VISIBLE_BYTES_MAX];
    size_t took;
    for (size_t left = strlen(text); left > 0 && *len < ERR_TEXT_BYTES_MAX;
         text += took, left -= took) {
        took = str_visible(text, left, shown);
        if (lines && *text == '\n')
            memcpy(shown, "\n", 2);
        size_t n = strlen(shown);
        if (*len + n + sizeof cut > ERR_TEXT_BYTES_MAX) {
            memcpy(out + *len, cut, sizeof cut);
            *len = ERR_TEXT_BYTES_MAX;
        } else {
            memcpy(out + *len, shown, n + 1);
            *len += n;
        }
    }
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...) {
    char text[ERR_TEXT_BYTES_MAX]; // an argument may point into e->text
    size_t len = 0;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    *e = (struct err){.code = code};
    add(e->text, &len, text, false);
    return -1;
}

int err_set_lines(struct err *e, enum err_code code, const char *lines) {
    size_t len = 0;
    *e = (struct err){.code = code};
    add(e->text, &len, lines, true);
    return -1;
}

bool err_interrupted(ssize_t n) {
    return n < 0 && errno == EINTR;
}

bool err_not_yet(ssize_t n) {
    return n < 0 && (errno == EINTR || errno == EAGAIN);
}

int err_errno(struct err *e, enum err_code code, const char *fmt, ...) {
    int saved = errno;
    char text[ERR_TEXT_BYTES_MAX];
    size_t len = 0;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    *e = (struct err){.code = code};
    add(e->text, &len, text, false);
    add(e->text, &len, ": ", false);
    add(e->text, &len, strerror(saved), false);
    errno = saved;
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...) {
    char context[ERR_TEXT_BYTES_MAX], text[ERR_TEXT_BYTES_MAX] = "";
    size_t len = 0;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    add(text, &len, context, false);
    add(text, &len, ": ", false);
    add(text, &len, e->text, true); // visible text is not changed again
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
