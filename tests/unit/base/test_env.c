// SPDX-License-Identifier: Apache-2.0
// An environment as a list: whole names, the first of two, empty values.
#include "base/env.h"

#include "tests/tap.h"

int main(void) {
    char one[] = "A=1", longer[] = "AB=2=3", empty[] = "E=", odd[] = "ODD", again[] = "A=9";
    char *env[] = {odd, longer, one, empty, again, NULL}, *none[] = {NULL};
    is_str(env_get(env, "A"), "1", "the first of two equal names is found");
    is_str(env_get(env, "AB"), "2=3", "a value may have '='");
    is_str(env_get(env, "E"), "", "an empty value is found");
    ok(!env_get(env, "ODD"), "an entry without '=' has no value");
    ok(!env_get(env, "ABC") && !env_get(env, ""), "only whole names match");
    ok(!env_get(none, "A") && !env_get(NULL, "A"), "nothing is found in an empty environment");
    struct arena a = {0};
    is_str(env_variable(&a, "X_", "my-data.2"), "X_MY_DATA_2", "a name becomes a variable");
    is_str(env_variable(&a, "X_", ""), "X_", "an empty name leaves the prefix");
    arena_fini(&a);
    return done_testing();
}
