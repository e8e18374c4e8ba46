// SPDX-License-Identifier: Apache-2.0
// Copies log files of workers to the console as they grow, line by line, with a prefix. Copies
// lines with certain words also to a filtered file. Workers write their files directly, so they
// never wait for the copy and lose nothing with it. Woken by sys/file_changes.
// While the console has no reader (console.h), its files are not read but polled at intervals.
//
//     struct tee *t = log_tee_open(loop, e);
//     log_tee_add(t, "/…/0/stdout.log", 1, "[default0]:", words, filtered_fd, e);
//     log_tee_drain(t); // copies all bytes in the files, also an incomplete last line
//     log_tee_close(t);
#ifndef WORKER_LOG_TEE_H
#define WORKER_LOG_TEE_H

#include "base/err.h"
#include "sys/loop.h"

enum {
    TEE_LINE_BYTES_MAX = 64 << 10, // longer lines are split
    TEE_HELD_MS = 50,              // between two checks for room on the console
};

struct tee;

struct tee *log_tee_open(struct loop *loop, struct err *e); // NULL on error
void log_tee_close(struct tee *t);                          // drains; NULL is fine
// The file must exist. console_fd -1: no copy. The caller keeps prefix, words (NULL-terminated, may
// be NULL) and filtered_fd (-1: none), which must outlive the tee.
int log_tee_add(struct tee *t, const char *path, int console_fd, const char *prefix,
                const char *const *words, int filtered_fd, struct err *e);
void log_tee_drain(struct tee *t);

#endif
