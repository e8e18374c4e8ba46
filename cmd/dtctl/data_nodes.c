// SPDX-License-Identifier: Apache-2.0
// The inputs and environments that lie on the nodes.
#include "data_nodes.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/str.h"
#include "fleet/fleet_kept.h"
#include "run/run_start.h"

#include <string.h>

struct inputs {
    struct inventory inventory;
    struct fleet fleet;
    struct kept items;
    uint64_t bytes;
};

// Returns the name of an input, given its folder: NAME-HASH, NAME-HASH-ofN or NAME-HASH-ofN.INDEX,
// and JOB_TREE_END behind all of them.
static const char *name_of(struct arena *a, const char *folder) {
    if (str_ends(folder, JOB_TREE_END))
        folder = arena_strndup(a, folder, strlen(folder) - strlen(JOB_TREE_END));
    char *name = arena_strdup(a, folder), *dash = strrchr(name, '-');
    if (dash && str_starts(dash, "-of") && dash[3] && !dash[3 + strspn(dash + 3, "0123456789.")]) {
        *dash = 0;
        dash = strrchr(name, '-');
    }
    if (dash)
        *dash = 0;
    return name;
}

static int find(struct inputs *in, struct context *s, const char *name, struct err *e) {
    struct kept all;
    if (cluster_load(&s->cluster, &in->inventory, e) < 0)
        return -1;
    fleet_open(&in->fleet, s, &in->inventory, NULL, 0);
    if (fleet_connect(&in->fleet, true, e) < 0 || fleet_kept_ask(&in->fleet, &all, e) < 0)
        return -1;
    for (size_t i = 0; i < all.count; i++) {
        const struct kept_item *item = &all.items[i];
        if (item->kind == KEPT_STATE || (name && strcmp(item->name, name) != 0 &&
                                         strcmp(name_of(s->arena, item->name), name) != 0))
            continue;
        array_grow_in(s->arena, in->items.items, &in->items.room, in->items.count + 1);
        in->items.items[in->items.count++] = *item;
        in->bytes += item->bytes;
    }
    return 0;
}

static void show(struct context *s, const char *node, const struct kept_item *item) {
    char size[STR_HUMAN_BYTES_MAX], age[STR_HUMAN_BYTES_MAX];
    const char *name = name_of(s->arena, item->name);
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "input");
    json_str(&j, "name", name);
    json_str(&j, "node", node);
    json_str(&j, "kind", kept_kind_names[item->kind]);
    json_str(&j, "folder", item->name);
    json_int(&j, "files", (int64_t)item->files);
    json_int(&j, "bytes", (int64_t)item->bytes);
    json_int(&j, "changed_ms", item->changed_ms);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "%-16s %-16s %7llu %10s %8s  %s\n", name, node,
               (unsigned long long)item->files, str_human_bytes(size, item->bytes),
               str_human_ms(age, clock_wall_ms() - item->changed_ms), item->name);
}

int data_nodes_list(struct context *s, const char *name, struct err *e) {
    struct inputs in = {0};
    int result = find(&in, s, name, e);
    if (result == 0) {
        fleet_report(&in.fleet);
        if (in.items.count)
            screen_out(s->screen, "%-16s %-16s %7s %10s %8s  %s\n", "INPUT", "NODE", "FILES",
                       "SIZE", "AGE", "FOLDER");
        else
            screen_note(s->screen, "there are no inputs and no environments on the nodes");
        for (size_t i = 0; i < in.items.count; i++)
            show(s, in.fleet.nodes[in.items.items[i].node_index].info->name, &in.items.items[i]);
        result = fleet_verdict(&in.fleet, "data ls", e);
    }
    fleet_close(&in.fleet);
    return result;
}

static int ask(struct context *s, const struct inputs *in, const char *name, struct err *e) {
    char size[STR_HUMAN_BYTES_MAX];
    int yes = context_ask(s,
                          arena_printf(s->arena, "remove %zu folder%s of '%s', %s?",
                                       in->items.count, str_plural(in->items.count), name,
                                       str_human_bytes(size, in->bytes)),
                          e);
    return yes ? (yes > 0 ? 0 : -1) : err_set(e, ERR_FAILED, "nothing was removed");
}

static int drop(struct context *s, struct inputs *in, const char *name, struct err *e) {
    if (ask(s, in, name, e) < 0 || fleet_kept_drop(&in->fleet, &in->items, e) < 0)
        return -1;
    fleet_report(&in->fleet);
    if (fleet_verdict(&in->fleet, "data rm", e) < 0)
        return -1;
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "input-removed");
    json_str(&j, "name", name);
    json_int(&j, "folders", (int64_t)in->items.count);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "removed %zu folder%s of '%s'\n", in->items.count,
               str_plural(in->items.count), name);
    screen_note(s->screen, "its content in the nodes' store goes with dtctl gc");
    return 0;
}

static int removal(struct context *s, struct inputs *in, const char *name, struct err *e) {
    if (cluster_lock(&s->cluster, "data rm", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0 ||
        find(in, s, name, e) < 0)
        return -1;
    if (in->items.count == 0 && fleet_failures(&in->fleet)) {
        fleet_report(&in->fleet);
        return fleet_verdict(&in->fleet, "data rm", e);
    }
    if (in->items.count == 0)
        return err_set(e, ERR_NOT_FOUND,
                       "no node has an input '%.80s', nor an environment (try: dtctl data ls)",
                       name);
    for (size_t i = 0; s->config->dry_run && i < in->items.count; i++)
        screen_out(s->screen, "would remove %s from %s\n", in->items.items[i].name,
                   in->fleet.nodes[in->items.items[i].node_index].info->name);
    return s->config->dry_run ? 0 : drop(s, in, name, e);
}

int data_nodes_remove(struct context *s, const char *name, struct err *e) {
    struct inputs in = {0};
    int result = removal(s, &in, name, e);
    fleet_close(&in.fleet);
    return result;
}
