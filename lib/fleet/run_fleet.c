// SPDX-License-Identifier: Apache-2.0
// The fleet of one run.
#include "fleet/run_fleet.h"

#include <string.h>

// A node that has left the cluster keeps its place, as the others' results are to be had all the
// same.
static size_t add_absent(struct context *s, struct inventory *inv, const char *name) {
    struct inventory_node *nodes = arena_new(s->arena, struct inventory_node, inv->count + 1);
    memcpy(nodes, inv->nodes, inv->count * sizeof *nodes);
    nodes[inv->count] = (struct inventory_node){
        .name = name, .address = "", .host = "", .user = "", .root = "", .host_key = ""};
    inv->nodes = nodes;
    return inv->count++;
}

int run_fleet_open(struct run_fleet *r, struct context *s, const char *run, struct err *e) {
    const char *id = NULL;
    struct err why = {0};
    *r = (struct run_fleet){0};
    if (cluster_find_run(&s->cluster, run, &id, e) < 0 ||
        run_load(&s->cluster, id, &r->run, e) < 0 ||
        cluster_load(&s->cluster, &r->inventory, e) < 0)
        return -1;
    size_t *indices = arena_new(s->arena, size_t, r->run.node_count);
    bool *absent = arena_new(s->arena, bool, r->run.node_count);
    for (size_t i = 0; i < r->run.node_count; i++) {
        int at = inventory_find(&r->inventory, r->run.nodes[i]);
        absent[i] = at < 0;
        indices[i] = at < 0 ? add_absent(s, &r->inventory, r->run.nodes[i]) : (size_t)at;
    }
    fleet_open(&r->fleet, s, &r->inventory, indices, r->run.node_count);
    for (size_t i = 0; i < r->run.node_count; i++) {
        r->fleet.nodes[i].absent = absent[i];
        err_set(&why, ERR_NOT_FOUND, "run '%s' was on it, and it is no longer in cluster '%s'", id,
                s->cluster.name);
        if (absent[i])
            fleet_fail(&r->fleet.nodes[i], &why);
    }
    return 0;
}
