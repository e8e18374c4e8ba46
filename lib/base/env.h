// SPDX-License-Identifier: Apache-2.0
// An environment as a list, such as environ: code that gets it as an argument can be tested with
// any.
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include "base/arena.h"

// The value of the first "NAME=value" with that name; NULL when there is none, or env is NULL.
const char *env_get(char *const *env, const char *name);
// The variable of a name: DTCTL_INPUT_MY_DATA of "DTCTL_INPUT_" and "my-data". Letters become upper
// case; characters other than letters and digits become '_'. Several names may have one variable.
char *env_variable(struct arena *a, const char *prefix, const char *name);

#endif
