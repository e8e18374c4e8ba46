// SPDX-License-Identifier: Apache-2.0
// Results of earlier runs as donors of a push.
#include "node/push_results.h"

#include "node/node_verb.h"
#include "protocol/job_spec.h"

#include <string.h>

static const char *const PARTS[] = {"output", "model", "state", "work"};
enum { PARTS_COUNT = sizeof PARTS / sizeof PARTS[0] };

static bool is_mine(struct arena *a, const struct node_args *args, const char *run) {
    const char *owner = node_is_run(a, args, run) ? node_run_owner(a, args, run) : NULL;
    return owner && str_eq(owner, args->owner);
}

int push_results(struct arena *a, const char *root, const struct xfer_push_hello *h,
                 struct cas_donor *d, struct err *e) {
    const struct node_args args = {.root = root, .owner = h->owner};
    for (const char **p = h->results; *p; p++) {
        const char *slash = strchrnul(*p, '/');
        const char *run = arena_strndup(a, *p, (size_t)(slash - *p));
        size_t part = 0;
        while (part < PARTS_COUNT && !str_eq(slash + (*slash == '/'), PARTS[part]))
            part++;
        if (part == PARTS_COUNT || !str_is_name(run, JOB_RUN_BYTES_MAX))
            return err_set(e, ERR_FORMAT, "transfer: results of a run that has no such name");
        if (is_mine(a, &args, run))
            cas_donor_add(d, node_run_dir(a, &args, run), PARTS[part]);
    }
    return 0;
}
