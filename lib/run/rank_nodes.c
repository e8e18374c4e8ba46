// SPDX-License-Identifier: Apache-2.0
// Finds the nodes of ranks of an active run.
#include "run/rank_nodes.h"

#include "base/str.h"
#include "fleet/fleet_runs.h"
#include "sys/file.h"

#include <string.h>

// True for an active run of this cluster. Hosts may also run those of other clusters.
static bool goes_on(const struct context *s, const struct node_run *r) {
    return !r->over && r->ranks_running > 0 && file_exists(cluster_run_dir(&s->cluster, r->run));
}

static int only_run(const struct context *s, const struct node_runs *runs, const char **run,
                    struct err *e) {
    *run = NULL;
    for (size_t i = 0; i < runs->count; i++) {
        if (!goes_on(s, &runs->items[i]) || str_eq(*run, runs->items[i].run))
            continue;
        if (*run)
            return err_set(e, ERR_USAGE,
                           "more than one run is active: '%s' and '%s' (try: --run RUN)", *run,
                           runs->items[i].run);
        *run = runs->items[i].run;
    }
    return *run ? 0 : err_set(e, ERR_NOT_FOUND, "no run is active, so no node holds a rank");
}

static bool holds(const struct node_run *r, int64_t rank) {
    for (int i = 0; i < r->ranks_running; i++)
        if (r->running[i] == rank)
            return true;
    return false;
}

// The newest round. A node that was cut off still reports an older round.
static int newest_round(const struct node_runs *runs, const char *run) {
    int round = -1;
    for (size_t i = 0; i < runs->count; i++)
        if (strcmp(runs->items[i].run, run) == 0 && runs->items[i].round > round)
            round = runs->items[i].round;
    return round;
}

static int not_found(const struct fleet *f, const struct node_runs *runs, const char *run,
                     int round, int64_t rank, struct err *e) {
    int highest = -1, running = 0;
    for (size_t i = 0; i < runs->count; i++)
        for (int k = 0; k < runs->items[i].ranks_running; k++)
            if (strcmp(runs->items[i].run, run) == 0 && runs->items[i].round == round) {
                running++;
                highest = runs->items[i].running[k] > highest ? runs->items[i].running[k] : highest;
            }
    if (fleet_failures(f))
        return err_set(e, ERR_SOME_FAILED,
                       "rank %lld of '%s' is on no node that answers, and %zu did not",
                       (long long)rank, run, fleet_failures(f));
    if (running == 0)
        return err_set(e, ERR_NOT_FOUND, "run '%s' is not active: no node holds a rank of it", run);
    return err_set(
        e, ERR_NOT_FOUND, "rank %lld of '%s' is not running: %d rank%s %s, the highest is %d",
        (long long)rank, run, running, str_plural(running), running == 1 ? "is" : "are", highest);
}

static int choose(const struct fleet *f, const struct node_runs *runs, const char *run,
                  const struct option_ints *ranks, bool *chosen, struct err *e) {
    int round = newest_round(runs, run);
    for (size_t k = 0; k < ranks->count; k++) {
        bool found = false;
        for (size_t i = 0; i < runs->count; i++) {
            const struct node_run *r = &runs->items[i];
            if (strcmp(r->run, run) != 0 || r->round != round || !holds(r, ranks->items[k]))
                continue;
            chosen[r->node_index] = found = true;
        }
        if (!found)
            return not_found(f, runs, run, round, ranks->items[k], e);
    }
    return 0;
}

int rank_nodes_find(struct context *s, struct inventory *inv, const char *run,
                    const struct option_ints *ranks, size_t **indices, size_t *count,
                    struct err *e) {
    struct fleet f;
    struct node_runs runs = {0};
    bool *chosen = arena_new(s->arena, bool, inv->count);
    const char *id = NULL;
    *indices = arena_new(s->arena, size_t, inv->count);
    *count = 0;
    if (run && cluster_find_run(&s->cluster, run, &id, e) < 0)
        return -1;
    fleet_open(&f, s, inv, NULL, 0);
    int result = fleet_connect(&f, true, e);
    if (result == 0)
        result = fleet_runs_ask(&f, id, &runs, e);
    if (result == 0)
        fleet_report(&f);
    if (result == 0 && !id)
        result = only_run(s, &runs, &id, e);
    if (result == 0)
        result = choose(&f, &runs, id, ranks, chosen, e);
    fleet_close(&f);
    for (size_t i = 0; i < inv->count && result == 0; i++)
        if (chosen[i])
            (*indices)[(*count)++] = i;
    return result;
}
