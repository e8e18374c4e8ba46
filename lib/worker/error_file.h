// SPDX-License-Identifier: Apache-2.0
// The launcher's own error file (TORCHELASTIC_ERROR_FILE): what the worker that failed first wrote
// into its one, with its exit code. TorchX, Kubernetes and launchers around this one read it.
#ifndef WORKER_ERROR_FILE_H
#define WORKER_ERROR_FILE_H

#include "base/err.h"

enum { ERROR_FILE_BYTES_MAX = 1 << 20 };

// message.errorCode is set where message is an object, as torchrun does it.
int error_file_copy(const char *from, const char *to, int exit_code, struct err *e);

#endif
