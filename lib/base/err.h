// SPDX-License-Identifier: Apache-2.0
// Errors: a fixed buffer owned by the caller, filled where the fact is known, wrapped on the way
// up.
//
//     if (file_read(path, …, e) < 0)
//         return err_wrap(e, "node '%s'", name);
//
// Every fallible function takes `struct err *e` last, returns 0 (or a non-negative result) on
// success and -1 on failure. The text says what failed, which thing, which limit, what to do.
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>
#include <sys/types.h>

// code, name, process exit status, meaning (man page)
#define ERR_CODES(X)                                                                               \
    X(ERR_NONE, "none", 0, "success")                                                              \
    X(ERR_FAILED, "failed", 1, "the operation failed")                                             \
    X(ERR_SYS, "system", 1, "the operating system refused a call")                                 \
    X(ERR_NET, "network", 1, "a connection could not be made or was lost")                         \
    X(ERR_TIMEOUT, "timeout", 1, "a time limit passed")                                            \
    X(ERR_LIMIT, "limit", 1, "a size or count limit was exceeded")                                 \
    X(ERR_FORMAT, "format", 1, "foreign bytes were malformed")                                     \
    X(ERR_AUTH, "auth", 1, "a login or an authentication was refused")                             \
    X(ERR_HOSTKEY, "hostkey", 1, "a host key is unknown or has changed")                           \
    X(ERR_NOT_FOUND, "not-found", 1, "a named thing does not exist")                               \
    X(ERR_EXISTS, "exists", 1, "a thing that must not exist is there")                             \
    X(ERR_BUSY, "busy", 1, "another process holds a lock or a resource")                           \
    X(ERR_HASH, "hash", 1, "content does not match its hash")                                      \
    X(ERR_WORKER, "worker", 1, "a worker process failed")                                          \
    X(ERR_INTERRUPTED, "interrupted", 1, "stopped by a signal")                                    \
    X(ERR_USAGE, "usage", 2, "the command line is wrong")                                          \
    X(ERR_CONFIG, "config", 2, "the configuration is wrong")                                       \
    X(ERR_SOME_FAILED, "some-failed", 3, "some nodes failed")                                      \
    X(ERR_NO_STATUS, "no-status", 4, "some nodes gave no status")

enum err_code {
#define X(code, name, status, text) code,
    ERR_CODES(X)
#undef X
};

enum { ERR_TEXT_BYTES_MAX = 2048 };

struct err {
    enum err_code code;
    char text[ERR_TEXT_BYTES_MAX]; // UTF-8, lower case, no full stop; cut at the limit with "…"
};

// All of them return -1 so that `return err_set(e, …)` is one line.
// Control characters in an argument, newlines too, are made visible (str_visible).
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// Appends ": <strerror(errno)>"; errno is read before anything else.
int err_errno(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// Several problems, one to a line.
int err_set_lines(struct err *e, enum err_code code, const char *lines);
// Puts "<context>: " in front of the existing text.
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void err_clear(struct err *e);
const char *err_name(enum err_code code); // "timeout"
int err_status(enum err_code code);       // process exit status

// A broken invariant: prints to standard error and aborts, also in release builds.
#define must(cond) ((cond) ? (void)0 : err_bug(__FILE__, __LINE__, #cond))
_Noreturn void err_bug(const char *file, int line, const char *what);
// Says so and ends the process with 1.
_Noreturn void err_out_of_memory(unsigned long bytes);

// A call of the system has returned n: a signal interrupted it; or one did, or it would have had
// to wait.
bool err_interrupted(ssize_t n);
bool err_not_yet(ssize_t n);

#endif
