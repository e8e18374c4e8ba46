// SPDX-License-Identifier: Apache-2.0
// Watches the notice file with one inotify watch: on the file's folder, or on the nearest existing
// parent folder until the next one is created. Every event leads to the same check of the current
// state, so events need not be distinguished, and none is missed between two of them.
#include "agent/preemption_notice.h"

#include "base/log.h"
#include "base/str.h"
#include "sys/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *word;
    bool ends;
} kinds[] = {
#define X(code, word, ends) {word, ends},
    NOTICE_KINDS(X)
#undef X
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

const char *preemption_notice_word(enum notice_kind kind) {
    return kinds[kind].word;
}

bool preemption_ends_node(enum notice_kind kind) {
    return kinds[kind].ends;
}

static int take_kind(const char *value, struct notice *out, struct err *e) {
    for (int i = NOTICE_NONE + 1; i < KIND_COUNT; i++)
        if (strcmp(value, kinds[i].word) == 0) {
            out->kind = (enum notice_kind)i;
            return 0;
        }
    struct arena a = {0};
    err_set(e, ERR_FORMAT, "kind '%.100s' is not known",
            str_printable(&a, value, strnlen(value, 40)));
    arena_fini(&a);
    return -1;
}

static int take_line(const char *line, struct notice *out, struct err *e) {
    if (str_starts(line, "kind="))
        return take_kind(strchr(line, '=') + 1, out, e);
    if (str_starts(line, "deadline="))
        return str_parse_i64(strchr(line, '=') + 1, 0, INT32_MAX * 4LL, &out->deadline_s, e);
    if (str_starts(line, "node="))
        snprintf(out->node, sizeof out->node, "%s", strchr(line, '=') + 1);
    return 0;
}

int preemption_notice_parse(const char *text, size_t len, struct notice *out, struct err *e) {
    *out = (struct notice){.kind = NOTICE_NONE};
    if (len > NOTICE_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "a notice of %zu bytes is longer than %d", len,
                       NOTICE_BYTES_MAX);
    if (memchr(text, '\0', len))
        return err_set(e, ERR_FORMAT, "a notice with a zero byte");
    struct arena a = {0};
    char **lines;
    size_t count = str_split(&a, arena_strndup(&a, text, len), '\n', &lines);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        if (take_line(lines[i], out, e) < 0)
            rc = err_wrap(e, "line %zu", i + 1);
    arena_fini(&a);
    if (rc == 0 && out->kind == NOTICE_NONE)
        rc = err_set(e, ERR_FORMAT, "a notice without a kind");
    return rc;
}

// ---- the watch ----

// Watches the deepest existing folder of the path. True: it is the file's own folder.
static bool watch_folder(struct notice_watch *w) {
    char dir[NOTICE_PATH_BYTES_MAX];
    snprintf(dir, sizeof dir, "%s", w->path);
    for (int depth = 0; depth < NOTICE_FOLDERS_MAX; depth++) {
        char *slash = strrchr(dir, '/');
        slash[slash == dir] = '\0';
        unsigned mask = IN_ONLYDIR | IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF;
        if (depth == 0)
            mask = IN_ONLYDIR | IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM |
                   IN_DELETE_SELF | IN_MOVE_SELF;
        int folder = file_changes_add(&w->changes, dir, mask);
        if (folder >= 0) {
            if (w->folder != folder)
                file_changes_remove(&w->changes, w->folder);
            w->folder = folder;
            return depth == 0;
        }
        if (!dir[1])
            break;
    }
    return false;
}

static void look(struct notice_watch *w) {
    struct notice n = {.kind = NOTICE_NONE};
    struct arena a = {0};
    struct err e = {0};
    char *text;
    size_t len;
    // Twice: the second call finds a folder created during the first.
    bool here = false;
    for (int i = 0; i < 2 && !here; i++)
        here = watch_folder(w);
    int rc = here ? file_read(&a, w->path, NOTICE_BYTES_MAX, &text, &len, &e) : 0;
    if (here && rc == 0)
        rc = preemption_notice_parse(text, len, &n, &e);
    arena_fini(&a);
    bool puzzled = rc < 0 && e.code != ERR_NOT_FOUND;
    if (puzzled && !w->puzzled)
        log_warn("cannot parse a preemption notice", "path=%s reason=%s", w->path, e.text);
    w->puzzled = puzzled;
    if (puzzled)
        return;
    if (n.kind == w->last.kind && n.deadline_s == w->last.deadline_s)
        return;
    w->last = n;
    w->cb(w, &n);
}

static void on_change(struct watch *watch, unsigned events) {
    struct notice_watch *w = container_of(watch, struct notice_watch, watch);
    (void)events;
    file_changes_drain(&w->changes);
    look(w);
}

static void on_first(struct timer *t) {
    struct notice_watch *w = container_of(t, struct notice_watch, first);
    look(w);
}

int preemption_watch_start(struct notice_watch *w, struct loop *loop, const char *path,
                           notice_cb *cb, struct err *e) {
    *w = (struct notice_watch){.cb = cb, .folder = -1};
    if (path[0] != '/' || strlen(path) >= sizeof w->path)
        return err_set(e, ERR_USAGE,
                       "notice file '%.100s' is not an absolute path of at most %d "
                       "bytes",
                       path, NOTICE_PATH_BYTES_MAX - 1);
    memcpy(w->path, path, strlen(path) + 1);
    if (file_changes_open(&w->changes, e) < 0)
        return err_wrap(e, "'%s'", path);
    if (watch_start(loop, &w->watch, w->changes.fd, LOOP_READ, on_change, e) < 0) {
        file_changes_close(&w->changes);
        return -1;
    }
    w->loop = loop;
    timer_start(loop, &w->first, 0, on_first);
    return 0;
}

void preemption_watch_stop(struct notice_watch *w) {
    if (!w->loop)
        return;
    timer_stop(&w->first);
    watch_stop(&w->watch);
    file_changes_close(&w->changes);
    w->loop = NULL;
}
