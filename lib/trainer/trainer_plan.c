// SPDX-License-Identifier: Apache-2.0
// Predicts the memory and the work of each rank: the functions that open a trainer, up to the
// allocation of memory.
#include "base/arena.h"
#include "comm/shm.h"
#include "nn/layer.h"
#include "nn/recompute.h"
#include "trainer/trainer_plan_impl.h"

#include <stdlib.h>

// The code, libraries, stacks and small tables of a process.
#define PROGRAM_BYTES ((size_t)3 << 20)

// ---- one rank ----------------------------------------------------------------------------------

// The ranks of a node are on one machine like this one.
static int share_cores(struct trainer *t, int local, struct err *e) {
    machine_limits_read(&t->limits, "");
    if (cores_allowed(&t->allowed, e) < 0)
        return -1;
    struct cores_id mine, *ids = heap_alloc((size_t)local * sizeof *ids);
    cores_identify(&mine, &t->allowed);
    for (int i = 0; i < local; i++)
        ids[i] = mine;
    cores_share(&t->cores, &t->allowed, &t->limits, ids, local, 0, (int)t->options->threads);
    t->cores.pinned = false;
    free(ids);
    return 0;
}

// config: of the rank; it has to outlive t.
static int open_rank(struct trainer *t, const struct trainer_config *config, struct err *e) {
    *t = (struct trainer){.config = config,
                          .options = config->options,
                          .rank = config->comm.rank,
                          .world = config->comm.world,
                          .planning = true,
                          .copy_missing = -1,
                          .metrics_fd = -1};
    if (trainer_stages_choose(t, e) < 0 || share_cores(t, config->comm.local_world, e) < 0)
        return -1;
    t->shards = t->mesh.data;
    return trainer_data_survey(t, e) < 0 || trainer_open_model(t, e) < 0 ||
                   trainer_open_network(t, e) < 0
               ? -1
               : 0;
}

static size_t largest_tensor(const struct nn_model *m) {
    size_t most = 0;
    for (int i = 0; i < m->params; i++)
        most = m->param[i].count > most ? m->param[i].count : most;
    return most;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

// Slots in shared memory that messages of so many bytes pass through.
static size_t slots_bytes(int ranks, bool nodes, size_t message) {
    return nodes ? (size_t)ranks * SHM_DEPTH_NODES * least(message, SHM_CHUNK_BYTES_NODES)
                 : (size_t)ranks * SHM_DEPTH_LOCAL * least(message, SHM_CHUNK_BYTES_LOCAL);
}

// Of the stage before, or this one, where the other side is on the same node: both directions.
static size_t link_bytes(const struct plan *p, int part) {
    const struct plan_traffic *x = &p->traffic[part];
    return x->crosses ? 0 : 2 * slots_bytes(1, false, x->output);
}

static size_t transit_bytes(const struct plan *p, const struct trainer *t) {
    const struct comm_config *comm = &t->config->comm;
    size_t bytes = 0;
    for (int c = 0; c < t->chunks; c++) {
        int part = c * t->mesh.pipe + t->pipe_rank;
        const struct plan_traffic *x = &p->traffic[part];
        bytes += link_bytes(p, part) + (part > 0 ? link_bytes(p, part - 1) : 0);
        if (c == 0 && x->local > 1)
            bytes += slots_bytes(x->local, x->nodes > 1, x->gradients);
        if (t->options->wire == TRAIN_WIRE_BF16)
            bytes += t->chunk[c].part->model.param_elements * sizeof *t->chunk[c].wire;
    }
    if (t->parts > 1 && comm->local_world > 1) // the buffer that collects checkpoints
        bytes += slots_bytes(comm->local_world, comm->nodes > 1, SIZE_MAX);
    return bytes;
}

// All kinds but transit and the program.
static void count_own(const struct trainer *t, size_t *memory) {
    for (int c = 0; c < t->chunks; c++) {
        const struct network *net = &t->chunk[c].net;
        size_t real = net->k->real_bytes, params = net->model->param_elements * real;
        size_t states = (size_t)net->states * net->state_elements * real;
        memory[PLAN_PARAMETERS] += params;
        memory[PLAN_GRADIENTS] += params;
        memory[PLAN_OPTIMIZER] += states;
        memory[PLAN_ACTIVATIONS] += net->arena_bytes;
        memory[PLAN_WORKSPACE] += net->memory_bytes - 2 * params - states - net->arena_bytes;
    }
    memory[PLAN_WORKSPACE] += t->chunk[0].net.workspace_bytes;
    memory[PLAN_CHECKPOINT] = t->chunk[0].net.copy_bytes;
    if (memory[PLAN_CHECKPOINT])
        memory[PLAN_CHECKPOINT] += largest_tensor(t->model) * sizeof(float);
    memory[PLAN_DATA] = trainer_data_bytes(t);
}

size_t trainer_plan_own_bytes(const struct trainer *t) {
    size_t memory[PLAN_MEMORY_KINDS] = {0}, bytes = 0;
    count_own(t, memory);
    for (int i = 0; i < PLAN_MEMORY_KINDS; i++)
        bytes += memory[i];
    return bytes;
}

static void count_memory(const struct plan *p, const struct trainer *t, struct plan_rank *r) {
    size_t *memory = r->memory;
    count_own(t, memory);
    memory[PLAN_TRANSIT] = transit_bytes(p, t);
    memory[PLAN_PROGRAM] = PROGRAM_BYTES;
    for (int i = 0; i < PLAN_MEMORY_KINDS; i++)
        r->memory_all += memory[i];
    bool recompute = t->options->recompute == TRAIN_RECOMPUTE_BLOCKS;
    for (int c = 0; c < t->chunks; c++) {
        const struct network *net = &t->chunk[c].net;
        r->arena[0] += network_arena_bytes(net, KERNEL_FLOAT, recompute);
        r->arena[1] += network_arena_bytes(net, KERNEL_BF16, recompute);
    }
}

// ---- the run -----------------------------------------------------------------------------------

static struct trainer_config config_of(const struct trainer_config *from,
                                       const struct trainer_plan_request *request, int rank) {
    struct trainer_config c = *from;
    int each = request->ranks_per_node < request->ranks ? request->ranks_per_node : request->ranks;
    c.comm = (struct comm_config){.rank = rank,
                                  .world = request->ranks,
                                  .local_rank = rank % each,
                                  .local_world = each,
                                  .node = rank / each,
                                  .nodes = (request->ranks + each - 1) / each};
    c.say = NULL;
    return c;
}

static void count_layers(struct plan *p) {
    const struct trainer *t = p->t;
    p->layer = heap_alloc((size_t)t->model->layers * sizeof *p->layer);
    for (int i = 0; i < t->model->layers; i++) {
        const struct nn_layer *l = &t->model->layer[i];
        struct plan_layer *to = &p->layer[i];
        enum kernel_type store = layer_store(t->model, i, t->chunk[0].net.store);
        size_t saved =
            l->op->saved_bytes ? l->op->saved_bytes(l, t->micro_batch, sizeof(float), store) : 0;
        layer_cost_of(t->model, i, &to->cost);
        size_t count = (size_t)to->cost.output * (size_t)t->micro_batch;
        to->activation_bytes = (int64_t)(layer_store_bytes(count, sizeof(float), store) + saved);
    }
}

// Layers that run again, as the stages have them.
static void count_again(struct plan *p) {
    const struct trainer *t = p->t;
    struct recompute_layer *layer = heap_alloc(((size_t)t->model->layers + 1) * sizeof *layer);
    for (int part = 0; part < t->parts; part++) {
        const struct nn_model *m = &t->part[part].model;
        int shift = m->first_layer ? m->first_layer - 1 : 0;
        recompute_blocks(m, layer);
        for (int i = 1; i < m->layers; i++) {
            p->layer[i + shift].again = layer[i].again;
            p->layer[i + shift].again_from = layer[i].from ? layer[i].from + shift : 0;
        }
    }
    free(layer);
}

static void count_nodes(const struct plan *p, int part, struct plan_traffic *x) {
    const struct trainer *t = p->t;
    int each = p->request->ranks_per_node, stage = part % t->mesh.pipe, here = 0, last = -1;
    int next = (stage + 1) % t->mesh.pipe;
    for (int d = 0; d < t->mesh.data; d++) { // ranks rise with d
        int node = mesh_rank(&t->mesh, d, stage) / each;
        x->nodes += node != last;
        here = node == last ? here + 1 : 1;
        x->local = here > x->local ? here : x->local;
        last = node;
        x->crosses = x->crosses || mesh_rank(&t->mesh, d, next) / each != node;
    }
}

static void count_traffic(struct plan *p) {
    const struct trainer *t = p->t;
    p->traffic = heap_alloc((size_t)t->parts * sizeof *p->traffic);
    for (int i = 0; i < t->parts; i++) {
        struct plan_traffic *x = &p->traffic[i];
        const struct nn_model *m = &t->part[i].model;
        const struct nn_layer *end = &m->layer[m->layers - 1];
        size_t real = sizeof(float), ranks = (size_t)t->mesh.data;
        size_t wire = t->options->wire == TRAIN_WIRE_BF16 ? real / 2 : real;
        count_nodes(p, i, x);
        x->gradients = t->mesh.data > 1 ? m->param_elements * wire : 0;
        x->sent = x->gradients * (ranks - 1) / ranks;
        x->sent += t->zero ? m->param_elements * real * (ranks - 1) / ranks : x->sent;
        x->output = i < t->parts - 1 ? layer_store_bytes(layer_elements(end, t->micro_batch), real,
                                                         t->chunk[0].net.store)
                                     : 0;
    }
}

static int plan_ranks(struct plan *p, const struct trainer_config *config, struct err *e) {
    struct trainer *t = heap_alloc(sizeof *t);
    int r = 0;
    p->rank = heap_alloc((size_t)p->t->mesh.pipe * sizeof *p->rank);
    for (int i = 0; i < p->t->mesh.pipe && r == 0; i++) {
        int rank = mesh_rank(&p->t->mesh, 0, i);
        const struct trainer_config c = config_of(config, p->request, rank);
        r = open_rank(t, &c, e);
        if (r == 0) {
            p->rank[i].rank = rank;
            count_memory(p, t, &p->rank[i]);
            p->rank[i].program = t->program;
            t->program = (struct step_program){0};
        }
        trainer_close(t);
    }
    free(t);
    return r;
}

// Nodes have as many processors as this computer lets the program use.
static double cpu_load(const struct trainer *t) {
    double load = (double)t->cores.threads * t->config->comm.local_world / CPU_COUNT(&t->allowed);
    return load > 1 ? load : 1;
}

static int make(struct plan *p, const struct trainer_config *config, struct err *e) {
    p->cpu_load = cpu_load(p->t);
    count_layers(p);
    if (p->t->options->recompute == TRAIN_RECOMPUTE_BLOCKS)
        count_again(p);
    count_traffic(p);
    if (plan_ranks(p, config, e) < 0 || trainer_plan_measure(p, e) < 0)
        return -1;
    struct step_forecast_time *time = heap_alloc((size_t)p->t->mesh.pipe * sizeof *time);
    int r = trainer_plan_time(p, NULL, time, e);
    for (int i = 0; i < p->t->mesh.pipe; i++)
        p->rank[i].time = time[i];
    free(time);
    return r;
}

int trainer_plan(const struct trainer_config *config, const struct trainer_plan_request *request,
                 struct strbuf *out, struct err *e) {
    struct trainer *t = heap_alloc(sizeof *t);
    struct plan p = {.request = request, .t = t};
    const struct trainer_config first = config_of(config, request, 0);
    int r = open_rank(t, &first, e);
    if (r == 0)
        r = make(&p, config, e);
    if (r == 0)
        r = trainer_plan_print(&p, out, e);
    for (int i = 0; p.rank && i < t->mesh.pipe; i++)
        program_free(&p.rank[i].program);
    free(p.layer);
    free(p.traffic);
    free(p.rank);
    trainer_close(t);
    free(t);
    return r;
}
