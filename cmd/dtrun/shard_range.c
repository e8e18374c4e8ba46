// SPDX-License-Identifier: Apache-2.0
// `dtrun shard-range`: arithmetic and command line.
#include "shard_range.h"

#include "build_info.h"
#include "conf/cli.h"
#include "conf/render.h"

#include <stddef.h>
#include <stdio.h>

enum { PARTS_MAX = 1 << 20 };

struct shard_range_flags {
    int64_t rank, world;
    bool help;
};

#define AT(field) .offset = offsetof(struct shard_range_flags, field)

static const struct option_row rows[] = {
    {.flag = "rank",
     .env = "DTCTL_SHARD_INDEX",
     .type = OPTION_INT,
     AT(rank),
     .text = "-1",
     .min = -1,
     .max = PARTS_MAX - 1,
     .help = "Number of the part, from 0; in a run this node's."},
    {.flag = "world",
     .env = "DTCTL_SHARD_COUNT",
     .type = OPTION_INT,
     AT(world),
     .text = "0",
     .min = 0,
     .max = PARTS_MAX,
     .help = "Number of parts; in a run the number of nodes."},
    OPTION_ROW_HELP(AT(help)),
};
static const struct option_table table = {"shard-range", rows, sizeof rows / sizeof *rows};

static const struct render_program program = {
    .name = "dtrun shard-range",
    .summary = "print this node's part of a range of rows",
    .version = DTCTL_VERSION,
    .synopsis = "[FLAGS] TOTAL",
    .text = "Prints two numbers: the first of this node's rows, counted from 0, and the first row "
            "behind them. Part I of N begins with row round(I * TOTAL / N), halves to the even "
            "number. So no row is missing or double, and the parts differ by one row at most.\n\n"
            "    read -r first end < <(dtrun shard-range 1000)",
};

int64_t shard_range_start(int64_t total, int64_t i, int64_t count) {
    __extension__ typedef __int128 wide;
    wide product = (wide)total * i, twice = 2 * (product % count);
    int64_t whole = (int64_t)(product / count);
    return whole + (twice > count || (twice == count && whole % 2 == 1));
}

static int fail(const struct err *e) {
    fprintf(stderr, "dtrun: shard-range: %s\n", e->text);
    return 2; // every error here is an error of usage
}

static int print_help(const struct option_set *set) {
    struct strbuf text = {0};
    render_help(&text, set, &program, 0);
    fputs(strbuf_cstr(&text), stdout);
    strbuf_fini(&text);
    return 0;
}

int shard_range_run(int argc, const char *const *argv, char *const *env) {
    static struct arena arena; // until the process ends
    struct shard_range_flags flags = {0};
    struct option_set set;
    struct cli_rest rest;
    struct err e;
    int64_t total;
    option_set_init(&set, &arena, "dtrun shard-range", "", env);
    option_set_add(&set, &table, &flags);
    cli_scan(&set, NULL, 0, argc, argv, &rest);
    option_set_env(&set, env);
    cli_apply(&set);
    if (flags.help)
        return print_help(&set);
    if (option_set_finish(&set, &e) < 0)
        return fail(&e);
    if (rest.count + rest.command_count != 1)
        err_set(&e, ERR_USAGE, "give the number of rows (dtrun shard-range --help)");
    else if (str_parse_i64(rest.count ? rest.args[0] : rest.command[0], 0, SHARD_RANGE_TOTAL_MAX,
                           &total, &e) < 0)
        err_wrap(&e, "the number of rows");
    else if (flags.rank < 0 || flags.world < 1)
        err_set(&e, ERR_USAGE, "outside of a run, --rank and --world are needed");
    else if (flags.rank >= flags.world)
        err_set(&e, ERR_USAGE, "there is no part %lld of %lld", (long long)flags.rank,
                (long long)flags.world);
    else
        return printf("%lld %lld\n", (long long)shard_range_start(total, flags.rank, flags.world),
                      (long long)shard_range_start(total, flags.rank + 1, flags.world)) < 0 ||
               fflush(stdout) != 0;
    return fail(&e);
}
