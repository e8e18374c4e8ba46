// SPDX-License-Identifier: Apache-2.0
// Logging: one line per event on standard error, message then key=value pairs.
//
//     log_info("node is ready", "node=%s time_ms=%ld", name, ms);
//
// Control characters are escaped. The role ("dtctl", "agent gpu01") is bound once. Results never go
// through here: they belong on standard output.
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_style {
    LOG_PLAIN,  // "role: message key=value": for a person at a terminal
    LOG_STAMPED // "2026-01-02T03:04:05.678Z role level message key=value": for files
};

void log_open(const char *role, enum log_level level, enum log_style style);
enum log_level log_level(void);
// Where whole lines go instead of standard error; NULL: there. For a process that must not wait.
void log_sink(void (*sink)(const char *line, size_t len));

// fmt gives the key=value part; NULL: none.
void log_write(enum log_level level, const char *message, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Limits lines that a peer can cause without bound to a number per minute. The next printed line
// contains the number of suppressed ones.
enum { LOG_LIMIT_LINES = 5, LOG_LIMIT_MS = 60000 };
struct log_limit {
    int64_t since_ms;
    int count;
};
bool log_admits(struct log_limit *l);

#define log_error(message, ...) log_write(LOG_ERROR, message, __VA_ARGS__)
#define log_warn(message, ...)  log_write(LOG_WARN, message, __VA_ARGS__)
#define log_info(message, ...)  log_write(LOG_INFO, message, __VA_ARGS__)
#define log_debug(message, ...) log_write(LOG_DEBUG, message, __VA_ARGS__)

#endif
