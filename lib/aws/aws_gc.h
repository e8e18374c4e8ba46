// SPDX-License-Identifier: Apache-2.0
// Instances and other things of this owner that no cluster folder here knows: shown, and ended when
// somebody says so.
#ifndef AWS_AWS_GC_H
#define AWS_AWS_GC_H

#include "provider/provider.h"

// Whether there is any reason to ask AWS: provider aws is configured, or was used from here.
bool aws_gc_wanted(struct context *s);
// The configured region, or every region of aws_sweep_regions; one that cannot be looked at does
// not keep it from the others. Clusters that are up from this folder (or whose `up` was cut) are
// left alone, but what an unclean end left of this one is ended. So are, unless `in_use`, clusters
// of other folders with an instance whose lease (tag dtctl-expires) has not ended. --dry-run only
// lists; without -y, what is found is listed and nothing is ended (ERR_USAGE).
int aws_gc(struct context *s, bool all_regions, bool in_use, struct provider_leftovers *out,
           struct err *e);

#endif
