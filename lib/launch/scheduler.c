// SPDX-License-Identifier: Apache-2.0
// Settings from Slurm and mpirun. Slurm provides each node's rank and the leader's name, so its
// steps start static. mpirun provides ranks of processes and its own address, so its nodes join
// (c10d) in the order of their first process.
#include "launch/scheduler.h"

#include "base/env.h"
#include "base/str.h"
#include "launch/mpi.h"
#include "launch/slurm.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { VARIABLES_MAX = 12 };

// FNV-1a (Fowler, Noll, Vo); two runs on one node rarely meet.
static int port_of(const char *run) {
    uint32_t h = 2166136261u;
    for (const char *p = run; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return AROUND_PORT_FIRST + (int)(h % AROUND_PORTS);
}

static int from_slurm(struct arena *a, char *const *env, struct around *out, struct err *e) {
    struct slurm_step s;
    int rc = slurm_read(a, env, &s, e);
    if (rc <= 0)
        return rc;
    *out = (struct around){.by = "slurm",
                           .run = arena_printf(a, "slurm-%s.%s", s.job, s.step),
                           .self = s.self,
                           .leader = s.leader,
                           .nodes = s.nodes,
                           .order = s.node,
                           .local = s.local,
                           .tasks = s.tasks,
                           .nproc = s.tasks > 1 ? s.tasks : s.gpus,
                           .ordered = true};
    return 1;
}

static int from_mpi(struct arena *a, char *const *env, struct around *out, struct err *e) {
    struct mpi_place m;
    int rc = mpi_read(a, env, &m, e);
    if (rc <= 0)
        return rc;
    const char *leader = env_get(env, "MASTER_ADDR");
    *out = (struct around){.by = "mpi",
                           .run = m.run[0] ? arena_printf(a, "mpi-%s", m.run) : "mpi",
                           .self = "",
                           .leader = leader && leader[0] ? leader : m.leader,
                           .nodes = m.nodes,
                           .order = m.rank,
                           .local = m.local,
                           .tasks = m.tasks,
                           .nproc = m.tasks > 1 ? m.tasks : 0};
    return 1;
}

static int first_number(char *const *env, const char *const *names, size_t count) {
    struct err e;
    int64_t number;
    for (size_t i = 0; i < count; i++) {
        const char *text = env_get(env, names[i]);
        if (text && str_parse_i64(text, 0, INT32_MAX, &number, &e) == 0)
            return (int)number;
    }
    return 0;
}

// With mpirun under Slurm, which starts its daemons by srun, the inner launcher counts.
int scheduler_read(struct arena *a, char *const *env, struct around *out, struct err *e) {
    *out = (struct around){.by = NULL};
    bool in_open_mpi = env_get(env, "OMPI_COMM_WORLD_RANK") != NULL;
    int rc = in_open_mpi ? 0 : from_slurm(a, env, out, e);
    if (rc == 0)
        rc = from_mpi(a, env, out, e);
    if (rc > 0) {
        static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"};
        static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS",
                                            "SLURM_NTASKS", "PMI_SIZE"};
        out->port = port_of(out->run);
        out->rank = first_number(env, ranks, sizeof ranks / sizeof *ranks);
        out->size = first_number(env, sizes, sizeof sizes / sizeof *sizes);
    }
    return rc;
}

bool scheduler_is_per_task(const struct around *x, const struct around_given *g) {
    struct err e;
    int64_t nodes;
    bool all =
        g->nnodes && x->size > 0 && str_parse_i64(g->nnodes, x->size, x->size, &nodes, &e) == 0;
    return x->by && x->tasks > 1 && !g->standalone && (all || g->node_rank);
}

bool scheduler_is_alone(const struct around *x, const struct around_given *g) {
    return g->standalone ||
           (g->nnodes ? str_eq(g->nnodes, "1") || str_eq(g->nnodes, "1:1") : x->nodes == 1);
}

static bool is_range(const char *nnodes) {
    const char *colon = nnodes ? strchr(nnodes, ':') : NULL;
    return colon && !(strncmp(nnodes, colon + 1, (size_t)(colon - nnodes)) == 0 &&
                      strlen(colon + 1) == (size_t)(colon - nnodes));
}

static char **join(struct arena *a, char **v, const struct around *x,
                   const struct around_given *g) {
    bool c10d =
        g->rdzv_backend ? str_eq(g->rdzv_backend, "c10d") : !x->ordered || is_range(g->nnodes);
    *v++ = arena_printf(a, "PET_NNODES=%d", x->per_task ? x->size : x->nodes);
    *v++ = arena_printf(a, "PET_NODE_RANK=%d", x->per_task ? x->rank : x->order);
    *v++ = arena_printf(a, "PET_RDZV_ID=%s", x->run);
    *v++ = arena_printf(a, "PET_RDZV_BACKEND=%s", c10d ? "c10d" : "static");
    const char *leader = g->master_addr ? g->master_addr : x->leader;
    if (c10d) {
        bool v6 = strchr(leader, ':') != NULL;
        *v++ = arena_printf(a, "PET_RDZV_ENDPOINT=%s%s%s:%d", v6 ? "[" : "", leader, v6 ? "]" : "",
                            x->port);
        if (x->ordered && !g->rdzv_endpoint && !g->rdzv_conf)
            *v++ = arena_printf(a, "PET_RDZV_CONF=is_host=%d",
                                x->per_task ? x->rank == 0 : x->order == 0);
    } else {
        *v++ = arena_printf(a, "PET_MASTER_ADDR=%s", leader);
        *v++ = arena_printf(a, "PET_MASTER_PORT=%d", x->port);
    }
    return v;
}

char *const *scheduler_variables(struct arena *a, const struct around *x,
                                 const struct around_given *g, struct err *e) {
    char **list = arena_new(a, char *, VARIABLES_MAX), **v = list;
    if (x->by && x->nproc > 0 && !x->per_task)
        *v++ = arena_printf(a, "PET_NPROC_PER_NODE=%d", x->nproc);
    if (x->by && !scheduler_is_alone(x, g)) {
        if (!x->leader[0] && !g->rdzv_endpoint && !g->master_addr)
            return err_set(e, ERR_USAGE,
                           "mpirun does not report its first node (try, with the name of a node "
                           "of the run: mpirun -N 1 dtrun --rdzv-endpoint node1:29400 train.py; "
                           "or set MASTER_ADDR=node1 on all nodes)"),
                   NULL;
        v = join(a, v, x, g);
    }
    *v = NULL;
    return list;
}

const char *scheduler_task_name(struct arena *a, const struct around *x, const char *host) {
    return arena_printf(a, "%s/%s", x->run, x->self[0] ? x->self : host);
}
