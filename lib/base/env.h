// SPDX-License-Identifier: Apache-2.0
// An environment as a list, such as environ: code that gets it as an argument can be tested with
// any.
#ifndef BASE_ENV_H
#define BASE_ENV_H

// The value of the first "NAME=value" with that name; NULL when there is none, or env is NULL.
const char *env_get(char *const *env, const char *name);

#endif
