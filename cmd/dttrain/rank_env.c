// SPDX-License-Identifier: Apache-2.0
// Reads the variables that a launcher sets for a worker.
#include "rank_env.h"

#include "base/env.h"
#include "base/str.h"
#include "comm/comm.h"
#include "sys/file.h"

#include <stdlib.h>

static int env_int(char *const *env, const char *name, int absent, int min, int max, int *out,
                   struct err *e) {
    const char *text = env_get(env, name);
    int64_t value = absent;
    if (text && *text && str_parse_i64(text, min, max, &value, e) < 0) {
        e->code = ERR_USAGE;
        return err_wrap(e, "environment variable %s", name);
    }
    *out = (int)value;
    return 0;
}

static int env_must(char *const *env, const char *name, struct err *e) {
    const char *text = env_get(env, name);
    if (text && *text)
        return 0;
    return err_set(e, ERR_USAGE,
                   "RANK is set but %s is not: start dttrain with dtctl, dtrun or torchrun, or "
                   "without RANK",
                   name);
}

static const char *env_dir(char *const *env, struct arena *a, const char *name,
                           const char *absent) {
    const char *text = env_get(env, name);
    if (text && *text)
        return text;
    return file_join(a, "dttrain-output", absent);
}

static int read_ranks(struct rank_env *r, struct err *e) {
    enum { WORLD_MAX = COMM_WORLD_MAX, LOCAL_MAX = COMM_LOCAL_WORLD_MAX, PORT_MAX = 65535 };
    char *const *env = r->env;
    if (env_must(env, "WORLD_SIZE", e) < 0 ||
        env_int(env, "WORLD_SIZE", 1, 1, WORLD_MAX, &r->world, e) < 0 ||
        env_int(env, "RANK", 0, 0, r->world - 1, &r->rank, e) < 0 ||
        env_int(env, "LOCAL_WORLD_SIZE", r->world, 1, LOCAL_MAX, &r->local_world, e) < 0 ||
        env_int(env, "LOCAL_RANK", r->rank % r->local_world, 0, r->local_world - 1, &r->local_rank,
                e) < 0 ||
        env_int(env, "GROUP_WORLD_SIZE", (r->world + r->local_world - 1) / r->local_world, 1,
                r->world, &r->nodes, e) < 0 ||
        env_int(env, "GROUP_RANK", r->rank / r->local_world, 0, r->nodes - 1, &r->node, e) < 0 ||
        env_int(env, "TORCHELASTIC_RESTART_COUNT", 0, 0, INT32_MAX, &r->restart, e) < 0)
        return -1;
    if (r->world == 1)
        return 0;
    if (env_must(env, "MASTER_ADDR", e) < 0 || env_must(env, "MASTER_PORT", e) < 0)
        return -1;
    r->master_host = env_get(env, "MASTER_ADDR");
    return env_int(env, "MASTER_PORT", 0, 1, PORT_MAX, &r->master_port, e);
}

int rank_env_read(struct rank_env *r, struct arena *a, char *const *env, struct err *e) {
    *r = (struct rank_env){.env = env, .world = 1, .local_world = 1, .nodes = 1};
    r->launched = env_get(env, "RANK") != NULL;
    r->output_dir = env_dir(env, a, "DTCTL_OUTPUT_DIR", ".");
    r->model_dir = env_dir(env, a, "DTCTL_MODEL_DIR", "model");
    r->state_dir = env_dir(env, a, "DTCTL_STATE_DIR", "state");
    r->cache_dir = env_dir(env, a, "DTCTL_CACHE_DIR", "cache");
    return r->launched ? read_ranks(r, e) : 0;
}

const char *rank_env_input(const struct rank_env *r, struct arena *a, const char *wish,
                           const char *usual) {
    const char *variable = env_variable(a, "DTCTL_INPUT_", *wish ? wish : usual);
    const char *path = env_get(r->env, variable);
    if (path && *path)
        return path;
    return *wish ? wish : NULL;
}

bool rank_env_shared_out(const struct rank_env *r, struct arena *a, const char *wish,
                         const char *usual) {
    const char *variable = env_variable(a, "DTCTL_INPUT_", *wish ? wish : usual);
    const char *mode = env_get(r->env, arena_printf(a, "%s_MODE", variable));
    return str_eq(mode, "sharded");
}
