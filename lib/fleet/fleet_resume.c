// SPDX-License-Identifier: Apache-2.0
// Steps that go on after a lost connection.
#include "fleet/fleet.h"

#include "base/log.h"

// Whether the step failed here because the connection broke.
static bool was_cut(const struct fleet_node *n) {
    enum err_code c = n->err.code;
    return n->failed && !n->up && (c == ERR_NET || c == ERR_TIMEOUT || c == ERR_NO_STATUS);
}

// Takes the nodes that were cut back in, leaving out those that are done. How many there are.
static size_t take_back(struct fleet *f, const bool *failed_before, void *const *work) {
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        struct fleet_node *n = &f->nodes[i];
        bool again = !failed_before[i] && was_cut(n);
        n->left_out = again ? NULL : "its part is over";
        if (!again)
            continue;
        log_warn("a connection was lost; trying again", "node=%s reason=\"%s\"", n->info->name,
                 n->err.text);
        n->failed = false;
        n->work = work[i];
        err_clear(&n->err);
        count++;
    }
    return count;
}

int fleet_each_resumed(struct fleet *f, const char *operation, fleet_start *start, struct err *e) {
    struct arena *a = f->context->arena;
    bool *failed_before = arena_new(a, bool, f->count + 1);
    void **work = arena_new(a, void *, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        failed_before[i] = f->nodes[i].failed;
        work[i] = f->nodes[i].work;
    }
    int result = fleet_each_of(f, operation, start, FLEET_MOVING_NODES_MAX, e);
    for (int retry = 0; result == 0 && retry < FLEET_RETRIES_MAX; retry++) {
        if (take_back(f, failed_before, work) == 0)
            break;
        result = context_pause(f->context, FLEET_RETRY_PAUSE_MS, e);
        if (result == 0)
            result = fleet_connect(f, true, e);
        if (result == 0)
            result = fleet_each_of(f, operation, start, FLEET_MOVING_NODES_MAX, e);
    }
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].left_out = NULL;
    return result;
}
