// SPDX-License-Identifier: Apache-2.0
// Loads libcuda.so.1 and finds its functions by name.
#include "gpu/gpu_driver.h"

#include <dlfcn.h>
#include <string.h>

struct call {
    const char *symbol;
    size_t at;
};
#define X(field, symbol, params) {symbol, offsetof(struct gpu_driver, field)},
static const struct call calls[] = {GPU_DRIVER_CALLS(X)};
static const struct call extras[] = {GPU_DRIVER_EXTRAS(X)};
#undef X

int gpu_driver_open(struct gpu_driver *d, struct err *e) {
    *d = (struct gpu_driver){.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!d->library)
        return err_set(e, ERR_NOT_FOUND,
                       "no driver of NVIDIA's here: %s (try: install driver 580 or newer, or "
                       "train.device cpu)",
                       dlerror());
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *symbol = dlsym(d->library, calls[i].symbol);
        if (!symbol) {
            gpu_driver_close(d);
            return err_set(
                e, ERR_FAILED,
                "NVIDIA's driver is too old: libcuda.so.1 has no %s (try: install driver "
                "580 or newer, or train.device cpu)",
                calls[i].symbol);
        }
        memcpy((char *)d + calls[i].at, &symbol, sizeof symbol);
    }
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++) {
        void *symbol = dlsym(d->library, extras[i].symbol);
        memcpy((char *)d + extras[i].at, &symbol, sizeof symbol);
    }
    return 0;
}

void gpu_driver_close(struct gpu_driver *d) {
    if (d->library)
        dlclose(d->library);
    *d = (struct gpu_driver){0};
}

const char *gpu_driver_error(const struct gpu_driver *d, CUresult code) {
    const char *name = NULL;
    return d->error_name(code, &name) == CUDA_SUCCESS && name ? name : "an error without a name";
}
