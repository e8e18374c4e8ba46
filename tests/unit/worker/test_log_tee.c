// SPDX-License-Identifier: Apache-2.0
// Log files of workers that are copied as they grow: with inotify, without watches left, and
// without an instance of it.
#include "base/str.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/inotify.h"
#include "worker/log_tee.h"

#include <string.h>

static char dir[] = "/tmp/dtctl-tee-XXXXXX";

struct run {
    struct arena arena;
    struct loop *loop;
    struct tee *tee;
    const char *filtered;
    int logs[2], out;
};

static int log_open_at(struct run *r, const char *name) {
    const char *path = file_join(&r->arena, dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        bail_out("cannot make %s", path);
    return fd;
}

static void begin(struct run *r) {
    static const char *const words[] = {"loss", NULL};
    static const char *const names[] = {"0.log", "1.log"}, *const prefixes[] = {"[0]:", "[1]:"};
    struct err e = {0};
    *r = (struct run){0};
    r->loop = loop_open(&e);
    r->out = log_open_at(r, "filtered.log");
    r->filtered = file_join(&r->arena, dir, "filtered.log");
    r->tee = log_tee_open(r->loop, &e);
    if (!ok(r->tee != NULL, "the tee opens %s", e.text))
        return;
    for (int i = 0; i < 2; i++) {
        r->logs[i] = log_open_at(r, names[i]);
        is_int(log_tee_add(r->tee, file_join(&r->arena, dir, names[i]), -1, prefixes[i], words,
                           r->out, &e),
               0, "a file is taken %s", e.text);
    }
    is_int(log_tee_add(r->tee, "/nowhere/0.log", -1, "", words, r->out, &e), -1,
           "an absent file is refused");
    has_str(e.text, "'/nowhere/0.log'", "the error names the absent file");
}

static void end(struct run *r) {
    log_tee_close(r->tee);
    for (int i = 0; i < 2; i++)
        close(r->logs[i]);
    close(r->out);
    loop_close(r->loop);
    arena_fini(&r->arena);
}

static void say(struct run *r, int log, const char *text) {
    if (write(r->logs[log], text, strlen(text)) != (ssize_t)strlen(text))
        bail_out("cannot write a log");
}

static void copied(struct run *r, const char *want, const char *what) {
    char *got = NULL;
    size_t len;
    struct err e;
    for (int i = 0; i < 100 && !str_eq(got, want); i++) {
        loop_once(r->loop, 100);
        if (file_read(&r->arena, r->filtered, 1 << 20, &got, &len, &e) < 0)
            bail_out("%s", e.text);
    }
    is_str(got, want, "%s", what);
}

static void follows(const char *how) {
    struct run r;
    begin(&r);
    if (!r.tee)
        return;
    say(&r, 0, "loss=1\nother\nlo");
    copied(&r, "[0]:loss=1\n", how);
    say(&r, 1, "loss=2\n");
    copied(&r, "[0]:loss=1\n[1]:loss=2\n", "the other file, too");
    say(&r, 0, "ss=3\nloss=4");
    copied(&r, "[0]:loss=1\n[1]:loss=2\n[0]:loss=3\n", "a line that comes in two pieces");
    log_tee_drain(r.tee);
    copied(&r, "[0]:loss=1\n[1]:loss=2\n[0]:loss=3\n[0]:loss=4\n", "the rest at the end");
    end(&r);
}

int main(void) {
    struct err e;
    if (!mkdtemp(dir))
        bail_out("no folder");
    follows("with inotify");
    if (inotify_limit("max_inotify_watches", 1))
        follows("with one watch for two files");
    else
        skip(1, "this machine lets nobody limit inotify in a user namespace");
    if (inotify_limit("max_inotify_instances", 0))
        follows("without inotify");
    else
        skip(1, "this machine lets nobody limit inotify in a user namespace");
    file_remove_tree(dir, &e);
    return done_testing();
}
