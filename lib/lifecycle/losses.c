// SPDX-License-Identifier: Apache-2.0
#include "lifecycle/losses.h"

#include "base/log.h"
#include "fleet/claim.h"
#include "fleet/fleet_runs.h"
#include "run/monitor.h"

#include <string.h>

enum { NAMES_SHOWN_MAX = 8 };

// ---- finding -----------------------------------------------------------------------------------

static bool is_listed(const struct losses *l, const char *run) {
    for (size_t i = l->count; i-- > 0;)
        if (strcmp(l->items[i].run, run) == 0)
            return true;
    for (size_t i = l->fetched_count; i-- > 0;)
        if (strcmp(l->fetched[i], run) == 0)
            return true;
    return false;
}

static void add(struct losses *l, const char *run, const char *node) {
    struct run record;
    struct err ignored = {0};
    if (is_listed(l, run))
        return;
    bool recorded = run_load(&l->fleet->context->cluster, run, &record, &ignored) == 0;
    if (recorded && record.fetched && !record.work_left)
        l->fetched[l->fetched_count++] = run;
    else
        l->items[l->count++] = (struct loss){run, node, recorded};
}

// Adds recorded runs of nodes that do not answer and whose machines will end.
static int add_silent(struct losses *l, char **runs, size_t count) {
    struct fleet *f = l->fleet;
    for (size_t i = 0; i < count; i++) {
        struct run record;
        struct err ignored = {0};
        if (run_load(&f->context->cluster, runs[i], &record, &ignored) < 0 ||
            (record.fetched && !record.work_left) || strcmp(record.state, "made") == 0)
            continue;
        for (size_t k = 0; k < f->count; k++)
            for (size_t n = 0; f->nodes[k].failed && !(l->rules->gone && l->rules->gone[k]) &&
                               n < record.node_count;
                 n++)
                if (strcmp(record.nodes[n], f->nodes[k].info->name) == 0)
                    add(l, runs[i], f->nodes[k].info->name);
    }
    return 0;
}

int losses_find(struct fleet *f, const struct losses_rules *rules, struct losses *out,
                struct err *e) {
    struct context *s = f->context;
    struct node_runs *all = arena_new(s->arena, struct node_runs, 1);
    const char *mine = NULL;
    char **runs = NULL;
    size_t count = 0;
    *out = (struct losses){.fleet = f, .rules = rules};
    if (claim_id(s, &mine, e) < 0 || cluster_runs(&s->cluster, &runs, &count, e) < 0 ||
        fleet_runs_ask(f, NULL, all, e) < 0)
        return -1;
    out->items = arena_new(s->arena, struct loss, all->count + count + 1);
    out->fetched = arena_new(s->arena, const char *, all->count + count + 1);
    for (size_t i = 0; i < all->count; i++) {
        const struct node_run *r = &all->items[i];
        bool other = r->owner[0] && strcmp(r->owner, mine) != 0;
        if (other && !rules->machines_end)
            continue;
        if (!r->over && !out->going)
            out->going = r;
        else if (r->over && !r->fetched)
            add(out, r->run, f->nodes[r->node_index].info->name);
    }
    return rules->machines_end ? add_silent(out, runs, count) : 0;
}

// ---- words -------------------------------------------------------------------------------------

const char *losses_names(const struct losses *l) {
    struct strbuf text = {0};
    for (size_t i = 0; i < l->count && i < NAMES_SHOWN_MAX; i++)
        strbuf_addf(&text, "%s%s", i ? ", " : "", l->items[i].run);
    if (l->count > NAMES_SHOWN_MAX)
        strbuf_addf(&text, " and %zu more", l->count - NAMES_SHOWN_MAX);
    const char *words = arena_strdup(l->fleet->context->arena, strbuf_cstr(&text));
    strbuf_fini(&text);
    return words;
}

const char *losses_words(const struct losses *l) {
    if (l->count == 0)
        return "";
    return arena_printf(l->fleet->context->arena, " (%zu run%s not fetched)", l->count,
                        l->count == 1 ? "" : "s");
}

void losses_tell(const struct losses *l) {
    struct screen *s = l->fleet->context->screen;
    bool lost = l->rules->force;
    if (l->going)
        screen_out(s, "  %s is %s%s\n", l->going->run, l->going->state,
                   lost ? " and would be ended" : "");
    for (size_t i = 0; i < l->count; i++) {
        const struct loss *x = &l->items[i];
        screen_out(s, "  %s: its results are only on the nodes, %s\n", x->run,
                   lost          ? "and would be lost"
                   : x->recorded ? "and would be fetched first"
                                 : "and this side has no record of it");
    }
}

// ---- settling ----------------------------------------------------------------------------------

static int refuse_going(const struct losses *l, struct err *e) {
    const struct node_run *r = l->going;
    return err_set(e, ERR_BUSY, "run '%s' of %s is %s on node '%s' (try: dtctl stop %s, or %s)",
                   r->run, claim_words(l->fleet->context), r->state,
                   l->fleet->nodes[r->node_index].info->name, r->run, l->rules->way);
}

// Fetches the results of a run. Sets *here when they are on this side afterwards.
static int bring(struct context *s, const char *id, bool *here, struct err *e) {
    struct attend_options o = {.quiet_lines = true, .only_rank = -1, .until_now = true};
    struct run_fleet r;
    int status = 0;
    *here = false;
    screen_note(s->screen, "run %s: its results are only on the nodes; fetching them first", id);
    if (fleet_runs_open(&r, s, id, e) < 0)
        return -1;
    o.again = r.run.fetched; // new files of its working folder are left
    r.run.fetched = false;
    r.run.bring_work |= r.run.work_left > 0;
    r.fleet.transfers = true;
    int result = fleet_connect(&r.fleet, true, e);
    if (result == 0)
        result = monitor_run(&r.fleet, &r.run, &o, &status, e);
    fleet_close(&r.fleet);
    if (result == 0 && s->last_signal) // a signal while following means detach
        return err_set(e, ERR_INTERRUPTED, "stopped by a signal");
    *here = result == 0 && r.run.fetched && !r.run.work_left;
    return result;
}

int losses_settle(struct losses *l, struct err *e) {
    struct context *s = l->fleet->context;
    if (l->rules->force)
        return 0;
    if (l->going)
        return refuse_going(l, e);
    size_t left = 0;
    for (size_t i = 0; i < l->count; i++) {
        struct err why = {0};
        bool here = false;
        if (l->items[i].recorded && bring(s, l->items[i].run, &here, &why) < 0) {
            if (why.code == ERR_INTERRUPTED) {
                *e = why;
                return -1;
            }
            log_error("cannot fetch results", "run=%s reason=\"%s\"", l->items[i].run, why.text);
        }
        if (here)
            l->fetched[l->fetched_count++] = l->items[i].run;
        else
            l->items[left++] = l->items[i];
    }
    l->count = left;
    if (left == 0)
        return 0;
    return err_set(e, ERR_FAILED,
                   "results of %zu run%s are only on the nodes and cannot be fetched: %s "
                   "(try: dtctl fetch %s, or %s)",
                   left, left == 1 ? "" : "s", losses_names(l), l->items[0].run, l->rules->way);
}
