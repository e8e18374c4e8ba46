// SPDX-License-Identifier: Apache-2.0
// Theory of operation: a node list is a list of patterns; a pattern is literal pieces with brackets
// between them. Each bracket is a list of ranges, and expansion counts through all brackets like an
// odometer, bounded by the number of names.
#include "launch/slurm.h"

#include "base/env.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bracket { // the numbers of one [..], in order
    int64_t *numbers;
    int *widths;
    size_t count, room;
};

struct pattern {
    char *pieces[SLURM_BRACKETS_MAX + 1]; // literal text before each bracket, and after the last
    struct bracket brackets[SLURM_BRACKETS_MAX];
    int bracket_count;
};

static int bad_list(const char *text, const char *at, const char *why, struct err *e) {
    return err_set(e, ERR_CONFIG, "node list '%.100s', byte %d: %s", text, (int)(at - text) + 1,
                   why);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// A number at *p; its width counts leading zeros. NULL: none, or too long.
static const char *read_number(const char *p, int64_t *value, int *width) {
    const char *from = p;
    *value = 0;
    while (is_digit(*p) && p - from <= SLURM_DIGITS_MAX)
        *value = *value * 10 + (*p++ - '0');
    *width = (int)(p - from);
    return *width == 0 || *width > SLURM_DIGITS_MAX ? NULL : p;
}

static void add_number(struct arena *a, struct bracket *b, int64_t value, int width) {
    if (b->count == b->room) {
        size_t room = b->room ? b->room * 2 : 16;
        int64_t *numbers = arena_new(a, int64_t, room);
        int *widths = arena_new(a, int, room);
        if (b->count > 0) {
            memcpy(numbers, b->numbers, b->count * sizeof *numbers);
            memcpy(widths, b->widths, b->count * sizeof *widths);
        }
        *b = (struct bracket){numbers, widths, b->count, room};
    }
    b->numbers[b->count] = value;
    b->widths[b->count++] = width;
}

// From behind '[' to behind ']'; NULL after a complaint.
static const char *read_bracket(struct arena *a, const char *text, const char *p, struct bracket *b,
                                struct err *e) {
    for (;;) {
        int64_t first, last;
        int width, width_last;
        const char *end = read_number(p, &first, &width);
        if (!end)
            return bad_list(text, p, "a number of at most 9 digits belongs here", e), NULL;
        last = first;
        if (*end == '-') {
            p = end + 1;
            end = read_number(p, &last, &width_last);
            if (!end || last < first)
                return bad_list(text, p, "the end of a range belongs here", e), NULL;
        }
        if (last - first >= SLURM_NODES_MAX || b->count + (size_t)(last - first) >= SLURM_NODES_MAX)
            return bad_list(text, p, "too many nodes", e), NULL;
        for (int64_t n = first; n <= last; n++)
            add_number(a, b, n, width);
        p = end + 1;
        if (*end == ']')
            return p;
        if (*end != ',')
            return bad_list(text, end, "',' or ']' belongs here", e), NULL;
    }
}

static bool is_name_byte(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_' || c == ':';
}

// One pattern, up to a comma or the end; NULL after a complaint.
static const char *read_pattern(struct arena *a, const char *text, const char *p,
                                struct pattern *out, struct err *e) {
    *out = (struct pattern){.bracket_count = 0};
    const char *start = p;
    for (;;) {
        const char *from = p;
        while (is_name_byte(*p))
            p++;
        out->pieces[out->bracket_count] = arena_strndup(a, from, (size_t)(p - from));
        if (*p != '[')
            break;
        if (out->bracket_count == SLURM_BRACKETS_MAX)
            return bad_list(text, p, "more than 4 brackets in a name", e), NULL;
        p = read_bracket(a, text, p + 1, &out->brackets[out->bracket_count], e);
        if (!p)
            return NULL;
        out->bracket_count++;
    }
    if (*p && *p != ',')
        return bad_list(text, p, "this byte has no place in a node's name", e), NULL;
    if (p == start || *start == '-')
        return bad_list(text, start, "a node's name belongs here", e), NULL;
    return p;
}

static char *name_at(struct arena *a, const struct pattern *p, const size_t *at) {
    struct strbuf b = {0};
    for (int i = 0; i < p->bracket_count; i++)
        strbuf_addf(&b, "%s%0*lld", p->pieces[i], p->brackets[i].widths[at[i]],
                    (long long)p->brackets[i].numbers[at[i]]);
    strbuf_adds(&b, p->pieces[p->bracket_count]);
    char *name = b.len > SLURM_NAME_BYTES_MAX ? NULL : arena_strdup(a, strbuf_cstr(&b));
    strbuf_fini(&b);
    return name;
}

static int expand(struct arena *a, const struct pattern *p, char **names, size_t *count,
                  const char *text, struct err *e) {
    size_t at[SLURM_BRACKETS_MAX] = {0};
    for (;;) {
        if (*count == SLURM_NODES_MAX)
            return err_set(e, ERR_LIMIT, "node list '%.100s': more than %d nodes", text,
                           SLURM_NODES_MAX);
        char *name = name_at(a, p, at);
        if (!name)
            return err_set(e, ERR_LIMIT, "node list '%.100s': a name has more than %d bytes", text,
                           SLURM_NAME_BYTES_MAX);
        names[(*count)++] = name;
        int i = p->bracket_count - 1;
        while (i >= 0 && ++at[i] == p->brackets[i].count)
            at[i--] = 0;
        if (i < 0)
            return 0;
    }
}

int slurm_nodelist(struct arena *a, const char *text, char ***names, size_t *count, struct err *e) {
    *count = 0;
    if (strlen(text) > SLURM_TEXT_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "node list: more than %d bytes", SLURM_TEXT_BYTES_MAX);
    *names = arena_new(a, char *, SLURM_NODES_MAX);
    for (const char *p = text;; p++) {
        struct pattern pattern;
        p = read_pattern(a, text, p, &pattern, e);
        if (!p || expand(a, &pattern, *names, count, text, e) < 0)
            return -1;
        if (!*p)
            return 0;
    }
}

int slurm_tasks_of(const char *text, int node, int *out, struct err *e) {
    int64_t from = 0;
    for (const char *p = text; *p;) {
        int64_t tasks, times = 1;
        int width;
        const char *end = read_number(p, &tasks, &width);
        if (end && end[0] == '(' && end[1] == 'x') {
            end = read_number(end + 2, &times, &width);
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
    return err_set(e, ERR_CONFIG, "task counts '%.100s' say nothing of node %d", text, node);
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
