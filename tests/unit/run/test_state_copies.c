// SPDX-License-Identifier: Apache-2.0
// Copies of the states of nodes that are out of reach: the newest one of the other nodes becomes a
// generation here, unless this side has a newer one. The transfer is a stand-in.
#include "run/results/state_copies.h"

#include "fleet/fleet_transfer.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NODES = 4 };

static char folder[] = "/tmp/test_state_copies.XXXXXX";
static struct arena a;
static struct screen screen;
static struct context context;
static struct inventory_node info[NODES];
static struct fleet_node fleet_nodes[NODES];
static struct fleet fleet;
static struct run run;
static struct err problem;
static int transfers;
static const char *asked; // paths of the last transfer

static const char *in_run(const char *name) {
    return run_path(&context.cluster, &run, name);
}

static void put(const char *name) {
    const char *path = in_run(name);
    if (file_make_dirs(file_dir(&a, path), 0700, &problem) < 0 ||
        file_write_atomic(path, "x", 1, 0600, &problem) < 0)
        bail_out("%s", problem.text);
}

// Copies of the states of n1 and n2, as the nodes would send them; each node has sent all at once.
struct xfer *xfer_fetch(struct transport_link *l, const struct xfer_fetch_spec *spec,
                        const struct xfer_events *events, void *ctx, struct err *e) {
    (void)l, (void)events, (void)ctx, (void)e;
    transfers++;
    asked = "";
    for (const char *const *p = spec->paths; *p; p++)
        asked = arena_printf(&a, "%s%s ", asked, *p);
    put("copies/n0/n1/5/f");
    put("copies/n3/n1/7000/f");
    put("copies/n2/n1/9000/f"); // of a node that is out of reach itself
    put("copies/n0/n0/6/f");    // no state that was asked for
    return NULL;
}

static void fetch(size_t from, size_t to) {
    transfers = 0;
    for (size_t i = 0; i < NODES; i++)
        fleet_nodes[i].failed = i >= from && i < to;
    err_clear(&problem);
    is_int(state_copies_fetch(&fleet, &run, &problem), 0,
           "copies are fetched where there are any %s", problem.text);
}

int main(void) {
    static const char *names[] = {"n0", "n1", "n2", "n3"};
    if (!mkdtemp(folder) || cluster_open(&context.cluster, &a, folder, "c", &problem) < 0)
        bail_out("no folder");
    context.arena = &a;
    context.screen = &screen;
    context.loop = loop_open(&problem);
    screen_init(&screen, STDERR_FILENO, STDERR_FILENO, SCREEN_PLAIN, true);
    run = (struct run){.id = "r", .name = "r", .nodes = names, .node_count = NODES};
    fleet = (struct fleet){.context = &context, .nodes = fleet_nodes, .count = NODES};
    for (size_t i = 0; i < NODES; i++) {
        info[i].name = (char *)names[i];
        fleet_nodes[i] = (struct fleet_node){.fleet = &fleet, .index = i, .info = &info[i]};
    }
    fetch(0, 0);
    is_int(transfers, 0, "nodes that are all there need no copies");
    fetch(0, NODES);
    is_int(transfers, 0, "no node is left to have copies");
    fetch(1, 3);
    is_int(transfers, 2, "the other nodes are asked");
    is_str(asked, "runs/r/copies/n1 runs/r/copies/n2 ", "the states of both nodes are asked for");
    ok(file_exists(in_run("published/n1/7000/f")), "the newest copy is a generation");
    ok(!file_exists(in_run("published/n2")) && !file_exists(in_run("published/n0")),
       "other nodes have none");
    ok(!file_exists(in_run("copies")), "older copies are gone");

    const struct timespec at[2] = {{8, 0}, {8, 0}}; // 8000 ms
    if (utimensat(AT_FDCWD, in_run("published/n1/7000"), at, 0) < 0)
        bail_out("no time");
    file_remove_tree(in_run("published/n1/7000/f"), &problem);
    utimensat(AT_FDCWD, in_run("published/n1/7000"), at, 0);
    fetch(1, 3);
    ok(!file_exists(in_run("published/n1/7000/f")), "a copy that is older than what is here stays");
    fetch(1, 2); // n2 is back, with a newer copy
    ok(file_exists(in_run("published/n1/9000/f")), "a copy that is newer comes");
    screen_fini(&screen);
    loop_close(context.loop);
    cluster_close(&context.cluster);
    file_remove_tree(folder, &problem);
    arena_fini(&a);
    return done_testing();
}
