// SPDX-License-Identifier: Apache-2.0
// Copies log files to the console. One watcher serves all files (sys/file_changes); an event names
// its file by the number of the watch.
#include "worker/log_tee.h"

#include "base/arena.h"
#include "base/str.h"
#include "sys/file_changes.h"
#include "worker/console.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10 };

struct file {
    struct file *next;
    int fd, wd, console_fd, filtered_fd;
    const char *prefix;
    const char *const *words;
    struct strbuf line; // an incomplete line
    bool held;          // the console has no room
};

struct tee {
    struct watch watch;
    struct loop *loop;
    struct timer look; // runs while a file is held
    struct file_changes changes;
    struct file *files;
    struct strbuf console, filtered; // scratch, one write per batch of lines
};

static void write_out(int fd, const char *p, size_t len) {
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno != EINTR) {
            return; // a full disk
        } else if (n > 0) {
            p += n;
            len -= (size_t)n;
        }
    }
}

static bool line_matches(const struct file *f, const char *p, size_t len) {
    for (const char *const *w = f->words; w && *w; w++)
        if (memmem(p, len, *w, strlen(*w)))
            return true;
    return false;
}

static void emit(struct tee *t, struct file *f, const char *p, size_t len) {
    if (f->console_fd >= 0) {
        strbuf_adds(&t->console, f->prefix);
        strbuf_add(&t->console, p, len);
        strbuf_addc(&t->console, '\n');
    }
    if (f->filtered_fd >= 0 && line_matches(f, p, len)) {
        strbuf_adds(&t->filtered, f->prefix);
        strbuf_add(&t->filtered, p, len);
        strbuf_addc(&t->filtered, '\n');
    }
}

static void flush(struct tee *t, struct file *f) {
    if (f->console_fd >= 0)
        console_put(f->console_fd, t->console.data, t->console.len);
    if (f->filtered_fd >= 0)
        write_out(f->filtered_fd, t->filtered.data, t->filtered.len);
    strbuf_clear(&t->console);
    strbuf_clear(&t->filtered);
}

static void take_lines(struct tee *t, struct file *f) {
    size_t at = 0;
    for (;;) {
        const char *p = f->line.data + at;
        size_t left = f->line.len - at;
        const char *end = left ? memchr(p, '\n', left) : NULL;
        if (!end && left <= TEE_LINE_BYTES_MAX)
            break;
        size_t len = end ? (size_t)(end - p) : TEE_LINE_BYTES_MAX;
        emit(t, f, p, len);
        at += len + (end != NULL);
    }
    strbuf_consume(&f->line, at);
}

static void on_look(struct timer *timer);

// Checks the room for a typical batch with prefixes; a little more does no harm.
static bool has_room(const struct file *f, bool all) {
    return all || f->console_fd < 0 || console_room(f->console_fd) >= CONSOLE_KEPT_BYTES_MAX / 2;
}

// Reads the new bytes. all: even without room on the console.
static void read_file(struct tee *t, struct file *f, bool all) {
    char buf[READ_BYTES];
    for (;;) {
        f->held = !has_room(f, all);
        if (f->held) {
            timer_start(t->loop, &t->look, TEE_HELD_MS, on_look);
            break;
        }
        ssize_t n = read(f->fd, buf, sizeof buf);
        if (err_interrupted(n))
            continue;
        if (n <= 0)
            break;
        strbuf_add(&f->line, buf, (size_t)n);
        take_lines(t, f);
        flush(t, f);
    }
}

static void on_look(struct timer *timer) {
    struct tee *t = container_of(timer, struct tee, look);
    for (struct file *f = t->files; f; f = f->next)
        if (f->held)
            read_file(t, f, false);
}

static void on_changes(struct watch *w, unsigned events) {
    (void)events;
    struct tee *t = container_of(w, struct tee, watch);
    char buf[4096] __attribute__((aligned(8)));
    size_t n;
    while ((n = file_changes_read(&t->changes, buf, sizeof buf)) > 0) {
        for (size_t at = 0; at < n;) {
            const struct inotify_event *ev = (const void *)(buf + at);
            at += sizeof *ev + ev->len;
            for (struct file *f = t->files; f; f = f->next)
                if (f->wd == ev->wd || (ev->mask & IN_Q_OVERFLOW))
                    read_file(t, f, false);
        }
    }
    if (file_changes_ticked(&t->changes))
        for (struct file *f = t->files; f; f = f->next)
            read_file(t, f, false);
}

struct tee *log_tee_open(struct loop *loop, struct err *e) {
    struct tee *t = heap_alloc(sizeof *t);
    t->loop = loop;
    if (file_changes_open(&t->changes, e) < 0 ||
        watch_start(loop, &t->watch, t->changes.fd, LOOP_READ, on_changes, e) < 0) {
        file_changes_close(&t->changes);
        free(t);
        return NULL;
    }
    return t;
}

int log_tee_add(struct tee *t, const char *path, int console_fd, const char *prefix,
                const char *const *words, int filtered_fd, struct err *e) {
    struct file *f = heap_alloc(sizeof *f);
    *f = (struct file){.console_fd = console_fd,
                       .filtered_fd = filtered_fd,
                       .prefix = prefix,
                       .words = words,
                       .next = t->files};
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    f->wd = f->fd < 0 ? -1 : file_changes_add(&t->changes, path, IN_MODIFY);
    if (f->wd < 0) {
        err_errno(e, ERR_SYS, "cannot watch '%s'", path);
        if (f->fd >= 0)
            close(f->fd);
        free(f);
        return -1;
    }
    t->files = f;
    return 0;
}

void log_tee_drain(struct tee *t) {
    for (struct file *f = t->files; f; f = f->next) {
        read_file(t, f, true);
        if (f->line.len > 0) {
            emit(t, f, f->line.data, f->line.len);
            strbuf_clear(&f->line);
            flush(t, f);
        }
    }
}

void log_tee_close(struct tee *t) {
    if (!t)
        return;
    log_tee_drain(t);
    watch_stop(&t->watch);
    timer_stop(&t->look);
    file_changes_close(&t->changes);
    for (struct file *f = t->files, *next; f; f = next) {
        next = f->next;
        close(f->fd);
        strbuf_fini(&f->line);
        free(f);
    }
    strbuf_fini(&t->console);
    strbuf_fini(&t->filtered);
    free(t);
}
