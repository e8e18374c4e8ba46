// SPDX-License-Identifier: Apache-2.0
// dtctl data ls and rm: the inputs and the unpacked environments that lie on the nodes.
#ifndef DTCTL_DATA_NODES_H
#define DTCTL_DATA_NODES_H

#include "ui/context.h"

int data_nodes_list(struct context *s, const char *name, struct err *e); // NULL: all
// Asks first. ERR_NOT_FOUND: no node has one of that name.
int data_nodes_remove(struct context *s, const char *name, struct err *e);

#endif
