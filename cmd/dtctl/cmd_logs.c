// SPDX-License-Identifier: Apache-2.0
// dtctl logs: prints the output of a run's ranks, from the beginning or as it comes.
#include "command.h"

#include "base/clock.h"
#include "fleet/fleet_runs.h"
#include "follow/log_since.h"
#include "follow/log_tail.h"
#include "run/monitor.h"

#include <unistd.h>

struct logs_flags {
    bool follow, timestamps;
    int64_t rank, tail;
    const char *node, *since;
};

static const struct option_row ROWS[] = {
    {.flag = "follow",
     .letter = 'f',
     .verbs = "logs",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct logs_flags, follow),
     .marks = OPTION_NO_ENV,
     .help = "Follow the run until it is over, then fetch its results."},
    {.flag = "rank",
     .verbs = "logs",
     .type = OPTION_INT,
     .text = "-1",
     .min = -1,
     .max = 1000000,
     .offset = offsetof(struct logs_flags, rank),
     .marks = OPTION_NO_ENV,
     .arg = "RANK",
     .help = "Only this rank; -1: all."},
    {.flag = "tail",
     .verbs = "logs",
     .type = OPTION_INT,
     .text = "-1",
     .min = -1,
     .max = TAIL_LINES_MAX,
     .offset = offsetof(struct logs_flags, tail),
     .marks = OPTION_NO_ENV,
     .arg = "N",
     .help =
         "Of the output so far, only the last N lines of each rank's stdout and stderr; -1: all."},
    {.flag = "since",
     .verbs = "logs",
     .type = OPTION_STRING,
     .arg = "TIME",
     .offset = offsetof(struct logs_flags, since),
     .marks = OPTION_NO_ENV,
     .help = "Only lines written since TIME: an age (10m, 1h30m) or a time (14:05, "
             "2026-01-02T14:05:06Z). Nodes record the time once a second at first, and less often "
             "in long runs, so a few earlier lines may be shown."},
    {.flag = "timestamps",
     .letter = 't',
     .verbs = "logs",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct logs_flags, timestamps),
     .marks = OPTION_NO_ENV,
     .help = "Begin each line with the time at which it was written (UTC). Nodes record the time "
             "once a second at first, and less often in long runs."},
    {.flag = "node",
     .verbs = "logs",
     .type = OPTION_STRING,
     .arg = "NODE",
     .offset = offsetof(struct logs_flags, node),
     .marks = OPTION_NO_ENV,
     .help = "Only this node."},
};
static const struct option_table TABLE = {"Logs", ROWS, sizeof ROWS / sizeof ROWS[0]};

// With -f and --tail: first the last lines so far, then every new line.
static int monitor(struct run_fleet *r, struct monitor_options *o, bool follow, int *status,
                   struct err *e) {
    if (!follow || !o->tail)
        return monitor_run(&r->fleet, &r->run, o, status, e);
    o->until_now = o->goes_on = true;
    if (monitor_run(&r->fleet, &r->run, o, status, e) < 0)
        return -1;
    if (run_is_over(&r->run))
        return 0; // the run has ended, and its end was printed
    o->tail = o->replay = o->until_now = o->goes_on = false;
    return monitor_run(&r->fleet, &r->run, o, status, e);
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct logs_flags *f = flags;
    struct run_fleet r;
    int status = 0;
    struct monitor_options o = {
        .only_node = f->node && f->node[0] ? f->node : NULL,
        .only_rank = (int)f->rank,
        .replay = true,
        .timestamps = f->timestamps,
        .reader = true,
        .tail = f->tail >= 0,
        .tail_lines = f->tail >= 0 ? (size_t)f->tail : 0,
        .until_now = !f->follow,
        .interactive = isatty(STDIN_FILENO) && isatty(STDERR_FILENO),
    };
    if (f->since && f->since[0] && log_since_parse(f->since, clock_wall_ms(), &o.since_ms, e) < 0)
        return err_wrap(e, "--since");
    if (fleet_runs_open_or_here(&r, s, rest->count ? rest->args[0] : NULL, e) < 0)
        return -1;
    size_t *indices = NULL, count = 0;
    if (o.only_node &&
        inventory_select(s->arena, &r.inventory, o.only_node, &indices, &count, e) < 0)
        return -1;
    if (o.only_node && count != 1)
        return err_set(e, ERR_USAGE, "logs shows one node or all; '%s' are %zu", o.only_node,
                       count);
    if (o.only_node)
        o.only_node = r.inventory.nodes[indices[0]].name;
    int result = 0;
    // No connection is needed if the run has ended and its logs are on this side.
    unsigned kinds = r.run.wanted | RESULT_LOGS;
    o.kinds = &kinds;
    if (!(run_is_over(&r.run) && r.run.fetched && !(r.run.left & RESULT_LOGS)))
        result = fleet_connect(&r.fleet, true, e);
    else
        o.offline = true;
    if (result == 0)
        result = monitor(&r, &o, f->follow && !o.offline, &status, e);
    fleet_close(&r.fleet);
    return result < 0 ? -1 : status;
}

const struct command cmd_logs = {
    .verb = {.name = "logs",
             .summary = "show the output of a run's ranks",
             .args = "[RUN]",
             .text = "Shows the output of every rank of a run (by default the newest), each line "
                     "with its node and rank. With -f it follows the run until it is over, as "
                     "train does; Ctrl-C does not stop the run.",
             .examples = "dtctl logs -f   # the newest run, live\n"
                         "dtctl logs -f --tail 10   # its last lines, then new ones\n"
                         "dtctl logs --since 10m   # what was written in the last ten minutes\n"
                         "dtctl logs --rank 0 RUN   # one rank of a certain run\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct logs_flags),
    .args_max = 1,
    .run = run,
};
