// SPDX-License-Identifier: Apache-2.0
// One row per verb.
#include "node_verbs.h"

#include "node/node_probe.h"
#include "node/node_transfer.h"
#include "node/node_verb.h"
#include "protocol/node_protocol.h"

#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} verbs[] = {
    {"hello", xfer_node_hello}, {"push", xfer_node_push}, {"fetch", xfer_node_fetch},
    {"probe", probe_node},      {"start", node_start},    {"follow", node_follow},
    {"status", node_status},    {"stop", node_stop},      {"clean", node_clean},
    {"prune", xfer_node_prune}, {"own", node_own},        {"fetched", node_fetched},
    {"left", node_left},
};

int node_verbs_run(int argc, char **argv) {
    struct err e;
    for (size_t i = 0; argc > 0 && i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(verbs[i].name, argv[0]) == 0)
            return verbs[i].run(argc, argv);
    err_set(&e, ERR_USAGE, "--node '%.40s' is not a verb of this dtrun", argc > 0 ? argv[0] : "");
    return node_fail(&e);
}
