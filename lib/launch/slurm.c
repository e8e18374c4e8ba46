// SPDX-License-Identifier: Apache-2.0
// Parses Slurm's variables. A node list is a host list; task counts are numbers with repetitions.
#include "launch/slurm.h"

#include "base/array.h"
#include "base/env.h"
#include "base/hostlist.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int slurm_nodelist(struct arena *a, const char *text, char ***names, size_t *count, struct err *e) {
    size_t room = 0;
    *count = 0;
    *names = NULL;
    if (strlen(text) > SLURM_TEXT_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "node list: more than %d bytes", SLURM_TEXT_BYTES_MAX);
    for (const char *p = text;; p++) {
        struct hostlist list;
        const char *end = hostlist_end(p);
        const char *why = hostlist_parse(a, p, end, ":", SLURM_NODES_MAX, &list);
        must(why || list.count > 0);
        if (!why && *count + list.count > SLURM_NODES_MAX)
            why = "more nodes than the limit of 16384";
        for (size_t i = 0; !why && i < list.count; i++) {
            array_grow_in(a, *names, &room, *count + 1);
            (*names)[*count] = hostlist_name(a, &list, i);
            why = hostlist_check_name((*names)[(*count)++]);
        }
        if (!why && *end && *end != ',')
            why = "expected a comma between nodes";
        if (why)
            return err_set(e, ERR_CONFIG, "node list '%.100s', byte %zu: %s", text,
                           (size_t)(p - text) + 1, why);
        p = end;
        if (!*p)
            return 0;
    }
}

// Reads a number at *p; NULL: none, or too long.
static const char *read_number(const char *p, int64_t *value) {
    unsigned number;
    int digits = hostlist_number(p, p + strlen(p), &number);
    *value = number;
    return digits ? p + digits : NULL;
}

int slurm_tasks_of(const char *text, int node, int *out, struct err *e) {
    int64_t from = 0;
    for (const char *p = text; *p;) {
        int64_t tasks, times = 1;
        const char *end = read_number(p, &tasks);
        if (end && end[0] == '(' && end[1] == 'x') {
            end = read_number(end + 2, &times);
            end = end && *end == ')' ? end + 1 : NULL;
        }
        if (!end || (*end && *end != ','))
            break;
        if (node >= from && node < from + times) {
            *out = (int)tasks;
            return tasks >= 1 && tasks <= SLURM_TASKS_MAX
                       ? 0
                       : err_set(e, ERR_CONFIG, "task counts '%.100s': %lld on node %d", text,
                                 (long long)tasks, node);
        }
        from += times;
        p = end + (*end == ',');
    }
    return err_set(e, ERR_CONFIG, "task counts '%.100s' do not cover node %d", text, node);
}

static int read_int(char *const *env, const char *name, int64_t min, int64_t max, int *out,
                    struct err *e) {
    int64_t value;
    const char *text = env_get(env, name);
    if (!text)
        return err_set(e, ERR_CONFIG, "%s is not set", name);
    if (str_parse_i64(text, min, max, &value, e) < 0)
        return err_wrap(e, "%s", name);
    *out = (int)value;
    return 0;
}

static const char *first_of(char *const *env, const char *name, const char *other) {
    const char *value = env_get(env, name);
    return value && value[0] ? value : env_get(env, other);
}

static int read_nodes(struct arena *a, char *const *env, struct slurm_step *out, struct err *e) {
    const char *list = first_of(env, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
    char **names;
    size_t count;
    if (!list)
        return err_set(e, ERR_CONFIG, "neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST is set");
    if (slurm_nodelist(a, list, &names, &count, e) < 0)
        return -1;
    if (out->node >= (int)count || out->nodes != (int)count)
        return err_set(e, ERR_CONFIG,
                       "'%.100s' has %zu nodes, but SLURM_STEP_NUM_NODES is %d and SLURM_NODEID %d",
                       list, count, out->nodes, out->node);
    const char *self = env_get(env, "SLURMD_NODENAME");
    out->self = self && self[0] ? self : names[out->node];
    out->leader = names[0];
    return 0;
}

int slurm_read(struct arena *a, char *const *env, struct slurm_step *out, struct err *e) {
    const char *tasks = first_of(env, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
    int64_t gpus;
    struct err no_matter;
    *out = (struct slurm_step){
        .job = env_get(env, "SLURM_JOB_ID"), .step = env_get(env, "SLURM_STEP_ID"), .tasks = 1};
    if (!out->job || !out->step || !env_get(env, "SLURM_PROCID"))
        return 0;
    if (read_int(env, "SLURM_NODEID", 0, SLURM_NODES_MAX - 1, &out->node, e) < 0 ||
        read_int(env, "SLURM_LOCALID", 0, SLURM_TASKS_MAX, &out->local, e) < 0 ||
        read_int(env, "SLURM_STEP_NUM_NODES", 1, SLURM_NODES_MAX, &out->nodes, e) < 0 ||
        read_nodes(a, env, out, e) < 0 ||
        (tasks && slurm_tasks_of(tasks, out->node, &out->tasks, e) < 0))
        return err_wrap(e, "Slurm's environment");
    const char *text = env_get(env, "SLURM_GPUS_ON_NODE");
    if (text && str_parse_i64(text, 0, 1024, &gpus, &no_matter) == 0)
        out->gpus = (int)gpus;
    return 1;
}
