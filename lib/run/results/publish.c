// SPDX-License-Identifier: Apache-2.0
// Fetches what nodes have finished while a run is active.
#include "run/results/publish.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

static void on_next(struct timer *t);

static void later(struct publish_node *x, int64_t ms) {
    timer_start(x->all->follow->context->loop, &x->next, ms, on_next);
}

static void again(struct publish_node *x) {
    later(x, x->all->every_ms);
}

// A node that is lost is no news here.
static void failed(struct publish_node *x, const struct err *e) {
    bool warns = x->node->node->up && ++x->failures > x->all->kind->failures_max;
    if (!x->warned && warns)
        log_warn("results of a node cannot be fetched while the run is active",
                 "node=%s kind=%s reason=\"%s\"", x->node->node->info->name, x->all->kind->what,
                 e->text);
    x->warned |= warns;
    again(x);
}

static void not_whole(struct publish_node *x, const char *why) {
    int64_t age = clock_mono_ms() - x->newest_ms;
    if (!x->warned && age > PUBLISH_LATE * x->all->every_ms)
        log_warn("results of a node are never whole for a second",
                 "node=%s kind=%s seconds=%lld reason=\"%s\"", x->node->node->info->name,
                 x->all->kind->what, (long long)age / 1000, why);
    x->warned |= age > PUBLISH_LATE * x->all->every_ms;
    later(x, PUBLISH_BUSY_MS);
}

static int ask(struct publish_node *x, const char *how, const char *known,
               transport_collect_cb *done, struct err *e) {
    struct fleet_node *n = x->node->node;
    const char *rest =
        arena_printf(n->fleet->context->arena, "--run %s%s%s%s%s", x->all->follow->run->id,
                     x->all->kind->option, how, *known ? " --known " : "", known);
    if (transport_collect(n->link, fleet_line(n, NODE_VERB_SNAPSHOT, rest), NULL, 0, done, x, e) <
        0)
        return -1;
    x->asks = true;
    return 0;
}

// The node's answer; NULL when it failed, or this side has stopped following.
static struct json *answer_of(struct publish_node *x, struct arena *a,
                              const struct transport_result *r) {
    struct json *j = NULL;
    struct err e = {0};
    x->asks = false;
    if (!x->all->follow)
        return NULL;
    if (fleet_answer(r, &e) == 0 && json_parse(a, r->out, r->out_len, &j, &e) == 0)
        return j;
    failed(x, &e);
    return NULL;
}

static void keep(struct publish_node *x) {
    struct arena a = {0};
    struct err e = {0};
    if (x->all->kind->keep(x, &e) < 0) {
        failed(x, &e);
        return;
    }
    x->all->kept++;
    x->newest_ms = clock_mono_ms();
    x->warned = false;
    x->failures = 0;
    memcpy(x->known, x->digest, sizeof x->known);
    if (x->files)
        x->all->kind->note(x, arena_printf(&a, "%lld", (long long)x->files),
                           arena_printf(&a, "%lld", (long long)x->bytes));
    arena_fini(&a);
    again(x);
}

static void on_checked(void *ctx, const struct transport_result *r) {
    struct publish_node *x = ctx;
    struct arena a = {0};
    struct json *j = answer_of(x, &a, r);
    if (j && !json_get_bool(j, "whole", false))
        not_whole(x, json_get_str(j, "reason", ""));
    else if (j)
        keep(x);
    arena_fini(&a);
}

static void on_fetched(struct xfer *xfer, void *ctx, const struct err *e,
                       const struct xfer_progress *p) {
    struct publish_node *x = ctx;
    struct err why = *e;
    (void)xfer;
    x->xfer = NULL;
    if (!x->all->kind->checks) { // what was here stays
        x->files = (int64_t)p->files_total;
        x->bytes = (int64_t)p->bytes_total;
    }
    if (why.code)
        failed(x, &why);
    else if (!x->all->kind->checks)
        keep(x);
    else if (ask(x, " --again", x->digest, on_checked, &why) < 0)
        failed(x, &why);
}

static int fetch(struct publish_node *x, struct err *e) {
    static const struct xfer_events events = {.on_end = on_fetched};
    const struct follow *f = x->all->follow;
    struct fleet_node *n = x->node->node;
    struct arena a = {0};
    const char *paths[] = {run_node_dir(&a, f->run->id, x->all->kind->folder), NULL};
    struct xfer_fetch_spec spec = {
        .program = n->facts.program,
        .root = n->facts.root,
        .paths = paths,
        .dest = x->all->kind->dest(x, &a, e),
        .hash_cache_path =
            x->all->kind->hashes ? file_join(&a, f->context->cluster.dir, "hashes") : NULL};
    if (spec.dest)
        x->xfer = xfer_fetch(n->link, &spec, &events, x, e);
    arena_fini(&a);
    return x->xfer ? 0 : -1;
}

static void on_snapshot(void *ctx, const struct transport_result *r) {
    struct publish_node *x = ctx;
    struct arena a = {0};
    struct err e = {0};
    struct json *j = answer_of(x, &a, r);
    const char *digest = j ? json_get_str(j, "digest", "") : "";
    if (!j) {
        // answer_of has said why
    } else if (!json_get_bool(j, "new", false)) {
        x->newest_ms = clock_mono_ms(); // this side has the newest
        again(x);
    } else if (!json_get_bool(j, "whole", false)) {
        not_whole(x, json_get_str(j, "reason", ""));
    } else if (!hash_is_hex(digest)) {
        err_set(&e, ERR_FORMAT, "its answer has no digest");
        failed(x, &e);
    } else {
        memcpy(x->digest, digest, sizeof x->digest);
        x->files = json_get_int(j, "files", 0);
        x->bytes = json_get_int(j, "bytes", 0);
        if (fetch(x, &e) < 0)
            failed(x, &e);
    }
    arena_fini(&a);
}

// ---- when ---------------------------------------------------------------------------------------

static bool is_there(const struct follow_node *n) {
    return n->node->up && n->node->ready && !n->over;
}

// True when another node gives the results that all have.
static bool is_spare(const struct publish_node *x) {
    const struct follow *f = x->all->follow;
    for (size_t i = 0; f->run->native && i < x->node->index; i++)
        if (is_there(&f->nodes[i]))
            return true;
    return false;
}

static void on_next(struct timer *t) {
    struct publish_node *x = container_of(t, struct publish_node, next);
    const struct publish_kind *kind = x->all->kind;
    struct err e = {0};
    if (x->asks || x->xfer || !is_there(x->node) || is_spare(x) || (kind->may && !kind->may(x)))
        again(x);
    else if (ask(x, "", x->known, on_snapshot, &e) < 0)
        failed(x, &e);
}

void publish_open(struct publish *p, struct follow *f, const struct publish_kind *kind,
                  int64_t every_ms) {
    struct context *s = f->context;
    *p = (struct publish){.kind = kind, .every_ms = every_ms, .lock = -1};
    if (!every_ms)
        return;
    p->follow = f;
    p->nodes = arena_new(s->arena, struct publish_node, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        struct publish_node *x = &p->nodes[i];
        *x = (struct publish_node){.all = p, .node = &f->nodes[i], .newest_ms = clock_mono_ms()};
        if (kind->init)
            kind->init(x);
        again(x);
    }
}

void publish_close(struct publish *p) {
    for (size_t i = 0; p->follow && i < p->follow->count; i++) {
        timer_stop(&p->nodes[i].next);
        xfer_cancel(p->nodes[i].xfer);
        p->nodes[i].xfer = NULL;
    }
    if (p->follow && p->lock >= 0)
        close(p->lock);
    p->follow = NULL;
}
