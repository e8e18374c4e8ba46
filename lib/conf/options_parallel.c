// SPDX-License-Identifier: Apache-2.0
// The native trainer's options for more than one rank: pipelines, the places of ranks, and traffic
// on the network. SageMaker's words for the same things are taken as well.
#include "base/str.h"
#include "conf/train_config.h"

#include <stddef.h>
#include <string.h>

#define AT(field) .offset = offsetof(struct train_config, field)

enum { PIPELINE_MAX = 1024, MICROBATCHES_MAX = 4096, CHUNKS_MAX = 16 };

static const struct {
    const char *word;
    enum train_pipe order;
} orders[] = {
    {"gpipe", TRAIN_PIPE_GPIPE},
    {"1f1b", TRAIN_PIPE_1F1B},
    {"simple", TRAIN_PIPE_GPIPE},     // SageMaker: all forward, then all backward
    {"interleaved", TRAIN_PIPE_1F1B}, // SageMaker: backward whenever there is one to do
};

static int parse_order(const char *text, enum train_pipe *order, int *chunks, struct err *e) {
    static const char several[] = "interleaved:";
    struct err ignored;
    int64_t number;
    *chunks = 1;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (str_eq(text, orders[i].word)) {
            *order = orders[i].order;
            return 0;
        }
    if (!str_starts(text, several) ||
        str_parse_i64(text + sizeof several - 1, 2, CHUNKS_MAX, &number, &ignored) < 0)
        return err_set(
            e, ERR_CONFIG,
            "'%s' is neither gpipe, 1f1b nor interleaved:V with V from 2 to %d stages of "
            "each rank; of SageMaker's words, simple is gpipe and interleaved is 1f1b",
            text, CHUNKS_MAX);
    *order = TRAIN_PIPE_INTERLEAVED;
    *chunks = (int)number;
    return 0;
}

// Two per rank of the pipeline keep most of the ranks busy most of the time; more would make the
// kernels' batches small.
static int64_t choose_micros(const struct train_config *o) {
    if (o->microbatches || o->pipeline == 1)
        return o->microbatches ? o->microbatches : 1;
    int64_t n = 2 * o->pipeline;
    while (n < o->batch && o->batch % n)
        n++;
    return n < o->batch ? n : o->batch;
}

static int check_micros(const struct train_config *o, const struct train_parallel *p,
                        struct err *e) {
    int64_t micros = p->micros;
    if (o->batch % micros)
        return err_set(e, ERR_CONFIG,
                       "train.batch is %lld, which train.microbatches, %lld, does not divide",
                       (long long)o->batch, (long long)micros);
    if (p->chunks > 1 && micros * o->accumulate % p->pipe)
        return err_set(e, ERR_CONFIG,
                       "train.pipeline_schedule %s needs a multiple of train.pipeline, %d, "
                       "micro-batches in each step, not %lld (try: train.microbatches=%d)",
                       o->pipeline_schedule, p->pipe, (long long)(micros * o->accumulate),
                       2 * p->pipe);
    return 0;
}

// Modes that need the gradients, or the weights, of all ranks in every step.
static int check_local(const struct train_config *o, struct err *e) {
    const struct {
        bool given;
        const char *key, *why;
    } others[] = {
        {o->pipeline > 1, "pipeline", "each rank needs the whole model to train alone"},
        {o->zero == TRAIN_ZERO_ON, "zero",
         "each rank needs the whole optimizer state to train alone"},
        {o->ema > 0, "ema", "each rank would have another average"},
        {o->lookahead > 0, "lookahead", "each rank would have other slow weights"},
    };
    for (size_t i = 0; o->local_steps > 1 && i < sizeof others / sizeof *others; i++)
        if (others[i].given)
            return err_set(e, ERR_CONFIG,
                           "train.%s does not go with train.local_steps: %s (try: "
                           "train.local_steps=0)",
                           others[i].key, others[i].why);
    return 0;
}

int train_parallel(const struct train_config *o, int world, struct train_parallel *out,
                   struct err *e) {
    *out = (struct train_parallel){.pipe = (int)o->pipeline, .micros = (int)choose_micros(o)};
    if (parse_order(o->pipeline_schedule, &out->order, &out->chunks, e) < 0)
        return -1;
    if (world % out->pipe)
        return err_set(e, ERR_CONFIG,
                       "train.pipeline is %d, and %d rank%s cannot be divided by it (try: %d "
                       "ranks, with --nodes or --nproc-per-node)",
                       out->pipe, world, str_plural(world), (world / out->pipe + 1) * out->pipe);
    if (o->zero == TRAIN_ZERO_ON && (o->ema > 0 || o->lookahead > 0))
        return err_set(e, ERR_CONFIG,
                       "train.%s does not go with train.zero: no rank has the whole average",
                       o->ema > 0 ? "ema" : "lookahead");
    if (check_local(o, e) < 0)
        return -1;
    if (out->pipe == 1 && out->chunks > 1)
        return err_set(e, ERR_CONFIG,
                       "train.pipeline_schedule %s needs train.pipeline of 2 or more",
                       o->pipeline_schedule);
    size_t stages = (size_t)out->pipe * (size_t)out->chunks;
    if (o->cuts.count && o->cuts.count != stages - 1)
        return err_set(e, ERR_CONFIG,
                       "train.pipeline_cuts names %zu layer%s; %zu stages begin with %zu of them",
                       o->cuts.count, str_plural(o->cuts.count), stages, stages - 1);
    return check_micros(o, out, e);
}

static int check_schedule(const char *text, struct err *e) {
    enum train_pipe order;
    int chunks;
    return parse_order(text, &order, &chunks, e);
}

static const struct option_row rows[] = {
    {.key = "train.pipeline",
     .flag = "pipeline",
     .verbs = "train",
     .type = OPTION_INT,
     AT(pipeline),
     .text = "1",
     .min = 1,
     .max = PIPELINE_MAX,
     .help = "Number of ranks that share one model, each with one stage of its layers. Further "
             "ranks are copies of that pipeline, each with its own part of the data."},
    {.key = "train.partitions",
     .type = OPTION_INT,
     .marks = OPTION_HIDDEN,
     AT(pipeline),
     .text = "1",
     .min = 1,
     .max = PIPELINE_MAX,
     .help = "SageMaker's name of train.pipeline."},
    {.key = "train.microbatches",
     .type = OPTION_INT,
     AT(microbatches),
     .text = "0",
     .min = 0,
     .max = MICROBATCHES_MAX,
     .help = "Number of micro-batches of each batch, which pass through the pipeline one after "
             "another (batch norm uses each separately); 0: two per rank of the pipeline, or as "
             "many as divide the batch."},
    {.key = "train.pipeline_schedule",
     .type = OPTION_STRING,
     AT(pipeline_schedule),
     .text = "1f1b",
     .check = check_schedule,
     .arg = "gpipe|1f1b|interleaved:V",
     .help =
         "Order of the passes: gpipe runs all micro-batches forward, then all backward; 1f1b runs "
         "backward as early as possible and keeps fewer activations; interleaved:V gives each rank "
         "V stages and idles less. SageMaker's simple is gpipe, its interleaved is 1f1b."},
    {.key = "train.pipeline_cuts",
     .type = OPTION_LIST,
     AT(cuts),
     .arg = "LAYER,LAYER,…",
     .help = "First layers, or blocks of layers, of the second and later stages, such as "
             "layer2.0,layer4.0; empty: stages of equal work."},
    {.key = "train.placement",
     .type = OPTION_CHOICE,
     AT(placement),
     .text = "packed",
     .choices = train_placement_words,
     .help = "Placement of a pipeline's ranks: packed, neighbouring ranks, so that activations "
             "stay on a node; spread, as far apart as possible, so that gradients of one stage "
             "stay on a node. SageMaker's cluster is packed."},
    {.key = "train.placement_strategy",
     .type = OPTION_CHOICE,
     .marks = OPTION_HIDDEN,
     AT(placement),
     .text = "packed",
     .choices = train_placement_words,
     .help = "SageMaker's name of train.placement."},
    {.key = "train.zero",
     .type = OPTION_CHOICE,
     AT(zero),
     .text = "auto",
     .choices = train_zero_words,
     .help = "Each rank keeps the optimizer state of a part of the parameters and updates that "
             "part (ZeRO stage 1): less memory, the same results. auto: where all ranks are "
             "processors of one node, and no average of weights is kept."},
    {.key = "train.local_steps",
     .type = OPTION_INT,
     AT(local_steps),
     .text = "0",
     .min = 0,
     .max = 1000000,
     .arg = "STEPS",
     .help = "Number of optimizer steps that each rank takes by itself in a round; at its end the "
             "ranks average the change of their parameters, and an outer optimizer applies it "
             "(DiLoCo). Far fewer bytes on slow networks, other results; 0 or 1: gradients are "
             "averaged in every step."},
    {.key = "train.outer_lr",
     .type = OPTION_REAL,
     AT(outer_lr),
     .text = "0.7",
     .min = 1e-6,
     .max = 100,
     .help = "Learning rate of the outer optimizer of train.local_steps; 1 with "
             "train.outer_momentum 0 takes the mean of the ranks' parameters, as suits rounds of "
             "few steps."},
    {.key = "train.outer_momentum",
     .type = OPTION_REAL,
     .marks = OPTION_OPEN_MAX,
     AT(outer_momentum),
     .text = "0.9",
     .min = 0,
     .max = 1,
     .help = "Momentum of the outer optimizer of train.local_steps, in Nesterov's form."},
    {.key = "train.recompute",
     .type = OPTION_CHOICE,
     AT(recompute),
     .text = "none",
     .choices = train_recompute_words,
     .help = "Activation recomputation (PyTorch's and SageMaker's activation checkpointing): none "
             "keeps the activations of all layers for the backward pass; blocks keeps those "
             "between the blocks of the model and computes the others again: less memory, more "
             "time, the same results."},
    {.key = "train.wire",
     .type = OPTION_CHOICE,
     AT(wire),
     .text = "f32",
     .choices = train_wire_words,
     .help = "Type of gradients in transit, or of changes with train.local_steps; bf16 needs half "
             "the bytes and rounds each number to 8 bits of mantissa before the sum."},
    {.key = "train.collectives",
     .type = OPTION_CHOICE,
     AT(collectives),
     .text = "auto",
     .choices = train_collectives_words,
     .help = "Way of gradients between GPUs: nccl, from GPU to GPU by libnccl.so.2 (2.18 or newer, "
             "found beside the program, as DTCTL_NCCL, with CUDA, by the loader or with PyTorch); "
             "host, through the memory of the hosts; auto, nccl where every rank has it."},
    {.key = "train.graph",
     .type = OPTION_CHOICE,
     AT(graph),
     .text = "auto",
     .choices = train_graph_words,
     .help = "Step of a GPU as one CUDA graph: captured once and launched again, so that the "
             "processor starts one graph and not hundreds of kernels: auto, where the driver and "
             "the run allow; on, or the run ends; off, kernel by kernel with the same numbers."},
};

const struct option_table options_parallel = {"Native trainer, parallel modes", rows,
                                              sizeof rows / sizeof rows[0]};
const struct option_table *const train_tables[] = {&options_train, &options_rate, &options_parallel,
                                                   NULL};
