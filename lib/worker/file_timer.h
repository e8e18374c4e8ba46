// SPDX-License-Identifier: Apache-2.0
// The server of PyTorch's FileTimerClient: a FIFO into which workers write, one JSON object per
// line, until when a piece of their work has to be done.
//
//     {"version": 1, "pid": 77, "scope_id": "train.py#12", "expiration_time": 1.7e9, "signal": 9}
//
// expiration_time is in seconds since 1970 on this host's wall clock and counts from the moment the
// line is read on the monotonic one; a negative one releases the timer of that process and scope. A
// process with an expired timer gets the signal of the first of them that has one (> 0), and all
// its timers go. Only descendants of this process are ever signalled.
//
//     file_timers_open(&t, loop, path, on_expired, e);      // makes the FIFO, mode 0600
//     file_timers_clear(&t);                                // nothing of the round is left
//     file_timers_close(&t);                                // and removes it
//
// Lines that cannot be understood are counted, and told of in ever longer steps. Behaviour as seen
// in PyTorch 2.13 (torch.distributed.elastic.timer).
#ifndef WORKER_FILE_TIMER_H
#define WORKER_FILE_TIMER_H

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"
#include "sys/loop.h"

#include <stdint.h>
#include <sys/types.h>

enum {
    FILE_TIMER_LINE_BYTES_MAX = 4096, // PIPE_BUF: longer ones could be mixed with others
    FILE_TIMER_SCOPE_BYTES_MAX = 512, // of what is shown of a scope
    FILE_TIMERS_MAX = 4096,
    FILE_TIMER_SWEEP_MS = 1000,
    FILE_TIMER_READS_MAX = 16, // per turn of the loop
    FILE_TIMER_PATH_BYTES_MAX = 1024,
};

struct file_timer_request {
    pid_t pid;
    const char *scope; // NUL-terminated, may hold NULs: see scope_len
    size_t scope_len;
    double expires_s; // < 0: release
    int signal;       // 0: none
};

// One line without its newline; texts in the arena. ERR_FORMAT says what is wrong.
int file_timer_parse(struct arena *a, const char *line, size_t len, struct file_timer_request *out,
                     struct err *e);

struct file_timer {
    pid_t pid;
    uint64_t started_ticks;               // of the process: another one may get its number
    unsigned char scope_hash[HASH_BYTES]; // of the whole scope
    char scope[FILE_TIMER_SCOPE_BYTES_MAX];
    int64_t due_ms; // monotonic
    int signal;
};

struct file_timers;
// The process has had the signal (0: it had none, or was gone). x is valid during the call.
typedef void file_timer_cb(struct file_timers *t, const struct file_timer *x, int signal);

struct file_timers {
    struct loop *loop; // NULL: closed
    struct watch watch;
    struct timer next;
    file_timer_cb *on_expired;
    struct file_timer *list;
    int count;
    size_t room;
    int64_t swept_ms; // when a full table was last searched for processes that have ended
    uint64_t refused; // lines
    char line[FILE_TIMER_LINE_BYTES_MAX + 1];
    size_t len;
    bool skipping; // to the end of a line that is too long
    bool held;
    char path[FILE_TIMER_PATH_BYTES_MAX];
};

// Replaces a FIFO of the same user; anything else at that path is an error.
int file_timers_open(struct file_timers *t, struct loop *loop, const char *path,
                     file_timer_cb *on_expired, struct err *e);
void file_timers_clear(struct file_timers *t); // forgets all timers
// While held requests are taken, and nothing is due.
void file_timers_hold(struct file_timers *t, bool held);
void file_timers_close(struct file_timers *t); // no-op when closed

#endif
