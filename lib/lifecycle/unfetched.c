// SPDX-License-Identifier: Apache-2.0
// Finds results that only the nodes have, and fetches them or refuses.
#include "lifecycle/unfetched.h"

#include "base/log.h"
#include "base/str.h"
#include "fleet/cluster_owner.h"
#include "fleet/fleet_runs.h"
#include "run/results/results_bring.h"

#include <string.h>

enum { NAMES_SHOWN_MAX = 8 };

// ---- finding -----------------------------------------------------------------------------------

static bool is_listed(const struct unfetched *l, const char *run) {
    for (size_t i = l->count; i-- > 0;)
        if (strcmp(l->items[i].run, run) == 0)
            return true;
    for (size_t i = l->fetched_count; i-- > 0;)
        if (strcmp(l->fetched[i], run) == 0)
            return true;
    return false;
}

static const char *what_is_there(struct context *s, const struct run *r) {
    return r->fetched && r->left ? result_kinds_words(s->arena, r->left) : "results";
}

// A node that has the run although its part was recorded as lost; NULL: none.
static const char *who_is_back(const struct unfetched *l, const struct run *record,
                               const struct node_runs *all) {
    for (size_t i = 0; record->lost_count && i < all->count; i++) {
        const char *name = l->fleet->nodes[all->items[i].node_index].info->name;
        if (strcmp(all->items[i].run, record->id) == 0 && run_has_lost(record, name))
            return name;
    }
    return NULL;
}

// all: NULL when the node did not answer.
static void add(struct unfetched *l, const char *run, const char *node,
                const struct node_runs *all) {
    struct run record;
    struct err ignored = {0};
    if (is_listed(l, run))
        return;
    bool recorded = run_load(&l->fleet->context->cluster, run, &record, &ignored) == 0;
    const char *back = recorded && all ? who_is_back(l, &record, all) : NULL;
    if (recorded && !back && run_is_all_here(&record))
        l->fetched[l->fetched_count++] = run;
    else
        l->items[l->count++] = (struct loss){
            run, back ? back : node,
            recorded && !back ? what_is_there(l->fleet->context, &record) : "results", recorded};
}

// Adds recorded runs of nodes that do not answer and whose machines will end.
static int add_silent(struct unfetched *l, char **runs, size_t count) {
    struct fleet *f = l->fleet;
    for (size_t i = 0; i < count; i++) {
        struct run record;
        struct err ignored = {0};
        if (run_load(&f->context->cluster, runs[i], &record, &ignored) < 0 ||
            run_is_all_here(&record) || strcmp(record.state, "made") == 0)
            continue;
        for (size_t k = 0; k < f->count; k++)
            for (size_t n = 0; f->nodes[k].failed && !(l->rules->gone && l->rules->gone[k]) &&
                               n < record.node_count;
                 n++)
                if (strcmp(record.nodes[n], f->nodes[k].info->name) == 0)
                    add(l, runs[i], f->nodes[k].info->name, NULL);
    }
    return 0;
}

int unfetched_find(struct fleet *f, const struct unfetched_rules *rules, struct unfetched *out,
                   struct err *e) {
    struct context *s = f->context;
    struct node_runs *all = arena_new(s->arena, struct node_runs, 1);
    const char *mine = NULL;
    char **runs = NULL;
    size_t count = 0;
    *out = (struct unfetched){.fleet = f, .rules = rules};
    if (cluster_owner_id(s, &mine, e) < 0 || cluster_runs(&s->cluster, &runs, &count, e) < 0 ||
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
            add(out, r->run, f->nodes[r->node_index].info->name, all);
    }
    return rules->machines_end ? add_silent(out, runs, count) : 0;
}

// ---- words -------------------------------------------------------------------------------------

const char *unfetched_names(const struct unfetched *l) {
    struct strbuf text = {0};
    for (size_t i = 0; i < l->count && i < NAMES_SHOWN_MAX; i++)
        strbuf_addf(&text, "%s%s", i ? ", " : "", l->items[i].run);
    if (l->count > NAMES_SHOWN_MAX)
        strbuf_addf(&text, " and %zu more", l->count - NAMES_SHOWN_MAX);
    const char *words = arena_strdup(l->fleet->context->arena, strbuf_cstr(&text));
    strbuf_fini(&text);
    return words;
}

static const char *verb(const char *what) {
    return str_ends(what, "s") || strstr(what, " and ") ? "are" : "is";
}

void unfetched_show(const struct unfetched *l) {
    struct screen *s = l->fleet->context->screen;
    bool lost = l->rules->force;
    if (l->going)
        screen_out(s, "  %s is %s%s\n", l->going->run, l->going->state,
                   lost ? " and would be ended" : "");
    for (size_t i = 0; i < l->count; i++) {
        const struct loss *x = &l->items[i];
        screen_out(s, "  %s: its %s %s only on the nodes, %s\n", x->run, x->what, verb(x->what),
                   lost          ? "and would be lost"
                   : x->recorded ? "and would be fetched first"
                                 : "and this side has no record of it");
    }
}

// ---- settling ----------------------------------------------------------------------------------

static int refuse_going(const struct unfetched *l, struct err *e) {
    const struct node_run *r = l->going;
    return err_set(e, ERR_BUSY, "run '%s' of %s is %s on node '%s' (try: dtctl stop %s, or %s)",
                   r->run, cluster_owner_description(l->fleet->context), r->state,
                   l->fleet->nodes[r->node_index].info->name, r->run, l->rules->way);
}

// Fetches the results of a run. Sets *here when they are on this side afterwards.
static int bring(struct context *s, const char *id, bool *here, struct err *e) {
    struct results_wish wish = {.kinds = RESULT_ALL};
    struct run r;
    *here = false;
    if (run_load(&s->cluster, id, &r, e) < 0)
        return -1;
    const char *what = what_is_there(s, &r);
    screen_note(s->screen, "run %s: its %s %s only on the nodes; fetching them first", id, what,
                verb(what));
    wish.work = r.work_left > 0;
    int result = results_bring(s, id, &wish, &r, e);
    if (result == 0 && s->last_signal) // a signal while following means detach
        return err_set(e, ERR_INTERRUPTED, "stopped by a signal");
    *here = result == 0 && run_is_all_here(&r);
    return result;
}

int unfetched_settle(struct unfetched *l, struct err *e) {
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
    const char *path = l->items[0].recorded ? "" : "--path runs/"; // fetch needs a record otherwise
    return err_set(e, ERR_FAILED,
                   "results of %zu run%s are only on the nodes and cannot be fetched: %s "
                   "(try: dtctl fetch %s%s, or %s)",
                   left, str_plural(left), unfetched_names(l), path, l->items[0].run,
                   l->rules->way);
}
