// SPDX-License-Identifier: Apache-2.0
// Runs `dtctl up` to replace lost machines while the run continues.
#include "run/node_replace.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "cluster/nodeset.h"
#include "run/monitor.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { TICK_MS = 500 };

static bool is_making(const struct replace *r) {
    return r->up.watch.loop != NULL;
}

// True when the round excludes the node and no agent of it can be reached or is being restarted.
static bool is_gone(const struct follow *f, size_t i) {
    const struct history_node *n = &f->history.nodes[i];
    return (n->lost || n->left || !n->joined) && !f->nodes[i].node->up && !f->nodes[i].restarting;
}

static bool is_over(const struct follow *f) {
    return f->over_ms || f->leave || f->stopping;
}

// True while the run is active on a node that remains.
static bool is_wanted(const struct follow *f) {
    if (is_over(f))
        return false;
    for (size_t i = 0; i < f->count; i++)
        if (!f->nodes[i].over && !is_gone(f, i))
            return true;
    return false;
}

// Folded names of the nodes that are gone; NULL: none.
static const char *name_gone(const struct follow *f) {
    struct arena *a = f->context->arena;
    const char **names = arena_new(a, const char *, f->count + 1);
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++)
        if (is_gone(f, i))
            names[count++] = f->nodes[i].node->info->name;
    return count ? nodeset_fold(a, names, count) : NULL;
}

// Loads new machines from the inventory that `up` has written. Returns their number.
static size_t take_new(struct follow *f, struct err *e) {
    struct inventory inv;
    size_t count = 0;
    if (cluster_load(&f->context->cluster, &inv, e) < 0)
        return 0;
    for (size_t i = 0; i < f->count; i++) {
        struct inventory_node *known = f->nodes[i].node->info;
        int at = inventory_find(&inv, known->name);
        if (at < 0 || f->nodes[i].node->up || str_eq(inv.nodes[at].instance_id, known->instance_id))
            continue;
        *known = inv.nodes[at];
        follow_replaced(&f->nodes[i]);
        count++;
    }
    return count;
}

static void on_ended(struct child *c, int status) {
    struct replace *r = container_of(c, struct replace, up);
    struct follow *f = r->follow;
    struct err e = {0};
    int64_t now = clock_mono_ms();
    if (!is_wanted(f))
        return;
    size_t count = proc_status_code(status) == 0 ? take_new(f, &e) : 0;
    if (count) {
        screen_note(f->context->screen, "dtctl up has replaced %zu node%s", count,
                    str_plural(count));
        monitor_note(f->context, f->run, "nodes-replaced", NULL);
        r->tries = 0;
        r->next_ms = now + REPLACE_PAUSE_MS; // until then they may join
        return;
    }
    r->next_ms = now + ((int64_t)REPLACE_PAUSE_MS << r->tries);
    r->tries++;
    log_warn("dtctl up has not replaced a node that is gone",
             "exit_status=%d log='%s' try=%d of=%d%s%s", proc_status_code(status), r->log_path,
             r->tries, REPLACE_TRIES_MAX, e.code ? " reason=" : "", e.code ? e.text : "");
}

// `up` reads its own options from the cluster's folder.
static int start_up(struct replace *r, struct err *e) {
    const struct follow *f = r->follow;
    const struct config *c = f->context->config;
    const char *argv[10] = {"/proc/self/exe", "up", "-y", "-c", c->cluster.name};
    size_t count = 5;
    if (c->file_found) {
        argv[count++] = "-f";
        argv[count++] = c->file;
    }
    auto_close int log_fd =
        open(r->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log_fd < 0)
        return err_errno(e, ERR_SYS, "cannot write '%s'", r->log_path);
    struct proc_spec spec = {.argv = argv,
                             .env = f->context->env,
                             .in = -1,
                             .out = log_fd,
                             .err = log_fd,
                             .new_group = true};
    pid_t pid = proc_start(&spec, e);
    return pid < 0 ? -1 : child_start(f->context->loop, &r->up, pid, on_ended, e);
}

static void begin(struct replace *r, const char *names) {
    const struct follow *f = r->follow;
    struct err e = {0};
    screen_note(f->context->screen, "%s: gone; dtctl up replaces them (log: %s)", names,
                r->log_path);
    monitor_note(f->context, f->run, "replacing-nodes", "peers", names, NULL);
    if (start_up(r, &e) < 0) {
        log_error("dtctl up cannot be started for nodes that are gone", "reason=\"%s\"", e.text);
        r->tries = REPLACE_TRIES_MAX;
    }
}

static void on_tick(struct timer *t) {
    struct replace *r = container_of(t, struct replace, tick);
    struct follow *f = r->follow;
    int64_t now = clock_mono_ms();
    if (is_over(f) || r->tries >= REPLACE_TRIES_MAX)
        return;
    timer_start(f->context->loop, t, TICK_MS, on_tick);
    bool may = is_wanted(f) && !is_making(r) && now >= r->next_ms;
    const char *names = may ? name_gone(f) : NULL;
    if (!names)
        r->seen_ms = 0;
    else if (!r->seen_ms)
        r->seen_ms = now;
    else if (now - r->seen_ms >= REPLACE_SETTLE_MS)
        begin(r, names);
}

void node_replace_init(struct replace *r, struct follow *f) {
    *r = (struct replace){.follow = f,
                          .log_path =
                              run_near_path(f->context->arena,
                                            run_path(&f->context->cluster, f->run, "replace.log"))};
    f->awaits = true;
    timer_start(f->context->loop, &r->tick, TICK_MS, on_tick);
}

void node_replace_close(struct replace *r) {
    if (!r->follow)
        return;
    struct context *s = r->follow->context;
    timer_stop(&r->tick);
    if (is_making(r)) {
        screen_note(s->screen, "calling off dtctl up, which was replacing a node of this run …");
        kill(r->up.pid, SIGINT);
        int64_t left_ms, end_ms = clock_mono_ms() + REPLACE_STOP_MS_MAX;
        while (is_making(r) && (left_ms = end_ms - clock_mono_ms()) > 0)
            loop_once(s->loop, (int)left_ms);
        if (is_making(r))
            log_warn("dtctl up is still undoing an unfinished change", "log='%s'", r->log_path);
        child_stop(&r->up);
    }
    r->follow = NULL;
}
