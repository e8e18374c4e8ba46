// SPDX-License-Identifier: Apache-2.0
// Unpacks the archives of a run's inputs, once on this node for each content.
#ifndef NODE_NODE_EXTRACT_H
#define NODE_NODE_EXTRACT_H

#include "base/arena.h"
#include "protocol/job_spec.h"

// Waits for another run that unpacks the same input. *made is set when something was unpacked. A
// tree is there as a whole or not at all, also after a kill or a power failure.
int node_extract(struct arena *a, const char *root, const struct job_spec *spec, bool *made,
                 struct err *e);

#endif
