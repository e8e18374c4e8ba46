// SPDX-License-Identifier: Apache-2.0
// Names of the configuration that become variables of the workers, in which case does not count and
// '-' and '.' are '_': no variable is that of two names.
#include "conf/config.h"

#include "base/env.h"
#include "base/name_map.h"

#include <string.h>

struct names {
    struct option_set *set;
    struct name_map taken; // variables, to the names that have them
    const char *prefix, *what;
};

// Takes the variables of a name, each with one of the endings.
static void take(struct names *n, struct option_place place, const char *name,
                 const char *const *endings) {
    struct arena *a = n->set->arena;
    bool good = true;
    for (; good && *endings; endings++)
        good = option_take_variable(
            n->set, &n->taken, place, n->what, name,
            arena_printf(a, "%s%s", env_variable(a, n->prefix, name), *endings));
}

static const char *const PLAIN[] = {"", NULL};

static void check_inputs(struct config *c) {
    static const char *const endings[] = {"", "_LIST", "_URLS", "_MODE", NULL};
    struct names n = {.set = &c->set, .prefix = "DTCTL_INPUT_", .what = "inputs"};
    for (size_t i = 0; i < c->inputs.count; i++) {
        const struct config_input *in = config_input(c, i);
        bool in_file =
            in->place.source != OPTION_DEFAULT; // flags and variables set all inputs at once
        take(&n, in_file ? in->place : *option_place(&c->set, "inputs"), in->name, endings);
    }
    name_map_fini(&n.taken);
}

void config_check_names(struct config *c) {
    struct names hp = {.set = &c->set, .prefix = "SM_HP_", .what = "hyperparameters"};
    struct names after = {.set = &c->set, .prefix = "DTCTL_TASK_", .what = "tasks"};
    check_inputs(c);
    for (size_t i = 0; i < c->hyperparameters.count; i++)
        take(&hp, *option_place(&c->set, "hyperparameters"), c->hyperparameters.items[i].name,
             PLAIN);
    for (size_t i = 0; i < c->job.after.count; i++)
        take(&after, *option_place(&c->set, "task.after"), c->job.after.items[i], PLAIN);
    name_map_fini(&hp.taken);
    name_map_fini(&after.taken);
}
