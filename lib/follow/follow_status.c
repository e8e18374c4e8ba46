// SPDX-License-Identifier: Apache-2.0
// The outcome of a run that was followed to its end: final state, exit status, names of its logs.
#include "follow/follow.h"

#include "protocol/node_protocol.h"
#include "sys/file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

// logs/<node>/<rank>.out is the newest attempt of that rank; earlier ones are
// <rank>.attempt<N>.out.
static int link_log(struct follow *f, const struct follow_node *n, const struct mirror_file *m,
                    struct err *e) {
    struct arena *a = &f->scratch;
    const struct history_attempt *newest = f->history.nodes[n->index].attempts;
    int rank = run_history_rank_of(&f->history, n->index, m->file.attempt, m->file.local_rank);
    const char *end = m->file.kind == FOLLOW_STDOUT ? "out" : "err";
    char *dir = arena_printf(a, "%s/%s", run_path(&f->context->cluster, f->run, "logs"),
                             n->node->info->name);
    char *path;
    if (rank < 0)
        path = arena_printf(a, "%s/local%d.attempt%d.%s", dir, m->file.local_rank, m->file.attempt,
                            end);
    else if (newest && m->file.attempt == newest->attempt)
        path = arena_printf(a, "%s/%d.%s", dir, rank, end);
    else
        path = arena_printf(a, "%s/%d.attempt%d.%s", dir, rank, m->file.attempt, end);
    if (file_make_dirs(dir, 0700, e) < 0)
        return -1;
    if (unlink(path) < 0 && errno != ENOENT)
        return err_errno(e, ERR_SYS, "cannot replace '%s'", path);
    if (link(m->path, path) < 0 && symlink(m->path, path) < 0)
        return err_errno(e, ERR_SYS, "cannot name '%s'", path);
    return 0;
}

int follow_name_logs(struct follow *f, struct err *e) {
    int result = 0;
    for (size_t i = 0; i < f->count && result == 0; i++)
        for (const struct mirror_file *m = f->nodes[i].mirror.files; m && result == 0; m = m->next)
            if (m->file.kind == FOLLOW_STDOUT || m->file.kind == FOLLOW_STDERR)
                result = link_log(f, &f->nodes[i], m, e);
    arena_reset(&f->scratch);
    return result;
}

bool follow_is_final(const char *state) {
    for (int i = 0; i <= NODE_LOST; i++)
        if (strcmp(node_state_name((enum node_state)i), state) == 0)
            return node_state_is_final((enum node_state)i);
    return false;
}

const char *follow_state(const struct follow *f, int *exit_status) {
    // An agent reports "finished" only when a coordinator declared it for all nodes. A node that
    // was cut off reports "failed" for itself alone; then the state of the last coordinator counts.
    // No agent reports "lost".
    static const enum node_state ORDER[] = {NODE_FINISHED, NODE_FAILED, NODE_STOPPED, NODE_LOST};
    const struct follow_node *leader = NULL;
    *exit_status = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct follow_node *n = &f->nodes[i];
        if (!n->over || (n->state[0] && !follow_is_final(n->state)))
            return "";
        if (str_eq(f->history.coordinator, n->node->info->name) && n->state[0] &&
            strcmp(n->state, node_state_name(NODE_LOST)) != 0)
            leader = n;
    }
    for (size_t k = 0; k < sizeof ORDER / sizeof ORDER[0]; k++) {
        const char *name = node_state_name(ORDER[k]);
        for (size_t i = 0; i < f->count; i++) {
            const struct follow_node *n =
                leader && ORDER[k] != NODE_FINISHED ? leader : &f->nodes[i];
            if (strcmp(n->state, name) != 0)
                continue;
            *exit_status = n->exit_status;
            return name;
        }
    }
    *exit_status = node_state_exit_status(NODE_LOST);
    return node_state_name(NODE_LOST);
}
