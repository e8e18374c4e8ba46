// SPDX-License-Identifier: Apache-2.0
// One GPU for each rank of a node, in the order of local ranks.
#include "base/env.h"
#include "base/json.h"
#include "base/str.h"
#include "comm/nccl_library.h"
#include "gpu/gpu.h"
#include "sys/proc.h"
#include "train_device.h"

#include <unistd.h>

static bool emulation_allowed(void) { // by the tests alone
    const char *text = env_get(environ, "DTTRAIN_EMULATED");
    return text && str_eq(text, "1");
}

int train_device_open(struct trainer_device *out, const struct train_config *options,
                      int local_rank, struct err *e) {
    struct gpu *gpu;
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
    if (gpu_open(&gpu, local_rank, emulation_allowed(), e) < 0)
        // a GPU that cannot be used is no reason to be slow
        return wanted || e->code != ERR_NOT_FOUND ? -1 : 0;
    int processors = proc_cpu_count();
    gpu_stay_near(gpu);
    *out = (struct trainer_device){.kernels = &gpu_kernels,
                                   .collectives = &comm_nccl,
                                   .env = environ,
                                   .handle = gpu,
                                   .memory_bytes = gpu_memory_free(gpu),
                                   .has_tf32 = gpu_has_tf32(gpu),
                                   .processors = processors,
                                   .about = gpu_about(gpu)};
    return 1;
}

void train_device_close(struct trainer_device *device) {
    gpu_close(device->handle);
    *device = (struct trainer_device){0};
}

static void list(struct strbuf *out, const char *device, int index, const char *version, bool ok,
                 const char *text) {
    struct json_out j;
    json_open(&j, out);
    json_object(&j, NULL);
    json_str(&j, "device", device);
    if (index >= 0)
        json_int(&j, "index", index);
    if (version)
        json_str(&j, "version", version);
    json_bool(&j, "ok", ok);
    json_str(&j, "text", text);
    json_end(&j);
    strbuf_addc(out, '\n');
}

static void list_nccl(struct strbuf *out) {
    char version[NCCL_VERSION_TEXT_BYTES];
    struct nccl_library l = {0};
    struct err e;
    bool found = nccl_library_open(&l, environ, &e) == 0;
    list(out, "nccl", -1, found ? nccl_version_text(version, l.version) : NULL, found,
         found ? l.path : e.text);
    if (found)
        nccl_library_close(&l);
}

void train_device_list(struct strbuf *out) {
    struct err e;
    int count = gpu_count(&e);
    if (count < 0) {
        list(out, "gpu", -1, NULL, false, e.text);
        return;
    }
    for (int i = 0; i < count; i++) {
        struct gpu *g;
        bool usable = gpu_open(&g, i, emulation_allowed(), &e) == 0;
        list(out, "gpu", i, NULL, usable, usable ? gpu_about(g) : e.text);
        gpu_close(g);
    }
    list_nccl(out);
}
