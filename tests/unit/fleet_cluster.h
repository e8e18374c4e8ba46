// SPDX-License-Identifier: Apache-2.0
// The fleet of fleet_fake.h in a cluster with a folder of its own, beside a clock that the test
// turns, and with notes that said() returns.
//
//     fleet_cluster_open(); fake_fleet_begin(…); …; fake_fleet_end(); fleet_cluster_close();
#ifndef DTCTL_TESTS_UNIT_FLEET_CLUSTER_H
#define DTCTL_TESTS_UNIT_FLEET_CLUSTER_H

#include "cluster/cluster_folder.h"
#include "sys/file.h"
#include "tests/unit/fleet_fake.h"
#include "tests/unit/said.h"
#include "tests/unit/turned_clock.h"

static char folder[] = "/tmp/test_cluster.XXXXXX";
static struct screen notes;

static void fleet_cluster_open(void) {
    struct err why;
    fake_fleet_init();
    screen_fini(&screen);
    said_open(&notes);
    clock_stop();
    context.screen = &notes;
    if (!mkdtemp(folder) || cluster_open(&context.cluster, &arena, folder, "c", &why) < 0)
        bail_out("cannot start: %s", why.text);
}

static void fleet_cluster_close(void) {
    struct err why;
    cluster_close(&context.cluster);
    said_close(&notes);
    loop_close(context.loop);
    arena_fini(&arena);
    is_int(file_remove_tree(folder, &why), 0, "the folder is removed");
}

#endif
