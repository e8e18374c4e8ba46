// SPDX-License-Identifier: Apache-2.0
// Builds a worker's environment; a later value replaces an earlier one of the same name.
#include "worker/worker_env.h"

#include "base/array.h"
#include "base/env.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

struct env_list {
    struct arena *arena;
    const char **items;
    size_t count, room;
};

static size_t env_find(const struct env_list *l, const char *name) {
    size_t n = strlen(name), i = 0;
    while (i < l->count && !(strncmp(l->items[i], name, n) == 0 && l->items[i][n] == '='))
        i++;
    return i;
}

static bool env_has(const struct env_list *l, const char *name) {
    return env_find(l, name) < l->count;
}

static void env_put(struct env_list *l, size_t at, const char *item) {
    array_grow_in(l->arena, l->items, &l->room, at + 2); // and the NULL at the end
    l->items[at] = item;
    l->count += at == l->count;
}

static void env_set(struct env_list *l, const char *name, const char *value) {
    env_put(l, env_find(l, name), arena_printf(l->arena, "%s=%s", name, value));
}

static void env_set_int(struct env_list *l, const char *name, int value) {
    env_put(l, env_find(l, name), arena_printf(l->arena, "%s=%d", name, value));
}

static void env_default(struct env_list *l, const char *name, const char *value) {
    if (value[0] && !env_has(l, name))
        env_set(l, name, value);
}

bool worker_env_limits_threads(char *const *inherited, const struct worker_facts *f) {
    if (f->nproc <= 1 || env_get(inherited, "OMP_NUM_THREADS"))
        return false;
    for (int i = 0; i < f->extra_count; i++)
        if (strcmp(f->extra[i].name, "OMP_NUM_THREADS") == 0)
            return false;
    return true;
}

static void set_ranks(struct env_list *l, const struct worker_facts *f, int local_rank) {
    env_set_int(l, "LOCAL_RANK", f->virtual_local_rank ? 0 : local_rank);
    env_set_int(l, "RANK", f->rank + local_rank);
    env_set_int(l, "GROUP_RANK", f->group_rank);
    env_set_int(l, "ROLE_RANK", f->role_rank + local_rank);
    env_set(l, "ROLE_NAME", f->role);
    env_set_int(l, "LOCAL_WORLD_SIZE", f->nproc);
    env_set_int(l, "WORLD_SIZE", f->world_size);
    env_set_int(l, "GROUP_WORLD_SIZE", f->group_world);
    env_set_int(l, "ROLE_WORLD_SIZE", f->role_world);
    env_set(l, "MASTER_ADDR", f->master_addr);
    env_set_int(l, "MASTER_PORT", f->master_port);
}

// Every worker sees one device: entry local_rank of the parent's list.
static void set_virtual_device(struct env_list *l, int local_rank) {
    size_t at = env_find(l, "CUDA_VISIBLE_DEVICES");
    if (at == l->count) {
        env_set_int(l, "CUDA_VISIBLE_DEVICES", local_rank);
        return;
    }
    char **parts;
    size_t n = str_split(l->arena, strchr(l->items[at], '=') + 1, ',', &parts);
    if ((size_t)local_rank < n)
        env_set(l, "CUDA_VISIBLE_DEVICES", parts[local_rank]);
}

const char *const *worker_env_build(struct arena *a, char *const *inherited,
                                    const struct worker_facts *f, int local_rank,
                                    const char *error_file) {
    struct env_list l = {.arena = a, .room = 64};
    while (inherited[l.count])
        l.count++;
    l.room += l.count;
    l.items = arena_new(a, const char *, l.room + 1);
    memcpy(l.items, inherited, l.count * sizeof *l.items);

    set_ranks(&l, f, local_rank);
    env_set_int(&l, "TORCHELASTIC_RESTART_COUNT", f->restarts);
    env_set_int(&l, "TORCHELASTIC_MAX_RESTARTS", f->max_restarts);
    env_set(&l, "TORCHELASTIC_RUN_ID", f->run);
    env_set(&l, "TORCHELASTIC_USE_AGENT_STORE", f->own_store ? "False" : "True");
    env_set(&l, "TORCHELASTIC_ERROR_FILE", error_file);
    env_set(&l, "TORCHELASTIC_SIGNALS_TO_HANDLE", f->signals);
    if (f->timer_file)
        env_set(&l, "TORCHELASTIC_TIMER_FILE", f->timer_file);
    env_default(&l, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    env_default(&l, "GLOO_SOCKET_IFNAME", f->ifname);
    env_default(&l, "NCCL_SOCKET_IFNAME", f->ifname);
    if (f->has_efa)
        env_default(&l, "FI_PROVIDER", "efa");
    if (f->nproc > 1)
        env_default(&l, "OMP_NUM_THREADS", "1");
    if (f->virtual_local_rank)
        set_virtual_device(&l, local_rank);
    env_set(&l, "DTCTL_NODE", f->node);
    env_set_int(&l, "DTCTL_SHARD_INDEX", f->group_rank);
    env_set_int(&l, "DTCTL_SHARD_COUNT", f->group_world);
    env_set_int(&l, "DTCTL_NODES", f->group_world);
    env_set_int(&l, "DTCTL_ROUND", f->round);
    env_set(&l, "DTCTL_RUN", f->run);
    for (int i = 0; i < f->default_count; i++)
        env_default(&l, f->defaults[i].name, f->defaults[i].value);
    for (int i = 0; i < f->compat_count; i++)
        env_set(&l, f->compat[i].name, f->compat[i].value);
    for (int i = 0; i < f->input_count; i++)
        env_set(&l, f->inputs[i].name, f->inputs[i].value);
    for (int i = 0; i < f->extra_count; i++)
        env_set(&l, f->extra[i].name, f->extra[i].value);
    env_put(&l, l.count, NULL);
    return l.items;
}
