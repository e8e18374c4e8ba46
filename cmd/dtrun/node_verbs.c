// SPDX-License-Identifier: Apache-2.0
// The table of verbs of `dtrun --node`, and the call of one by its name.
#include "node_verbs.h"

#include "node/node_verb.h"
#include "protocol/node_protocol.h"

#include <string.h>

static const struct {
    const char *name;
    node_verb *run;
} verbs[] = {
    {"hello", node_hello},     {"push", node_push},           {"fetch", node_fetch},
    {"probe", node_probe},     {"start", node_start},         {"setup", node_setup},
    {"follow", node_follow},   {"status", node_status},       {"stop", node_stop},
    {"clean", node_clean},     {"prune", node_prune},         {"own", node_own},
    {"fetched", node_fetched}, {"work-left", node_work_left}, {"kept", node_kept},
    {"drop", node_drop},       {"snapshot", node_snapshot},
};

int node_verbs_run(int argc, char **argv, char *const *env) {
    struct err e;
    for (size_t i = 0; argc > 0 && i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(verbs[i].name, argv[0]) == 0)
            return verbs[i].run(&(struct node_call){argc, argv, env});
    err_set(&e, ERR_USAGE, "--node '%.40s' is not a verb of this dtrun", argc > 0 ? argv[0] : "");
    return node_fail(&e);
}
