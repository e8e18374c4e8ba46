// SPDX-License-Identifier: Apache-2.0
// Results of earlier runs on this node, whose files a push may take content from.
#ifndef NODE_PUSH_RESULTS_H
#define NODE_PUSH_RESULTS_H

#include "content/cas_donor.h"
#include "xfer/xfer_frame.h"

// Adds the results that the greeting names. A run that is not here, or has not the mark of this
// owner, gives nothing. ERR_FORMAT: a name that is not RUN/PART.
int push_results(struct arena *a, const char *root, const struct xfer_push_hello *h,
                 struct cas_donor *d, struct err *e);

#endif
