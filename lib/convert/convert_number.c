// SPDX-License-Identifier: Apache-2.0
// The numbers of nodes and processes of a job, its steps and their launchers.
#include "convert/convert_script.h"

#include <string.h>

int64_t convert_number_of(const struct convert_number *n) {
    struct err ignored = {0};
    int64_t value = 0;
    return n->text && str_parse_i64(n->text, 1, 1 << 20, &value, &ignored) == 0 ? value : 0;
}

void convert_number_separate(struct convert_script *s, const struct convert_script *job) {
    int64_t had = convert_number_of(&job->nodes_max), tasks = convert_number_of(&s->tasks);
    bool step = s->tasks.from.line != job->tasks.from.line;
    struct convert_number nodes = s->nodes_max;
    if (!had || s->launch_nodes.text)
        return;
    if (convert_number_of(&nodes) == had && step && tasks && tasks < had)
        nodes = (struct convert_number){s->tasks.from, s->tasks.text};
    if (convert_number_of(&nodes) == had)
        return;
    s->launch_nodes = nodes;
    s->nodes_min = job->nodes_min;
    s->nodes_max = job->nodes_max;
}

// Slurm finds the nodes for --ntasks by itself.
static void count_nodes(struct convert_script *s) {
    struct arena *a = s->draft->arena;
    int64_t tasks = convert_number_of(&s->tasks), per_node = convert_number_of(&s->tasks_per_node);
    if (s->nodes_max.text || s->launch_nodes.text || tasks < 2 || !(s->by_srun || s->by_mpirun))
        return;
    if (per_node && tasks % per_node == 0 && !s->has_hosts) {
        s->nodes_max = (struct convert_number){
            s->tasks.from, arena_printf(a, "%lld", (long long)(tasks / per_node))};
        s->nodes_min = s->nodes_max;
    } else {
        convert_draft_note(s->draft, s->tasks.from,
                           "it gives no number of nodes; set cluster.nodes, train.nodes and "
                           "train.nproc_per_node to %lld processes in all",
                           (long long)tasks);
    }
}

static void set_nodes(struct convert_script *s) {
    struct arena *a = s->draft->arena;
    int64_t min = convert_number_of(&s->nodes_min), max = convert_number_of(&s->nodes_max);
    struct convert_number nodes = s->launch_nodes, most = s->nodes_max;
    if (!nodes.text && s->nodes_max.text) {
        nodes = s->nodes_max;
        if (min && max && min != max)
            nodes.text = arena_printf(a, "%lld:%lld", (long long)min, (long long)max);
    } else if (nodes.text && most.text && strcmp(nodes.text, most.text) != 0) {
        convert_draft_note(s->draft, nodes.from, "%s says %s nodes; the run takes %s",
                           most.from.name, most.text, nodes.text);
    }
    if (!most.text && nodes.text) {
        const char *colon = strchr(nodes.text, ':');
        most = (struct convert_number){nodes.from, colon ? colon + 1 : nodes.text};
    }
    if (most.text && !s->has_hosts)
        convert_draft_set(s->draft, most.from, "cluster.nodes", most.text);
    if (nodes.text)
        convert_draft_set(s->draft, nodes.from, "train.nodes", nodes.text);
}

static void set_processes(struct convert_script *s) {
    struct arena *a = s->draft->arena;
    int64_t nodes = convert_number_of(s->launch_nodes.text ? &s->launch_nodes : &s->nodes_max);
    int64_t tasks = convert_number_of(&s->tasks), per_node = convert_number_of(&s->tasks_per_node);
    if (s->by_torchrun) {
        if (s->launch_nproc.from.name)
            convert_draft_set(s->draft, s->launch_nproc.from, "train.nproc_per_node",
                              s->launch_nproc.text);
        if (s->by_srun && convert_number_of(&s->tasks_per_node) > 1)
            convert_draft_note(s->draft, s->tasks_per_node.from,
                               "left out: torchrun starts the processes of a node; Slurm would "
                               "have started %s of it on each node",
                               s->tasks_per_node.text);
        return;
    }
    if (!s->by_srun && !s->by_mpirun)
        return;
    if (tasks && convert_number_of(&s->nodes_min) != convert_number_of(&s->nodes_max) &&
        !s->launch_nodes.text)
        convert_draft_note(s->draft, s->tasks.from,
                           "on fewer nodes the run has fewer processes than %lld",
                           (long long)tasks);
    bool both = tasks && nodes && per_node && tasks != nodes * per_node;
    if (s->tasks_per_node.text && !both)
        convert_draft_set(s->draft, s->tasks_per_node.from, "train.nproc_per_node",
                          s->tasks_per_node.text);
    else if (tasks && tasks % (nodes ? nodes : 1) == 0)
        convert_draft_set(s->draft, s->tasks.from, "train.nproc_per_node",
                          arena_printf(a, "%lld", (long long)(tasks / (nodes ? nodes : 1))));
    else if (tasks)
        convert_draft_note(s->draft, s->tasks.from,
                           "%lld processes do not divide among %lld nodes; set "
                           "train.nproc_per_node",
                           (long long)tasks, (long long)nodes);
}

void convert_number_set(struct convert_script *s) {
    count_nodes(s);
    set_nodes(s);
    set_processes(s);
}
