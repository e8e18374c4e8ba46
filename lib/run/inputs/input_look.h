// SPDX-License-Identifier: Apache-2.0
// The files of inputs: of a folder here, or of a server. `train --up` lists those of servers before
// it makes nodes, so that a source that cannot be read is found while nothing costs money.
//
//     struct input_look look = {0};
//     input_look_open(&look, context, e); // also compares sizes with the disks of the nodes
//     … request.looked = &look, the run takes its lists from there …
//     input_look_close(&look);
#ifndef RUN_INPUT_LOOK_H
#define RUN_INPUT_LOOK_H

#include "run/run_start.h"

// An image for GPUs takes about this much of the disk of a node.
#define INPUT_LOOK_SYSTEM_BYTES ((uint64_t)60 << 30)

struct input_look {
    struct run_start_input *inputs; // of the configuration, in its order
    size_t count;
    const char *disk_key; // of the disk of nodes; NULL: its size is unknown
};

int input_look_open(struct input_look *look, struct context *s, struct err *e);
// Moves the list of an input from a server into `in`, which has nothing else; else does nothing.
void input_look_take(struct input_look *look, size_t i, struct run_start_input *in);
void input_look_close(struct input_look *look);

// Lists the objects that include and exclude leave, sorted, into in->manifest and in->remote.
int input_look_remote(struct context *s, struct run_start_input *in, struct err *e);
// The same of a path here, in in->manifest. Hashes nothing.
int input_look_here(struct context *s, struct run_start_input *in, bool folder, struct err *e);

#endif
