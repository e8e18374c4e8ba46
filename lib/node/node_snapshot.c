// SPDX-License-Identifier: Apache-2.0
// `dtrun --node snapshot`: one generation of a run's state, as a whole, in the folder `snapshot` of
// the run (content/snapshot.h); with --closed, the finished files of its output and model, in the
// folder `closed` (content/finished_files.h).
#include "content/finished_files.h"
#include "content/snapshot.h"
#include "node/node_verb.h"
#include "sys/file.h"

#include <signal.h>

const char *const node_closed_folders[] = {"output", "model", NULL};

static int answer(const char *digest, int64_t files, int64_t bytes, bool is_new, const char *why) {
    struct strbuf line = {0};
    struct json_out j;
    json_open(&j, &line);
    json_object(&j, NULL);
    json_str(&j, "event", "snapshot");
    json_bool(&j, "new", is_new);
    json_bool(&j, "whole", !why);
    json_str(&j, "reason", why);
    json_str(&j, "digest", digest);
    json_int(&j, "files", files);
    json_int(&j, "bytes", bytes);
    json_end(&j);
    int rc = node_answer(&line);
    strbuf_fini(&line);
    return rc < 0;
}

// *is_new: the state is not the one that dtctl has. *why: as in snapshot_take.
static int make(struct snapshot *l, const struct node_args *args, struct arena *a, bool *is_new,
                const char **why, struct err *e) {
    const char *dir = node_run_dir(a, args, args->run);
    const char *to = file_join(a, dir, "snapshot");
    if (!node_is_run(a, args, args->run))
        return err_set(e, ERR_NOT_FOUND, "run '%s' is not known on this node", args->run);
    if (snapshot_scan(l, args->again ? to : file_join(a, dir, "state"), e) < 0)
        return -1;
    if (args->again) {
        *why = str_eq(l->digest, args->known) ? NULL : "a finished file was written again";
        return file_remove_tree(to, e);
    }
    *is_new = l->count && !str_eq(l->digest, args->known);
    if (*is_new)
        *why = snapshot_take(l, to, e);
    return 0;
}

static int closed(const struct node_args *args, struct arena *a) {
    const char *run = node_run_dir(a, args, args->run);
    struct finished_files c = {0};
    struct err e = {0};
    if (!node_is_run(a, args, args->run)) {
        err_set(&e, ERR_NOT_FOUND, "run '%s' is not known on this node", args->run);
        return node_fail(&e);
    }
    if (finished_files_take(&c, run, node_closed_folders, args->known ? args->known : "", &e) < 0)
        return node_fail(&e);
    return answer(c.digest, c.files, c.bytes, c.is_new, NULL);
}

static int generation(const struct node_args *args, struct arena *a) {
    struct snapshot l = {0};
    struct err e = {0};
    bool is_new = false;
    const char *why = NULL;
    int rc = make(&l, args, a, &is_new, &why, &e) < 0
                 ? node_fail(&e)
                 : answer(l.digest, (int64_t)l.count, l.bytes, is_new, why);
    snapshot_close(&l);
    return rc;
}

int node_snapshot(const struct node_call *c) {
    struct arena a = {0};
    struct node_args args;
    struct err e = {0};
    sigaction(SIGIO, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    int rc = node_args(&a, c, true, &args, &e) < 0 ? node_fail(&e)
             : args.closed                         ? closed(&args, &a)
                                                   : generation(&args, &a);
    arena_fini(&a);
    return rc;
}
