// SPDX-License-Identifier: Apache-2.0
// The verbs of `dtrun --node`, which dtctl calls on a node.
#ifndef DTRUN_NODE_VERBS_H
#define DTRUN_NODE_VERBS_H

// argv starts with the verb. Prints its answer and returns the exit status.
int node_verbs_run(int argc, char **argv, char *const *env);

#endif
