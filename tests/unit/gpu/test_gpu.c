// SPDX-License-Identifier: Apache-2.0
// Opening a GPU: what is wrong with it has a code, a subject and a remedy, and leaves nothing open.
#include "tests/unit/gpu/driver_fake.h"

struct fault {
    const char *about;
    enum driver_call call;
    CUresult code;
    int good; // so many calls succeed before
    enum err_code expected;
    const char *text, *remedy;
};

static const struct fault faults[] = {
    {"no GPU", CALL_init, CUDA_ERROR_NO_DEVICE, 0, ERR_NOT_FOUND, "driver finds no GPU",
     "nvidia-smi -L"},
    {"another version of the kernel's driver", CALL_init, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 0,
     ERR_FAILED, "different versions", "reboot"},
    {"no fabric", CALL_init, CUDA_ERROR_SYSTEM_NOT_READY, 0, ERR_FAILED, "not connected yet",
     "nvidia-fabricmanager"},
    {"the toolkit's stub", CALL_init, CUDA_ERROR_STUB_LIBRARY, 0, ERR_FAILED, "stub",
     "LD_LIBRARY_PATH"},
    {"a driver that does not start", CALL_init, FAKE_ERROR, 0, ERR_FAILED, "CUDA_ERROR_TEST",
     "nvidia-smi"},
    {"a driver without a version", CALL_version, FAKE_ERROR, 0, ERR_FAILED, "too old",
     "driver 580"},
    {"GPUs that cannot be counted", CALL_device_count, FAKE_ERROR, 0, ERR_NOT_FOUND, "finds no GPU",
     "nvidia-smi -L"},
    {"a GPU that cannot be found", CALL_device_get, FAKE_ERROR, 0, ERR_FAILED, "GPU 1: ", ""},
    {"a GPU without a name", CALL_device_name, FAKE_ERROR, 0, ERR_FAILED, "GPU 1: ", ""},
    {"no major capability", CALL_device_attribute, FAKE_ERROR, 0, ERR_FAILED, "attribute", ""},
    {"no compute mode", CALL_device_attribute, FAKE_ERROR, 1, ERR_FAILED, "attribute", ""},
    {"no minor capability", CALL_device_attribute, FAKE_ERROR, 2, ERR_FAILED, "attribute", ""},
    {"a GPU that another process has", CALL_context_retain, CUDA_ERROR_DEVICE_UNAVAILABLE, 0,
     ERR_BUSY, "exclusive process", "nvidia-smi -c DEFAULT"},
    {"a GPU without memory", CALL_context_retain, CUDA_ERROR_OUT_OF_MEMORY, 0, ERR_LIMIT,
     "no memory left", "nvidia-smi"},
    {"a GPU with broken memory", CALL_context_retain, CUDA_ERROR_ECC_UNCORRECTABLE, 0, ERR_FAILED,
     "ECC error", "nvidia-smi -r"},
    {"a context that cannot be used", CALL_context_use, FAKE_ERROR, 0, ERR_FAILED,
     "GPU 'NVIDIA Test': CUDA_ERROR_TEST", ""},
    {"a GPU without kernels", CALL_module_load, CUDA_ERROR_NO_BINARY_FOR_GPU, 3, ERR_CONFIG,
     "no kernels for GPU 'NVIDIA Test' (sm_90)", "a newer dtctl"},
    {"kernels that do not load", CALL_module_load, FAKE_ERROR, 3, ERR_FAILED, "loading kernels",
     ""},
    {"a kernel that is missing", CALL_module_function, FAKE_ERROR, CUDA_KERNEL_conv_forward_bf16,
     ERR_FAILED, "kernel conv_forward_bf16", ""},
};

static void refused(const char *about, int index, bool emulated, enum err_code code,
                    const char *text, const char *remedy) {
    struct err e = {0};
    struct gpu *g = (struct gpu *)&fake;
    is_int(gpu_open(&g, index, emulated, &e), -1, "%s is refused", about);
    ok(g == NULL, "%s: no GPU is handed out", about);
    is_int(e.code, code, "%s: the code is right", about);
    has_str(e.text, text, "%s: the error says it", about);
    has_str(e.text, remedy, "%s: the error has the remedy", about);
    is_int(fake.live, 0, "%s: contexts and modules are given back", about);
    is_int(fake.open, 0, "%s: the driver is closed", about);
}

static void each_fault(void) {
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct fault *f = &faults[i];
        fake_reset();
        fake.code[f->call] = f->code;
        fake.good[f->call] = f->good;
        refused(f->about, 1, false, f->expected, f->text, f->remedy);
    }
}

static void each_kind(void) {
    fake_reset(), fake.version = 12090;
    refused("a driver of CUDA 12.9", 0, false, ERR_FAILED, "CUDA 12.9, and 13.0", "driver 580");
    fake_reset(), fake.gpus = 0;
    refused("a machine without GPUs", 0, false, ERR_NOT_FOUND, "finds no GPU", "nvidia-smi -L");
    fake_reset();
    refused("a rank beyond the GPUs", 2, false, ERR_CONFIG, "local rank 2, and the node has 2 GPUs",
            "--nproc-per-node gpu");
    fake_reset(), fake.gpus = 1;
    refused("a second rank of one GPU", 1, false, ERR_CONFIG, "the node has 1 GPU (", "");
    fake_reset(), fake.capability = 74;
    refused("a GPU that is too old", 0, false, ERR_CONFIG, "(sm_74) is not supported", "G4dn");
    fake_reset(), fake.mode = CU_COMPUTE_MODE_PROHIBITED;
    refused("a prohibited GPU", 0, false, ERR_CONFIG, "prohibited", "nvidia-smi -c DEFAULT");
    fake_reset(), fake.name = "emulated (tests only)";
    refused("the stand-in of tests", 0, false, ERR_FAILED, "stand-in", "LD_LIBRARY_PATH");
}

// Kernels that a GPU of this capability has.
static int kernels_of(int capability) {
    int n = 0;
    for (int k = 0; k < CUDA_KERNEL_COUNT; k++)
        n += cuda_source_is_for(cuda_kernel_info[k].source, capability);
    return n;
}

static void opened(void) {
    struct err e = {0};
    struct gpu *g = NULL;
    fake_reset(), fake.capability = 75;
    if (gpu_open(&g, 1, false, &e) < 0)
        bail_out("%s", e.text);
    is_str(gpu_about(g), "GPU 1 is NVIDIA Test (sm_75), 3.2 GB of 4.3 GB free, driver of CUDA 13.0",
           "the oldest GPU that is supported is described");
    is_uint(gpu_memory_free(g), (uintmax_t)3 << 30, "its free memory is the driver's figure");
    ok(!gpu_has_tf32(g), "a GPU of 7.5 has no tf32");
    is_int(fake.calls[CALL_module_function], kernels_of(75), "every kernel for it is looked up");
    ok(kernels_of(75) < kernels_of(80), "products with large tiles are for GPUs from 8.0 on");
    fake.code[CALL_memory_info] = FAKE_ERROR;
    is_uint(gpu_memory_free(g), 0, "without an answer no memory is free");
    gpu_close(g);
    is_int(fake.live, 0, "closing gives back the context and the modules");
    is_int(fake.open, 0, "closing closes the driver");
    gpu_close(NULL);
    fake_reset(), fake.name = "emulated (tests only)", fake.capability = 80;
    is_int(gpu_open(&g, 0, true, &e), 0, "the stand-in is taken where it is asked for");
    ok(gpu_has_tf32(g), "a GPU of 8.0 has tf32");
    gpu_close(g);
    fake_reset(), fake.capability = CUDA_HOPPER_CAPABILITY;
    is_int(gpu_open(&g, 0, false, &e), 0, "a GPU of 9.0 is opened");
    is_int(fake.calls[CALL_module_function], kernels_of(90), "every kernel for 9.0 is looked up");
    ok(kernels_of(90) < CUDA_KERNEL_COUNT, "a GPU of 9.0 has no kernels that wgmma replaces");
    gpu_close(g);
    is_int(fake.live, 0, "closing gives back all modules");
}

static void counted(void) {
    struct err e = {0};
    fake_reset(), fake.gpus = 3, fake.capability = 35;
    is_int(gpu_count(&e), 3, "GPUs that cannot be used count, too");
    is_int(fake.open, 0, "counting closes the driver");
    fake_reset(), fake.gpus = 0;
    is_int(gpu_count(&e), -1, "no GPU is no count");
    is_int(e.code, ERR_NOT_FOUND, "no GPU is an error of its own");
    fake_reset(), fake.code[CALL_init] = CUDA_ERROR_SYSTEM_NOT_READY;
    is_int(gpu_count(&e), -1, "a driver that is not ready counts nothing");
    is_int(fake.open, 0, "the driver is closed after an error");
}

int main(void) {
    each_fault();
    each_kind();
    opened();
    counted();
    return done_testing();
}
