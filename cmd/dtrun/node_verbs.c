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
#define X(code, name, function, arguments, text) {name, node_##function},
    NODE_VERBS(X)
#undef X
};

int node_verbs_run(int argc, char **argv, char *const *env) {
    struct err e;
    for (size_t i = 0; argc > 0 && i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(verbs[i].name, argv[0]) == 0)
            return verbs[i].run(&(struct node_call){argc, argv, env});
    err_set(&e, ERR_USAGE, "--node '%.40s' is not a verb of this dtrun", argc > 0 ? argv[0] : "");
    return node_fail(&e);
}
