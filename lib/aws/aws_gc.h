// SPDX-License-Identifier: Apache-2.0
// Lists, and on confirmation removes, instances and other resources of this owner that no cluster
// folder here knows.
#ifndef AWS_AWS_GC_H
#define AWS_AWS_GC_H

#include "provider/provider.h"

// True when provider aws is configured or was used in this folder.
bool aws_gc_wanted(struct context *s);
// Searches the configured region, or every region of aws_sweep_regions; an error in one region does
// not affect the others. Clusters of this folder that are up (or whose `up` was interrupted) are
// kept, but leftovers of a killed command are removed. Unless `in_use`, clusters of other folders
// with an instance whose lease (tag dtctl-expires) has not ended are kept, too. --dry-run only
// lists. Without -y leftovers are listed and ERR_USAGE is returned.
int aws_gc(struct context *s, bool all_regions, bool in_use, struct provider_leftovers *out,
           struct err *e);

#endif
