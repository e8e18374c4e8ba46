// SPDX-License-Identifier: Apache-2.0
// Archives in the results folder of a run.
#include "run/results/results_archive.h"

#include "base/clock.h"
#include "base/str.h"
#include "content/manifest.h"
#include "content/tar_write.h"
#include "run/results/results_owner.h"
#include "sys/atomic_file.h"
#include "sys/file.h"
#include "sys/file_entries.h"
#include "ui/progress.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ARCHIVE_OUTPUT, ARCHIVE_MODEL, ARCHIVES = RESULTS_ARCHIVES };

static const struct {
    const char *name;
    unsigned kind;
} ALL[ARCHIVES] = {
    {RESULTS_ARCHIVE_OUTPUT, RESULT_OUTPUT},
    {RESULTS_ARCHIVE_MODEL, RESULT_MODEL},
};

struct archiving {
    struct context *context;
    const struct run *run;
    struct manifest *files;
    struct tar_writer tar;
    struct progress progress;
    uint64_t done, total; // bytes of the archive that is written
};

const char *results_archive_name(int i) {
    return ALL[i].name;
}

bool results_archive_is_due(const struct run *run) {
    return run->archive == CONFIG_ARCHIVE_TAR_ZST && run->fetched &&
           run->archives != RUN_ARCHIVES_WHOLE;
}

// ---- the files of each archive ------------------------------------------------------------------

static bool is_in(const char *path, const char *folder) {
    size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 && (path[len] == 0 || path[len] == '/');
}

// The file, or the part of it that a killed writer has left (atomic_file.h).
static bool is_file(const char *path, const char *name) {
    size_t len = strlen(name);
    return strncmp(path, name, len) == 0 && (path[len] == 0 || str_starts(path + len, ".tmp-"));
}

static bool is_archive(const char *path) {
    for (int i = 0; i < ARCHIVES; i++)
        if (is_file(path, ALL[i].name))
            return true;
    return false;
}

int results_archive_remove(const char *dir, struct err *e) {
    struct file_entries in = file_entries_open(dir);
    int result = 0;
    while (result == 0 && file_entries_next(&in))
        if (is_archive(in.name) && unlinkat(in.fd, in.name, 0) < 0)
            result = err_errno(e, ERR_SYS, "cannot remove '%s/%s'", dir, in.name);
    return file_entries_close(&in, result, e);
}

// The archive of a path; -1: none. A model is model/ or, where the nodes' differ, NODE/model/.
static int archive_of(const struct run *run, const char *path) {
    if (is_in(path, "state") || is_file(path, OWNER_MARK) || is_archive(path))
        return -1;
    if (is_in(path, "model"))
        return ARCHIVE_MODEL;
    for (size_t i = 0; i < run->node_count; i++)
        if (is_in(path, run->nodes[i]) && path[strlen(run->nodes[i])] &&
            is_in(path + strlen(run->nodes[i]) + 1, "model"))
            return ARCHIVE_MODEL;
    return ARCHIVE_OUTPUT;
}

// A file of the run that has an archive's name stays.
static int check_names(const struct archiving *x, struct err *e) {
    struct arena *a = x->context->arena;
    for (int i = 0; i < ARCHIVES; i++)
        if (!file_is_absent(file_join(a, x->run->output_dir, ALL[i].name)))
            return err_set(e, ERR_EXISTS,
                           "'%s' is a file of the run, and would be replaced by an archive",
                           ALL[i].name);
    return 0;
}

// ---- writing ------------------------------------------------------------------------------------

static int copy(struct archiving *x, int fd, const char *source, uint64_t size, struct err *e) {
    static char bytes[RESULTS_ARCHIVE_READ_BYTES];
    while (size > 0) {
        size_t want = size < sizeof bytes ? (size_t)size : sizeof bytes;
        ssize_t n = read(fd, bytes, want);
        if (err_interrupted(n))
            continue;
        if (n <= 0)
            return n < 0 ? err_errno(e, ERR_SYS, "cannot read '%s'", source)
                         : err_set(e, ERR_FORMAT, "'%s' became shorter while it was read", source);
        if (tar_write_data(&x->tar, bytes, (size_t)n, e) < 0 || context_check(x->context, e) < 0)
            return -1;
        size -= (uint64_t)n;
        x->done += (uint64_t)n;
        progress_set(&x->progress, 0, x->done, x->total);
        progress_show(&x->progress, clock_mono_ms());
    }
    return 0;
}

static int add(struct archiving *x, const struct manifest_entry *n, struct err *e) {
    struct tar_write_entry entry = {.name = n->path,
                                    .link = n->kind == MANIFEST_LINK ? n->target : NULL,
                                    .folder = n->kind == MANIFEST_FOLDER,
                                    .mode = n->mode};
    if (strlen(n->path) > TAR_WRITE_LONG_NAME_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "the path '%.100s…' has more than %d bytes", n->path,
                       TAR_WRITE_LONG_NAME_BYTES_MAX);
    if (n->kind != MANIFEST_FILE)
        return tar_write_begin(&x->tar, &entry, e);
    struct stat st;
    auto_close int fd = open(n->source, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s'", n->source);
    entry.size = (uint64_t)st.st_size;
    return tar_write_begin(&x->tar, &entry, e) < 0 ? -1 : copy(x, fd, n->source, entry.size, e);
}

static int fill(struct archiving *x, int archive, int fd, struct err *e) {
    if (tar_write_open_zstd(&x->tar, fd, RESULTS_ARCHIVE_ZSTD_LEVEL, e) < 0)
        return -1;
    for (size_t i = 0; i < x->files->count; i++) {
        const struct manifest_entry *n = &x->files->entries[i];
        if (archive_of(x->run, n->path) == archive && add(x, n, e) < 0) {
            tar_write_abort(&x->tar);
            return -1;
        }
    }
    return tar_write_end(&x->tar, e);
}

static int write_one(struct archiving *x, int archive, struct err *e) {
    struct arena *a = x->context->arena;
    const char *path = file_join(a, x->run->output_dir, ALL[archive].name);
    struct atomic_file f;
    size_t files = 0;
    x->done = x->total = 0;
    for (size_t i = 0; i < x->files->count; i++)
        if (archive_of(x->run, x->files->entries[i].path) == archive) {
            files += x->files->entries[i].kind != MANIFEST_FOLDER;
            x->total += x->files->entries[i].size;
        }
    if (!files || (x->run->left & ALL[archive].kind))
        return 0;
    progress_init(&x->progress, a, x->context->screen, "archive", &ALL[archive].name, 1,
                  clock_mono_ms());
    int result = atomic_file_open(&f, path, 0644, e);
    if (result == 0) {
        result = fill(x, archive, f.fd, e);
        if (result == 0)
            result = atomic_file_commit(&f, e);
        else
            atomic_file_abort(&f);
    }
    progress_end(&x->progress, 0, result == 0,
                 result == 0 ? arena_printf(a, "%zu file%s", files, str_plural(files))
                             : "not written");
    progress_fini(&x->progress, clock_mono_ms());
    return result < 0 ? err_wrap(e, "'%s'", path) : 0;
}

static int list_files(struct archiving *x, struct err *e) {
    static const struct manifest_rules rules = {.own_too = true};
    bool theirs = x->run->archives == RUN_ARCHIVES_NONE;
    int result = theirs ? check_names(x, e) : results_archive_remove(x->run->output_dir, e);
    x->files = manifest_new();
    if (result == 0)
        result = manifest_add_path(x->files, x->run->output_dir, "", &rules, e);
    if (result == 0)
        result = manifest_sort(x->files, e);
    return result;
}

// From here on, files with the archives' names are this module's (check_names).
static int begin(struct context *s, struct run *run, struct err *e) {
    run->archives = RUN_ARCHIVES_BEGUN;
    return run_save(&s->cluster, run, e);
}

int results_archive(struct context *s, struct run *run, struct err *e) {
    struct archiving x = {.context = s, .run = run};
    int result = 0;
    if (!str_eq(results_owner_of(s->arena, run->output_dir), run->id))
        return err_set(e, ERR_NOT_FOUND, "'%s' does not hold the results of run '%s'",
                       run_near_path(s->arena, run->output_dir), run->id);
    result = list_files(&x, e);
    if (result == 0)
        result = begin(s, run, e);
    for (int i = 0; i < ARCHIVES && result == 0; i++)
        result = write_one(&x, i, e);
    manifest_free(x.files);
    if (result == 0) {
        run->archives = RUN_ARCHIVES_WHOLE;
        result = run_save(&s->cluster, run, e);
    }
    return result == 0
               ? 0
               : err_wrap(
                     e, "results of run '%s' are here without their archives (try: dtctl fetch %s)",
                     run->id, run->id);
}
