// SPDX-License-Identifier: Apache-2.0
// Gives flags the values of Slurm, MPI and torchrun's further variables; tasks take turns.
#include "scheduler_flags.h"

#include "base/env.h"
#include "base/log.h"
#include "conf/cli.h"
#include "launch/node_lock.h"

#include <ctype.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Variables that torchrun reads beside PET_ ones.
static const struct {
    const char *name, *flag;
    bool is_number;
} further[] = {
    {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "SHUTDOWN_TIMEOUT", true},
    {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "LOG_LINE_PREFIX_TEMPLATE", false},
};

static void read_further(struct option_set *set) {
    enum { COUNT = sizeof further / sizeof *further };
    char *list[COUNT + 1];
    size_t n = 0;
    for (size_t i = 0; i < COUNT; i++) {
        const char *value = env_get(set->env, further[i].name);
        bool number = value && value[0] && strspn(value, "0123456789") == strlen(value);
        if (value && value[0] && further[i].is_number && !number)
            log_warn("a variable is not a number and not used", "variable=%s value=%.40s",
                     further[i].name, value);
        else if (value && value[0])
            list[n++] = arena_printf(set->arena, "PET_%s=%s", further[i].flag, value);
    }
    list[n] = NULL;
    option_set_env(set, list);
}

// As typed, else from the PET_ variable, else NULL.
static const char *given(const struct option_set *set, const char *flag) {
    const char *value = NULL;
    if (cli_has(set, flag, &value))
        return value;
    char *name = arena_printf(set->arena, "PET_%s", flag);
    for (char *p = name; *p; p++)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
    value = env_get(set->env, name);
    return value && value[0] ? value : NULL;
}

int scheduler_flags_read(struct option_set *set, struct around *out, struct err *e) {
    const char *standalone = given(set, "standalone");
    struct around_given g = {.nnodes = given(set, "nnodes"),
                             .node_rank = given(set, "node-rank"),
                             .rdzv_backend = given(set, "rdzv-backend"),
                             .rdzv_endpoint = given(set, "rdzv-endpoint"),
                             .rdzv_conf = given(set, "rdzv-conf"),
                             .master_addr = given(set, "master-addr"),
                             .standalone = standalone && strcmp(standalone, "0") != 0 &&
                                           strcmp(standalone, "false") != 0};
    read_further(set);
    if (scheduler_read(set->arena, set->env, out, e) < 0)
        return -1;
    out->per_task = scheduler_is_per_task(out, &g);
    char *const *variables = scheduler_variables(set->arena, out, &g, e);
    if (!variables)
        return -1;
    option_set_env(set, variables);
    return 0;
}

// The scheduler gave each task its share of the processors; the agent's workers use all of them.
// The kernel keeps this inside the step's cpuset.
static void take_all_processors(void) {
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    if (sched_setaffinity(0, sizeof all, &all) < 0)
        log_warn("workers are held to the processors of the first task", NULL);
}

int scheduler_flags_take_turn(struct arena *a, const struct around *x, int *hold, struct err *e) {
    char host[256] = "localhost";
    *hold = -1;
    if (!x->by || x->tasks <= 1 || x->per_task)
        return 0;
    gethostname(host, sizeof host - 1);
    const char *name = scheduler_task_name(a, x, host);
    if (x->local > 0)
        return node_lock_wait(name, LOCAL_TASK_COME_MS_MAX, e) < 0 ? -1 : 1;
    take_all_processors();
    *hold = node_lock_hold(name, e);
    return *hold < 0 ? -1 : 0;
}

void scheduler_flags_end_turn(const struct around *x, int hold) {
    if (hold >= 0)
        node_lock_release(hold, x->tasks - 1, LOCAL_TASK_LATE_MS_MAX);
}
