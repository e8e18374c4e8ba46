// SPDX-License-Identifier: Apache-2.0
// Where NCCL may lie, and its functions by name.
#include "comm/nccl_library.h"

#include "base/env.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME   "libnccl.so.2"
#define WITHIN "/python3*/site-packages/nvidia/nccl/lib/" NAME

static const struct {
    const char *symbol;
    size_t at;
} calls[] = {
#define X(field, symbol, params) {symbol, offsetof(struct nccl_library, field)},
    NCCL_CALLS(X)
#undef X
        {"ncclGetErrorString", offsetof(struct nccl_library, error_text)},
    {"ncclGetLastError", offsetof(struct nccl_library, last_error)},
};

// Below the folder that a variable names; without one, wherever the pattern says. A pattern without
// a slash is for the loader.
static const struct {
    const char *variable, *pattern;
} places[] = {
    {"CUDA_HOME", "/lib64/" NAME},
    {NULL, "/usr/local/cuda/lib64/" NAME},
    {NULL, "/usr/local/cuda-1[3-9]*/lib64/" NAME},
    {NULL, NAME},
    {"VIRTUAL_ENV", "/lib" WITHIN},
    {"CONDA_PREFIX", "/lib" WITHIN},
    {"HOME", "/.local/lib" WITHIN},
    {NULL, "/opt/pytorch/lib" WITHIN},
    {NULL, "/opt/conda/lib" WITHIN},
    {NULL, "/usr/local/lib" WITHIN},
    {NULL, "/usr/local/lib/python3*/dist-packages/nvidia/nccl/lib/" NAME},
};

const char *nccl_version_text(char out[NCCL_VERSION_TEXT_BYTES], int version) {
    snprintf(out, NCCL_VERSION_TEXT_BYTES, "%d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
    return out;
}

void nccl_library_close(struct nccl_library *l) {
    if (l->handle)
        dlclose(l->handle);
    *l = (struct nccl_library){0};
}

// Takes the version first, so that an old library is called old and not broken.
static int resolve(struct nccl_library *l, struct err *e) {
    char version[NCCL_VERSION_TEXT_BYTES], needed[NCCL_VERSION_TEXT_BYTES];
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *symbol = dlsym(l->handle, calls[i].symbol);
        if (!symbol)
            return err_set(e, ERR_NOT_FOUND, "%s has no %s%s%s (try: NCCL 2.18 or newer)", l->path,
                           calls[i].symbol, l->version ? ": it is NCCL " : "",
                           l->version ? nccl_version_text(version, l->version) : "");
        memcpy((char *)l + calls[i].at, &symbol, sizeof symbol);
        if (i == 0 && l->get_version(&l->version) != NCCL_SUCCESS)
            return err_set(e, ERR_NOT_FOUND, "%s does not report its version", l->path);
        if (l->version < NCCL_VERSION_MIN)
            return err_set(e, ERR_NOT_FOUND, "%s is NCCL %s, and %s or newer is needed", l->path,
                           nccl_version_text(version, l->version),
                           nccl_version_text(needed, NCCL_VERSION_MIN));
    }
    return 0;
}

static int try(struct nccl_library *l, const char *path, struct err *e) {
    *l = (struct nccl_library){.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!l->handle)
        return err_set(e, ERR_NOT_FOUND, "%s", dlerror());
    snprintf(l->path, sizeof l->path, "%s", path);
    if (resolve(l, e) == 0)
        return 0;
    nccl_library_close(l);
    return -1;
}

static bool beside(char *out, size_t room) {
    ssize_t n = readlink("/proc/self/exe", out, room - 1);
    if (n <= 0)
        return false;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    size_t folder = slash ? (size_t)(slash - out) + 1 : 0;
    return folder && (size_t)snprintf(out + folder, room - folder, "%s", NAME) < room - folder &&
           access(out, F_OK) == 0;
}

// Keeps the reason of the first library that is there and not usable.
static int consider(struct nccl_library *l, const char *path, struct err *why) {
    static const char absent[] = NAME ": cannot open shared object file";
    struct err e;
    if (try(l, path, &e) == 0)
        return 0;
    if (why->code == ERR_NONE && strncmp(e.text, absent, sizeof absent - 1) != 0)
        *why = e;
    return -1;
}

// All matches of one place.
static int look(struct nccl_library *l, const char *pattern, struct err *why) {
    int r = -1;
    glob_t found;
    if (!strchr(pattern, '/'))
        return consider(l, pattern, why);
    if (glob(pattern, 0, NULL, &found) != 0)
        return -1;
    for (size_t i = 0; i < found.gl_pathc && r < 0; i++)
        r = consider(l, found.gl_pathv[i], why);
    globfree(&found);
    return r;
}

int nccl_library_open(struct nccl_library *l, char *const *env, struct err *e) {
    char path[NCCL_PATH_BYTES_MAX];
    const char *wanted = env_get(env, "DTCTL_NCCL");
    err_clear(e);
    if (wanted && *wanted) {
        if (try(l, wanted, e) == 0)
            return 0;
        e->code = ERR_CONFIG;
        return err_wrap(e, "DTCTL_NCCL");
    }
    if (beside(path, sizeof path) && consider(l, path, e) == 0)
        return 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *folder = places[i].variable ? env_get(env, places[i].variable) : "";
        if (!folder || (places[i].variable && !*folder))
            continue;
        int n = snprintf(path, sizeof path, "%s%s", folder, places[i].pattern);
        if (n > 0 && (size_t)n < sizeof path && look(l, path, e) == 0)
            return 0;
    }
    return e->code != ERR_NONE ? -1 : err_set(e, ERR_NOT_FOUND, "no " NAME " is here");
}
