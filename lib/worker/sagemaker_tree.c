// SPDX-License-Identifier: Apache-2.0
// Makes the tree in the run's folder and puts it at /opt/ml: in a mount namespace, else by a link.
#include "base/json.h"
#include "base/log.h"
#include "sys/file.h"
#include "sys/file_entries.h"
#include "worker/sagemaker.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLACE "/opt/ml"

const char *const sagemaker_ways[] = {"mounted", "linked", "variables"};

// ---- the content of the tree --------------------------------------------------------------------

struct shown {
    const char *name, *path; // below the tree; what it shows
};

// A channel that is one file is a folder with that file, as with SageMaker.
static const char *channel_name(struct arena *a, const struct job_input *in) {
    struct stat st;
    bool is_file = stat(in->path, &st) == 0 && !S_ISDIR(st.st_mode);
    const char *name = arena_printf(a, "input/data/%s", in->name);
    return is_file ? file_join(a, name, file_base(in->path)) : name;
}

static struct shown *list_shown(const struct sagemaker *s, struct arena *a, int *count) {
    struct shown *list = arena_new(a, struct shown, (size_t)s->input_count + 4);
    int n = 0;
    list[n++] = (struct shown){"model", s->model};
    list[n++] = (struct shown){"output/data", s->output};
    list[n++] = (struct shown){"checkpoints", s->state};
    list[n++] = (struct shown){"code", s->work};
    for (int i = 0; i < s->input_count; i++)
        list[n++] = (struct shown){channel_name(a, &s->inputs[i]), s->inputs[i].path};
    *count = n;
    return list;
}

static int make_file(const char *path, struct err *e) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot make '%s'", path);
    close(fd);
    return 0;
}

// A place to mount on, or a link. An input without any file on this node is an empty folder.
static int make_shown(const struct sagemaker *s, struct arena *a, const struct shown *x,
                      struct err *e) {
    const char *at = file_join(a, s->root, x->name);
    struct stat st;
    bool there = stat(x->path, &st) == 0;
    if (file_make_dirs(file_dir(a, at), 0755, e) < 0)
        return -1;
    if (!there || (s->way == SAGEMAKER_MOUNTED && S_ISDIR(st.st_mode)))
        return file_make_dirs(at, 0755, e);
    if (s->way == SAGEMAKER_MOUNTED)
        return make_file(at, e);
    return symlink(x->path, at) == 0 ? 0 : err_errno(e, ERR_SYS, "cannot make the link '%s'", at);
}

static int make_tree(const struct sagemaker *s, struct err *e) {
    static const char *const folders[] = {"input/config", "input/data", "output/metrics/sagemaker",
                                          "output/intermediate"};
    struct arena a = {0};
    int count, rc = file_remove_tree(s->root, e);
    for (size_t i = 0; rc == 0 && i < sizeof folders / sizeof *folders; i++)
        rc = file_make_dirs(file_join(&a, s->root, folders[i]), 0755, e);
    const struct shown *list = list_shown(s, &a, &count);
    for (int i = 0; rc == 0 && i < count; i++)
        rc = make_shown(s, &a, &list[i], e);
    arena_fini(&a);
    return rc;
}

// ---- mounting -----------------------------------------------------------------------------------

static int bind_to(const char *what, const char *where, struct err *e) {
    if (mount(what, where, NULL, MS_BIND | MS_REC, NULL) == 0)
        return 0;
    return err_errno(e, ERR_SYS, "cannot mount '%s'", where);
}

static int write_map(const char *file, const char *text, struct err *e) {
    auto_close int fd = open(file, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? err_errno(e, ERR_SYS, "cannot write '%s'", file)
                  : file_write_all(fd, text, strlen(text), e);
}

// A mount namespace; without the right to make one, inside a user namespace with the same ids.
static int enter_namespace(struct err *e) {
    char uids[64], gids[64];
    if (unshare(CLONE_NEWNS) == 0)
        return 0;
    snprintf(uids, sizeof uids, "%u %u 1", (unsigned)geteuid(), (unsigned)geteuid());
    snprintf(gids, sizeof gids, "%u %u 1", (unsigned)getegid(), (unsigned)getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return err_errno(e, ERR_SYS, "no mount namespace");
    int dumpable = prctl(PR_GET_DUMPABLE); // the agent clears it, and the maps are root's then
    prctl(PR_SET_DUMPABLE, 1);
    int rc = write_map("/proc/self/setgroups", "deny", e);
    if (rc == 0)
        rc = write_map("/proc/self/uid_map", uids, e);
    if (rc == 0)
        rc = write_map("/proc/self/gid_map", gids, e);
    prctl(PR_SET_DUMPABLE, dumpable);
    return rc;
}

// Shows one entry of the covered /opt in the new one.
static int show_entry(const char *old, const char *name, struct err *e) {
    struct arena a = {0};
    struct stat st;
    char target[FILE_PATH_BYTES_MAX];
    const char *from = file_join(&a, old, name), *to = file_join(&a, "/opt", name);
    int rc = lstat(from, &st) == 0 ? 0 : err_errno(e, ERR_SYS, "cannot read '%s'", to);
    if (rc == 0 && S_ISLNK(st.st_mode)) {
        ssize_t n = readlink(from, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        rc = n > 0 && symlink(target, to) == 0 ? 0 : err_errno(e, ERR_SYS, "cannot make '%s'", to);
    } else if (rc == 0) {
        rc = S_ISDIR(st.st_mode) ? file_make_dirs(to, 0755, e) : make_file(to, e);
        if (rc == 0)
            rc = bind_to(from, to, e);
    }
    arena_fini(&a);
    return rc;
}

// Without /opt/ml on this machine: covers /opt by a folder in memory that shows all it had.
static int make_place(struct err *e) {
    char old[64];
    struct stat st;
    if (stat(PLACE, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    auto_close int fd = open("/opt", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "there is no folder /opt");
    if (mount("tmpfs", "/opt", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m") < 0)
        return err_errno(e, ERR_SYS, "cannot mount over /opt");
    snprintf(old, sizeof old, "/proc/self/fd/%d", fd);
    struct file_entries in = file_entries_open(old);
    int count = 0, rc = 0;
    while (rc == 0 && file_entries_next(&in)) {
        if (strcmp(in.name, "ml") == 0)
            continue;
        rc = ++count > SAGEMAKER_OPT_ENTRIES_MAX
                 ? err_set(e, ERR_LIMIT, "/opt has more than %d entries", SAGEMAKER_OPT_ENTRIES_MAX)
                 : show_entry(old, in.name, e);
    }
    rc = file_entries_close(&in, rc, e);
    return rc == 0 ? file_make_dirs(PLACE, 0755, e) : -1;
}

int sagemaker_enter(const struct sagemaker *s, struct err *e) {
    struct arena a = {0};
    int count, rc = enter_namespace(e);
    const struct shown *list = list_shown(s, &a, &count);
    // Later mounts of the machine are seen here; mounts of this process are seen nowhere else.
    if (rc == 0 && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        rc = err_errno(e, ERR_SYS, "no mounts of its own");
    if (rc == 0)
        rc = make_place(e);
    if (rc == 0)
        rc = bind_to(s->root, PLACE, e);
    for (int i = 0; rc == 0 && i < count; i++)
        if (file_exists(list[i].path))
            rc = bind_to(list[i].path, file_join(&a, PLACE, list[i].name), e);
    if (rc == 0 && file_exists(s->hosts_file) && file_exists("/etc/hosts"))
        rc = bind_to(s->hosts_file, "/etc/hosts", e);
    arena_fini(&a);
    return rc;
}

// Tries it in a process of its own, since a namespace cannot be left.
static bool can_mount(struct sagemaker *s) {
    int pipe_fds[2], status = -1;
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        struct err e = {0};
        int rc = sagemaker_enter(s, &e);
        (void)!write(pipe_fds[1], e.text, strnlen(e.text, sizeof s->why - 1));
        _exit(rc == 0 ? 0 : 1);
    }
    close(pipe_fds[1]);
    ssize_t n = pid < 0 ? 0 : read(pipe_fds[0], s->why, sizeof s->why - 1);
    s->why[n > 0 ? n : 0] = '\0';
    close(pipe_fds[0]);
    while (pid > 0 && err_interrupted(waitpid(pid, &status, 0)))
        ;
    return status == 0;
}

// ---- the link -----------------------------------------------------------------------------------

static const char *lock_path(struct arena *a, const char *root) {
    return arena_printf(a, "%s.lock", root);
}

// True when /opt/ml is a link that an ended run has left, or one of this run.
static bool is_left_over(struct arena *a) {
    char target[FILE_PATH_BYTES_MAX];
    ssize_t n = readlink(PLACE, target, sizeof target - 1);
    struct err ignored;
    int fd = -1;
    if (n <= 0)
        return false;
    target[n] = '\0';
    if (!str_ends(target, "/opt-ml"))
        return false;
    if (!file_exists(lock_path(a, target)))
        return true;
    if (file_lock(lock_path(a, target), "compat.sagemaker", 0, &fd, &ignored) < 0)
        return false;
    close(fd);
    return true;
}

static bool make_link(struct sagemaker *s) {
    struct err e = {0};
    if (is_left_over(&s->arena))
        unlink(PLACE);
    if (file_lock(lock_path(&s->arena, s->root), "compat.sagemaker", 0, &s->lock_fd, &e) == 0 &&
        symlink(s->root, PLACE) == 0)
        return true;
    size_t len = strlen(s->why);
    snprintf(s->why + len, sizeof s->why - len, "; no link " PLACE ": %s",
             e.code ? e.text : strerror(errno));
    return false;
}

// ---- both ---------------------------------------------------------------------------------------

static int compare_names(const void *a, const void *b) {
    const struct job_input *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int check_texts(const struct sagemaker *s, struct err *e) {
    static const struct {
        const char *name;
        enum json_type type;
    } documents[] = {{"hyperparameters", JSON_OBJECT},
                     {"hps", JSON_OBJECT},
                     {"user_args", JSON_ARRAY},
                     {"metrics", JSON_ARRAY}};
    struct arena a = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof documents / sizeof *documents; i++) {
        const char *text = sagemaker_text(s, documents[i].name);
        struct json *value;
        if (!text[0])
            continue;
        rc = json_parse(&a, text, strlen(text), &value, e);
        if (rc == 0 && value->type != documents[i].type)
            rc = err_set(e, ERR_CONFIG, "it has another type");
        if (rc < 0)
            err_wrap(e, "job specification: sagemaker.%s", documents[i].name);
    }
    arena_fini(&a);
    return rc;
}

// Where it can be mounted, the tree has places to mount on, else links.
static int choose_way(struct sagemaker *s, struct err *e) {
    if (s->way == SAGEMAKER_MOUNTED && make_tree(s, e) < 0)
        return -1;
    if (s->way == SAGEMAKER_MOUNTED && can_mount(s))
        return 0;
    s->way =
        s->way == SAGEMAKER_VARIABLES || !make_link(s) ? SAGEMAKER_VARIABLES : SAGEMAKER_LINKED;
    if (s->way == SAGEMAKER_VARIABLES)
        s->base = s->root;
    return make_tree(s, e);
}

int sagemaker_open(struct sagemaker *s, enum sagemaker_way best, struct err *e) {
    s->lock_fd = -1;
    s->way = best;
    s->why[0] = '\0';
    s->base = PLACE;
    s->hosts_file = arena_printf(&s->arena, "%s.hosts", s->root);
    qsort(s->inputs, (size_t)s->input_count, sizeof *s->inputs, compare_names);
    if (check_texts(s, e) < 0 || choose_way(s, e) < 0)
        return -1;
    return sagemaker_write_config(s, e);
}

void sagemaker_close(struct sagemaker *s) {
    char target[FILE_PATH_BYTES_MAX];
    ssize_t n = s->way == SAGEMAKER_LINKED ? readlink(PLACE, target, sizeof target - 1) : -1;
    if (n > 0) {
        target[n] = '\0';
        if (strcmp(target, s->root) == 0)
            unlink(PLACE);
    }
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    arena_fini(&s->arena);
}
