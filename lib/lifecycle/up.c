// SPDX-License-Identifier: Apache-2.0
// Brings a cluster up: makes the machines, installs programs, checks the nodes, and drops nodes
// that are no longer wanted.
#include "lifecycle/up.h"

#include "base/clock.h"
#include "base/log.h"
#include "cluster/nodeset.h"
#include "conf/render.h"
#include "fleet/cluster_owner.h"
#include "fleet/embedded_files.h"
#include "fleet/fleet_transfer.h"
#include "lifecycle/down.h"
#include "provider/cluster_backup.h"
#include "run/digest_key.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

// Copies facts about the nodes to the inventory.
static void keep_facts(struct fleet *f, size_t *uploaded) {
    for (size_t i = 0; i < f->count; i++) {
        struct fleet_node *n = &f->nodes[i];
        // A different host key says nothing about the node itself.
        if (n->failed && n->err.code == ERR_HOSTKEY)
            continue;
        bool known =
            !n->failed && n->facts.sha256; // a signal may have come before the agent answered
        n->info->dtrun = known ? n->facts.sha256 : "";
        if (n->failed && n->up && !n->info->arch[0]) // it may have files of ours
            n->info->arch = n->ready ? n->facts.arch : "unknown";
        if (!known)
            continue;
        n->info->arch = n->facts.arch;
        n->info->cpus = n->facts.cpus;
        n->info->gpus = n->facts.gpus;
        n->info->memory_bytes = (int64_t)n->facts.memory_bytes;
        *uploaded += n->facts.uploaded;
    }
}

static void reach_phase(struct boot_progress *p, const struct fleet *f, enum boot_phase phase) {
    for (size_t i = 0; p && i < f->count; i++)
        for (size_t k = 0; k < p->count && !f->nodes[i].failed; k++)
            if (strcmp(p->names[k], f->nodes[i].info->name) == 0)
                boot_progress_reach(p, k, phase);
}

static int bring_up(struct context *s, const struct provider *p, struct fleet *f,
                    struct boot_progress *phases, struct err *e) {
    struct manifest *m = manifest_new();
    f->transfers = true;
    int result = fleet_connect(f, true, e);
    if (result == 0)
        result = cluster_owner_mark(f, e);
    if (result == 0)
        result = p->check(s, f, e);
    if (result == 0)
        reach_phase(phases, f, PHASE_CHECKS);
    if (result == 0 && embedded_program_path(s->arena, "dttrain")) {
        result = embedded_add_program(m, s->arena, "dttrain", e);
        if (result == 0)
            result = manifest_hash(m, NULL, NULL, NULL, e);
        if (result == 0)
            result = fleet_send_manifest(f, "programs", m, "", XFER_MERGE, e);
    }
    if (result == 0)
        reach_phase(phases, f, PHASE_READY);
    manifest_free(m);
    return result;
}

// Stores the options for later commands. An `up` that made nothing stores none.
static int keep_options(struct context *s, struct err *e) {
    struct strbuf text = {0};
    render_kept(&text, &s->config->set);
    int result =
        file_write_atomic(config_kept_path(s->config), strbuf_cstr(&text), text.len, 0600, e);
    strbuf_fini(&text);
    return result;
}

void lifecycle_forget_options(struct context *s) {
    if (!cluster_exists(&s->cluster) && !provider_that_left_something(s))
        unlink(config_kept_path(s->config));
}

void lifecycle_show_kept(struct context *s) {
    const struct option_set *set = &s->config->set;
    for (const struct option_shadow *h = set->shadows; h; h = h->next) {
        const struct option_bound *b;
        struct strbuf now = {0};
        option_find(set, h->row->key, &b);
        option_format(&now, h->row, (const char *)b->target + h->row->offset);
        screen_note(s->screen,
                    "%s is %s, set by an earlier up; %s says %s (dtctl up --%s changes it)",
                    h->row->key, strbuf_cstr(&now), option_place_text(s->arena, &h->place), h->text,
                    h->row->flag);
        strbuf_fini(&now);
    }
}

// ---- nodes that leave ---------------------------------------------------------------------------

struct leaving {
    const struct provider *provider;
    const struct provider_diff *diff;
    const char *names; // folded; NULL: none
    bool force;
};

static bool can_be_asked(const struct context *s) {
    return s->config->yes || context_can_ask(s);
}

// Determines the nodes to remove: those no longer wanted, and those named by --replace.
static int find_leaving(struct context *s, struct leaving *l, struct err *e) {
    const struct provider_diff *d = l->diff;
    const char *replaced = l->provider->replaced ? l->provider->replaced(s->config) : "";
    const char **names = arena_new(s->arena, const char *, d->current.count + 1);
    size_t *indices = NULL, count = 0, chosen = 0;
    for (size_t i = 0; i < d->removed_count; i++)
        names[count++] = d->removed[i];
    if (replaced[0] && inventory_select(s->arena, &d->current, replaced, &indices, &chosen, e) < 0)
        return -1;
    for (size_t i = 0; i < chosen; i++)
        if (inventory_find(&d->wanted, d->current.nodes[indices[i]].name) >= 0)
            names[count++] = d->current.nodes[indices[i]].name;
    l->names = count ? nodeset_fold(s->arena, names, count) : NULL;
    if (l->names && !can_be_asked(s))
        return err_set(e, ERR_USAGE,
                       "up would drop %s from cluster '%s', and there is no terminal to ask on "
                       "(try: dtctl up -y; dtctl plan shows it)",
                       l->names, s->cluster.name);
    return 0;
}

// Nodes that are no longer wanted stay in the inventory until the others are ready, so that `down`
// always knows all nodes.
static int save_all(struct context *s, const struct leaving *l, const struct inventory *inv,
                    struct err *e) {
    const struct provider_diff *d = l->diff;
    struct inventory all = *inv;
    all.nodes = arena_new(s->arena, struct inventory_node, inv->count + d->removed_count + 1);
    memcpy(all.nodes, inv->nodes, inv->count * sizeof *inv->nodes);
    for (size_t i = 0; i < d->removed_count && !l->provider->take_down; i++)
        all.nodes[all.count++] = d->current.nodes[inventory_find(&d->current, d->removed[i])];
    return all.count ? cluster_save(&s->cluster, &all, e) : 0;
}

// True when a new node failed.
static bool new_failed(const struct leaving *l, const struct fleet *f) {
    for (size_t i = 0; i < f->count; i++)
        if (f->nodes[i].failed && inventory_find(&l->diff->current, f->nodes[i].info->name) < 0)
            return true;
    return false;
}

// Runs after make and the checks. For machines that end by themselves the user was asked before.
static int drop(struct context *s, const struct leaving *l, struct err *e) {
    struct lifecycle_down_options o = {.nodes = l->names,
                                       .force = l->force,
                                       .asking = "drop these from the cluster?",
                                       .way = "dtctl up --force"};
    struct provider_down_result down;
    if (lifecycle_down(s, &o, &down, e) == 0)
        return 0;
    if (e->code == ERR_SOME_FAILED)
        return err_set(e, ERR_SOME_FAILED,
                       "%s is to leave cluster '%s' and cannot be cleaned (try: dtctl down --node "
                       "%s --forget, which drops it)",
                       l->names, s->cluster.name, l->names);
    return -1;
}

// Nodes that make could not prepare are named once, whether terminated or kept.
static int verdict(struct context *s, const struct fleet *f, const struct provider_made *m,
                   struct err *e) {
    size_t failed = 0, total = m->inv->count;
    const char **names = arena_new(s->arena, const char *, f->count + m->failed_count + 1);
    for (size_t i = 0; i < m->failed_count; i++) {
        names[failed++] = m->failed[i];
        total += inventory_find(m->inv, m->failed[i]) < 0;
    }
    for (size_t i = 0; i < f->count; i++)
        if (f->nodes[i].failed)
            names[failed++] = f->nodes[i].info->name;
    if (failed == 0)
        return 0;
    return err_set(e, ERR_SOME_FAILED, "up: %zu of %zu nodes failed: %s", failed, total,
                   nodeset_fold(s->arena, names, failed));
}

static int settle(struct context *s, struct fleet *f, const struct provider_made *m,
                  const struct leaving *l, int result, struct err *e) {
    struct err saving = {0};
    bool stays = l->names && !l->provider->take_down && new_failed(l, f);
    // The new nodes are not ready: the cluster stays unchanged.
    const struct inventory *now = stays ? &l->diff->current : m->inv;
    if ((stays ? cluster_save(&s->cluster, now, &saving) : save_all(s, l, now, &saving)) < 0 &&
        result == 0) {
        *e = saving;
        result = -1;
    }
    fleet_report(f);
    result = result == 0 ? verdict(s, f, m, e) : result;
    return result < 0 && stays ? err_wrap(e, "%s stays in the cluster", l->names) : result;
}

// Nodes kept with --keep despite a failed boot are left out: no agent is installed, no run uses
// them.
static void open_made(struct fleet *f, struct context *s, const struct provider_made *m) {
    struct inventory *inv = m->inv;
    size_t *ready = arena_new(s->arena, size_t, inv->count), count = 0;
    for (size_t i = 0; i < inv->count; i++) {
        if (provider_made_failed(m, inv->nodes[i].name))
            inv->nodes[i].dtrun = "";
        else
            ready[count++] = i;
    }
    fleet_open(f, s, inv, ready, count);
}

// True when no node was ever reached; such a cluster is not kept.
static bool is_nothing(const struct leaving *l, const struct inventory *inv) {
    for (size_t i = 0; i < inv->count; i++)
        if (l->provider->take_down || inv->nodes[i].arch[0])
            return false;
    return l->diff->current.count == 0;
}

static int bring_up_made(struct context *s, struct leaving *l, struct provider_made *made,
                         struct lifecycle_up_result *out, struct err *e) {
    struct fleet f;
    open_made(&f, s, made);
    int result = f.count ? bring_up(s, l->provider, &f, made->phases, e) : 0;
    keep_facts(&f, &out->uploaded);
    if (made->phases)
        boot_progress_finish(made->phases, made->outside_ms, made->boot_ms);
    out->phases = made->phases;
    result = settle(s, &f, made, l, result, e);
    struct err leaving = {0};
    char key[DIGEST_KEY_BYTES]; // is made for the backup
    if (result == 0)
        result = digest_key_read(s, key, e);
    if (cluster_backup_leave(&f, &leaving) < 0 && result == 0) {
        *e = leaving;
        result = -1;
    }
    fleet_close(&f);
    return result;
}

int lifecycle_up(struct context *s, bool force, struct lifecycle_up_result *out, struct err *e) {
    const struct provider *p = provider_of(s->config);
    struct provider_diff diff;
    struct leaving l = {.provider = p, .diff = &diff, .force = force};
    int64_t started = clock_mono_ms();
    *out = (struct lifecycle_up_result){0};
    struct provider_made made = {.inv = &out->inventory};
    // An incomplete configuration is refused before the cluster's folder is created.
    if (!p->find && p->plan(s, &out->inventory, e) < 0)
        return -1;
    if (cluster_lock(&s->cluster, "up", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0 ||
        (p->find && p->find(s, true, e) < 0) || provider_diff(s, p, &diff, e) < 0 ||
        find_leaving(s, &l, e) < 0)
        return -1;
    bool later = l.names && !p->take_down; // nodes are dropped after the others are ready
    if (l.names && p->take_down && lifecycle_check_losses(s, &diff.current, l.names, force, e) < 0)
        return -1;
    if ((!later && keep_options(s, e) < 0) ||
        (!p->take_down && save_all(s, &l, &diff.wanted, e) < 0))
        return -1;
    out->inventory = diff.wanted;
    if (p->make(s, &diff.current, &made, e) < 0) {
        lifecycle_forget_options(s);
        return -1;
    }
    int result = bring_up_made(s, &l, &made, out, e);
    if (result < 0 && is_nothing(&l, &out->inventory)) {
        struct err ignored = {0};
        cluster_forget(&s->cluster, &ignored);
        lifecycle_forget_options(s);
        cluster_discard(&s->cluster);
    }
    if (result == 0 && later && (drop(s, &l, e) < 0 || keep_options(s, e) < 0))
        result = -1;
    out->took_ms = clock_mono_ms() - started;
    return result;
}
