// SPDX-License-Identifier: Apache-2.0
// A run of two nodes that is followed without any connection: records go in as a node sends them.
#ifndef DTCTL_TESTS_FOLLOW_FIXTURE_H
#define DTCTL_TESTS_FOLLOW_FIXTURE_H

#include "follow/follow.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <unistd.h>

struct follow_fixture {
    struct arena arena;
    struct screen screen;
    struct context context;
    struct inventory_node info[2];
    struct fleet_node fleet_nodes[2];
    struct fleet fleet;
    struct run run;
    struct follow follow;
    char dir[64];
};

static const char *const FIXTURE_NODES[] = {"n0", "n1"};

TAP_UNUSED static void fixture_make(struct follow_fixture *f) {
    *f = (struct follow_fixture){0};
    snprintf(f->dir, sizeof f->dir, "/tmp/dtctl-follow-XXXXXX");
    if (!mkdtemp(f->dir))
        bail_out("no temporary folder");
    struct err e = {0};
    if (cluster_open(&f->context.cluster, &f->arena, f->dir, "c", &e) < 0)
        bail_out("%s", e.text);
    f->context.arena = &f->arena;
    f->context.screen = &f->screen;
    f->run = (struct run){.id = "r", .name = "r", .state = "started", .node_count = 2};
    f->run.nodes = (const char **)FIXTURE_NODES;
    f->fleet = (struct fleet){.context = &f->context, .nodes = f->fleet_nodes, .count = 2};
    for (size_t i = 0; i < 2; i++) {
        f->info[i].name = (char *)FIXTURE_NODES[i];
        f->fleet_nodes[i] =
            (struct fleet_node){.fleet = &f->fleet, .index = i, .info = &f->info[i]};
    }
    if (file_make_dirs(run_path(&f->context.cluster, &f->run, "nodes/n0"), 0700, &e) < 0)
        bail_out("%s", e.text);
}

TAP_UNUSED static void fixture_remove(struct follow_fixture *f) {
    struct err e = {0};
    cluster_close(&f->context.cluster);
    file_remove_tree(f->dir, &e);
    arena_fini(&f->arena);
}

// Bytes of a file of a node, as if they had come behind all that came before.
TAP_UNUSED static void fixture_bytes(struct follow_fixture *f, size_t node, const char *name,
                                     const char *text) {
    struct follow_node *n = &f->follow.nodes[node];
    struct follow_record r = {.kind = FOLLOW_BYTES, .len = strlen(text)};
    struct err e = {0};
    r.data = (const unsigned char *)text;
    snprintf(r.name, sizeof r.name, "%s", name);
    follow_file_parse(name, &r.file);
    for (const struct mirror_file *m = n->mirror.files; m; m = m->next)
        if (strcmp(m->name, name) == 0)
            r.offset = m->size;
    if (log_mirror_write(&n->mirror, &r, follow_take_line, n, &e) < 0)
        fail("the bytes of %s are refused: %s", name, e.text);
}

#endif
