// SPDX-License-Identifier: Apache-2.0
// A plan as text for people, or as one JSON object.
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "trainer/trainer_plan_impl.h"

#include <math.h>
#include <stdlib.h>

static const char *const memory_names[] = {
#define X(name, word) word,
    PLAN_MEMORIES(X)
#undef X
};

enum bound { BOUND_COMPUTE, BOUND_STAGES, BOUND_NETWORK, BOUNDS };
static const char *const bound_names[BOUNDS] = {"compute", "stages", "network"};
static const char *const bound_texts[BOUNDS] = {
    "computation", "waits between the stages of the pipeline (the bubble)",
    "waits for gradients or parameters of other ranks"};

// The rank that is busiest decides.
static const struct step_forecast_time *busiest(const struct plan *p) {
    const struct step_forecast_time *most = &p->rank[0].time;
    for (int i = 1; i < p->t->mesh.pipe; i++)
        most = p->rank[i].time.compute > most->compute ? &p->rank[i].time : most;
    return most;
}

static enum bound bound_of(const struct step_forecast_time *x) {
    if (x->compute >= x->stages && x->compute >= x->network)
        return BOUND_COMPUTE;
    return x->stages >= x->network ? BOUND_STAGES : BOUND_NETWORK;
}

// Share of the step in which the ranks of a pipeline wait for each other.
static double bubble(const struct plan *p) {
    double waits = 0;
    for (int i = 0; i < p->t->mesh.pipe; i++)
        waits += p->rank[i].time.stages;
    double all = p->rank[0].time.step * p->t->mesh.pipe;
    return all > 0 ? waits / all : 0;
}

static int64_t rank_images(const struct plan *p) { // of a data-parallel rank in a step
    return p->t->options->batch * p->t->options->accumulate;
}

static double step_images(const struct plan *p) {
    return (double)(rank_images(p) * p->t->mesh.data);
}

static double sample_flop(const struct plan *p) {
    double flop = 0;
    for (int i = 0; i < p->t->model->layers; i++)
        flop += (double)p->layer[i].cost.flop;
    return flop;
}

static double sample_flop_again(const struct plan *p) {
    double flop = 0;
    for (int i = 0; i < p->t->model->layers; i++)
        if (p->layer[i].again)
            flop += (double)p->layer[i].cost.forward_flop;
    return flop;
}

// Bytes that a step reads and writes if each kernel and the optimizer touch their numbers once.
static double step_moved_bytes(const struct plan *p) {
    double numbers =
        (double)p->t->model->param_count * (3 + 2 * optimizer_inner(&p->t->chunk[0].optimizer));
    for (int i = 0; i < p->t->model->layers; i++) {
        const struct layer_cost *c = &p->layer[i].cost;
        numbers += (double)c->moved * step_images(p) + 3 * (double)c->weights;
    }
    return numbers * sizeof(float);
}

static int stage_of(const struct plan *p, int layer) {
    int stage = 0;
    while (stage + 1 < p->t->parts && p->t->part[stage + 1].model.first_layer <= layer)
        stage++;
    return stage;
}

// ---- GPUs --------------------------------------------------------------------------------------

struct gpu_line {
    const struct step_forecast_gpu *gpu;
    double step_s;
    enum train_dtype dtype;
    bool fits;
};

// Of the rank that needs most.
static size_t device_bytes(const struct plan *p, const struct step_forecast_gpu *gpu) {
    size_t most = 0;
    for (int r = 0; r < p->t->mesh.pipe; r++) {
        const size_t *m = p->rank[r].memory;
        size_t all = m[PLAN_PARAMETERS] + m[PLAN_GRADIENTS] + m[PLAN_OPTIMIZER] +
                     p->rank[r].arena[trainer_plan_keeps(p, gpu)];
        most = all > most ? all : most;
    }
    return most;
}

static int gpu_lines(struct plan *p, struct gpu_line *line, int room, struct err *e) {
    enum train_dtype dtype = (enum train_dtype)p->t->options->dtype;
    struct step_forecast_time *time = heap_alloc((size_t)p->t->mesh.pipe * sizeof *time);
    int count = 0, r = 0;
    for (const struct step_forecast_gpu *g = step_forecast_gpus; g->name && r == 0; g++) {
        must(count < room);
        r = trainer_plan_time(p, g, time, e);
        line[count++] =
            (struct gpu_line){.gpu = g,
                              .step_s = time->step,
                              .dtype = step_forecast_dtype(g, dtype),
                              .fits = (double)device_bytes(p, g) <= g->memory_gib * 0x1p30};
    }
    free(time);
    return r < 0 ? -1 : count;
}

// ---- text --------------------------------------------------------------------------------------

static const char *bytes_text(struct arena *a, size_t bytes) {
    char text[STR_HUMAN_BYTES_MAX];
    return arena_strdup(a, str_human_bytes(text, bytes));
}

static void print_run(const struct plan *p, struct strbuf *out) {
    const struct trainer *t = p->t;
    const struct trainer_plan_request *q = p->request;
    strbuf_addf(out, "model    %s, %zu parameters, %d classes, images of %dx%d\n", t->model->text,
                t->model->param_count, t->model->classes, t->train.width, t->train.height);
    strbuf_addf(out, "data     %s, %u training and %u test images\n", t->train.kind,
                t->train.samples, t->test.samples);
    strbuf_addf(out, "ranks    %d, %d on a node: %d-fold data parallel", q->ranks,
                t->config->comm.local_world, t->mesh.data);
    if (t->mesh.pipe > 1)
        strbuf_addf(out, ", pipelines of %d ranks and %d stages, %s", t->mesh.pipe, t->parts,
                    t->options->pipeline_schedule);
    strbuf_addf(out, "%s\n", t->zero ? ", sharded update" : "");
    strbuf_addf(out, "step     %.0f images, %lld on each %s in %lld micro-batch%s of %d\n",
                step_images(p), (long long)rank_images(p), t->mesh.pipe > 1 ? "pipeline" : "rank",
                (long long)t->options->accumulate * t->micros,
                t->options->accumulate * t->micros == 1 ? "" : "es", t->micro_batch);
}

static void print_layers(const struct plan *p, struct strbuf *out) {
    const struct trainer *t = p->t;
    struct arena a = {0};
    strbuf_addf(out, "\n%-5s %-28s %11s %11s %9s %9s\n", "stage", "layer", "parameters",
                "activations", "MFLOP", "ms");
    for (int i = 1; i < t->model->layers; i++) {
        const struct plan_layer *l = &p->layer[i];
        strbuf_addf(out, "%-5d %-28s %11lld %11s %9.1f %9.3f\n", stage_of(p, i) + 1,
                    t->model->layer[i].name, (long long)l->cost.weights,
                    bytes_text(&a, (size_t)l->activation_bytes),
                    (double)l->cost.flop * t->micro_batch / 1e6,
                    (l->forward_s + l->backward_s) * t->micro_batch * 1e3);
    }
    strbuf_addf(out,
                "      of a micro-batch, both ways; ms: measured here with %d image%s and %d "
                "thread%s, kernels %s\n",
                p->measured_n, str_plural(p->measured_n), t->cores.threads,
                str_plural(t->cores.threads), t->chunk[0].net.k->isa(t->chunk[0].net.ctx));
    double again = sample_flop_again(p);
    if (again > 0)
        strbuf_addf(out, "      and %.1f MFLOP, %.0f %%, for activations that are computed again\n",
                    again * t->micro_batch / 1e6, 100 * again / sample_flop(p));
    arena_fini(&a);
}

static void print_memory(const struct plan *p, struct strbuf *out) {
    struct arena a = {0};
    strbuf_addf(out, "\nmemory of a rank\n%-5s", "rank");
    for (int i = 0; i < PLAN_MEMORY_KINDS; i++)
        strbuf_addf(out, " %11s", memory_names[i]);
    strbuf_addf(out, " %11s\n", "all");
    for (int r = 0; r < p->t->mesh.pipe; r++) {
        strbuf_addf(out, "%-5d", p->rank[r].rank);
        for (int i = 0; i < PLAN_MEMORY_KINDS; i++)
            strbuf_addf(out, " %11s", bytes_text(&a, p->rank[r].memory[i]));
        strbuf_addf(out, " %11s\n", bytes_text(&a, p->rank[r].memory_all));
    }
    if (p->t->mesh.data > 1 && p->t->config->comm.local_world > p->t->mesh.pipe)
        strbuf_adds(out, "      the first rank of a node; the others have no checkpoint\n");
    if (!p->t->train.store)
        strbuf_adds(out, "      without the data, which is not on this computer\n");
    arena_fini(&a);
}

// The bytes of a step in the mean: gradients are averaged in each step, or in each round.
static size_t step_bytes(const struct plan *p, size_t sent) {
    int64_t steps = p->t->round.steps;
    return steps ? sent / (size_t)steps : sent;
}

static void print_traffic(const struct plan *p, struct strbuf *out) {
    const struct trainer *t = p->t;
    struct arena a = {0};
    if (p->request->ranks == 1)
        return;
    if (t->round.steps)
        strbuf_addf(out, "\nin each round of %lld steps\n", (long long)t->round.steps);
    else
        strbuf_addf(out, "\nin each step\n");
    for (int i = 0; i < t->parts; i++) {
        const struct plan_traffic *x = &p->traffic[i];
        if (x->gradients)
            strbuf_addf(out, "stage %d: %s of %s in %d bucket%s, each of %d ranks sends %s\n",
                        i + 1, t->zero ? "reduce-scatter and all-gather" : "all-reduce",
                        bytes_text(&a, x->gradients), t->part[i].buckets.count,
                        str_plural(t->part[i].buckets.count), t->mesh.data,
                        bytes_text(&a, x->sent));
        if (x->gradients && t->round.steps)
            strbuf_addf(out, "stage %d: %s of that for each step\n", i + 1,
                        bytes_text(&a, step_bytes(p, x->sent)));
        if (x->output)
            strbuf_addf(out, "stage %d: %lld times %s to stage %d, and as much back%s\n", i + 1,
                        (long long)t->options->accumulate * t->micros, bytes_text(&a, x->output),
                        i + 2, x->crosses ? ", over the network" : "");
    }
    arena_fini(&a);
}

static void print_time(const struct plan *p, struct strbuf *out) {
    const struct step_forecast_time *x = busiest(p);
    double step = x->step > 0 ? x->step : 1;
    strbuf_addf(out,
                "\npredicted, not measured: %.1f ms a step, %.1f images/s, %.1f GFLOP/s a rank\n",
                x->step * 1e3, step_images(p) / step,
                sample_flop(p) * step_images(p) / step / p->request->ranks / 1e9);
    strbuf_addf(out,
                "the busiest rank computes %.1f ms, waits %.1f ms for other stages and %.1f ms for "
                "the network\n",
                x->compute * 1e3, x->stages * 1e3, x->network * 1e3);
    if (p->t->mesh.pipe > 1)
        strbuf_addf(out, "all ranks of a pipeline wait %.0f %% of the time for each other\n",
                    100 * bubble(p));
    strbuf_addf(out, "bound by %s\n", bound_texts[bound_of(x)]);
    if (p->cpu_load > 1)
        strbuf_addf(out, "threads of %d ranks share the processors of a node: %.1f for each\n",
                    p->t->config->comm.local_world, p->cpu_load);
    if (p->request->ranks > p->t->config->comm.local_world)
        strbuf_addf(out, "nodes like this computer, %g Gbit/s between them (--network)\n",
                    p->request->network_bits_per_s / 1e9);
}

static void print_gpus(const struct plan *p, const struct gpu_line *line, int count,
                       struct strbuf *out) {
    if (count)
        strbuf_adds(out, "\non GPUs a step takes at least, from data sheets, never measured:\n");
    for (int i = 0; i < count; i++)
        strbuf_addf(out, "%-5s %9.2f ms %9.0f images/s  %s%s\n", line[i].gpu->name,
                    line[i].step_s * 1e3, step_images(p) / line[i].step_s,
                    train_dtype_words[line[i].dtype],
                    line[i].fits ? "" : ", which has too little memory");
}

// ---- JSON --------------------------------------------------------------------------------------

static void json_layers(const struct plan *p, struct json_out *j) {
    const struct trainer *t = p->t;
    json_array(j, "layers");
    for (int i = 1; i < t->model->layers; i++) {
        const struct plan_layer *l = &p->layer[i];
        json_object(j, NULL);
        json_str(j, "name", t->model->layer[i].name);
        json_int(j, "stage", stage_of(p, i));
        json_int(j, "parameters", l->cost.weights);
        json_int(j, "activation_bytes", l->activation_bytes);
        json_bool(j, "recomputed", l->again);
        json_int(j, "flop", l->cost.flop * t->micro_batch);
        json_num(j, "forward_ms", l->forward_s * t->micro_batch * 1e3);
        json_num(j, "backward_ms", l->backward_s * t->micro_batch * 1e3);
        json_end(j);
    }
    json_end(j);
}

static void json_ranks(const struct plan *p, struct json_out *j) {
    json_array(j, "ranks");
    for (int r = 0; r < p->t->mesh.pipe; r++) {
        const struct plan_rank *x = &p->rank[r];
        json_object(j, NULL);
        json_int(j, "rank", x->rank);
        json_object(j, "memory_bytes");
        for (int i = 0; i < PLAN_MEMORY_KINDS; i++)
            json_int(j, memory_names[i], (int64_t)x->memory[i]);
        json_int(j, "all", (int64_t)x->memory_all);
        json_end(j);
        json_num(j, "compute_ms", x->time.compute * 1e3);
        json_num(j, "stages_ms", x->time.stages * 1e3);
        json_num(j, "network_ms", x->time.network * 1e3);
        json_end(j);
    }
    json_end(j);
}

static void json_stages(const struct plan *p, struct json_out *j) {
    json_array(j, "stages");
    for (int i = 0; i < p->t->parts; i++) {
        const struct plan_traffic *x = &p->traffic[i];
        json_object(j, NULL);
        json_int(j, "parameters", (int64_t)p->t->part[i].model.param_count);
        json_int(j, "reduced_bytes", (int64_t)x->gradients);
        json_int(j, "reduced_sent_bytes", (int64_t)x->sent);
        json_int(j, "step_sent_bytes", (int64_t)step_bytes(p, x->sent));
        json_int(j, "output_bytes", (int64_t)x->output);
        json_end(j);
    }
    json_end(j);
}

static void print_json(const struct plan *p, const struct gpu_line *line, int count,
                       struct strbuf *out) {
    const struct step_forecast_time *x = busiest(p);
    struct json_out j;
    json_open(&j, out);
    json_object(&j, NULL);
    json_str(&j, "model", p->t->model->text);
    json_int(&j, "parameters", (int64_t)p->t->model->param_count);
    json_int(&j, "world_size", p->request->ranks);
    json_int(&j, "step_images", (int64_t)step_images(p));
    if (p->t->round.steps)
        json_int(&j, "local_steps", p->t->round.steps);
    json_num(&j, "step_flop", sample_flop(p) * step_images(p));
    json_num(&j, "step_moved_bytes", step_moved_bytes(p));
    json_num(&j, "recompute_flop", sample_flop_again(p) * step_images(p));
    json_int(&j, "measured_images", p->measured_n);
    json_num(&j, "predicted_step_ms", x->step * 1e3);
    json_num(&j, "threads_per_cpu", p->cpu_load);
    json_num(&j, "bubble", bubble(p));
    json_str(&j, "bound", bound_names[bound_of(x)]);
    json_layers(p, &j);
    json_stages(p, &j);
    json_ranks(p, &j);
    json_array(&j, "gpus_never_measured");
    for (int i = 0; i < count; i++) {
        json_object(&j, NULL);
        json_str(&j, "name", line[i].gpu->name);
        json_str(&j, "dtype", train_dtype_words[line[i].dtype]);
        json_num(&j, "least_step_ms", line[i].step_s * 1e3);
        json_bool(&j, "fits", line[i].fits);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
    strbuf_addc(out, '\n');
}

int trainer_plan_print(struct plan *p, struct strbuf *out, struct err *e) {
    enum { GPUS_MAX = 16 };
    struct gpu_line line[GPUS_MAX];
    int count = gpu_lines(p, line, GPUS_MAX, e);
    if (count < 0)
        return -1;
    if (p->request->json) {
        print_json(p, line, count, out);
        return 0;
    }
    print_run(p, out);
    print_layers(p, out);
    print_memory(p, out);
    print_traffic(p, out);
    print_time(p, out);
    print_gpus(p, line, count, out);
    return 0;
}
