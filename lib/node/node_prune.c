// SPDX-License-Identifier: Apache-2.0
// `dtrun --node prune --root DIR --older-than-ms N [--dry-run]`: removes old content from the store
// that no file below DIR has. The store's cache of hashes tells the content of each file; content
// of files outside the cache may be removed and sent again later.
#include "base/arena.h"
#include "base/array.h"
#include "base/json.h"
#include "base/str.h"
#include "content/cas.h"
#include "node/node_verb.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PRUNE_DEPTH_MAX = 128 };

struct prune {
    const char *root;
    int64_t older_than_ms;
    bool dry_run;
    struct cas cas;
    unsigned char (*keep)[HASH_BYTES];
    size_t count, room;
};

static int parse(int argc, char **argv, struct prune *p, struct err *e) {
    p->older_than_ms = -1;
    for (int i = 1; i < argc; i++) {
        if (str_eq(argv[i], "--dry-run"))
            p->dry_run = true;
        else if (i + 1 == argc)
            return err_set(e, ERR_USAGE, "prune: '%s' needs a value", argv[i]);
        else if (str_eq(argv[i], "--root"))
            p->root = argv[++i];
        else if (!str_eq(argv[i], "--older-than-ms"))
            return err_set(e, ERR_USAGE, "prune: unknown option '%s'", argv[i]);
        else if (str_parse_i64(argv[++i], 0, INT64_MAX / 2000000, &p->older_than_ms, e) < 0)
            return err_wrap(e, "prune: --older-than-ms");
    }
    return p->root && p->older_than_ms >= 0
               ? 0
               : err_set(e, ERR_USAGE, "prune: --root and --older-than-ms are needed");
}

static void keep_file(struct prune *p, const struct stat *st) {
    array_grow(p->keep, &p->room, p->count + 1);
    p->count += hash_cache_get(p->cas.hashes, st, p->keep[p->count]);
}

// Records the content of every file below a folder; closes fd.
static int keep_below(struct prune *p, int fd, const char *name, int depth, struct err *e) {
    struct file_entries in = file_entries_at(fd, name);
    int rc = 0;
    while (rc == 0 && file_entries_next(&in)) {
        struct stat st;
        if ((depth == 0 && str_eq(in.name, "cas")) || !file_entries_stat(&in, &st))
            continue;
        if (S_ISREG(st.st_mode))
            keep_file(p, &st);
        else if (S_ISDIR(st.st_mode) && depth < PRUNE_DEPTH_MAX)
            rc = keep_below(p,
                            openat(in.fd, in.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                            in.name, depth + 1, e);
    }
    return file_entries_close(&in, rc, e);
}

static int compare(const void *x, const void *y) {
    return memcmp(x, y, HASH_BYTES);
}

static int prune(struct prune *p, struct cas_prune *done, struct err *e) {
    struct arena a = {0};
    const char *dir = file_join(&a, p->root, "cas");
    int rc = 0;
    if (!file_is_absent(dir)) {
        rc = cas_open(&p->cas, dir, e);
        if (rc == 0)
            rc = keep_below(p, open(p->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), p->root, 0, e);
        if (rc == 0) {
            if (p->count)
                qsort(p->keep, p->count, HASH_BYTES, compare);
            *done = (struct cas_prune){
                .keep = (const unsigned char(*)[HASH_BYTES])p->keep,
                .keep_count = p->count,
                .before_ns = hash_cache_now_ns() - p->older_than_ms * 1000000,
                .dry_run = p->dry_run,
            };
            rc = cas_prune(&p->cas, done, e);
        }
        struct err ignored;
        if (cas_close(&p->cas, false, rc == 0 ? e : &ignored) < 0)
            rc = -1;
    }
    free(p->keep);
    arena_fini(&a);
    return rc;
}

int node_prune(const struct node_call *c) {
    struct prune p = {0};
    struct cas_prune done = {0};
    struct err e = {0};
    struct strbuf b = {0};
    struct json_out j;
    int rc = parse(c->argc, c->argv, &p, &e);
    if (rc == 0)
        rc = prune(&p, &done, &e);
    if (rc < 0) {
        fprintf(stderr, "%s\n", e.text);
        return err_status(e.code);
    }
    json_open(&j, &b);
    json_object(&j, NULL);
    json_str(&j, "event", "pruned");
    json_int(&j, "removed", (int64_t)done.removed);
    json_int(&j, "removed_bytes", (int64_t)done.bytes);
    json_end(&j);
    strbuf_addc(&b, '\n');
    rc = file_write_all(1, b.data, b.len, &e);
    strbuf_fini(&b);
    return rc < 0 ? err_status(e.code) : 0;
}
