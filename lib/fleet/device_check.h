// SPDX-License-Identifier: Apache-2.0
// The GPUs of nodes, as a run would find them: the trainer for GPUs is sent to every node that has
// some, and lists them and NCCL there.
#ifndef FLEET_DEVICE_CHECK_H
#define FLEET_DEVICE_CHECK_H

#include "fleet/fleet.h"

enum { DEVICE_CHECK_LINES_MAX = 64 }; // of one node; later ones are not read

struct device_check_line {
    bool ok;             // a run can use it
    bool nccl;           // the line is about NCCL, not about a GPU
    int index;           // of the GPU; -1: the line is about all of them
    const char *version; // of NCCL; "": not found
    const char *text;    // its name; not ok: the error that a run would end with, and the remedy
};

struct device_check {
    struct device_check_line *lines; // in the context's arena
    size_t count;                    // 0: the node has no GPU, or has failed
};

// checks: one for each node of the fleet, which is connected. Nodes whose list cannot be had fail.
int device_check(struct fleet *f, struct device_check *checks, struct err *e);

#endif
