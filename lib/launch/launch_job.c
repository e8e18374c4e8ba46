// SPDX-License-Identifier: Apache-2.0
// Configures a node of a run that dtctl starts. All values are explicit. Output always goes to
// files, which `--node follow` reads.
#include "base/env.h"
#include "base/log.h"
#include "launch/launch.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

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

// PATH for workers, behind the user's own: scripts call `dtrun shard-range`.
static int take_path(struct launch *l, const char *run_dir, struct job_pair *path, struct err *e) {
    const char *dir = file_join(l->arena, run_dir, "bin"), *own = env_get(l->env, "PATH");
    const char *link = file_join(l->arena, dir, "dtrun");
    char program[FILE_PATH_BYTES_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0)
        return err_errno(e, ERR_SYS, "cannot find this program's file");
    program[n] = '\0';
    unlink(link); // of an earlier start
    if (file_make_dirs(dir, 0755, e) < 0)
        return -1;
    if (symlink(program, link) < 0)
        return err_errno(e, ERR_SYS, "cannot make the link '%s'", link);
    *path = (struct job_pair){
        "PATH", arena_printf(l->arena, "%s:%s", own && own[0] ? own : launch_path_default, dir)};
    return 0;
}

// The variables of the environment of env.bundle, whose bin comes in front of any other PATH.
static int take_bundle(struct launch *l, const struct job_spec *s, const char *root,
                       struct job_pair *env, int *count, struct err *e) {
    const char *path = "";
    if (!s->bundle_hash)
        return 0;
    for (int i = 0; i < *count; i++) // the last one of a name counts
        path = strcmp(env[i].name, "PATH") == 0 ? env[i].value : path;
    int n = launch_bundle(l->arena, root, s->bundle_hash, path, env + *count, e);
    *count += n < 0 ? 0 : n;
    return n < 0 ? -1 : 0;
}

// The variables of an input: its folder, its list, and the addresses of a streamed one.
static int take_input(struct launch *l, const struct job_input *in, const char *root,
                      const char *run_dir, struct job_pair env[3]) {
    struct arena *a = l->arena;
    const char *name = env_variable(a, "DTCTL_INPUT_", in->name);
    const char *path = file_join(a, root, in->path);
    if (in->deal) // each round has its own
        return 0;
    env[0] = (struct job_pair){name, path};
    if (in->listed)
        env[1] = (struct job_pair){arena_printf(a, "%s_LIST", name),
                                   job_input_list(a, run_dir, in->name)};
    if (!in->streamed)
        return in->listed ? 2 : 1;
    l->agent.stream_socket = file_join(a, run_dir, JOB_STREAM_SOCKET);
    env[1] =
        (struct job_pair){arena_printf(a, "%s_LIST", name), file_join(a, path, JOB_STREAM_LIST)};
    env[2] =
        (struct job_pair){arena_printf(a, "%s_URLS", name), file_join(a, path, JOB_STREAM_URLS)};
    return 3;
}

static int take_env(struct launch *l, const struct job_spec *s, const char *root,
                    const char *run_dir, struct err *e) {
    const struct {
        const char *name, *parent, *dir;
    } folders[] = {
        {"DTCTL_OUTPUT_DIR", run_dir, "output"},
        {"DTCTL_MODEL_DIR", run_dir, "model"},
        {"DTCTL_STATE_DIR", run_dir, "state"},
        {"DTCTL_CACHE_DIR", root, "cache"}, // outlives the run, and is never fetched
    };
    enum { FOLDERS = sizeof folders / sizeof *folders };
    struct job_pair *env = arena_new(
        l->arena, struct job_pair,
        (size_t)(FOLDERS + 2 + 3 * s->input_count + s->env_count + LAUNCH_BUNDLE_PAIRS_MAX));
    int n = 0;
    if (take_path(l, run_dir, &env[n++], e) < 0)
        return -1;
    for (int i = 0; i < FOLDERS; i++) {
        char *path = file_join(l->arena, folders[i].parent, folders[i].dir);
        if (file_make_dirs(path, 0755, e) < 0)
            return -1;
        env[n++] = (struct job_pair){folders[i].name, path};
    }
    if (s->setup_hash)
        env[n++] = (struct job_pair){
            "DTCTL_SETUP_DIR", file_join(l->arena, root, job_setup_dir(l->arena, s->setup_hash))};
    for (int i = 0; i < s->input_count; i++)
        n += take_input(l, &s->inputs[i], root, run_dir, &env[n]);
    for (int i = 0; i < s->env_count; i++)
        env[n++] = s->env[i];
    if (take_bundle(l, s, root, env, &n, e) < 0)
        return -1;
    l->agent.env = env;
    l->agent.env_count = n;
    return 0;
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
    l->agent.run_dir = run_dir;
    if (launch_fill(l, e) < 0 || take_roster(l, s, r, e) < 0 ||
        take_command(l, s, root, run_dir, e) < 0 || take_env(l, s, root, run_dir, e) < 0 ||
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
