// SPDX-License-Identifier: Apache-2.0
// Hashes what is to be sent, with progress, and stoppable by a signal.
#ifndef JOB_HASHING_H
#define JOB_HASHING_H

#include "job/session.h"
#include "remote/manifest.h"

// Fills in all hashes, from the cluster's cache where files have not changed. ERR_INTERRUPTED.
int hashing_run(struct session *s, struct manifest *m, struct err *e);

#endif
