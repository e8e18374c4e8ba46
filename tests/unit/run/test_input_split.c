// SPDX-License-Identifier: Apache-2.0
// The split of objects among the nodes that read them.
#include "run/inputs/input_split.h"
#include "tests/tap.h"

#include <string.h>

enum { NODES_MAX = 9, COUNT_MAX = 500, LARGEST = 1 << 20 };

static uint64_t sizes[COUNT_MAX], bytes[NODES_MAX];
static size_t owners[COUNT_MAX], again[COUNT_MAX];

static uint64_t next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

// False when an owner does not read, or two parts differ by more than one object.
static bool is_fair(size_t count, const bool *readers, size_t nodes) {
    uint64_t most = 0, least = UINT64_MAX;
    memset(bytes, 0, sizeof bytes);
    for (size_t i = 0; i < count; i++) {
        if (owners[i] >= nodes || !readers[owners[i]])
            return false;
        bytes[owners[i]] += sizes[i] + INPUT_SPLIT_OBJECT_BYTES;
    }
    for (size_t n = 0; n < nodes; n++) {
        most = readers[n] && bytes[n] > most ? bytes[n] : most;
        least = readers[n] && bytes[n] < least ? bytes[n] : least;
    }
    return most - least <= LARGEST + INPUT_SPLIT_OBJECT_BYTES;
}

int main(void) {
    uint64_t seed = 7;
    size_t unfair = 0, other = 0;
    for (size_t nodes = 1; nodes <= NODES_MAX; nodes++)
        for (size_t count = 0; count <= COUNT_MAX; count += 50) {
            bool readers[NODES_MAX] = {0};
            for (size_t i = 0; i < count; i++)
                sizes[i] = next(&seed) % (LARGEST + 1);
            for (size_t n = 0; n < nodes; n++)
                readers[n] = next(&seed) % 3 > 0;
            readers[next(&seed) % nodes] = true;
            input_split(sizes, count, readers, nodes, owners);
            unfair += !is_fair(count, readers, nodes);
            input_split(sizes, count, readers, nodes, again);
            other += memcmp(owners, again, count * sizeof *owners) != 0;
        }
    is_uint(unfair, 0, "parts differ by at most one object, and only readers have one");
    is_uint(other, 0, "the same objects are split in the same way");

    bool two[2] = {true, true};
    uint64_t few[] = {10, 3 << 20, 1 << 20, 1 << 20, 1 << 20};
    memcpy(sizes, few, sizeof few);
    input_split(sizes, 5, two, 2, owners);
    ok(owners[1] != owners[2] && owners[2] == owners[3] && owners[3] == owners[4],
       "the largest object comes first, and the others go to the other node");
    bool last[2] = {false, true};
    input_split(sizes, 5, last, 2, owners);
    ok(owners[0] == 1 && owners[1] == 1, "a node that cannot read gets nothing");
    static const uint64_t three[] = {9, 5, 5};
    static const bool both[] = {true, true};
    input_split(three, 3, both, 2, owners);
    ok(owners[0] == 0 && owners[1] == 1 && owners[2] == 1,
       "the largest object goes first, the others to the other reader");
    return done_testing();
}
