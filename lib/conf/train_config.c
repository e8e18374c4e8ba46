// SPDX-License-Identifier: Apache-2.0
// dttrain's command line.
#include "conf/train_config.h"

#include "base/env.h"
#include "conf/cli.h"
#include "conf/config.h"
#include "sys/file.h"

#include <stddef.h>

#define AT(field) .offset = offsetof(struct train_flags, field)

enum { RANKS_MAX = 4096, RANKS_PER_NODE_MAX = 64 };

static const struct option_row rows[] = {
    {.flag = "config",
     .letter = 'f',
     .type = OPTION_PATH,
     .marks = OPTION_NO_ENV,
     AT(file),
     .arg = "FILE",
     .help = "Configuration: a TOML file with a [train] table."},
    {.flag = "set",
     .type = OPTION_LIST,
     .marks = OPTION_ASSIGN | OPTION_NO_ENV,
     AT(set),
     .arg = "KEY=VALUE",
     .help = "Set a key, such as train.epochs=3; may be repeated."},
    {.flag = "devices",
     .type = OPTION_BOOL,
     .marks = OPTION_NO_ENV,
     AT(devices),
     .text = "false",
     .help = "Print a JSON line for each device of this computer, and for NCCL: whether a run can "
             "use it, or the error of a run that tried. Then end."},
    {.flag = "plan",
     .type = OPTION_BOOL,
     .marks = OPTION_NO_ENV,
     AT(plan),
     .text = "false",
     .help = "Show what the run would take, and end: parameters, activations and work of each "
             "layer, memory of each rank, bytes on the network, and a prediction of the time of a "
             "step from a measurement of the layers on this computer."},
    {.flag = "ranks",
     .type = OPTION_INT,
     .marks = OPTION_NO_ENV,
     AT(ranks),
     .text = "1",
     .min = 1,
     .max = RANKS_MAX,
     .arg = "N",
     .help = "With --plan: ranks of the run."},
    {.flag = "ranks-per-node",
     .type = OPTION_INT,
     .marks = OPTION_NO_ENV,
     AT(ranks_per_node),
     .text = "1",
     .min = 1,
     .max = RANKS_PER_NODE_MAX,
     .arg = "N",
     .help = "With --plan: ranks that share a node like this computer."},
    {.flag = "network",
     .type = OPTION_REAL,
     .marks = OPTION_NO_ENV,
     AT(network),
     .text = "10",
     .min = 0.001,
     .max = 100000,
     .arg = "GBITS",
     .help = "With --plan: Gbit/s between two nodes."},
    {.flag = "json",
     .type = OPTION_BOOL,
     .marks = OPTION_NO_ENV,
     AT(json),
     .text = "false",
     .help = "With --plan: one JSON object instead of text; with --bench: one per size."},
    {.flag = "bench",
     .type = OPTION_CHOICE,
     .choices = train_bench_words,
     .marks = OPTION_NO_ENV,
     AT(bench.kind),
     .text = "none",
     .help = "Measure a collective between the ranks, and end."},
    TRAIN_BENCH_FLAGS(NULL, struct train_flags, bench),
    OPTION_ROW_HELP(AT(help)),
    {.flag = "version",
     .type = OPTION_BOOL,
     .marks = OPTION_NO_ENV,
     AT(version),
     .text = "false",
     .help = "Show the version."},
};

// Known, and not looked into: see options_metrics.c.
static const struct option_row metrics_row[] = {{.key = "metrics", .type = OPTION_MAP}};
static const struct option_table metrics_table = {"Metrics", metrics_row, 1};

static const struct option_table flags_table = {"dttrain", rows, sizeof rows / sizeof rows[0]};

static int read_file(struct option_set *set, const char *name, struct err *e) {
    char *text;
    size_t len;
    if (file_read_piped(set->arena, name, CONFIG_FILE_BYTES_MAX, &text, &len, e) < 0) {
        e->code = ERR_CONFIG;
        return err_wrap(e, "configuration");
    }
    option_set_file(set, name, text, len);
    return 0;
}

int train_bench_check(const struct train_bench_options *options, struct err *e) {
    if (options->bytes_min > options->bytes_max)
        return err_set(e, ERR_USAGE, "--min-bytes %lld is more than --max-bytes %lld",
                       (long long)options->bytes_min, (long long)options->bytes_max);
    return 0;
}

int train_config_load(struct train_config *t, struct train_flags *flags, struct option_set *set,
                      struct arena *a, int argc, const char *const *argv, char *const *env,
                      struct err *e) {
    struct cli_rest rest;
    *t = (struct train_config){0};
    *flags = (struct train_flags){0};
    option_set_init(set, a, "dttrain", "DTCTL_", env);
    option_set_add(set, &flags_table, flags);
    option_set_add(set, &options_train, t);
    option_set_add(set, &options_rate, t);
    option_set_add(set, &options_parallel, t);
    cli_scan(set, NULL, 0, argc, argv, &rest);
    flags->help = cli_has(set, "help", NULL);
    flags->version = cli_has(set, "version", NULL);
    if (flags->help || flags->version)
        return 0;
    if (rest.count || rest.command_count)
        return err_set(e, ERR_USAGE, "'%s': dttrain takes flags only",
                       rest.count ? rest.args[0] : rest.command[0]);
    option_set_add(set, &options_config, NULL); // dtctl's keys are known; its flags are not ours
    option_set_add(set, &metrics_table, NULL);
    option_set_add(set, &options_job, NULL);
    option_set_add(set, &options_torchrun, NULL);
    const char *file;
    if (cli_has(set, "config", &file) && read_file(set, file, e) < 0)
        return -1;
    if (!env_get(env, "RANK"))
        option_set_env(set, env);
    cli_apply(set);
    train_recipe_apply(set);
    return option_set_finish(set, e);
}
