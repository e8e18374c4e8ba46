// SPDX-License-Identifier: Apache-2.0
// Follows a run on all its nodes.
//
// States of a node: no link -> link (fleet_link) -> `follow` runs -> over. Every failure leads back
// to "no link" through a timer with a growing pause. The offsets to continue from are the sizes of
// the local copies, so no other state is kept.
#include "follow/follow.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "protocol/node_protocol.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TICK_MS = 100 };

static void follow_start(struct follow_node *n);

// ---- one node ----------------------------------------------------------------------------------

static void node_over(struct follow_node *n) {
    struct follow *f = n->follow;
    n->over = true;
    n->lost_ms = 0;
    timer_stop(&n->retry);
    if (!f->goes_on || follow_is_final(n->state))
        log_mirror_flush(&n->mirror, follow_take_line, n);
    // The end of a vanished or preempted agent does not imply the end of the others.
    bool left = f->history.nodes[n->index].announced &&
                strcmp(n->state, node_state_name(NODE_STOPPED)) == 0;
    if (!f->over_ms && !n->no_status && !left && strcmp(n->state, node_state_name(NODE_LOST)) != 0)
        f->over_ms = clock_mono_ms();
    if (f->view->on_over)
        f->view->on_over(f->ctx, n);
}

static void node_give_up(struct follow_node *n, const struct err *e) {
    n->no_status = true;
    n->err = *e;
    node_over(n);
}

static void on_retry(struct timer *t) {
    struct follow_node *n = container_of(t, struct follow_node, retry);
    struct err e = {0};
    if (n->run) { // begins again with more files
        transport_run_close(n->run);
        n->run = NULL;
        strbuf_clear(&n->in);
    }
    if (n->node->up && n->node->ready)
        follow_start(n);
    else if (!n->node->link && fleet_link(n->node, &e) < 0) // else on_back or on_lost follows
        n->follow->fleet->on_lost(n->node, &e);
}

// Checks that this side has the descriptors for one more node. Without them no node is at fault.
static bool can_reach_any(void) {
    enum { NODE_DESCRIPTORS = 9 }; // three pipes, one for the start of a program, and the program
    int fds[NODE_DESCRIPTORS], count = 0;
    bool out = false;
    while (count < NODE_DESCRIPTORS && !out) {
        fds[count] = eventfd(0, EFD_CLOEXEC);
        out = fds[count] < 0 && (errno == EMFILE || errno == ENFILE);
        count++;
    }
    while (count-- > 0)
        if (fds[count] >= 0)
            close(fds[count]);
    return !out;
}

// The node is unreachable: reports it once and tries again later.
static void node_lost(struct follow_node *n, const struct err *e) {
    struct follow *f = n->follow;
    if (n->over)
        return;
    strbuf_clear(&n->in);
    n->err = *e;
    if (!can_reach_any()) {
        f->local_err = *e;
        return;
    }
    if (!n->lost_ms) {
        n->lost_ms = clock_mono_ms();
        n->retry_ms = FOLLOW_RETRY_MS_MIN;
        if (f->view->on_lost)
            f->view->on_lost(f->ctx, n, e);
    }
    timer_start(f->context->loop, &n->retry, n->retry_ms, on_retry);
    n->retry_ms = n->retry_ms * 2 < FOLLOW_RETRY_MS_MAX ? n->retry_ms * 2 : FOLLOW_RETRY_MS_MAX;
}

static void on_fleet_lost(struct fleet_node *node, const struct err *e) {
    struct follow_node *n = node->work;
    // Retrying does not help after a changed host key or a refused login.
    bool for_good = node->absent || e->code == ERR_HOSTKEY || e->code == ERR_AUTH;
    if (!n->over && !n->follow->awaits && for_good)
        node_give_up(n, e);
    else
        node_lost(n, e);
}

static void on_fleet_back(struct fleet_node *node) {
    struct follow_node *n = node->work;
    if (!n->over)
        follow_start(n);
}

static void take_record(struct follow_node *n, const struct follow_record *r) {
    struct follow *f = n->follow;
    struct err e = {0};
    if (n->lost_ms) {
        n->lost_ms = 0;
        if (f->view->on_back)
            f->view->on_back(f->ctx, n);
    }
    if (r->kind == FOLLOW_BYTES && log_mirror_write(&n->mirror, r, follow_take_line, n, &e) < 0)
        follow_keep_error(f, &e);
    if (r->kind == FOLLOW_END && !f->until_now && !follow_is_final(r->state)) {
        // The agent is exiting and its descriptors are still open: ask again.
        err_set(&e, ERR_NO_STATUS, "the agent ended while the run was %s", r->state);
        node_lost(n, &e);
    } else if (r->kind == FOLLOW_END) {
        memcpy(n->state, r->state, sizeof n->state);
        n->exit_status = r->exit_status;
        bool lost = strcmp(n->state, node_state_name(NODE_LOST)) == 0;
        n->restarting = lost && !f->until_now && f->restart && f->restart(f->restart_ctx, n, false);
        if (!n->restarting)
            node_over(n);
    }
}

// The logs of a machine that is about to end would be lost.
static void take_all_files(struct follow_node *n) {
    struct follow *f = n->follow;
    if (!f->events_only || n->all_files || n->over || !f->history.nodes[n->index].announced)
        return;
    n->all_files = true;
    timer_start(f->context->loop, &n->retry, 0, on_retry);
}

static void take_output(struct follow_node *n, struct transport_run *run, const void *p,
                        size_t len) {
    struct err e = {0};
    strbuf_add(&n->in, p, len);
    size_t used = 0;
    while (!n->over) {
        struct follow_record r;
        // As a length these four bytes would exceed the limit, so they cannot begin a record. They
        // begin an error line, which on_run_end reads.
        if (used == 0 && n->in.len >= 4 && memcmp(n->in.data, "{\"ev", 4) == 0)
            break;
        int64_t took = follow_record_read(strbuf_cstr(&n->in) + used, n->in.len - used, &r, &e);
        if (took == 0)
            break;
        if (took < 0) {
            n->run = NULL;
            transport_run_close(run);
            node_lost(n, &e);
            return;
        }
        used += (size_t)took;
        take_record(n, &r);
        if (r.kind == FOLLOW_END) { // the last one; the buffer of a lost node is empty already
            strbuf_clear(&n->in);
            return;
        }
    }
    strbuf_consume(&n->in, used);
    take_all_files(n);
}

static void on_output(struct transport_run *run, void *ctx, const void *p, size_t len) {
    struct follow_node *n = ctx;
    struct screen *screen = n->follow->context->screen;
    if (n->over)
        return;
    screen_gather(screen);
    take_output(n, run, p, len);
    screen_flush(screen);
}

static void on_run_end(struct transport_run *run, void *ctx, const struct transport_end *end) {
    (void)run;
    struct follow_node *n = ctx;
    struct err e = {0};
    n->run = NULL;
    if (n->over || n->restarting)
        return;
    struct transport_result as = {.end = *end,
                                  .out = strbuf_cstr(&n->in),
                                  .out_len = n->in.len,
                                  .err_text = "",
                                  .err_len = 0};
    if (fleet_answer(&as, &e) == 0)
        err_set(&e, ERR_NO_STATUS, "the agent's stream ended without the run's end");
    struct follow *f = n->follow;
    bool is_new = e.code == ERR_NOT_FOUND;
    n->restarting = is_new && !f->until_now && f->restart && f->restart(f->restart_ctx, n, true);
    if (is_new && !n->restarting)
        node_give_up(n, &e);
    else if (!n->restarting)
        node_lost(n, &e);
}

void follow_again(struct follow_node *n) {
    struct err e = {0};
    n->restarting = false;
    strbuf_clear(&n->in);
    if (n->run)
        transport_run_close(n->run);
    n->run = NULL;
    err_set(&e, ERR_NET, "it is not connected");
    if (n->node->up && n->node->ready)
        follow_start(n);
    else
        node_lost(n, &e);
}

void follow_stays_lost(struct follow_node *n) {
    n->restarting = false;
    node_over(n);
}

void follow_replaced(struct follow_node *n) {
    fleet_unlink(n->node);
    n->over = n->no_status = false;
    n->state[0] = '\0';
    if (!n->lost_ms)
        n->lost_ms = clock_mono_ms();
    n->retry_ms = FOLLOW_RETRY_MS_MIN;
    timer_start(n->follow->context->loop, &n->retry, 0, on_retry);
}

// Sends the offsets to continue from. Thousands of offsets exceed what the channel takes at once.
static void send_offsets(struct transport_run *run, void *ctx) {
    struct follow_node *n = ctx;
    strbuf_consume(&n->from, transport_run_send(run, n->from.data, n->from.len));
    if (n->from.len)
        return;
    transport_run_send_end(run);
    strbuf_fini(&n->from);
}

static void on_room(struct transport_run *run, void *ctx) {
    if (((struct follow_node *)ctx)->from.len)
        send_offsets(run, ctx);
}

static void follow_start(struct follow_node *n) {
    static const struct transport_run_events events = {
        .on_output = on_output, .on_room = on_room, .on_end = on_run_end};
    struct follow *f = n->follow;
    struct err e = {0};
    unsigned char length[4];
    bool events_only = f->events_only && !n->all_files;
    char *rest = arena_printf(f->context->arena, "--run %s --from -%s%s", f->run->id,
                              f->until_now ? " --once" : "", events_only ? " --only events" : "");
    char *line = fleet_line(n->node, NODE_VERB_FOLLOW, rest);
    n->run =
        transport_run(n->node->link, &(struct transport_command){.line = line}, &events, n, &e);
    if (!n->run) {
        node_lost(n, &e);
        return;
    }
    strbuf_clear(&n->from);
    log_mirror_offsets(&n->mirror, &n->from);
    bytes_store(length, n->from.len, sizeof length);
    transport_run_send(n->run, length, sizeof length);
    send_offsets(n->run, n);
}

// ---- all nodes ---------------------------------------------------------------------------------

// Expressions are checked before a run is sent. A run of another dtctl version may still have an
// invalid one; it is skipped, since the results of the run matter more.
static void add_metrics(struct follow *f) {
    const struct option_map *all = &f->run->metrics;
    for (size_t i = 0; i < all->count; i++) {
        struct err e = {0};
        if (metrics_add(&f->metrics, f->context->arena, all->items[i].name, all->items[i].value,
                        &e) < 0)
            log_warn("cannot use a metric", "reason=\"%s\"", e.text);
    }
}

// Feeds the local data to the history.
static int open_mirror(struct follow_node *n, struct err *e) {
    struct follow *f = n->follow;
    struct context *s = f->context;
    const char *dir = run_node_path(&s->cluster, f->run, n->node->info->name, "");
    if (log_mirror_open(&n->mirror, &f->open_files, s->arena, dir, e) < 0 ||
        log_mirror_replay(&n->mirror, FOLLOW_EVENTS, false, follow_take_line, n, e) < 0 ||
        log_mirror_replay(&n->mirror, FOLLOW_METRICS, false, follow_take_line, n, e) < 0)
        return -1;
    return 0;
}

int follow_open(struct follow *f, struct context *s, struct fleet *fleet, struct run *run,
                const struct follow_view *view, void *ctx, struct err *e) {
    *f = (struct follow){.context = s, .fleet = fleet, .run = run, .view = view, .ctx = ctx};
    f->count = fleet->count;
    f->nodes = arena_new(s->arena, struct follow_node, f->count + 1);
    f->events_path = run_path(&s->cluster, run, "events.jsonl");
    f->metrics_path = run_path(&s->cluster, run, "metrics.jsonl");
    for (size_t i = 0; i < f->count; i++) { // all nodes, since follow_close expects all
        struct follow_node *n = &f->nodes[i];
        n->follow = f;
        n->node = &fleet->nodes[i];
        n->index = i;
        n->node->work = n;
    }
    fleet->on_lost = on_fleet_lost;
    fleet->on_back = on_fleet_back;
    run_history_init(&f->history, s->arena, run->nodes, run->node_count);
    add_metrics(f);
    f->replaying = true;
    for (size_t i = 0; i < f->count; i++)
        if (open_mirror(&f->nodes[i], e) < 0)
            return -1;
    f->replaying = false;
    return 0;
}

void follow_close(struct follow *f) {
    timer_stop(&f->tick);
    f->fleet->on_lost = NULL;
    f->fleet->on_back = NULL;
    for (size_t i = 0; i < f->count; i++) {
        struct follow_node *n = &f->nodes[i];
        timer_stop(&n->retry);
        if (n->run)
            transport_run_close(n->run);
        n->run = NULL;
        strbuf_fini(&n->in);
        strbuf_fini(&n->from);
        log_mirror_close(&n->mirror);
        line_times_fini(&n->times);
        n->node->work = NULL;
    }
    metrics_fini(&f->metrics);
    arena_fini(&f->scratch);
}

// Gives up nodes that stay unreachable while the run is over elsewhere. Records since when no node
// answers.
static void check_limits(struct follow *f) {
    int64_t now = clock_mono_ms();
    size_t out = 0, open = 0;
    for (size_t i = 0; i < f->count; i++) {
        struct follow_node *n = &f->nodes[i];
        open += !n->over;
        out += !n->over && n->lost_ms;
        int64_t wait_ms = f->history.nodes[i].lost ? FOLLOW_GONE_MS_MAX : FOLLOW_LOST_MS_MAX;
        if (!n->over && n->lost_ms && f->over_ms && now - f->over_ms > wait_ms &&
            now - n->lost_ms > wait_ms)
            node_give_up(n, &n->err);
    }
    if (out < open || open == 0)
        f->unreachable_ms = 0;
    else if (!f->unreachable_ms)
        f->unreachable_ms = now;
}

static void on_tick(struct timer *t) {
    struct follow *f = container_of(t, struct follow, tick);
    check_limits(f);
    if (f->view->on_tick)
        f->view->on_tick(f->ctx);
    timer_start(f->context->loop, t, TICK_MS, on_tick);
}

static bool all_over(const struct follow *f) {
    for (size_t i = 0; i < f->count; i++)
        if (!f->nodes[i].over)
            return false;
    return true;
}

static int out_of_descriptors(const struct follow *f, struct err *e) {
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    return err_set(e, ERR_LIMIT, "%s; dtctl may have %llu open (try: ulimit -n 1024)",
                   f->local_err.text, (unsigned long long)limit.rlim_cur);
}

int follow_wait(struct follow *f, struct err *e) {
    for (size_t i = 0; i < f->count; i++) {
        struct follow_node *n = &f->nodes[i];
        struct err why = n->node->err;
        bool reached = n->node->up && n->node->ready;
        if (!reached && why.code == ERR_NONE)
            err_set(&why, ERR_NET, "it is not connected");
        n->node->failed = false;
        err_clear(&n->node->err);
        if (reached)
            follow_start(n);
        else
            on_fleet_lost(n->node, &why);
    }
    timer_start(f->context->loop, &f->tick, TICK_MS, on_tick);
    while ((!all_over(f) || f->held) && !f->leave && !f->local_err.code) {
        loop_once(f->context->loop, -1);
        if (f->unreachable_ms && clock_mono_ms() - f->unreachable_ms > FOLLOW_UNREACHABLE_MS_MAX)
            break;
    }
    timer_stop(&f->tick);
    if (all_over(f))
        return 0;
    if (f->leave && f->stopping)
        return err_set(e, ERR_INTERRUPTED,
                       "left the run '%s' while it stops (try: dtctl logs -f %s, which brings its "
                       "results)",
                       f->run->id, f->run->id);
    if (f->leave)
        return err_set(e, ERR_INTERRUPTED, "left the run '%s' (try: dtctl logs -f %s)", f->run->id,
                       f->run->id);
    if (f->local_err.code)
        return out_of_descriptors(f, e);
    return err_set(e, ERR_NO_STATUS,
                   "no node of run '%s' has answered for %d minutes; it may still be going "
                   "(try: dtctl logs -f %s)",
                   f->run->id, FOLLOW_UNREACHABLE_MS_MAX / 60000, f->run->id);
}

static void on_stop_answer(void *ctx, const struct transport_result *r) {
    (void)ctx;
    struct err e = {0};
    if (fleet_answer(r, &e) < 0)
        log_debug("a node did not accept the request to stop", "reason=\"%s\"", e.text);
}

void follow_stop_run(struct follow *f, const char *why) {
    f->stopping = true;
    log_debug("asking the agents to stop", "reason=\"%s\"", why);
    for (size_t i = 0; i < f->count; i++) {
        struct follow_node *n = &f->nodes[i];
        struct err e = {0};
        if (n->over || n->restarting || !n->node->up || !n->node->ready)
            continue;
        char *rest = arena_printf(f->context->arena, "--run %s", f->run->id);
        if (transport_collect(n->node->link, fleet_line(n->node, NODE_VERB_STOP, rest), NULL, 0,
                              on_stop_answer, NULL, &e) < 0)
            log_warn("a node cannot be asked to stop", "node=%s reason=\"%s\"", n->node->info->name,
                     e.text);
    }
}
