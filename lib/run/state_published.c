// SPDX-License-Identifier: Apache-2.0
// Fetches whole generations of states while a run is active. The node links one (lib/node/
// node_snapshot.c), this side fetches it, and the node then says whether it has stayed as it was.
#include "run/state_published.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "content/generation.h"
#include "run/monitor.h"
#include "sys/file.h"

#include <stdio.h>
#include <string.h>

enum { KEPT = 2 };

static const char *folder_of(struct arena *a, const struct context *s, const struct run *run,
                             const char *node) {
    return file_join(a, run_path(&s->cluster, run, "published"), node);
}

const char *state_published_newest(struct context *s, const struct run *run, const char *node) {
    const char *folder = folder_of(s->arena, s, run, node);
    int64_t number = generation_newest(folder);
    return number > 0 ? arena_printf(s->arena, "%s/%lld", folder, (long long)number) : NULL;
}

int state_published_remove(struct context *s, const struct run *run, const char *node,
                           struct err *e) {
    return file_remove_tree(
        node ? folder_of(s->arena, s, run, node) : run_path(&s->cluster, run, "published"), e);
}

// ---- one generation -----------------------------------------------------------------------------

static void on_next(struct timer *t);

static void later(struct published_node *x, int64_t ms) {
    timer_start(x->all->follow->context->loop, &x->next, ms, on_next);
}

static void again(struct published_node *x) {
    later(x, x->all->every_ms);
}

// A node that is lost is no news here.
static void failed(struct published_node *x, const struct err *e) {
    if (!x->warned && x->node->node->up)
        log_warn("the state of a node cannot be fetched while the run goes on",
                 "node=%s reason=\"%s\"", x->node->node->info->name, e->text);
    x->warned |= x->node->node->up;
    again(x);
}

static void not_whole(struct published_node *x, const char *why) {
    int64_t age = clock_mono_ms() - x->newest_ms;
    if (!x->warned && age > PUBLISHED_LATE * x->all->every_ms)
        log_warn("the state of a node is never whole for a second",
                 "node=%s seconds=%lld reason=\"%s\"", x->node->node->info->name,
                 (long long)age / 1000, why);
    x->warned |= age > PUBLISHED_LATE * x->all->every_ms;
    later(x, PUBLISHED_BUSY_MS);
}

static int ask(struct published_node *x, const char *how, const char *known,
               transport_collect_cb *done, struct err *e) {
    struct fleet_node *n = x->node->node;
    const char *rest =
        arena_printf(n->fleet->context->arena, "--run %s%s%s%s", x->all->follow->run->id, how,
                     known[0] ? " --known " : "", known);
    if (transport_collect(n->link, fleet_line(n, "snapshot", rest), NULL, 0, done, x, e) < 0)
        return -1;
    x->asks = true;
    return 0;
}

// The node's answer; NULL when it failed, or this side has stopped following.
static struct json *answer_of(struct published_node *x, struct arena *a,
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

static int keep(struct published_node *x, struct err *e) {
    const struct follow *f = x->all->follow;
    struct arena a = {0};
    const char *folder = folder_of(&a, f->context, f->run, x->node->node->info->name);
    const char *new = file_join(&a, folder, "new");
    const char *to = arena_printf(&a, "%s/%lld", folder, (long long)x->number + 1);
    const char *old = arena_printf(&a, "%s/%lld", folder, (long long)x->number + 1 - KEPT);
    int rc = file_sync_disk(new, e);
    if (rc == 0 && rename(new, to) < 0)
        rc = err_errno(e, ERR_SYS, "cannot rename '%s' to '%s'", new, to);
    if (rc == 0)
        rc = file_sync_dir(folder, e);
    if (rc == 0)
        rc = file_remove_tree(old, e);
    arena_fini(&a);
    return rc;
}

static void on_checked(void *ctx, const struct transport_result *r) {
    struct published_node *x = ctx;
    struct arena a = {0};
    struct err e = {0};
    struct json *j = answer_of(x, &a, r);
    if (j && !json_get_bool(j, "whole", false)) {
        not_whole(x, json_get_str(j, "reason", ""));
    } else if (j && keep(x, &e) < 0) {
        failed(x, &e);
    } else if (j) {
        const struct follow *f = x->all->follow;
        x->number++;
        x->newest_ms = clock_mono_ms();
        x->warned = false;
        memcpy(x->known, x->digest, sizeof x->known);
        monitor_note(f->context, f->run, "state-published", "peer", x->node->node->info->name,
                     "files", arena_printf(&a, "%lld", (long long)x->files), "bytes",
                     arena_printf(&a, "%lld", (long long)x->bytes), NULL);
        again(x);
    }
    arena_fini(&a);
}

static void on_fetched(struct xfer *xfer, void *ctx, const struct err *e,
                       const struct xfer_progress *p) {
    struct published_node *x = ctx;
    struct err why = *e;
    (void)xfer;
    (void)p;
    x->xfer = NULL;
    if (why.code || ask(x, " --again", x->digest, on_checked, &why) < 0)
        failed(x, &why);
}

static int fetch(struct published_node *x, struct err *e) {
    static const struct xfer_events events = {.on_end = on_fetched};
    const struct follow *f = x->all->follow;
    struct fleet_node *n = x->node->node;
    struct arena a = {0};
    const char *new = file_join(&a, folder_of(&a, f->context, f->run, n->info->name), "new");
    const char *paths[] = {run_node_dir(&a, f->run->id, "snapshot/"), NULL};
    struct xfer_fetch_spec spec = {.program = n->facts.program,
                                   .root = n->facts.root,
                                   .paths = paths,
                                   .dest = file_join(&a, new, "state")};
    if (file_remove_tree(new, e) == 0 && file_make_dirs(new, 0700, e) == 0)
        x->xfer = xfer_fetch(n->link, &spec, &events, x, e);
    arena_fini(&a);
    return x->xfer ? 0 : -1;
}

static void on_snapshot(void *ctx, const struct transport_result *r) {
    struct published_node *x = ctx;
    struct arena a = {0};
    struct err e = {0};
    struct json *j = answer_of(x, &a, r);
    const char *digest = j ? json_get_str(j, "digest", "") : "";
    if (!j) {
        // answer_of has said why
    } else if (!json_get_bool(j, "new", false)) {
        x->newest_ms = clock_mono_ms(); // this side has the newest state
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

// True when another node gives the state that all have.
static bool is_spare(const struct published_node *x) {
    const struct follow *f = x->all->follow;
    for (size_t i = 0; f->run->native && i < x->node->index; i++)
        if (is_there(&f->nodes[i]))
            return true;
    return false;
}

static void on_next(struct timer *t) {
    struct published_node *x = container_of(t, struct published_node, next);
    struct err e = {0};
    if (x->asks || x->xfer || !is_there(x->node) || is_spare(x))
        again(x);
    else if (ask(x, "", x->known, on_snapshot, &e) < 0)
        failed(x, &e);
}

void state_published_open(struct published *p, struct follow *f) {
    struct context *s = f->context;
    int64_t now = clock_mono_ms();
    *p = (struct published){.every_ms = s->config->state_every_ms};
    if (!p->every_ms)
        return;
    p->follow = f;
    p->nodes = arena_new(s->arena, struct published_node, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        struct published_node *x = &p->nodes[i];
        const char *folder = folder_of(s->arena, s, f->run, f->nodes[i].node->info->name);
        int64_t number = generation_newest(folder);
        *x = (struct published_node){
            .all = p, .node = &f->nodes[i], .number = number > 0 ? number : 0, .newest_ms = now};
        again(x);
    }
}

void state_published_close(struct published *p) {
    for (size_t i = 0; p->follow && i < p->follow->count; i++) {
        timer_stop(&p->nodes[i].next);
        if (p->nodes[i].xfer)
            xfer_cancel(p->nodes[i].xfer);
        p->nodes[i].xfer = NULL;
    }
    p->follow = NULL;
}
