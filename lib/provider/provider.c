// SPDX-License-Identifier: Apache-2.0
// The part that all providers share: the table, comparison, checks of every machine, costs
// so far.
#include "provider/provider.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>
#include <sys/utsname.h>

enum {
    DISK_FREE_MIB_MIN = 256,   // for programs and working space
    CLOCK_SKEW_MS_MAX = 10000, // a larger skew makes logs of several nodes unreadable side by side
};

#define POINTER(id, word, object) [id] = &(object),
static const struct provider *const PROVIDERS[] = {CONFIG_PROVIDERS(POINTER)};

const struct provider *provider_of(const struct config *c) {
    return PROVIDERS[c->cluster.provider];
}

struct provider_account provider_account(const struct config *c) {
    const struct provider *p = provider_of(c);
    return p->account ? p->account(c) : (struct provider_account){.profile = "", .region = ""};
}

const struct provider *provider_named(const char *name) {
    for (size_t i = 0; i < sizeof PROVIDERS / sizeof PROVIDERS[0]; i++)
        if (strcmp(PROVIDERS[i]->name, name) == 0)
            return PROVIDERS[i];
    return NULL;
}

const struct provider *provider_that_left_something(struct context *s) {
    for (size_t i = 0; i < sizeof PROVIDERS / sizeof PROVIDERS[0]; i++)
        if (PROVIDERS[i]->left_something && PROVIDERS[i]->left_something(s))
            return PROVIDERS[i];
    return NULL;
}

const struct provider *provider_at(size_t i) {
    return i < sizeof PROVIDERS / sizeof PROVIDERS[0] ? PROVIDERS[i] : NULL;
}

const bool *provider_gone(struct fleet *f, const struct inventory *inv) {
    const struct provider *p = provider_named(inv->provider);
    return p && p->gone ? p->gone(f, inv) : arena_new(f->context->arena, bool, inv->count);
}

static int64_t add_costs(struct context *s, const struct inventory *inv, int64_t ms, bool spent) {
    const struct provider *p = provider_named(inv->provider);
    int64_t total = 0, now_ms = clock_wall_ms();
    for (size_t i = 0; p && p->cost_mils && i < inv->count; i++) {
        int64_t since_ms = clock_of_iso(inv->nodes[i].launched);
        if (spent)
            ms = since_ms < 0 || since_ms > now_ms ? 0 : now_ms - since_ms;
        int64_t mils = p->cost_mils(s, &inv->nodes[i], ms);
        if (mils < 0)
            return -1;
        total += mils;
    }
    return p && p->cost_mils ? total : -1;
}

int64_t provider_cost_mils(struct context *s, const struct inventory *inv, int64_t ms) {
    return add_costs(s, inv, ms, false);
}

int64_t provider_spent_mils(struct context *s, const struct inventory *inv) {
    return add_costs(s, inv, 0, true);
}

// Copies facts that are known from an earlier `up` until they are read again. Without them a node
// would count as never reached.
static void keep_known(struct inventory_node *n, const struct inventory_node *was) {
    if (n->arch && n->arch[0])
        return;
    n->arch = was->arch;
    n->cpus = was->cpus;
    n->gpus = was->gpus;
    n->memory_bytes = was->memory_bytes;
}

// The root of a node that is up cannot change, since its runs are there.
static int check_root(const struct inventory_node *n, const struct inventory_node *was,
                      struct err *e) {
    if (n->transport == INVENTORY_LOCAL || strcmp(n->root, was->root) == 0)
        return 0;
    return err_set(e, ERR_EXISTS,
                   "node '%s' is up below '%s', and would be below '%s' now (hosts.root); bring it "
                   "down first (dtctl down)",
                   n->name, was->root, n->root);
}

int provider_diff(struct context *s, const struct provider *p, struct provider_diff *out,
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
        int known = inventory_find(&out->current, name);
        if (known < 0)
            out->added[out->added_count++] = name;
        else
            out->kept[out->kept_count++] = name;
        if (known < 0)
            continue;
        if (check_root(&out->wanted.nodes[i], &out->current.nodes[known], e) < 0)
            return -1;
        keep_known(&out->wanted.nodes[i], &out->current.nodes[known]);
    }
    for (size_t i = 0; i < out->current.count; i++)
        if (inventory_find(&out->wanted, out->current.nodes[i].name) < 0)
            out->removed[out->removed_count++] = out->current.nodes[i].name;
    return 0;
}

// ---- checks that every machine has to pass ------------------------------------------------------

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

bool provider_made_failed(const struct provider_made *m, const char *name) {
    for (size_t i = 0; i < m->failed_count; i++)
        if (strcmp(m->failed[i], name) == 0)
            return true;
    return false;
}
