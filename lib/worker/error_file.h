// SPDX-License-Identifier: Apache-2.0
// The launcher's own error file (TORCHELASTIC_ERROR_FILE): a copy of the error file of the worker
// that failed first, with its exit code. TorchX, Kubernetes and outer launchers read it.
#ifndef WORKER_ERROR_FILE_H
#define WORKER_ERROR_FILE_H

#include "base/err.h"

enum { ERROR_FILE_BYTES_MAX = 1 << 20 };

// Sets message.errorCode if message is an object, as torchrun does.
int error_file_copy(const char *from, const char *to, int exit_code, struct err *e);

#endif
