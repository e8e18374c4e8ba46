// SPDX-License-Identifier: Apache-2.0
// Whether this machine has an Elastic Fabric Adapter of AWS with its driver.
#ifndef WORKER_EFA_H
#define WORKER_EFA_H

#include <stdbool.h>

// Reads /sys below root ("" for this machine; tests use a copy).
bool efa_is_here(const char *root);

#endif
