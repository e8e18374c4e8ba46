// SPDX-License-Identifier: Apache-2.0
// Changes of files: reported by inotify; polled without inotify or without free watches.
#include "base/clock.h"
#include "sys/file.h"
#include "sys/file_changes.h"
#include "tests/tap.h"
#include "tests/unit/inotify.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static char dir[] = "/tmp/dtctl-changes-XXXXXX";

static const char *in(struct arena *a, const char *name) {
    return file_join(a, dir, name);
}

static void put(struct arena *a, const char *name) {
    struct err e;
    if (file_write_atomic(in(a, name), "x", 1, 0644, &e) < 0)
        bail_out("%s", e.text);
}

static bool ready(struct file_changes *c, int ms) {
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

static void told(struct arena *a) {
    char buf[4096] __attribute__((aligned(8)));
    const struct inotify_event *ev = (const void *)buf;
    struct file_changes c;
    struct err e = {0};
    is_int(file_changes_open(&c, &e), 0, "open");
    int watch = file_changes_add(&c, dir, IN_ONLYDIR | IN_MOVED_TO);
    ok(watch > 0, "a folder is watched");
    ok(!ready(&c, 2 * CHANGES_LOOK_MS), "without a change nothing is reported");
    put(a, "file");
    ok(ready(&c, 5000), "a new file is a change");
    ok(file_changes_read(&c, buf, sizeof buf) > 0, "a new file is read as an event");
    is_int(ev->wd, watch, "the event has the folder's watch");
    is_str(ev->name, "file", "the event has the file's name");
    is_int((int)file_changes_read(&c, buf, sizeof buf), 0, "an event is read once");
    ok(!file_changes_ticked(&c), "with inotify no poll is needed");
    file_changes_remove(&c, watch);
    file_changes_drain(&c); // that it is removed
    put(a, "file");
    ok(!ready(&c, CHANGES_LOOK_MS), "a removed watch reports nothing");
    errno = 0;
    ok(file_changes_add(&c, in(a, "none"), IN_MODIFY) < 0 && errno == ENOENT,
       "a path has to be there");
    file_changes_close(&c);
    file_changes_close(&c);
    is_int(c.fd, -1, "the watch is closed before the next case");
}

// Whatever inotify lacks: instances or watches.
static void looked_for(struct arena *a, const char *what) {
    char buf[4096] __attribute__((aligned(8)));
    struct file_changes c;
    struct err e = {0};
    is_int(file_changes_open(&c, &e), 0, "no %s: open all the same", what);
    is_int(file_changes_add(&c, dir, IN_ONLYDIR | IN_MOVED_TO), 0,
           "without inotify a folder is added");
    ok(file_changes_add(&c, in(a, "none"), IN_MODIFY) < 0 && errno == ENOENT,
       "a path has to be there");
    ok(file_changes_add(&c, in(a, "file"), IN_MODIFY | IN_ONLYDIR) < 0 && errno == ENOTDIR,
       "without inotify a file is refused where a folder is needed");
    int64_t begun = clock_mono_ms();
    for (int i = 0; i < 3; i++) {
        ok(ready(&c, 5000), "without inotify a poll is due");
        is_int((int)file_changes_read(&c, buf, sizeof buf), 0,
               "without inotify there are no events");
        ok(file_changes_ticked(&c), "a tick comes");
        ok(!file_changes_ticked(&c), "a tick is reported once");
    }
    ok(clock_mono_ms() - begun >= 2 * CHANGES_LOOK_MS, "ticks have an interval");
    file_changes_remove(&c, 0);
    file_changes_close(&c);
}

int main(void) {
    struct arena a = {0};
    struct err e;
    if (!mkdtemp(dir))
        bail_out("no folder");
    told(&a);
    if (inotify_limit("max_inotify_watches", 0))
        looked_for(&a, "watch");
    else
        skip(1, "this machine lets nobody limit inotify in a user namespace");
    if (inotify_limit("max_inotify_instances", 0))
        looked_for(&a, "instance");
    else
        skip(1, "this machine lets nobody limit inotify in a user namespace");
    file_remove_tree(dir, &e);
    arena_fini(&a);
    return done_testing();
}
