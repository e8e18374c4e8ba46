// SPDX-License-Identifier: Apache-2.0
// The trainer's program that a run gets, from what its nodes have.
#include "run/run_device.h"

#include "tests/tap.h"

#include <string.h>

static const size_t all[] = {0, 1, 2};
static struct inventory_node nodes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
static const struct inventory inventory = {.nodes = nodes, .count = 3};

static void gives(enum train_device wanted, bool carried, const char *program, const char *text,
                  const char *what) {
    struct err e = {0};
    const char *got = run_device_program(wanted, &inventory, all, 3, carried, &e);
    is_str(got ? got : "refused", program ? program : "refused", "%s", what);
    if (!program)
        ok(strstr(e.text, text) != NULL, "%s: the error says '%s'", what, e.text);
}

int main(void) {
    gives(TRAIN_DEVICE_AUTO, true, "dttrain", NULL, "no GPUs");
    gives(TRAIN_DEVICE_GPU, true, NULL, "node 'a' has no GPU", "no GPUs, and they are wanted");
    nodes[1].gpus = 8;
    gives(TRAIN_DEVICE_AUTO, true, NULL, "node 'b' has 8 GPUs and node 'a' has none", "a mix");
    gives(TRAIN_DEVICE_GPU, true, NULL, "node 'b' has 8 GPUs", "a mix, and GPUs are wanted");
    gives(TRAIN_DEVICE_CPU, true, "dttrain", NULL, "a mix, and processors are wanted");
    nodes[0].gpus = nodes[2].gpus = 1;
    gives(TRAIN_DEVICE_AUTO, true, "dttrain-cuda", NULL, "GPUs everywhere");
    gives(TRAIN_DEVICE_GPU, true, "dttrain-cuda", NULL, "GPUs everywhere, and they are wanted");
    gives(TRAIN_DEVICE_AUTO, false, "dttrain", NULL, "GPUs, and no program for them");
    gives(TRAIN_DEVICE_GPU, false, NULL, "carries no dttrain-cuda",
          "GPUs are wanted, and no program for them");
    return done_testing();
}
