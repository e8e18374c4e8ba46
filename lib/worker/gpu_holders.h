// SPDX-License-Identifier: Apache-2.0
// Which processes of a run still hold a GPU open: before a round starts, none of an earlier round
// may.
//
//     struct device_holder h;
//     if (worker_devices_held("", "run-1", &h)) …      // "/dev/nvidia0 by python3 (pid 12)"
//
// A process is one of the run's if its environment has TORCHELASTIC_RUN_ID=<run>; it holds a GPU if
// one of its descriptors is /dev/nvidia<number>. Both are read from /proc, below root ("" for this
// machine; a test gives a made-up one). What may not be read belongs to somebody else.
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

// The first one found; false when there is none. Costs nothing on a machine without GPUs.
bool worker_devices_held(const char *root, const char *run, struct device_holder *out);

#endif
