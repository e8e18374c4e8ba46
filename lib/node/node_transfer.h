// SPDX-License-Identifier: Apache-2.0
// The node's side of push, fetch and hello, linked into dtrun. Each takes the arguments after
// `--node` (argv[0] is the verb), speaks on standard input and output, and returns the exit status
// for main. Blocking; needs neither libssh2 nor the network.
//
//     dtrun --node hello --root DIR [--stay]
//     dtrun --node push --root DIR
//     dtrun --node fetch --root DIR
//     dtrun --node prune --root DIR --older-than-ms N [--dry-run]
#ifndef NODE_NODE_TRANSFER_H
#define NODE_NODE_TRANSFER_H

int xfer_node_hello(int argc, char **argv); // one line of JSON (agent_bootstrap.h names the fields)
int xfer_node_push(int argc, char **argv);
int xfer_node_fetch(int argc, char **argv);
// One line of JSON: {"event":"pruned","removed":N,"removed_bytes":N}.
int xfer_node_prune(int argc, char **argv);

#endif
