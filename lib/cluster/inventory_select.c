// SPDX-License-Identifier: Apache-2.0
// Selects nodes of an inventory by a node set of names.
#include "cluster/inventory.h"
#include "cluster/nodeset.h"

int inventory_select(struct arena *a, const struct inventory *inv, const char *wanted,
                     size_t **indices, size_t *count, struct err *e) {
    *indices = arena_new(a, size_t, inv->count ? inv->count : 1);
    *count = 0;
    bool *chosen = arena_new(a, bool, inv->count ? inv->count : 1);
    char **names = NULL;
    size_t name_count = 0;
    if (wanted && *wanted && nodeset_parse_names(a, wanted, &names, &name_count, e) < 0)
        return -1;
    const char **all = arena_new(a, const char *, inv->count + 1);
    for (size_t i = 0; i < inv->count; i++) {
        all[i] = inv->nodes[i].name;
        chosen[i] = !wanted || !*wanted;
    }
    for (size_t i = 0; i < name_count; i++) {
        int at = inventory_find(inv, names[i]);
        if (at < 0) {
            const char *near = str_nearest(names[i], all);
            return err_set(e, ERR_NOT_FOUND, "cluster '%s' has no node '%.80s'%s%s%s", inv->name,
                           names[i], near ? " (did you mean '" : "", near ? near : "",
                           near ? "'?)" : "");
        }
        chosen[at] = true;
    }
    for (size_t i = 0; i < inv->count; i++)
        if (chosen[i])
            (*indices)[(*count)++] = i;
    return 0;
}
