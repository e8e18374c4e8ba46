// SPDX-License-Identifier: Apache-2.0
// Placement of copies on the ring of nodes, and new nodes that take over states.
#include "copies/replica_placement.h"
#include "tests/tap.h"

static void test_ring(void) {
    int ring[REPLICA_RING_MAX];
    is_int(replica_placement_ring(1, 0, ring, REPLICA_RING_MAX), 0,
           "one node has nobody to hold its copy");
    is_int(replica_placement_ring(2, 1, ring, REPLICA_RING_MAX), 1,
           "one of two nodes has the other");
    is_int(ring[0], 0, "the last rank is followed by the first");
    is_int(replica_placement_ring(4, 2, ring, REPLICA_RING_MAX), 3, "all others of a small round");
    ok(ring[0] == 3 && ring[1] == 0 && ring[2] == 1, "in the order of the ring");
    is_int(replica_placement_ring(1000, 990, ring, REPLICA_RING_MAX), REPLICA_RING_MAX,
           "some of a large round");
    is_int(ring[REPLICA_RING_MAX - 1], (990 + REPLICA_RING_MAX) % 1000, "the nearest ones");
    int times[7] = {0};
    for (int i = 0; i < 7; i++) {
        replica_placement_ring(7, i, ring, REPLICA_RING_MAX);
        for (int k = 0; k < 2; k++)
            times[ring[k]]++;
    }
    int even = 1;
    for (int i = 0; i < 7; i++)
        even &= times[i] == 2;
    ok(even, "every node holds as many copies as the others");
}

static void test_heirs(void) {
    const char *const last[] = {"a", "b", "c", "d"};
    const char *const spare[] = {"a", "c", "d", "x"}, *const two[] = {"a", "x", "y", "d"};
    const char *const more[] = {"a", "b", "c", "d", "x"}, *const fewer[] = {"b", "d"};
    const char *const all[] = {"w", "x", "y", "z"}, *heirs[5];
    replica_placement_heirs(last, 4, spare, 4, heirs);
    is_str(heirs[3], "b", "a spare takes over the state of the node that is gone");
    ok(!heirs[0] && !heirs[1] && !heirs[2], "nodes that were there keep their own");
    replica_placement_heirs(last, 4, two, 4, heirs);
    is_str(heirs[1], "b", "the first new node: the first that is gone");
    is_str(heirs[2], "c", "the second new node: the second that is gone");
    replica_placement_heirs(last, 4, more, 5, heirs);
    ok(!heirs[4], "a new node beside all others takes over nothing");
    replica_placement_heirs(last, 4, fewer, 2, heirs);
    ok(!heirs[0] && !heirs[1], "fewer nodes take over nothing");
    replica_placement_heirs(last, 2, all, 4, heirs);
    ok(heirs[0] && heirs[1] && !heirs[2] && !heirs[3], "not more states than nodes that are gone");
    replica_placement_heirs(NULL, 0, last, 4, heirs);
    ok(!heirs[0] && !heirs[3], "the first round");
}

int main(void) {
    test_ring();
    test_heirs();
    return done_testing();
}
