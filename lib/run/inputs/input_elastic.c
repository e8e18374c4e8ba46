// SPDX-License-Identifier: Apache-2.0
// Checks elastic inputs, and brings their shares and lists to the nodes.
#include "run/inputs/input_elastic.h"

#include "base/array.h"
#include "content/generation.h"
#include "fleet/hashing.h"
#include "run/inputs/input_add.h"
#include "run/inputs/input_give.h"
#include "run/inputs/input_keep.h"
#include "run/inputs/input_remote.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)CONFIG_SHARD_SIZE == DEAL_SIZE && (int)CONFIG_SHARD_KEY == DEAL_KEY &&
                   (int)CONFIG_SHARD_COUNT == DEAL_COUNT,
               "one order");
_Static_assert((int)CONFIG_UNEVEN_PAD == DEAL_UNEVEN_PAD &&
                   (int)CONFIG_UNEVEN_DROP == DEAL_UNEVEN_DROP &&
                   (int)CONFIG_UNEVEN_REFUSE == DEAL_UNEVEN_REFUSE,
               "one order");

// ---- what can be dealt anew ---------------------------------------------------------------------

int input_elastic_check(const struct config *c, const struct config_input *in, struct err *e) {
    const char *what = config_input_is_streamed(in)          ? "deliver = stream"
                       : in->unit == CONFIG_UNIT_SAMPLE      ? "unit = sample"
                       : in->uneven == CONFIG_UNEVEN_DROP    ? "uneven = drop"
                       : in->on_change == CONFIG_CHANGE_KEEP ? "on_change = keep"
                       : c->compat_sagemaker                 ? "compat.sagemaker"
                                                             : NULL;
    const char *instead = config_input_is_streamed(in)          ? "deliver = copy"
                          : in->unit == CONFIG_UNIT_SAMPLE      ? "unit = file"
                          : in->uneven == CONFIG_UNEVEN_DROP    ? "uneven = pad"
                          : in->on_change == CONFIG_CHANGE_KEEP ? "on_change = refuse"
                                                                : "mode = replicated";
    bool elastic = c->job.nodes.min != c->job.nodes.max;
    if (!what)
        return 0;
    return err_set(e, ERR_CONFIG,
                   "%s: input '%s' is sharded, and a run with %s deals its files anew when nodes "
                   "come and go, which %s does not allow (try: %s, or --nodes N%s)",
                   config_where(c, elastic ? "train.nodes" : "train.spares"), in->name,
                   elastic ? "MIN:MAX nodes" : "spare nodes", what, instead,
                   elastic ? "" : " without --spares");
}

int input_elastic_check_run(const struct run_start *l, const struct run_start_input *in,
                            struct err *e) {
    if (l->native)
        return err_set(e, ERR_CONFIG,
                       "the native trainer's checkpoints belong to the shares of one deal, and "
                       "rounds with other nodes deal anew (try: mode = replicated, or --nodes N)");
    if (l->node_count > INPUT_ELASTIC_NODES_MAX)
        return err_set(e, ERR_LIMIT,
                       "a sharded input of a run whose nodes may change is for %d nodes, and there "
                       "are %zu",
                       INPUT_ELASTIC_NODES_MAX, l->node_count);
    if (in->manifest->count > GENERATION_FILES_MAX)
        return err_set(e, ERR_LIMIT,
                       "'%s' has %zu files and folders; %d can be dealt anew when nodes come and "
                       "go",
                       in->source, in->manifest->count, GENERATION_FILES_MAX);
    return 0;
}

int input_elastic_check_deal(const struct run_start *l, const struct run_start_input *in,
                             const struct deal_item *items, size_t count,
                             const struct deal_rule *rule, struct err *e) {
    struct arena a = {0};
    struct deal_share *shares = arena_new(&a, struct deal_share, (size_t)l->run.nodes_max);
    int rc = 0;
    // Fewer nodes need no more files. Counts may differ with each number of nodes.
    bool all = rule->uneven == DEAL_UNEVEN_REFUSE;
    for (int n = all ? l->run.nodes_min : l->run.nodes_max; rc == 0 && n <= l->run.nodes_max; n++)
        rc = deal_out(&a, items, count, rule, shares, (size_t)n, e);
    arena_fini(&a);
    return rc < 0 ? err_wrap(e, "'%s'", in->source) : 0;
}

const struct job_deal *input_elastic_rule(struct arena *a, const struct config_input *in) {
    struct job_deal *d = arena_new(a, struct job_deal, 1);
    uint64_t seed = 0;
    *d = (struct job_deal){
        .shard = config_input_shard(in), .uneven = in->uneven, .replicas = (int)in->replicas};
    d->shuffled = config_input_seed(in, &seed);
    d->extracts = config_input_is_extracted(in);
    d->seed = (int64_t)seed;
    return d;
}

// ---- shares -------------------------------------------------------------------------------------

int input_elastic_add(struct run_start *l, struct run_start_input *in, size_t node, size_t i,
                      struct err *e) {
    struct arena *a = l->context->arena;
    struct manifest_entry copy = in->manifest->entries[i];
    copy.path = arena_printf(a, "%s/%s", job_share_folder(a, in->path, l->run.nodes_max, (int)node),
                             copy.path);
    if (!in->remote) {
        if (!l->dealt) {
            l->dealt = arena_new(a, struct manifest *, l->node_count);
            for (size_t n = 0; n < l->node_count; n++)
                l->dealt[n] = manifest_new();
        }
        return manifest_append(l->dealt[node], &copy, e);
    }
    if (input_remote_add(l, node, in->remote, &in->manifest->entries[i], copy.path, e) < 0)
        return -1;
    struct run_start_remote *r = &l->remote[node];
    array_grow_in(a, r->origins, &r->origin_room, r->files->count);
    r->origins[r->files->count - 1] = &in->manifest->entries[i];
    return 0;
}

struct manifest *input_elastic_share(const struct run_start_input *in, size_t nodes, size_t rank,
                                     struct err *e) {
    struct arena a = {0};
    const struct manifest *m = in->manifest;
    const char *folder = job_share_folder(&a, in->path, (int)nodes, (int)rank);
    struct deal_item *items;
    size_t *entries, count = deal_items(&a, m, NULL, &items, &entries);
    struct deal_share *shares = arena_new(&a, struct deal_share, nodes);
    bool *mine = arena_new(&a, bool, m->count);
    struct deal_rule rule = input_add_rule(in);
    struct manifest *share = manifest_new();
    for (size_t i = 0; i < m->count; i++)
        mine[i] = m->entries[i].kind == MANIFEST_FOLDER;
    int rc = deal_out(&a, items, count, &rule, shares, nodes, e);
    for (size_t i = 0; rc == 0 && i < shares[rank].count; i++)
        mine[entries[shares[rank].items[i]]] = true;
    for (size_t i = 0; rc == 0 && i < m->count; i++) {
        struct manifest_entry copy = m->entries[i];
        copy.path = arena_printf(&a, "%s/%s", folder, copy.path);
        rc = mine[i] ? manifest_append(share, &copy, e) : 0;
    }
    if (rc == 0)
        rc = manifest_sort(share, e);
    arena_fini(&a);
    if (rc == 0)
        return share;
    manifest_free(share);
    return NULL;
}

// One pass: shares[i] is the share that node i gets; SIZE_MAX: none.
static int send_shares(struct run_start *l, struct fleet *f, const size_t *shares, struct err *e) {
    struct manifest **all = arena_new(l->context->arena, struct manifest *, f->count + 1);
    struct xfer_peers *peers;
    bool any = false;
    for (size_t i = 0; l->dealt && i < f->count; i++) {
        struct manifest *m = shares[i] < f->count ? l->dealt[shares[i]] : NULL;
        all[i] = m && m->count ? m : NULL;
        any |= all[i] != NULL;
    }
    if (any && l->results &&
        (input_keep_find(l, f, all, &peers, e) < 0 || input_give_shares(l, f, all, peers, e) < 0))
        return -1;
    if (any && fleet_send_manifests(f, "push shards", all, "", XFER_MERGE, &l->sent, e) < 0)
        return -1;
    return l->remote ? input_remote_send_parts(l, f, shares, e) : 0;
}

// Gives each share that no node has to a node that has not failed. False: none is left to give, or
// no node.
static bool find_heirs(const struct fleet *f, bool *settled, size_t *shares) {
    bool any = false;
    for (size_t i = 0; i < f->count; i++)
        shares[i] = SIZE_MAX;
    for (size_t share = 0, i = 0; share < f->count; share++) {
        if (settled[share])
            continue;
        while (i < f->count && f->nodes[i].failed)
            i++;
        if (i == f->count)
            break;
        shares[i++] = share;
        any = true;
    }
    return any;
}

static int send_all_shares(struct run_start *l, struct fleet *f, struct err *e) {
    struct arena *a = l->context->arena;
    size_t *shares = arena_new(a, size_t, f->count + 1),
           *holder = arena_new(a, size_t, f->count + 1);
    bool *settled = arena_new(a, bool, f->count + 1), again = true;
    for (size_t i = 0; i < f->count; i++)
        shares[i] = i;
    while (again) {
        for (size_t i = 0; i < f->count; i++)
            if (shares[i] < f->count)
                holder[shares[i]] = i;
        if (send_shares(l, f, shares, e) < 0)
            return -1;
        for (size_t share = 0; share < f->count; share++)
            settled[share] = !f->nodes[holder[share]].failed;
        again = find_heirs(f, settled, shares);
    }
    return 0;
}

// ---- lists --------------------------------------------------------------------------------------

// The nodes have said what the objects contain.
static void learn_hashes(struct run_start *l) {
    for (size_t n = 0; l->remote && n < l->node_count; n++)
        for (size_t i = 0; l->remote[n].origins && i < l->remote[n].files->count; i++)
            memcpy(l->remote[n].origins[i]->hash, l->remote[n].files->entries[i].hash, HASH_BYTES);
}

static int add_list(struct run_start *l, const struct run_start_input *in, struct err *e) {
    struct arena *a = l->context->arena;
    struct strbuf list = {0};
    generation_encode(in->manifest, &list);
    int rc = list.len > GENERATION_LIST_BYTES_MAX
                 ? err_set(e, ERR_LIMIT, "input '%s': the names of its files have more than %d MiB",
                           in->name, GENERATION_LIST_BYTES_MAX >> 20)
                 : 0;
    if (rc == 0)
        rc = manifest_add_bytes(
            l->lists, job_deal_list(a, run_node_dir(a, l->run.id, ""), in->name),
            memcpy(arena_new(a, char, list.len + 1), list.data, list.len), list.len, 0644, e);
    strbuf_fini(&list);
    return rc;
}

static int send_lists(struct run_start *l, struct fleet *f, struct err *e) {
    struct manifest **all = arena_new(l->context->arena, struct manifest *, f->count + 1);
    learn_hashes(l);
    l->lists = manifest_new();
    for (size_t i = 0; i < l->input_count; i++)
        if (l->inputs[i].elastic && add_list(l, &l->inputs[i], e) < 0)
            return -1;
    if (hashing_run(l->context, l->lists, e) < 0)
        return -1;
    for (size_t i = 0; i < f->count; i++)
        all[i] = l->lists;
    return fleet_send_manifests(f, "push lists", all, "", XFER_MERGE, &l->sent, e);
}

int input_elastic_send(struct run_start *l, struct fleet *f, struct err *e) {
    bool any = false;
    for (size_t i = 0; i < l->input_count; i++)
        any |= l->inputs[i].elastic;
    if (!any)
        return 0;
    if (send_all_shares(l, f, e) < 0)
        return -1;
    return fleet_failures(f) < f->count ? send_lists(l, f, e) : 0;
}

void input_elastic_close(struct run_start *l) {
    for (size_t n = 0; l->dealt && n < l->node_count; n++)
        manifest_free(l->dealt[n]);
    if (l->lists)
        manifest_free(l->lists);
    l->dealt = NULL;
    l->lists = NULL;
}
