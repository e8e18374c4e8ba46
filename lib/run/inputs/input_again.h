// SPDX-License-Identifier: Apache-2.0
// Inputs from servers for a node that comes after the start of a run, such as one that replaces a
// lost node. Their sources are listed and signed again, beside the work of the loop and once for
// all nodes that wait. The node gets the content of the run's start: an object that has changed or
// was removed since is an error, which names it.
//
//     input_again_open(&g, launch, &follow);
//     if (input_again_has(launch, node, streamed))
//         input_again_begin(&g.nodes[node], streamed, e); // on_over follows
//     input_again_close(&g);
//
// Not streamed: the node reads its part into its content store, from which a push puts the files
// into place. Streamed: dtdata on the node begins to serve its part.
#ifndef RUN_INPUT_AGAIN_H
#define RUN_INPUT_AGAIN_H

#include "follow/follow.h"
#include "run/dtdata_beside.h"
#include "run/inputs/input_get.h"
#include "run/run_start.h"

enum { INPUT_AGAIN_FRESH_MS_MAX = 5 * 60 * 1000 }; // how long a list serves nodes that come

struct input_again;

// A source, listed again.
struct input_again_list {
    struct input_again *all;
    struct run_start_input *in;
    struct dtdata_beside lister;
    struct arena arena;
    struct input_remote objects;
    int64_t at_ms; // monotonic; 0: there is none
};

struct input_again_node {
    struct input_again *all;
    struct fleet_node *node;
    // Called once, never inside input_again_begin, and not after input_again_close.
    void (*on_over)(struct input_again_node *x, const struct err *e);
    bool busy, streamed;
    bool waits; // for lists
    struct input_get get;
    struct input_remote_list list; // of the objects that it reads
    struct strbuf input;
    struct manifest *files;
};

struct input_again {
    struct run_start *launch;
    struct follow *follow;          // NULL: closed
    struct input_again_list *lists; // by input
    struct input_again_node *nodes; // by node
};

void input_again_open(struct input_again *g, struct run_start *l, struct follow *f);
// Whether the node has a part in inputs of that kind, by which it is begun.
bool input_again_has(const struct run_start *l, size_t node, bool streamed);
int input_again_begin(struct input_again_node *x, bool streamed, struct err *e);
void input_again_close(struct input_again *g); // drops what is in progress; no callback

#endif
