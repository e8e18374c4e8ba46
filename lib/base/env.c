// SPDX-License-Identifier: Apache-2.0
// An environment as a list.
#include "base/env.h"

#include <ctype.h>
#include <string.h>

const char *env_get(char *const *env, const char *name) {
    size_t len = strlen(name);
    for (; env && *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

char *env_variable(struct arena *a, const char *prefix, const char *name) {
    char *out = arena_printf(a, "%s%s", prefix, name);
    for (char *p = out; *p; p++)
        *p = isalnum((unsigned char)*p) ? (char)toupper((unsigned char)*p) : '_';
    return out;
}
