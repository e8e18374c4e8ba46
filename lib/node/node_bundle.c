// SPDX-License-Identifier: Apache-2.0
// Unpacks the environment of a run (env.bundle) on the node, once for each content. DIR is
// envs/bundle-HASH below the root: the archive that was sent, `env` (the environment), `lock`, and
// `done`, which is written last.
#include "node/node_bundle.h"

#include "base/env.h"
#include "base/str.h"
#include "content/env_archive.h"
#include "launch/launch.h"
#include "node/setup_program.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <string.h>
#include <unistd.h>

enum { LOCK_WAIT_MS = 24 * 3600 * 1000 }; // for another run with the same archive

struct bundle {
    struct arena *arena;
    const char *dir, *archive, *env_dir;
    char *const *env; // of this program
};

char **node_setup_env(struct arena *a, const struct job_pair *first, int first_count,
                      char *const *rest) {
    size_t count = 0, n = 0;
    while (rest[count])
        count++;
    char **env = arena_new(a, char *, (size_t)first_count + count + 1);
    for (int i = 0; i < first_count; i++)
        if (!env_get(env, first[i].name))
            env[n++] = arena_printf(a, "%s=%s", first[i].name, first[i].value);
    for (size_t i = 0; i < count; i++)
        if (!env_get(env, arena_strndup(a, rest[i], strcspn(rest[i], "="))))
            env[n++] = rest[i];
    return env;
}

static int tick(void *ctx, uint64_t bytes, struct err *e) {
    (void)bytes;
    (void)ctx;
    return setup_program_check(e);
}

// Removes what an earlier attempt has left.
static int sweep(const struct bundle *b, struct err *e) {
    int rc = 0;
    struct file_entries in = file_entries_open(b->dir);
    while (rc == 0 && file_entries_next(&in))
        if (str_starts(in.name, JOB_BUNDLE_ENV))
            rc = file_remove_tree(file_join(b->arena, b->dir, in.name), e);
    return file_entries_close(&in, rc, e);
}

static int check_node(const struct bundle *b, const struct env_archive *facts, uint64_t *free_bytes,
                      struct err *e) {
    char need[STR_HUMAN_BYTES_MAX], have[STR_HUMAN_BYTES_MAX];
    if (facts->interpreter[0] && access(facts->interpreter, X_OK) < 0)
        return err_set(e, ERR_NOT_FOUND,
                       "the environment runs '%s', which is not on this node (try: python3 -m venv "
                       "--copies, or conda-pack)",
                       facts->interpreter);
    if (file_disk_free(b->dir, free_bytes, e) < 0)
        return -1;
    return facts->total.disk_bytes <= *free_bytes
               ? 0
               : err_set(e, ERR_LIMIT,
                         "the environment needs %s on the disk of '%s', where %s are free (try: "
                         "dtctl data ls, dtctl gc)",
                         str_human_bytes(need, facts->total.disk_bytes), b->dir,
                         str_human_bytes(have, *free_bytes));
}

static int unpack(const struct bundle *b, struct err *e) {
    char need[STR_HUMAN_BYTES_MAX], have[STR_HUMAN_BYTES_MAX];
    struct env_archive facts;
    uint64_t free_bytes;
    if (env_archive_check(b->archive, &facts, tick, NULL, e) < 0 ||
        check_node(b, &facts, &free_bytes, e) < 0)
        return -1;
    int rc = env_archive_unpack(b->archive, &facts, b->env_dir, tick, NULL, e);
    if (rc < 0 && e->code == ERR_SYS)
        err_wrap(e, "unpacking an environment of %s, with %s free",
                 str_human_bytes(need, facts.total.disk_bytes), str_human_bytes(have, free_bytes));
    return rc;
}

// conda-pack's program, which writes the environment's new place into its files.
static int run_conda_unpack(const struct bundle *b, struct err *e) {
    const char *program = file_join(b->arena, b->env_dir, "bin/conda-unpack");
    const char *path = env_get(b->env, "PATH");
    struct job_pair pairs[LAUNCH_BUNDLE_PAIRS_MAX];
    if (!file_exists(program))
        return 0;
    int count = launch_bundle_fill(b->arena, b->env_dir, path ? path : launch_path_default, pairs);
    return setup_program_run(
        &(struct setup_program){.name = "conda-unpack",
                                .argv = (const char *const[]){program, NULL},
                                .env = node_setup_env(b->arena, pairs, count, b->env),
                                .cwd = b->env_dir,
                                .log = file_join(b->arena, b->dir, "conda-unpack.log")},
        e);
}

int node_bundle(struct arena *a, const char *root, const struct job_spec *spec, char *const *env,
                bool *made, struct err *e) {
    const char *dir = file_join(a, root, job_bundle_dir(a, spec->bundle_hash));
    const struct bundle b = {.arena = a,
                             .dir = dir,
                             .archive = file_join(a, dir, JOB_BUNDLE_ARCHIVE),
                             .env_dir = file_join(a, dir, JOB_BUNDLE_ENV),
                             .env = env};
    const char *mark = file_join(a, dir, JOB_BUNDLE_DONE);
    auto_close int lock_fd = -1;
    if (file_is_absent(b.archive))
        return err_set(e, ERR_NOT_FOUND, "the environment's archive is not there: '%s'", b.archive);
    if (file_lock(file_join(a, dir, "lock"), "setup", LOCK_WAIT_MS, &lock_fd, e) < 0)
        return -1;
    *made = !file_exists(mark);
    if (!*made)
        return 0;
    if (sweep(&b, e) < 0 || unpack(&b, e) < 0 || run_conda_unpack(&b, e) < 0 ||
        file_sync_disk(dir, e) < 0 || file_write_atomic(mark, "", 0, 0644, e) < 0)
        return -1;
    return 0;
}
