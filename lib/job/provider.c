// SPDX-License-Identifier: Apache-2.0
// What all providers share: the table, comparing, bringing up and taking down.
#include "job/provider.h"

#include "base/clock.h"
#include "base/log.h"
#include "cluster/nodeset.h"
#include "conf/render.h"
#include "job/programs.h"
#include "job/record.h"
#include "job/send.h"
#include "job/terraform.h"
#include "sys/file.h"

#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    DISK_FREE_MIB_MIN = 256,   // programs, and something to work with
    CLOCK_SKEW_MS_MAX = 10000, // beyond this logs of several nodes cannot be read together
};

// In the order of enum config_provider.
static const struct provider *const PROVIDERS[] = {&provider_local, &provider_hosts, &provider_aws};

const struct provider *provider_of(const struct config *c) {
    return PROVIDERS[c->cluster.provider];
}

const struct provider *provider_named(const char *name) {
    for (size_t i = 0; i < sizeof PROVIDERS / sizeof PROVIDERS[0]; i++)
        if (strcmp(PROVIDERS[i]->name, name) == 0)
            return PROVIDERS[i];
    return NULL;
}

int provider_diff(struct session *s, const struct provider *p, struct provider_diff *out,
                  struct err *e) {
    *out = (struct provider_diff){0};
    char stamp[CLOCK_ISO_BYTES];
    out->wanted.name = s->cluster.name;
    out->wanted.provider = p->name;
    out->wanted.created = arena_strdup(s->arena, clock_iso(stamp, clock_wall_ms()));
    if (p->plan(s, &out->wanted, e) < 0)
        return -1;
    if (cluster_exists(&s->cluster)) {
        if (cluster_load(&s->cluster, &out->current, e) < 0)
            return -1;
        if (strcmp(out->current.provider, p->name) != 0)
            return err_set(e, ERR_EXISTS,
                           "cluster '%s' is up with provider %s; bring it down first (dtctl down) "
                           "or choose another name with -c",
                           s->cluster.name, out->current.provider);
        out->wanted.created = out->current.created;
    }
    out->added = arena_new(s->arena, const char *, out->wanted.count + 1);
    out->kept = arena_new(s->arena, const char *, out->wanted.count + 1);
    out->removed = arena_new(s->arena, const char *, out->current.count + 1);
    for (size_t i = 0; i < out->wanted.count; i++) {
        const char *name = out->wanted.nodes[i].name;
        if (inventory_find(&out->current, name) < 0)
            out->added[out->added_count++] = name;
        else
            out->kept[out->kept_count++] = name;
    }
    for (size_t i = 0; i < out->current.count; i++)
        if (inventory_find(&out->wanted, out->current.nodes[i].name) < 0)
            out->removed[out->removed_count++] = out->current.nodes[i].name;
    return 0;
}

// ---- checks that every machine has to pass
// --------------------------------------------------------

static int judge(struct fleet_node *n, struct err *e) {
    struct utsname here;
    char free_text[STR_HUMAN_BYTES_MAX], skew[STR_HUMAN_BYTES_MAX];
    if (uname(&here) == 0 && strcmp(n->facts.arch, here.machine) != 0)
        return err_set(e, ERR_FAILED, "it is a %s machine; this dtctl carries programs for %s",
                       n->facts.arch, here.machine);
    if (n->facts.disk_free_bytes < (uint64_t)DISK_FREE_MIB_MIN << 20)
        return err_set(e, ERR_LIMIT,
                       "only %s are free below '%s', at least %d MiB are needed; remove files "
                       "there",
                       str_human_bytes(free_text, n->facts.disk_free_bytes), n->facts.root,
                       DISK_FREE_MIB_MIN);
    int64_t ms = n->facts.clock_skew_ms < 0 ? -n->facts.clock_skew_ms : n->facts.clock_skew_ms;
    if (ms > CLOCK_SKEW_MS_MAX)
        log_warn("the clock of a node is off; times in its logs will be too",
                 "node=%s by=\"%s\" direction=%s", n->info->name, str_human_ms(skew, ms),
                 n->facts.clock_skew_ms > 0 ? "ahead" : "behind");
    return 0;
}

void provider_judge(struct fleet *f) {
    for (size_t i = 0; i < f->count; i++) {
        struct err why = {0};
        if (!f->nodes[i].failed && judge(&f->nodes[i], &why) < 0)
            fleet_fail(&f->nodes[i], &why);
    }
}

// ---- up ----------------------------------------------------------------------------------------

// What was found on the nodes goes into the inventory.
static void keep_facts(struct fleet *f, size_t *uploaded) {
    for (size_t i = 0; i < f->count; i++) {
        struct fleet_node *n = &f->nodes[i];
        // Whoever shows another host key says nothing about the node.
        if (n->failed && n->err.code == ERR_HOSTKEY)
            continue;
        n->info->dtrun = n->failed ? "" : n->facts.sha256;
        if (n->failed)
            continue;
        n->info->arch = n->facts.arch;
        n->info->cpus = n->facts.cpus;
        n->info->gpus = n->facts.gpus;
        n->info->memory_bytes = (int64_t)n->facts.memory_bytes;
        *uploaded += n->facts.uploaded;
    }
}

static void reach_phase(struct phases *p, const struct fleet *f, enum phase phase) {
    for (size_t i = 0; p && i < f->count; i++)
        for (size_t k = 0; k < p->count && !f->nodes[i].failed; k++)
            if (strcmp(p->names[k], f->nodes[i].info->name) == 0)
                phases_reach(p, k, phase);
}

static int bring_up(struct session *s, const struct provider *p, struct fleet *f,
                    struct phases *phases, struct err *e) {
    struct manifest *m = manifest_new();
    f->transfers = true;
    int result = fleet_connect(f, true, e);
    if (result == 0)
        result = p->check(s, f, e);
    if (result == 0)
        reach_phase(phases, f, PHASE_CHECKS);
    if (result == 0 && programs_path(s->arena, "dttrain")) {
        result = programs_add_trainer(m, s->arena, e);
        if (result == 0)
            result = manifest_hash(m, NULL, NULL, NULL, e);
        if (result == 0)
            result = send_manifest(f, "programs", m, "", XFER_MERGE, e);
    }
    if (result == 0)
        reach_phase(phases, f, PHASE_READY);
    manifest_free(m);
    return result;
}

// So that later commands need not be told again. What made nothing keeps nothing.
static int keep_options(struct session *s, struct err *e) {
    struct strbuf text = {0};
    render_kept(&text, &s->config->set);
    int result =
        file_write_atomic(config_kept_path(s->config), strbuf_cstr(&text), text.len, 0600, e);
    strbuf_fini(&text);
    return result;
}

static void forget_options(struct session *s) {
    if (!cluster_exists(&s->cluster) && !terraform_was_used(s))
        unlink(config_kept_path(s->config));
}

void provider_tell_kept(struct session *s) {
    const struct option_set *set = &s->config->set;
    for (const struct option_shadow *h = set->shadows; h; h = h->next) {
        const struct option_bound *b;
        struct strbuf now = {0};
        option_find(set, h->row->key, &b);
        option_format(&now, h->row, (const char *)b->target + h->row->offset);
        screen_note(s->screen,
                    "%s is %s, as an earlier up was told; %s says %s (dtctl up --%s changes it)",
                    h->row->key, strbuf_cstr(&now), option_place_text(s->arena, &h->place), h->text,
                    h->row->flag);
        strbuf_fini(&now);
    }
}

// Before make: what is no longer wanted goes, and the rest is written down, so that `down` always
// knows what to take away. A provider that ends machines by itself does both in make.
static int prepare(struct session *s, const struct provider *p, const struct provider_diff *d,
                   struct err *e) {
    if (p->take_down)
        return 0;
    if (d->removed_count) {
        struct provider_down_result down;
        const char *names = nodeset_fold(s->arena, d->removed, d->removed_count);
        if (provider_down(s, names, false, false, &down, e) < 0)
            return err_wrap(e, "nodes that are no longer wanted");
    }
    return cluster_save(&s->cluster, &d->wanted, e);
}

// Nodes that make could not make ready are named once, whether they are gone or kept.
static int verdict(struct session *s, const struct fleet *f, const struct provider_made *m,
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

static int settle(struct session *s, struct fleet *f, const struct provider_made *m, int result,
                  struct err *e) {
    struct err saving = {0};
    if (cluster_save(&s->cluster, m->inv, &saving) < 0 && result == 0) {
        *e = saving;
        result = -1;
    }
    fleet_report(f);
    return result == 0 ? verdict(s, f, m, e) : result;
}

bool provider_made_failed(const struct provider_made *m, const char *name) {
    for (size_t i = 0; i < m->failed_count; i++)
        if (strcmp(m->failed[i], name) == 0)
            return true;
    return false;
}

// Nothing is put on a node that make kept although it is not ready, and no run takes it.
static void open_made(struct fleet *f, struct session *s, const struct provider_made *m) {
    struct inventory *inv = m->inv;
    size_t *ready = arena_new(s->arena, size_t, inv->count + 1), count = 0;
    for (size_t i = 0; i < inv->count; i++) {
        if (provider_made_failed(m, inv->nodes[i].name))
            inv->nodes[i].dtrun = "";
        else
            ready[count++] = i;
    }
    fleet_open(f, s, inv, ready, count);
}

int provider_up(struct session *s, struct provider_up_result *out, struct err *e) {
    const struct provider *p = provider_of(s->config);
    struct provider_diff diff;
    struct fleet f;
    int64_t started = clock_mono_ms();
    *out = (struct provider_up_result){0};
    struct provider_made made = {.inv = &out->inventory};
    if (cluster_lock(&s->cluster, "up", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0 ||
        (p->find && p->find(s, true, e) < 0) || provider_diff(s, p, &diff, e) < 0 ||
        keep_options(s, e) < 0 || prepare(s, p, &diff, e) < 0)
        return -1;
    out->inventory = diff.wanted;
    if (p->make(s, &diff.current, &made, e) < 0) {
        forget_options(s);
        return -1;
    }
    open_made(&f, s, &made);
    int result = f.count ? bring_up(s, p, &f, made.phases, e) : 0;
    keep_facts(&f, &out->uploaded);
    if (made.phases)
        phases_finish(made.phases, made.outside_ms, made.boot_ms);
    out->phases = made.phases;
    result = settle(s, &f, &made, result, e);
    struct err leaving = {0};
    if (record_leave(&f, &leaving) < 0 && result == 0) {
        *e = leaving;
        result = -1;
    }
    fleet_close(&f);
    out->took_ms = clock_mono_ms() - started;
    return result;
}

// ---- down --------------------------------------------------------------------------------------

struct down_work {
    bool force;
    uint64_t bytes;
};

static void on_cleaned(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct down_work *w = n->work;
    struct arena a = {0};
    struct json *j = NULL;
    struct err e = {0}, ignored = {0};
    if (fleet_answer(r, &e) == 0 && json_parse(&a, r->out, r->out_len, &j, &ignored) == 0)
        w->bytes = (uint64_t)json_get_int(j, "removed_bytes", 0);
    if (e.code == ERR_BUSY)
        err_wrap(&e, "it still works (dtctl stop, or dtctl down --force)");
    arena_fini(&a);
    fleet_done(n, &e);
}

static int start_clean(struct fleet_node *n, struct err *e) {
    struct down_work *w = n->work;
    return transport_collect(n->link, fleet_line(n, "clean", w->force ? "--all --force" : "--all"),
                             NULL, 0, on_cleaned, n, e);
}

// Drops the nodes that were cleaned from the inventory; the rest stays known.
static int forget_nodes(struct session *s, struct inventory *inv, const struct fleet *f,
                        bool forget, struct err *e) {
    struct inventory rest = *inv;
    rest.nodes = arena_new(s->arena, struct inventory_node, inv->count);
    rest.count = 0;
    for (size_t i = 0; i < inv->count; i++) {
        bool gone = false;
        for (size_t k = 0; k < f->count; k++)
            gone |= f->nodes[k].info == &inv->nodes[i] && (!f->nodes[k].failed || forget);
        if (!gone)
            rest.nodes[rest.count++] = inv->nodes[i];
    }
    return rest.count ? cluster_save(&s->cluster, &rest, e) : cluster_forget(&s->cluster, e);
}

static int clean_nodes(struct session *s, const struct provider *p, struct inventory *inv,
                       const char *nodes, bool force, bool forget, struct provider_down_result *out,
                       struct err *e) {
    struct fleet f;
    size_t *indices = NULL, count = 0;
    if (inventory_select(s->arena, inv, nodes, &indices, &count, e) < 0)
        return -1;
    fleet_open(&f, s, inv, indices, count);
    struct down_work *work = arena_new(s->arena, struct down_work, count ? count : 1);
    for (size_t i = 0; i < count; i++) {
        work[i].force = force;
        f.nodes[i].work = &work[i];
    }
    int result = fleet_connect(&f, true, e);
    if (result == 0)
        result = fleet_each(&f, "clean", start_clean, e);
    for (size_t i = 0; i < count && result == 0; i++) {
        struct err why = {0};
        if (!f.nodes[i].failed && p->give_back(s, f.nodes[i].info, &why) < 0)
            fleet_fail(&f.nodes[i], &why);
        out->removed += !f.nodes[i].failed;
        out->bytes += work[i].bytes;
    }
    if (result == 0)
        result = forget_nodes(s, inv, &f, forget, e);
    fleet_report(&f);
    if (result == 0 && !forget)
        result = fleet_verdict(&f, "down", e);
    fleet_close(&f);
    return result;
}

static int take_down(struct session *s, const char *nodes, bool force, bool forget,
                     struct provider_down_result *out, struct err *e) {
    struct inventory inv = {0};
    const struct provider *wanted = provider_of(s->config);
    // Without its key nobody sees whether something runs there.
    if (wanted->find && wanted->find(s, !force, e) < 0)
        return -1;
    // An `up` that was cut leaves instances before it leaves an inventory.
    bool known = cluster_exists(&s->cluster);
    if (!known && !terraform_was_used(s))
        return 0; // down already
    if (known && cluster_load(&s->cluster, &inv, e) < 0)
        return -1;
    const struct provider *p = provider_named(known ? inv.provider : provider_aws.name);
    if (!p)
        return err_set(e, ERR_CONFIG, "'%s': this dtctl has no provider '%s'",
                       s->cluster.inventory_path, inv.provider);
    if (!p->take_down)
        return clean_nodes(s, p, &inv, nodes, force, forget, out, e);
    if ((nodes && *nodes) || forget)
        return err_set(e, ERR_USAGE,
                       "provider %s ends all nodes at once: --node and --forget would leave "
                       "instances that cost money; dtctl up --nodes N makes a cluster smaller",
                       p->name);
    return p->take_down(s, force, out, e);
}

int provider_down(struct session *s, const char *nodes, bool force, bool forget,
                  struct provider_down_result *out, struct err *e) {
    char **runs = NULL;
    *out = (struct provider_down_result){0};
    if (cluster_lock(&s->cluster, "down", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0 ||
        cluster_runs(&s->cluster, &runs, &out->runs_left, e) < 0)
        return -1;
    int result = take_down(s, nodes, force, forget, out, e);
    forget_options(s);
    return result;
}
