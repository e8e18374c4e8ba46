// SPDX-License-Identifier: Apache-2.0
// tap.h: test assertions that print TAP (the protocol `prove` reads). Header only; a test program
// is one .c file with main():
//
//     #include "tests/tap.h"
//     int main(void) {
//         is_int(add(1, 2), 3, "adds");
//         is_str(name, "x", "name of node %d", i);
//         if (!have_file) skip(1, "no /dev/kvm here"); else ok(probe(), "probe");
//         return done_testing();
//     }
//
// Every assertion takes a printf description last, prints `ok N - …` or `not ok N - …` with
// file:line and both values, and yields true when it held. Nothing here allocates or owns memory;
// all state is static, for one thread. done_testing() prints the plan and gives main's exit status:
// 0 only if at least one test ran and all passed.
#ifndef DTCTL_TESTS_TAP_H
#define DTCTL_TESTS_TAP_H

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tap_count, tap_failed;

// Whether this program runs under sanitizers, where it takes each path once. The shipped build
// judges numbers at length.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TAP_SANITIZED 1
#endif
#endif
#ifndef TAP_SANITIZED
#define TAP_SANITIZED 0
#endif

#define TAP_UNUSED __attribute__((unused))

TAP_UNUSED __attribute__((format(printf, 4, 5))) static bool
tap_result(bool held, const char *file, int line, const char *fmt, ...) {
    va_list ap;
    printf("%s %d - ", held ? "ok" : "not ok", ++tap_count);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    if (!held) {
        tap_failed++;
        printf("#   failed at %s:%d\n", file, line);
    }
    fflush(stdout);
    return held;
}

// Prints a comment line.
TAP_UNUSED __attribute__((format(printf, 1, 2))) static void diag(const char *fmt, ...) {
    va_list ap;
    printf("# ");
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

// Prints s quoted, with C escapes, so that a stray newline or NUL cannot break the TAP.
TAP_UNUSED static void tap_bytes(const char *label, const void *data, size_t len) {
    const unsigned char *p = data;
    printf("#   %s: ", label);
    if (!p) {
        printf("NULL\n");
        return;
    }
    putchar('"');
    for (size_t i = 0; i < len && i < 512; i++) {
        if (p[i] == '"' || p[i] == '\\')
            printf("\\%c", p[i]);
        else if (p[i] == '\n')
            printf("\\n");
        else if (p[i] >= 0x20 && p[i] < 0x7f)
            putchar(p[i]);
        else
            printf("\\x%02x", p[i]);
    }
    printf("\"%s (%zu bytes)\n", len > 512 ? "…" : "", len);
    fflush(stdout);
}

TAP_UNUSED static bool tap_int(bool held, intmax_t got, intmax_t want) {
    if (!held)
        diag("  got: %" PRIdMAX "  want: %" PRIdMAX, got, want);
    return held;
}

TAP_UNUSED static bool tap_uint(bool held, uintmax_t got, uintmax_t want) {
    if (!held)
        diag("  got: %" PRIuMAX " (0x%" PRIxMAX ")  want: %" PRIuMAX " (0x%" PRIxMAX ")", got, got,
             want, want);
    return held;
}

TAP_UNUSED static bool tap_mem(bool held, const void *got, size_t got_len, const void *want,
                               size_t want_len) {
    if (!held) {
        tap_bytes("got", got, got_len);
        tap_bytes("want", want, want_len);
    }
    return held;
}

TAP_UNUSED static bool tap_double(bool held, double got, double want, double tolerance) {
    if (!held)
        diag("  got: %.17g  want: %.17g  difference: %.3g  tolerance: %.3g", got, want, got - want,
             tolerance);
    return held;
}

TAP_UNUSED static bool tap_same_str(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

TAP_UNUSED static bool tap_same_mem(const void *a, size_t na, const void *b, size_t nb) {
    return na == nb && (na == 0 || (a && b && memcmp(a, b, na) == 0));
}

// Assertions. A macro argument is evaluated once. The description may be left out of none of them.
#define ok(cond, ...) tap_result(!!(cond), __FILE__, __LINE__, __VA_ARGS__)
#define pass(...)     tap_result(true, __FILE__, __LINE__, __VA_ARGS__)
#define fail(...)     tap_result(false, __FILE__, __LINE__, __VA_ARGS__)

#define is_int(got, want, ...)                                                                     \
    __extension__({                                                                                \
        intmax_t tap_g = (intmax_t)(got), tap_w = (intmax_t)(want);                                \
        tap_int(tap_result(tap_g == tap_w, __FILE__, __LINE__, __VA_ARGS__), tap_g, tap_w);        \
    })

#define is_uint(got, want, ...)                                                                    \
    __extension__({                                                                                \
        uintmax_t tap_g = (uintmax_t)(got), tap_w = (uintmax_t)(want);                             \
        tap_uint(tap_result(tap_g == tap_w, __FILE__, __LINE__, __VA_ARGS__), tap_g, tap_w);       \
    })

#define is_str(got, want, ...)                                                                     \
    __extension__({                                                                                \
        const char *tap_g = (got), *tap_w = (want);                                                \
        tap_mem(tap_result(tap_same_str(tap_g, tap_w), __FILE__, __LINE__, __VA_ARGS__), tap_g,    \
                tap_g ? strlen(tap_g) : 0, tap_w, tap_w ? strlen(tap_w) : 0);                      \
    })

#define is_mem(got, got_len, want, want_len, ...)                                                  \
    __extension__({                                                                                \
        const void *tap_g = (got), *tap_w = (want);                                                \
        size_t tap_gn = (got_len), tap_wn = (want_len);                                            \
        tap_mem(tap_result(tap_same_mem(tap_g, tap_gn, tap_w, tap_wn), __FILE__, __LINE__,         \
                           __VA_ARGS__),                                                           \
                tap_g, tap_gn, tap_w, tap_wn);                                                     \
    })

// got contains the text want.
#define has_str(got, want, ...)                                                                    \
    __extension__({                                                                                \
        const char *tap_g = (got), *tap_w = (want);                                                \
        tap_mem(tap_result(tap_g &&tap_w &&strstr(tap_g, tap_w), __FILE__, __LINE__, __VA_ARGS__), \
                tap_g, tap_g ? strlen(tap_g) : 0, tap_w, tap_w ? strlen(tap_w) : 0);               \
    })

// |got - want| <= tolerance; false for NaN.
#define near(got, want, tolerance, ...)                                                            \
    __extension__({                                                                                \
        double tap_g = (double)(got), tap_w = (double)(want), tap_t = (double)(tolerance);         \
        tap_double(tap_result(fabs(tap_g - tap_w) <= tap_t, __FILE__, __LINE__, __VA_ARGS__),      \
                   tap_g, tap_w, tap_t);                                                           \
    })

// Counts n tests as skipped, with the reason, which `make test` shows.
TAP_UNUSED __attribute__((format(printf, 2, 3))) static void skip(int n, const char *fmt, ...) {
    for (int i = 0; i < n; i++) {
        va_list ap;
        printf("ok %d # SKIP ", ++tap_count);
        va_start(ap, fmt);
        vprintf(fmt, ap);
        va_end(ap);
        putchar('\n');
    }
    fflush(stdout);
}

// Ends this program at once, as a failure. Other tests still run.
TAP_UNUSED __attribute__((format(printf, 1, 2), noreturn)) static void bail_out(const char *fmt,
                                                                                ...) {
    va_list ap;
    printf("not ok %d - cannot go on: ", ++tap_count);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
    exit(1);
}

// Prints the plan; main returns its value.
TAP_UNUSED static int done_testing(void) {
    if (tap_count == 0)
        printf("1..0 # no test ran\nnot ok - no test ran\n");
    else
        printf("1..%d\n", tap_count);
    if (tap_failed)
        diag("%d of %d failed", tap_failed, tap_count);
    fflush(stdout);
    return tap_count == 0 || tap_failed ? 1 : 0;
}

#endif
