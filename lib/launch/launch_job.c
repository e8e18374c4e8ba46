// SPDX-License-Identifier: Apache-2.0
// Configures a node of a run that dtctl starts. All values are explicit. Output always goes to
// files, which `--node follow` reads.
#include "base/env.h"
#include "launch/launch.h"
#include "sys/file.h"

#include <string.h>

// Applies torchrun's own flags from the job's [torchrun] table.
static int take_flags(struct launch *l, const struct job_spec *s, struct err *e) {
    for (int i = 0; i < s->torchrun_count; i++) {
        const struct option_row *row = NULL;
        for (size_t k = 0; k < launch_table.count && !row; k++)
            if (strcmp(launch_table.rows[k].flag, s->torchrun[i].name) == 0)
                row = &launch_table.rows[k];
        if (!row)
            return err_set(e, ERR_CONFIG, "torchrun flag '%.60s' is not known to this agent",
                           s->torchrun[i].name);
        if (option_parse(l->arena, row, s->torchrun[i].value, (char *)&l->options + row->offset,
                         e) < 0)
            return err_wrap(e, "torchrun flag '%s'", row->flag);
    }
    return 0;
}

static int take_defaults(struct launch *l, struct err *e) {
    for (size_t k = 0; k < launch_table.count; k++) {
        const struct option_row *row = &launch_table.rows[k];
        if (option_parse(l->arena, row, row->text, (char *)&l->options + row->offset, e) < 0)
            return err_wrap(e, "default of '%s'", row->flag);
    }
    return 0;
}

// argv[0] is resolved relative to the root if such a file exists (bin/dttrain-…), else unchanged.
static int take_command(struct launch *l, const struct job_spec *s, const char *root,
                        const char *run_dir, struct err *e) {
    const char **argv = arena_new(l->arena, const char *, (size_t)s->command_count + 1);
    for (int i = 0; i < s->command_count; i++)
        argv[i] = s->command[i];
    char *below = file_join(l->arena, root, argv[0]);
    if (strchr(argv[0], '/') && file_exists(below))
        argv[0] = below;
    l->agent.workers.command = argv;
    l->agent.title = s->name;
    const char *dir = s->workdir[0] ? file_join(l->arena, root, s->workdir) : root;
    l->agent.workers.cwd = dir;
    l->agent.workers.log_base = run_dir;
    return file_make_dirs(dir, 0755, e);
}

// After the workers' folders and their number of GPUs are known.
static int take_sagemaker(struct launch *l, const struct job_spec *s, const char *root,
                          const char *run_dir, struct err *e) {
    if (s->sagemaker_count == 0)
        return 0;
    struct sagemaker *tree = arena_new(l->arena, struct sagemaker, 1);
    *tree = (struct sagemaker){.root = file_join(l->arena, run_dir, "opt-ml"),
                               .run = s->run,
                               .output = file_join(l->arena, run_dir, "output"),
                               .model = file_join(l->arena, run_dir, "model"),
                               .state = file_join(l->arena, run_dir, "state"),
                               .work = l->agent.workers.cwd,
                               .texts = s->sagemaker,
                               .text_count = s->sagemaker_count,
                               .gpus = launch_gpu_count(env_get(l->env, "CUDA_VISIBLE_DEVICES"))};
    tree->inputs = arena_new(l->arena, struct job_input, (size_t)s->input_count);
    for (int i = 0; i < s->input_count; i++) {
        tree->inputs[i] = s->inputs[i];
        tree->inputs[i].path = file_join(l->arena, root, s->inputs[i].path);
    }
    tree->input_count = s->input_count;
    l->agent.workers.sagemaker = tree;
    return sagemaker_open(tree, SAGEMAKER_MOUNTED, e) < 0 ? err_wrap(e, "compat.sagemaker") : 0;
}

static int take_roster(struct launch *l, const struct job_spec *s, const struct roster *r,
                       struct err *e) {
    const char **names = arena_new(l->arena, const char *, (size_t)r->count + 1);
    bool here = false;
    for (int i = 0; i < r->count; i++) {
        names[i] = r->nodes[i].name;
        here |= r->nodes[i].rank == s->node_rank;
    }
    if (!here)
        return err_set(e, ERR_CONFIG, "the roster does not have node rank %d (this node)",
                       s->node_rank);
    l->agent.node_rank = s->node_rank;
    l->agent.leads = l->agent.bootstrap_at_once = r->nodes[0].rank == s->node_rank;
    for (int i = 0; i < r->count && l->agent.endpoint_count < AGENT_ENDPOINTS_MAX; i++)
        if (r->nodes[i].rank != s->node_rank)
            l->agent.endpoints[l->agent.endpoint_count++] =
                (struct agent_endpoint){.host = r->nodes[i].address, .port = r->nodes[i].port};
    l->agent.coordinator.expected_names = names;
    l->agent.coordinator.rendezvous.nodes_expected = r->count;
    return 0;
}

// After the key is known.
static void take_keeper(struct launch *l, const struct job_spec *s, const char *root,
                        const char *run_dir) {
    struct job_input *dealt = arena_new(l->arena, struct job_input, (size_t)s->input_count + 1);
    int count = 0;
    for (int i = 0; i < s->input_count; i++)
        if (s->inputs[i].deal) {
            dealt[count] = s->inputs[i];
            dealt[count++].path = file_join(l->arena, root, s->inputs[i].path);
        }
    if (!s->state_replicas && !count)
        return;
    l->agent.coordinator.copies = s->state_replicas > 0;
    l->agent.coordinator.deals = count > 0;
    l->agent.keeper =
        (struct keeper_spec){.run_dir = run_dir,
                             .node = s->node,
                             .every_ms = s->state_every_ms,
                             .replicas = s->state_replicas,
                             .store = file_join(l->arena, root, "cas"),
                             .locks = file_join(l->arena, root, "tmp"),
                             .inputs = dealt,
                             .input_count = count,
                             .source_ms = l->agent.coordinator.rendezvous.rejoin_timeout_ms,
                             .secret = l->agent.coordinator.secret};
    l->agent.keeper.secret.magic = WIRE_MAGIC_COPIES;
}

int launch_job(struct launch *l, const struct job_spec *s, const struct roster *r, const char *root,
               const char *run_dir, int listen_fd, int listen_port, struct err *e) {
    if (take_defaults(l, e) < 0 || take_flags(l, s, e) < 0)
        return -1;
    l->options.nnodes = (struct option_range){s->nnodes_min, s->nnodes_max};
    l->options.nproc_per_node = s->nproc_per_node;
    l->options.max_restarts = s->max_restarts;
    l->options.redirects = "3";
    l->options.tee = "0";
    l->agent.run = l->agent.coordinator.secret.run = s->run;
    l->agent.run_name = s->name;
    l->agent.name = s->node;
    l->agent.address = s->address;
    l->agent.created_ms = s->created_ms;
    l->agent.agent_starts = s->agent_starts;
    l->agent.sample_ms = s->sample_ms;
    l->agent.run_dir = run_dir;
    if (launch_fill(l, e) < 0 || take_roster(l, s, r, e) < 0 ||
        take_command(l, s, root, run_dir, e) < 0 || launch_env(l, s, root, run_dir, e) < 0 ||
        take_sagemaker(l, s, root, run_dir, e) < 0 || launch_watch(l, e) < 0)
        return -1;
    l->agent.coordinator.shutdown_timeout_ms = s->shutdown_timeout_ms;
    l->agent.coordinator.rendezvous.stop_ms_max = s->shutdown_timeout_ms + 10000;
    l->agent.coordinator.rendezvous.join_timeout_ms = s->join_timeout_ms;
    if (!launch_conf(l->arena, l->options.rdzv_conf, "crash_loop")) {
        l->agent.coordinator.rendezvous.crashes_max = LAUNCH_JOB_CRASHES;
        l->agent.coordinator.rendezvous.crash_ms = LAUNCH_CRASH_MS;
    }
    l->agent.join_timeout_ms = s->join_timeout_ms;
    l->agent.time_ms_max = s->max_time_ms;
    l->agent.coordinator.secret.key = s->key;
    l->agent.coordinator.secret.key_len = s->has_key ? sizeof s->key : 0;
    take_keeper(l, s, root, run_dir);
    l->agent.listen_fd = listen_fd;
    l->agent.listen_port = listen_port;
    l->agent.report = true; // written to agent.log
    return 0;
}
