// SPDX-License-Identifier: Apache-2.0
// Inputs with deliver = stream. Every node gets the list of its objects in the order of the deal,
// each with an address or as a file of this computer (input_source.h), and dtdata there serves them
// to the ranks while they come.
#ifndef RUN_INPUT_STREAM_H
#define RUN_INPUT_STREAM_H

#include "run/run_start.h"

enum { INPUT_STREAM_OBJECTS_MAX = 200000 }; // of a node, as dtdata has it

// The index of webdataset shards, which every node gets whatever the deal.
bool input_stream_is_index(const struct manifest_entry *entry);
// Refuses what cannot be streamed: to the native trainer, what are no shards with their index;
// objects that the input's cache_max cannot hold.
int input_stream_check(const struct run_start *l, const struct run_start_input *in, struct err *e);
// The folder of the input on the nodes, which has its lists.
const char *input_stream_path(const struct run_start *l, const struct run_start_input *in);
// Adds an object to what this node reads. All of one input come in a row.
int input_stream_add(struct run_start *l, size_t node, struct run_start_input *in,
                     const struct manifest_entry *entry, struct err *e);
// Starts dtdata on every node; it waits for the agent. Failures are kept per node.
int input_stream_start(struct run_start *l, struct fleet *f, struct err *e);
// The list of a node that comes later, after input_stream_start: with the addresses of in->again.
// An object that is not what it was is an error.
int input_stream_again(const struct run_start *l, size_t node, struct strbuf *out, struct err *e);
// Starts dtdata on one node. The input, a list, may be freed once the function has returned.
int input_stream_serve(const struct run_start *l, struct fleet_node *n, struct strbuf *input,
                       transport_collect_cb *done, void *ctx, struct err *e);
void input_stream_close(struct run_start *l);

#endif
