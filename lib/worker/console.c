// SPDX-License-Identifier: Apache-2.0
// Writes standard output and standard error in threads: one thread per stream blocks in write(), on
// a buffer of its own. Only the caller's thread grows the queue, so the threads never allocate and
// a fork finds a consistent heap.
#include "worker/console.h"

#include "base/arena.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "sys/cond.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 16 << 10, DRAIN_LOOK_MS = 100 };

static struct stream {
    int fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, less;
    char *data;
    size_t at, len, room; // bytes at … len are unwritten
    size_t dropped;
    bool open, ending, deaf; // deaf: the reader is gone
} streams[] = {
    {.fd = STDOUT_FILENO, .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER},
    {.fd = STDERR_FILENO, .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER}};

// Another process may have made the descriptor non-blocking.
static bool write_all(int fd, const char *p, size_t len) {
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            poll(&wait, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return false;
        } else if (n > 0) {
            p += n;
            len -= (size_t)n;
        }
    }
    return true;
}

static void *run(void *arg) {
    struct stream *s = arg;
    char chunk[CHUNK_BYTES];
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->at == s->len && !s->ending)
            pthread_cond_wait(&s->more, &s->lock);
        if (s->at == s->len)
            break;
        size_t n = s->len - s->at < sizeof chunk ? s->len - s->at : sizeof chunk;
        memcpy(chunk, s->data + s->at, n);
        pthread_mutex_unlock(&s->lock);
        bool heard = write_all(s->fd, chunk, n);
        pthread_mutex_lock(&s->lock);
        s->deaf |= !heard;
        s->at = s->deaf ? s->len : s->at + n;
        pthread_cond_signal(&s->less);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static struct stream *stream_of(int fd) {
    return &streams[fd == STDERR_FILENO];
}

size_t console_room(int fd) {
    struct stream *s = stream_of(fd);
    pthread_mutex_lock(&s->lock);
    size_t kept = s->len - s->at;
    pthread_mutex_unlock(&s->lock);
    return kept < CONSOLE_KEPT_BYTES_MAX ? CONSOLE_KEPT_BYTES_MAX - kept : 0;
}

void console_put(int fd, const char *p, size_t len) {
    struct stream *s = stream_of(fd);
    if (!s->open) {
        write_all(fd, p, len);
        return;
    }
    pthread_mutex_lock(&s->lock);
    if (s->at > 0) {
        memmove(s->data, s->data + s->at, s->len - s->at);
        s->len -= s->at;
        s->at = 0;
    }
    if (s->deaf || s->len + len > CONSOLE_LAST_BYTES_MAX) {
        s->dropped += len;
    } else {
        array_grow(s->data, &s->room, s->len + len);
        memcpy(s->data + s->len, p, len);
        s->len += len;
        pthread_cond_signal(&s->more);
    }
    pthread_mutex_unlock(&s->lock);
}

// Log lines never wait; they are dropped when the queue is full.
static void put_log(const char *line, size_t len) {
    if (console_room(STDERR_FILENO) >= len)
        console_put(STDERR_FILENO, line, len);
}

int console_open(struct err *e) {
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        struct stream *s = &streams[i];
        cond_init(&s->less);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int rc = pthread_create(&s->thread, NULL, run, s);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (rc != 0) {
            errno = rc;
            return err_errno(e, ERR_SYS, "cannot start a thread");
        }
        s->open = true;
    }
    log_sink(put_log);
    return 0;
}

// Waits while bytes leave the queue.
static bool drain(struct stream *s) {
    int64_t moved_ms = clock_mono_ms();
    size_t before = 0;
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_signal(&s->more);
    while (s->at < s->len && clock_mono_ms() - moved_ms < CONSOLE_STALL_MS_MAX) {
        cond_wait_ms(&s->less, &s->lock, DRAIN_LOOK_MS);
        if (s->at != before)
            moved_ms = clock_mono_ms();
        before = s->at;
    }
    bool empty = s->at == s->len;
    pthread_mutex_unlock(&s->lock);
    return empty;
}

void console_close(void) {
    log_sink(NULL);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        struct stream *s = &streams[i];
        if (!s->open)
            continue;
        bool empty = drain(s);
        if (empty)
            pthread_join(s->thread,
                         NULL); // otherwise it blocks in write() and ends with the process
        if (empty)
            free(s->data);
        s->open = false;
    }
}

void console_leave(void) {
    log_sink(NULL);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        streams[i].open = false;
}
