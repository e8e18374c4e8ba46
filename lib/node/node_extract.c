// SPDX-License-Identifier: Apache-2.0
// The path of an input has the digest of its content, so a tree that is there is the right one. It
// gets its name by one rename, after its content is on the disk.
#include "node/node_extract.h"

#include "base/str.h"
#include "content/extract.h"
#include "node/setup_program.h"
#include "sys/file.h"
#include "sys/file_entries.h"

enum { LOCK_WAIT_MS = 24 * 3600 * 1000 }; // for another run with the same input

static int tick(void *ctx, struct err *e) {
    (void)ctx;
    return setup_program_check(e);
}

// Removes what an earlier attempt has left.
static int sweep(struct arena *a, const char *tree, struct err *e) {
    const char *begin = arena_printf(a, "%s%s", file_base(tree), PLACE_NEW);
    const char *dir = file_dir(a, tree);
    int rc = 0;
    struct file_entries in = file_entries_open(dir);
    while (rc == 0 && file_entries_next(&in))
        if (str_starts(in.name, begin))
            rc = file_remove_tree(file_join(a, dir, in.name), e);
    return file_entries_close(&in, rc, e);
}

static int extract(struct arena *a, const char *root, const struct job_input *in, bool *made,
                   struct err *e) {
    const char *from = file_join(a, root, in->archives);
    const char *tree = job_input_tree(a, from);
    const char *locks = file_join(a, root, "tmp");
    auto_close int lock_fd = -1;
    if (file_make_dirs(locks, 0755, e) < 0 ||
        file_lock(arena_printf(a, "%s/%s.lock", locks, file_base(tree)), "extract", LOCK_WAIT_MS,
                  &lock_fd, e) < 0)
        return -1;
    if (file_exists(tree))
        return 0;
    *made = true;
    return sweep(a, tree, e) < 0 ? -1 : extract_tree(from, tree, tick, NULL, e);
}

int node_extract(struct arena *a, const char *root, const struct job_spec *spec, bool *made,
                 struct err *e) {
    for (int i = 0; i < spec->input_count; i++)
        if (spec->inputs[i].archives && extract(a, root, &spec->inputs[i], made, e) < 0)
            return err_wrap(e, "input '%s'", spec->inputs[i].name);
    return 0;
}
