// SPDX-License-Identifier: Apache-2.0
// An environment as a list.
#include "base/env.h"

#include <string.h>

const char *env_get(char *const *env, const char *name) {
    size_t len = strlen(name);
    for (; env && *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}
