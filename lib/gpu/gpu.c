// SPDX-License-Identifier: Apache-2.0
// Opens GPUs, loads the code of the kernels (machine code or PTX) into them, and reports their
// memory and names.
#include "gpu/gpu.h"

#include "base/arena.h"
#include "base/str.h"
#include "gpu/gpu_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The fat binaries of kernels/cuda: machine code for each kind of GPU, and PTX for those to come.
#define X(source) extern const unsigned char fatbin_##source[];
CUDA_SOURCES(X)
#undef X

static const unsigned char *const fatbins[] = {
#define X(source) fatbin_##source,
    CUDA_SOURCES(X)
#undef X
};

static int init(struct gpu *g, struct err *e) {
    const struct gpu_driver *d = &g->driver;
    CUresult r = d->init(0);
    int version = 0;
    if (r == CUDA_ERROR_NO_DEVICE)
        return err_set(e, ERR_NOT_FOUND,
                       "NVIDIA's driver finds no GPU (try: nvidia-smi -L, CUDA_VISIBLE_DEVICES, or "
                       "train.device cpu)");
    if (r == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
        return err_set(e, ERR_FAILED,
                       "libcuda.so.1 and the kernel's driver have different versions (try: reboot "
                       "after the driver's update)");
    if (r == CUDA_ERROR_SYSTEM_NOT_READY)
        return err_set(
            e, ERR_FAILED,
            "the GPUs are not connected yet (try: systemctl start nvidia-fabricmanager)");
    if (r == CUDA_ERROR_STUB_LIBRARY)
        return err_set(e, ERR_FAILED,
                       "libcuda.so.1 is the toolkit's stub and no driver (try: remove its folder "
                       "from LD_LIBRARY_PATH)");
    if (r)
        return err_set(e, ERR_FAILED, "NVIDIA's driver does not start: %s (try: nvidia-smi)",
                       gpu_driver_error(d, r));
    r = d->version(&version);
    if (r || version < GPU_DRIVER_VERSION_MIN)
        return err_set(e, ERR_FAILED,
                       "NVIDIA's driver is too old: CUDA %d.%d, and 13.0 is needed (try: install "
                       "driver 580 or newer, or train.device cpu)",
                       version / 1000, version % 1000 / 10);
    return 0;
}

static int count(const struct gpu_driver *d, struct err *e) {
    int n = 0;
    CUresult r = d->device_count(&n);
    return r || n <= 0 ? err_set(e, ERR_NOT_FOUND,
                                 "NVIDIA's driver finds no GPU (try: nvidia-smi -L, or "
                                 "train.device cpu)")
                       : n;
}

static int attribute(const struct gpu *g, int which, struct err *e) {
    int value = 0;
    CUresult r = g->driver.device_attribute(&value, which, g->device);
    return r ? err_set(e, ERR_FAILED, "GPU '%s': attribute %d: %s", g->name, which,
                       gpu_driver_error(&g->driver, r))
             : value;
}

// Finds the GPU and refuses one that cannot be used.
static int choose(struct gpu *g, int index, bool emulated, struct err *e) {
    const struct gpu_driver *d = &g->driver;
    int gpus = count(d, e);
    if (gpus < 0)
        return -1;
    if (index >= gpus)
        return err_set(e, ERR_CONFIG,
                       "this is local rank %d, and the node has %d GPU%s (try: --nproc-per-node "
                       "gpu, or CUDA_VISIBLE_DEVICES)",
                       index, gpus, str_plural(gpus));
    CUresult r = d->device_get(&g->device, index);
    if (r == CUDA_SUCCESS)
        r = d->device_name(g->name, sizeof g->name, g->device);
    if (r)
        return err_set(e, ERR_FAILED, "GPU %d: %s", index, gpu_driver_error(d, r));
    if (strncmp(g->name, "emulated", 8) == 0 && !emulated)
        return err_set(e, ERR_FAILED,
                       "libcuda.so.1 is the stand-in of dtctl's tests and no driver (try: remove "
                       "its folder from LD_LIBRARY_PATH)");
    int major = attribute(g, CU_CAPABILITY_MAJOR, e), mode = attribute(g, CU_COMPUTE_MODE, e);
    int minor = attribute(g, CU_CAPABILITY_MINOR, e);
    if (major < 0 || minor < 0 || mode < 0)
        return -1;
    g->capability = 10 * major + minor;
    if (g->capability < GPU_CAPABILITY_MIN)
        return err_set(
            e, ERR_CONFIG,
            "GPU '%s' (sm_%d) is not supported by CUDA 13 (try: G4dn or newer instances, "
            "or train.device cpu)",
            g->name, g->capability);
    if (mode == CU_COMPUTE_MODE_PROHIBITED)
        return err_set(e, ERR_CONFIG,
                       "GPU '%s' is in the mode 'prohibited' (try: nvidia-smi -c DEFAULT)",
                       g->name);
    return 0;
}

static int enter(struct gpu *g, struct err *e) {
    const struct gpu_driver *d = &g->driver;
    CUresult r = d->context_retain(&g->context, g->device);
    if (r == CUDA_SUCCESS)
        r = d->context_use(g->context);
    if (r == CUDA_ERROR_DEVICE_UNAVAILABLE)
        return err_set(e, ERR_BUSY,
                       "GPU '%s' is in the mode 'exclusive process' and another process has it "
                       "(try: nvidia-smi to see which, or nvidia-smi -c DEFAULT)",
                       g->name);
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        return err_set(e, ERR_LIMIT,
                       "GPU '%s' has no memory left for another process (try: nvidia-smi to see "
                       "who has it)",
                       g->name);
    if (r == CUDA_ERROR_ECC_UNCORRECTABLE)
        return err_set(e, ERR_FAILED,
                       "GPU '%s' has an ECC error that it cannot correct (try: reset it with "
                       "nvidia-smi -r, or replace the node)",
                       g->name);
    return r ? err_set(e, ERR_FAILED, "GPU '%s': %s", g->name, gpu_driver_error(d, r)) : 0;
}

static int load(struct gpu *g, struct err *e) {
    const struct gpu_driver *d = &g->driver;
    for (int s = 0; s < CUDA_SOURCE_COUNT; s++) {
        if (!cuda_source_is_for((enum cuda_source)s, g->capability))
            continue;
        CUresult r = d->module_load(&g->module[s], fatbins[s]);
        if (r == CUDA_ERROR_NO_BINARY_FOR_GPU)
            return err_set(e, ERR_CONFIG,
                           "this dttrain-cuda has no kernels for GPU '%s' (sm_%d) (try: a newer "
                           "dtctl, or train.device cpu)",
                           g->name, g->capability);
        if (r)
            return err_set(e, ERR_FAILED, "GPU '%s': loading kernels: %s", g->name,
                           gpu_driver_error(d, r));
    }
    for (int k = 0; k < CUDA_KERNEL_COUNT; k++) {
        const struct cuda_kernel_info *info = &cuda_kernel_info[k];
        if (!g->module[info->source])
            continue;
        CUresult r = d->module_function(&g->function[k], g->module[info->source], info->name);
        if (r)
            return err_set(e, ERR_FAILED, "GPU '%s': kernel %s: %s", g->name, info->name,
                           gpu_driver_error(d, r));
    }
    return 0;
}

static void describe(struct gpu *g, int index) {
    char left_text[STR_HUMAN_BYTES_MAX], total_text[STR_HUMAN_BYTES_MAX];
    size_t left = 0, total = 0;
    int version = 0;
    (void)g->driver.version(&version);
    (void)g->driver.memory_info(&left, &total);
    snprintf(g->about, sizeof g->about, "GPU %d is %s (sm_%d), %s of %s free, driver of CUDA %d.%d",
             index, g->name, g->capability, str_human_bytes(left_text, left),
             str_human_bytes(total_text, total), version / 1000, version % 1000 / 10);
}

int gpu_count(struct err *e) {
    struct gpu g = {0};
    int n = gpu_driver_open(&g.driver, e) < 0 || init(&g, e) < 0 ? -1 : count(&g.driver, e);
    gpu_driver_close(&g.driver);
    return n;
}

int gpu_open(struct gpu **out, int index, bool emulated, struct err *e) {
    *out = NULL;
    struct gpu *g = heap_alloc(sizeof *g);
    if (gpu_driver_open(&g->driver, e) < 0 || init(g, e) < 0 || choose(g, index, emulated, e) < 0 ||
        enter(g, e) < 0 || load(g, e) < 0) {
        gpu_close(g);
        return -1;
    }
    describe(g, index);
    *out = g;
    return 0;
}

void gpu_close(struct gpu *g) {
    if (!g)
        return;
    for (int s = 0; s < CUDA_SOURCE_COUNT; s++)
        if (g->module[s])
            g->driver.module_unload(g->module[s]);
    if (g->context)
        g->driver.context_release(g->device);
    gpu_driver_close(&g->driver);
    free(g);
}

size_t gpu_memory_free(const struct gpu *g) {
    size_t left = 0, total = 0;
    return g->driver.memory_info(&left, &total) == CUDA_SUCCESS ? left : 0;
}

bool gpu_has_tf32(const struct gpu *g) {
    return g->capability >= CUDA_TF32_CAPABILITY_MIN;
}

const char *gpu_about(const struct gpu *g) {
    return g->about;
}
