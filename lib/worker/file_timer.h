// SPDX-License-Identifier: Apache-2.0
// The server for PyTorch's FileTimerClient: a FIFO into which workers write deadlines, one JSON
// object per line.
//
//     {"version": 1, "pid": 77, "scope_id": "train.py#12", "expiration_time": 1.7e9, "signal": 9}
//
// expiration_time is in seconds since 1970 on this host's wall clock; from the arrival of the line
// it is counted on the monotonic clock. A negative value releases the timer of this process and
// scope. A process with an expired timer gets the signal of the first expired timer that has one (>
// 0), and all its timers are removed. Only descendants of this process are ever signalled.
//
//     file_timers_open(&t, loop, path, on_expired, e);      // makes the FIFO, mode 0600
//     file_timers_clear(&t); // no process of the round is left
//     file_timers_close(&t); // also removes the FIFO
//
// Malformed lines are counted and logged in growing intervals. Behaviour as observed in PyTorch
// 2.13 (torch.distributed.elastic.timer).
#ifndef WORKER_FILE_TIMER_H
#define WORKER_FILE_TIMER_H

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"
#include "sys/loop.h"

#include <stdint.h>
#include <sys/types.h>

enum {
    FILE_TIMER_LINE_BYTES_MAX = 4096, // PIPE_BUF: longer writes could interleave
    FILE_TIMER_SCOPE_BYTES_MAX = 512, // shown part of a scope
    FILE_TIMERS_MAX = 4096,
    FILE_TIMER_SWEEP_MS = 1000,
    FILE_TIMER_READS_MAX = 16, // per turn of the loop
    FILE_TIMER_PATH_BYTES_MAX = 1024,
};

struct file_timer_request {
    pid_t pid;
    const char *scope; // NUL-terminated, may contain NULs: see scope_len
    size_t scope_len;
    double expires_s; // < 0: release
    int signal;       // 0: none
};

// Parses one line without its newline; texts in the arena. ERR_FORMAT describes the fault.
int file_timer_parse(struct arena *a, const char *line, size_t len, struct file_timer_request *out,
                     struct err *e);

struct file_timer {
    pid_t pid;
    uint64_t started_ticks;               // of the process, since its number may be reused
    unsigned char scope_hash[HASH_BYTES]; // of the whole scope
    char scope[FILE_TIMER_SCOPE_BYTES_MAX];
    int64_t due_ms; // monotonic
    int signal;
};

struct file_timers;
// The process was signalled (0: no signal, or the process was gone). x is valid during the call.
typedef void file_timer_cb(struct file_timers *t, const struct file_timer *x, int signal);

struct file_timers {
    struct loop *loop; // NULL: closed
    struct watch watch;
    struct timer next;
    file_timer_cb *on_expired;
    struct file_timer *list;
    int count;
    size_t room;
    int64_t swept_ms; // time of the last search for ended processes in a full table
    uint64_t refused; // lines
    char line[FILE_TIMER_LINE_BYTES_MAX + 1];
    size_t len;
    bool skipping; // until the end of an overlong line
    bool held;
    char path[FILE_TIMER_PATH_BYTES_MAX];
};

// Replaces a FIFO of the same user; anything else at that path is an error.
int file_timers_open(struct file_timers *t, struct loop *loop, const char *path,
                     file_timer_cb *on_expired, struct err *e);
void file_timers_clear(struct file_timers *t); // forgets all timers
// While held, requests are accepted but no timer fires.
void file_timers_hold(struct file_timers *t, bool held);
void file_timers_close(struct file_timers *t); // no-op when closed

#endif
