// SPDX-License-Identifier: Apache-2.0
// `dtrun shard-range TOTAL`: this node's part of a range of rows, for programs that divide their
// work by themselves.
#include "verb.h"

#include "base/str.h"
#include "build_info.h"
#include "conf/option.h"

#include <stddef.h>
#include <stdio.h>

enum { PARTS_MAX = 1 << 20 };
#define TOTAL_MAX ((int64_t)1 << 53) // integers that a double holds

static struct shard_range_flags {
    int64_t rank, world;
    bool help;
} flags;

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

// The first row of part i of count: i * total / count, rounded, halves to the even number (as
// Python's round).
static int64_t start_of(int64_t total, int64_t i, int64_t count) {
    __extension__ typedef __int128 wide;
    wide product = (wide)total * i, twice = 2 * (product % count);
    int64_t whole = (int64_t)(product / count);
    return whole + (twice > count || (twice == count && whole % 2 == 1));
}

static int run(const char *const *words, size_t count, struct err *e) {
    int64_t total;
    if (count != 1)
        err_set(e, ERR_USAGE, "give the number of rows (dtrun shard-range --help)");
    else if (str_parse_i64(words[0], 0, TOTAL_MAX, &total, e) < 0)
        err_wrap(e, "the number of rows");
    else if (flags.rank < 0 || flags.world < 1)
        err_set(e, ERR_USAGE, "outside of a run, --rank and --world are needed");
    else if (flags.rank >= flags.world)
        err_set(e, ERR_USAGE, "there is no part %lld of %lld", (long long)flags.rank,
                (long long)flags.world);
    else
        return printf("%lld %lld\n", (long long)start_of(total, flags.rank, flags.world),
                      (long long)start_of(total, flags.rank + 1, flags.world)) < 0 ||
               fflush(stdout) != 0;
    return 2; // every error here is a usage error
}

const struct verb verb_shard_range = {"shard-range", &program, &table, &flags, run};
