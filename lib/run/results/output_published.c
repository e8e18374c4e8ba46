// SPDX-License-Identifier: Apache-2.0
// Finished files of output and model that come while a run is active.
#include "run/results/output_published.h"

#include "content/finished_files.h"
#include "run/monitor.h"
#include "sys/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { STOP_MS_MAX = 5000 };

enum { KINDS = RESULT_OUTPUT | RESULT_MODEL };
static const char *const folders[] = {"output", "model", NULL}; // their names
// No disk has this name: files of several disks are there.
static const char mixed[FINISHED_FILES_DISK_BYTES] = "mixed";

const char *output_published_path(struct context *s, const struct run *run, const char *node) {
    const char *live = run_path(&s->cluster, run, "live");
    return node ? file_join(s->arena, live, node) : live;
}

bool output_published_has(struct context *s, const struct run *run, const char *node) {
    return file_exists(file_join(s->arena, output_published_path(s, run, node), "disk"));
}

int output_published_remove(struct context *s, const struct run *run, struct err *e) {
    return file_remove_tree(output_published_path(s, run, NULL), e);
}

static const char *lock_path(struct context *s, const struct run *run) {
    return run_path(&s->cluster, run, ".live");
}

int output_published_stop(struct context *s, const struct run *run, int *lock, struct err *e) {
    return file_lock(lock_path(s, run), "fetching output of the run", STOP_MS_MAX, lock, e);
}

// ---- the disk of a node -------------------------------------------------------------------------

static void read_disk(const char *live, char disk[FINISHED_FILES_DISK_BYTES]) {
    struct arena a = {0};
    struct err ignored = {0};
    char *text = NULL;
    size_t len = 0;
    memcpy(disk, mixed, FINISHED_FILES_DISK_BYTES);
    if (file_read(&a, file_join(&a, live, "disk"), FINISHED_FILES_DISK_BYTES, &text, &len,
                  &ignored) == 0 &&
        len == FINISHED_FILES_DISK_BYTES - 1)
        memcpy(disk, text, FINISHED_FILES_DISK_BYTES);
    arena_fini(&a);
}

static int write_disk(const char *live, const char *disk, struct err *e) {
    struct arena a = {0};
    int rc = file_write_atomic(file_join(&a, live, "disk"), disk, strlen(disk), 0600, e);
    arena_fini(&a);
    return rc;
}

// ---- while the run is active --------------------------------------------------------------------

static const char *node_folder(const struct publish_node *x) {
    const struct follow *f = x->all->follow;
    return output_published_path(f->context, f->run, x->node->node->info->name);
}

// With merge "rank0", only the node of rank 0. The lock makes one follower of several do it.
static bool may(struct publish_node *x) {
    struct publish *p = x->all;
    const struct follow *f = p->follow;
    const struct history_node *h = &f->history.nodes[x->node->index];
    struct err ignored = {0};
    if (f->run->merge == CONFIG_MERGE_RANK0 && (h->round != f->history.round || h->first_rank != 0))
        return false;
    return p->lock >= 0 || file_lock(lock_path(f->context, f->run), "fetching output of the run", 0,
                                     &p->lock, &ignored) == 0;
}

static const char *dest(struct publish_node *x, struct arena *a, struct err *e) {
    const char *live = node_folder(x);
    (void)a;
    return file_make_dirs(live, 0700, e) == 0 ? live : NULL;
}

static int keep(struct publish_node *x, struct err *e) {
    struct arena a = {0};
    char before[FINISHED_FILES_DISK_BYTES], now[FINISHED_FILES_DISK_BYTES];
    const char *live = node_folder(x), *list = file_join(&a, live, "list");
    bool first = file_is_absent(file_join(&a, live, "disk"));
    read_disk(live, before);
    int rc = finished_files_disk(list, now, e);
    if (rc == 0 && first)
        rc = write_disk(live, now, e);
    else if (rc == 0 && strcmp(before, now) != 0)
        rc = write_disk(live, mixed, e);
    else if (rc == 0)
        rc = finished_files_drop(live, list, folders, e);
    arena_fini(&a);
    return rc;
}

static void note(const struct publish_node *x, const char *files, const char *bytes) {
    const struct follow *f = x->all->follow;
    monitor_note(f->context, f->run, "output-published", "peer", x->node->node->info->name, "files",
                 files, "bytes", bytes, NULL);
}

void output_published_open(struct publish *p, struct follow *f) {
    static const struct publish_kind kind = {.what = "output",
                                             .option = " --closed",
                                             .folder = "closed/",
                                             .hashes = true,
                                             .failures_max = 2,
                                             .may = may,
                                             .dest = dest,
                                             .keep = keep,
                                             .note = note};
    bool wanted = f->run->wanted & KINDS;
    publish_open(p, f, &kind, wanted ? f->run->output_every_ms : 0);
}

// ---- the end ------------------------------------------------------------------------------------

int output_published_move(struct context *s, const struct run *run, const char *node,
                          unsigned kinds, const char *to, struct err *e) {
    const char *live = output_published_path(s, run, node);
    const char *names[RESULT_KINDS];
    size_t count = result_kinds_names(kinds & KINDS, names);
    for (size_t i = 0; i < count; i++) {
        const char *from = file_join(s->arena, live, names[i]);
        const char *target = file_join(s->arena, to, names[i]);
        if (file_is_absent(from) || file_exists(target))
            continue;
        if (file_make_dirs(to, 0700, e) < 0)
            return -1;
        if (rename(from, target) < 0)
            return err_errno(e, ERR_SYS, "cannot move '%s' to '%s'", from, target);
    }
    return 0;
}

int output_published_settle(struct context *s, const struct run *run, const char *node,
                            const char *part, struct err *e) {
    char before[FINISHED_FILES_DISK_BYTES], now[FINISHED_FILES_DISK_BYTES];
    const char *list = file_join(s->arena, part, "list");
    if (!output_published_has(s, run, node) || file_is_absent(list))
        return 0;
    read_disk(output_published_path(s, run, node), before);
    if (finished_files_disk(list, now, e) < 0)
        return -1;
    return strcmp(before, now) == 0 ? finished_files_drop(part, list, folders, e) : 0;
}
