// SPDX-License-Identifier: Apache-2.0
// Finds processes of a run that still hold a GPU open. None from an earlier round may remain when a
// round starts.
//
//     struct device_holder h;
//     if (worker_devices_held("", "run-1", &h)) …      // "/dev/nvidia0 by python3 (pid 12)"
//
// A process belongs to the run if its environment has TORCHELASTIC_RUN_ID=<run>. It holds a GPU if
// one of its descriptors is /dev/nvidia<number>. Both are read from /proc below root ("" for this
// machine; tests use a copy). Unreadable processes belong to other users.
#ifndef WORKER_GPU_HOLDERS_H
#define WORKER_GPU_HOLDERS_H

#include <stdbool.h>
#include <sys/types.h>

enum { DEVICE_PATH_BYTES_MAX = 64, DEVICE_NAME_BYTES_MAX = 32, DEVICE_ENVIRON_BYTES_MAX = 1 << 20 };

struct device_holder {
    pid_t pid;
    char name[DEVICE_NAME_BYTES_MAX];   // of the process, printable
    char device[DEVICE_PATH_BYTES_MAX]; // "/dev/nvidia0"
};

// Returns the first one; false when there is none. Costs nothing on a machine without GPUs.
bool worker_devices_held(const char *root, const char *run, struct device_holder *out);

#endif
