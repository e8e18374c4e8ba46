// SPDX-License-Identifier: Apache-2.0
// One GPU for each rank of a node, in the order of local ranks.
#include "base/env.h"
#include "base/str.h"
#include "device.h"
#include "gpu/gpu.h"

#include <unistd.h>

int device_open(struct trainer_device *out, const struct train_config *options, int local_rank,
                struct err *e) {
    struct gpu *gpu;
    const char *emulated = env_get(environ, "DTTRAIN_EMULATED"); // by the tests alone
    bool wanted = options->device == TRAIN_DEVICE_GPU;
    *out = (struct trainer_device){0};
    if (options->device == TRAIN_DEVICE_CPU)
        return 0;
    if (options->kernels != TRAIN_KERNELS_CPU)
        return wanted ? err_set(e, ERR_CONFIG,
                                "train.kernels: '%s' are kernels of processors (try: train.device "
                                "cpu)",
                                train_kernels_words[options->kernels])
                      : 0;
    if (gpu_open(&gpu, local_rank, emulated && str_eq(emulated, "1"), e) <
        0) // a GPU that cannot be used is no reason to be slow
        return wanted || e->code != ERR_NOT_FOUND ? -1 : 0;
    *out = (struct trainer_device){.kernels = &gpu_kernels,
                                   .collectives = &comm_nccl,
                                   .env = environ,
                                   .handle = gpu,
                                   .memory_bytes = gpu_memory_free(gpu),
                                   .about = gpu_about(gpu)};
    return 1;
}

void device_close(struct trainer_device *device) {
    gpu_close(device->handle);
    *device = (struct trainer_device){0};
}
