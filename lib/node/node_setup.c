// SPDX-License-Identifier: Apache-2.0
// `dtrun --node setup`: prepares this node for a run: its environment, once for each hash of the
// archive; the archives of inputs, once for each content; then the script, once for each hash of
// its text and of the files that it needs.
#include "base/clock.h"
#include "base/env.h"
#include "launch/launch.h"
#include "node/node_bundle.h"
#include "node/node_extract.h"
#include "node/node_verb.h"
#include "node/setup_program.h"
#include "protocol/job_spec.h"
#include "sys/file.h"

#include <signal.h>
#include <string.h>

enum { SETUP_LOCK_WAIT_MS = 24 * 3600 * 1000 }; // for another run with the same setup

struct setup {
    struct arena arena;
    struct node_args args;
    struct job_spec spec;
    char *const *env; // of this program
    bool ran;
};

static int read_job(struct setup *s, struct err *e) {
    char *text;
    size_t len;
    if (node_read_record(&s->arena, NODE_ROSTER_WAIT_MS_MAX, &text, &len, e) < 0 ||
        job_spec_parse(&s->arena, text, len, &s->spec, e) < 0)
        return -1;
    return job_needs_setup(&s->spec) ? 0 : err_set(e, ERR_CONFIG, "the job has no setup");
}

// The variables of the run's environment, the folder of this setup, the variables of the job, and
// the environment of this program. The first one of a name counts.
static int make_env(struct setup *s, const char *dir, char ***out, struct err *e) {
    const struct job_spec *spec = &s->spec;
    const char *path = env_get(s->env, "PATH");
    struct job_pair *pairs = arena_new(&s->arena, struct job_pair,
                                       (size_t)spec->env_count + LAUNCH_BUNDLE_PAIRS_MAX + 1);
    int n = 0;
    for (int i = 0; i < spec->env_count; i++)
        path = strcmp(spec->env[i].name, "PATH") == 0 ? spec->env[i].value : path;
    if (spec->bundle_hash && (n = launch_bundle(&s->arena, s->args.root, spec->bundle_hash,
                                                path ? path : launch_path_default, pairs, e)) < 0)
        return -1;
    pairs[n++] = (struct job_pair){"DTCTL_SETUP_DIR", dir};
    for (int i = 0; i < spec->env_count; i++)
        pairs[n++] = spec->env[i];
    *out = node_setup_env(&s->arena, pairs, n, s->env);
    return 0;
}

static int run_script(struct setup *s, const char *dir, struct err *e) {
    // The first command that fails ends the script.
    static const char shell[] = "command -v bash >/dev/null && exec bash -e -c \"$1\" setup\n"
                                "exec sh -e -c \"$1\" setup";
    const char *const argv[] = {"sh", "-c", shell, "setup", s->spec.setup, NULL};
    const char *work = file_join(&s->arena, s->args.root, s->spec.workdir);
    char **env;
    if (make_env(s, dir, &env, e) < 0 || file_make_dirs(work, 0755, e) < 0)
        return -1;
    return setup_program_run(&(struct setup_program){.name = "the setup",
                                                     .argv = argv,
                                                     .env = env,
                                                     .cwd = work,
                                                     .log = file_join(&s->arena, dir, "setup.log")},
                             e);
}

static int prepare_script(struct setup *s, struct err *e) {
    const char *dir =
        file_join(&s->arena, s->args.root, job_setup_dir(&s->arena, s->spec.setup_hash));
    const char *mark = file_join(&s->arena, dir, "done");
    auto_close int lock_fd = -1;
    if (file_make_dirs(dir, 0755, e) < 0 ||
        file_lock(file_join(&s->arena, dir, "lock"), "setup", SETUP_LOCK_WAIT_MS, &lock_fd, e) < 0)
        return -1;
    if (file_exists(mark))
        return 0;
    s->ran = true;
    return run_script(s, dir, e) < 0 ? -1 : file_write_atomic(mark, "", 0, 0644, e);
}

static int prepare(struct setup *s, struct err *e) {
    if (s->spec.bundle_hash &&
        node_bundle(&s->arena, s->args.root, &s->spec, s->env, &s->ran, e) < 0)
        return err_wrap(e, "env.bundle");
    if (node_extract(&s->arena, s->args.root, &s->spec, &s->ran, e) < 0)
        return -1;
    return s->spec.setup ? prepare_script(s, e) : 0;
}

static int answer(bool ran, int64_t ms) {
    struct strbuf line = {0};
    struct json_out j;
    json_open(&j, &line);
    json_object(&j, NULL);
    json_str(&j, "event", "ready");
    json_bool(&j, "ran", ran);
    json_int(&j, "ms", ms);
    json_end(&j);
    int rc = node_answer(&line) < 0;
    strbuf_fini(&line);
    return rc;
}

int node_setup(const struct node_call *c) {
    struct setup s = {.env = c->env};
    struct err e = {0};
    int64_t began = clock_mono_ms();
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGHUP, &ignore, NULL); // the end of standard input stops the work
    sigaction(SIGPIPE, &ignore, NULL);
    int rc = node_args(&s.arena, c, true, &s.args, &e);
    if (rc == 0)
        rc = read_job(&s, &e);
    if (rc == 0)
        rc = prepare(&s, &e);
    rc = rc == 0 ? answer(s.ran, clock_mono_ms() - began) : node_fail(&e);
    arena_fini(&s.arena);
    return rc;
}
