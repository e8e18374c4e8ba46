// SPDX-License-Identifier: Apache-2.0
// The variables that name a job's folders and inputs to its workers: DTCTL_OUTPUT_DIR,
// DTCTL_INPUT_<NAME> and others, with PATH and the job's own.
#include "base/env.h"
#include "launch/launch.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

enum { INPUT_PAIRS_MAX = 4 };

// PATH for workers, behind the user's own: scripts call `dtrun shard-range`.
static int take_path(struct launch *l, const char *run_dir, struct job_pair *path, struct err *e) {
    const char *dir = file_join(l->arena, run_dir, "bin"), *own = env_get(l->env, "PATH");
    const char *link = file_join(l->arena, dir, "dtrun");
    char program[FILE_PATH_BYTES_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0)
        return err_errno(e, ERR_SYS, "cannot find this program's file");
    program[n] = '\0';
    unlink(link); // of an earlier start
    if (file_make_dirs(dir, 0755, e) < 0)
        return -1;
    if (symlink(program, link) < 0)
        return err_errno(e, ERR_SYS, "cannot make the link '%s'", link);
    *path = (struct job_pair){
        "PATH", arena_printf(l->arena, "%s:%s", own && own[0] ? own : launch_path_default, dir)};
    return 0;
}

// The variables of the environment of env.bundle, whose bin comes in front of any other PATH.
static int take_bundle(struct launch *l, const struct job_spec *s, const char *root,
                       struct job_pair *env, int *count, struct err *e) {
    const char *path = "";
    if (!s->bundle_hash)
        return 0;
    for (int i = 0; i < *count; i++) // the last one of a name counts
        path = strcmp(env[i].name, "PATH") == 0 ? env[i].value : path;
    int n = launch_bundle(l->arena, root, s->bundle_hash, path, env + *count, e);
    *count += n < 0 ? 0 : n;
    return n < 0 ? -1 : 0;
}

// The variables of an input: its mode, its folder, its list, and the addresses of a streamed one.
static int take_input(struct launch *l, const struct job_input *in, const char *root,
                      const char *run_dir, struct job_pair env[INPUT_PAIRS_MAX]) {
    struct arena *a = l->arena;
    const char *name = env_variable(a, "DTCTL_INPUT_", in->name);
    const char *path = file_join(a, root, in->path), *list = NULL;
    int n = 0;
    env[n++] = (struct job_pair){arena_printf(a, "%s_MODE", name), in->mode};
    if (in->deal) // each round has its own
        return n;
    env[n++] = (struct job_pair){name, path};
    if (in->streamed)
        list = file_join(a, path, JOB_STREAM_LIST);
    else if (in->listed)
        list = job_input_list(a, run_dir, in->name);
    if (list)
        env[n++] = (struct job_pair){arena_printf(a, "%s_LIST", name), list};
    if (!in->streamed)
        return n;
    l->agent.stream_socket = file_join(a, run_dir, JOB_STREAM_SOCKET);
    env[n++] =
        (struct job_pair){arena_printf(a, "%s_URLS", name), file_join(a, path, JOB_STREAM_URLS)};
    return n;
}

int launch_env(struct launch *l, const struct job_spec *s, const char *root, const char *run_dir,
               struct err *e) {
    const struct {
        const char *name, *parent, *dir;
    } folders[] = {
        {"DTCTL_OUTPUT_DIR", run_dir, "output"},
        {"DTCTL_MODEL_DIR", run_dir, "model"},
        {"DTCTL_STATE_DIR", run_dir, "state"},
        {"DTCTL_CACHE_DIR", root, "cache"}, // outlives the run, and is never fetched
    };
    enum { FOLDERS = sizeof folders / sizeof *folders };
    struct job_pair *env = arena_new(l->arena, struct job_pair,
                                     (size_t)(FOLDERS + 2 + INPUT_PAIRS_MAX * s->input_count +
                                              s->env_count + LAUNCH_BUNDLE_PAIRS_MAX));
    int n = 0;
    if (take_path(l, run_dir, &env[n++], e) < 0)
        return -1;
    for (int i = 0; i < FOLDERS; i++) {
        char *path = file_join(l->arena, folders[i].parent, folders[i].dir);
        if (file_make_dirs(path, 0755, e) < 0)
            return -1;
        env[n++] = (struct job_pair){folders[i].name, path};
    }
    if (s->setup_hash)
        env[n++] = (struct job_pair){
            "DTCTL_SETUP_DIR", file_join(l->arena, root, job_setup_dir(l->arena, s->setup_hash))};
    for (int i = 0; i < s->input_count; i++)
        n += take_input(l, &s->inputs[i], root, run_dir, &env[n]);
    for (int i = 0; i < s->env_count; i++)
        env[n++] = s->env[i];
    if (take_bundle(l, s, root, env, &n, e) < 0)
        return -1;
    l->agent.env = env;
    l->agent.env_count = n;
    return 0;
}

// ---- the environment that the command runs in ---------------------------------------------------

const char launch_path_default[] = "/usr/local/bin:/usr/bin:/bin";

int launch_bundle_fill(struct arena *a, const char *env_dir, const char *path,
                       struct job_pair *out) {
    static const struct {
        const char *mark, *variable; // a name in the environment, and what it stands for
    } kinds[] = {{"pyvenv.cfg", "VIRTUAL_ENV"}, {"conda-meta", "CONDA_PREFIX"}};
    int n = 0;
    out[n++] = (struct job_pair){"PATH", arena_printf(a, "%s/bin:%s", env_dir, path)};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (file_exists(file_join(a, env_dir, kinds[i].mark)))
            out[n++] = (struct job_pair){kinds[i].variable, env_dir};
    return n;
}

int launch_bundle(struct arena *a, const char *root, const char *hash, const char *path,
                  struct job_pair *out, struct err *e) {
    const char *dir = file_join(a, root, job_bundle_dir(a, hash));
    if (!file_exists(file_join(a, dir, JOB_BUNDLE_DONE)))
        return err_set(e, ERR_NOT_FOUND, "the environment of the run is not on this node: '%s'",
                       dir);
    return launch_bundle_fill(a, file_join(a, dir, JOB_BUNDLE_ENV), path, out);
}
