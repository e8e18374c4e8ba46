// SPDX-License-Identifier: Apache-2.0
// Error files, as torch.distributed.elastic writes them (TORCHELASTIC_ERROR_FILE):
// {"message": {"message": "…", "extraInfo": {"py_callstack": "…"}}}, or the message as plain text.
#ifndef WORKER_ERROR_FILE_H
#define WORKER_ERROR_FILE_H

#include "base/arena.h"
#include "base/err.h"

enum { ERROR_FILE_BYTES_MAX = 1 << 20 };

// The call stack of a worker's error file, else its message; "" where neither can be read.
const char *error_file_message(struct arena *a, const char *path);

// The launcher's own error file: a copy of the error file of the worker that failed first. TorchX,
// Kubernetes and outer launchers read it. Sets message.errorCode if message is an object, as
// torchrun does.
int error_file_copy(const char *from, const char *to, int exit_code, struct err *e);

#endif
