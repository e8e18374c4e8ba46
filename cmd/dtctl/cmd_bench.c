// SPDX-License-Identifier: Apache-2.0
// dtctl bench: measures a collective between the ranks of a run, with the trainer's own program.
#include "cmd_train.h"
#include "command.h"

#include "conf/cli.h"
#include "conf/train_bench.h"

#include <string.h>

enum { WORDS_MAX = 8 };

struct bench_flags {
    struct train_bench_options options;
};

static const struct option_row ROWS[] = {
    TRAIN_BENCH_FLAGS("bench", struct bench_flags, options),
};
static const struct option_table TABLE = {"Bench", ROWS, sizeof ROWS / sizeof ROWS[0]};

// Of the keys of runs, a measurement takes nodes, devices, network and environment alone.
static const struct config *settings(struct context *s, const char *kind) {
    static const char *none[] = {NULL};
    struct config *c = arena_new(s->arena, struct config, 1);
    *c = *s->config;
    c->inputs.count = 0;
    c->hyperparameters.count = 0;
    c->job.files = c->job.command = c->job.after = (struct option_list){.items = none};
    c->job.shell = c->job.task = c->job.env_bundle = c->setup.run = c->output_dir = "";
    c->job.name = arena_printf(s->arena, "bench-%s", kind);
    c->job.max_restarts = c->job.spares = 0;
    c->job.replace_nodes = c->job.detach = c->job.if_changed = c->job.once = false;
    c->compat_sagemaker = false;
    c->train.resume = "never";
    c->train.pipeline = 1;
    return c;
}

static int kind_of(struct context *s, const char *word, int *out, struct err *e) {
    const char *const *kinds = train_bench_words + TRAIN_BENCH_NONE + 1;
    for (int i = 0; kinds[i]; i++)
        if (strcmp(kinds[i], word) == 0) {
            *out = TRAIN_BENCH_NONE + 1 + i;
            return 0;
        }
    return err_set(e, ERR_USAGE,
                   "'%s' is no collective (try: allreduce, all-gather, reduce-scatter or "
                   "sendrecv)%s",
                   word, cli_nearest(s->arena, word, kinds));
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct train_bench_options *options = &((const struct bench_flags *)flags)->options;
    const char *words[WORDS_MAX] = {0};
    struct arena *a = s->arena;
    size_t n = 0;
    int kind = TRAIN_BENCH_NONE;
    if (kind_of(s, rest->args[0], &kind, e) < 0)
        return -1;
    if (train_bench_check(options, e) < 0)
        return -1;
    words[n++] = arena_printf(a, "--bench=%s", train_bench_words[kind]);
    words[n++] = arena_printf(a, "--min-bytes=%lld", (long long)options->bytes_min);
    words[n++] = arena_printf(a, "--max-bytes=%lld", (long long)options->bytes_max);
    words[n++] = arena_printf(a, "--factor=%lld", (long long)options->factor);
    words[n++] = arena_printf(a, "--iterations=%lld", (long long)options->iterations);
    words[n++] = arena_printf(a, "--warmup=%lld", (long long)options->warmup);
    words[n++] = options->check ? "--check" : "--no-check";
    s->config = settings(s, train_bench_words[kind]);
    return cmd_train_request(s, &(struct run_start_request){.bench = words}, e);
}

const struct command cmd_bench = {
    .verb =
        {.name = "bench",
         .summary = "measure a collective between the nodes",
         .args = "allreduce|all-gather|reduce-scatter|sendrecv",
         .text =
             "Runs a collective between all ranks as training does: from GPU to GPU by NCCL, or "
             "through the hosts (train.device, train.collectives). Columns and formulas are those "
             "of nccl-tests, in place, with float numbers: algbw is the size divided by the "
             "time, and busbw is algbw times 2(n-1)/n for allreduce, (n-1)/n for all-gather and "
             "reduce-scatter, and 1 for sendrecv, where every rank sends to the next one. #wrong "
             "counts the numbers of all ranks that are not those expected; the command then "
             "fails. MPI is not needed.",
         .examples = "dtctl bench allreduce   # 1 KiB to 64 MiB over all nodes\n"
                     "dtctl bench allreduce --nodes 2 --min-bytes 1M --max-bytes 1G --factor 4\n"
                     "dtctl bench sendrecv --set train.collectives=host --json\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct bench_flags),
    .args_min = 1,
    .args_max = 1,
    .run = run,
};
