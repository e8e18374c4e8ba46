// SPDX-License-Identifier: Apache-2.0
// Finds processes of a run with open GPU devices.
#include "worker/gpu_holders.h"

#include "base/arena.h"
#include "base/str.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char gpu[] = "/dev/nvidia";

// Excludes nvidiactl and nvidia-uvm, which are also open for queries of the driver.
static bool is_gpu(const char *path) {
    return strncmp(path, gpu, sizeof gpu - 1) == 0 && isdigit((unsigned char)path[sizeof gpu - 1]);
}

static bool machine_has_gpus(const char *root) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/driver/nvidia", root);
    return access(path, F_OK) == 0;
}

static bool holds_gpu(const char *root, const char *pid, struct device_holder *out) {
    char path[PATH_MAX], target[DEVICE_PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/proc/%s/fd", root, pid);
    struct file_entries in = file_entries_open(path);
    bool found = false;
    while (!found && file_entries_next(&in)) {
        ssize_t n = readlinkat(in.fd, in.name, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        found = is_gpu(target);
    }
    (void)file_entries_close(&in, 0, NULL);
    if (found)
        snprintf(out->device, sizeof out->device, "%s", target);
    return found;
}

// Reads a file of the process; NULL when it is unreadable.
static char *read_of(struct arena *a, const char *root, const char *pid, const char *name,
                     size_t bytes_max, size_t *len) {
    char *text;
    struct err e;
    const char *path = arena_printf(a, "%s/proc/%s/%s", root, pid, name);
    return file_read(a, path, bytes_max, &text, len, &e) == 0 ? text : NULL;
}

static bool is_of_run(const char *root, const char *pid, const char *run) {
    struct arena a = {0};
    size_t len;
    bool found = false;
    const char *want = arena_printf(&a, "TORCHELASTIC_RUN_ID=%s", run);
    const char *text = read_of(&a, root, pid, "environ", DEVICE_ENVIRON_BYTES_MAX, &len);
    if (text)
        for (const char *p = text; p < text + len && !found; p += strlen(p) + 1)
            found = strcmp(p, want) == 0;
    arena_fini(&a);
    return found;
}

static void take_name(const char *root, const char *pid, struct device_holder *out) {
    struct arena a = {0};
    size_t len;
    const char *text = read_of(&a, root, pid, "comm", PATH_MAX, &len);
    if (text)
        snprintf(out->name, sizeof out->name, "%s", str_printable(&a, text, strcspn(text, "\n")));
    arena_fini(&a);
}

bool worker_devices_held(const char *root, const char *run, struct device_holder *out) {
    char path[PATH_MAX];
    if (!machine_has_gpus(root))
        return false;
    snprintf(path, sizeof path, "%s/proc", root);
    struct file_entries in = file_entries_open(path);
    bool found = false;
    while (!found && file_entries_next(&in)) {
        if (!isdigit((unsigned char)in.name[0]))
            continue;
        *out = (struct device_holder){.pid = (pid_t)strtol(in.name, NULL, 10)};
        found =
            out->pid != getpid() && holds_gpu(root, in.name, out) && is_of_run(root, in.name, run);
        if (found)
            take_name(root, in.name, out);
    }
    (void)file_entries_close(&in, 0, NULL);
    return found;
}
