// SPDX-License-Identifier: Apache-2.0
// The reference backend in double, for finite-difference gradient checks.
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/bf16.h"
#include "kernels/cpu/ctx.h"

#define REAL      double
#define REF_TABLE kernels_reference_f64
#define REF_NAME  "reference-f64"
#include "kernels/cpu/reference_body.h"
