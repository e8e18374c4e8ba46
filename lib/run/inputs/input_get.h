// SPDX-License-Identifier: Apache-2.0
// `dtdata get` on one node: it gets a list of objects, reads them into its content store, and
// answers with the SHA-256 of each.
//
//     struct input_get g = {.node = n, .list = list, .on_over = …};
//     input_get_begin(&g, e); // on_over follows
//     input_get_close(&g);    // at any time
#ifndef RUN_INPUT_GET_H
#define RUN_INPUT_GET_H

#include "run/inputs/input_remote.h"

struct input_get {
    struct fleet_node *node;
    struct input_remote_list *list;
    // Called once: e->code is ERR_NONE when the node has all objects. Never inside input_get_begin,
    // and not after input_get_close.
    void (*on_over)(struct input_get *g, const struct err *e);

    struct transport_run *run; // NULL: idle
    size_t sent;               // bytes of the input
    struct strbuf line;        // of an answer that has begun
    struct strbuf words;       // the last line
    size_t known;              // objects whose hash has come
    bool ended;                // the last line has come
    uint64_t read, again;      // results: bytes from the servers, and requests made again
    struct arena scratch;
};

// From the beginning, also when a connection was lost: the store of the node has what came.
int input_get_begin(struct input_get *g, struct err *e);
void input_get_close(struct input_get *g);

#endif
