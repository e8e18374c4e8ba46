// SPDX-License-Identifier: Apache-2.0
// Removes nodes. Fetches results that only they have; keeps files of other owners.
#include "lifecycle/down.h"

#include "base/log.h"
#include "fleet/cluster_owner.h"
#include "lifecycle/unfetched.h"
#include "lifecycle/up.h"
#include "run/results/results_owner.h"
#include "sys/file.h"

#include <string.h>

enum { ENDING_CONNECT_MS_MAX = 5000 };

struct down_work {
    const char *rest;    // rest of the command line
    const char *fetched; // runs, one per line
    size_t fetched_bytes;
    uint64_t bytes;
};

struct down {
    struct context *context;
    const struct provider *provider;
    const struct lifecycle_down_options *options;
    struct inventory inv;
    struct fleet fleet;
    struct unfetched_rules rules;
    struct unfetched unfetched;
    struct provider_down_result *out;
};

// ---- cleaning nodes -----------------------------------------------------------------------------

// Prints a note for each string in the list of remaining items.
static void show_list(const struct fleet_node *n, const struct json *list, const char *what) {
    struct context *s = n->fleet->context;
    for (const struct json *v = list && list->type == JSON_ARRAY ? list->child : NULL; v;
         v = v->next)
        if (v->type == JSON_STR)
            screen_note(s->screen, "%s: %s %s", n->info->name, what,
                        str_printable(s->arena, v->str, v->len));
}

static void on_cleaned(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct down_work *w = n->work;
    struct arena a = {0};
    struct json *j = NULL;
    struct err e = {0}, ignored = {0};
    if (fleet_answer(r, &e) == 0 && json_parse(&a, r->out, r->out_len, &j, &ignored) == 0) {
        w->bytes = (uint64_t)json_get_int(j, "removed_bytes", 0);
        show_list(n, json_get(j, "others"), "programs and content stay there for");
        show_list(n, json_get(j, "left"),
                  "this stays in dtctl's folder there, which push put there:");
    }
    arena_fini(&a);
    fleet_done(n, &e);
}

static int start_clean(struct fleet_node *n, struct err *e) {
    const struct down_work *w = n->work;
    return transport_collect(n->link, fleet_line(n, NODE_VERB_CLEAN, w->rest), w->fetched,
                             w->fetched_bytes, on_cleaned, n, e);
}

// Removes the cleaned nodes from the inventory and keeps the others.
static int forget_nodes(struct down *d, struct err *e) {
    struct context *s = d->context;
    struct inventory rest = d->inv;
    rest.nodes = arena_new(s->arena, struct inventory_node, d->inv.count);
    rest.count = 0;
    for (size_t i = 0; i < d->inv.count; i++) {
        bool gone = false;
        for (size_t k = 0; k < d->fleet.count; k++)
            gone |= d->fleet.nodes[k].info == &d->inv.nodes[i] &&
                    (!d->fleet.nodes[k].failed || d->options->forget);
        if (!gone)
            rest.nodes[rest.count++] = d->inv.nodes[i];
    }
    return rest.count ? cluster_save(&s->cluster, &rest, e) : cluster_forget(&s->cluster, e);
}

// Records that results which were not fetched went with their nodes (--force).
static void record_losses(const struct down *d) {
    struct context *s = d->context;
    const struct fleet *f = &d->fleet;
    const struct unfetched *l = &d->unfetched;
    struct err e = {0};
    for (size_t i = 0; i < l->count; i++)
        for (size_t k = 0; l->items[i].recorded && k < f->count; k++)
            if ((!f->nodes[k].failed || d->provider->take_down) &&
                run_lose(&s->cluster, l->items[i].run, f->nodes[k].info->name, &e) < 0)
                log_warn("cannot record that results are lost", "run=%s reason=\"%s\"",
                         l->items[i].run, e.text);
}

static int prepare_work(struct down *d, struct down_work **out, struct err *e) {
    struct context *s = d->context;
    struct strbuf text = {0};
    const char *id = NULL;
    if (cluster_owner_id(s, &id, e) < 0)
        return -1;
    for (size_t i = 0; i < d->unfetched.fetched_count; i++)
        strbuf_addf(&text, "%s\n", d->unfetched.fetched[i]);
    const char *list = arena_strdup(s->arena, strbuf_cstr(&text));
    const char *rest = arena_printf(s->arena, "--all --fetched --owner %s%s", id,
                                    d->options->force ? " --force --discard" : "");
    struct down_work *work = arena_new(s->arena, struct down_work, d->fleet.count + 1);
    for (size_t i = 0; i < d->fleet.count; i++) {
        work[i] = (struct down_work){.rest = rest, .fetched = list, .fetched_bytes = text.len};
        d->fleet.nodes[i].work = &work[i];
    }
    strbuf_fini(&text);
    *out = work;
    return 0;
}

static int clean_nodes(struct down *d, struct err *e) {
    struct fleet *f = &d->fleet;
    struct down_work *work = NULL;
    // Connections may have been lost while results were fetched.
    if (prepare_work(d, &work, e) < 0 || fleet_each(f, "clean", start_clean, e) < 0)
        return -1;
    for (size_t i = 0; i < f->count; i++) {
        struct err why = {0};
        if (!f->nodes[i].failed && !f->nodes[i].left_out &&
            d->provider->give_back(d->context, f->nodes[i].info, &why) < 0)
            fleet_fail(&f->nodes[i], &why);
        d->out->removed += !f->nodes[i].failed;
        d->out->bytes += work[i].bytes;
    }
    record_losses(d);
    if (forget_nodes(d, e) < 0)
        return -1;
    fleet_report(f);
    return d->options->forget ? 0 : fleet_verdict(f, "down", e);
}

// ---- before -------------------------------------------------------------------------------------

static void show(const struct down *d) {
    const struct fleet *f = &d->fleet;
    struct screen *screen = d->context->screen;
    struct strbuf text = {0};
    struct json_out j;
    for (size_t i = 0; i < f->count; i++) {
        const struct inventory_node *n = f->nodes[i].info;
        const char *why = f->nodes[i].failed
                              ? arena_printf(d->context->arena, " (%s)", f->nodes[i].err.text)
                              : "";
        if (d->provider->take_down)
            screen_out(screen, "would end %s %s%s\n", n->name, n->instance_id, why);
        else
            screen_out(screen, "would clean %s: %s%s\n", n->name, n->root, why);
    }
    unfetched_show(&d->unfetched);
    if (!d->options->dry_run)
        return;
    screen_event(&text, &j, "would-remove");
    json_array(&j, "nodes");
    for (size_t i = 0; i < f->count; i++)
        json_str(&j, NULL, f->nodes[i].info->name);
    json_end(&j);
    json_array(&j, "not_fetched");
    for (size_t i = 0; i < d->unfetched.count; i++)
        json_str(&j, NULL, d->unfetched.items[i].run);
    json_end(&j);
    json_str(&j, "going", d->unfetched.going ? d->unfetched.going->run : NULL);
    screen_event_end(screen, &text, &j);
}

// Asks for confirmation on a terminal. Elsewhere `down` proceeds, since another `up` undoes it. The
// loss of results is refused later in any case.
static int ask(const struct down *d, struct err *e) {
    struct context *s = d->context;
    if (s->config->yes || d->options->agreed || !context_can_ask(s))
        return 0;
    show(d);
    const char *usual = d->provider->take_down ? "end these?" : "remove these?";
    int yes = context_ask(s, d->options->asking ? d->options->asking : usual, e);
    return yes ? (yes > 0 ? 0 : -1) : err_set(e, ERR_FAILED, "nothing was removed");
}

// A node that was never reached has none of our files.
static bool was_never_up(const struct inventory_node *n) {
    return !n->arch[0] && n->transport == INVENTORY_SSH;
}

// Per node of the fleet.
static const bool *gone_of(struct down *d, const size_t *indices, size_t count) {
    bool *gone = arena_new(d->context->arena, bool, count);
    if (!d->provider->gone)
        return gone;
    const bool *all = d->provider->gone(&d->fleet, &d->inv);
    for (size_t i = 0; i < count; i++)
        gone[i] = all[indices[i]];
    return gone;
}

static int look(struct down *d, const size_t *indices, size_t count, struct err *e) {
    struct context *s = d->context;
    struct fleet *f = &d->fleet;
    bool ends = d->provider->take_down != NULL;
    fleet_open(f, s, &d->inv, indices, count);
    for (size_t i = 0; i < count; i++) {
        const struct inventory_node *n = f->nodes[i].info;
        if (ends && d->options->force)
            f->nodes[i].left_out = "--force does not search it";
        else if (ends ? !n->dtrun || !n->dtrun[0] : was_never_up(n))
            f->nodes[i].left_out = "it was never up";
    }
    if (ends) // a node that does not answer ends all the same
        f->env.connect_timeout_ms = ENDING_CONNECT_MS_MAX;
    d->rules = (struct unfetched_rules){
        .force = d->options->force, .machines_end = ends, .way = d->options->way};
    if (fleet_connect(f, true, e) < 0)
        return -1;
    if (ends && fleet_failures(f))
        d->rules.gone = gone_of(d, indices, count);
    return unfetched_find(f, &d->rules, &d->unfetched, e);
}

static int take_down(struct down *d, struct err *e) {
    struct context *s = d->context;
    const struct lifecycle_down_options *o = d->options;
    const struct provider *wanted = provider_of(s->config);
    size_t *indices = NULL, count = 0;
    // Active runs can be seen only with the key.
    if (wanted->find && wanted->find(s, !o->force, e) < 0)
        return -1;
    // An interrupted `up` leaves instances without an inventory.
    bool known = cluster_exists(&s->cluster);
    if (known && cluster_load(&s->cluster, &d->inv, e) < 0)
        return -1;
    d->provider = known ? provider_named(d->inv.provider) : provider_that_left_something(s);
    if (!known && !d->provider)
        return 0; // already down
    if (!d->provider)
        return err_set(e, ERR_CONFIG, "'%s': this dtctl has no provider '%s'",
                       s->cluster.inventory_path, d->inv.provider);
    if (d->provider->take_down && ((o->nodes && *o->nodes) || o->forget))
        return err_set(e, ERR_USAGE,
                       "provider %s ends all nodes at once: --node and --forget would leave "
                       "instances that cost money; dtctl up --nodes N makes a cluster smaller",
                       d->provider->name);
    if ((known && inventory_select(s->arena, &d->inv, o->nodes, &indices, &count, e) < 0) ||
        look(d, indices, count, e) < 0)
        return -1;
    if (o->dry_run) {
        show(d);
        return 0;
    }
    if (ask(d, e) < 0 || unfetched_settle(&d->unfetched, e) < 0)
        return -1;
    if (!d->provider->take_down)
        return clean_nodes(d, e);
    if (d->provider->take_down(s, d->out, e) < 0)
        return -1;
    record_losses(d);
    return 0;
}

int lifecycle_check_losses(struct context *s, struct inventory *inv, const char *nodes, bool force,
                           struct err *e) {
    const struct lifecycle_down_options o = {.way = "dtctl up --force", .force = force};
    struct down d = {.context = s, .options = &o, .provider = provider_named(inv->provider)};
    size_t *indices = NULL, count = 0;
    d.inv = *inv;
    int result = inventory_select(s->arena, inv, nodes, &indices, &count, e);
    if (result == 0)
        result = look(&d, indices, count, e);
    if (result == 0)
        result = unfetched_settle(&d.unfetched, e);
    fleet_close(&d.fleet);
    return result;
}

static int count_runs(struct context *s, struct provider_down_result *out, struct err *e) {
    struct run_walk walk;
    struct run r;
    if (run_walk_open(&walk, &s->cluster, e) < 0)
        return -1;
    while (run_walk_next(&walk, &r))
        out->runs_here += r.fetched && file_exists(r.output_dir) &&
                          (!r.lost_count || results_owner_has_files(r.output_dir));
    out->runs_none = walk.count - out->runs_here;
    return 0;
}

int lifecycle_down(struct context *s, const struct lifecycle_down_options *o,
                   struct provider_down_result *out, struct err *e) {
    struct down d = {.context = s, .options = o, .out = out};
    *out = (struct provider_down_result){0};
    if (!o->dry_run && cluster_lock(&s->cluster, "down", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0)
        return -1;
    int result = take_down(&d, e);
    fleet_close(&d.fleet);
    if (!o->dry_run)
        lifecycle_forget_options(s);
    return result < 0 ? -1 : count_runs(s, out, e);
}
