// SPDX-License-Identifier: Apache-2.0
// Chooses between the trainer for processors and the one for GPUs.
#include "run/run_device.h"

#include "base/str.h"

const char *run_device_program(enum train_device wanted, const struct inventory *v,
                               const size_t *indices, size_t count, bool carried, struct err *e) {
    const struct inventory_node *with = NULL, *without = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct inventory_node *n = &v->nodes[indices[i]];
        if (n->gpus > 0 && !with)
            with = n;
        if (n->gpus <= 0 && !without)
            without = n;
    }
    must(with != NULL || without != NULL); // a run has a node
    if (wanted == TRAIN_DEVICE_CPU || (wanted == TRAIN_DEVICE_AUTO && (!with || !carried)))
        return "dttrain";
    if (!carried)
        err_set(e, ERR_CONFIG,
                "train.device is gpu, and this dtctl carries no dttrain-cuda: it was built without "
                "the compiler of CUDA (try: make deps, make)");
    else if (!with)
        err_set(e, ERR_CONFIG,
                "train.device is gpu, and node '%s' has no GPU with a driver of NVIDIA's (try: "
                "dtctl up after its driver is installed, or train.device cpu)",
                without->name);
    else if (without)
        err_set(e, ERR_CONFIG,
                "node '%s' has %lld GPU%s and node '%s' has none (try: nodes of one kind, or "
                "train.device cpu)",
                with->name, (long long)with->gpus, str_plural(with->gpus), without->name);
    else
        return "dttrain-cuda";
    return NULL;
}
