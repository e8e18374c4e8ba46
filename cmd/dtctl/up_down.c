// SPDX-License-Identifier: Apache-2.0
// train --up --down: the cluster of one run.
#include "up_down.h"

#include "base/log.h"
#include "cluster/run_record.h"
#include "provider/provider.h"

#include <string.h>

int up_down_check(const struct up_down *w, const struct context *s, struct err *e) {
    if (w->down && s->config->job.detach)
        return err_set(e, ERR_USAGE,
                       "--down needs a dtctl that follows the run; --detach does not");
    if (w->keep_ms && !w->down)
        return err_set(e, ERR_USAGE, "--keep-on-failure is for --down");
    return 0;
}

static bool all_are_here(const struct context *s) {
    struct run_walk walk;
    struct run r;
    struct err ignored = {0};
    if (run_walk_open(&walk, &s->cluster, &ignored) < 0)
        return false;
    while (run_walk_next(&walk, &r))
        if (strcmp(r.state, "made") != 0 && !run_is_all_here(&r))
            return false;
    return true;
}

// The lease is shortened only if all results are on this side.
static int keep(struct context *s, int64_t ms, struct err *e) {
    struct inventory inv;
    char time[STR_HUMAN_BYTES_MAX];
    if (!cluster_exists(&s->cluster))
        return 0; // `up` made no cluster
    if (cluster_load(&s->cluster, &inv, e) < 0)
        return -1;
    const struct provider *p = provider_named(inv.provider);
    screen_note(s->screen, "cluster %s stays for inspection (later: dtctl down)", inv.name);
    if (!p || !p->lease)
        return 0;
    if (up_down_extend(s, ms, all_are_here(s), e) < 0)
        return err_wrap(e, "the nodes keep the end that they had");
    if (s->config->lease.idle_ms && s->config->lease.idle_ms < ms)
        screen_note(s->screen, "without a login they end after %s (lease.idle)",
                    str_human_ms(time, s->config->lease.idle_ms));
    return 0;
}

int up_down_after(struct context *s, const struct up_down *w, const struct up_down_end *end,
                  struct err *e) {
    const struct lifecycle_down_options o = {.way = "dtctl down --force", .agreed = true};
    struct err why = {0};
    if (end->going || context_interrupt(s)) {
        screen_note(s->screen,
                    "cluster %s stays%s (later: dtctl down, which fetches results first)",
                    s->cluster.name, end->going ? ", since the run is active" : "");
        return end->result;
    }
    bool kept = end->result && w->keep_ms;
    if ((kept ? keep(s, w->keep_ms, &why) : up_down_remove(s, &o, &why)) == 0)
        return end->result;
    if (end->result == 0) { // the run succeeded, the step after it failed
        *e = why;
        return kept ? -1 : err_wrap(e, "the run went well; --down");
    }
    log_error(arena_printf(s->arena, kept ? "--keep-on-failure: %s" : "--down: %s", why.text), "%s",
              "");
    return end->result;
}
