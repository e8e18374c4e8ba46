// SPDX-License-Identifier: Apache-2.0
// Fetches the results of a run.
#include "run/results/results.h"

#include "base/log.h"
#include "content/tree_merge.h"
#include "fleet/local_work.h"
#include "run/results/output_published.h"
#include "run/results/results_claim.h"
#include "run/results/results_kinds.h"
#include "run/results/results_part.h"
#include "run/results/state_copies.h"
#include "run/results/state_published.h"
#include "run/run_start.h"
#include "sys/file.h"
#include "sys/file_measure.h"

#include <string.h>
#include <unistd.h>

struct collect {
    const struct run *run;
    const size_t *order;
    const struct run_history *history;
    const bool *gone;
    bool beside; // merged files are here, and not all of their nodes give them again to compare
    int rank0;   // index of the only node whose output and model are fetched; -1: all nodes' are
    const struct content_ticks *ticks; // while parts are put together
    bool live;                         // files that came while the run went on may be used
    struct collect_result *result;
};

unsigned results_with_work(const struct run *run) {
    return run->bring_work ? RESULT_WORK : 0;
}

struct xfer *results_collect_start(struct fleet_node *n, const struct run *run, unsigned kinds,
                                   const struct xfer_events *events, void *ctx, struct err *e) {
    struct context *s = n->fleet->context;
    const char **paths = results_kinds_paths(s->arena, run->id, kinds);
    if (!*paths)
        return NULL;
    struct xfer_fetch_spec spec = {
        .program = n->facts.program,
        .root = n->facts.root,
        .paths = paths,
        .dest = results_part_path(s, run, n->info->name),
        .hash_cache_path = file_join(s->arena, s->cluster.dir, "hashes"),
        .missing_ok = true,
    };
    return xfer_fetch(n->link, &spec, events, ctx, e);
}

// Files that came while the run was active are the beginning of the node's part.
static int use_live(struct fleet_node *n, const struct run *run, unsigned *kinds, struct err *e) {
    struct context *s = n->fleet->context;
    const char *name = n->info->name;
    if (!output_published_has(s, run, name) || file_exists(results_part_mark(s, run, name)))
        return 0;
    if (*kinds)
        *kinds |= RESULTS_KINDS_LIST;
    return output_published_move(s, run, name, *kinds, results_part_path(s, run, name), e);
}

static struct xfer *start(void *ctx, struct fleet_node *n, const struct xfer_events *events,
                          struct err *e) {
    const struct collect *c = ctx;
    bool other = c->rank0 >= 0 && (size_t)c->rank0 != n->index;
    unsigned kinds = c->run->bring | results_with_work(c->run);
    if (other)
        kinds &= ~(unsigned)(RESULT_OUTPUT | RESULT_MODEL | RESULT_WORK);
    if (kinds && results_part_begin(n->fleet->context, c->run, n->info->name, kinds, e) < 0)
        return NULL;
    if (c->live && use_live(n, c->run, &kinds, e) < 0)
        return NULL;
    return results_collect_start(n, c->run, kinds, events, n, e);
}

// ---- one folder of several ----------------------------------------------------------------------

struct parts {
    const char **folders, **names; // of nodes with a part, NULL-terminated
    size_t count;
};

// Merges the trainer's files. A later merge overwrites an earlier one.
static int overlay(struct run *run, const struct parts *p, const struct collect *c, struct err *e) {
    for (size_t i = p->count; i-- > 0;) {
        const char *const folder[] = {p->folders[i], NULL}, *const name[] = {p->names[i], NULL};
        if (tree_merge(run->output_dir, folder, name, c->ticks, e) < 0)
            return -1;
    }
    return 0;
}

static int move_folder(const struct collect *c, const char *from, const char *to, const char *node,
                       struct err *e) {
    const char *const folder[] = {from, NULL}, *const name[] = {node, NULL};
    return tree_merge(to, folder, name, c->ticks, e);
}

// Moves each state to state/NODE, from where a resumed run returns it to the same node.
static int move_states(struct context *s, struct run *run, const struct parts *p,
                       const struct collect *c, struct err *e) {
    struct arena *a = s->arena;
    for (size_t i = 0; i < p->count; i++) {
        const char *from = file_join(a, p->folders[i], "state");
        const char *to = file_join(a, file_join(a, run->output_dir, "state"), p->names[i]);
        if (rmdir(from) == 0 || file_is_absent(from)) // an empty folder is no state
            continue;
        if (file_remove_tree(to, e) < 0 || move_folder(c, from, to, p->names[i], e) < 0)
            return -1;
    }
    return 0;
}

// Parts that come beside merged files stay in a folder per node. With rank0 only the files of that
// node are taken, beside the states; the first part is that node's, unless it gave none.
static int merge(struct fleet *f, struct run *run, const struct parts *p, const struct collect *c,
                 struct err *e) {
    struct context *s = f->context;
    struct arena *a = s->arena;
    const char *rank0 = c->rank0 < 0 ? NULL : f->nodes[c->rank0].info->name;
    if (move_states(s, run, p, c, e) < 0)
        return -1;
    if (rank0)
        return p->count && str_eq(p->names[0], rank0)
                   ? move_folder(c, p->folders[0], run->output_dir, rank0, e)
                   : 0;
    if (run->merge != CONFIG_MERGE_BY_NODE && !c->beside)
        return results_collisions_split(a, p->folders, p->names, p->count, run->output_dir,
                                        c->ticks, &c->result->collisions, e) < 0
                   ? -1
                   : tree_merge(run->output_dir, p->folders, p->names, c->ticks, e);
    for (size_t i = 0; i < p->count; i++)
        if (move_folder(c, p->folders[i], file_join(a, run->output_dir, p->names[i]), p->names[i],
                        e) < 0)
            return -1;
    return 0;
}

// True when the node's own state has come. A node of a run that did not finish may have answered
// with nothing, because its disk is another one by now.
static bool has_state(struct context *s, const struct run *run, const struct parts *p, size_t count,
                      const char *node) {
    struct file_measure m;
    for (size_t i = 0; i < count; i++)
        if (str_eq(p->names[i], node)) {
            file_measure(file_join(s->arena, p->folders[i], "state"), &m);
            return m.files || str_eq(run->state, "finished");
        }
    return false;
}

// Adds the newest generation of a state that has not come (state.every). Of the native trainer one
// is enough, where no node has given its own. A state that stays on its node needs none.
static int add_published(struct fleet *f, const struct run *run, const struct collect *c,
                         struct parts *p, struct err *e) {
    struct context *s = f->context;
    size_t given = p->count;
    bool any = false;
    for (size_t k = 0; k < f->count; k++)
        any |= has_state(s, run, p, given, f->nodes[c->order[k]].info->name);
    for (size_t k = 0; k < f->count && !(run->native && any); k++) {
        const struct fleet_node *n = &f->nodes[c->order[k]];
        const char *name = n->info->name;
        const char *folder = state_published_newest(s, run, name);
        if (!(run->bring & RESULT_STATE) && !n->failed)
            continue;
        if (folder && has_state(s, run, p, given, name)) {
            if (state_published_remove(s, run, name, e) < 0)
                return -1;
        } else if (folder) {
            screen_note(s->screen,
                        "node %s: its newest state that was fetched during the run is used", name);
            p->folders[p->count] = folder;
            p->names[p->count++] = name;
            any = true;
        }
    }
    return 0;
}

// True when the node may hold results of the end of the run: it was in the last round, or its round
// is unknown while that round lacks a report. Lost and departed nodes are excluded.
static bool is_wanted(const struct fleet *f, const struct collect *c, size_t i) {
    const struct run_history *t = c->history;
    int reported = 0;
    for (size_t k = 0; k < f->count; k++)
        reported += t->nodes[k].round == t->round;
    if (t->nodes[i].round == t->round)
        return true;
    return !t->nodes[i].lost && !t->nodes[i].left && (t->round < 0 || reported < t->nodes_in_round);
}

// The folder with what came of a node's output and model while the run went on, where the node
// gives no more; NULL: it is still to give its part, or nothing came.
static const char *stand_in(const struct fleet_node *n, const struct run *run,
                            const struct collect *c) {
    struct context *s = n->fleet->context;
    const char *name = n->info->name, *part = results_part_path(s, run, name);
    bool other = c->rank0 >= 0 && (size_t)c->rank0 != n->index;
    bool over = c->gone[n->index] || !is_wanted(n->fleet, c, n->index);
    if (run->native || other || !over || !output_published_has(s, run, name))
        return NULL;
    if (file_is_absent(part))
        part = output_published_path(s, run, name);
    screen_note(s->screen, "node %s: its files that were fetched during the run are used", name);
    return part;
}

// Takes the parts of the nodes that have given theirs. Of a node that left in the run, all kinds.
static int join_parts(struct fleet *f, const struct run *run, const struct collect *c,
                      struct parts *p, struct err *e) {
    struct context *s = f->context;
    for (size_t k = 0; k < f->count; k++) {
        const struct fleet_node *n = &f->nodes[c->order[k]];
        const char *name = n->info->name, *from = results_part_path(s, run, name), *renamed = NULL;
        bool marked = file_exists(results_part_mark(s, run, name));
        unsigned kinds = marked ? RESULT_ALL | RESULT_WORK : run->bring | results_with_work(run);
        bool live = n->failed && !marked;
        if (live) {
            from = stand_in(n, run, c);
            kinds &= RESULT_OUTPUT | RESULT_MODEL;
        }
        if (!from || file_is_absent(from))
            continue;
        if (!live && !marked && output_published_settle(s, run, name, from, e) < 0)
            return -1;
        p->folders[p->count] =
            results_kinds_join(s->arena, from, kinds, !marked && !live, &renamed, e);
        if (!p->folders[p->count])
            return -1;
        p->names[p->count++] = name;
        if (renamed)
            screen_note(s->screen,
                        "node %s: '%s' of its output is a name of dtctl's own in the results, and "
                        "becomes '%s_'",
                        name, renamed, renamed);
    }
    return 0;
}

static int put_together(struct fleet *f, struct run *run, const struct collect *c, struct err *e) {
    struct arena *a = f->context->arena;
    struct parts p = {arena_new(a, const char *, 2 * f->count + 1),
                      arena_new(a, const char *, 2 * f->count + 1), 0};
    if (join_parts(f, run, c, &p, e) < 0)
        return -1;
    size_t own = p.count;
    if (add_published(f, run, c, &p, e) < 0)
        return -1;
    if (p.count == 0 && !c->result->complete)
        return 0;
    if (results_claim(f->context, run, e) < 0)
        return -1;
    int result = run->native ? overlay(run, &p, c, e) : merge(f, run, &p, c, e);
    // Sync first: the record then says "fetched", which allows nodes to delete their copies.
    if (result == 0 && p.count)
        result = file_sync_disk(run->output_dir, e);
    for (size_t i = own; result == 0 && i < p.count; i++) // older ones must not come after them
        result = state_published_remove(f->context, run, p.names[i], e);
    return result;
}

// An interrupted one is done again by the next fetch.
static int put_together_here(struct fleet *f, struct run *run, const struct collect *c,
                             struct err *e) {
    struct collect shown = *c;
    struct local_work w;
    local_work_begin(&w, f->context, "merge");
    shown.ticks = &w.ticks;
    int result = put_together(f, run, &shown, e);
    local_work_end(&w);
    return result;
}

// ---- fetching -----------------------------------------------------------------------------------

// Nodes of the last round by rank, then the others.
static const size_t *order_nodes(struct fleet *f, const struct run_history *history) {
    size_t *order = arena_new(f->context->arena, size_t, f->count), count = 0;
    for (int last = 1; last >= 0; last--)
        for (size_t i = 0; i < f->count; i++)
            if ((history->nodes[i].round == history->round) == last)
                order[count++] = i;
    for (size_t k = 1; k < count; k++) // nearly sorted: ranks follow the nodes' order
        for (size_t j = k;
             j > 0 && history->nodes[order[j]].round == history->round &&
             history->nodes[order[j]].first_rank < history->nodes[order[j - 1]].first_rank;
             j--) {
            size_t moved = order[j];
            order[j] = order[j - 1];
            order[j - 1] = moved;
        }
    return order;
}

// The node of rank 0 in the last round, where only its files are wanted; -1: all nodes' are, or it
// is not known.
static int find_rank0(const struct collect *c) {
    const struct run_history *t = c->history;
    const struct history_node *n = &t->nodes[c->order[0]];
    bool known = t->round >= 0 && n->round == t->round && n->first_rank == 0;
    return c->run->merge == CONFIG_MERGE_RANK0 && known ? (int)c->order[0] : -1;
}

static int fetch_all(struct fleet *f, struct collect *c, struct err *e) {
    int result = fleet_transfer_each(f, "fetch", start, c, &c->result->totals, e);
    c->result->complete = true;
    for (size_t i = 0; i < f->count; i++)
        if (f->nodes[i].failed && !c->gone[i] && is_wanted(f, c, i))
            c->result->complete = false;
    return result;
}

// Fetches from the first node in order that succeeds.
static int fetch_one(struct fleet *f, struct collect *c, struct err *e) {
    bool *complete = &c->result->complete;
    int result = 0;
    for (size_t k = 0; k < f->count && result == 0 && !*complete; k++) {
        struct fleet_node *n = &f->nodes[c->order[k]];
        if (n->failed || c->history->nodes[c->order[k]].round != c->history->round)
            continue;
        for (size_t i = 0; i < f->count; i++)
            f->nodes[i].left_out = &f->nodes[i] != n ? "one node's copy is all there is" : NULL;
        result = fleet_transfer_each(f, "fetch", start, c, &c->result->totals, e);
        *complete = result == 0 && !n->failed;
    }
    return result;
}

// The kinds that are not here yet and that only this node can have had.
static unsigned kinds_only_on(const struct run *run, const struct collect *c, size_t i) {
    unsigned kinds = run->rest ? run->bring & run->left : RESULT_ALL;
    bool other = c->rank0 >= 0 && (size_t)c->rank0 != i;
    return other ? kinds & ~(unsigned)(RESULT_OUTPUT | RESULT_MODEL) : kinds;
}

// Kinds that were left on the nodes, and of which no node has a file any more.
static unsigned find_deleted(const struct run *run, const struct collect *c) {
    bool again = run->lost_count == run->node_count && run->lost_kinds != RESULT_ALL;
    unsigned left = run->left | (again ? run->lost_kinds : 0);
    if (!run->rest || run->native)
        return 0;
    return run->bring & left & ~work_left_kinds(&c->result->work_left, RESULT_ALL);
}

// Lists nodes whose files are lost. Every node has all files of the native trainer. A node that had
// lost its part earlier is asked again. Results that were not fetched from it now are left there.
static void find_lost(const struct fleet *f, struct run *run, struct collect *c) {
    size_t given = 0, waiting = 0, lost_count = 0;
    bool back = false, failed = false;
    unsigned before = run->rest && run->lost_count ? run->lost_kinds : 0, now = 0;
    unsigned deleted = find_deleted(run, c);
    const char **lost = arena_new(f->context->arena, const char *, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        const struct fleet_node *n = &f->nodes[i];
        bool was_lost = run->rest && run_has_lost(run, n->info->name);
        unsigned kinds = c->gone[i] && is_wanted(f, c, i) ? kinds_only_on(run, c, i) : 0;
        given += !n->failed && !n->left_out;
        failed |= n->failed;
        waiting += n->failed && !c->gone[i] && is_wanted(f, c, i);
        back |= was_lost && !n->failed;
        if (kinds || (was_lost && n->failed))
            lost[lost_count++] = n->info->name;
        now |= kinds;
    }
    if (run->rest && !run->bring) { // files that are already here are not lost
        c->result->complete = !waiting;
        return;
    }
    run->lost = lost;
    run->lost_count = run->native && given ? 0 : lost_count;
    run->lost_kinds = before | now;
    if (deleted && !failed) {
        run->lost = run->nodes;
        run->lost_count = run->node_count;
        run->lost_kinds = before | deleted;
    }
    if (back)
        run->left |= before;
    c->beside = back && failed;
    c->result->complete |= run->lost_count && !waiting;
}

// Kinds that this fetch has not brought and the nodes have.
static unsigned find_left(const struct run *run, const struct collect_result *got) {
    if (run->rest)
        return got->complete ? run->left & ~run->bring : run->left;
    return work_left_kinds(&got->work_left, RESULT_ALL & ~run->bring);
}

// Nodes that had the run when it was followed, and have it no more.
static void find_gone(struct fleet *f, const struct run *run, const bool *now, bool *gone) {
    struct err why = {0};
    for (size_t i = 0; i < f->count; i++) {
        const char *name = f->nodes[i].info->name;
        if (!now[i] || file_exists(results_part_mark(f->context, run, name)))
            continue;
        gone[i] = true;
        err_set(&why, ERR_NO_STATUS,
                "it does not have the run any more, and its part of the results is lost");
        fleet_fail(&f->nodes[i], &why);
    }
}

// *live: no other dtctl fetches files of the run as if it still went on.
static int hold_live(struct context *s, const struct run *run, int *lock, bool *live,
                     struct err *e) {
    if (file_is_absent(output_published_path(s, run, NULL)))
        return 0;
    *live = output_published_stop(s, run, lock, e) == 0;
    if (*live || e->code != ERR_BUSY)
        return *live ? 0 : -1;
    screen_note(s->screen, "what came while the run went on is fetched again: %s", e->text);
    err_clear(e);
    return 0;
}

int results_collect(struct fleet *f, struct run *run, const struct run_history *history, bool *gone,
                    struct collect_result *out, struct err *e) {
    struct context *s = f->context;
    const char *incoming = run_path(&s->cluster, run, "incoming");
    struct collect c = {
        .run = run,
        .order = order_nodes(f, history),
        .history = history,
        .gone = gone,
        .result = out,
    };
    auto_close int live_lock = -1;
    *out = (struct collect_result){0};
    c.rank0 = find_rank0(&c);
    if (hold_live(s, run, &live_lock, &c.live, e) < 0)
        return -1;
    if (work_left_ask(f, run, c.rank0, &out->work_left, e) < 0)
        return -1;
    find_gone(f, run, out->work_left.gone, gone);
    if (file_make_dirs(incoming, 0700, e) < 0)
        return -1;
    bool one_is_enough = run->native && str_eq(run->state, "finished");
    int result = one_is_enough ? fetch_one(f, &c, e) : fetch_all(f, &c, e);
    if (result == 0)
        find_lost(f, run, &c);
    if (result == 0 && !run->native && (run->bring & RESULT_STATE))
        result = state_copies_fetch(f, run, e);
    if (result == 0)
        result = put_together_here(f, run, &c, e);
    run->left = find_left(run, out);
    // Keep the incoming part of a lost node: no other copy exists.
    if (result == 0 && out->complete && run->lost_count == 0)
        result = file_remove_tree(incoming, e);
    if (result == 0 && out->complete && !(run->left & RESULT_STATE))
        result = state_published_remove(s, run, NULL, e);
    if (result == 0 && out->complete && !(run->left & (RESULT_OUTPUT | RESULT_MODEL)))
        result = output_published_remove(s, run, e);
    // The marks say of nodes that are gone that nothing of them is missing in a later fetch.
    if (result == 0 && out->complete && !run->left)
        result = file_remove_tree(run_path(&s->cluster, run, "left"), e);
    run->work_left = run->bring_work && out->complete ? 0 : out->work_left.files;
    return result;
}
