// SPDX-License-Identifier: Apache-2.0
// Fetches results of a run that are on its nodes.
#include "run/results/results_bring.h"

#include "fleet/fleet_runs.h"
#include "run/monitor.h"
#include "run/results/results_owner.h"

int results_bring(struct context *s, const char *id, const struct results_wish *wish,
                  struct run *run, struct err *e) {
    struct run_fleet r;
    int status = 0;
    if (fleet_runs_open(&r, s, id, e) < 0)
        return -1;
    bool rest = results_owner_is_here(s->arena, &r.run);
    unsigned there = r.run.left | (r.run.lost_count ? r.run.lost_kinds : 0);
    unsigned kinds = rest ? wish->kinds & there : wish->kinds | r.run.wanted;
    struct monitor_options o = {.quiet_lines = true,
                                .only_rank = -1,
                                .until_now = true,
                                .again = r.run.fetched,
                                .kinds = &kinds,
                                .rest = rest,
                                .work = wish->work};
    r.run.fetched = rest;
    r.fleet.transfers = true;
    int result = fleet_connect(&r.fleet, true, e);
    if (result == 0)
        result = monitor_run(&r.fleet, &r.run, &o, &status, e);
    fleet_close(&r.fleet);
    *run = r.run;
    return result;
}
