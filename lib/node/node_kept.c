// SPDX-License-Identifier: Apache-2.0
// `dtrun --node kept` and `drop`: states of runs, inputs and environments on this node.
#include "base/array.h"
#include "node/node_verb.h"
#include "protocol/job_spec.h"
#include "sys/file.h"
#include "sys/file_entries.h"
#include "sys/file_measure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES_MAX = 255 };

// ---- kept ---------------------------------------------------------------------------------------

static int print_item(const char *kind, const char *name, const char *path) {
    struct file_measure m;
    struct strbuf line = {0};
    struct json_out j;
    file_measure(path, &m);
    if (m.files == 0)
        return 0;
    json_open(&j, &line);
    json_object(&j, NULL);
    json_str(&j, "kind", kind);
    json_str(&j, "name", name);
    json_int(&j, "files", (int64_t)m.files);
    json_int(&j, "bytes", (int64_t)m.bytes);
    json_int(&j, "changed_ms", m.changed_ms);
    json_end(&j);
    int rc = node_answer(&line);
    strbuf_fini(&line);
    return rc;
}

static int print_folder(struct arena *a, const struct node_args *args, const char *kind,
                        const char *folder, const char *part, struct err *e) {
    const char *dir = file_join(a, args->root, folder);
    struct file_entries in = file_entries_open(dir);
    int rc = 0;
    while (rc == 0 && file_entries_next(&in))
        if (str_is_name(in.name, NAME_BYTES_MAX) && in.name[0] != '.')
            rc = print_item(kind, in.name, arena_printf(a, "%s/%s%s", dir, in.name, part));
    return file_entries_close(&in, rc, e);
}

int node_kept(const struct node_call *c) {
    struct arena a = {0};
    struct node_args args;
    struct err e = {0};
    if (node_args(&a, c, false, &args, &e) < 0)
        return node_fail(&e);
    int rc = print_folder(&a, &args, "state", "runs", "/state", &e) < 0 ||
             print_folder(&a, &args, "input", "inputs", "", &e) < 0 ||
             print_folder(&a, &args, "environment", JOB_BUNDLES_DIR, "", &e) < 0;
    arena_fini(&a);
    return e.code == ERR_NONE ? rc : node_fail(&e); // a reader that has gone away needs no words
}

// ---- drop ---------------------------------------------------------------------------------------

static int check_over(struct arena *a, const struct node_args *args, const char *run,
                      struct err *e) {
    enum node_state state;
    int fd = -1;
    node_run_state(a, node_run_dir(a, args, run), &state, &fd);
    if (fd >= 0)
        close(fd);
    return fd >= 0 && !node_state_is_final(state)
               ? err_set(e, ERR_BUSY, "run '%s' is %s (try: dtctl stop %s)", run,
                         node_state_name(state), run)
               : 0;
}

static int check_all_over(struct arena *a, const struct node_args *args, struct err *e) {
    struct file_entries in = file_entries_open(file_join(a, args->root, "runs"));
    int rc = 0;
    while (rc == 0 && file_entries_next(&in))
        if (node_is_run(a, args, in.name))
            rc = check_over(a, args, in.name, e);
    return file_entries_close(&in, rc, e);
}

// The folder is there as a whole or not at all, also when this program is killed.
static int drop_folder(const char *path, const char *aside, struct err *e) {
    if (file_remove_tree(aside, e) < 0)
        return -1;
    if (rename(path, aside) < 0)
        return errno == ENOENT ? 0 : err_errno(e, ERR_SYS, "cannot rename '%s'", path);
    return file_remove_tree(aside, e);
}

static int drop_state(struct arena *a, const struct node_args *args, struct err *e) {
    const char *dir = node_run_dir(a, args, args->run);
    return check_over(a, args, args->run, e) < 0
               ? -1
               : drop_folder(file_join(a, dir, "state"), file_join(a, dir, ".dropped"), e);
}

// A folder that any run may use.
static int drop_shared(struct arena *a, const struct node_args *args, const char *below,
                       const char *name, struct err *e) {
    const char *dir = file_join(a, args->root, below);
    if (!str_is_name(name, NAME_BYTES_MAX) || name[0] == '.')
        return err_set(e, ERR_USAGE, "'%.100s' is not the name of a folder in '%s'", name, below);
    return check_all_over(a, args, e) < 0
               ? -1
               : drop_folder(file_join(a, dir, name), file_join(a, dir, ".dropped"), e);
}

int node_drop(const struct node_call *c) {
    struct arena a = {0};
    struct node_args args;
    struct err e;
    int rc = node_args(&a, c, false, &args, &e);
    if (rc == 0 && !!args.run + !!args.input + !!args.bundle != 1)
        rc = err_set(&e, ERR_USAGE, "--node drop: needs one of --run, --input and --bundle");
    else if (rc == 0 && args.run)
        rc = drop_state(&a, &args, &e);
    else if (rc == 0)
        rc = args.input ? drop_shared(&a, &args, "inputs", args.input, &e)
                        : drop_shared(&a, &args, JOB_BUNDLES_DIR, args.bundle, &e);
    arena_fini(&a);
    return rc < 0 ? node_fail(&e) : node_answer_event("dropped") < 0;
}
