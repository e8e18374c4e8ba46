// SPDX-License-Identifier: Apache-2.0
// `dtrun --node work-left`: lists new files in a run's working folder, which are fetched only on
// request.
//
// Files of the push existed before job.toml was written, so a later ctime means that the run
// created or changed the file. --gather also hard-links such files below runs/RUN/gathered/work/, a
// folder that can be fetched as it is. --kinds also counts the results of each kind. Where finished
// files were fetched while the run went on, the list of its files is written anew.
#include "base/str.h"
#include "content/finished_files.h"
#include "node/node_verb.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEFT_DEPTH_MAX = 64, LEFT_FILES_MAX = 100000, LEFT_NAMES_MAX = 8 };
enum { KIND_LOGS, KIND_OUTPUT, KIND_MODEL, KIND_STATE, KINDS };
static const char *const KIND_NAMES[KINDS] = {"logs", "output", "model", "state"};

struct count {
    int64_t files, bytes;
};

struct left_walk {
    struct arena arena;
    const char *work, *gathered; // gathered NULL: only count
    struct timespec since;
    int64_t files, bytes;
    const char *names[LEFT_NAMES_MAX];
    struct count kinds[KINDS];
    bool counts_kinds;
};

static bool is_later(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

static int gather(struct left_walk *l, const char *name, struct err *e) {
    const char *from = file_join(&l->arena, l->work, name);
    const char *to = file_join(&l->arena, l->gathered, name);
    if (file_make_dirs(file_dir(&l->arena, to), 0755, e) < 0)
        return -1;
    return link(from, to) < 0 ? err_errno(e, ERR_SYS, "cannot gather '%s'", from) : 0;
}

static int take(struct left_walk *l, const char *name, const struct stat *st, struct err *e) {
    if (!is_later(&st->st_ctim, &l->since) || l->files == LEFT_FILES_MAX)
        return 0;
    if (l->files < LEFT_NAMES_MAX)
        l->names[l->files] = name;
    l->files++;
    l->bytes += st->st_size;
    return l->gathered ? gather(l, name, e) : 0;
}

static int walk(struct left_walk *l, const char *below, int depth, struct err *e) {
    struct file_entries in =
        file_entries_open(*below ? file_join(&l->arena, l->work, below) : l->work);
    int result = 0;
    while (result == 0 && file_entries_next(&in)) {
        struct stat st;
        const char *name = in.name;
        if (strcmp(name, "__pycache__") == 0 || !file_entries_stat(&in, &st))
            continue;
        name = *below ? file_join(&l->arena, below, name) : arena_strdup(&l->arena, name);
        if (S_ISDIR(st.st_mode) && depth < LEFT_DEPTH_MAX)
            result = walk(l, name, depth + 1, e);
        else if (S_ISREG(st.st_mode))
            result = take(l, name, &st, e);
    }
    return file_entries_close(&in, result, e);
}

// ---- results by kind ----------------------------------------------------------------------------

// Files and links below a folder, however many there are.
static int count_files(const char *dir, int depth, bool logs, struct count *out, struct err *e) {
    struct file_entries in = file_entries_open(dir);
    int result = 0;
    if (in.error == ENOTDIR)
        in.error = 0; // it is no folder of results
    while (result == 0 && file_entries_next(&in)) {
        struct stat st;
        const char *name = in.name;
        if (!file_entries_stat(&in, &st))
            continue;
        if (S_ISDIR(st.st_mode) && depth < LEFT_DEPTH_MAX) {
            struct arena a = {0};
            result = count_files(file_join(&a, dir, name), depth + 1, logs, out, e);
            arena_fini(&a);
        } else if ((S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) &&
                   (!logs || (st.st_size > 0 && str_ends(name, ".log")))) {
            out->files++;
            out->bytes += S_ISREG(st.st_mode) ? st.st_size : 0;
        }
    }
    return file_entries_close(&in, result, e);
}

// attempt_N/<local rank>/{stdout,stderr}.log that are not empty.
static int count_logs(struct left_walk *l, const char *run_dir, struct err *e) {
    struct file_entries in = file_entries_open(run_dir);
    int result = in.is_missing ? err_set(e, ERR_NOT_FOUND, "there is no folder '%s'", run_dir) : 0;
    while (result == 0 && file_entries_next(&in))
        if (str_starts(in.name, "attempt_"))
            result = count_files(file_join(&l->arena, run_dir, in.name), 0, true,
                                 &l->kinds[KIND_LOGS], e);
    return file_entries_close(&in, result, e);
}

static int count_kinds(struct left_walk *l, const char *run_dir, struct err *e) {
    int result = count_logs(l, run_dir, e);
    l->counts_kinds = true;
    for (int i = KIND_OUTPUT; i < KINDS && result == 0; i++)
        result =
            count_files(file_join(&l->arena, run_dir, KIND_NAMES[i]), 0, false, &l->kinds[i], e);
    return result;
}

static void answer_kinds(const struct left_walk *l, struct json_out *j) {
    json_object(j, "kinds");
    for (int i = 0; i < KINDS; i++) {
        json_object(j, KIND_NAMES[i]);
        json_int(j, "files", l->kinds[i].files);
        json_int(j, "bytes", l->kinds[i].bytes);
        json_end(j);
    }
    json_end(j);
}

// ---- the verb -----------------------------------------------------------------------------------

static int answer(const struct left_walk *l) {
    struct strbuf line = {0};
    struct json_out j;
    json_open(&j, &line);
    json_object(&j, NULL);
    json_str(&j, "event", "work_left");
    json_int(&j, "files", l->files);
    json_int(&j, "bytes", l->bytes);
    json_array(&j, "names");
    for (int64_t i = 0; i < l->files && i < LEFT_NAMES_MAX; i++)
        json_str(&j, NULL, l->names[i]);
    json_end(&j);
    if (l->counts_kinds)
        answer_kinds(l, &j);
    json_end(&j);
    int rc = node_answer(&line);
    strbuf_fini(&line);
    return rc;
}

static int look(struct left_walk *l, const struct node_args *args, struct err *e) {
    const char *dir = node_run_dir(&l->arena, args, args->run);
    const char *gathered = file_join(&l->arena, dir, "gathered");
    struct stat st;
    if (stat(file_join(&l->arena, dir, "job.toml"), &st) < 0)
        return err_set(e, ERR_NOT_FOUND, "run '%s' is not known on this node", args->run);
    l->since = st.st_mtim;
    l->work = file_join(&l->arena, dir, "work");
    if (args->gather && file_remove_tree(gathered, e) < 0)
        return -1;
    l->gathered = args->gather ? file_join(&l->arena, gathered, "work") : NULL;
    if (walk(l, "", 0, e) < 0 || finished_files_list(dir, node_closed_folders, e) < 0)
        return -1;
    return args->kinds ? count_kinds(l, dir, e) : 0;
}

int node_work_left(const struct node_call *c) {
    struct left_walk l = {0};
    struct node_args args;
    struct err e = {0};
    int rc = node_args(&l.arena, c, true, &args, &e);
    if (rc == 0)
        rc = look(&l, &args, &e);
    rc = rc < 0 ? node_fail(&e) : answer(&l) < 0;
    arena_fini(&l.arena);
    return rc;
}
