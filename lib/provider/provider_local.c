// SPDX-License-Identifier: Apache-2.0
// Provider local: nodes are folders .dtctl/<cluster>/nodes/<name>/ and loopback addresses from
// 127.0.0.2 on. Only the folders are created, so the provider works for any user on any Linux
// machine.
#include "provider/provider.h"

#include "sys/file.h"

enum { LOCAL_NODES_MAX = 250 };

static int local_plan(struct context *s, struct inventory *out, struct err *e) {
    int64_t count = s->config->cluster.nodes;
    if (count < 1 || count > LOCAL_NODES_MAX)
        return err_set(e, ERR_CONFIG, "%s: provider local makes 1 to %d nodes, not %lld",
                       config_where(s->config, "cluster.nodes"), LOCAL_NODES_MAX, (long long)count);
    out->nodes = arena_new(s->arena, struct inventory_node, (size_t)count);
    out->count = (size_t)count;
    for (size_t i = 0; i < out->count; i++) {
        struct inventory_node *n = &out->nodes[i];
        n->name = arena_printf(s->arena, "node%zu", i);
        n->transport = INVENTORY_LOCAL;
        n->address = arena_printf(s->arena, "127.0.0.%zu", i + 2);
        n->root = file_join(s->arena, s->cluster.nodes_dir, n->name);
        n->arch = n->dtrun = "";
    }
    return 0;
}

static int local_make(struct context *s, const struct inventory *before, struct provider_made *m,
                      struct err *e) {
    (void)s;
    (void)before;
    for (size_t i = 0; i < m->inv->count; i++)
        if (file_make_dirs(m->inv->nodes[i].root, 0700, e) < 0)
            return err_wrap(e, "node '%s'", m->inv->nodes[i].name);
    return 0;
}

static int local_check(struct context *s, struct fleet *f, struct err *e) {
    (void)s;
    (void)f;
    (void)e;
    return 0; // this process has just created the folders
}

static int local_give_back(struct context *s, const struct inventory_node *n, struct err *e) {
    // Removes only folders of this cluster, whatever the inventory file says.
    const char *mine = file_join(s->arena, s->cluster.nodes_dir, n->name);
    return file_remove_tree(mine, e);
}

const struct provider provider_local = {.name = "local",
                                        .plan = local_plan,
                                        .make = local_make,
                                        .check = local_check,
                                        .give_back = local_give_back};
