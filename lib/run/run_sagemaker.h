// SPDX-License-Identifier: Apache-2.0
// The operator's part of compat.sagemaker, and hyperparameters in SageMaker's form. Pure.
#ifndef RUN_RUN_SAGEMAKER_H
#define RUN_RUN_SAGEMAKER_H

#include "run/run_start.h"

// The value of SM_HPS: numbers, booleans, lists and objects as such, any other text as a string.
const char *run_sagemaker_values(struct arena *a, const struct option_map *hp);
// Fills l->spec.sagemaker; without compat.sagemaker it stays empty.
void run_sagemaker_fill(struct run_start *l);

#endif
