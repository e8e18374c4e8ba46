// SPDX-License-Identifier: Apache-2.0
// Unpacks the archives of inputs with deliver = extract, once for each content. The path of an
// input has the digest of its content, so a tree that is there is the right one. It gets its name
// by one rename, after its content is on the disk.
#include "node/node_extract.h"

#include "content/extract.h"
#include "node/setup_program.h"
#include "sys/file.h"

static int tick(void *ctx, uint64_t bytes, struct err *e) {
    (void)ctx;
    (void)bytes;
    return setup_program_check(e);
}

int node_extract(struct arena *a, const char *root, const struct job_spec *spec, bool *made,
                 struct err *e) {
    const char *locks = file_join(a, root, "tmp");
    for (int i = 0; i < spec->input_count; i++) {
        const char *archives = spec->inputs[i].archives;
        const char *from = archives ? file_join(a, root, archives) : NULL;
        if (from && extract_once(from, job_input_tree(a, from), locks, tick, NULL, made, e) < 0)
            return err_wrap(e, "input '%s'", spec->inputs[i].name);
    }
    return 0;
}
