// SPDX-License-Identifier: Apache-2.0
// Chooses the trainer's program for a run: the one for processors, or the one for GPUs. All
// nodes of a run get the same, because their ranks compute together. Pure.
#ifndef RUN_RUN_DEVICE_H
#define RUN_RUN_DEVICE_H

#include "base/err.h"
#include "cluster/inventory.h"
#include "conf/train_names.h"

// The name in the bundle, "dttrain" or "dttrain-cuda"; NULL: the nodes cannot do what is wanted.
// carried: this dtctl has the one for GPUs.
const char *run_device_program(enum train_device wanted, const struct inventory *v,
                               const size_t *indices, size_t count, bool carried, struct err *e);

#endif
