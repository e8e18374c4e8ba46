// SPDX-License-Identifier: Apache-2.0
// Lines of the log and notes on the screen, which the user reads, for tests.
//
//     said_open(&screen); … has_str(said(), "warning", …); said_clear(); said_close(&screen);
#ifndef DTCTL_TESTS_UNIT_SAID_H
#define DTCTL_TESTS_UNIT_SAID_H

#include "base/log.h"
#include "tests/tap.h"
#include "ui/screen.h"

#include <sys/mman.h>
#include <unistd.h>

static int said_fd = -1; // of a file in memory

static inline void said_line(const char *line, size_t len) {
    if (write(said_fd, line, len) < 0)
        bail_out("a line of the log is lost");
}

TAP_UNUSED static void said_open(struct screen *s) {
    said_fd = memfd_create("said", MFD_CLOEXEC);
    if (said_fd < 0)
        bail_out("no file in memory");
    log_open("test", LOG_WARN, LOG_PLAIN);
    log_sink(said_line);
    screen_init(s, said_fd, said_fd, SCREEN_PLAIN, false);
}

TAP_UNUSED static void said_clear(void) {
    if (ftruncate(said_fd, 0) < 0 || lseek(said_fd, 0, SEEK_SET) != 0)
        bail_out("the log cannot be emptied");
}

TAP_UNUSED static const char *said(void) {
    static char text[64 * 1024];
    ssize_t n = pread(said_fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

TAP_UNUSED static void said_close(struct screen *s) {
    screen_fini(s);
    log_sink(NULL);
    close(said_fd);
}

#endif
