// SPDX-License-Identifier: Apache-2.0
// The reference backend in float, what the fast backends are compared with.
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/bf16.h"
#include "kernels/cpu/ctx.h"

#define REAL      float
#define REF_TABLE kernels_reference
#define REF_NAME  "reference"
#include "kernels/cpu/reference_body.h"
